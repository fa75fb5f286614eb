/* SPDX-License-Identifier: Apache-2.0 */
/* layer_product.c - y = act(a * b), elementwise. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "act", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_n_in(b, self, 2, 2, err);
    if (!rc)
        rc = nn_build_same_size(b, self, err);
    self->size = b->g->node[self->in[0]].size;
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    nn_mul((size_t)e->n * self->size, e->state[self->in[0]].y, e->state[self->in[1]].y,
           e->state[self->id].y);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = (size_t)e->n * self->size;
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < 2; k++) {
        const float *other = e->state[self->in[1 - k]].y;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        if (dx && add)
            nn_mul_add(n, dy, other, dx);
        else if (dx)
            nn_mul(n, dy, other, dx);
    }
}

const struct nn_layer nn_layer_product = {
    .name = "product",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "the product of two inputs, value by value",
    .formula = "shapes    a[B,N] b[B,N] -> y[B,N]\n"
               "forward   y = act(a * b)\n"
               "backward  da = dy * b, db = dy * a\n",
    .example = "[layer both]\n"
               "type = product\n"
               "inputs = user item\n",
};
