/* SPDX-License-Identifier: Apache-2.0 */
/* relay_plan.h - which node takes a package from which source. Decisions only: no network, no
 * clock, no memory of others. Tests and the simulation bench/dispatch_sim use it as the launcher
 * does.
 *
 *     launcher ──▶ a ──▶ b ──▶ c ──▶ d            nodes in order of arrival: each takes from the
 *                                                 end of the chain
 *     launcher ──▶ a ──▶ c ──▶ d                  b is gone: c takes from b's source
 *     launcher ──▶ a ──▶ c ──▶ d                  b is slow: b becomes a leaf, no node waits for it
 *                  └───▶ b
 *     launcher ──▶ c                              c reaches no node
 *                  d ──▶ c                        d came late and already had all
 *     launcher ──▶ a, launcher ──▶ b ──▶ c        a trial: is a slow, or this machine's link?
 *
 * Invariants:
 * - No node takes from itself, from a descendant, from a lost node, or from a node that it could
 *   not reach.
 * - A node whose source changes is told once (relay_plan_next).
 */
#pragma once

enum { PLAN_LAUNCHER = -1, PLAN_NOBODY = -2 };

struct relay_plan;

/* `relay` 0: every node takes from the launcher. NULL: out of memory. */
struct relay_plan *relay_plan_new(int n_nodes, int relay);
void relay_plan_free(struct relay_plan *p);

/* The node takes the package, or has_all. `serves` 0: no other node can take from it. */
void relay_plan_join(struct relay_plan *p, int node, int has_all, int serves, uint64_t now_ms);
void relay_plan_done(struct relay_plan *p, int node); /* the node has all now */
void relay_plan_leave(struct relay_plan *p, int node,
                      uint64_t now_ms); /* lost or failed; may join again */

/* A node's status: bytes that it has, of how many (0: unknown), its rate in bytes a second. asks:
 * it waits for objects. reached: it reaches its source. */
struct relay_plan_report {
    uint64_t have, of, rate;
    int asks, reached;
};
void relay_plan_status(struct relay_plan *p, int node, const struct relay_plan_report *r,
                       uint64_t now_ms);
/* `node` cannot take from `source`. Ignored unless the node was last told `source`. */
void relay_plan_unreached(struct relay_plan *p, int node, int source, uint64_t now_ms);

/* 1: `node` is to be told of its new `source`. 0: no node is left to tell. */
int relay_plan_next(struct relay_plan *p, int *node, int *source);

int relay_plan_source(const struct relay_plan *p, int node);
int relay_plan_is_leaf(const struct relay_plan *p, int node); /* found slow */
/* nodes whose successors take from another source now */
int relay_plan_n_bypassed(const struct relay_plan *p);
