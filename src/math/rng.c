/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - see rng.h. */
#include "math/rng.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

#include "math/cpu_clones.h"
#include "math/hash.h"

struct pd_rng_key pd_rng_key(uint64_t seed, uint32_t domain, uint64_t a, uint64_t b) {
    uint64_t h = pd_mix64(seed ^ pd_mix64(domain));
    h = pd_mix64(h ^ pd_mix64(a + 0x9e3779b97f4a7c15u));
    h = pd_mix64(h ^ pd_mix64(b + 0xd1b54a32d192ed03u));
    return (struct pd_rng_key){{(uint32_t)h, (uint32_t)(h >> 32)}};
}

void pd_rng_u32x4(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint32_t out[4]) {
    philox4x32_ctr_t c = {{(uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32)}};
    philox4x32_key_t k = {{key.k[0], key.k[1]}};
    philox4x32_ctr_t r = philox4x32(c, k);
    for (int i = 0; i < 4; i++)
        out[i] = r.v[i];
}

/* --- normal numbers, in blocks --- */

enum { BLOCKS = 8, PAIRS = 2 * BLOCKS };

/* log(u) for u = (v + 1) / 2^32 in (0,1]. With u = 2^e m and m in [sqrt(1/2), sqrt(2)), log m = 2
 * atanh((m-1)/(m+1)). The series ends where the next term is below 2^-56 of the sum. */
static inline double log_unit(uint32_t v) {
    static const double sqrt2 = 1.4142135623730951;
    double u = ((double)v + 1.0) * (1.0 / 4294967296.0), m;
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    int32_t e = (int32_t)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&m, &bits, sizeof m);
    int32_t big = m >= sqrt2;
    m *= 1 - 0.5 * (double)big;
    e += big;
    double s = (m - 1) / (m + 1), z = s * s, p = 1.0 / 23;
    p = p * z + 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return (double)e * 0.6931471805599453 + (2 * s + 2 * s * (z * p));
}

/* cos and sin of 2 pi u, u as above: reduce to the nearest quarter turn, then a series over the
 * remaining eighth on either side. */
static inline void turn_unit(uint32_t v, double *c, double *s) {
    double u4 = ((double)v + 1.0) * (4.0 / 4294967296.0);
    int32_t q = (int32_t)(u4 + 0.5);
    double x = (u4 - (double)q) * 1.5707963267948966, z = x * x;
    double ps = 1.0 / 355687428096000, pc = -1.0 / 6402373705728000;
    ps = ps * z - 1.0 / 1307674368000;
    ps = ps * z + 1.0 / 6227020800;
    ps = ps * z - 1.0 / 39916800;
    ps = ps * z + 1.0 / 362880;
    ps = ps * z - 1.0 / 5040;
    ps = ps * z + 1.0 / 120;
    ps = ps * z - 1.0 / 6;
    pc = pc * z + 1.0 / 20922789888000;
    pc = pc * z - 1.0 / 87178291200;
    pc = pc * z + 1.0 / 479001600;
    pc = pc * z - 1.0 / 3628800;
    pc = pc * z + 1.0 / 40320;
    pc = pc * z - 1.0 / 720;
    pc = pc * z + 1.0 / 24;
    pc = pc * z - 1.0 / 2;
    double sx = x + x * (z * ps), cx = 1 + z * pc;
    double odd = (double)(q & 1), a = odd * sx + (1 - odd) * cx,
           b = odd * cx + (1 - odd) * sx; /* except for the sign of the quarter */
    *c = a * (double)(1 - ((q + 1) & 2)); /* no branches, so that the compiler can vectorise */
    *s = b * (double)(1 - (q & 2));
}

/* Radius from a, angle from b. All clones do the same IEEE operations in the same order, so they
 * give the same bits. */
CPU_CLONES static void normal_pairs(const uint32_t *restrict a, const uint32_t *restrict b,
                                    float *restrict x, float *restrict y) {
    for (int i = 0; i < PAIRS; i++) {
        double r = sqrt(-2.0 * log_unit(a[i])), c, s;
        turn_unit(b[i], &c, &s);
        x[i] = (float)(r * c);
        y[i] = (float)(r * s);
    }
}

/* Computes n_blocks <= BLOCKS blocks of four numbers each. */
static void normal_blocks(struct pd_rng_key key, uint64_t hi, uint64_t first, int n_blocks,
                          float *out) {
    uint32_t a[PAIRS] = {0}, b[PAIRS] = {0};
    float x[PAIRS], y[PAIRS];
    for (int k = 0; k < n_blocks; k++) {
        uint32_t u[4];
        pd_rng_u32x4(key, hi, first + (uint64_t)k, u);
        a[2 * k] = u[0];
        b[2 * k] = u[1];
        a[2 * k + 1] = u[2];
        b[2 * k + 1] = u[3];
    }
    normal_pairs(a, b, x, y);
    for (int i = 0; i < 2 * n_blocks; i++) {
        out[2 * i] = x[i];
        out[2 * i + 1] = y[i];
    }
}

void pd_rng_normal_range(struct pd_rng_key key, uint64_t hi, uint64_t first, float *out,
                         uint64_t n) {
    float v[4 * BLOCKS];
    for (uint64_t i = 0; i < n;) {
        uint64_t skip = (first + i) % 4, want = n - i + skip,
                 have = want < 4 * BLOCKS ? want : 4 * BLOCKS;
        normal_blocks(key, hi, (first + i) / 4, (int)((have + 3) / 4), v);
        memcpy(out + i, v + skip, (have - skip) * sizeof *v);
        i += have - skip;
    }
}

void pd_rng_normal(struct pd_rng_key key, uint64_t hi, float *out, uint64_t n) {
    pd_rng_normal_range(key, hi, 0, out, n);
}

uint64_t pd_rng_below(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint64_t bound) {
    uint32_t u[4];
    pd_rng_u32x4(key, hi, lo, u);
    uint64_t x = (uint64_t)u[1] << 32 | u[0];
    return (uint64_t)(((unsigned __int128)x * bound) >> 64);
}
