/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dot_interaction.c - the dot products of all pairs of vectors, one value for each pair. The
 * formulas are in the row at the end of the file.
 *
 * node.option is the number of vectors, K. exec.work has the vectors of one sample and their
 * gradients, [K,R] each, and K row numbers. R is D rounded up as kernel_rows.h needs it. */
#include "nn/kernels/kernel.h"
#include "nn/kernels/kernel_rows.h"
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
    self->n_work = n * (2 * nn_row_padded(self->dim) + 1);
    return 0;
}

struct pair_work {
    size_t K, D, R;
    float *x, *dx; /* [K,R] */
    uint32_t *row; /* 0, 1, ..., K - 1 */
};

static struct pair_work open_work(const struct nn_exec *e, const struct nn_node *self) {
    struct pair_work w = {.K = (size_t)self->option, .D = self->dim, .R = nn_row_padded(self->dim)};
    w.x = e->work;
    w.dx = w.x + w.K * w.R;
    w.row = (uint32_t *)(w.dx + w.K * w.R);
    memset(w.x, 0, w.K * w.R * sizeof *w.x); /* gather() leaves the padding as it is */
    for (uint32_t k = 0; k < w.K; k++)
        w.row[k] = k;
    return w;
}

/* Copies the vectors of sample i to w->x. */
static void gather(const struct nn_exec *e, const struct nn_node *self, size_t i,
                   const struct pair_work *w) {
    float *x = w->x;
    for (uint32_t k = 0; k < self->n_in; k++) {
        const size_t size = e->g->node[self->in[k]].size;
        const float *v = e->state[self->in[k]].y + i * size;
        for (size_t at = 0; at < size; at += w->D, x += w->R)
            memcpy(x, v + at, w->D * sizeof *x);
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    const struct pair_work w = open_work(e, self);
    float *y = e->state[self->id].y;
    for (uint32_t i = 0; i < e->n; i++) {
        gather(e, self, i, &w);
        for (size_t k = 1; k < w.K; y += k++)
            nn_rows_dot(k, w.row, w.R, w.x, w.x + k * w.R, y);
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    const struct pair_work w = open_work(e, self);
    const float *dy = e->state[self->id].dy;
    float *to[NN_MAX_INPUTS];
    int add[NN_MAX_INPUTS] = {0};
    for (uint32_t k = 0; k < self->n_in; k++)
        to[k] = nn_input_gradient(e, self->in[k], &add[k]);
    for (uint32_t i = 0; i < e->n; i++) {
        gather(e, self, i, &w);
        memset(w.dx, 0, w.K * w.R * sizeof *w.dx);
        for (size_t k = 1; k < w.K; dy += k++)
            nn_rows_dot_grad(k, w.row, w.R, dy, w.x, w.x + k * w.R, w.dx, w.dx + k * w.R);
        const float *from = w.dx;
        for (uint32_t k = 0; k < self->n_in; k++) {
            const size_t size = e->g->node[self->in[k]].size;
            for (size_t at = i * size; at < (i + 1) * size; at += w.D, from += w.R)
                if (to[k] && add[k])
                    nn_add(w.D, from, to[k] + at);
                else if (to[k])
                    memcpy(to[k] + at, from, w.D * sizeof *from);
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
