/* SPDX-License-Identifier: Apache-2.0 */
/* eval_perplexity.c - exp of the mean of a cost that is -log of the label's probability. */
#include "nn/evals/eval_internal.h"

enum { SAMPLES, COST, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    pd_exact_sum_add(&s->sum[COST], r->cost_sum);
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    return nn_eval_one(out, exp(sum[COST] / sum[SAMPLES]));
}

const struct nn_evaluator nn_eval_perplexity = {
    .name = "perplexity",
    .of_cost = 1,
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "exp of the mean of a cost",
    .better = -1,
};
