/* SPDX-License-Identifier: Apache-2.0 */
/* eval_ranking.c - how the first k samples of a group look, sorted by score, the best first.
 *
 *     DCG@k     sum over the positives among the first k of 1 / log2(1 + place), from place 1
 *     NDCG@k    DCG@k over that of the best order: all positives first
 *     recall@k  of the positives of the group, the share among the first k
 *
 * Samples with one score share their places: each order of them is equally probable, and the mean
 * over all orders counts. A group without a positive sample does not count.
 * Source: docs/sources.md#evaluators */
#include "nn/evals/eval_internal.h"

static double gain(size_t place) { return 1 / log2((double)place + 2); } /* from place 0 */

static double ndcg(const struct nn_eval_group *g) {
    double dcg = 0, best = 0;
    size_t positives;
    for (size_t i = 0, j; i < g->n && i < g->k; i = j) {
        double gains = 0;
        j = nn_eval_tied(g, i, &positives);
        for (size_t place = i; positives && place < j && place < g->k; place++)
            gains += gain(place);
        dcg += gains * (double)positives / (double)(j - i);
    }
    for (size_t place = 0; place < g->positives && place < g->k; place++)
        best += gain(place);
    return dcg / best;
}

static double recall(const struct nn_eval_group *g) {
    double found = 0;
    size_t positives;
    for (size_t i = 0, j; i < g->n && i < g->k; i = j) {
        j = nn_eval_tied(g, i, &positives);
        found += (double)positives * (double)((j < g->k ? j : g->k) - i) / (double)(j - i);
    }
    return found / (double)g->positives;
}

const struct nn_evaluator nn_eval_ndcg = {
    .name = "ndcg",
    NN_EVAL_BY_GROUP,
    .text = "mean over groups of NDCG@k: places of the positive samples among the first k",
    .of_group = ndcg,
    .takes_k = 1,
};

const struct nn_evaluator nn_eval_recall = {
    .name = "recall",
    NN_EVAL_BY_GROUP,
    .text = "mean over groups of recall@k: share of the positive samples among the first k",
    .of_group = recall,
    .takes_k = 1,
};
