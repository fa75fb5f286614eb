/* SPDX-License-Identifier: Apache-2.0 */
/* cost_binary_cross_entropy.c - fused with the sigmoid below it, so it is exact even where -log(y)
 * overflows. */
#include "nn/graph/graph_internal.h"

static void before(struct nn_exec *e, const struct nn_cost_node *self) {
    for (uint32_t i = 0; i < e->n; i++)
        e->picked[self->id][i] = (double)e->state[self->in[0]].y[i];
}

static double value(struct nn_exec *e, const struct nn_cost_node *self) {
    double sum = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        double x = e->picked[self->id][i];
        sum += fmax(x, 0) - (double)nn_label(e, self->label, i, 0) * x + log1p(exp(-fabs(x)));
    }
    return sum;
}

static void backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    struct nn_state *s = &e->state[self->in[k]];
    /* with dy_is_y, dy holds y */
    int fresh = e->g->node[self->in[k]].dy_is_y;
    for (uint32_t i = 0; i < e->n; i++)
        s->dy[i] =
            (fresh ? 0 : s->dy[i]) + self->weight * (s->y[i] - nn_label(e, self->label, i, 0));
}

const struct nn_cost_type nn_cost_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .act = "sigmoid",
    .n_in = 1,
    .label = NN_LABEL_VALUE,
    .before_act = before,
    .value = value,
    .backward = backward,
    .text = "-log of the probability of a label that is 0 or 1 (or between)",
    .formula = "max(x, 0) - t x + log(1 + exp(-|x|)) of the logit x and the label t; dx = y - t",
    .share = 1,
};
