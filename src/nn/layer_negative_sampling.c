/* layer_negative_sampling.c - an output layer for large vocabularies: the label against K drawn ids instead of against all.
 *
 * Inputs: a layer h[B,D] and a field of ids t. Parameter w[V,D], usually a table (sparse_update).
 *   y[B,1] = softplus(-h.w_t) + scale * sum_k softplus(h.w_nk): the cost of each sample, for a cost of type sum
 *   d(h.w_t) = sigmoid(h.w_t) - 1;  d(h.w_nk) = scale * sigmoid(h.w_nk);  a drawn id that is the label does not count
 * `negatives` ids are drawn for `share` neighbouring samples together (default 1): the more share them, the more of the work are
 * matrix products. With 64 ids for 512 samples, scale = 5/64 weighs them like 5 a sample.
 * state.extra: [max x K] scale * sigmoid of the drawn, then [max] sigmoid - 1 of the label.
 *   Source: docs/sources.md#negative-sampling
 */
#include <string.h>

#include "nn/kernel.h"
#include "nn/sampler.h"

static const char *const takes[] = {"inputs", "negatives", "share", "scale", "counts", "sparse_update", "is_distributed", NN_PARAM_KEYS, NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    const struct nn_node *h = &b->g->node[self->in[0]], *t = &b->g->node[self->in[self->n_in - 1]];
    if (self->n_in != 2 || !h->type || t->type || t->field.kind != PD_ID)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': negative_sampling takes a layer and a field of ids as its inputs", b->file,
                       ini->inputs.line, self->name);
    if (!ini->negatives.line)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs negatives, how many ids are drawn", b->file, self->line, self->name);
    self->size = 1;
    self->dim = (uint32_t)ini->negatives.value;
    self->rate = ini->scale.line ? (float)ini->scale.value : 1;
    self->n_extra = self->dim + 1;
    self->n_work = 2 * (size_t)self->dim * h->size + self->dim;
    enum nn_kind kind = ini->sparse_update.value || ini->is_distributed.value ? NN_TABLE : NN_DENSE;
    int rc = nn_build_param(b, self, 0, "w", kind, t->field.vocabulary, h->size, ini->init_std.value, err);
    if (!rc)
        rc = nn_sampler_add(b, self, t->field.vocabulary, self->dim, ini->share.line ? (uint32_t)ini->share.value : 1, err);
    if (rc < 0)
        return rc;
    self->option = rc;
    rc = kind == NN_TABLE ? nn_build_use(b, self, 1, 0, t->number, err) : 0;
    return rc || kind == NN_DENSE ? rc : nn_build_use_drawn(b, self, 0, 0, (uint32_t)self->option, err);
}

/* Row of the parameter for the label of sample i, and for the k-th drawn id of group q. */
static size_t label_row(const struct nn_exec *e, const struct nn_node *self, uint32_t i) {
    int table = e->g->param[self->param[0]].kind == NN_TABLE;
    return table ? e->feed->slot[self->use[1]][e->first + i] : nn_ids(e, e->g->node[self->in[1]].number)[i];
}
static size_t drawn_row(const struct nn_exec *e, const struct nn_node *self, size_t at) {
    int table = e->g->param[self->param[0]].kind == NN_TABLE;
    return table ? e->feed->slot[self->use[0]][at] : e->feed->draw[self->option].ids[at];
}

/* Samples [i, result) share the group of sample i; its rows are copied to e->work[K,D]. */
static uint32_t next_group(const struct nn_exec *e, const struct nn_node *self, uint32_t i, size_t D, size_t *at) {
    const uint32_t *group = e->feed->draw[self->option].group + e->first;
    uint32_t end = i + 1;
    while (end < e->n && group[end] == group[i])
        end++;
    *at = (size_t)group[i] * self->dim;
    for (uint32_t k = 0; k < self->dim; k++)
        memcpy(e->work + k * D, e->w[self->param[0]] + drawn_row(e, self, *at + k) * D, D * sizeof(float));
    return end;
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, K = self->dim, at;
    const float *h = e->state[self->in[0]].y, *w = e->w[self->param[0]];
    const uint64_t *label = nn_ids(e, e->g->node[self->in[1]].number);
    float *drawn = e->state[self->id].extra, *own = drawn + e->max * K, *soft = e->work + 2 * K * D;
    for (uint32_t i = 0, end; i < e->n; i = end) {
        end = next_group(e, self, i, D, &at);
        const uint64_t *ids = e->feed->draw[self->option].ids + at;
        nn_gemm(0, 1, end - i, K, D, 1, h + i * D, e->work, 0, drawn + i * K);
        for (uint32_t s = i; s < end; s++) {
            float z = -nn_dot(D, h + s * D, w + label_row(e, self, s) * D), *d = drawn + s * K, cost;
            nn_softplus(1, &z, &cost);
            nn_sigmoid(1, &z, &own[s]);
            own[s] = -own[s];
            nn_softplus(K, d, soft);
            nn_sigmoid(K, d, d);
            for (size_t k = 0; k < K; k++)
                if (ids[k] == label[s])
                    soft[k] = d[k] = 0;
            e->state[self->id].y[s] = cost + self->rate * nn_sum(K, soft);
            nn_scale(K, self->rate, d);
        }
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    size_t D = e->g->node[self->in[0]].size, K = self->dim, at;
    const float *h = e->state[self->in[0]].y, *w = e->w[self->param[0]], *dy = e->state[self->id].dy;
    float *drawn = e->state[self->id].extra, *own = drawn + e->max * K, *dw = e->grad[self->param[0]], *rows = e->work + K * D;
    int add;
    float *dh = nn_grad_into(e, self->in[0], &add);
    for (uint32_t i = 0, end; i < e->n; i = end) {
        end = next_group(e, self, i, D, &at);
        for (uint32_t s = i; s < end; s++)
            nn_scale(K, dy[s], drawn + s * K);
        if (dh)
            nn_gemm(0, 0, end - i, D, K, 1, drawn + i * K, e->work, add ? 1 : 0, dh + i * D);
        if (dw) {
            nn_gemm(1, 0, K, D, end - i, 1, drawn + i * K, h + i * D, 0, rows);
            for (uint32_t k = 0; k < K; k++)
                nn_add(D, rows + k * D, dw + drawn_row(e, self, at + k) * D);
        }
        for (uint32_t s = i; s < end; s++) {
            size_t row = label_row(e, self, s) * D;
            if (dh)
                nn_axpy(D, dy[s] * own[s], w + row, dh + s * D);
            if (dw)
                nn_axpy(D, dy[s] * own[s], h + s * D, dw + row);
        }
    }
}

const struct nn_layer nn_layer_negative_sampling = {
    "negative_sampling", takes, shape, forward, backward, "the cost of a label against ids drawn at random, for large vocabularies", 0};
