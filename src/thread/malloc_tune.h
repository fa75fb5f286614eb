/* heap.h - how malloc behaves in programs that move much data through buffers of up to some
 * megabytes. */
#ifndef PD_BASE_HEAP_H
#define PD_BASE_HEAP_H

/* Freed buffers stay with the process, up to 32 MB, and are used again. By default glibc gives each
 * large one back to the kernel and faults the next one in page by page, which was most of an
 * agent's time while it received a package. Call it first in main. */
void pd_heap_keep(void);

#endif
