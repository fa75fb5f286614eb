/* SPDX-License-Identifier: Apache-2.0 */
/* layer_batch_norm.c - gives each value (of an image: each channel) mean 0 and variance 1 over the
 * batch, then scales and shifts it. The formulas are in the row at the end of the file.
 *
 *     extra     h [max, C P]; then r, m, v of the last forward, [C] each
 *
 * The running values are made by the servers (nn_param.average), over all that was computed in a
 * step. A single sample has no variance and leaves the running variance unchanged.
 */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

enum { GAMMA, BETA, MEAN, VARIANCE }; /* parameters */

static const char *const takes[] = {"inputs", "act", "eps", "momentum", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_n_in(b, self, 1, 1, err);
    if (rc)
        return rc;
    const struct nn_node *in = &b->g->node[self->in[0]];
    double momentum = self->ini->momentum.line ? self->ini->momentum.value : 0.9;
    if (momentum >= 1)
        return pd_fail(
            err, PD_ECONF,
            "%s:%d: layer '%s': momentum (the weight of the old running mean) must be less than 1",
            b->file, self->ini->momentum.line, self->name);
    self->size = in->size;
    self->image = in->image;
    self->dim = in->image.channels ? in->image.channels : in->size;
    self->n_extra = self->size + 3 * self->dim;
    self->n_work = 2 * (size_t)self->dim;
    self->rate = self->ini->eps.line ? (float)self->ini->eps.value : 1e-5f;
    self->option = self->ini->is_static.value;
    rc = nn_build_param(b, self, GAMMA, "gamma", NN_DENSE, 1, self->dim, 0, err);
    if (!rc)
        rc = nn_build_param(b, self, BETA, "beta", NN_DENSE, 1, self->dim, 0, err);
    if (!rc)
        rc = nn_build_average(b, self, MEAN, "mean", self->dim, 1 - momentum, 0, err);
    return rc ? rc
              : nn_build_average(b, self, VARIANCE, "variance", self->dim, 1 - momentum, 1, err);
}

struct norm_buffers { /* of this layer's buffers */
    size_t n, C, P;
    float M;
    float *h, *r, *m, *v;
};

static struct norm_buffers view(const struct nn_exec *e, const struct nn_node *self) {
    size_t C = self->dim, P = self->size / self->dim;
    float *h = e->state[self->id].extra, *r = h + (size_t)e->max * self->size;
    return (struct norm_buffers){e->n, C, P, (float)e->n * (float)P, h, r, r + C, r + 2 * C};
}

/* out[c] = sum of a (b NULL) or of a * b over samples and places, samples in order. */
static void sums(const struct norm_buffers *v, const float *a, const float *b, float *out) {
    memset(out, 0, v->C * sizeof *out);
    if (v->P == 1 && !b) {
        nn_sum_rows(v->n, v->C, a, out);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        size_t at = i * v->C * v->P;
        if (v->P == 1)
            nn_mul_add(v->C, a + at, b + at, out);
        for (size_t c = 0; v->P > 1 && c < v->C; c++, at += v->P)
            out[c] += b ? nn_dot(v->P, a + at, b + at) : nn_sum(v->P, a + at);
    }
}

/* out = (in - minus[c]) times[c] + plus[c]; NULL: leave that step out. out may be in. */
static void scale_and_shift(const struct norm_buffers *v, const float *in, const float *minus,
                            const float *times, const float *plus, float *out) {
    for (size_t i = 0; i < v->n; i++)
        for (size_t c = 0; c < v->C; c++) {
            float sub = minus ? minus[c] : 0, mul = times ? times[c] : 1, add = plus ? plus[c] : 0;
            for (size_t p = 0; p < v->P; p++, in++, out++)
                *out = (*in - sub) * mul + add;
        }
}

