/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h. */
#include "ps/plan/layout.h"

struct thread_load {
    uint64_t load;
    uint32_t thread;
};

static int by_load(const void *a, const void *b) {
    const struct thread_load *x = a, *y = b;
    if (x->load != y->load)
        return x->load < y->load ? -1 : 1;
    return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* The load to which threads must be filled so that n more values make them even. Threads above this
 * level get nothing. */
static uint64_t water_level(const struct thread_load *sorted, uint32_t n_threads, uint64_t n) {
    uint64_t sum = n, level = 0;
    for (uint32_t k = 0; k < n_threads; k++) {
        sum += sorted[k].load;
        level = sum / (k + 1);
        if (k + 1 == n_threads || level <= sorted[k + 1].load)
            break;
    }
    return level;
}

/* Sets blocks[t], the number of blocks of thread t. Shares are proportional to the room below the
 * water level, by cumulative rounding. A parameter with fewer blocks than threads goes to the least
 * loaded threads. */
static void share_blocks(uint64_t n, uint64_t n_blocks, const uint64_t *load,
                         struct thread_load *sorted, uint32_t n_threads, uint64_t *blocks) {
    for (uint32_t t = 0; t < n_threads; t++)
        sorted[t] = (struct thread_load){load[t], t};
    qsort(sorted, n_threads, sizeof *sorted, by_load);
    memset(blocks, 0, n_threads * sizeof *blocks);
    if (n_blocks < n_threads) {
        for (uint64_t k = 0; k < n_blocks; k++)
            blocks[sorted[k].thread] = 1;
        return;
    }
    uint64_t level = water_level(sorted, n_threads, n), total = 0, cum = 0, given = 0;
    for (uint32_t t = 0; t < n_threads; t++)
        total += load[t] < level ? level - load[t] : 0;
    for (uint32_t t = 0; t < n_threads; t++) {
        cum += load[t] < level ? level - load[t] : 0;
        uint64_t upto =
            total ? (uint64_t)(((unsigned __int128)cum * n_blocks + total / 2) / total) : n_blocks;
        blocks[t] = upto - given;
        given = upto;
    }
}

int ps_layout_dense(size_t n_params, const uint64_t *n, uint32_t n_servers, uint32_t n_threads,
                    struct ps_seg *seg) {
    uint64_t *load = pd_calloc(n_threads, sizeof *load),
             *blocks = pd_calloc(n_threads, sizeof *blocks);
    struct thread_load *sorted = pd_calloc(n_threads, sizeof *sorted);
    int rc = load && blocks && sorted ? 0 : PD_ENOMEM;
    for (size_t p = 0; p < n_params && !rc; p++) {
        uint64_t most = (uint64_t)PS_BLOCKS_PER_SERVER * n_servers, want = n[p] / PS_BLOCK_MIN;
        want = want < 1 ? 1 : want > most ? most : want;
        uint64_t block = ps_seg_padded((n[p] + want - 1) / want),
                 n_blocks = (n[p] + block - 1) / block, at = 0;
        share_blocks(n[p], n_blocks, load, sorted, n_threads, blocks);
        for (uint32_t t = 0; t < n_threads; t++) {
            uint64_t end = at + blocks[t] * block;
            if (end > n[p])
                end = n[p];
            seg[p * n_threads + t] =
                (struct ps_seg){.first = at, .count = end - at, .off = load[t]};
            load[t] += ps_seg_padded(end - at);
            at = end;
        }
    }
    free(load);
    free(blocks);
    free(sorted);
    return rc;
}
