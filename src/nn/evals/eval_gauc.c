/* SPDX-License-Identifier: Apache-2.0 */
/* eval_gauc.c - the mean over groups of the area under the ROC curve within a group: how well the
 * samples of one user are ordered. A group without a positive or without a negative sample has no
 * area and does not count. Source: docs/sources.md#evaluators */
#include "nn/evals/eval_internal.h"

static double of_group(const struct nn_eval_group *g) {
    const uint64_t n_negatives = g->n - g->positives;
    uint64_t better = 0, twice = 0; /* positives with a better score; 2 x pairs in order */
    size_t positives;
    for (size_t i = 0, j; i < g->n; i = j, better += positives) {
        j = nn_eval_tied(g, i, &positives);
        twice += (j - i - positives) * (2 * better + positives);
    }
    return (double)twice / (2 * (double)g->positives * (double)n_negatives);
}

const struct nn_evaluator nn_eval_gauc = {
    .name = "gauc",
    NN_EVAL_BY_GROUP,
    .text = "mean over groups of auc within a group; groups with one class only do not count",
    .of_group = of_group,
};
