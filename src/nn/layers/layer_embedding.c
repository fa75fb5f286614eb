/* SPDX-License-Identifier: Apache-2.0 */
/* layer_embedding.c - rows of a table for the ids of fields. The formulas are in the row at the end
 * of the file.
 *
 * With sparse_update or is_distributed the parameter is a table at the servers: a batch has only
 * the rows of its keys, and its gradient is a row for each key. Otherwise the parameter is a dense
 * tensor with a full gradient. Gradients of duplicate ids are added in the order of fields, in a
 * field in the order of the samples. */
#include "nn/graph/graph_internal.h"
#include "nn/kernels/kernel.h"

static const char *const takes[] = {"inputs",         "size",        "sparse_update",
                                    "is_distributed", "pooling",     "combine",
                                    NN_LIFE_KEYS,     NN_PARAM_KEYS, NULL};

/* From POOL_BI_INTERACTION on: of the pairs of rows. */
enum pooling { POOL_SUM, POOL_MEAN, POOL_SQRTN, POOL_BI_INTERACTION, POOL_FM, N_POOLINGS };
enum { COMBINE_SUM = 8, POOLING = 7 }; /* in node.option: this bit, and the pooling */

static int choose(const struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    static const char *const pooling[N_POOLINGS] = {"sum", "mean", "sqrtn", "bi_interaction", "fm"};
    int p = 0;
    while (ini->pooling.line && p < N_POOLINGS && strcmp(pooling[p], ini->pooling.text))
        p++;
    if (p == N_POOLINGS)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': pooling is sum, mean, sqrtn, bi_interaction or fm, not "
                       "'%s'",
                       b->file, ini->pooling.line, self->name, ini->pooling.text);
    int sum = ini->combine.line && !strcmp(ini->combine.text, "sum");
    if (ini->combine.line && !sum && strcmp(ini->combine.text, "concat"))
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': combine is concat or sum, not '%s'",
                       b->file, ini->combine.line, self->name, ini->combine.text);
    self->option = p | (sum ? COMBINE_SUM : 0);
    return 0;
}

static inline int pools_pairs(const struct nn_node *self) {
    return (self->option & POOLING) >= POOL_BI_INTERACTION;
}

/* The values that an input has in y. */
static inline uint32_t width_of(const struct nn_node *self) {
    return (self->option & POOLING) == POOL_FM ? 1 : self->dim;
}

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    uint64_t size = nn_build_size(b, self), rows = 0;
    int any = 0, lists = 0, rc = choose(b, self, err);
    enum nn_kind kind = ini->sparse_update.value || ini->is_distributed.value ? NN_TABLE : NN_DENSE;
    for (uint32_t k = 0; k < self->n_in && !rc; k++) {
        const struct nn_node *in = &b->g->node[self->in[k]];
        if (in->type || in->field.kind == PD_DENSE)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: layer '%s': an embedding takes fields of ids or lists as its "
                           "inputs, not %s '%s'",
                           b->file, ini->inputs.line, self->name,
                           in->type ? "layer" : "dense field", in->name);
        if (pools_pairs(self) && in->field.kind != PD_LIST)
            return pd_fail(err, PD_ECONF,
                           "%s:%d: layer '%s': pooling = %s takes the pairs inside a list, "
                           "but '%s' has one id a sample",
                           b->file, ini->pooling.line, self->name, ini->pooling.text, in->name);
        lists |= in->field.kind == PD_LIST;
        rows = in->field.vocabulary > rows ? in->field.vocabulary : rows;
        any |= !in->field.vocabulary;
    }
    if (!rc && ini->pooling.line && !lists)
        rc = pd_fail(err, PD_ECONF,
                     "%s:%d: layer '%s' has a pooling, but none of its inputs is a list", b->file,
                     ini->pooling.line, self->name);
    if (!rc && !size)
        rc = pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a size", b->file, self->line,
                     self->name);
    if (!rc && any && kind == NN_DENSE)
        rc = pd_fail(err, PD_ECONF,
                     "%s:%d: layer '%s': a field without a vocabulary needs a table of any ids: "
                     "sparse_update = true",
                     b->file, self->line, self->name);
    if (!rc && size * self->n_in > 1 << 24)
        rc =
            pd_fail(err, PD_ECONF, "%s:%d: layer '%s' would be %llu wide; the limit is %d", b->file,
                    self->line, self->name, (unsigned long long)size * self->n_in, 1 << 24);
    if (rc)
        return rc;
    self->dim = (uint32_t)size;
    self->size = width_of(self) * (self->option & COMBINE_SUM ? 1 : self->n_in);
    self->n_work = pools_pairs(self) ? 2 * (size_t)size : 0;
    double std = ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)size);
    rc = nn_build_param(b, self, 0, "w", kind, any ? 0 : rows, size, std, err);
    for (uint32_t k = 0; k < self->n_in && !rc && kind == NN_TABLE; k++)
        rc = nn_build_use(b, self, k, 0, b->g->node[self->in[k]].number, err);
    return rc;
}

