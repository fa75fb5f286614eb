/* SPDX-License-Identifier: Apache-2.0 */
/* object_ids.c - see object_ids.h. Source: RFC 7693.
 *
 * A lane hashes one message after the other; all lanes compress one block at a time. Between last
 * blocks only pointers move. When a lane reaches its last block, its state is stored as an id and
 * the next message's state is loaded. */
#include "pack/object/object_ids.h"

#ifdef __x86_64__
#include <immintrin.h>

#include "base/blake2b_tables.h"

#define AVX2 __attribute__((target("avx2")))
enum { LANES = 4, BLOCK = BLAKE2B_BLOCK };

/* Loads words 4k..4k+3 of the four blocks, transposed. */
static inline AVX2 void load_four(__m256i m[4], const uint8_t *const at[LANES], size_t off) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(at[0] + off)),
            b = _mm256_loadu_si256((const __m256i *)(const void *)(at[1] + off));
    __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(at[2] + off)),
            d = _mm256_loadu_si256((const __m256i *)(const void *)(at[3] + off));
    __m256i ab0 = _mm256_unpacklo_epi64(a, b), ab1 = _mm256_unpackhi_epi64(a, b),
            cd0 = _mm256_unpacklo_epi64(c, d), cd1 = _mm256_unpackhi_epi64(c, d);
    m[0] = _mm256_permute2x128_si256(ab0, cd0, 0x20);
    m[1] = _mm256_permute2x128_si256(ab1, cd1, 0x20);
    m[2] = _mm256_permute2x128_si256(ab0, cd0, 0x31);
    m[3] = _mm256_permute2x128_si256(ab1, cd1, 0x31);
}

#define ADD(x, y) _mm256_add_epi64(x, y)
#define XOR(x, y) _mm256_xor_si256(x, y)
#define MIX(a, b, c, d, x, y)                                         \
    do {                                                              \
        a = ADD(ADD(a, b), x);                                        \
        d = _mm256_shuffle_epi32(XOR(d, a), _MM_SHUFFLE(2, 3, 0, 1)); \
        c = ADD(c, d);                                                \
        b = _mm256_shuffle_epi8(XOR(b, c), by24);                     \
        a = ADD(ADD(a, b), y);                                        \
        d = _mm256_shuffle_epi8(XOR(d, a), by16);                     \
        c = ADD(c, d);                                                \
        b = XOR(b, c);                                                \
        b = XOR(_mm256_srli_epi64(b, 63), ADD(b, b));                 \
    } while (0)

/* Compresses one block of each lane. total: bytes of the message up to the end of this block; last:
 * all ones in lanes whose message ends with this block. */
static AVX2 void compress(__m256i h[8], const uint8_t *const at[LANES], __m256i total,
                          __m256i last) {
    const __m256i by24 = _mm256_setr_epi8(3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10, 3,
                                          4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10);
    const __m256i by16 = _mm256_setr_epi8(2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9, 2,
                                          3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9);
    __m256i m[16], v[16];
    for (int i = 0; i < 4; i++)
        load_four(m + 4 * i, at, 32 * (size_t)i);
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[8 + i] = _mm256_set1_epi64x((long long)blake2b_iv[i]);
    }
    v[12] = XOR(v[12], total);
    v[14] = XOR(v[14], last);
#pragma GCC unroll 12
    for (int r = 0; r < BLAKE2B_ROUNDS; r++) {
        const uint8_t *s = blake2b_sigma[r];
        MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
        MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
        MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
        MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
        MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
        MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
        MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
        MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] = XOR(h[i], XOR(v[i], v[8 + i]));
}

struct lane {
    const uint8_t *p;
    size_t left; /* bytes not compressed yet; 0: the lane is idle */
    uint64_t done;
    size_t message;
    uint8_t tail[BLOCK]; /* the last block, padded with zeros */
};

/* Hashes `count` messages of 1 byte or more. */
static AVX2 void four_at_once(struct object_id *id, const struct object_bytes *v, size_t count) {
    struct lane lane[LANES] = {0};
    union {
        __m256i v[8];
        uint64_t w[8][LANES];
    } h;
    size_t next = 0, busy = 0;
    for (;;) {
        for (int i = 0; i < LANES; i++) {
            struct lane *l = &lane[i];
            if (l->left || next == count)
                continue;
            *l = (struct lane){.p = v[next].p, .left = v[next].n, .message = next};
            next++;
            busy++;
            for (int k = 0; k < 8; k++)
                h.w[k][i] = blake2b_iv[k];
            h.w[0][i] ^= 0x01010000u ^ OBJECT_ID;
        }
        if (!busy)
            return;
        const uint8_t *at[LANES];
        uint64_t total[LANES], last[LANES];
        size_t blocks = SIZE_MAX; /* number of blocks before the first last block of a busy lane */
        for (int i = 0; i < LANES; i++)
            if (lane[i].left && (lane[i].left - 1) / BLOCK < blocks)
                blocks = (lane[i].left - 1) / BLOCK;
        for (int i = 0; i < LANES; i++) {
            at[i] = lane[i].left ? lane[i].p : lane[i].tail;
            total[i] = lane[i].done;
        }
        __m256i t = _mm256_loadu_si256((const __m256i *)(const void *)total);
        for (size_t b = 0; b < blocks; b++) {
            t = ADD(t, _mm256_set1_epi64x(BLOCK));
            compress(h.v, at, t, _mm256_setzero_si256());
            for (int i = 0; i < LANES; i++)
                at[i] += lane[i].left ? BLOCK : 0;
        }
        for (int i = 0; i < LANES; i++) {
            struct lane *l = &lane[i];
            size_t k = l->left ? blocks * BLOCK : 0, n = l->left - k;
            l->p += k;
            l->done += k;
            l->left = n;
            last[i] = n && n <= BLOCK ? UINT64_MAX : 0;
            total[i] = l->done + (n < BLOCK ? n : BLOCK);
            at[i] = l->left > BLOCK ? l->p : l->tail;
            if (last[i]) {
                memset(l->tail, 0, BLOCK);
                memcpy(l->tail, l->p, n);
            }
        }
        compress(h.v, at, _mm256_loadu_si256((const __m256i *)(const void *)total),
                 _mm256_loadu_si256((const __m256i *)(const void *)last));
        for (int i = 0; i < LANES; i++) {
            struct lane *l = &lane[i];
            if (last[i]) {
                for (int k = 0; k < OBJECT_ID / 8; k++)
                    memcpy(id[l->message].b + 8 * k, &h.w[k][i], 8);
                l->left = 0;
                busy--;
            } else if (l->left) {
                l->p += BLOCK;
                l->done += BLOCK;
                l->left -= BLOCK;
            }
        }
    }
}
#endif

void object_ids_of(struct object_id *id, const struct object_bytes *v, size_t count) {
#ifdef __x86_64__
    if (count > 1 && __builtin_cpu_supports("avx2")) {
        four_at_once(id, v, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++)
        object_id_of(&id[i], v[i].p, v[i].n);
}
