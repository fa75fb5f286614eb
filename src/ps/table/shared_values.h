/* shared_values.h - the dense values of one server thread, shared with the answers in flight.
 *
 * An answer to a pull is sent from the values themselves, without a copy. If the owner must write
 * while an answer is still being sent, it writes to a copy, and the answer keeps the values after
 * its step. A trainer sends its next gradient after it has the answer, so with a barrier copies are
 * rare.
 */
#ifndef PD_PS_SHARED_VALUES_H
#define PD_PS_SHARED_VALUES_H

#include <stddef.h>

#include "thread/pool.h"
#include "net/shm/region.h"

struct ps_shared_values {
    struct pd_pool *pool;      /* may be NULL */
    struct net_region *region; /* may be NULL */
    int in_region;             /* w is; else it is the pool's */
    size_t n;
    int refs; /* one of the owner, one of each answer under way */
    float *w; /* 64-byte aligned */
};

/* Where trainers of this machine can read them, if the region has room; else of the pool. Not set;
 * NULL: out of memory. */
struct ps_shared_values *ps_shared_values_new(struct pd_pool *pool, struct net_region *region,
                                              size_t n);
static inline struct ps_shared_values *ps_shared_values_lend(struct ps_shared_values *v) {
    v->refs++;
    return v;
}
void ps_shared_values_drop(void *v); /* a reference; NULL is fine */

/* Before writing: nobody but the owner refers to *v afterwards. PD_ENOMEM leaves it as it was. */
int ps_shared_values_own(struct ps_shared_values **v);

#endif
