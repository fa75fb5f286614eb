/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - the graph's parameters in this trainer: declared to the servers, with local buffers.
 *
 * Gradients are in sets. A set has a buffer for every parameter:
 *
 *     free ── take ──> in use: backward adds to it ── push ──> pushed: owned by the client
 *      ^                  └─ added to another set ─┐                                │
 *      └───────────────────────────────────────────┴──────────── reclaim ───────────┘
 */
#pragma once

#include "nn/graph/graph.h"
#include "ps/client/client.h"

struct train_params;

/* Declares every parameter of `g` to `c` (before ps_start) and allocates the dense buffers. */
int train_params_new(struct train_params **out, const struct nn_graph *g, struct ps_client *c,
                     struct pd_err *err);
void train_params_free(struct train_params *p);

/* Requests all dense values; complete after ps_wait. */
int train_params_pull_dense(struct train_params *p);
/* Requests the rows that `feed` needs; missing rows are created if `train`. Complete after ps_wait.
 */
int train_params_pull_rows(struct train_params *p, const struct nn_feed *feed, int train,
                           struct pd_err *err);
/* Prefetch: requests the rows of the next step's feed while this step's rows are in use. Called
 * before ps_step_end. train_params_next_rows, called after it, makes the prefetched rows the
 * current ones; they are complete after the following ps_wait. */
int train_params_pull_next_rows(struct train_params *p, const struct nn_feed *feed,
                                struct pd_err *err);
void train_params_next_rows(struct train_params *p);
/* After ps_wait: gives the values and the buffers of gradients to `exec`; g NULL: no gradients. */
struct train_grads;
void train_params_bind(struct train_params *p, struct nn_exec *exec, struct train_grads *g);

/* Takes a set of zeros for the feed whose rows were pulled last. Pieces of a feed that are executed
 * in parallel into one gradient have other kinds: FIRST for the first piece, OTHER for the others.
 * If nn_param_is_joint is true for a parameter, its buffer in FIRST has any contents, and OTHER has
 * none. */
enum train_grads_kind { TRAIN_GRADS_ALONE, TRAIN_GRADS_FIRST, TRAIN_GRADS_OTHER };
int train_grads_take(struct train_params *p, enum train_grads_kind what, struct train_grads **out,
                     struct pd_err *err);
/* Declares that the set belongs to samples [first, first + n) of the feed only. Without this call
 * the set belongs to all samples, and every row of the feed is pushed. */
void train_grads_mark_samples(struct train_params *p, struct train_grads *g,
                              const struct nn_feed *feed, uint32_t first, uint32_t n);
/* Adds slice k of n of `from` to `into`. Slices are disjoint, so that each thread may add one. Both
 * sets were given to train_grads_mark_samples. A row that only one of the sets has keeps its bits,
 * as at the servers. */
void train_grads_add_slice(const struct train_params *p, struct train_grads *into,
                           struct train_grads *from, uint32_t k, uint32_t n);
/* Called when all slices are added: `from` is free again. */
void train_grads_add_done(struct train_params *p, struct train_grads *into,
                          struct train_grads *from);
/* Clips the gradient: scales the set, a sum over n_samples, so that the norm of its mean over all
 * parameters is at most max_norm. */
void train_grads_clip(const struct train_params *p, struct train_grads *g, uint64_t n_samples,
                      double max_norm);
/* Pushes the gradient of one parameter; at most once per parameter. */
int train_grads_push_one(struct train_params *p, struct train_grads *g, uint32_t param);
/* Pushes the remaining gradients; then the set belongs to the client. */
int train_grads_push(struct train_params *p, struct train_grads *g);
void train_grads_reclaim(struct train_params *p); /* after ps_wait */
