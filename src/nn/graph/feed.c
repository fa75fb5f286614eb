/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - prepares a batch for execution: copies its fields, and makes for each table the sorted
 * unique keys and, for every look-up, the number of its key.
 *
 * The sort is a stable radix sort: equal keys stay in the order of (use, place). Tables that the
 * same fields look up (the wide and the deep part of a network) are sorted once. */
#include "nn/graph/sampler.h"

/* Initial room for look-ups; lists grow when a batch needs more. */
static size_t first_room(const struct nn_feed *f, const struct pd_field *field) {
    return field->kind == PD_DENSE
               ? 0
               : (size_t)f->max * (field->kind == PD_LIST && field->max_ids > 4 ? 4 : 1);
}

static int column_alloc(struct nn_feed *f, struct nn_column *c, const struct pd_field *field) {
    c->cap = first_room(f, field);
    if (field->kind == PD_DENSE)
        return (c->value = pd_alloc64((size_t)f->max * field->width * sizeof *c->value)) ? 0 : -1;
    if (!(c->ids = pd_calloc(c->cap, sizeof *c->ids)))
        return -1;
    if (field->kind == PD_LIST && !(c->offset = pd_calloc((size_t)f->max + 1, sizeof *c->offset)))
        return -1;
    return field->weighted && !(c->weight = pd_calloc(c->cap, sizeof *c->weight)) ? -1 : 0;
}

static int feed_alloc(struct nn_feed *f) {
    const struct nn_graph *g = f->g;
    f->col = pd_calloc(g->n_fields, sizeof *f->col);
    f->stream = pd_calloc(f->max, sizeof *f->stream);
    f->index = pd_calloc(f->max, sizeof *f->index);
    f->keys = pd_calloc(g->n_params, sizeof *f->keys);
    f->slot = pd_calloc(g->n_uses, sizeof *f->slot);
    f->slot_cap = pd_calloc(g->n_uses, sizeof *f->slot_cap);
    f->draw = pd_calloc(g->n_samplers, sizeof *f->draw);
    if (!f->col || !f->draw || !f->stream || !f->index || !f->keys || !f->slot || !f->slot_cap)
        return -1;
    for (uint32_t i = 0; i < g->n_fields; i++)
        if (column_alloc(f, &f->col[i], &g->node[i].field))
            return -1;
    return 0;
}

int nn_feed_new(struct nn_feed **out, const struct nn_graph *g, uint32_t max_batch,
                struct pd_err *err) {
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
    for (uint32_t i = 0; f->col && i < f->g->n_fields; i++) {
        free(f->col[i].ids);
        free(f->col[i].offset);
        free(f->col[i].weight);
        free(f->col[i].value);
    }
    for (uint32_t u = 0; f->slot && u < f->g->n_uses; u++)
        free(f->slot[u]);
    for (uint32_t p = 0; f->keys && p < f->g->n_params; p++)
        free(f->keys[p].at);
    for (uint32_t i = 0; f->draw && i < f->g->n_samplers; i++) {
        free(f->draw[i].ids);
        free(f->draw[i].group);
    }
    free(f->draw);
    free(f->col);
    free(f->slot);
    free(f->slot_cap);
    free(f->keys);
    free(f->stream);
    free(f->index);
    free(f->sort);
    free(f->spare);
    free(f);
}

/* --- the fields --- */

/* Number of ids of a field of ids or lists. */
static size_t n_ids(const struct nn_feed *f, uint32_t field) {
    return f->col[field].offset ? f->col[field].offset[f->n] : f->n;
}

int nn_feed_grow(void *at, size_t *cap, size_t need, size_t size) {
    void **p = at;
    if (need <= *cap && *p)
        return 0;
    free(*p);
    size_t n = need + need / 2 + 1;
    *p = pd_calloc(n, size);
    *cap = *p ? n : 0;
    return *p ? 0 : PD_ENOMEM;
}

static int copy_ids(struct nn_feed *f, const struct pd_batch *b, uint32_t k, struct pd_err *err) {
    const struct pd_field *field = &f->g->node[k].field;
    struct nn_column *c = &f->col[k];
    size_t n = b->n;
    if (field->kind == PD_LIST) {
        size_t cap = c->cap;
        n = b->offset[k][b->n];
        if (nn_feed_grow(&c->ids, &c->cap, n, sizeof *c->ids) ||
            (field->weighted && nn_feed_grow(&c->weight, &cap, n, sizeof *c->weight)))
            return pd_fail(err, PD_ENOMEM, "out of memory for %zu ids of field '%s'", n,
                           f->g->node[k].name);
        memcpy(c->offset, b->offset[k], ((size_t)b->n + 1) * sizeof *c->offset);
        if (field->weighted)
            memcpy(c->weight, b->values[k], n * sizeof *c->weight);
    }
    for (size_t i = 0; field->vocabulary && i < n; i++)
        if (b->ids[k][i] >= field->vocabulary) {
            uint32_t s = (uint32_t)i;
            for (s = 0; field->kind == PD_LIST ? b->offset[k][s + 1] <= i : s < i; s++)
                ;
            return pd_fail(
                err, PD_EDATA,
                "stream %u, sample %llu: field '%s' is %llu, but the vocabulary has %llu ids",
                b->stream[s], (unsigned long long)b->index[s], f->g->node[k].name,
                (unsigned long long)b->ids[k][i], (unsigned long long)field->vocabulary);
        }
    memcpy(c->ids, b->ids[k], n * sizeof *c->ids);
    return 0;
}

