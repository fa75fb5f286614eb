/* SPDX-License-Identifier: Apache-2.0 */
/* eval_rmse.c - the root of the mean of the squared differences between output and label. */
#include "nn/evals/eval_internal.h"

enum { SAMPLES, ERROR, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        double d = (double)r->y[i] - r->label[i];
        pd_exact_sum_add(&s->sum[ERROR], d * d);
    }
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    return nn_eval_one(out, sqrt(sum[ERROR] / sum[SAMPLES]));
}

const struct nn_evaluator nn_eval_rmse = {
    .name = "rmse",
    .max_cols = 1,
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "root of the mean of the squared differences between output and label",
    .better = -1,
};
