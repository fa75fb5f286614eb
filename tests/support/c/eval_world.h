/* SPDX-License-Identifier: Apache-2.0 */
/* eval_world.h - samples with given outputs, labels and groups, and evaluators over them: on one
 * rank with one thread, or on several. */
#pragma once

#include "math/rng.h"
#include "nn/evals/eval_internal.h"
#include "nn/graph/graph_internal.h"

enum { MAX_RANKS = 7, BATCH = 64, MAX_SUMS = 64 };

struct world {
    const struct nn_evaluator *type;
    const char *act; /* the activation of the evaluated layer */
    uint32_t n, cols;
    float *y;        /* [n x cols] */
    uint64_t *label; /* [n] */
    uint64_t *group; /* [n] */
    double threshold;
    uint32_t positive, k;
    uint32_t n_slices; /* of the field `group`; 0: none */
    enum nn_group_weight weight;
    size_t max_samples;
    uint32_t n_threads; /* evaluators that a rank merges; 0: one */
};

/* One thread runs all ranks. The k-th sum of a rank is computed from the terms that the other ranks
 * gave to their k-th sum. The evaluators of all ranks run in turn until every sum has all its
 * terms. */
struct ring {
    double *term[MAX_RANKS][MAX_SUMS], *total[MAX_SUMS];
    size_t n[MAX_SUMS];
    uint32_t rank, n_ranks, call;
    int need; /* the first unknown sum: the run is repeated */
};

static inline int ring_sum(void *arg, double *v, size_t n, struct pd_err *err) {
    struct ring *r = arg;
    uint32_t k = r->call++;
    assert_true(k < MAX_SUMS);
    if (r->total[k]) {
        assert_int_equal(r->n[k], n);
        memcpy(v, r->total[k], n * sizeof *v);
        return 0;
    }
    r->n[k] = n;
    r->term[r->rank][k] = malloc(n * sizeof *v);
    memcpy(r->term[r->rank][k], v, n * sizeof *v);
    r->need = (int)k;
    return pd_fail(err, PD_ECANCELED, "not yet");
}

/* The network: fields `label` and `group`, then the layer. */
struct world_graph {
    struct nn_act act;
    struct nn_node node[3];
    struct nn_graph g;
};

static inline struct nn_graph *world_graph(const struct world *w, struct world_graph *x,
                                           struct nn_eval_node *ev, uint32_t n_evals) {
    *x = (struct world_graph){.act = {.name = w->act}};
    x->node[0].size = x->node[1].size = 1;
    x->node[2] = (struct nn_node){.id = 2, .size = w->cols, .act = &x->act};
    x->g = (struct nn_graph){
        .n_fields = 2, .n_nodes = 3, .n_evals = n_evals, .n_costs = 1, .node = x->node, .eval = ev};
    return &x->g;
}

static inline struct nn_eval_node world_evaluator(const struct world *w) {
    return (struct nn_eval_node){.name = "q",
                                 .type = w->type,
                                 .input = w->type->of_cost ? 0 : 2,
                                 .label = 0,
                                 .threshold = w->threshold,
                                 .positive = w->positive,
                                 .group = 1,
                                 .slice = 1,
                                 .n_slices = w->n_slices,
                                 .k = w->k,
                                 .weight = w->weight,
                                 .max_samples = w->max_samples};
}

/* Adds the samples [at, end) in batches of unequal size. */
static inline void world_add(const struct world *w, struct nn_graph *g, struct nn_eval *v,
                             uint32_t at, uint32_t end, uint32_t size) {
    struct nn_column col[2] = {{0}};
    struct nn_feed feed = {.g = g, .col = col};
    struct nn_state state[3] = {{0}};
    double cost;
    struct nn_exec e = {.g = g, .max = BATCH, .feed = &feed, .state = state, .cost_sum = &cost};
    for (; at < end; at += e.n, size = size % BATCH + 1) {
        e.n = end - at < size ? end - at : size;
        col[0].ids = w->label + at;
        col[1].ids = w->group + at;
        state[2].y = w->y + (size_t)at * w->cols;
        cost = 0;
        for (uint32_t i = 0; i < e.n; i++)
            cost += (double)state[2].y[i * w->cols];
        assert_int_equal(nn_eval_add(v, &e, NULL), 0);
    }
}

