/* SPDX-License-Identifier: Apache-2.0 */
/* layer_fc.c - y = act(x_0 W_0 + x_1 W_1 + ... + b). The formulas are in the row at the end of the
 * file.
 *
 * In executions beside each other, joint_gradient() makes dW_k from all their samples at once, a
 * slice for each execution. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "size", "act", "bias", NN_PARAM_KEYS, NULL};

/* So many values of a gradient stay in a core's cache while they are cleared and computed. */
enum { BLOCK = 1 << 17 };

/* The start of part k of n of a side, in whole cache lines. */
static size_t slice_start(size_t side, size_t k, size_t n) {
    size_t at = (side * k / n + 15) / 16 * 16;
    return at < side ? at : side;
}

/* dW = x' dy, of it part k of n. The part is cleared here: OpenBLAS would clear it in a slow pass
 * of its own. */
static void make_slice(const float *x, size_t width, const float *dy, size_t size, size_t n_samples,
                       size_t k, size_t n, float *g) {
    const int tall = width >= size;
    const size_t top = tall ? slice_start(width, k, n) : 0,
                 bottom = tall ? slice_start(width, k + 1, n) : width,
                 left = tall ? 0 : slice_start(size, k, n),
                 right = tall ? size : slice_start(size, k + 1, n);
    if (top >= bottom || left >= right)
        return;
    for (size_t i = top; i < bottom; i++)
        memset(g + i * size + left, 0, (right - left) * sizeof *g);
    nn_gemm_part(1, 0, bottom - top, right - left, n_samples, 1, x + top, width, dy + left, size, 1,
                 g + top * size + left, size);
}

static void joint_gradient(struct nn_exec *e, const struct nn_node *self, const struct nn_feed *f,
                           uint32_t k, uint32_t n) {
    for (uint32_t i = 0; i < self->n_in; i++) {
        const struct nn_node *in = &e->g->node[self->in[i]];
        const struct nn_param *p = &e->g->param[self->param[i]];
        const float *x = in->type ? e->state[in->id].all_y : f->col[in->id].value;
        const size_t blocks = e->grad[self->param[i]] && nn_param_is_joint(p, f->n)
                                  ? p->rows * p->cols / n / (BLOCK + 1) + 1
                                  : 0;
        for (size_t b = 0; b < blocks; b++)
            make_slice(x, in->size, e->state[self->id].all_dy, self->size, f->n, k * blocks + b,
                       n * blocks, e->grad[self->param[i]]);
    }
}

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    uint64_t size = nn_build_size(b, self), fan_in = 0;
    int rc = nn_build_need_values(b, self, err);
    if (rc)
        return rc;
    if (!size)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a size", b->file, self->line,
                       self->name);
    self->size = (uint32_t)size;
    for (uint32_t k = 0; k < self->n_in; k++)
        fan_in += b->g->node[self->in[k]].size;
    double std = ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)fan_in);
    for (uint32_t k = 0; !rc && k < self->n_in; k++) {
        char suffix[16] = "w";
        if (self->n_in > 1) /* w0, w1, ... */
            for (uint32_t d = k < 10 ? 1 : 10, at = 1; d; d /= 10)
                suffix[at++] = (char)('0' + k / d % 10);
        rc = nn_build_param(b, self, k, suffix, NN_DENSE, b->g->node[self->in[k]].size, size, std,
                            err);
    }
    self->together = joint_gradient;
    self->bias = ini->bias.line ? ini->bias.value : 1;
    if (!rc && self->bias)
        rc = nn_build_param(b, self, self->n_in, "b", NN_DENSE, 1, size, 0, err);
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    float *y = e->state[self->id].y;
    float beta = 0;
    if (self->bias) {
        nn_fill_rows(e->n, self->size, e->w[self->param[self->n_in]], y);
        beta = 1;
    }
    for (uint32_t k = 0; k < self->n_in; k++, beta = 1)
        nn_gemm(0, 0, e->n, self->size, e->g->node[self->in[k]].size, 1, e->state[self->in[k]].y,
                e->w[self->param[k]], beta, y);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    const float *dy = e->state[self->id].dy;
    for (uint32_t k = 0; k < self->n_in; k++) {
        uint32_t in = self->in[k];
        size_t width = e->g->node[in].size;
        if (e->grad[self->param[k]] &&
            !(e->beside && nn_param_is_joint(&e->g->param[self->param[k]], e->feed->n)))
            nn_gemm(1, 0, width, self->size, e->n, 1, e->state[in].y, dy, 1,
                    e->grad[self->param[k]]);
        int add;
        float *dx = nn_input_gradient(e, in, &add);
        if (dx)
            nn_gemm(0, 1, e->n, width, self->size, 1, dy, e->w[self->param[k]], add ? 1 : 0, dx);
    }
    if (self->bias && e->grad[self->param[self->n_in]])
        nn_sum_rows(e->n, self->size, dy, e->grad[self->param[self->n_in]]);
}

const struct nn_layer nn_layer_fc = {
    .name = "fc",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "fully connected: sum over the inputs of x W, plus a bias",
    .formula =
        "shapes    x_k[B,I_k] W_k[I_k,O] b[O] -> y[B,O]; O = size\n"
        "forward   y = act(sum_k x_k W_k + b)\n"
        "backward  dW_k = x_k' dy, db = sum of the rows of dy, dx_k = dy W_k'\n"
        "initial   W: normal, std 1/sqrt(sum of all I_k), so several inputs count like their\n"
        "          concatenation; b: 0\n",
    .source = "backprop",
    .example = "[layer out]\n"
               "type = fc\n"
               "inputs = user item\n"
               "size = 64\n"
               "act = relu\n",
};
