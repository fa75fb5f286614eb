/* SPDX-License-Identifier: Apache-2.0 */
/* layer_addto.c - y = act(x_0 + x_1 + ...). */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "act", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_n_in(b, self, 1, NN_MAX_INPUTS, err);
    if (!rc)
        rc = nn_build_same_size(b, self, err);
    self->size = b->g->node[self->in[0]].size;
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = (size_t)e->n * self->size;
    float *y = e->state[self->id].y;
    memcpy(y, e->state[self->in[0]].y, n * sizeof *y);
    for (uint32_t k = 1; k < self->n_in; k++)
        nn_add(n, e->state[self->in[k]].y, y);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = (size_t)e->n * self->size;
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < self->n_in; k++) {
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        if (dx && add)
            nn_add(n, dy, dx);
        else if (dx)
            memcpy(dx, dy, n * sizeof *dx);
    }
}

const struct nn_layer nn_layer_addto = {
    .name = "addto",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "the sum of its inputs, value by value",
    .formula = "shapes    x_k[B,N] -> y[B,N]\n"
               "forward   y = act(sum_k x_k)\n"
               "backward  dx_k = dy\n",
    .example = "[layer both]\n"
               "type = addto\n"
               "inputs = user item\n"
               "act = relu\n",
};
