/* SPDX-License-Identifier: Apache-2.0 */
/* shared_values.h - the dense values of one server thread, shared with the answers in flight.
 *
 * An answer to a pull is sent from the values themselves, without a copy. If the owner must write
 * while an answer is still being sent, it writes to a copy, and the answer keeps the values after
 * its step. A trainer sends its next gradient after it has the answer, so with a barrier copies are
 * rare.
 */
#pragma once

#include "thread/pool.h"
#include "net/shm/region.h"

struct ps_shared_values {
    struct pd_pool *pool;      /* may be NULL */
    struct net_region *region; /* may be NULL */
    int in_region;             /* 1: w is in the region; 0: in the pool */
    size_t n;
    int refs; /* one for the owner, one for each answer being sent */
    float *w; /* 64-byte aligned */
};

/* Returns n values, not initialised, or NULL: out of memory. They lie in the region, where trainers
 * of this machine can read them, if it has room; otherwise in the pool. */
struct ps_shared_values *ps_shared_values_new(struct pd_pool *pool, struct net_region *region,
                                              size_t n);
static inline struct ps_shared_values *ps_shared_values_lend(struct ps_shared_values *v) {
    v->refs++;
    return v;
}
void ps_shared_values_drop(void *v); /* drops a reference; NULL is allowed */

/* Call before writing to *v: afterwards the owner has the only reference, to a copy if necessary.
 * Returns 0, or PD_ENOMEM with *v unchanged. */
int ps_shared_values_own(struct ps_shared_values **v);
