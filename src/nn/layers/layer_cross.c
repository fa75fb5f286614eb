/* SPDX-License-Identifier: Apache-2.0 */
/* layer_cross.c - a cross layer of a deep and cross network, with a matrix (DCNv2) or a vector
 * (DCN). The formulas are in the row at the end of the file; here x_0 is input 0, x_l input 1.
 *
 * state.extra of n samples:
 * - matrix: z[n,N], which backward replaces by dz; with a rank also h[n,R], replaced by dh;
 * - vector: s[n]. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "kind", "rank", "bias", NN_PARAM_KEYS, NULL};

enum { MATRIX, VECTOR };

static int choose(const struct nn_build *b, struct nn_node *self, uint64_t size,
                  struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    self->option = ini->kind.line && !strcmp(ini->kind.text, "vector") ? VECTOR : MATRIX;
    self->dim = (uint32_t)ini->rank.value;
    if (ini->kind.line && self->option == MATRIX && strcmp(ini->kind.text, "matrix"))
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': kind is matrix or vector, not '%s'",
                       b->file, ini->kind.line, self->name, ini->kind.text);
    if (ini->rank.line && self->option == VECTOR)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': rank is for kind = matrix", b->file,
                       ini->rank.line, self->name);
    if (self->dim >= size)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': rank is %u, but its inputs are [batch x %llu]: leave "
                       "rank out for a whole matrix",
                       b->file, ini->rank.line, self->name, self->dim, (unsigned long long)size);
    return 0;
}

static double first_std(const struct nn_node *self, uint64_t fan_in) {
    const struct layer_ini *ini = self->ini;
    return ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)fan_in);
}

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    uint64_t N = b->g->node[self->in[0]].size, R;
    int rc = nn_build_n_in(b, self, 2, 2, err);
    if (!rc)
        rc = nn_build_same_size(b, self, err);
    if (!rc)
        rc = choose(b, self, N, err);
    if (rc)
        return rc;
    R = self->dim;
    self->size = (uint32_t)N;
    self->n_extra = self->option == VECTOR ? 1 : (uint32_t)(N + R);
    rc = nn_build_param(b, self, 0, R ? "v" : "w", NN_DENSE, N,
                        self->option == VECTOR ? 1
                        : R                    ? R
                                               : N,
                        first_std(self, N), err);
    if (!rc && R)
        rc = nn_build_param(b, self, 1, "u", NN_DENSE, R, N, first_std(self, R), err);
    self->bias = ini->bias.line ? ini->bias.value : 1;
    if (!rc && self->bias)
        rc = nn_build_param(b, self, self->n_param, "b", NN_DENSE, 1, N, 0, err);
    return rc;
}

static void matrix_forward(struct nn_exec *e, const struct nn_node *self) {
    const size_t n = e->n, N = self->size, R = self->dim;
    const float *x0 = e->state[self->in[0]].y, *xl = e->state[self->in[1]].y,
                *w = e->w[self->param[0]];
    float *y = e->state[self->id].y, *z = e->state[self->id].extra, *h = z + n * N;
    if (self->bias)
        nn_fill_rows(n, N, e->w[self->param[self->n_param - 1]], z);
    if (R) {
        nn_gemm(0, 0, n, R, N, 1, xl, w, 0, h);
        nn_gemm(0, 0, n, N, R, 1, h, e->w[self->param[1]], self->bias ? 1 : 0, z);
    } else {
        nn_gemm(0, 0, n, N, N, 1, xl, w, self->bias ? 1 : 0, z);
    }
    memcpy(y, xl, n * N * sizeof *y);
    nn_mul_add(n * N, x0, z, y);
}

static void matrix_backward(struct nn_exec *e, const struct nn_node *self) {
    const size_t n = e->n, N = self->size, R = self->dim, width = R ? R : N;
    const float *x0 = e->state[self->in[0]].y, *xl = e->state[self->in[1]].y,
                *dy = e->state[self->id].dy;
    float *z = e->state[self->id].extra, *h = z + n * N, *dw = e->grad[self->param[0]];
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    if (dx && add)
        nn_mul_add(n * N, dy, z, dx);
    else if (dx)
        nn_mul(n * N, dy, z, dx);
    nn_mul(n * N, dy, x0, z); /* dz from here on */
    if (self->bias && e->grad[self->param[self->n_param - 1]])
        nn_sum_rows(n, N, z, e->grad[self->param[self->n_param - 1]]);
    if (R && e->grad[self->param[1]])
        nn_gemm(1, 0, R, N, n, 1, h, z, 1, e->grad[self->param[1]]);
    if (R)
        nn_gemm(0, 1, n, R, N, 1, z, e->w[self->param[1]], 0, h); /* dh from here on */
    if (dw)
        nn_gemm(1, 0, N, width, n, 1, xl, R ? h : z, 1, dw);
    dx = nn_input_gradient(e, self->in[1], &add);
    if (!dx)
        return;
    if (add)
        nn_add(n * N, dy, dx);
    else
        memcpy(dx, dy, n * N * sizeof *dx);
    nn_gemm(0, 1, n, N, width, 1, R ? h : z, e->w[self->param[0]], 1, dx);
}

