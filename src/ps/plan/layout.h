/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - which server thread owns which values. The layout is a pure function of the
 * declarations; client and server compute it alike.
 *
 * A dense parameter is cut into blocks of at least 1024 values. A large parameter has about 128
 * blocks per server. Each thread gets a run of consecutive blocks, so a parameter has at most one
 * segment in a thread and is sent without being gathered. Runs are sized so that all threads hold
 * the same number of values. Threads are counted over all servers in server order.
 *
 * The row of a key belongs to thread
 *
 *     (low 32 bits of mix64(key)) * n_threads >> 32
 *
 * The high bits of mix64(key) choose the slot in the thread's index. */
#pragma once

#include "math/hash.h"

enum { PS_BLOCK_MIN = 1024, PS_BLOCKS_PER_SERVER = 128, PS_SEG_ALIGN = 16 };

struct ps_seg {
    uint64_t first, count; /* values [first, first + count) of the flattened parameter; count 0: the
                              thread has none */
    uint64_t off; /* offset of these values in the thread's own array, a multiple of 16 values */
};

/* Fills seg[p * n_threads + t] for parameters of n[p] values. Returns 0 or PD_ENOMEM. */
int ps_layout_dense(size_t n_params, const uint64_t *n, uint32_t n_servers, uint32_t n_threads,
                    struct ps_seg *seg);

static inline uint64_t ps_seg_padded(uint64_t count) {
    return (count + PS_SEG_ALIGN - 1) / PS_SEG_ALIGN * PS_SEG_ALIGN;
}

static inline uint32_t ps_row_thread(uint64_t key, uint32_t n_threads) {
    return (uint32_t)(((pd_mix64(key) & 0xffffffffu) * n_threads) >> 32);
}
