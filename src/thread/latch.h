/* gate.h - a number that only grows, and threads that wait until it is large enough: start, end and
 * meeting points of threads that work in short runs.
 *
 *     all of n threads meet for the k-th time:     pd_gate_add(&g, 1); pd_gate_wait(&g, k * n,
 * &patience);
 *
 * Who waits looks at the number for a short while before it sleeps: waking a thread takes longer
 * than many of these waits last, above all where an idle CPU is a virtual one. How long it looks is
 * learnt from how long it had to wait before, at most GATE_PATIENCE_NS: where waits are long, or
 * other threads have its CPU, it sleeps at once.
 *
 * What was written before pd_gate_add is seen behind the pd_gate_wait that it ends. */
#ifndef PD_BASE_GATE_H
#define PD_BASE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { GATE_PATIENCE_NS = 50000 };

struct pd_gate {
    _Atomic uint64_t count;
    uint64_t wanted; /* the least that a sleeping thread waits for; UINT64_MAX: none sleeps */
    pthread_mutex_t lock;
    pthread_cond_t grown;
};

/* Of a thread, for one kind of wait. Begins as {0}. */
struct pd_patience {
    uint64_t ns;
};

void pd_gate_init(struct pd_gate *g); /* at 0 */
void pd_gate_destroy(struct pd_gate *g);
void pd_gate_add(struct pd_gate *g, uint64_t n);
void pd_gate_wait(struct pd_gate *g, uint64_t count, struct pd_patience *p);

#endif
