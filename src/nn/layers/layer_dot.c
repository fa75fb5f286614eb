/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dot.c - the similarity of two vectors: their dot product, or its cosine. The formulas are
 * in the rows at the end of the file. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "act", "scale", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_n_in(b, self, 2, 2, err);
    if (!rc)
        rc = nn_build_same_size(b, self, err);
    self->size = 1;
    self->rate = self->ini->scale.line ? (float)self->ini->scale.value : 1;
    return rc;
}

static void dot_forward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = e->g->node[self->in[0]].size;
    const float *a = e->state[self->in[0]].y, *b = e->state[self->in[1]].y;
    for (uint32_t i = 0; i < e->n; i++, a += n, b += n)
        e->state[self->id].y[i] = self->rate * nn_dot(n, a, b);
}

static void dot_backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = e->g->node[self->in[0]].size;
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < 2; k++) {
        const float *other = e->state[self->in[1 - k]].y;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        for (uint32_t i = 0; dx && i < e->n; i++, dx += n, other += n) {
            if (add)
                nn_axpy(n, self->rate * dy[i], other, dx);
            else
                nn_times(n, self->rate * dy[i], other, dx);
        }
    }
}

/* The square of a shorter length underflows to 0 in a float, and 1/|a|^2 overflows. */
static const float COS_SHORT = 1e-15f;

static float inverse_length(float square) {
    return square >= COS_SHORT * COS_SHORT ? 1 / sqrtf(square) : 0;
}

/* state.extra of a sample: 1/|a|, 1/|b| (0 for a zero vector), the cosine. */
static int cos_shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    self->n_extra = 3;
    return shape(b, self, err);
}

static void cos_forward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = e->g->node[self->in[0]].size;
    const float *a = e->state[self->in[0]].y, *b = e->state[self->in[1]].y;
    float *x = e->state[self->id].extra;
    for (uint32_t i = 0; i < e->n; i++, a += n, b += n, x += 3) {
        x[0] = inverse_length(nn_dot(n, a, a));
        x[1] = inverse_length(nn_dot(n, b, b));
        x[2] = nn_dot(n, a, b) * x[0] * x[1];
        e->state[self->id].y[i] = self->rate * x[2];
    }
}

static void cos_backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = e->g->node[self->in[0]].size;
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < 2; k++) {
        const float *own = e->state[self->in[k]].y, *other = e->state[self->in[1 - k]].y,
                    *x = e->state[self->id].extra;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        for (uint32_t i = 0; dx && i < e->n; i++, dx += n, own += n, other += n, x += 3) {
            float d = self->rate * dy[i];
            if (add)
                nn_axpy(n, d * x[0] * x[1], other, dx);
            else
                nn_times(n, d * x[0] * x[1], other, dx);
            nn_axpy(n, -d * x[2] * x[k] * x[k], own, dx);
        }
    }
}

const struct nn_layer nn_layer_dot = {
    .name = "dot",
    .takes = takes,
    .shape = shape,
    .forward = dot_forward,
    .backward = dot_backward,
    .text = "the dot product of two inputs, times scale",
    .formula = "shapes    a[B,N] b[B,N] -> y[B,1]\n"
               "forward   y = act(scale * sum_j a_j b_j)\n"
               "backward  da = scale dy b, db = scale dy a\n",
    .source = "dot-cosine",
    .example = "[layer match]\n"
               "type = dot\n"
               "inputs = user item\n",
};
const struct nn_layer nn_layer_cos_sim = {
    .name = "cos_sim",
    .takes = takes,
    .shape = cos_shape,
    .forward = cos_forward,
    .backward = cos_backward,
    .text = "the cosine of two inputs, times scale",
    .formula =
        "shapes    a[B,N] b[B,N] -> y[B,1]\n"
        "forward   y = act(scale * c), c = (a.b) / (|a| |b|); c = 0 if |a| or |b| is nearly 0\n"
        "backward  da = scale dy (b / (|a| |b|) - c a / |a|^2), db likewise\n",
    .source = "dot-cosine",
    .example = "[layer match]\n"
               "type = cos_sim\n"
               "inputs = user item\n"
               "scale = 5\n",
};
