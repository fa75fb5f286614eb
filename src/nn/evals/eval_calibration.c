/* SPDX-License-Identifier: Apache-2.0 */
/* eval_calibration.c - how well predicted probabilities agree with the labels.
 *
 *     ratio  sum of the predictions / number of positives; 1 is best
 *     error  expected calibration error: over ten equal intervals of the prediction, the mean of
 *            |mean prediction - share of positives|, weighted by the number of samples
 *
 * Source: docs/sources.md#evaluators
 */
#include "nn/evals/eval_internal.h"

enum { BINS = 10, SAMPLES = 0, POSITIVE = BINS, PREDICTED = 2 * BINS, N = 3 * BINS };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        double p = nn_eval_score(r, i);
        int k = p >= 1 ? BINS - 1 : p > 0 ? (int)(p * BINS) : 0;
        pd_exact_sum_add(&s->sum[SAMPLES + k], 1);
        pd_exact_sum_add(&s->sum[POSITIVE + k], r->label[i] == (double)r->positive);
        pd_exact_sum_add(&s->sum[PREDICTED + k], p);
    }
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    double samples = 0, positive = 0, predicted = 0, off = 0;
    for (int k = 0; k < BINS; k++) {
        samples += sum[SAMPLES + k];
        positive += sum[POSITIVE + k];
        predicted += sum[PREDICTED + k];
        off += fabs(sum[PREDICTED + k] - sum[POSITIVE + k]);
    }
    out[0] = (struct nn_value){"ratio", predicted / positive};
    out[1] = (struct nn_value){"error", off / samples};
    return 2;
}

const struct nn_evaluator nn_eval_calibration = {
    .name = "calibration",
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "ratio of predicted to actual positives, and expected calibration error",
};
