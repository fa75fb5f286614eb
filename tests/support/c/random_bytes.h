/* SPDX-License-Identifier: Apache-2.0 */
/* random_bytes.h - reproducible random bytes. The test prints the seed; PADDLE_TEST_SEED=...
 * repeats a run. */
#pragma once

#include "math/hash.h"

static inline uint64_t seed_of(const char *name) {
    const char *s = getenv("PADDLE_TEST_SEED");
    uint64_t seed = s ? strtoull(s, NULL, 10) : 20261122;
    print_message("%s: PADDLE_TEST_SEED=%llu\n", name, (unsigned long long)seed);
    return seed;
}

static inline uint64_t next(uint64_t *state) { return pd_mix64(*state += 0x9e3779b97f4a7c15u); }

static inline void fill(uint8_t *p, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(next(state) >> 56);
}
