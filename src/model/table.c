/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. */
#include "model/table.h"

struct model_table {
    uint32_t dim;
    struct model_span *span;
    size_t n_spans;
    uint64_t n_rows; /* of all spans */
    int layers;      /* 1: a row may be in several spans */
    char name[MODEL_NAME_MAX + 1];
};

static int add_span(void *arg, const struct model_span *s, struct pd_err *err) {
    struct model_table *t = arg;
    struct model_span *grown = pd_realloc(t->span, (t->n_spans + 1) * sizeof *grown);
    if (!grown)
        return pd_fail(err, PD_ENOMEM, "out of memory for table '%s'", t->name);
    t->span = grown;
    t->layers |= t->n_spans && t->span[t->n_spans - 1].part == s->part;
    t->span[t->n_spans++] = *s;
    t->n_rows += s->n;
    return 0;
}

int model_table_open(struct model_table **out, struct model *m, const char *name,
                     struct pd_err *err) {
    struct model_table *t = pd_calloc(1, sizeof *t);
    if (!t)
        return pd_fail(err, PD_ENOMEM, "out of memory for table '%s'", name);
    const struct model_param *p = model_find_param(m, name);
    if (p) {
        memcpy(t->name, p->name, sizeof t->name);
        t->dim = p->dim;
    }
    int rc = model_each_span(m, name, add_span, t, err);
    if (rc)
        model_table_close(t);
    else
        *out = t;
    return rc;
}

void model_table_close(struct model_table *t) {
    if (!t)
        return;
    free(t->span);
    free(t);
}

/* The expected position of a key if keys were spread evenly between the ends. */
static uint64_t interpolate(uint64_t lo, uint64_t hi, uint64_t first, uint64_t last, uint64_t key) {
    return lo + (uint64_t)((unsigned __int128)(hi - lo) * (key - first) / (last - first));
}

/* The index of the key in keys[0..n), or n. Every second probe halves the range, so there are at
 * most 2 log2(n) probes for any keys. */
static uint64_t find_key(const uint64_t *keys, uint64_t n, uint64_t key) {
    uint64_t lo = 0, hi = n - 1;
    for (int probe = 0; lo <= hi && key >= keys[lo] && key <= keys[hi]; probe++) {
        uint64_t mid = keys[lo] == keys[hi] || probe % 2
                           ? lo + (hi - lo) / 2
                           : interpolate(lo, hi, keys[lo], keys[hi], key);
        if (keys[mid] == key)
            return mid;
        if (keys[mid] < key)
            lo = mid + 1;
        else if (mid == 0)
            break;
        else
            hi = mid - 1;
    }
    return n;
}

const float *model_table_find(const struct model_table *t, uint64_t key) {
    for (size_t i = 0; i < t->n_spans; i++) {
        uint64_t k = find_key(t->span[i].keys, t->span[i].n, key);
        if (k < t->span[i].n)
            return t->span[i].rows + k * t->dim;
    }
    return NULL;
}

/* --- all rows in order: a heap of the spans by their next key --- */

struct span_head {
    const struct model_span *s;
    uint64_t at;
};

static uint64_t key_of(const struct span_head *h) { return h->s->keys[h->at]; }

/* For equal keys in layers of a part the highest layer comes first. */
static int comes_before(const struct span_head *a, const struct span_head *b) {
    return key_of(a) < key_of(b) || (key_of(a) == key_of(b) && a->s < b->s);
}

static void sift(struct span_head *heap, size_t n, size_t i) {
    for (;;) {
        size_t least = i, l = 2 * i + 1, r = l + 1;
        if (l < n && comes_before(&heap[l], &heap[least]))
            least = l;
        if (r < n && comes_before(&heap[r], &heap[least]))
            least = r;
        if (least == i)
            return;
        struct span_head x = heap[i];
        heap[i] = heap[least];
        heap[least] = x;
        i = least;
    }
}

int model_table_walk(const struct model_table *t,
                     int (*each)(void *arg, uint64_t key, const float *row, struct pd_err *err),
                     void *arg, struct pd_err *err) {
    struct span_head *heap = pd_calloc(t->n_spans + 1, sizeof *heap);
    size_t n = 0;
    int rc = heap ? 0 : pd_fail(err, PD_ENOMEM, "out of memory for table '%s'", t->name);
    for (; !rc && n < t->n_spans; n++)
        heap[n] = (struct span_head){&t->span[n], 0};
    for (size_t i = n / 2; i-- > 0;)
        sift(heap, n, i);
    const struct model_span *of = NULL; /* of the previous row */
    uint64_t last = 0;
    while (!rc && n) {
        uint64_t key = key_of(heap);
        int older = of && key == last && of != heap->s && of->part == heap->s->part;
        if (of && key <= last && !older)
            rc = pd_fail(err, PD_EDATA,
                         "table '%s': key %llu follows %llu: a part is not sorted, or two parts "
                         "have the same row",
                         t->name, (unsigned long long)key, (unsigned long long)last);
        else if (!older)
            rc = each(arg, key, heap->s->rows + heap->at * t->dim, err);
        of = heap->s;
        last = key;
        if (++heap->at == heap->s->n)
            heap[0] = heap[--n];
        sift(heap, n, 0);
    }
    free(heap);
    return rc;
}

static int count_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    (void)key;
    (void)row;
    (void)err;
    ++*(uint64_t *)arg;
    return 0;
}

int model_table_rows(const struct model_table *t, uint64_t *n, struct pd_err *err) {
    *n = t->layers ? 0 : t->n_rows;
    return t->layers ? model_table_walk(t, count_row, n, err) : 0;
}
