/* SPDX-License-Identifier: Apache-2.0 */
/* layer_concat.c - the concatenation of its inputs. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_need_values(b, self, err);
    uint64_t size = 0;
    for (uint32_t k = 0; !rc && k < self->n_in; k++)
        size += b->g->node[self->in[k]].size;
    if (!rc && size > 1 << 24)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' would be %llu wide; the limit is %d",
                       b->file, self->line, self->name, (unsigned long long)size, 1 << 24);
    self->size = (uint32_t)size;
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    float *y = e->state[self->id].y;
    for (uint32_t k = 0; k < self->n_in; k++) {
        size_t w = e->g->node[self->in[k]].size;
        const float *x = e->state[self->in[k]].y;
        for (size_t i = 0; i < e->n; i++)
            memcpy(y + i * self->size, x + i * w, w * sizeof *y);
        y += w;
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < self->n_in; k++) {
        size_t w = e->g->node[self->in[k]].size;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        for (size_t i = 0; dx && i < e->n; i++) {
            if (add)
                nn_add(w, dy + i * self->size, dx + i * w);
            else
                memcpy(dx + i * w, dy + i * self->size, w * sizeof *dx);
        }
        dy += w;
    }
}

const struct nn_layer nn_layer_concat = {
    .name = "concat",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "its inputs side by side",
    .formula = "shapes    x_k[B,N_k] -> y[B, sum of all N_k]\n"
               "forward   y = x_0 | x_1 | ...\n"
               "backward  dx_k = the columns of dy that belong to x_k\n",
    .example = "[layer all]\n"
               "type = concat\n"
               "inputs = user item numbers\n",
};
