/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c - see alloc.h. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { GROW_LEAST = 8 }; /* elements of a new array */

void *pd_malloc(size_t n) { return pd_fault("alloc") ? NULL : malloc(n ? n : 1); }
void *pd_calloc(size_t n, size_t size) {
    return pd_fault("alloc") ? NULL : calloc(n ? n : 1, size ? size : 1);
}
void *pd_realloc(void *p, size_t n) { return pd_fault("alloc") ? NULL : realloc(p, n ? n : 1); }

void *pd_grow_array(void *v, size_t *cap, size_t need, size_t size) {
    if (v && need <= *cap)
        return v;
    if (need > SIZE_MAX / 2 / size)
        return NULL;
    size_t n = *cap < GROW_LEAST / 2 ? GROW_LEAST : 2 * *cap;
    while (n < need)
        n *= 2;
    void *p = pd_realloc(v, n * size);
    if (p)
        *cap = n;
    return p;
}

char *pd_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = pd_malloc(n);
    return p ? memcpy(p, s, n) : NULL;
}

void *pd_alloc64(size_t n) {
    if (pd_fault("alloc") || n > SIZE_MAX - 127)
        return NULL;
    n = (n + 63) & ~(size_t)63;
    return aligned_alloc(64, n ? n : 64);
}

/* --- keys --- */

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

int pd_signal_is_ignored(int signum) {
    struct sigaction a;
    return !sigaction(signum, NULL, &a) && a.sa_handler == SIG_IGN;
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
