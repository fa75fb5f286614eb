/* SPDX-License-Identifier: Apache-2.0 */
/* latch.h - a counter that only grows, and threads that wait until it is large enough: start, end
 * and barrier of threads that work in short runs.
 *
 *     the k-th barrier of n threads:
 *         pd_latch_add(&l, 1);
 *         pd_latch_wait(&l, k * n, &spin);
 *
 * A waiting thread spins for a short while before it sleeps, because waking a thread takes longer
 * than many of these waits, above all where an idle CPU is a virtual CPU. The spin time is learnt
 * from earlier waits, up to LATCH_SPIN_NS. Where waits are long, or other threads need the CPU, the
 * thread sleeps at once.
 *
 * Memory order: writes before pd_latch_add are visible after the pd_latch_wait that it ends. */
#pragma once

#include <pthread.h>

enum { LATCH_SPIN_NS = 50000 };

struct pd_latch {
    _Atomic uint64_t count;
    uint64_t wanted; /* lowest count that a sleeping thread waits for; UINT64_MAX: none sleeps */
    pthread_mutex_t lock;
    pthread_cond_t grown;
};

/* The learnt spin time of one thread for one kind of wait. Starts as {0}. */
struct pd_latch_spin {
    uint64_t ns;
};

void pd_latch_init(struct pd_latch *g); /* count 0 */
void pd_latch_destroy(struct pd_latch *g);
void pd_latch_add(struct pd_latch *g, uint64_t n);
void pd_latch_wait(struct pd_latch *g, uint64_t count, struct pd_latch_spin *p);
