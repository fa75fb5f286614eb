/* SPDX-License-Identifier: Apache-2.0 */
/* eval_log_loss.c - the mean of -log of the label's predicted probability. */
#include "nn/evals/eval_internal.h"

enum { SAMPLES, LOSS, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        const float *y = r->y + (size_t)i * r->cols;
        double p = NAN;
        if (r->cols == 1)
            p = r->label[i] > 0.5 ? (double)*y : 1 - (double)*y;
        else if (r->label[i] >= 0 && r->label[i] < r->cols)
            p = (double)y[(uint32_t)r->label[i]];
        pd_exact_sum_add(&s->sum[LOSS], nn_eval_minus_log(p));
    }
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    return nn_eval_one(out, sum[LOSS] / sum[SAMPLES]);
}

const struct nn_evaluator nn_eval_log_loss = {
    .name = "log_loss",
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "mean of -log of the probability of the label, which is taken as at least 1e-7",
    .better = -1,
};