/* One input: its rows, and the weights of a sample's rows. */
struct input_rows {
    const struct nn_column *col;
    /* of a table: the row of each id; NULL: the id is the row */
    const uint32_t *slot;
    uint32_t first;
    int pooling;
    float *work; /* for pairs: room for two rows */
};

static struct input_rows look_at(const struct nn_exec *e, const struct nn_node *self, uint32_t k) {
    int table = e->g->param[self->param[0]].kind == NN_TABLE;
    return (struct input_rows){.col = &e->feed->col[e->g->node[self->in[k]].number],
                               .slot = table ? e->feed->slot[self->use[k]] : NULL,
                               .first = e->first,
                               .pooling = self->option & POOLING,
                               .work = e->work};
}

static inline size_t row_of(const struct input_rows *l, size_t at) {
    return l->slot ? l->slot[at] : l->col->ids[at];
}

/* The factor of the pooled sum of the ids [lo, hi). */
static float pool_scale(const struct input_rows *l, size_t lo, size_t hi) {
    double n = 0;
    if (l->pooling == POOL_SUM || hi == lo)
        return 1;
    for (size_t i = lo; i < hi; i++) {
        double w = l->col->weight ? (double)l->col->weight[i] : 1;
        n += l->pooling == POOL_MEAN ? w : w * w;
    }
    if (n == 0)
        return 0;
    return (float)(1 / (l->pooling == POOL_MEAN ? n : sqrt(n)));
}

static void forward_ids(const struct input_rows *l, uint32_t n, uint32_t dim, uint32_t stride,
                        int add, const float *w, float *y) {
    if (l->slot) {
        nn_gather_rows(n, dim, l->slot + l->first, w, stride, add, y);
        return;
    }
    for (uint32_t i = 0; i < n; i++, y += stride) {
        const float *row = w + row_of(l, l->first + i) * dim;
        if (add)
            nn_add(dim, row, y);
        else
            memcpy(y, row, dim * sizeof *y);
    }
}

static void forward_lists(const struct input_rows *l, uint32_t n, uint32_t dim, uint32_t stride,
                          int add, const float *w, float *y) {
    for (uint32_t i = 0; i < n; i++, y += stride) {
        size_t lo = l->col->offset[l->first + i], hi = l->col->offset[l->first + i + 1];
        float scale = pool_scale(l, lo, hi);
        if (!add)
            memset(y, 0, dim * sizeof *y);
        for (size_t at = lo; at < hi; at++)
            nn_axpy(dim, l->col->weight ? scale * l->col->weight[at] : scale,
                    w + row_of(l, at) * dim, y);
    }
}

/* s = sum_r v_r and q = sum_r v_r^2 over the rows of the ids [lo, hi), times their weights. */
static void sum_rows(const struct input_rows *l, size_t lo, size_t hi, uint32_t dim, const float *w,
                     float *s, float *q) {
    memset(s, 0, dim * sizeof *s);
    memset(q, 0, dim * sizeof *q);
    for (size_t at = lo; at < hi; at++) {
        const float weight = l->col->weight ? l->col->weight[at] : 1,
                    *row = w + row_of(l, at) * dim;
        for (uint32_t d = 0; d < dim; d++) {
            float v = weight * row[d];
            s[d] += v;
            q[d] += v * v;
        }
    }
}

static void forward_pairs(const struct input_rows *l, uint32_t n, uint32_t dim, uint32_t stride,
                          int add, const float *w, float *y) {
    float *s = l->work, *q = s + dim;
    for (uint32_t i = 0; i < n; i++, y += stride) {
        sum_rows(l, l->col->offset[l->first + i], l->col->offset[l->first + i + 1], dim, w, s, q);
        for (uint32_t d = 0; d < dim; d++)
            q[d] = 0.5f * (s[d] * s[d] - q[d]);
        if (l->pooling == POOL_FM)
            *y = nn_sum(dim, q) + (add ? *y : 0);
        else if (add)
            nn_add(dim, q, y);
        else
            memcpy(y, q, dim * sizeof *y);
    }
}

