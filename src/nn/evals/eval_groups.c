/* SPDX-License-Identifier: Apache-2.0 */
/* eval_groups.c - samples by group, for evaluators that are a mean over groups (users, queries). A
 * group's value needs all of its samples, from all threads and ranks.
 *
 *     add     (hash of the group's id, score, label) of each sample, 16 bytes
 *     total   1. The ranks agree on a level, see below.
 *             2. The leading bits of the hash cut the groups into parts of about PART samples. Part
 *                after part, every rank puts its samples behind those of the ranks before it, and
 *                gets all samples of the part. The hash chooses the rank that computes a group,
 *                of those that take part: trainers may be lost.
 *             3. The sums of all ranks are added (eval.c).
 *
 * Bounds: a thread keeps at most max_samples samples; a rank sends and receives 16 bytes for each
 * sample of all ranks that is kept, and at once it holds those of a part. One rank sends nothing.
 *
 * Beyond max_samples of all ranks whole groups are left out: those whose hash ends with fewer than
 * `level` zero bits, half of the groups left at each level. The level is the lowest at which the
 * samples of all ranks fit. A thread raises its own level when its samples do not fit; their
 * number is at most that of all, so no thread goes beyond the level of all. So the groups that
 * count depend only on the data, not on how they were cut into threads and ranks, and all passes
 * and models are compared by the same groups. Source: docs/sources.md#evaluators */
#include "nn/evals/eval_internal.h"
#include "nn/graph/graph_internal.h"
#include "math/hash.h"

enum { PART = 1 << 17, LEVELS = 64, NUMBERS = 2 /* of a sample */, LOW_BITS = 20, PAIR_BITS = 33 };

struct groups {
    struct nn_eval_item *item;
    size_t n, cap, max;
    uint32_t level; /* LEVELS: no group is left */
};

static void *groups_new(const struct nn_eval_node *ev) {
    struct groups *c = pd_calloc(1, sizeof *c);
    if (c)
        c->max = ev->max_samples;
    return c;
}

static void groups_free(void *collected) {
    struct groups *c = collected;
    free(c->item);
    free(c);
}

static void groups_clear(void *collected) {
    struct groups *c = collected;
    c->n = c->level = 0;
}

static uint32_t level_of(uint64_t group) {
    return group ? (uint32_t)__builtin_ctzll(group) : LEVELS - 1;
}

static void raise_level(struct groups *c, uint32_t level) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (level_of(c->item[i].group) >= level)
            c->item[n++] = c->item[i];
    c->n = n;
    c->level = level;
}

static int put(struct groups *c, struct nn_eval_item x) {
    const uint32_t level = level_of(x.group);
    while (c->n == c->max && level >= c->level)
        raise_level(c, c->level + 1);
    if (level < c->level)
        return 0;
    if (pd_grow(c->item, c->cap, c->n + 1))
        return PD_ENOMEM;
    c->item[c->n++] = x;
    return 0;
}

static int groups_add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    /* Without an offset, id 0 would have hash 0, which stays at every level. */
    const uint64_t offset = UINT64_C(0x9e3779b97f4a7c15);
    const uint32_t column = r->cols > 1 ? r->positive : 0;
    const int turned = r->cols == 1 && !r->positive;
    uint32_t n_nan = 0;
    int rc = 0;
    for (uint32_t i = 0; i < r->n && !rc; i++) {
        const float y = r->y[(size_t)i * r->cols + column];
        const unsigned positive = r->label[i] == (double)r->positive;
        n_nan += (uint32_t) !!isnan(y);
        rc =
            put(s->collected,
                (struct nn_eval_item){pd_mix64(r->group[i] + offset),
                                      (uint64_t)~nn_eval_ordered(turned ? -y : y) << 1 | positive});
    }
    pd_exact_sum_add(&s->sum[NN_GROUP_SAMPLES], r->n);
    pd_exact_sum_add(&s->sum[NN_GROUP_NANS], n_nan);
    return rc;
}

static int groups_merge(void *to, const void *more) {
    struct groups *into = to;
    const struct groups *from = more;
    int rc = 0;
    if (from->level > into->level)
        raise_level(into, from->level);
    for (size_t i = 0; i < from->n && !rc; i++)
        rc = put(into, from->item[i]);
    return rc;
}