/* --- keys --- */

/* The ids of use u in this batch. */
static const uint64_t *ids_of(const struct nn_feed *f, uint32_t u, size_t *n) {
    const struct nn_use *use = &f->g->use[u];
    if (use->drawn) {
        *n = (size_t)f->draw[use->field].n_groups * f->g->sampler[use->field].n;
        return f->draw[use->field].ids;
    }
    *n = n_ids(f, use->field);
    return f->col[use->field].ids;
}

/* The first use of `param` from u on; n_uses: none. */
static uint32_t next_use(const struct nn_graph *g, uint32_t param, uint32_t u) {
    while (u < g->n_uses && g->use[u].param != param)
        u++;
    return u;
}

/* The first table that the same ids look up in the same order; this table if there is none before
 * it. */
static uint32_t twin_of(const struct nn_graph *g, uint32_t param) {
    for (uint32_t q = 0; q < param; q++) {
        uint32_t u = next_use(g, param, 0), v = next_use(g, q, 0);
        while (u < g->n_uses && v < g->n_uses && g->use[u].field == g->use[v].field &&
               g->use[u].drawn == g->use[v].drawn) {
            u = next_use(g, param, u + 1);
            v = next_use(g, q, v + 1);
        }
        if (u == g->n_uses && v == g->n_uses && g->param[q].kind == NN_TABLE)
            return q;
    }
    return param;
}

/* Copy the twin's keys; there is room for them. */
static void copy_keys(struct nn_feed *f, uint32_t param, uint32_t twin) {
    const struct nn_graph *g = f->g;
    f->keys[param].n = f->keys[twin].n;
    memcpy(f->keys[param].at, f->keys[twin].at, f->keys[twin].n * sizeof *f->keys[twin].at);
    for (uint32_t u = next_use(g, param, 0), v = next_use(g, twin, 0); u < g->n_uses;
         u = next_use(g, param, u + 1), v = next_use(g, twin, v + 1)) {
        size_t n;
        ids_of(f, u, &n);
        memcpy(f->slot[u], f->slot[v], n * sizeof *f->slot[u]);
    }
}

static int collect(struct nn_feed *f, uint32_t param, struct pd_err *err) {
    const struct nn_graph *g = f->g;
    struct nn_keys *keys = &f->keys[param];
    size_t total = 0, n = 0, spare_cap = f->sort_cap;
    uint32_t twin = twin_of(g, param);
    int bad = 0;
    for (uint32_t u = 0; u < g->n_uses; u++)
        if (g->use[u].param == param) {
            size_t ids;
            ids_of(f, u, &ids);
            bad |= nn_feed_grow(&f->slot[u], &f->slot_cap[u], ids, sizeof **f->slot);
            total += ids;
        }
    bad |= nn_feed_grow(&keys->at, &keys->cap, total, sizeof *keys->at) ||
           nn_feed_grow(&f->spare, &spare_cap, total, sizeof *f->spare) ||
           nn_feed_grow(&f->sort, &f->sort_cap, total, sizeof *f->sort);
    if (bad)
        return pd_fail(err, PD_ENOMEM, "out of memory for %zu look-ups in '%s'", total,
                       g->param[param].name);
    if (twin != param) {
        copy_keys(f, param, twin);
        return 0;
    }
    for (uint32_t u = 0; u < g->n_uses; u++) {
        size_t count;
        const uint64_t *ids = ids_of(f, u, &count);
        for (size_t i = 0; g->use[u].param == param && i < count; i++)
            f->sort[n++] = (struct pd_sort_key){ids[i], u, (uint32_t)i};
    }
    pd_key_sort(&f->sort, &f->spare, n);
    keys->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pd_sort_key *k = &f->sort[i];
        if (i == 0 || k->key != keys->at[keys->n - 1])
            keys->at[keys->n++] = k->key;
        f->slot[k->a][k->b] = keys->n - 1;
    }
    return 0;
}