/* dv_r = dy (s - v_r), value by value, and v_r is a row times its weight. */
static void backward_pairs(const struct input_rows *l, uint32_t n, uint32_t dim, uint32_t stride,
                           const float *w, const float *dy, float *g) {
    float *s = l->work, *d = s + dim;
    for (uint32_t i = 0; i < n; i++, dy += stride) {
        size_t lo = l->col->offset[l->first + i], hi = l->col->offset[l->first + i + 1];
        sum_rows(l, lo, hi, dim, w, s, d);
        for (uint32_t j = 0; j < dim; j++)
            d[j] = dy[l->pooling == POOL_FM ? 0 : j];
        for (size_t at = lo; at < hi; at++) {
            const float weight = l->col->weight ? l->col->weight[at] : 1,
                        *row = w + row_of(l, at) * dim;
            float *to = g + row_of(l, at) * dim;
            for (uint32_t j = 0; j < dim; j++)
                to[j] += weight * (d[j] * (s[j] - weight * row[j]));
        }
    }
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    int sum = self->option & COMBINE_SUM;
    float *y = e->state[self->id].y;
    for (uint32_t k = 0; k < self->n_in; k++) {
        struct input_rows l = look_at(e, self, k);
        (pools_pairs(self) ? forward_pairs
         : l.col->offset   ? forward_lists
                           : forward_ids)(&l, e->n, self->dim, self->size, sum && k > 0,
                                        e->w[self->param[0]],
                                        y + (sum ? 0 : (size_t)k * width_of(self)));
    }
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    int sum = self->option & COMBINE_SUM;
    float *g = e->grad[self->param[0]];
    size_t dim = self->dim;
    for (uint32_t k = 0; k < self->n_in && g; k++) {
        struct input_rows l = look_at(e, self, k);
        const float *dy = e->state[self->id].dy + (sum ? 0 : (size_t)k * width_of(self));
        if (pools_pairs(self)) {
            backward_pairs(&l, e->n, self->dim, self->size, e->w[self->param[0]], dy, g);
            continue;
        }
        if (l.slot && !l.col->offset) {
            nn_scatter_rows(e->n, dim, l.slot + l.first, dy, self->size, g);
            continue;
        }
        for (uint32_t i = 0; i < e->n; i++, dy += self->size) {
            if (!l.col->offset) {
                nn_add(dim, dy, g + row_of(&l, l.first + i) * dim);
                continue;
            }
            size_t lo = l.col->offset[l.first + i], hi = l.col->offset[l.first + i + 1];
            float scale = pool_scale(&l, lo, hi);
            for (size_t at = lo; at < hi; at++)
                nn_axpy(dim, l.col->weight ? scale * l.col->weight[at] : scale, dy,
                        g + row_of(&l, at) * dim);
        }
    }
}

const struct nn_layer nn_layer_embedding = {
    .name = "embedding",
    .takes = takes,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .text = "rows of a table for the ids of fields; lists are pooled",
    .formula =
        "shapes    ids[B] or lists of ids, w[V,D] -> y[B, K*D] of K fields, with combine = "
        "sum y[B,D]\n"
        "id        v = w[id]\n"
        "list      v = sum over the list of weight * w[id]; an empty list gives zeros\n"
        "          pooling = mean: v / number of ids, with weights v / sum of the weights\n"
        "          pooling = sqrtn: v / sqrt(number of ids), with weights v / sqrt(sum of "
        "squares)\n"
        "          pooling = bi_interaction: the products of all pairs of rows, added up:\n"
        "          v = 1/2 ((sum of weight w[id])^2 - sum of (weight w[id])^2)\n"
        "          pooling = fm: the sum of these D values; y[B,K], with combine = sum y[B,1]\n"
        "forward   y = the v of all fields side by side; combine = sum: added up\n"
        "backward  dw[id] = sum of weight * dv over all places of the id (pooled: divided "
        "as v is)\n"
        "          pairs: dw[id] = sum of weight (sum of the list's weight w - weight w[id]) dv\n"
        "initial   w: normal, std 1/sqrt(D)\n",
    .source = "embedding",
    .example = "[layer words]\n"
               "type = embedding\n"
               "inputs = tags\n"
               "size = 16\n"
               "pooling = mean\n"
               "sparse_update = true\n",
};
