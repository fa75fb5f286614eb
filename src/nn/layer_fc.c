/* layer_fc.c - y = act(x_0 W_0 + x_1 W_1 + ... + b).
 *
 * Shapes:  x_k[B,I_k] W_k[I_k,O] b[O] -> y[B,O];  dW_k += x_k' dy, db += sum of the rows of dy, dx_k (+)= dy W_k'
 * Initial W: normal, std 1/sqrt(sum of all I_k), so that several inputs count like their concatenation; b: 0.
 */
#include <math.h>
#include <string.h>

#include "nn/internal.h"
#include "nn/kernel.h"

static const char *const takes[] = {"inputs", "size", "act", "bias", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    uint64_t size = nn_build_size(b, self), fan_in = 0;
    int rc = nn_build_need_values(b, self, err);
    if (rc)
        return rc;
    if (!size)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a size", b->file, self->line, self->name);
    self->size = (uint32_t)size;
    for (uint32_t k = 0; k < self->n_in; k++)
        fan_in += b->g->node[self->in[k]].size;
    double std = ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)fan_in);
    for (uint32_t k = 0; !rc && k < self->n_in; k++) {
        char suffix[16] = "w";
        if (self->n_in > 1) /* w0, w1, ... */
            for (uint32_t d = k < 10 ? 1 : 10, at = 1; d; d /= 10)
                suffix[at++] = (char)('0' + k / d % 10);
        rc = nn_build_param(b, self, k, suffix, NN_DENSE, b->g->node[self->in[k]].size, size, std, err);
    }
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
        if (e->grad[self->param[k]])
            nn_gemm(1, 0, width, self->size, e->n, 1, e->state[in].y, dy, 1, e->grad[self->param[k]]);
        int add;
        float *dx = nn_grad_into(e, in, &add);
        if (dx)
            nn_gemm(0, 1, e->n, width, self->size, 1, dy, e->w[self->param[k]], add ? 1 : 0, dx);
    }
    if (self->bias && e->grad[self->param[self->n_in]])
        nn_sum_rows(e->n, self->size, dy, e->grad[self->param[self->n_in]]);
}

const struct nn_layer nn_layer_fc = {"fc", takes, shape, forward, backward,
                                     "fully connected: sum over the inputs of x W, plus a bias", 0};
