/* SPDX-License-Identifier: Apache-2.0 */
/* page_memory.h - memory in huge pages where the kernel has them: a random row of a large table
 * then costs one TLB miss, not two. */
#pragma once

enum { PD_HUGE_PAGE = 2 << 20 };

/* Zeroed memory, aligned to PD_HUGE_PAGE. NULL: out of memory, or the machine has too little
 * (pd_memory_fits). */
void *pd_huge_page_map(size_t bytes);
void pd_huge_page_unmap(void *p, size_t bytes);
/* Exclude the memory from children of fork, so that a living child causes no copy on write. Best
 * effort. */
void pd_huge_page_no_fork(void *p, size_t bytes);

/* Zeroed memory in pages of 4 KiB, allocated as they are touched: for memory that fills up slowly,
 * where clearing a whole huge page would cause a delay. Not inherited by children of fork. */
void *pd_page_map(size_t bytes);
void pd_page_unmap(void *p, size_t bytes);
