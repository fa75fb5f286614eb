/* SPDX-License-Identifier: Apache-2.0 */
/* layer_dropout.c - values left out at random in training. The formulas are in the row at the end
 * of the file.
 *
 * The mask of a sample is a function of (seed, pass, the sample's stream and index, the layer's
 * number). So it does not depend on how batches are cut or which trainer computes them. Each draw
 * of the counter-based generator gives four values: key (seed, DROPOUT, pass, stream), counter
 * (index; layer number << 32 | column / 4). */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "rate", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    int rc = nn_build_need_values(b, self, err);
    if (rc)
        return rc;
    if (self->n_in != 1)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': dropout takes one input, not %u", b->file,
                       self->ini->inputs.line, self->name, self->n_in);
    if (!self->ini->rate.line)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a rate", b->file, self->line,
                       self->name);
    self->rate = (float)self->ini->rate.value;
    self->size = b->g->node[self->in[0]].size;
    self->image = b->g->node[self->in[0]].image;
    self->n_extra = self->rate > 0 ? self->size : 0; /* the mask: factors of the values */
    return 0;
}

static void fill_mask(struct nn_exec *e, const struct nn_node *self) {
    const uint32_t *stream = e->feed->stream + e->first;
    const uint64_t *index = e->feed->index + e->first;
    uint32_t drop_below = (uint32_t)((double)self->rate * 4294967296.0);
    float keep = 1.0f / (1.0f - self->rate);
    float *mask = e->state[self->id].extra;
    for (uint32_t i = 0; i < e->n; i++) {
        struct pd_rng_key key = pd_rng_key(e->seed, PD_RNG_DROPOUT, e->pass, stream[i]);
        for (uint32_t j = 0; j < self->size; j += 4) {
            uint32_t u[4];
            pd_rng_u32x4(key, index[i], (uint64_t)self->number << 32 | j / 4, u);
            for (uint32_t l = 0; l < 4 && j + l < self->size; l++)
                *mask++ = u[l] < drop_below ? 0.0f : keep;
        }
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = (size_t)e->n * self->size;
    const float *x = e->state[self->in[0]].y;
    struct nn_state *s = &e->state[self->id];
    if (e->mode == NN_TEST || self->rate == 0) {
        memcpy(s->y, x, n * sizeof *x);
        return;
    }
    fill_mask(e, self);
    nn_mul(n, x, s->extra, s->y);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t n = (size_t)e->n * self->size;
    struct nn_state *s = &e->state[self->id];
    int add;
    float *dx = nn_input_gradient(e, self->in[0], &add);
    if (!dx)
        return;
    if (self->rate > 0)
        nn_mul(n, s->dy, s->extra, s->dy);
    if (add)
        nn_add(n, s->dy, dx);
    else
        memcpy(dx, s->dy, n * sizeof *dx);
}

const struct nn_layer nn_layer_dropout = {
    .name = "dropout",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "values left out at random while training",
    .formula = "shapes    x[B,N] -> y[B,N]\n"
               "training  y = 0 with probability rate, otherwise x / (1 - rate); dx = 0, or dy / "
               "(1 - rate)\n"
               "testing   y = x\n",
    .source = "dropout",
    .example = "[layer thin]\n"
               "type = dropout\n"
               "inputs = hidden\n"
               "rate = 0.5\n",
};
