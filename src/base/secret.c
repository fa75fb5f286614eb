/* secret.c - see secret.h. */
#include "base/secret.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static size_t whole_pages(size_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

void pd_secret_pages(const void *p, size_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)p / page * page;
    const size_t bytes = whole_pages((uintptr_t)p + n - first);
    (void)mlock((void *)first, bytes);
    (void)madvise((void *)first, bytes, MADV_DONTDUMP);
}

void *pd_secret_new(size_t n) {
    const size_t bytes = whole_pages(n);
    void *p = pd_fault("alloc")
                  ? MAP_FAILED
                  : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    pd_secret_pages(p, n);
    return p;
}

void pd_secret_free(void *p, size_t n) {
    if (!p)
        return;
    explicit_bzero(p, n);
    munmap(p, whole_pages(n));
}

void pd_hide_process(void) {
#ifndef __SANITIZE_ADDRESS__ /* the search for leaks traces the process */
    prctl(PR_SET_DUMPABLE, 0);
#endif
}

/* A soft limit of 1 byte also stops cores that a pipe in core_pattern would take; 0 does not
 * (core(5), fs/coredump.c). */
void pd_no_core(void) {
    const char *wanted = getenv("PADDLE_CORE");
    struct rlimit l;
    if ((wanted && *wanted && strcmp(wanted, "0")) || getrlimit(RLIMIT_CORE, &l))
        return;
    l.rlim_cur = l.rlim_max < 1 ? l.rlim_max : 1;
    setrlimit(RLIMIT_CORE, &l);
}
