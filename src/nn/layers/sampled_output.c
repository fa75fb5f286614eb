/* SPDX-License-Identifier: Apache-2.0 */
/* sampled_output.c - see sampled_output.h. */
#include "nn/layers/sampled_output.h"

#include "nn/kernels/kernel.h"

enum { USE_DRAWN, USE_LABEL, USES }; /* in node.use, for each parameter */

static enum nn_kind kind(const struct layer_ini *ini) {
    return ini->sparse_update.value || ini->is_distributed.value ? NN_TABLE : NN_DENSE;
}

/* Add a parameter whose rows the label and the drawn ids look up. */
static int add_param(struct nn_build *b, struct nn_node *self, uint32_t p, const char *suffix,
                     uint64_t cols, double std, struct pd_err *err) {
    const struct nn_node *t = &b->g->node[self->in[1]];
    int rc =
        nn_build_param(b, self, p, suffix, kind(self->ini), t->field.vocabulary, cols, std, err);
    if (rc || kind(self->ini) == NN_DENSE)
        return rc;
    rc = nn_build_use(b, self, p * USES + USE_LABEL, p, t->number, err);
    return rc ? rc
              : nn_build_use_drawn(b, self, p * USES + USE_DRAWN, p, (uint32_t)self->option, err);
}

int nn_sampled_shape(struct nn_build *b, struct nn_node *self, double power, int log_q,
                     struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    const struct nn_node *h = &b->g->node[self->in[0]], *t = &b->g->node[self->in[self->n_in - 1]];
    if (self->n_in != 2 || !h->type || t->type || t->field.kind != PD_ID)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': %s takes a layer and a field of ids as its inputs",
                       b->file, ini->inputs.line, self->name, self->type->name);
    if (!ini->negatives.line)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs negatives, how many ids are drawn",
                       b->file, self->line, self->name);
    self->size = 1;
    self->dim = (uint32_t)ini->negatives.value;
    self->n_extra = self->dim + 1;
    self->n_work = 2 * (size_t)self->dim * (h->size + 1);
    self->option = nn_sampler_add(b, self, t->field.vocabulary, power, log_q, err);
    if (self->option < 0)
        return self->option;
    int rc = add_param(b, self, NN_SAMPLED_W, "w", h->size, ini->init_std.value, err);
    return rc || !self->bias ? rc : add_param(b, self, NN_SAMPLED_BIAS, "b", 1, 0, err);
}

size_t nn_sampled_label_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            uint32_t i) {
    int table = e->g->param[self->param[p]].kind == NN_TABLE;
    return table ? e->feed->slot[self->use[p * USES + USE_LABEL]][e->first + i]
                 : nn_ids(e, e->g->node[self->in[1]].number)[i];
}

size_t nn_sampled_drawn_row(const struct nn_exec *e, const struct nn_node *self, uint32_t p,
                            size_t at) {
    int table = e->g->param[self->param[p]].kind == NN_TABLE;
    return table ? e->feed->slot[self->use[p * USES + USE_DRAWN]][at]
                 : e->feed->draw[self->option].ids[at];
}

uint32_t nn_sampled_group(const struct nn_exec *e, const struct nn_node *self, uint32_t i,
                          size_t *at, float *out) {
    const uint32_t *group = e->feed->draw[self->option].group + e->first;
    const float *w = e->w[self->param[NN_SAMPLED_W]];
    size_t D = e->g->param[self->param[NN_SAMPLED_W]].cols;
    uint32_t end = i + 1;
    while (end < e->n && group[end] == group[i])
        end++;
    *at = (size_t)group[i] * self->dim;
    for (uint32_t k = 0; k < self->dim; k++)
        memcpy(out + k * D, w + nn_sampled_drawn_row(e, self, NN_SAMPLED_W, *at + k) * D,
               D * sizeof(float));
    return end;
}

/* Gradient of the bias from samples [i, end), whose drawn ids begin at place `at`. sum: scratch for
 * K values. */
static void bias_gradient(struct nn_exec *e, const struct nn_node *self, uint32_t i, uint32_t end,
                          size_t at, float *sum) {
    size_t K = self->dim;
    const float *dy = e->state[self->id].dy, *drawn = e->state[self->id].extra,
                *own = drawn + e->max * K;
    float *db = e->grad[self->param[NN_SAMPLED_BIAS]];
    memset(sum, 0, K * sizeof *sum);
    nn_sum_rows(end - i, K, drawn + i * K, sum);
    for (size_t k = 0; db && k < K; k++)
        db[nn_sampled_drawn_row(e, self, NN_SAMPLED_BIAS, at + k)] += sum[k];
    for (uint32_t s = i; db && s < end; s++)
        db[nn_sampled_label_row(e, self, NN_SAMPLED_BIAS, s)] += dy[s] * own[s];
}

void nn_sampled_backward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, K = self->dim, at;
    const float *h = e->state[self->in[0]].y, *w = e->w[self->param[NN_SAMPLED_W]],
                *dy = e->state[self->id].dy;
    float *drawn = e->state[self->id].extra, *own = drawn + e->max * K,
          *dw = e->grad[self->param[NN_SAMPLED_W]], *rows = e->work + K * D;
    int add;
    float *dh = nn_input_gradient(e, self->in[0], &add);
    for (uint32_t i = 0, end; i < e->n; i = end) {
        end = nn_sampled_group(e, self, i, &at, e->work);
        for (uint32_t s = i; s < end; s++)
            nn_scale(K, dy[s], drawn + s * K);
        if (self->bias)
            bias_gradient(e, self, i, end, at, rows + K * D);
        if (dh)
            nn_gemm(0, 0, end - i, D, K, 1, drawn + i * K, e->work, add ? 1 : 0, dh + i * D);
        if (dw) {
            nn_gemm(1, 0, K, D, end - i, 1, drawn + i * K, h + i * D, 0, rows);
            for (uint32_t k = 0; k < K; k++)
                nn_add(D, rows + k * D,
                       dw + nn_sampled_drawn_row(e, self, NN_SAMPLED_W, at + k) * D);
        }
        for (uint32_t s = i; s < end; s++) {
            size_t row = nn_sampled_label_row(e, self, NN_SAMPLED_W, s) * D;
            if (dh)
                nn_axpy(D, dy[s] * own[s], w + row, dh + s * D);
            if (dw)
                nn_axpy(D, dy[s] * own[s], h + s * D, dw + row);
        }
    }
}
