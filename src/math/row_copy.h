/* few.h - copying and adding a few floats: rows of tables are short, and a call for each would cost
 * more than its values.
 *
 * The last vector overlaps the one before it, so that no rest is left: `to` overlaps neither
 * source. The bits are those of a plain loop.
 */
#ifndef PD_BASE_FEW_H
#define PD_BASE_FEW_H

#include <stddef.h>
#include <string.h>

typedef float pd_few __attribute__((vector_size(16)));
enum { PD_FEW = sizeof(pd_few) / sizeof(float) };

static inline void pd_few_copy(float *restrict to, const float *restrict from, size_t n) {
    if (n < PD_FEW) {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    pd_few v;
    for (size_t i = 0; i < n; i += PD_FEW) {
        const size_t at = i + PD_FEW <= n ? i : n - PD_FEW;
        memcpy(&v, from + at, sizeof v);
        memcpy(to + at, &v, sizeof v);
    }
}

static inline void pd_few_sum(float *restrict to, const float *restrict a, const float *restrict b,
                              size_t n) {
    if (n < PD_FEW) {
        for (size_t i = 0; i < n; i++)
            to[i] = a[i] + b[i];
        return;
    }
    pd_few v, w;
    for (size_t i = 0; i < n; i += PD_FEW) {
        const size_t at = i + PD_FEW <= n ? i : n - PD_FEW;
        memcpy(&v, a + at, sizeof v);
        memcpy(&w, b + at, sizeof w);
        v = v + w;
        memcpy(to + at, &v, sizeof v);
    }
}

#endif
