/* ahead.h - a thread that makes items ahead of whoever uses them, a few at most, in order.
 *
 *   fill(item 0), fill(item 1), ...  ──▶ take, give, take, give            the user, one thread
 *
 * Between stop and the next take the thread does nothing, so what `fill` works with may be changed.
 */
#ifndef PD_TRAIN_PREFETCH_H
#define PD_TRAIN_PREFETCH_H

#include <stdint.h>

#include "base/err.h"

struct train_prefetch;

/* `fill` makes item number i of the n (a ring). It returns 1, or 0: there is nothing more to make
 * until the next stop. */
int train_prefetch_new(struct train_prefetch **out, uint32_t n, int (*fill)(void *arg, uint32_t i),
                       void *arg, struct pd_err *err);
void train_prefetch_free(struct train_prefetch *a);

/* The next item, when it is made; the user's until given back. After one for which `fill` returned
 * 0: only stop. */
uint32_t train_prefetch_take(struct train_prefetch *a);
void train_prefetch_give(struct train_prefetch *a);

/* What was made ahead is forgotten; begin again with item 0. */
void train_prefetch_stop(struct train_prefetch *a);

#endif