static int own_batch(const struct nn_exec *e, const struct nn_node *self) {
    return e->mode == NN_TRAIN && !self->option;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    const struct norm_buffers v = view(e, self);
    const float *x = e->state[self->in[0]].y, *m = e->w[self->param[MEAN]],
                *var = e->w[self->param[VARIANCE]];
    if (own_batch(e, self)) {
        sums(&v, x, NULL, v.m);
        nn_scale(v.C, 1 / v.M, v.m);
        m = v.m;
    }
    scale_and_shift(&v, x, m, NULL, NULL, v.h);
    if (own_batch(e, self)) {
        sums(&v, v.h, v.h, v.v);
        nn_scale(v.C, 1 / v.M, v.v);
        var = v.v;
    }
    for (size_t c = 0; c < v.C; c++)
        v.r[c] = 1 / sqrtf(var[c] + self->rate);
    scale_and_shift(&v, v.h, NULL, v.r, NULL, v.h);
    scale_and_shift(&v, v.h, NULL, e->w[self->param[GAMMA]], e->w[self->param[BETA]],
                    e->state[self->id].y);
}

/* Add the values that the running mean and variance average, once for each sample. */
static void add_averages(struct nn_exec *e, const struct nn_node *self,
                         const struct norm_buffers *v) {
    float *mean = e->grad[self->param[MEAN]], *variance = e->grad[self->param[VARIANCE]];
    if (mean)
        nn_axpy(v->C, (float)v->n, v->m, mean);
    if (variance && v->M > 1)
        nn_axpy(v->C, (float)v->n * v->M / (v->M - 1), v->v, variance);
    else if (variance)
        nn_axpy(v->C, (float)v->n, e->w[self->param[VARIANCE]], variance);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    const struct norm_buffers v = view(e, self);
    float *dy = e->state[self->id].dy, *sum = e->work, *along = e->work + v.C;
    float *dgamma = e->grad[self->param[GAMMA]], *dbeta = e->grad[self->param[BETA]];
    const float *gamma = e->w[self->param[GAMMA]];
    sums(&v, dy, NULL, sum);
    sums(&v, dy, v.h, along);
    if (dgamma)
        nn_add(v.C, along, dgamma);
    if (dbeta)
        nn_add(v.C, sum, dbeta);
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    int batch = own_batch(e, self);
    if (batch)
        add_averages(e, self, &v);
    nn_scale(2 * v.C, batch ? 1 / v.M : 0, sum); /* both sums */
    const float *h = v.h;
    for (size_t i = 0; dx && i < v.n; i++)
        for (size_t c = 0; c < v.C; c++) {
            float scale = gamma[c] * v.r[c];
            for (size_t p = 0; p < v.P; p++, dx++, dy++, h++) {
                float d = scale * (*dy - sum[c] - *h * along[c]);
                *dx = add ? *dx + d : d;
            }
        }
}

const struct nn_layer nn_layer_batch_norm = {
    .name = "batch_norm",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "mean 0 and variance 1 of each value (channel) over the batch, then scaled and shifted",
    .formula =
        "shapes    x[B,C,P] -> y[B,C,P]; gamma[C] beta[C] mean[C] variance[C]\n"
        "          an image has C channels of P places, other inputs have C values and P = 1\n"
        "training  m, v: mean and variance of the M = B P values of each c\n"
        "testing   m, v: the running mean and variance; in training, too, if the layer is static\n"
        "forward   h = (x - m) / sqrt(v + eps);  y = act(gamma h + beta)\n"
        "backward  dgamma = sum dy h, dbeta = sum dy\n"
        "          dx = gamma / sqrt(v + eps) (dy - sum(dy) / M - h sum(dy h) / M)\n"
        "          with the running m, v: dx = gamma / sqrt(v + eps) dy\n"
        "running   w = momentum w + (1 - momentum) (m, or v M / (M - 1)), after each step\n"
        "initial   gamma: 1, beta: 0\n"
        "batch     the samples that one thread computes together: a trainer's share, or a "
        "stream's\n"
        "          share under reproducible = topology\n",
    .source = "batch-norm",
    .example = "[layer normal]\n"
               "type = batch_norm\n"
               "inputs = hidden\n"
               "act = relu\n",
};
