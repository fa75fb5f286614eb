/* SPDX-License-Identifier: Apache-2.0 */
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

/* --- keys in memory: in no core dump, and not on a swap device --- */

/* The pages of p[0..n) are left out of core dumps and locked into memory; the lock is not taken
 * beyond RLIMIT_MEMLOCK. For memory that holds a key for long. Wiping it remains the caller's. */
void pd_secret_pages(const void *p, size_t n);

/* Memory for a key: zeroed whole pages, marked so. NULL: out of memory. `free` wipes it. */
void *pd_secret_new(size_t n);
void pd_secret_free(void *p, size_t n); /* NULL is fine */

/* 1: whoever started this process has set the signal to be ignored, as nohup does with SIGHUP. */
int pd_signal_is_ignored(int signum);

/* The kernel dumps no core of this process. Processes of the same user cannot read its memory, and
 * only root can see its /proc/PID/fd and environ. A program that it starts is not affected. */
void pd_hide_process(void);
/* The kernel dumps no core of this process, which others may inspect: workers of one machine find
 * their shared memory in /proc/PID/fd. PADDLE_CORE=1 in the environment permits cores. */
void pd_no_core(void);
