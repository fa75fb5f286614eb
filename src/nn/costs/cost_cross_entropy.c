/* SPDX-License-Identifier: Apache-2.0 */
/* cost_cross_entropy.c - fused with the softmax below it, so it is exact even where log(softmax)
 * has underflowed, and its gradient has no division. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static int shape(const struct nn_build *b, const struct nn_cost_node *self, struct pd_err *err) {
    const struct nn_node *in = &b->g->node[self->in[0]];
    uint64_t classes = b->g->node[self->label].field.vocabulary;
    if (in->size < classes || !classes)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: cost '%s': label '%s' has %llu classes, but its input '%s' (line "
                       "%d) is [batch x %u]",
                       b->file, self->line, self->name, b->g->node[self->label].name,
                       (unsigned long long)classes, in->name, in->line, in->size);
    return 0;
}

static void before(struct nn_exec *e, const struct nn_cost_node *self) {
    size_t size = e->g->node[self->in[0]].size;
    const float *x = e->state[self->in[0]].y;
    const uint64_t *label = nn_ids(e, self->label);
    for (uint32_t i = 0; i < e->n; i++)
        e->picked[self->id][i] = (double)x[i * size + label[i]];
}

static double value(struct nn_exec *e, const struct nn_cost_node *self) {
    const double *log_sum = e->state[self->in[0]].log_sum, *picked = e->picked[self->id];
    double sum = 0;
    for (uint32_t i = 0; i < e->n; i++)
        sum += log_sum[i] - picked[i];
    return sum;
}

static void backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    (void)k;
    const struct nn_node *in = &e->g->node[self->in[0]];
    struct nn_state *s = &e->state[self->in[0]];
    const uint64_t *label = nn_ids(e, self->label);
    size_t n = (size_t)e->n * in->size;
    if (!in->dy_is_y)
        nn_axpy(n, self->weight, s->y, s->dy);
    else if (self->weight != 1)
        nn_scale(n, self->weight, s->dy);
    for (uint32_t i = 0; i < e->n; i++)
        s->dy[(size_t)i * in->size + label[i]] -= self->weight;
}

const struct nn_cost_type nn_cost_cross_entropy = {
    .name = "cross_entropy",
    .act = "softmax",
    .n_in = 1,
    .label = NN_LABEL_CLASS,
    .shape = shape,
    .before_act = before,
    .value = value,
    .backward = backward,
    .text = "-log of the probability of the label",
    .formula = "log sum exp(x) - x[label] of the logits x; dx = y - onehot(label)",
};
