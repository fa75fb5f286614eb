/* SPDX-License-Identifier: Apache-2.0 */
/* row_copy.h - copies and adds short rows of floats. The rows of tables are short; a function call
 * for each row would cost more than the copy.
 *
 * The last vector overlaps the previous vector, so no remainder is left; therefore `to` must not
 * overlap a source. The bits are those of a plain loop. */
#pragma once

typedef float pd_row_vec __attribute__((vector_size(16)));
enum { PD_ROW_VEC = sizeof(pd_row_vec) / sizeof(float) };

static inline void pd_row_copy(float *restrict to, const float *restrict from, size_t n) {
    if (n < PD_ROW_VEC) {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    pd_row_vec v;
    for (size_t i = 0; i < n; i += PD_ROW_VEC) {
        const size_t at = i + PD_ROW_VEC <= n ? i : n - PD_ROW_VEC;
        memcpy(&v, from + at, sizeof v);
        memcpy(to + at, &v, sizeof v);
    }
}

static inline void pd_row_sum(float *restrict to, const float *restrict a, const float *restrict b,
                              size_t n) {
    if (n < PD_ROW_VEC) {
        for (size_t i = 0; i < n; i++)
            to[i] = a[i] + b[i];
        return;
    }
    pd_row_vec v, w;
    for (size_t i = 0; i < n; i += PD_ROW_VEC) {
        const size_t at = i + PD_ROW_VEC <= n ? i : n - PD_ROW_VEC;
        memcpy(&v, a + at, sizeof v);
        memcpy(&w, b + at, sizeof w);
        v = v + w;
        memcpy(to + at, &v, sizeof v);
    }
}
