/* SPDX-License-Identifier: Apache-2.0 */
/* malloc_tune.c - see malloc_tune.h. */
#include "thread/malloc_tune.h"

#include <malloc.h>

void pd_malloc_keep_freed(void) {
#ifdef __GLIBC__
    /* One arena: buffers go from the loop to the pool and back, so one thread frees memory that
     * others take. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}