/* The evaluators of a rank with its share of the samples, cut among its threads. */
static inline struct nn_eval *fill(const struct world *w, struct nn_graph *g, uint32_t rank,
                                   uint32_t n_ranks) {
    const uint32_t n_threads = w->n_threads ? w->n_threads : 1, n = n_ranks * n_threads;
    struct nn_eval *v = NULL, *more;
    for (uint32_t t = 0; t < n_threads; t++) {
        const uint32_t piece = rank * n_threads + t;
        assert_int_equal(nn_eval_new(&more, g, NULL), 0);
        world_add(w, g, more, (uint32_t)((uint64_t)w->n * piece / n),
                  (uint32_t)((uint64_t)w->n * (piece + 1) / n), 1 + rank);
        if (!v) {
            v = more;
            continue;
        }
        assert_int_equal(nn_eval_merge(v, more, NULL), 0);
        nn_eval_free(more);
    }
    return v;
}

/* Evaluates over n_ranks ranks, and checks that all ranks get equal values. */
static inline uint32_t evaluate(const struct world *w, uint32_t n_ranks,
                                double out[NN_EVAL_VALUES]) {
    struct world_graph net;
    struct nn_eval_node ev = world_evaluator(w);
    struct nn_graph *g = world_graph(w, &net, &ev, 1);
    struct nn_eval *v[MAX_RANKS];
    struct ring ring = {.n_ranks = n_ranks, .need = 0};
    struct nn_eval_all all = {.n_ranks = n_ranks, .sum = ring_sum, .arg = &ring};
    uint32_t n_values = 0;
    while (ring.need >= 0) {
        ring.need = -1;
        for (all.rank = ring.rank = 0; ring.rank < n_ranks; all.rank = ++ring.rank) {
            ring.call = 0;
            v[ring.rank] = fill(w, g, ring.rank, n_ranks);
            struct pd_err err = {0};
            int rc = nn_eval_total(v[ring.rank], &all, &err);
            assert_true(rc == 0 || rc == PD_ECANCELED);
            if (!rc) {
                n_values = nn_eval_n_values(v[ring.rank]);
                for (uint32_t i = 0; i < n_values; i++) {
                    double x = nn_eval_value(v[ring.rank], i);
                    assert_true(ring.rank == 0 || x == out[i] || (isnan(x) && isnan(out[i])));
                    out[i] = x;
                }
            }
            nn_eval_free(v[ring.rank]);
        }
        if (ring.need < 0)
            break;
        size_t n = ring.n[ring.need];
        double *t = ring.total[ring.need] = calloc(n, sizeof *t);
        for (uint32_t r = 0; r < n_ranks; r++)
            for (size_t i = 0; i < n; i++)
                t[i] += ring.term[r][ring.need][i];
    }
    for (int k = 0; k < MAX_SUMS; k++) {
        free(ring.total[k]);
        for (uint32_t r = 0; r < n_ranks; r++)
            free(ring.term[r][k]);
    }
    return n_values;
}

static inline void make(struct world *w, uint32_t n, uint32_t cols, uint32_t n_classes,
                        int probability) {
    struct pd_rng_key key = pd_rng_key(11, PD_RNG_CHECK, n, cols);
    w->n = n;
    w->cols = cols;
    w->threshold = 0.5;
    w->positive = 1;
    w->k = 3;
    w->max_samples = w->max_samples ? w->max_samples : n;
    w->y = malloc((size_t)n * cols * sizeof *w->y);
    w->label = malloc(n * sizeof *w->label);
    w->group = malloc(n * sizeof *w->group);
    pd_rng_normal(key, 0, w->y, (size_t)n * cols);
    for (uint32_t i = 0; i < n; i++) {
        w->label[i] = pd_rng_below(key, 1, i, n_classes);
        w->group[i] = pd_rng_below(key, 2, i, n / 8 + 1);
        for (uint32_t k = 0; k < cols; k++) {
            float *y = &w->y[(size_t)i * cols + k];
            *y += w->label[i] == k + (cols == 1); /* makes outputs and labels correlated */
            if (probability && cols == 1)
                *y = roundf(200 / (1 + expf(-*y))) / 200; /* creates ties */
            else if (probability)
                *y = expf(*y);
        }
        float sum = 0;
        for (uint32_t k = 0; k < cols; k++)
            sum += w->y[(size_t)i * cols + k];
        for (uint32_t k = 0; probability && cols > 1 && k < cols; k++)
            w->y[(size_t)i * cols + k] /= sum;
    }
}

static inline void drop(struct world *w) {
    free(w->y);
    free(w->label);
    free(w->group);
}
