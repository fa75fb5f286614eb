/* values.h - the dense values of one server thread, which answers under way may still be read from.
 *
 * An answer to a pull leaves from the values themselves, without a copy. Who wants to write while one is still being sent writes
 * to a copy, and the answers keep what was promised: the values after their step. A trainer's next gradient comes after it has the
 * answer, so with a barrier copies are rare.
 */
#ifndef PD_PS_VALUES_H
#define PD_PS_VALUES_H

#include <stddef.h>

#include "base/pool.h"

struct ps_values {
    struct pd_pool *pool; /* may be NULL */
    size_t n;
    int refs; /* one of the owner, one of each answer under way */
    float *w; /* 64-byte aligned */
};

struct ps_values *ps_values_new(struct pd_pool *pool, size_t n); /* not set; NULL: out of memory */
static inline struct ps_values *ps_values_lend(struct ps_values *v) {
    v->refs++;
    return v;
}
void ps_values_drop(void *v); /* a reference; NULL is fine */

/* Before writing: nobody but the owner refers to *v afterwards. PD_ENOMEM leaves it as it was. */
int ps_values_own(struct ps_values **v);

#endif
