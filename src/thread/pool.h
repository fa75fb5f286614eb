/* pool.h - large buffers that come and go with every message, kept for the next one: a fresh
 * megabyte costs more in page faults than in copying, and the allocator gives large ones back to
 * the kernel.
 *
 * A pool belongs to one thread. It keeps no more than was in use at once lately (the last one to
 * two thousand buffers), so it at most doubles what its thread needs. Sizes are rounded up by less
 * than a quarter; from 2 MiB on they lie in huge pages.
 */
#ifndef PD_BASE_POOL_H
#define PD_BASE_POOL_H

#include <stddef.h>

struct pd_pool;
struct pd_pool *pd_pool_new(void);    /* NULL: out of memory */
void pd_pool_free(struct pd_pool *p); /* every buffer is back */

/* n bytes, 64-byte aligned, with anything in them; NULL: out of memory. Without a pool (p NULL) it
 * is plain memory. */
void *pd_pool_get(struct pd_pool *p, size_t n);
void pd_pool_put(struct pd_pool *p, void *mem); /* to the pool that it came from; mem may be NULL */

size_t pd_pool_kept(const struct pd_pool *p); /* bytes that lie ready */

#endif
