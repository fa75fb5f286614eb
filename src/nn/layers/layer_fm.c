/* SPDX-License-Identifier: Apache-2.0 */
/* layer_fm.c - factorization machine, order 2. The formulas are in the row at the end of the file.
 * Backward uses s_d = sum_k v_kd, which forward leaves in state.extra[B,D]. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs", "dim", "act", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    int rc = nn_build_n_in(b, self, 1, NN_MAX_INPUTS, err);
    if (!rc && !ini->dim.line)
        rc = pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs dim, the width of one vector", b->file,
                     self->line, self->name);
    for (uint32_t k = 0; k < self->n_in && !rc; k++) {
        const struct nn_node *in = &b->g->node[self->in[k]];
        if (in->size % ini->dim.value)
            rc = pd_fail(err, PD_ECONF,
                         "%s:%d: layer '%s': dim is %llu, but its input '%s' is [batch x %u], no "
                         "multiple of it",
                         b->file, ini->dim.line, self->name, (unsigned long long)ini->dim.value,
                         in->name, in->size);
    }
    self->dim = self->n_extra = (uint32_t)ini->dim.value;
    self->size = 1;
    return rc;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
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

static void backward(struct nn_exec *e, const struct nn_node *self) {
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

const struct nn_layer nn_layer_fm = {
    .name = "fm",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "factorization machine: the dot products of all pairs of vectors, added up",
    .formula =
        "shapes    x[B, K*D] -> y[B,1]; the inputs side by side, each a multiple of D = dim wide\n"
        "forward   y = sum over pairs k < l of v_k . v_l = 1/2 sum_d ((sum_k v_kd)^2 - sum_k "
        "v_kd^2)\n"
        "backward  dv_kd = dy (sum_l v_ld - v_kd)\n",
    .source = "factorization-machine",
    .example = "[layer pairs]\n"
               "type = fm\n"
               "inputs = user item\n"
               "dim = 16\n",
};
