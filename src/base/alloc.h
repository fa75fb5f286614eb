/* alloc.h - allocation that a test can make fail: every call is the fault point "alloc"
 * (fault_point.h). */
#pragma once

/* All of these return NULL when memory is out or the fault point says so; free() releases. A size
 * of 0 is valid and never gives NULL by itself. */
void *pd_malloc(size_t n);
void *pd_calloc(size_t n, size_t size);
void *pd_realloc(void *p, size_t n);
char *pd_strdup(const char *s);
void *pd_alloc64(size_t n); /* 64-byte aligned */

/* Makes room for `need` elements in the array `v`, which has room for `cap` (a size_t): 0, or
 * PD_ENOMEM and both are unchanged. A longer array is at least twice as long: appending n elements
 * in turn copies fewer than 2 * n. `v` and `cap` are evaluated several times. */
#define pd_grow(v, cap, need)                                           \
    __extension__({                                                     \
        void *grown_ = pd_grow_array((v), &(cap), (need), sizeof *(v)); \
        if (grown_)                                                     \
            (v) = grown_;                                               \
        grown_ ? 0 : PD_ENOMEM;                                         \
    })
void *pd_grow_array(void *v, size_t *cap, size_t need, size_t size); /* for pd_grow */
