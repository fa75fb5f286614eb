/* SPDX-License-Identifier: Apache-2.0 */
/* layer_pool.c - the largest value, or the mean, at each place of a window over images, for each
 * channel. The formulas are in the row at the end of the file. state.extra keeps the place of the
 * largest value. */
#include "nn/layers/image.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "pooling", "act", NN_IMAGE_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    int rc = nn_build_n_in(b, self, 1, 1, err);
    self->option = ini->pooling.line && !strcmp(ini->pooling.text, "mean");
    if (!rc && ini->pooling.line && !self->option && strcmp(ini->pooling.text, "max"))
        rc = pd_fail(err, PD_ECONF, "%s:%d: layer '%s': pooling is max or mean, not '%s'", b->file,
                     ini->pooling.line, self->name, ini->pooling.text);
    if (!rc)
        rc = nn_image_input(b, self, &self->window.in, err);
    if (!rc)
        rc = nn_image_window(b, self, self->window.in.channels, 0, err);
    self->n_extra = self->size;
    return rc;
}

/* The part of the window at place (r, c) that lies inside the image. */
struct window_part {
    uint32_t y0, y1, x0, x1;
};

static struct window_part part_at(const struct nn_window *w, uint32_t r, uint32_t c) {
    uint32_t y = r * w->stride, x = c * w->stride, h = w->in.height + w->padding,
             wd = w->in.width + w->padding;
    uint32_t y1 = y + w->filter < h ? y + w->filter : h,
             x1 = x + w->filter < wd ? x + w->filter : wd;
    return (struct window_part){(y > w->padding ? y : w->padding) - w->padding, y1 - w->padding,
                                (x > w->padding ? x : w->padding) - w->padding, x1 - w->padding};
}

/* The largest value of a window, with its place; or the sum. */
static float scan_window(const struct window_part *p, uint32_t width, const float *x, int mean,
                         uint32_t *place) {
    float best = mean ? 0 : -INFINITY;
    *place = p->y0 * width + p->x0;
    for (uint32_t r = p->y0; r < p->y1; r++)
        for (uint32_t c = p->x0; c < p->x1; c++) {
            float v = x[r * width + c];
            if (mean) {
                best += v;
            } else if (v > best || isnan(v)) {
                best = v;
                *place = r * width + c;
            }
        }
    return best;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    const struct nn_window *w = &self->window;
    const float *x = e->state[self->in[0]].y;
    float *y = e->state[self->id].y;
    uint32_t *at = (uint32_t *)e->state[self->id].extra;
    for (uint32_t i = 0; i < e->n * w->in.channels; i++, x += (size_t)w->in.height * w->in.width)
        for (uint32_t r = 0; r < self->image.height; r++)
            for (uint32_t c = 0; c < self->image.width; c++, y++, at++) {
                struct window_part p = part_at(w, r, c);
                *y = scan_window(&p, w->in.width, x, self->option, at);
                if (self->option)
                    *y /= (float)((p.y1 - p.y0) * (p.x1 - p.x0));
            }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    const struct nn_window *w = &self->window;
    const float *dy = e->state[self->id].dy;
    const uint32_t *at = (const uint32_t *)e->state[self->id].extra;
    size_t image = (size_t)w->in.height * w->in.width;
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    if (!dx)
        return;
    if (!add)
        memset(dx, 0, e->n * w->in.channels * image * sizeof *dx);
    for (uint32_t i = 0; i < e->n * w->in.channels; i++, dx += image)
        for (uint32_t r = 0; r < self->image.height; r++)
            for (uint32_t c = 0; c < self->image.width; c++, dy++, at++) {
                if (!self->option) {
                    dx[*at] += *dy;
                    continue;
                }
                struct window_part p = part_at(w, r, c);
                float d = *dy / (float)((p.y1 - p.y0) * (p.x1 - p.x0));
                for (uint32_t y = p.y0; y < p.y1; y++)
                    for (uint32_t z = p.x0; z < p.x1; z++)
                        dx[y * w->in.width + z] += d;
            }
}

const struct nn_layer nn_layer_pool = {
    .name = "pool",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "the largest value or the mean under a window over images",
    .formula =
        "shapes    x[B, C*H*W] -> y[B, C*OH*OW], OH = (H + 2 padding - K) / stride + 1, K = "
        "filter\n"
        "max       forward: the first of the largest values; backward: dx = dy at its place\n"
        "mean      over the values inside the image; backward: dy is divided among them\n",
    .source = "convolution",
    .example = "[layer smaller]\n"
               "type = pool\n"
               "inputs = hidden\n"
               "channels = 1\n"
               "height = 8\n"
               "width = 8\n"
               "filter = 2\n"
               "pooling = max\n",
    .chooses = 1,
};
