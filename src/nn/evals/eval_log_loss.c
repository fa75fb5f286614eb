/* SPDX-License-Identifier: Apache-2.0 */
/* eval_log_loss.c - the mean of -log of the label's predicted probability. Probabilities count as
 * at least 1e-7, the distance of a float32 from 1: a saturated output counts 16.1, not infinity. */
#include "nn/evals/eval_internal.h"

enum { SAMPLES, LOSS, N };
#define LEAST 1e-7

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        const float *y = r->y + (size_t)i * r->cols;
        double p = NAN;
        if (r->cols == 1)
            p = r->label[i] > 0.5 ? (double)*y : 1 - (double)*y;
        else if (r->label[i] >= 0 && r->label[i] < r->cols)
            p = (double)y[(uint32_t)r->label[i]];
        pd_exact_sum_add(&s->sum[LOSS], -log(p < LEAST ? LEAST : p));
    }
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    return nn_eval_one(out, sum[LOSS] / sum[SAMPLES]);
}

const struct nn_evaluator nn_eval_log_loss = {
    "log_loss", 0,
    0,          N,
    0,          add,
    finish,     "mean of -log of the probability of the label, which is taken as at least 1e-7",
    -1,         NULL};
