/* SPDX-License-Identifier: Apache-2.0 */
/* layer_layer_norm.c - gives each sample's values mean 0 and variance 1, then scales and shifts
 * them. The formulas are in the row at the end of the file. extra [B, N+1]: h, then
 * 1 / sqrt(v + eps). */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "act", "eps", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_n_in(b, self, 1, 1, err);
    if (rc)
        return rc;
    self->size = b->g->node[self->in[0]].size;
    self->n_extra = self->size + 1;
    self->rate = self->ini->eps.line ? (float)self->ini->eps.value : 1e-5f;
    rc = nn_build_param(b, self, 0, "gamma", NN_DENSE, 1, self->size, 0, err);
    return rc ? rc : nn_build_param(b, self, 1, "beta", NN_DENSE, 1, self->size, 0, err);
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = self->size;
    const float *x = e->state[self->in[0]].y, *gamma = e->w[self->param[0]],
                *beta = e->w[self->param[1]];
    float *y = e->state[self->id].y, *h = e->state[self->id].extra;
    for (uint32_t i = 0; i < e->n; i++, x += n, y += n, h += n + 1) {
        float mean = nn_sum(n, x) / (float)n;
        for (size_t j = 0; j < n; j++)
            h[j] = x[j] - mean;
        float r = 1 / sqrtf(nn_dot(n, h, h) / (float)n + self->rate);
        for (size_t j = 0; j < n; j++) {
            h[j] *= r;
            y[j] = gamma[j] * h[j] + beta[j];
        }
        h[n] = r;
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = self->size;
    const float *gamma = e->w[self->param[0]], *h = e->state[self->id].extra;
    float *dy = e->state[self->id].dy, *dgamma = e->grad[self->param[0]];
    if (e->grad[self->param[1]])
        nn_sum_rows(e->n, n, dy, e->grad[self->param[1]]);
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    for (uint32_t i = 0; i < e->n; i++, dy += n, h += n + 1) {
        if (dgamma)
            nn_mul_add(n, dy, h, dgamma);
        if (!dx)
            continue;
        for (size_t j = 0; j < n; j++)
            dy[j] *= gamma[j];
        float mean = nn_sum(n, dy) / (float)n, along = nn_dot(n, dy, h) / (float)n;
        for (size_t j = 0; j < n; j++) {
            float d = h[n] * (dy[j] - mean - h[j] * along);
            dx[j] = add ? dx[j] + d : d;
        }
        dx += n;
    }
}

const struct nn_layer nn_layer_layer_norm = {
    .name = "layer_norm",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "mean 0 and variance 1 over each sample's values, then scaled and shifted",
    .formula = "shapes    x[B,N] gamma[N] beta[N] -> y[B,N]; m, v: mean and variance over N\n"
               "forward   h = (x - m) / sqrt(v + eps);  y = act(gamma h + beta)\n"
               "backward  dgamma = sum dy h, dbeta = sum dy\n"
               "          dx = (d - mean(d) - h mean(d h)) / sqrt(v + eps), d = dy gamma\n"
               "initial   gamma: 1, beta: 0\n",
    .source = "layer-norm",
    .example = "[layer normal]\n"
               "type = layer_norm\n"
               "inputs = hidden\n",
};
