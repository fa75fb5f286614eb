/* batch.h - samples on their way from a reader to the network: plain arrays, one per field.
 *
 * A header of its own, because it is all that src/nn knows of src/data. Sample i of the batch is
 * ids[0][i] .. ids[n_fields-1][i]; (stream[i], index[i]) names it within the pass, whatever batch it travels in,
 * and random numbers (dropout) are keyed by that name.
 */
#ifndef PD_DATA_BATCH_H
#define PD_DATA_BATCH_H

#include <stdint.h>

enum { PD_MAX_FIELDS = 256 };

struct pd_batch {
    uint32_t n, cap;      /* samples held, and room for */
    uint32_t n_fields;
    uint64_t **ids;       /* [n_fields][cap] */
    uint32_t *stream;     /* [cap] */
    uint64_t *index;      /* [cap] number of the sample in its stream, from 0, this pass */
};

/* 0 or PD_ENOMEM. Appending never allocates: `cap` is fixed here. */
int pd_batch_init(struct pd_batch *b, uint32_t n_fields, uint32_t cap);
void pd_batch_release(struct pd_batch *b);

static inline void pd_batch_clear(struct pd_batch *b) { b->n = 0; }

#endif
