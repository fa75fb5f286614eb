/* SPDX-License-Identifier: Apache-2.0 */
/* cost_square_error.c - costs of the difference r = y - t from the label, summed over the values of
 * a sample. */
#include "nn/graph/graph_internal.h"

static int shape(const struct nn_build *b, const struct nn_cost_node *self, struct pd_err *err) {
    const struct nn_node *in = &b->g->node[self->in[0]], *label = &b->g->node[self->label];
    if (in->size == label->size)
        return 0;
    return pd_fail(err, PD_ECONF,
                   "%s:%d: cost '%s': label '%s' is [batch x %u], but its input '%s' (line %d) is "
                   "[batch x %u]",
                   b->file, self->line, self->name, label->name, label->size, in->name, in->line,
                   in->size);
}

static double square(double r, double delta) {
    (void)delta;
    return r * r;
}
static float square_grad(float r, float delta) {
    (void)delta;
    return 2 * r;
}
static double huber(double r, double delta) {
    return fabs(r) <= delta ? r * r / 2 : delta * (fabs(r) - delta / 2);
}
static float huber_grad(float r, float delta) {
    return r > delta ? delta : r < -delta ? -delta : r;
}

static double sum(struct nn_exec *e, const struct nn_cost_node *self,
                  double (*f)(double r, double delta)) {
    size_t size = e->g->node[self->in[0]].size;
    const float *y = e->state[self->in[0]].y;
    double s = 0;
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < size; j++)
            s += f((double)y[i * size + j] - (double)nn_label(e, self->label, i, j),
                   (double)self->delta);
    return s;
}

static void grad(struct nn_exec *e, const struct nn_cost_node *self,
                 float (*f)(float r, float delta)) {
    size_t size = e->g->node[self->in[0]].size;
    const struct nn_state *s = &e->state[self->in[0]];
    for (size_t i = 0; i < e->n; i++)
        for (size_t j = 0; j < size; j++)
            s->dy[i * size + j] +=
                self->weight * f(s->y[i * size + j] - nn_label(e, self->label, i, j), self->delta);
}

static double square_value(struct nn_exec *e, const struct nn_cost_node *self) {
    return sum(e, self, square);
}
static double huber_value(struct nn_exec *e, const struct nn_cost_node *self) {
    return sum(e, self, huber);
}
static void square_backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    (void)k;
    grad(e, self, square_grad);
}
static void huber_backward(struct nn_exec *e, const struct nn_cost_node *self, uint32_t k) {
    (void)k;
    grad(e, self, huber_grad);
}

const struct nn_cost_type nn_cost_square_error = {
    .name = "square_error",
    .n_in = 1,
    .label = NN_LABEL_VALUE,
    .shape = shape,
    .value = square_value,
    .backward = square_backward,
    .text = "the square of the distance from the label",
    .formula = "sum of r^2 over the values of a sample, r = y - t; dy = 2 r. Its mean is the "
               "square of the RMSE",
};
const struct nn_cost_type nn_cost_huber = {
    .name = "huber",
    .n_in = 1,
    .label = NN_LABEL_VALUE,
    .shape = shape,
    .value = huber_value,
    .backward = huber_backward,
    .text = "the square of small distances, linear in those beyond delta",
    .formula =
        "r^2 / 2 if |r| <= delta, otherwise delta (|r| - delta / 2), r = y - t; dy = r, limited to "
        "+-delta",
};