int nn_feed_set(struct nn_feed *f, const struct pd_batch *b, struct pd_err *err) {
    const struct nn_graph *g = f->g;
    int rc = 0;
    assert(b->n >= 1 && b->n <= f->max && b->n_fields == g->n_fields);
    for (uint32_t k = 0; k < g->n_fields && !rc; k++) {
        const struct pd_field *field = &g->node[k].field;
        assert(b->field[k].kind == field->kind && b->field[k].width == field->width &&
               b->field[k].weighted == field->weighted);
        if (field->kind == PD_DENSE)
            memcpy(f->col[k].value, b->values[k], (size_t)b->n * field->width * sizeof(float));
        else
            rc = copy_ids(f, b, k, err);
    }
    if (rc)
        return rc;
    memcpy(f->stream, b->stream, b->n * sizeof *f->stream);
    memcpy(f->index, b->index, b->n * sizeof *f->index);
    f->n = b->n;
    for (uint32_t i = 0; i < g->n_samplers && !rc; i++)
        if (nn_draw_fill(&f->draw[i], &g->sampler[i], f))
            rc = pd_fail(err, PD_ENOMEM, "out of memory for the ids that are drawn");
    for (uint32_t p = 0; p < g->n_params && !rc; p++)
        if (g->param[p].kind == NN_TABLE)
            rc = collect(f, p, err);
    return rc;
}

int nn_feed_check_labels(const struct nn_feed *f, struct pd_err *err) {
    for (uint32_t c = 0; c < f->g->n_costs; c++) {
        const struct nn_cost_node *cost = &f->g->cost[c];
        const struct nn_column *label = &f->col[cost->label];
        for (uint32_t i = 0; cost->type->share && i < f->n; i++) {
            double v = label->value ? (double)label->value[i] : (double)label->ids[i];
            if (!(v >= 0 && v <= 1))
                return pd_fail(err, PD_EDATA,
                               "stream %u, sample %llu: label '%s' is %g, but cost '%s' (%s) takes "
                               "labels from 0 to 1",
                               f->stream[i], (unsigned long long)f->index[i],
                               f->g->node[cost->label].name, v, cost->name, cost->type->name);
        }
    }
    return 0;
}

void nn_feed_seed(struct nn_feed *f, uint64_t seed, uint64_t pass) {
    f->seed = seed;
    f->pass = pass;
}

uint32_t nn_feed_n(const struct nn_feed *f) { return f->n; }

const uint64_t *nn_feed_keys(const struct nn_feed *f, uint32_t param, uint32_t *n) {
    *n = f->keys[param].n;
    return f->keys[param].at;
}

/* The look-ups [*lo, *hi) of use u, which is not drawn, by the samples [first, first+n). */
static void range_of(const struct nn_feed *f, uint32_t u, uint32_t first, uint32_t n, size_t *lo,
                     size_t *hi) {
    const uint32_t *offset = f->col[f->g->use[u].field].offset;
    *lo = offset ? offset[first] : first;
    *hi = offset ? offset[first + n] : first + n;
}

/* Clicked: a number above 0, an id other than 0. */
static int clicked(const struct nn_feed *f, int field, uint32_t sample) {
    if (field < 0)
        return 0;
    const struct nn_column *c = &f->col[field];
    return c->value ? c->value[(size_t)sample * f->g->node[field].field.width] > 0
                    : c->ids[sample] != 0;
}

void nn_feed_count_shown(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                         uint32_t *seen) {
    assert(first <= f->n && n <= f->n - first);
    memset(seen, 0, 2 * (size_t)f->keys[param].n * sizeof *seen);
    for (uint32_t u = 0; u < f->g->n_uses; u++) {
        if (f->g->use[u].param != param || f->g->use[u].drawn)
            continue;
        for (uint32_t i = first; i < first + n; i++) {
            const uint32_t click = (uint32_t)clicked(f, f->g->param[param].click, i);
            size_t lo, hi;
            for (range_of(f, u, i, 1, &lo, &hi); lo < hi; lo++) {
                seen[2 * f->slot[u][lo]]++;
                seen[2 * f->slot[u][lo] + 1] += click;
            }
        }
    }
}

void nn_feed_mark_keys(const struct nn_feed *f, uint32_t param, uint32_t first, uint32_t n,
                       uint64_t *bits) {
    assert(first <= f->n && n <= f->n - first);
    for (uint32_t u = 0; u < f->g->n_uses; u++) {
        if (f->g->use[u].param != param || !n)
            continue;
        const struct nn_use *use = &f->g->use[u];
        size_t lo = first, hi = first + n;
        if (use->drawn) {
            const uint32_t *group = f->draw[use->field].group;
            lo = (size_t)group[lo] * f->g->sampler[use->field].n;
            hi = ((size_t)group[hi - 1] + 1) * f->g->sampler[use->field].n;
        } else {
            range_of(f, u, first, n, &lo, &hi);
        }
        for (size_t i = lo; i < hi; i++)
            bits[f->slot[u][i] / 64] |= UINT64_C(1) << f->slot[u][i] % 64;
    }
}
