/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a pool of large message buffers. Page faults of a fresh megabyte cost more than copying
 * it, and malloc returns large buffers to the kernel.
 *
 * A pool belongs to one thread. It keeps at most the recent peak use (of the last one to two
 * thousand buffers), so it at most doubles the memory of its thread. Sizes are rounded up by less
 * than a quarter. Buffers of 2 MiB and more are in huge pages. */
#pragma once

struct pd_pool;
struct pd_pool *pd_pool_new(void);    /* NULL: out of memory */
void pd_pool_free(struct pd_pool *p); /* after every buffer is back */

/* n bytes, 64-byte aligned, uninitialized; NULL: out of memory. p NULL: plain memory without a
 * pool. */
void *pd_pool_get(struct pd_pool *p, size_t n);
void pd_pool_put(struct pd_pool *p, void *mem); /* to the pool that it came from; mem may be NULL */

size_t pd_pool_kept(const struct pd_pool *p); /* bytes in free buffers */
