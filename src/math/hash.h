/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - the hash function that spreads row ids over servers and slots. */
#pragma once

/* A bijection of 64 bits; every input bit affects every output bit. With the identity as hash,
 * consecutive ids would cluster in open addressing. Source: Steele et al., "Fast splittable
 * pseudorandom number generators", OOPSLA'14 (the finalizer variant of SplitMix64). */
static inline uint64_t pd_mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
