/* rng.c - see rng.h. */
#include "base/rng.h"

#include <math.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

#include "base/hash.h"

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

/* (0,1]: the logarithm below must not see 0. */
static double unit_open(uint32_t u) { return ((double)u + 1.0) * (1.0 / 4294967296.0); }

static void normal4(struct pd_rng_key key, uint64_t hi, uint64_t block, float out[4]) {
    uint32_t u[4];
    pd_rng_u32x4(key, hi, block, u);
    for (int i = 0; i < 4; i += 2) {
        double r = sqrt(-2.0 * log(unit_open(u[i])));
        double t = 6.283185307179586476925 * unit_open(u[i + 1]);
        out[i] = (float)(r * cos(t));
        out[i + 1] = (float)(r * sin(t));
    }
}

void pd_rng_normal_range(struct pd_rng_key key, uint64_t hi, uint64_t first, float *out, uint64_t n) {
    float v[4];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = first + i;
        if (i == 0 || j % 4 == 0)
            normal4(key, hi, j / 4, v);
        out[i] = v[j % 4];
    }
}

void pd_rng_normal(struct pd_rng_key key, uint64_t hi, float *out, uint64_t n) {
    pd_rng_normal_range(key, hi, 0, out, n);
}

void pd_rng_uniform(struct pd_rng_key key, uint64_t hi, float *out, uint64_t n) {
    uint32_t u[4];
    for (uint64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            pd_rng_u32x4(key, hi, i / 4, u);
        out[i] = (float)(u[i % 4] >> 8) * (1.0f / 16777216.0f);
    }
}

uint64_t pd_rng_below(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint64_t bound) {
    uint32_t u[4];
    pd_rng_u32x4(key, hi, lo, u);
    uint64_t x = (uint64_t)u[1] << 32 | u[0];
    return (uint64_t)(((unsigned __int128)x * bound) >> 64);
}
