/* SPDX-License-Identifier: Apache-2.0 */
/* blake2b.c - see blake2b.h. For little-endian machines only, like all of the seed. */
#include "seed/blake2b.h"

#include "base/blake2b_tables.h"
#include "seed/mem.h"

enum { BLOCK = BLAKE2B_BLOCK, OUT = 32 };

static uint64_t rotated(uint64_t x, unsigned n) { return x >> n | x << (64 - n); }

static void mix(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y) {
    *a += *b + x;
    *d = rotated(*d ^ *a, 32);
    *c += *d;
    *b = rotated(*b ^ *c, 24);
    *a += *b + y;
    *d = rotated(*d ^ *a, 16);
    *c += *d;
    *b = rotated(*b ^ *c, 63);
}

static void compress(uint64_t h[8], const uint8_t *block, uint64_t n_so_far, int last) {
    uint64_t m[16], v[16];
    mem_copy(m, block, BLOCK);
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = blake2b_iv[i];
    }
    v[12] ^= n_so_far;
    v[14] ^= last ? ~UINT64_C(0) : 0;
    for (int r = 0; r < BLAKE2B_ROUNDS; r++) {
        const uint8_t *s = blake2b_sigma[r];
        for (int i = 0; i < 4; i++)
            mix(&v[i], &v[4 + i], &v[8 + i], &v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(&v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4], &v[12 + (i + 3) % 4],
                m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

void blake2b_256(uint8_t out[32], const void *key, size_t n_key, const void *p, size_t n) {
    uint64_t h[8], done = 0;
    uint8_t block[BLOCK];
    const uint8_t *at = p;
    mem_copy(h, blake2b_iv, sizeof h);
    h[0] ^= UINT64_C(0x01010000) ^ (uint64_t)n_key << 8 ^ OUT;
    if (n_key) {
        mem_zero(block, BLOCK);
        mem_copy(block, key, n_key);
        done = BLOCK;
        compress(h, block, done, !n);
    }
    for (; n > BLOCK; n -= BLOCK, at += BLOCK)
        compress(h, at, done += BLOCK, 0);
    if (n || !n_key) {
        mem_zero(block, BLOCK);
        mem_copy(block, at, n);
        compress(h, block, done + n, 1);
    }
    mem_copy(out, h, OUT);
}
