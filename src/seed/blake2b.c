/* blake2b.c - see blake2b.h. Little-endian machines only, as all of the seed. */
#include "seed/blake2b.h"

#include "seed/mem.h"

enum { BLOCK = 128, ROUNDS = 12, OUT = 32 };

static const uint64_t iv[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

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
        v[i + 8] = iv[i];
    }
    v[12] ^= n_so_far;
    v[14] ^= last ? ~UINT64_C(0) : 0;
    for (int r = 0; r < ROUNDS; r++) {
        const uint8_t *s = sigma[r % 10];
        for (int i = 0; i < 4; i++)
            mix(&v[i], &v[4 + i], &v[8 + i], &v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(&v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4], &v[12 + (i + 3) % 4], m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

void blake2b_256(uint8_t out[32], const void *key, size_t n_key, const void *p, size_t n) {
    uint64_t h[8], done = 0;
    uint8_t block[BLOCK];
    const uint8_t *at = p;
    mem_copy(h, iv, sizeof h);
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
