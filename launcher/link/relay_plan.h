/* plan.h - who takes a package from whom. Decisions only: no network, no clock, no memory but its
 * own; tests and the simulation of bench/dispatch_sim use it as the launcher does.
 *
 *     launcher ──▶ a ──▶ b ──▶ c ──▶ d            the order in which nodes came; each takes from the last one of the chain
 *     launcher ──▶ a ──▶ c ──▶ d                  b is gone: c takes from whom b took
 *     launcher ──▶ a ──▶ c ──▶ d                  b is slow: a leaf, nobody waits for it
 *                  └───▶ b
 *     launcher ──▶ c                              c reaches no node
 *                  d ──▶ c                        d came late, and had all
 *     launcher ──▶ a, launcher ──▶ b ──▶ c        a trial: is it a that is slow, or this machine's link?
 *
 * Invariants: nobody takes from itself, from a descendant, from a node that is gone or that it
 * could not reach; a node whose source has to change is told once (plan_next).
 */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_LAUNCHER = -1, PLAN_NOBODY = -2 };

struct plan;

/* `relay` 0: everybody takes from the launcher. NULL: out of memory. */
struct plan *plan_new(int n_nodes, int relay);
void plan_free(struct plan *p);

/* It lacks something, or has all. `serves` 0: nobody can take from it. */
void plan_join(struct plan *p, int node, int has_all, int serves, uint64_t now_ms);
void plan_done(struct plan *p, int node);                   /* it has all now */
void plan_leave(struct plan *p, int node, uint64_t now_ms); /* gone or failed; it may join again */

/* What a node said of itself: bytes that it has, of how many (0: not known), its rate (bytes a
 * second), whether something that it asked for is not there yet. */
struct plan_report {
    uint64_t have, of, rate;
    int asks, reached;
};
void plan_status(struct plan *p, int node, const struct plan_report *r, uint64_t now_ms);
/* `node` can't take from `source` (the one it was told last; else it is ignored). */
void plan_unreached(struct plan *p, int node, int source, uint64_t now_ms);

/* A node that is to be told of a new source: 1, and which. 0: none is left. */
int plan_next(struct plan *p, int *node, int *source);

int plan_source(const struct plan *p, int node);
int plan_is_leaf(const struct plan *p, int node); /* found slow */
int plan_n_bypassed(const struct plan *p); /* nodes whose successors take from somebody else now */

#endif