static void vector_forward(struct nn_exec *e, const struct nn_node *self) {
    const size_t N = self->size;
    const float *x0 = e->state[self->in[0]].y, *xl = e->state[self->in[1]].y,
                *w = e->w[self->param[0]];
    float *y = e->state[self->id].y, *s = e->state[self->id].extra;
    memcpy(y, xl, e->n * N * sizeof *y);
    for (uint32_t i = 0; i < e->n; i++, x0 += N, xl += N, y += N) {
        s[i] = nn_dot(N, xl, w);
        nn_axpy(N, s[i], x0, y);
        if (self->bias)
            nn_add(N, e->w[self->param[1]], y);
    }
}

static void vector_backward(struct nn_exec *e, const struct nn_node *self) {
    const size_t N = self->size;
    const float *x0 = e->state[self->in[0]].y, *xl = e->state[self->in[1]].y,
                *w = e->w[self->param[0]], *dy = e->state[self->id].dy,
                *s = e->state[self->id].extra;
    float *dw = e->grad[self->param[0]];
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    for (uint32_t i = 0; dx && i < e->n; i++) {
        if (add)
            nn_axpy(N, s[i], dy + i * N, dx + i * N);
        else
            nn_times(N, s[i], dy + i * N, dx + i * N);
    }
    if (self->bias && e->grad[self->param[1]])
        nn_sum_rows(e->n, N, dy, e->grad[self->param[1]]);
    dx = nn_input_gradient(e, self->in[1], &add);
    if (dx && add)
        nn_add(e->n * N, dy, dx);
    else if (dx)
        memcpy(dx, dy, e->n * N * sizeof *dx);
    for (uint32_t i = 0; i < e->n; i++, dy += N, x0 += N, xl += N) {
        const float ds = nn_dot(N, dy, x0);
        if (dw)
            nn_axpy(N, ds, xl, dw);
        if (dx)
            nn_axpy(N, ds, w, dx + i * N);
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    (self->option == VECTOR ? vector_forward : matrix_forward)(e, self);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    (self->option == VECTOR ? vector_backward : matrix_backward)(e, self);
}

const struct nn_layer nn_layer_cross = {
    .name = "cross",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "a cross layer of DCNv2 (kind = matrix) or DCN (kind = vector): products with x_0",
    .formula =
        "inputs    x_0, the values to cross, and x_l, the cross layer before; in the first one x_0 "
        "again\n"
        "shapes    x_0[B,N] x_l[B,N] b[N] -> y[B,N]\n"
        "matrix    y = x_0 * z + x_l, value by value; z = x_l W + b with W[N,N],\n"
        "          with rank = R: z = (x_l V) U + b with V[N,R] U[R,N]\n"
        "          dz = dy * x_0, dW = x_l' dz, db = sum of dz, dx_0 = dy * z, dx_l = dy + dz W'\n"
        "vector    y = x_0 s + x_l + b, s = x_l.w with w[N,1]\n"
        "          ds = dy.x_0, dw = sum of ds x_l, db = sum of dy, dx_0 = s dy, dx_l = dy + ds w\n"
        "initial   W, V, w: normal, std 1/sqrt(N); U: 1/sqrt(R); b: 0\n",
    .source = "cross-layer",
    .example = "[layer crossed]\n"
               "type = cross\n"
               "inputs = all first\n"
               "rank = 8\n"
               "\n"
               "[layer first]\n"
               "type = cross\n"
               "inputs = all all\n"
               "\n"
               "[layer all]\n"
               "type = concat\n"
               "inputs = user item numbers\n",
};
