/* SPDX-License-Identifier: Apache-2.0 */
/* cost_rank.c - rank (RankNet) of two scores; and sum, for layers that compute a cost themselves.
 */
#include "nn/graph/graph_internal.h"

static double margin(const struct nn_exec *e, const struct nn_cost_node *self, uint32_t i) {
    return (double)e->state[self->in[0]].y[i] - (double)e->state[self->in[1]].y[i];
}

static double rank_value(struct nn_exec *e, const struct nn_cost_node *self) {
    double sum = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        double o = margin(e, self, i);
        sum += fmax(o, 0) + log1p(exp(-fabs(o))) - (double)nn_label(e, self->label, i, 0) * o;
    }
    return sum;
}

static void rank_backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    for (uint32_t i = 0; i < e->n; i++) {
        double d = 1 / (1 + exp(-margin(e, self, i))) - (double)nn_label(e, self->label, i, 0);
        e->state[self->in[k]].dy[i] += self->weight * (float)(k ? -d : d);
    }
}

const struct nn_cost_type nn_cost_rank = {
    .name = "rank",
    .n_in = 2,
    .label = NN_LABEL_VALUE,
    .value = rank_value,
    .backward = rank_backward,
    .text = "two scores are in the order that the label says (RankNet)",
    .formula = "log(1 + exp(o)) - t o, o = a - b; t = 1: a belongs before b, 0: b before a, 0.5: "
               "equal; da = "
               "sigmoid(o) - t, db = -da",
    .share = 1,
};

static double sum_value(struct nn_exec *e, const struct nn_cost_node *self) {
    double sum = 0;
    for (uint32_t i = 0; i < e->n; i++)
        sum += (double)e->state[self->in[0]].y[i];
    return sum;
}

static void sum_backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    for (uint32_t i = 0; i < e->n; i++)
        e->state[self->in[k]].dy[i] += self->weight;
}

const struct nn_cost_type nn_cost_sum = {
    .name = "sum",
    .n_in = 1,
    .label = NN_LABEL_NONE,
    .value = sum_value,
    .backward = sum_backward,
    .text = "the values of its input are the cost",
    .formula = "sum of y; dy = 1",
};