/* --- the total: numbers from other ranks are checked before they are used --- */

static int is_whole(double v, uint64_t most) {
    return v >= 0 && v <= (double)most && v == floor(v);
}

static int bad_sum(double v, struct pd_err *err) {
    return pd_fail(err, PD_EPROTO, "%g is no sum of the numbers of an evaluator", v);
}

/* Agrees on the level; *n: the samples of all ranks that are left. */
static int agree(struct groups *c, const struct nn_eval_all *all, size_t *n, struct pd_err *err) {
    double v[LEVELS] = {0};
    uint32_t level = 0;
    for (size_t i = 0; i < c->n; i++)
        v[level_of(c->item[i].group)]++;
    for (int i = LEVELS - 2; i >= 0; i--)
        v[i] += v[i + 1];
    for (uint32_t i = 0; i < c->level; i++)
        v[i] = (double)c->max + 1;
    int rc = nn_eval_sum(all, v, LEVELS, err);
    while (!rc && level < LEVELS && !is_whole(v[level], c->max))
        level++;
    if (!rc && level > c->level)
        raise_level(c, level);
    *n = !rc && level < LEVELS ? (size_t)v[level] : 0;
    return rc;
}

static int by_group(const void *a, const void *b) {
    const struct nn_eval_item *x = a, *y = b;
    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->pair > y->pair) - (x->pair < y->pair);
}

size_t nn_eval_tied(const struct nn_eval_group *g, size_t i, size_t *positives) {
    const uint64_t score = g->item[i].pair >> 1;
    for (*positives = 0; i < g->n && g->item[i].pair >> 1 == score; i++)
        *positives += g->item[i].pair & 1;
    return i;
}

/* Of `of` ranks that take part, this is number `number`. */
struct turn {
    uint32_t number, of;
};

/* Adds the terms of this rank's groups among n sorted items. */
static void add_groups(struct nn_eval_sums *s, const struct nn_eval_node *ev, struct turn turn,
                       const struct nn_eval_item *item, size_t n) {
    for (size_t i = 0, j; i < n; i = j) {
        struct nn_eval_group g = {.item = item + i, .k = ev->k};
        for (j = i; j < n && item[j].group == item[i].group; j++)
            g.positives += item[j].pair & 1;
        g.n = j - i;
        if ((uint32_t)(item[i].group >> 32) % turn.of != turn.number)
            continue;
        const double value = ev->type->of_group(&g);
        if (isnan(value))
            continue;
        const double weight = ev->weight == NN_WEIGHT_SAMPLES     ? (double)g.n
                              : ev->weight == NN_WEIGHT_POSITIVES ? (double)g.positives
                                                                  : 1;
        pd_exact_sum_add(&s->sum[NN_GROUP_VALUE], weight * value);
        pd_exact_sum_add(&s->sum[NN_GROUP_WEIGHT], weight);
        pd_exact_sum_add(&s->sum[NN_GROUP_COUNTED], (double)g.n);
    }
}

struct gathered { /* for the samples of a part */
    double *v;
    struct nn_eval_item *item;
    size_t cap_v, cap_item;
    struct turn turn;
};

/* A sample is two whole numbers, below 2^44 and 2^53. */
static void to_numbers(const struct nn_eval_item *x, double v[NUMBERS]) {
    v[0] = (double)(x->group >> LOW_BITS);
    v[1] = (double)((x->group & ((1u << LOW_BITS) - 1)) << PAIR_BITS | x->pair);
}

static int from_numbers(const double v[NUMBERS], struct nn_eval_item *x, struct pd_err *err) {
    const uint64_t most[NUMBERS] = {UINT64_MAX >> LOW_BITS,
                                    UINT64_MAX >> (64 - LOW_BITS - PAIR_BITS)};
    for (int k = 0; k < NUMBERS; k++)
        if (!is_whole(v[k], most[k]))
            return bad_sum(v[k], err);
    const uint64_t low = (uint64_t)v[1];
    *x = (struct nn_eval_item){(uint64_t)v[0] << LOW_BITS | low >> PAIR_BITS,
                               low & ((UINT64_C(1) << PAIR_BITS) - 1)};
    return 0;
}

