/* rng.h - counter-based random numbers: every number is a pure function of a key and a counter, so
 * any process can compute any of them in any order and a run can be repeated or resumed without
 * state.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11 (Philox 4x32-10),
 * through Random123's header.
 */
#ifndef PD_BASE_RNG_H
#define PD_BASE_RNG_H

#include <stdint.h>

struct pd_rng_key {
    uint32_t k[2];
};

/* A key for one use of randomness: `seed` is the job's, `domain` one of enum pd_rng_domain,
 * a and b what the caller distinguishes further (pass and stream, or a table's id). */
enum pd_rng_domain {
    PD_RNG_INIT = 1,
    PD_RNG_DROPOUT = 2,
    PD_RNG_SHUFFLE = 3,
    PD_RNG_CHECK = 4,
    PD_RNG_WINDOW = 5,
    PD_RNG_READER = 6,
    PD_RNG_SAMPLE = 7,
    PD_RNG_ADMIT = 8,
    PD_RNG_DEAL = 9
};
struct pd_rng_key pd_rng_key(uint64_t seed, uint32_t domain, uint64_t a, uint64_t b);

/* Four 32-bit numbers for the 128-bit counter (hi, lo). */
void pd_rng_u32x4(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint32_t out[4]);

/* n standard normal (Box-Muller, computed in double to a few of its last bits without the C
 * library, whose logarithm and sine differ between machines, and rounded once); number i depends on
 * (key, hi, i) only. */
void pd_rng_normal(struct pd_rng_key key, uint64_t hi, float *out, uint64_t n);

/* Numbers [first, first+n) of the same sequence as pd_rng_normal(key, hi, ...). */
void pd_rng_normal_range(struct pd_rng_key key, uint64_t hi, uint64_t first, float *out,
                         uint64_t n);

/* Uniform integer in [0, bound), bound >= 1; from one 64-bit draw by multiplication (bias < 2^-32
 * for bound < 2^32). */
uint64_t pd_rng_below(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint64_t bound);

#endif
