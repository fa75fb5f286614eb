/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - counter-based random numbers. Every number is a pure function of a key and a counter. Any
 * process can compute any number in any order, and a run can be repeated or resumed without state.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11 (Philox 4x32-10), as
 * in Random123's header. */
#pragma once

struct pd_rng_key {
    uint32_t k[2];
};

/* A key for one use of randomness. seed: of the job; domain: enum pd_rng_domain; a, b: further
 * distinctions of the caller (pass and stream, or the id of a table). */
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

/* n standard normal numbers (Box-Muller). Number i depends only on (key, hi, i). The code computes
 * in double and rounds once, without the C library, whose log and sin differ between machines. */
void pd_rng_normal(struct pd_rng_key key, uint64_t hi, float *out, uint64_t n);

/* Numbers [first, first+n) of the same sequence as pd_rng_normal(key, hi, ...). */
void pd_rng_normal_range(struct pd_rng_key key, uint64_t hi, uint64_t first, float *out,
                         uint64_t n);

/* Uniform integer in [0, bound), bound >= 1. Multiplication of one 64-bit draw; bias < 2^-32 for
 * bound < 2^32. */
uint64_t pd_rng_below(struct pd_rng_key key, uint64_t hi, uint64_t lo, uint64_t bound);
