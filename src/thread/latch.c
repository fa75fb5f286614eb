/* gate.c - see gate.h. */
#include "thread/latch.h"

#include "base/clock.h"

void pd_gate_init(struct pd_gate *g) {
    atomic_init(&g->count, 0);
    g->wanted = UINT64_MAX;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->grown, NULL);
}

void pd_gate_destroy(struct pd_gate *g) {
    pthread_cond_destroy(&g->grown);
    pthread_mutex_destroy(&g->lock);
}

void pd_gate_add(struct pd_gate *g, uint64_t n) {
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

static int reached(struct pd_gate *g, uint64_t count) {
    return atomic_load_explicit(&g->count, memory_order_acquire) >= count;
}

/* Until the number is there, or `until`. */
static int look(struct pd_gate *g, uint64_t count, uint64_t until) {
    enum { LOOKS = 16 }; /* between two looks at the clock */
    do
        for (int i = 0; i < LOOKS; i++) {
            if (reached(g, count))
                return 1;
            pause_cpu();
        }
    while (pd_mono_ns() < until);
    return 0;
}

static void sleep_until(struct pd_gate *g, uint64_t count) {
    pthread_mutex_lock(&g->lock);
    while (!reached(g, count)) {
        g->wanted = count < g->wanted ? count : g->wanted;
        pthread_cond_wait(&g->grown, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* A wait that looking would have spent awake makes it look longer, a longer one half as long. */
void pd_gate_wait(struct pd_gate *g, uint64_t count, struct pd_patience *p) {
    if (reached(g, count))
        return;
    const uint64_t began = pd_mono_ns();
    if (p->ns && look(g, count, began + p->ns))
        return;
    sleep_until(g, count);
    if (pd_mono_ns() - began < 2 * (uint64_t)GATE_PATIENCE_NS) /* waking took a part of it */
        p->ns = GATE_PATIENCE_NS;
    else
        p->ns /= 2;
}
