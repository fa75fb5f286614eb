/* secret.h - keys in memory: in no core dump, and not on a swap device. */
#pragma once

/* The pages of p[0..n) are left out of core dumps and locked into memory; the lock is not taken
 * beyond RLIMIT_MEMLOCK. For memory that holds a key for long. Wiping it remains the caller's. */
void pd_secret_pages(const void *p, size_t n);

/* Memory for a key: zeroed whole pages, marked so. NULL: out of memory. `free` wipes it. */
void *pd_secret_new(size_t n);
void pd_secret_free(void *p, size_t n); /* NULL is fine */

/* The kernel dumps no core of this process. Processes of the same user cannot read its memory, and
 * only root can see its /proc/PID/fd and environ. A program that it starts is not affected. */
void pd_hide_process(void);
/* The kernel dumps no core of this process, which others may inspect: workers of one machine find
 * their shared memory in /proc/PID/fd. PADDLE_CORE=1 in the environment permits cores. */
void pd_no_core(void);
