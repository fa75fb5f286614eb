/* SPDX-License-Identifier: Apache-2.0 */
/* eval_auc.c - the area under the ROC curve: of all pairs of a positive and a negative sample, the
 * share in which the positive has the larger output; ties count half. The area depends only on the
 * order of the outputs.
 *
 *     up to EXACT samples of all trainers   every (output, label) goes to all ranks and is sorted:
 *                                           exact
 *     more                                  counts of positives and negatives in BUCKETS intervals
 *                                           of the output
 *
 * In buckets only the order of pairs within a bucket b is unknown. They count half, so the error is
 * at most
 *
 *     bound = 1/2 sum_b positives_b negatives_b / (positives negatives)
 *
 * The counts give this bound; it is reported beside the value ("auc.bound"). Outputs that are
 * probabilities have buckets of 2^-10 of their logit, from -16 to 16, which separates values near 0
 * and 1. Other outputs have buckets of 2^-10 of their asinh. Source: docs/sources.md#evaluators
 */
#include "nn/evals/eval_internal.h"

enum { EXACT = 1 << 17, BUCKETS = 1 << 15 };

struct nn_auc {
    uint64_t *pair; /* output in ascending order << 1 | label */
    size_t n, cap;
    int is_probability;
    /* [2 * BUCKETS]: negatives, positives; NULL: all samples are in `pair` */
    uint64_t *bucket;
    uint64_t n_nan;
    /* the total */
    double value, bound;
};

/* The inverse of nn_eval_ordered. */
static float unordered(uint32_t u) {
    float x;
    u = u >> 31 ? u & ~(1u << 31) : ~u;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t bucket_of(const struct nn_auc *a, float x) {
    double p = (double)x, v = a->is_probability ? log(p / (1 - p)) : asinh(p);
    v = (v + 16) * (BUCKETS / 32);
    return v >= BUCKETS - 1 ? BUCKETS - 1 : v > 0 ? (uint32_t)v : 0;
}

static void *auc_new(const struct nn_eval_node *ev) {
    (void)ev;
    return pd_calloc(1, sizeof(struct nn_auc));
}

static void auc_free(void *collected) {
    struct nn_auc *a = collected;
    free(a->pair);
    free(a->bucket);
    free(a);
}

static void auc_clear(void *collected) {
    struct nn_auc *a = collected;
    free(a->bucket);
    a->bucket = NULL;
    a->n = a->n_nan = 0;
}

static void count(struct nn_auc *a, uint64_t pair) {
    a->bucket[(pair & 1) * BUCKETS + bucket_of(a, unordered((uint32_t)(pair >> 1)))]++;
}

static int to_buckets(struct nn_auc *a) {
    if (a->bucket)
        return 0;
    if (!(a->bucket = pd_calloc(2 * BUCKETS, sizeof *a->bucket)))
        return PD_ENOMEM;
    for (size_t i = 0; i < a->n; i++)
        count(a, a->pair[i]);
    a->n = 0;
    return 0;
}

static int put(struct nn_auc *a, uint64_t pair) {
    if (!a->bucket && a->n == EXACT && to_buckets(a))
        return PD_ENOMEM;
    if (a->bucket) {
        count(a, pair);
        return 0;
    }
    if (pd_grow(a->pair, a->cap, a->n + 1))
        return PD_ENOMEM;
    a->pair[a->n++] = pair;
    return 0;
}

/* A single output is a score for class 1. If class 0 is the positive one, both orders turn round,
 * and the area is that of class 1. */
static int auc_add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    struct nn_auc *a = s->collected;
    const uint32_t column = r->cols > 1 ? r->positive : 0;
    const int turned = r->cols == 1 && !r->positive;
    a->is_probability = r->is_probability;
    for (uint32_t i = 0; i < r->n; i++) {
        float y = r->y[(size_t)i * r->cols + column];
        int positive = (r->label[i] == (double)r->positive) != turned;
        if (isnan(y))
            a->n_nan++;
        else if (put(a, (uint64_t)nn_eval_ordered(y) << 1 | (unsigned)positive))
            return PD_ENOMEM;
    }
    return 0;
}

