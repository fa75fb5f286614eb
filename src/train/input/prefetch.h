/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - a thread that makes items ahead of their use, at most n, in order.
 *
 *   fill(item 0), fill(item 1), ...  ──▶ take, give, take, give            the user, one thread
 *
 * Between stop and the next take the thread is idle, so the data that `fill` uses may be changed.
 */
#pragma once

struct train_prefetch;

/* `fill` makes item i of a ring of n items. It returns 1; 0: this is the last item before the next
 * stop. */
int train_prefetch_new(struct train_prefetch **out, uint32_t n, int (*fill)(void *arg, uint32_t i),
                       void *arg, struct pd_err *err);
void train_prefetch_free(struct train_prefetch *a);

/* Waits for the next item and returns its index. The item belongs to the user until
 * train_prefetch_give. After an item for which `fill` returned 0 only train_prefetch_stop is
 * allowed. */
uint32_t train_prefetch_take(struct train_prefetch *a);
void train_prefetch_give(struct train_prefetch *a);

/* Drops the items made ahead; the next take begins again with item 0. */
void train_prefetch_stop(struct train_prefetch *a);
