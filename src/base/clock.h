/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the clocks: monotonic for durations, wall for times in logs, CPU time of a thread. */
#pragma once

static inline uint64_t pd_mono_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t pd_wall_us(void) { /* microseconds since 1970 */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static inline int64_t pd_thread_cpu_us(void) { /* CPU time of this thread */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The id of the running kernel, which is new after each boot, as the monotonic clock is. "?": it
 * cannot be read. */
enum { PD_BOOT_ID = 64 };
void pd_boot_id(char out[PD_BOOT_ID]);