/* Gets the samples of all ranks in a part, `most` or fewer; `own` are the n_own samples of this
 * rank. A trainer that was started again has other samples than the process whose sums it gets. */
static int gather(struct gathered *m, const struct nn_eval_item *own, size_t n_own,
                  const struct nn_eval_all *all, size_t most, size_t *n, struct pd_err *err) {
    const size_t numbers = 2 * (size_t)all->n_ranks; /* samples; 1: takes part */
    size_t before = 0, total = 0;
    if (pd_grow(m->v, m->cap_v, numbers))
        return pd_oom(err, "an evaluator");
    memset(m->v, 0, numbers * sizeof *m->v);
    m->v[all->rank] = (double)n_own;
    m->v[all->n_ranks + all->rank] = 1;
    int rc = nn_eval_sum(all, m->v, numbers, err);
    m->turn = (struct turn){0};
    for (uint32_t i = 0; !rc && i < all->n_ranks; i++) {
        const uint32_t is_here = m->v[all->n_ranks + i] > 0;
        if (!is_whole(m->v[i], most - total))
            return bad_sum(m->v[i], err);
        before += i < all->rank ? (size_t)m->v[i] : 0;
        total += (size_t)m->v[i];
        m->turn.number += i < all->rank ? is_here : 0;
        m->turn.of += is_here;
    }
    if (!rc && !m->turn.of)
        return bad_sum(0, err);
    if (!rc && m->v[all->rank] < (double)n_own)
        n_own = (size_t)m->v[all->rank];
    if (!rc && (pd_grow(m->v, m->cap_v, NUMBERS * total) || pd_grow(m->item, m->cap_item, total)))
        rc = pd_fail(err, PD_ENOMEM, "no memory for the %zu samples of an evaluator", total);
    *n = total;
    if (rc || !total)
        return rc;
    memset(m->v, 0, NUMBERS * total * sizeof *m->v);
    for (size_t i = 0; i < n_own; i++)
        to_numbers(own + i, m->v + NUMBERS * (before + i));
    rc = nn_eval_sum(all, m->v, NUMBERS * total, err);
    for (size_t i = 0; !rc && i < total; i++)
        rc = from_numbers(m->v + NUMBERS * i, &m->item[i], err);
    return rc;
}

static int groups_total(struct nn_eval_sums *s, const struct nn_eval_node *ev,
                        const struct nn_eval_all *all, struct pd_err *err) {
    struct groups *c = s->collected;
    struct gathered got = {0};
    uint32_t bits = 0;
    size_t total = 0, n = 0;
    int rc = agree(c, all, &total, err);
    memset(s->sum, 0, NN_GROUP_SAMPLES * sizeof *s->sum); /* of an earlier total */
    while (total >> bits > PART)
        bits++;
    if (!rc && c->n)
        qsort(c->item, c->n, sizeof *c->item, by_group);
    if (!rc && all->n_ranks == 1) {
        add_groups(s, ev, (struct turn){0, 1}, c->item, c->n);
        return 0;
    }
    for (size_t part = 0, at = 0, end; !rc && part < (size_t)1 << bits; part++, at = end) {
        for (end = at; end < c->n && (!bits || c->item[end].group >> (64 - bits) == part);)
            end++;
        rc = gather(&got, c->item + at, end - at, all, total, &n, err);
        if (!rc && n)
            qsort(got.item, n, sizeof *got.item, by_group);
        if (!rc)
            add_groups(s, ev, got.turn, got.item, n);
    }
    free(got.v);
    free(got.item);
    return rc;
}

uint32_t nn_eval_groups_finish(const double *sum, const struct nn_eval_sums *s,
                               struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    out[1] = (struct nn_value){"share", sum[NN_GROUP_COUNTED] / sum[NN_GROUP_SAMPLES]};
    return nn_eval_one(out,
                       sum[NN_GROUP_NANS] > 0 ? NAN : sum[NN_GROUP_VALUE] / sum[NN_GROUP_WEIGHT]) +
           1;
}

const struct nn_collector nn_eval_groups = {groups_new, groups_free,  groups_clear,
                                            groups_add, groups_merge, groups_total};
