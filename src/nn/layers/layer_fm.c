/* SPDX-License-Identifier: Apache-2.0 */
/* layer_fm.c - the products of all pairs of vectors, added up: to one number (fm), or value by
 * value (bi_interaction). The formulas are in the rows at the end of the file. Backward uses s_d =
 * sum_k v_kd, which forward leaves in state.extra[B,D]. */
#include "nn/kernels/kernel.h"
#include "nn/layers/vectors.h"

static const char *const takes[] = {"inputs", "dim", "act", NULL};

static int fm_shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    uint32_t n_vectors;
    int rc = nn_vectors_input(b, self, &n_vectors, err);
    self->n_extra = self->dim;
    self->size = 1;
    return rc;
}

static void fm_forward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = self->dim;
    for (uint32_t i = 0; i < e->n; i++) {
        float *s = e->state[self->id].extra + i * D, squares = 0;
        memset(s, 0, D * sizeof *s);
        for (uint32_t k = 0; k < self->n_in; k++) {
            size_t size = e->g->node[self->in[k]].size;
            const float *x = e->state[self->in[k]].y + i * size;
            nn_sum_rows(size / D, D, x, s);
            squares += nn_dot(size, x, x);
        }
        e->state[self->id].y[i] = 0.5f * (nn_dot(D, s, s) - squares);
    }
}

static void fm_backward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = self->dim;
    for (uint32_t k = 0; k < self->n_in; k++) {
        size_t size = e->g->node[self->in[k]].size;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        for (uint32_t i = 0; dx && i < e->n; i++, dx += size) {
            const float *s = e->state[self->id].extra + i * D,
                        *x = e->state[self->in[k]].y + i * size;
            float dy = e->state[self->id].dy[i];
            if (add)
                nn_axpy(size, -dy, x, dx);
            else
                nn_times(size, -dy, x, dx);
            for (size_t r = 0; r < size; r += D)
                nn_axpy(D, dy, s, dx + r);
        }
    }
}

static int bi_shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = fm_shape(b, self, err);
    self->size = self->dim;
    return rc;
}

static void bi_forward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = self->dim;
    for (uint32_t i = 0; i < e->n; i++) {
        float *s = e->state[self->id].extra + i * D, *y = e->state[self->id].y + i * D;
        memset(s, 0, D * sizeof *s);
        memset(y, 0, D * sizeof *y); /* first the sums of the squares */
        for (uint32_t k = 0; k < self->n_in; k++) {
            size_t size = e->g->node[self->in[k]].size;
            const float *x = e->state[self->in[k]].y + i * size;
            nn_sum_rows(size / D, D, x, s);
            for (size_t r = 0; r < size; r += D)
                nn_mul_add(D, x + r, x + r, y);
        }
        for (size_t d = 0; d < D; d++)
            y[d] = 0.5f * (s[d] * s[d] - y[d]);
    }
}

static void bi_backward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = self->dim;
    for (uint32_t k = 0; k < self->n_in; k++) {
        size_t size = e->g->node[self->in[k]].size;
        const float *x = e->state[self->in[k]].y, *s = e->state[self->id].extra,
                    *dy = e->state[self->id].dy;
        int add;
        float *dx = nn_input_gradient(e, self->in[k], &add);
        for (uint32_t i = 0; dx && i < e->n; i++, s += D, dy += D)
            for (size_t r = 0; r < size; r += D, x += D, dx += D)
                for (size_t d = 0; d < D; d++) {
                    float g = dy[d] * (s[d] - x[d]);
                    dx[d] = add ? dx[d] + g : g;
                }
    }
}

const struct nn_layer nn_layer_fm = {
    .name = "fm",
    .takes = takes,
    .shape = fm_shape,
    .forward = fm_forward,
    .backward = fm_backward,
    .text = "factorization machine: the dot products of all pairs of vectors, added up",
    .formula =
        "shapes    x[B, K*D] -> y[B,1]; the inputs side by side, each a multiple of D = dim wide\n"
        "forward   y = sum over pairs k < l of v_k . v_l = 1/2 sum_d ((sum_k v_kd)^2 - sum_k "
        "v_kd^2)\n"
        "backward  dv_kd = dy (sum_l v_ld - v_kd)\n"
        "list      the pairs of the rows inside a list: pooling = fm of embedding\n",
    .source = "factorization-machine",
    .example = "[layer pairs]\n"
               "type = fm\n"
               "inputs = user item\n"
               "dim = 16\n",
};
const struct nn_layer nn_layer_bi_interaction = {
    .name = "bi_interaction",
    .takes = takes,
    .shape = bi_shape,
    .forward = bi_forward,
    .backward = bi_backward,
    .text = "bi-interaction pooling: the products of all pairs of vectors, added up value by value",
    .formula =
        "shapes    x[B, K*D] -> y[B,D]; the inputs side by side, each a multiple of D = dim wide\n"
        "forward   y_d = sum over pairs k < l of v_kd v_ld = 1/2 ((sum_k v_kd)^2 - sum_k v_kd^2)\n"
        "backward  dv_kd = dy_d (sum_l v_ld - v_kd)\n"
        "list      the pairs of the rows inside a list: pooling = bi_interaction of embedding\n",
    .source = "factorization-machine",
    .example = "[layer pairs]\n"
               "type = bi_interaction\n"
               "inputs = user item\n"
               "dim = 16\n",
};
