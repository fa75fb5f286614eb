/* SPDX-License-Identifier: Apache-2.0 */
/* initial.h - the initial values of a parameter. A value depends only on a key and on the value's
 * number:
 *
 * - std > 0: normal with that mean and standard deviation
 * - std = 0: the mean
 * - std < 0: uniform within |std| of the mean */
#pragma once

#include "math/rng.h"

/* Writes values [first, first + n) of the sequence (key, hi) to out. */
static inline void ps_initial(struct pd_rng_key key, uint64_t hi, uint64_t first, float mean,
                              float std, float *out, uint64_t n) {
    uint32_t u[4];
    if (std > 0)
        pd_rng_normal_range(key, hi, first, out, n);
    for (uint64_t i = 0; i < n; i++) {
        if (std < 0 && (i == 0 || (first + i) % 4 == 0))
            pd_rng_u32x4(key, hi, (first + i) / 4, u);
        float x = std > 0   ? out[i]
                  : std < 0 ? (float)(u[(first + i) % 4] >> 8) * (2.0f / 16777216.0f) - 1
                            : 0;
        out[i] = mean + (std < 0 ? -std : std) * x;
    }
}
