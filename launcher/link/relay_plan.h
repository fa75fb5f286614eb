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
 * could not reach; a node whose source has to change is told once (relay_plan_next).
 */
#ifndef LAUNCHER_RELAY_PLAN_H
#define LAUNCHER_RELAY_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_LAUNCHER = -1, PLAN_NOBODY = -2 };

struct relay_plan;

/* `relay` 0: everybody takes from the launcher. NULL: out of memory. */
struct relay_plan *relay_plan_new(int n_nodes, int relay);
void relay_plan_free(struct relay_plan *p);

/* It lacks something, or has all. `serves` 0: nobody can take from it. */
void relay_plan_join(struct relay_plan *p, int node, int has_all, int serves, uint64_t now_ms);
void relay_plan_done(struct relay_plan *p, int node); /* it has all now */
void relay_plan_leave(struct relay_plan *p, int node,
                      uint64_t now_ms); /* gone or failed; it may join again */

/* What a node said of itself: bytes that it has, of how many (0: not known), its rate (bytes a
 * second), whether something that it asked for is not there yet. */
struct relay_plan_report {
    uint64_t have, of, rate;
    int asks, reached;
};
void relay_plan_status(struct relay_plan *p, int node, const struct relay_plan_report *r,
                       uint64_t now_ms);
/* `node` can't take from `source` (the one it was told last; else it is ignored). */
void relay_plan_unreached(struct relay_plan *p, int node, int source, uint64_t now_ms);

/* A node that is to be told of a new source: 1, and which. 0: none is left. */
int relay_plan_next(struct relay_plan *p, int *node, int *source);

int relay_plan_source(const struct relay_plan *p, int node);
int relay_plan_is_leaf(const struct relay_plan *p, int node); /* found slow */
int relay_plan_n_bypassed(
    const struct relay_plan *p); /* nodes whose successors take from somebody else now */

#endif
