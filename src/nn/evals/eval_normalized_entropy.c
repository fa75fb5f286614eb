/* SPDX-License-Identifier: Apache-2.0 */
/* eval_normalized_entropy.c - the log loss of the positive class over that of a model that knows
 * only the share p of positive samples:
 *
 *     mean of -log of the probability of what is so / (-p log p - (1 - p) log(1 - p))
 *
 * 1 is as good as this model, 0 is best. So the value compares data with different shares of
 * clicks. It has no value if all samples are of one kind: the divisor is 0.
 * Source: docs/sources.md#evaluators */
#include "nn/evals/eval_internal.h"

enum { SAMPLES, POSITIVE, LOSS, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    uint32_t positives = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const int positive = r->label[i] == (double)r->positive;
        const double p = nn_eval_score(r, i);
        positives += (uint32_t)positive;
        pd_exact_sum_add(&s->sum[LOSS], nn_eval_minus_log(positive ? p : 1 - p));
    }
    pd_exact_sum_add(&s->sum[SAMPLES], r->n);
    pd_exact_sum_add(&s->sum[POSITIVE], positives);
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    const double n = sum[SAMPLES], p = sum[POSITIVE] / n, q = (n - sum[POSITIVE]) / n;
    const double entropy = p > 0 && q > 0 ? -p * log(p) - q * log(q) : NAN;
    return nn_eval_one(out, sum[LOSS] / n / entropy);
}

const struct nn_evaluator nn_eval_normalized_entropy = {
    .name = "normalized_entropy",
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "log loss over the entropy of the share of positive samples; 1: as that share alone",
    .better = -1,
    .of_probabilities = 1,
};
