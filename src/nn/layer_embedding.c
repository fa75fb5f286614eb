/* layer_embedding.c - a row of a table for each id.
 *
 * sparse_update = true: the parameter is a table; a batch sees only the rows of its keys, and its gradient is a
 * row per key. Otherwise it is a dense tensor with a full gradient. Duplicates add up in the order of the samples.
 */
#include <math.h>
#include <string.h>

#include "nn/internal.h"
#include "nn/kernel.h"

static const char *const takes[] = {"inputs", "param", "size", "sparse_update", "init_std", "lr_factor", "l1", "l2", NULL};

static int shape(struct nn_build *b, struct nn_node *self, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    const struct nn_node *in = &b->g->node[self->in[0]];
    uint64_t size = nn_build_size(b, self);
    if (self->n_in != 1 || in->type)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s': an embedding takes one field as its input, not %s%s%s",
                       b->file, ini->inputs.line, self->name, self->n_in != 1 ? "several" : "layer '",
                       self->n_in != 1 ? "" : in->name, self->n_in != 1 ? "" : "'");
    if (!size)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs a size", b->file, self->line, self->name);
    self->size = (uint32_t)size;
    enum nn_kind kind = ini->sparse_update.value ? NN_TABLE : NN_DENSE;
    double std = ini->init_std.line ? ini->init_std.value : 1 / sqrt((double)size);
    int rc = nn_build_param(b, self, 0, "w", kind, b->vocabulary, size, std, err);
    return rc || kind == NN_DENSE ? rc : nn_build_use(b, self, in->number, err);
}

/* The rows of samples 0..n-1 in what is bound: by key of the feed, or by id. */
static inline size_t row_of(const struct nn_exec *e, const struct nn_node *self, uint32_t field, uint32_t i) {
    if (e->g->param[self->param[0]].kind == NN_TABLE)
        return e->feed->slot[self->use[0]][e->first + i];
    return nn_ids(e, field)[i];
}

static void forward(struct nn_exec *e, const struct nn_node *self) {
    uint32_t field = e->g->node[self->in[0]].number;
    const float *w = e->w[self->param[0]];
    float *y = e->state[self->id].y;
    for (uint32_t i = 0; i < e->n; i++)
        memcpy(y + (size_t)i * self->size, w + row_of(e, self, field, i) * self->size, self->size * sizeof *y);
}

static void backward(struct nn_exec *e, const struct nn_node *self) {
    uint32_t field = e->g->node[self->in[0]].number;
    const float *dy = e->state[self->id].dy;
    float *g = e->grad[self->param[0]];
    for (uint32_t i = 0; g && i < e->n; i++)
        nn_add(self->size, dy + (size_t)i * self->size, g + row_of(e, self, field, i) * self->size);
}

const struct nn_layer nn_layer_embedding = {"embedding", takes, shape, forward, backward,
                                            "a row of a table for each id of a field"};
