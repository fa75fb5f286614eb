/* heap.c - see heap.h. */
#include "thread/malloc_tune.h"

#include <malloc.h>

void pd_heap_keep(void) {
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX,
            1); /* what one thread frees the others take: buffers go from loop to pool and back */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}
