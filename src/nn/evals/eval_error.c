/* SPDX-License-Identifier: Apache-2.0 */
/* eval_error.c - the share of samples that are classified wrongly: by argmax of several outputs, or
 * by one output against the threshold. */
#include "nn/evals/eval_internal.h"
#include "nn/kernels/kernel.h"

uint32_t nn_eval_class(const struct nn_eval_rows *r, uint32_t i) {
    const float *y = r->y + (size_t)i * r->cols;
    return r->cols > 1 ? (uint32_t)nn_argmax(r->cols, y) : (double)*y >= r->threshold;
}

enum { SAMPLES, WRONG, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < r->n; i++)
        wrong += (double)nn_eval_class(r, i) != r->label[i];
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    pd_exact_sum_add(&s->sum[WRONG], wrong);
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    return nn_eval_one(out, sum[WRONG] / sum[SAMPLES]);
}

const struct nn_evaluator nn_eval_error = {
    .name = "classification_error",
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "share of samples whose largest output is not the label",
    .better = -1,
};
