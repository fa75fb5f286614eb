/* layout.h - which server thread owns what: a pure function of the declarations, computed alike on
 * both sides.
 *
 * A dense parameter is cut into blocks of at least 1024 values, about 128 a server when it is
 * large; a thread gets a run of consecutive blocks, so that a parameter has at most one segment in
 * a thread and travels without being gathered. Runs are sized so that all threads carry the same
 * number of values. Threads are counted over all servers in server order. Rows go to thread
 *
 *     (low 32 bits of mix64(key)) * n_threads >> 32
 *
 * The high bits choose the slot.
 */
#ifndef PD_PS_LAYOUT_H
#define PD_PS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "math/hash.h"

enum { PS_BLOCK_MIN = 1024, PS_BLOCKS_PER_SERVER = 128, PS_SEG_ALIGN = 16 };

struct ps_seg {
    uint64_t first,
        count;    /* values [first, first + count) of the flattened parameter; count 0: none here */
    uint64_t off; /* where they begin in the thread's own array, a multiple of 16 values */
};

/* seg[p * n_threads + t] for parameters of n[p] values. Returns 0 or PD_ENOMEM. */
int ps_layout_dense(size_t n_params, const uint64_t *n, uint32_t n_servers, uint32_t n_threads,
                    struct ps_seg *seg);

static inline uint64_t ps_seg_padded(uint64_t count) {
    return (count + PS_SEG_ALIGN - 1) / PS_SEG_ALIGN * PS_SEG_ALIGN;
}

static inline uint32_t ps_row_thread(uint64_t key, uint32_t n_threads) {
    return (uint32_t)(((pd_mix64(key) & 0xffffffffu) * n_threads) >> 32);
}

#endif
