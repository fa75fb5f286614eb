/* SPDX-License-Identifier: Apache-2.0 */
/* layer_conv.c - convolution in two dimensions (a correlation, as usual), through matrix products
 * (im2col): y[F,P] = w' col + b, where col[C*K*K, P] has for each place of the window the values
 * under it, zeros outside. Samples are computed one at a time: col is scratch, and backward makes
 * it again. The formulas are in the row at the end of the file. */
#include "nn/layers/image.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs",      "size",        "act", "bias",
                                    NN_IMAGE_KEYS, NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    struct nn_window *w = &self->window;
    uint64_t filters = ini->size.value;
    int rc = nn_build_n_in(b, self, 1, 1, err);
    if (!rc && !filters)
        rc = pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a size, the number of its filters",
                     b->file, self->line, self->name);
    if (!rc)
        rc = nn_image_input(b, self, &w->in, err);
    if (!rc)
        rc = nn_image_window(b, self, (uint32_t)filters, 1, err);
    if (rc)
        return rc;
    uint64_t fan_in = (uint64_t)w->in.channels * w->filter * w->filter;
    self->n_work = 2 * fan_in * self->image.height * self->image.width;
    double std = ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)fan_in);
    rc = nn_build_param(b, self, 0, "w", NN_DENSE, fan_in, filters, std, err);
    self->bias = ini->bias.line ? ini->bias.value : 1;
    if (!rc && self->bias)
        rc = nn_build_param(b, self, 1, "b", NN_DENSE, 1, filters, 0, err);
    return rc;
}

/* Along a row of the output: the places [*lo, *hi) at which offset k of the window lies inside `n`
 * values. */
static void inside(const struct nn_window *w, uint32_t k, uint32_t n, uint32_t places, uint32_t *lo,
                   uint32_t *hi) {
    *lo = k < w->padding ? (w->padding - k + w->stride - 1) / w->stride : 0;
    uint32_t room = n + w->padding > k ? n + w->padding - k : 0; /* place * stride < room */
    *hi = (room + w->stride - 1) / w->stride;
    *hi = *hi < places ? *hi : places;
    *lo = *lo < *hi ? *lo : *hi;
}

/* Make col from x; `back`: x += col. */
static void windows(const struct nn_node *self, float *x, float *col, int back) {
    const struct nn_window *w = &self->window;
    uint32_t oh = self->image.height, ow = self->image.width;
    for (uint32_t c = 0; c < w->in.channels; c++, x += (size_t)w->in.height * w->in.width)
        for (uint32_t ky = 0; ky < w->filter; ky++)
            for (uint32_t kx = 0; kx < w->filter; kx++, col += (size_t)oh * ow) {
                uint32_t y0, y1, x0, x1;
                inside(w, ky, w->in.height, oh, &y0, &y1);
                inside(w, kx, w->in.width, ow, &x0, &x1);
                if (!back && (x0 || x1 < ow || y0 || y1 < oh))
                    memset(col, 0, (size_t)oh * ow * sizeof *col);
                for (uint32_t r = y0; r < y1; r++) {
                    float *line = x + (size_t)(r * w->stride + ky - w->padding) * w->in.width,
                          *to = col + (size_t)r * ow;
                    if (!back && w->stride == 1)
                        memcpy(to + x0, line + x0 + kx - w->padding, (x1 - x0) * sizeof *to);
                    else if (!back)
                        for (uint32_t i = x0; i < x1; i++)
                            to[i] = line[i * w->stride + kx - w->padding];
                    else
                        for (uint32_t i = x0; i < x1; i++)
                            line[i * w->stride + kx - w->padding] += to[i];
                }
            }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t places = (size_t)self->image.height * self->image.width, filters = self->image.channels,
           in = e->g->node[self->in[0]].size;
    size_t rows = e->g->param[self->param[0]].rows;
    for (uint32_t i = 0; i < e->n; i++) {
        float *y = e->state[self->id].y + i * self->size;
        windows(self, e->state[self->in[0]].y + i * in, e->work, 0);
        for (size_t f = 0; self->bias && f < filters; f++)
            for (size_t p = 0; p < places; p++)
                y[f * places + p] = e->w[self->param[1]][f];
        nn_gemm(1, 0, filters, places, rows, 1, e->w[self->param[0]], e->work, self->bias ? 1 : 0,
                y);
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t places = (size_t)self->image.height * self->image.width, filters = self->image.channels,
           in = e->g->node[self->in[0]].size;
    size_t rows = e->g->param[self->param[0]].rows;
    float *dw = e->grad[self->param[0]], *db = self->bias ? e->grad[self->param[1]] : NULL,
          *dcol = e->work + rows * places;
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    if (dx && !add)
        memset(dx, 0, e->n * in * sizeof *dx);
    for (uint32_t i = 0; i < e->n; i++) {
        const float *dy = e->state[self->id].dy + i * self->size;
        for (size_t f = 0; db && f < filters; f++)
            db[f] += nn_sum(places, dy + f * places);
        if (dw) {
            windows(self, e->state[self->in[0]].y + i * in, e->work, 0);
            nn_gemm(0, 1, rows, filters, places, 1, e->work, dy, 1, dw);
        }
        if (dx) {
            nn_gemm(0, 0, rows, places, filters, 1, e->w[self->param[0]], dy, 0, dcol);
            windows(self, dx + i * in, dcol, 1);
        }
    }
}

const struct nn_layer nn_layer_conv = {
    .name = "conv",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "convolution of images, size filters",
    .formula =
        "shapes    x[B, C*H*W], w[C*K*K, F], b[F] -> y[B, F*OH*OW]\n"
        "          OH = (H + 2 padding - K) / stride + 1, OW likewise; K = filter, F = size\n"
        "forward   y_f = act(b_f + sum over c, i, j of w_cijf x_c(row stride + i - padding,\n"
        "          column stride + j - padding)), with zeros outside of the image\n"
        "backward  dw = sum over samples and places of x dy; db = sum of dy; dx = sum of w dy\n"
        "initial   w: normal, std 1/sqrt(C K K); b: 0\n",
    .source = "convolution",
    .example = "[layer edges]\n"
               "type = conv\n"
               "inputs = hidden\n"
               "channels = 1\n"
               "height = 8\n"
               "width = 8\n"
               "filter = 3\n"
               "size = 8\n"
               "act = relu\n",
};
