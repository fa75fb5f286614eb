/* SPDX-License-Identifier: Apache-2.0 */
/* eval_precision_recall.c - precision, recall and F1 of the positive class.
 *
 *     precision  of the samples that are predicted positive, the share that is positive
 *     recall     of the positive samples, the share that is predicted positive
 *     F1         the harmonic mean of both
 */
#include "nn/evals/eval_internal.h"

enum { SAID, IS, BOTH, N };

static void add(struct nn_eval_sums *s, const struct nn_eval_rows *r) {
    uint32_t said = 0, is = 0, both = 0, positive = r->positive;
    for (uint32_t i = 0; i < r->n; i++) {
        int says = nn_eval_class(r, i) == positive, label = r->label[i] == (double)positive;
        said += (uint32_t)says;
        is += (uint32_t)label;
        both += (uint32_t)(says && label);
    }
    pd_exact_sum_add(&s->sum[SAID], said);
    pd_exact_sum_add(&s->sum[IS], is);
    pd_exact_sum_add(&s->sum[BOTH], both);
}

static uint32_t finish(const double *sum, const struct nn_eval_sums *s,
                       struct nn_value out[NN_EVAL_VALUES]) {
    (void)s;
    out[0] = (struct nn_value){"precision", sum[BOTH] / sum[SAID]};
    out[1] = (struct nn_value){"recall", sum[BOTH] / sum[IS]};
    out[2] = (struct nn_value){"f1", 2 * sum[BOTH] / (sum[SAID] + sum[IS])};
    return 3;
}

const struct nn_evaluator nn_eval_precision_recall = {
    .name = "precision_recall",
    .n_sums = N,
    .add = add,
    .finish = finish,
    .text = "precision, recall and F1 of the positive class",
    .better = 1,
    .judge = "f1",
};
