/* feed.c - a batch made ready for execution: a copy of its ids, and per table the sorted unique keys with, for every
 * look-up, the number of its key. The sort is a stable radix sort, so that the order of equal keys is that of
 * (use, sample), and passes over bytes that are all alike cost only their count. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "nn/internal.h"

static uint32_t uses_of(const struct nn_graph *g, uint32_t param) {
    uint32_t n = 0;
    for (uint32_t u = 0; u < g->n_uses; u++)
        n += g->use[u].param == param;
    return n;
}

static int feed_alloc(struct nn_feed *f) {
    const struct nn_graph *g = f->g;
    uint32_t most = 0;
    f->ids = pd_calloc(g->n_fields, sizeof *f->ids);
    f->stream = pd_calloc(f->max, sizeof *f->stream);
    f->index = pd_calloc(f->max, sizeof *f->index);
    f->keys = pd_calloc(g->n_params, sizeof *f->keys);
    f->slot = pd_calloc(g->n_uses, sizeof *f->slot);
    if (!f->ids || !f->stream || !f->index || !f->keys || !f->slot)
        return -1;
    for (uint32_t i = 0; i < g->n_fields; i++)
        if (!(f->ids[i] = pd_calloc(f->max, sizeof **f->ids)))
            return -1;
    for (uint32_t u = 0; u < g->n_uses; u++)
        if (!(f->slot[u] = pd_calloc(f->max, sizeof **f->slot)))
            return -1;
    for (uint32_t p = 0; p < g->n_params; p++) {
        uint32_t n = uses_of(g, p);
        if (n && !(f->keys[p].at = pd_calloc((size_t)n * f->max, sizeof(uint64_t))))
            return -1;
        most = n > most ? n : most;
    }
    f->sort = pd_calloc((size_t)most * f->max, sizeof *f->sort);
    f->spare = pd_calloc((size_t)most * f->max, sizeof *f->spare);
    return f->sort && f->spare ? 0 : -1;
}

int nn_feed_new(struct nn_feed **out, const struct nn_graph *g, uint32_t max_batch, struct pd_err *err) {
    struct nn_feed *f = pd_calloc(1, sizeof *f);
    if (f) {
        f->g = g;
        f->max = max_batch;
    }
    if (!f || feed_alloc(f)) {
        nn_feed_free(f);
        return pd_fail(err, PD_ENOMEM, "out of memory for a batch of %u samples", max_batch);
    }
    *out = f;
    return 0;
}

void nn_feed_free(struct nn_feed *f) {
    if (!f)
        return;
    for (uint32_t i = 0; f->ids && i < f->g->n_fields; i++)
        free(f->ids[i]);
    for (uint32_t u = 0; f->slot && u < f->g->n_uses; u++)
        free(f->slot[u]);
    for (uint32_t p = 0; f->keys && p < f->g->n_params; p++)
        free(f->keys[p].at);
    free(f->ids);
    free(f->slot);
    free(f->keys);
    free(f->stream);
    free(f->index);
    free(f->sort);
    free(f->spare);
    free(f);
}

/* Sorts f->sort[0..n) by key, bytes from the lowest; the result is in f->sort again. */
static void radix_sort(struct nn_feed *f, uint32_t n) {
    for (int shift = 0; shift < 64; shift += 8) {
        uint32_t count[257] = {0};
        for (uint32_t i = 0; i < n; i++)
            count[(f->sort[i].key >> shift & 255) + 1]++;
        if (count[(f->sort[0].key >> shift & 255) + 1] == n)
            continue;
        for (int d = 0; d < 256; d++)
            count[d + 1] += count[d];
        for (uint32_t i = 0; i < n; i++)
            f->spare[count[f->sort[i].key >> shift & 255]++] = f->sort[i];
        struct nn_keyed *t = f->sort;
        f->sort = f->spare;
        f->spare = t;
    }
}

static void collect(struct nn_feed *f, uint32_t param) {
    const struct nn_graph *g = f->g;
    struct nn_keys *keys = &f->keys[param];
    uint32_t n = 0;
    for (uint32_t u = 0; u < g->n_uses; u++)
        for (uint32_t i = 0; g->use[u].param == param && i < f->n; i++)
            f->sort[n++] = (struct nn_keyed){f->ids[g->use[u].field][i], u, i};
    radix_sort(f, n);
    keys->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct nn_keyed *k = &f->sort[i];
        if (i == 0 || k->key != keys->at[keys->n - 1])
            keys->at[keys->n++] = k->key;
        f->slot[k->use][k->sample] = keys->n - 1;
    }
}

int nn_feed_set(struct nn_feed *f, const struct pd_batch *b, struct pd_err *err) {
    const struct nn_graph *g = f->g;
    uint64_t vocabulary = g->model->data.vocabulary.value;
    assert(b->n >= 1 && b->n <= f->max && b->n_fields == g->n_fields);
    for (uint32_t k = 0; k < g->n_fields; k++) {
        for (uint32_t i = 0; i < b->n; i++)
            if (b->ids[k][i] >= vocabulary)
                return pd_fail(err, PD_EDATA, "stream %u, sample %llu: field '%s' is %llu, but the vocabulary has %llu ids",
                               b->stream[i], (unsigned long long)b->index[i], g->node[k].name,
                               (unsigned long long)b->ids[k][i], (unsigned long long)vocabulary);
        memcpy(f->ids[k], b->ids[k], b->n * sizeof **f->ids);
    }
    memcpy(f->stream, b->stream, b->n * sizeof *f->stream);
    memcpy(f->index, b->index, b->n * sizeof *f->index);
    f->n = b->n;
    for (uint32_t p = 0; p < g->n_params; p++)
        if (g->param[p].kind == NN_TABLE)
            collect(f, p);
    return 0;
}

uint32_t nn_feed_n(const struct nn_feed *f) { return f->n; }

const uint64_t *nn_feed_keys(const struct nn_feed *f, uint32_t param, uint32_t *n) {
    *n = f->keys[param].n;
    return f->keys[param].at;
}

void nn_feed_mark(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n, uint64_t *bits) {
    assert(first <= f->n && n <= f->n - first);
    for (uint32_t u = 0; u < f->g->n_uses; u++)
        for (uint32_t i = first; f->g->use[u].param == param && i < first + n; i++)
            bits[f->slot[u][i] / 64] |= UINT64_C(1) << f->slot[u][i] % 64;
}
