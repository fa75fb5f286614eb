/* SPDX-License-Identifier: Apache-2.0 */
/* eval_internal.h - shared by eval.c and the evaluators: a row of the table, and the sums. */
#pragma once

#include "math/exact_sum.h"
#include "nn/evals/eval.h"
#include "nn/graph/evaluator.h"

enum { NN_EVAL_SUMS = 40 };

struct nn_auc; /* eval_auc.c */

struct nn_eval_sums {
    struct pd_exact_sum sum[NN_EVAL_SUMS];
    struct nn_auc *auc; /* of the evaluator with pairs */
};

extern const struct nn_evaluator nn_eval_error, nn_eval_auc, nn_eval_log_loss, nn_eval_perplexity,
    nn_eval_rmse, nn_eval_mae, nn_eval_precision_recall, nn_eval_calibration;

/* The score of the positive class: its output if there are several, otherwise the only output. If
 * class 0 is positive, that is 1 - y of a probability, otherwise -y. */
static inline double nn_eval_score(const struct nn_eval_rows *r, uint32_t i) {
    double y = (double)r->y[(size_t)i * r->cols + (r->cols > 1 ? r->positive : 0)];
    return r->cols > 1 || r->positive ? y : r->is_probability ? 1 - y : -y;
}

/* The predicted class. */
uint32_t nn_eval_class(const struct nn_eval_rows *r, uint32_t i);

static inline uint32_t nn_eval_one(struct nn_value out[NN_EVAL_VALUES], double v) {
    out[0] = (struct nn_value){"", v};
    return 1;
}

/* --- eval_auc.c: pairs of output and label --- */

int nn_auc_new(struct nn_auc **out);
void nn_auc_free(struct nn_auc *a);
void nn_auc_clear(struct nn_auc *a);
int nn_auc_add(struct nn_auc *a, const struct nn_eval_rows *r);
int nn_auc_merge(struct nn_auc *into, const struct nn_auc *from);
int nn_auc_total(struct nn_auc *a, const struct nn_eval_all *all, struct pd_err *err);
