/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - samples on their way from a reader to the network: plain arrays, one set per field.
 *
 * A separate header, because src/nn needs only this part of src/data. A field has one of three
 * kinds:
 *
 *   PD_ID     one id per sample:            ids[k][i]
 *   PD_LIST   any number of ids per sample: ids[k][offset[k][i] .. offset[k][i + 1]); if the field
 *             is weighted, the weight of each id is at the same index of values[k]
 *   PD_DENSE  `width` numbers per sample:   values[k][i * width .. (i + 1) * width)
 *
 * A label is a field like any other: a class is a PD_ID below its vocabulary, a number is a
 * PD_DENSE of width 1. (stream[i], index[i]) identifies sample i within the pass, in whatever batch
 * it travels. Random numbers (dropout) are keyed by this pair.
 */
#pragma once

enum { PD_MAX_FIELDS = 256, PD_FIELD_NAME = 64, PD_MAX_WIDTH = 1 << 20, PD_MAX_LIST = 1 << 20 };

enum pd_field_kind { PD_ID, PD_LIST, PD_DENSE };

struct pd_field {
    char name[PD_FIELD_NAME];
    enum pd_field_kind kind;
    uint32_t width;      /* PD_DENSE: numbers per sample, 1..PD_MAX_WIDTH; else 1 */
    uint32_t max_ids;    /* PD_LIST: maximum number of ids per sample, 1..PD_MAX_LIST; else 1 */
    uint64_t vocabulary; /* ids are below it; 0: any 64-bit number (a hash) */
    int weighted;        /* PD_LIST: each id has a weight */
};

struct pd_batch {
    uint32_t n, cap; /* samples held; room for */
    uint32_t n_fields;
    struct pd_field *field; /* [n_fields], owned by the batch */
    uint64_t **ids;         /* [n_fields]; NULL for PD_DENSE */
    float **values;         /* [n_fields]; NULL for PD_ID and lists without weights */
    uint32_t **offset;      /* [n_fields][cap + 1], offset[k][0] = 0; NULL except for PD_LIST */
    uint32_t *room;         /* [n_fields] number of ids that fit into ids[k] */
    uint32_t *stream;       /* [cap] */
    uint64_t *index;        /* [cap] number of the sample in its stream in this pass, from 0 */
};

/* The descriptions of the fields are copied; NULL: all fields are PD_ID. 0 or PD_ENOMEM. `cap` is
 * fixed; only the room for lists grows later. A batch thus allocates nothing once it has held the
 * longest lists. */
int pd_batch_init(struct pd_batch *b, const struct pd_field *field, uint32_t n_fields,
                  uint32_t cap);
void pd_batch_release(struct pd_batch *b);

/* Makes room for `more` further ids in list field k, behind those of the samples held. 0 or
 * PD_ENOMEM. */
int pd_batch_reserve(struct pd_batch *b, uint32_t k, uint32_t more);

/* Appends samples [first, first + n) of `from`, which has the same fields. The caller ensures that
 * there is room for n samples. 0, or PD_ENOMEM, and then nothing was appended. */
int pd_batch_append(struct pd_batch *b, const struct pd_batch *from, uint32_t first, uint32_t n);

static inline void pd_batch_clear(struct pd_batch *b) { b->n = 0; }

/* Number of ids in list field k. */
static inline uint32_t pd_batch_n_ids(const struct pd_batch *b, uint32_t k) {
    return b->offset[k][b->n];
}
