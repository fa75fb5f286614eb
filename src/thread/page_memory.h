/* huge.h - memory in huge pages where the kernel has them: random rows of a large table then cost
 * one miss, not two. */
#ifndef PD_BASE_HUGE_H
#define PD_BASE_HUGE_H

#include <stddef.h>

enum { PD_HUGE_PAGE = 2 << 20 };

/* Zeroed, beginning at a huge page's boundary. NULL: no memory. */
void *pd_huge_map(size_t bytes);
void pd_huge_unmap(void *p, size_t bytes);
/* Children of fork do not have it, and it is not copied on write while they live. Best effort. */
void pd_huge_not_inherited(void *p, size_t bytes);

/* The same in pages of 4 KiB, each of which is there when it is touched: for what one fills bit by
 * bit and must not wait for a huge page to be cleared. Not inherited. */
void *pd_page_map(size_t bytes);
void pd_page_unmap(void *p, size_t bytes);

#endif
