/* SPDX-License-Identifier: Apache-2.0 */
/* latch.c - see latch.h. */
#include "thread/latch.h"

void pd_latch_init(struct pd_latch *g) {
    atomic_init(&g->count, 0);
    g->wanted = UINT64_MAX;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->grown, NULL);
}

void pd_latch_destroy(struct pd_latch *g) {
    pthread_cond_destroy(&g->grown);
    pthread_mutex_destroy(&g->lock);
}

void pd_latch_add(struct pd_latch *g, uint64_t n) {
    pthread_mutex_lock(&g->lock);
    const uint64_t count = atomic_load_explicit(&g->count, memory_order_relaxed) + n;
    atomic_store_explicit(&g->count, count, memory_order_release);
    if (count >= g->wanted) {
        g->wanted = UINT64_MAX;
        pthread_cond_broadcast(&g->grown);
    }
    pthread_mutex_unlock(&g->lock);
}

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int reached(struct pd_latch *g, uint64_t count) {
    return atomic_load_explicit(&g->count, memory_order_acquire) >= count;
}

/* Spins until the count is reached or the clock passes `until`; 1: reached. */
static int spin(struct pd_latch *g, uint64_t count, uint64_t until) {
    enum { SPINS_PER_CLOCK = 16 }; /* reads of the count between two reads of the clock */
    do
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (reached(g, count))
                return 1;
            pause_cpu();
        }
    while (pd_mono_ns() < until);
    return 0;
}

static void sleep_until(struct pd_latch *g, uint64_t count) {
    pthread_mutex_lock(&g->lock);
    while (!reached(g, count)) {
        g->wanted = count < g->wanted ? count : g->wanted;
        pthread_cond_wait(&g->grown, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* Learns the spin time: after a wait that spinning would have covered it is LATCH_SPIN_NS, after a
 * longer wait half as long. */
void pd_latch_wait(struct pd_latch *g, uint64_t count, struct pd_latch_spin *p) {
    if (reached(g, count))
        return;
    const uint64_t began = pd_mono_ns();
    if (p->ns && spin(g, count, began + p->ns))
        return;
    sleep_until(g, count);
    /* twice, because the wake-up took a part of the time */
    if (pd_mono_ns() - began < 2 * (uint64_t)LATCH_SPIN_NS)
        p->ns = LATCH_SPIN_NS;
    else
        p->ns /= 2;
}
