/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the two clocks: the monotonic clock for durations, the wall clock for times in logs. */
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
