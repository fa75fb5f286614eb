/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - see batch.h. */
#include "data/schema/batch.h"

static int field_init(struct pd_batch *b, uint32_t k) {
    const struct pd_field *f = &b->field[k];
    if (f->kind == PD_DENSE)
        return (b->values[k] = pd_calloc((size_t)b->cap * f->width, sizeof **b->values))
                   ? 0
                   : PD_ENOMEM;
    b->room[k] = b->cap; /* lists grow from this size */
    if (!(b->ids[k] = pd_calloc(b->cap, sizeof **b->ids)))
        return PD_ENOMEM;
    if (f->kind == PD_LIST) {
        if (!(b->offset[k] = pd_calloc((size_t)b->cap + 1, sizeof **b->offset)))
            return PD_ENOMEM;
        if (f->weighted && !(b->values[k] = pd_calloc(b->cap, sizeof **b->values)))
            return PD_ENOMEM;
    }
    return 0;
}

int pd_batch_init(struct pd_batch *b, const struct pd_field *field, uint32_t n_fields,
                  uint32_t cap) {
    memset(b, 0, sizeof *b);
    b->cap = cap;
    b->n_fields = n_fields;
    b->field = pd_calloc(n_fields, sizeof *b->field);
    b->ids = pd_calloc(n_fields, sizeof *b->ids);
    b->values = pd_calloc(n_fields, sizeof *b->values);
    b->offset = pd_calloc(n_fields, sizeof *b->offset);
    b->room = pd_calloc(n_fields, sizeof *b->room);
    b->stream = pd_calloc(cap, sizeof *b->stream);
    b->index = pd_calloc(cap, sizeof *b->index);
    int rc = b->field && b->ids && b->values && b->offset && b->room && b->stream && b->index
                 ? 0
                 : PD_ENOMEM;
    for (uint32_t k = 0; !rc && k < n_fields; k++) {
        b->field[k] = field ? field[k] : (struct pd_field){.kind = PD_ID, .width = 1, .max_ids = 1};
        rc = field_init(b, k);
    }
    if (rc)
        pd_batch_release(b);
    return rc;
}

void pd_batch_release(struct pd_batch *b) {
    for (uint32_t k = 0; k < b->n_fields; k++) {
        if (b->ids)
            free(b->ids[k]);
        if (b->values)
            free(b->values[k]);
        if (b->offset)
            free(b->offset[k]);
    }
    free(b->field);
    free(b->ids);
    free(b->values);
    free(b->offset);
    free(b->room);
    free(b->stream);
    free(b->index);
    memset(b, 0, sizeof *b);
}

int pd_batch_reserve(struct pd_batch *b, uint32_t k, uint32_t more) {
    uint64_t need = (uint64_t)pd_batch_n_ids(b, k) + more, room = b->room[k] ? b->room[k] : 16;
    if (need <= b->room[k])
        return 0;
    if (need > UINT32_MAX)
        return PD_ENOMEM;
    while (room < need)
        room *= 2;
    room = room > UINT32_MAX ? UINT32_MAX : room;
    uint64_t *ids = pd_realloc(b->ids[k], room * sizeof *ids);
    if (!ids)
        return PD_ENOMEM;
    b->ids[k] = ids;
    if (b->field[k].weighted) {
        float *v = pd_realloc(b->values[k], room * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        b->values[k] = v;
    }
    b->room[k] = (uint32_t)room;
    return 0;
}

static void append_list(struct pd_batch *b, const struct pd_batch *from, uint32_t k, uint32_t first,
                        uint32_t n) {
    const uint32_t *o = from->offset[k];
    uint32_t at = b->offset[k][b->n], lo = o[first], len = o[first + n] - lo;
    memcpy(b->ids[k] + at, from->ids[k] + lo, len * sizeof **b->ids);
    if (b->field[k].weighted)
        memcpy(b->values[k] + at, from->values[k] + lo, len * sizeof **b->values);
    for (uint32_t i = 1; i <= n; i++)
        b->offset[k][b->n + i] = at + (o[first + i] - lo);
}

int pd_batch_append(struct pd_batch *b, const struct pd_batch *from, uint32_t first, uint32_t n) {
    assert(b->n_fields == from->n_fields && n <= b->cap - b->n && first + n <= from->n);
    for (uint32_t k = 0; k < b->n_fields; k++)
        if (b->offset[k] &&
            pd_batch_reserve(b, k, from->offset[k][first + n] - from->offset[k][first]))
            return PD_ENOMEM;
    for (uint32_t k = 0; k < b->n_fields; k++) {
        size_t w = b->field[k].width;
        if (b->offset[k])
            append_list(b, from, k, first, n);
        else if (b->ids[k])
            memcpy(b->ids[k] + b->n, from->ids[k] + first, n * sizeof **b->ids);
        else
            memcpy(b->values[k] + b->n * w, from->values[k] + first * w,
                   n * w * sizeof **b->values);
    }
    memcpy(b->stream + b->n, from->stream + first, n * sizeof *b->stream);
    memcpy(b->index + b->n, from->index + first, n * sizeof *b->index);
    b->n += n;
    return 0;
}
