/* SPDX-License-Identifier: Apache-2.0 */
/* eval_internal.h - shared by eval.c and the evaluators: a row of the table, the sums, and what an
 * evaluator collects besides. */
#pragma once

#include "math/exact_sum.h"
#include "nn/evals/eval.h"
#include "nn/graph/evaluator.h"

enum { NN_EVAL_SUMS = 40 };

struct nn_eval_sums {
    struct pd_exact_sum sum[NN_EVAL_SUMS];
    void *collected; /* of the evaluator's collector */
};

struct nn_eval_node; /* nn/graph/graph_internal.h */

/* State of an evaluator that sums do not hold. `collected` is the collector's own type. add, merge
 * and total return 0 or an error code; eval.c says which evaluator has no memory. */
struct nn_collector {
    void *(*new)(const struct nn_eval_node *ev); /* NULL: no memory */
    void (*free)(void *collected);
    void (*clear)(void *collected);
    int (*add)(struct nn_eval_sums *s, const struct nn_eval_rows *r);
    int (*merge)(void *into, const void *from);
    /* Over all ranks; before the sums are added up, and it may set sums of its own. */
    int (*total)(struct nn_eval_sums *s, const struct nn_eval_node *ev,
                 const struct nn_eval_all *all, struct pd_err *err);
};

extern const struct nn_evaluator nn_eval_error, nn_eval_auc, nn_eval_log_loss, nn_eval_perplexity,
    nn_eval_rmse, nn_eval_mae, nn_eval_precision_recall, nn_eval_calibration,
    nn_eval_normalized_entropy, nn_eval_gauc, nn_eval_ndcg, nn_eval_recall;

/* v[i] becomes its sum over all ranks, for any n. */
int nn_eval_sum(const struct nn_eval_all *all, double *v, size_t n, struct pd_err *err);

/* The score of the positive class: its output if there are several, otherwise the only output. If
 * class 0 is positive, that is 1 - y of a probability, otherwise -y. */
static inline double nn_eval_score(const struct nn_eval_rows *r, uint32_t i) {
    double y = (double)r->y[(size_t)i * r->cols + (r->cols > 1 ? r->positive : 0)];
    return r->cols > 1 || r->positive ? y : r->is_probability ? 1 - y : -y;
}

/* A float's bits, mapped so that their order is that of the floats; -0 becomes 0. */
static inline uint32_t nn_eval_ordered(float x) {
    uint32_t u;
    x += 0.0f;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 1u << 31;
}

/* The predicted class. */
uint32_t nn_eval_class(const struct nn_eval_rows *r, uint32_t i);

static inline uint32_t nn_eval_one(struct nn_value out[NN_EVAL_VALUES], double v) {
    out[0] = (struct nn_value){"", v};
    return 1;
}

/* A probability in a log counts as at least 1e-7, the distance of a float32 from 1: a saturated
 * output counts 16.1, not infinity. */
#define NN_EVAL_LEAST 1e-7
static inline double nn_eval_minus_log(double p) {
    return -log(p < NN_EVAL_LEAST ? NN_EVAL_LEAST : p);
}

/* --- eval_groups.c: samples by group --- */

struct nn_eval_item {
    uint64_t group; /* a hash of the group's id */
    uint64_t pair;  /* ~nn_eval_ordered(score) << 1 | positive: the best score is the smallest */
};

/* The samples of a group from all ranks, the best score first. */
struct nn_eval_group {
    const struct nn_eval_item *item;
    size_t n, positives;
    uint32_t k;
};

/* The end of the samples from i on that have one score; *positives: how many are positive. */
size_t nn_eval_tied(const struct nn_eval_group *g, size_t i, size_t *positives);

extern const struct nn_collector nn_eval_groups;

/* The sums and the values of an evaluator with groups. */
enum {
    NN_GROUP_VALUE,
    NN_GROUP_WEIGHT,
    NN_GROUP_COUNTED,
    NN_GROUP_SAMPLES,
    NN_GROUP_NANS,
    NN_GROUP_N
};
uint32_t nn_eval_groups_finish(const double *sum, const struct nn_eval_sums *s,
                               struct nn_value out[NN_EVAL_VALUES]);
/* The members that the rows of all evaluators by group share. */
#define NN_EVAL_BY_GROUP \
    .n_sums = NN_GROUP_N, .collects = &nn_eval_groups, .finish = nn_eval_groups_finish, .better = 1
