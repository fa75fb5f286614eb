/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dot_interaction.c - the dot products of all pairs of vectors, one value for each pair. The
 * formulas are in the row at the end of the file.
 * node.option is the number of vectors, K. exec.work has the vectors of a sample [K,D] in one
 * piece, and in backward their gradients. */
#include "nn/kernels/kernel.h"
#include "nn/layers/vectors.h"

static const char *const takes[] = {"inputs", "dim", "act", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    uint32_t n;
    int rc = nn_vectors_input(b, self, &n, err);
    if (rc)
        return rc;
    uint64_t size = (uint64_t)n * (n - 1) / 2;
    if (size > 1 << 24)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' would be %llu wide; the limit is %d",
                       b->file, self->line, self->name, (unsigned long long)size, 1 << 24);
    self->size = (uint32_t)size;
    self->option = (int)n;
    self->n_work = 2 * (size_t)n * self->dim;
    return 0;
}

/* The vectors of sample i, side by side. */
static void gather(const struct nn_exec *e, const struct nn_node *self, size_t i, float *x) {
    for (uint32_t k = 0; k < self->n_in; k++) {
        size_t size = e->g->node[self->in[k]].size;
        memcpy(x, e->state[self->in[k]].y + i * size, size * sizeof *x);
        x += size;
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t K = (size_t)self->option, D = self->dim;
    float *y = e->state[self->id].y, *x = e->work;
    for (uint32_t i = 0; i < e->n; i++) {
        gather(e, self, i, x);
        for (size_t k = 1; k < K; k++)
            for (size_t l = 0; l < k; l++)
                *y++ = nn_dot(D, x + k * D, x + l * D);
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t K = (size_t)self->option, D = self->dim;
    const float *dy = e->state[self->id].dy;
    float *x = e->work, *dx = x + K * D, *to[NN_MAX_INPUTS];
    int add[NN_MAX_INPUTS] = {0};
    for (uint32_t k = 0; k < self->n_in; k++)
        to[k] = nn_input_gradient(e, self->in[k], &add[k]);
    for (uint32_t i = 0; i < e->n; i++) {
        gather(e, self, i, x);
        memset(dx, 0, K * D * sizeof *dx);
        for (size_t k = 1; k < K; k++)
            for (size_t l = 0; l < k; l++, dy++) {
                nn_axpy(D, *dy, x + l * D, dx + k * D);
                nn_axpy(D, *dy, x + k * D, dx + l * D);
            }
        const float *from = dx;
        for (uint32_t k = 0; k < self->n_in; k++) {
            size_t size = e->g->node[self->in[k]].size;
            if (to[k] && add[k])
                nn_add(size, from, to[k] + i * size);
            else if (to[k])
                memcpy(to[k] + i * size, from, size * sizeof *from);
            from += size;
        }
    }
}

const struct nn_layer nn_layer_dot_interaction = {
    .name = "dot_interaction",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "the dot products of all pairs of vectors, one value for each pair",
    .formula = "shapes    x[B, K*D] -> y[B, K(K-1)/2]; the inputs side by side, each a multiple of "
               "D = dim wide\n"
               "forward   y = v_1.v_0, v_2.v_0, v_2.v_1, v_3.v_0, ...: each v_k with all vectors "
               "before it\n"
               "backward  dv_k = sum over l != k of dy_kl v_l\n",
    .source = "dot-interaction",
    .example = "[layer pairs]\n"
               "type = dot_interaction\n"
               "inputs = user item words\n"
               "dim = 16\n"
               "\n"
               "[layer words]\n"
               "type = embedding\n"
               "inputs = tags\n"
               "size = 16\n"
               "sparse_update = true\n",
};
