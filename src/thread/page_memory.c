/* SPDX-License-Identifier: Apache-2.0 */
/* page_memory.c - see page_memory.h. */
#include "thread/page_memory.h"

#include <sys/mman.h>

#include "base/memory_use.h"

/* Maps more than needed and unmaps what lies outside the aligned part. */
void *pd_huge_page_map(size_t bytes) {
    if (pd_fault("alloc") || !pd_memory_fits((double)bytes))
        return NULL;
    char *p = mmap(NULL, bytes + PD_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = PD_HUGE_PAGE - (uintptr_t)p % PD_HUGE_PAGE;
    munmap(p, before);
    if (before < PD_HUGE_PAGE)
        munmap(p + before + bytes, PD_HUGE_PAGE - before);
    (void)madvise(p + before, bytes,
                  MADV_HUGEPAGE); /* best effort: without huge pages access is only slower */
    return p + before;
}

void pd_huge_page_unmap(void *p, size_t bytes) { munmap(p, bytes); }

void pd_huge_page_no_fork(void *p, size_t bytes) { (void)madvise(p, bytes, MADV_DONTFORK); }

void *pd_page_map(size_t bytes) {
    if (pd_fault("alloc"))
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    (void)madvise(p, bytes, MADV_DONTFORK);
    return p;
}

void pd_page_unmap(void *p, size_t bytes) { munmap(p, bytes); }