static int auc_merge(void *to, const void *more) {
    struct nn_auc *into = to;
    const struct nn_auc *from = more;
    into->is_probability |= from->is_probability;
    into->n_nan += from->n_nan;
    if (from->bucket && to_buckets(into))
        return PD_ENOMEM;
    for (size_t i = 0; from->bucket && i < 2 * BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
    for (size_t i = 0; i < from->n; i++)
        if (put(into, from->pair[i]))
            return PD_ENOMEM;
    return 0;
}

static int by_pair(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Groups of equal outputs, the smallest first. Whole numbers: twice the number of pairs in order,
 * and the pairs within a group. */
struct area {
    unsigned __int128 twice, within;
    uint64_t positives, negatives;
};

static void add_group(struct area *s, uint64_t positives, uint64_t negatives) {
    s->twice += (unsigned __int128)positives * (2 * s->negatives + negatives);
    s->within += (unsigned __int128)positives * negatives;
    s->positives += positives;
    s->negatives += negatives;
}

static void finish_area(struct nn_auc *a, const struct area *s, double nan, int exact) {
    double pairs = (double)s->positives * (double)s->negatives;
    a->value = nan > 0 ? NAN : (double)s->twice / (2 * pairs);
    a->bound = exact ? 0 : (double)s->within / (2 * pairs);
}

/* Every rank puts its samples behind those of the ranks before it, and gets all samples. */
static int total_exact(struct nn_auc *a, const struct nn_eval_all *all, size_t before, size_t n,
                       double nan, struct pd_err *err) {
    struct area s = {0};
    double *v = pd_calloc(n, sizeof *v);
    uint64_t *p = pd_calloc(n, sizeof *p);
    int rc = v && p ? 0 : pd_fail(err, PD_ENOMEM, "no memory for %zu outputs", n);
    for (size_t i = 0; !rc && i < a->n; i++)
        v[before + i] = (double)a->pair[i];
    if (!rc)
        rc = nn_eval_sum(all, v, n, err);
    for (size_t i = 0; !rc && i < n; i++)
        p[i] = (uint64_t)v[i];
    if (!rc)
        qsort(p, n, sizeof *p, by_pair);
    for (size_t i = 0, j; !rc && i < n; i = j) {
        uint64_t positives = 0;
        for (j = i; j < n && p[j] >> 1 == p[i] >> 1; j++)
            positives += p[j] & 1;
        add_group(&s, positives, j - i - positives);
    }
    if (!rc)
        finish_area(a, &s, nan, 1);
    free(v);
    free(p);
    return rc;
}

static int total_buckets(struct nn_auc *a, const struct nn_eval_all *all, double nan,
                         struct pd_err *err) {
    struct area s = {0};
    double *v = pd_calloc(2 * BUCKETS, sizeof *v);
    int rc = v && !to_buckets(a) ? 0 : pd_fail(err, PD_ENOMEM, "no memory for counts");
    for (size_t i = 0; !rc && i < 2 * BUCKETS; i++)
        v[i] = (double)a->bucket[i];
    if (!rc)
        rc = nn_eval_sum(all, v, 2 * BUCKETS, err);
    for (size_t i = 0; !rc && i < BUCKETS; i++)
        add_group(&s, (uint64_t)v[BUCKETS + i], (uint64_t)v[i]);
    if (!rc)
        finish_area(a, &s, nan, 0);
    free(v);
    return rc;
}

static int auc_total(struct nn_eval_sums *s, const struct nn_eval_node *ev,
                     const struct nn_eval_all *all, struct pd_err *err) {
    struct nn_auc *a = s->collected;
    enum { NANS, MANY, KIND, OWN };
    (void)ev;
    size_t n = OWN + all->n_ranks, before = 0, total = 0;
    double *v = pd_calloc(n, sizeof *v);
    int rc = v ? 0 : pd_oom(err, "an evaluator");
    if (!rc) {
        v[NANS] = (double)a->n_nan;
        v[MANY] = a->bucket != NULL;
        v[KIND] = a->is_probability;
        v[OWN + all->rank] = (double)a->n;
        rc = nn_eval_sum(all, v, n, err);
    }
    for (uint32_t i = 0; !rc && i < all->n_ranks; i++) {
        before += i < all->rank ? (size_t)v[OWN + i] : 0;
        total += (size_t)v[OWN + i];
    }
    if (!rc) {
        /* a rank without samples does not know it */
        a->is_probability = v[KIND] > 0;
        rc = v[MANY] > 0 || total > EXACT ? total_buckets(a, all, v[NANS], err)
                                          : total_exact(a, all, before, total, v[NANS], err);
    }
    free(v);
    return rc;
}

static uint32_t finish(const double *sums, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    const struct nn_auc *a = s->collected;
    (void)sums;
    out[1] = (struct nn_value){"bound", a->bound};
    return nn_eval_one(out, a->value) + (a->bound > 0);
}

static const struct nn_collector collector = {auc_new, auc_free,  auc_clear,
                                              auc_add, auc_merge, auc_total};

const struct nn_evaluator nn_eval_auc = {
    .name = "auc",
    .collects = &collector,
    .finish = finish,
    .text = "share of pairs of a positive and a negative sample in the right order",
    .better = 1,
};
