/* params.h - the graph's parameters on both sides: declared to the servers, and their buffers in
 * this trainer.
 *
 * Gradients are in sets, each with a buffer for every parameter:
 *
 *     free ── take ──> in use: backward adds to it ── push ──> pushed: the client's until ps_wait
 *      ^                  └─ added to another set ─┐                                │
 *      └───────────────────────────────────────────┴──────────── reclaim ───────────┘
 */
#ifndef PD_TRAIN_PARAMS_H
#define PD_TRAIN_PARAMS_H

#include "nn/graph/graph.h"
#include "ps/client/client.h"

struct train_params;

/* Declares every parameter of `g` to `c` (before ps_start) and makes the dense buffers. */
int train_params_new(struct train_params **out, const struct nn_graph *g, struct ps_client *c,
                     struct pd_err *err);
void train_params_free(struct train_params *p);

/* Ask for all dense values; complete after ps_wait. */
int train_params_pull_dense(struct train_params *p);
/* Ask for the rows that `feed` needs (created when missing if `train`); complete after ps_wait. */
int train_params_pull_rows(struct train_params *p, const struct nn_feed *feed, int train,
                           struct pd_err *err);
/* The same for the feed of the next step, while this one's rows are in use: before its ps_step_end.
 * They are in use from train_params_next_rows on, which is called after that; complete after the
 * ps_wait behind it. */
int train_params_pull_next_rows(struct train_params *p, const struct nn_feed *feed,
                                struct pd_err *err);
void train_params_next_rows(struct train_params *p);
/* After ps_wait: hand the values to `exec`, and the gradients' buffers; g NULL: none are wanted. */
struct train_grads;
void train_params_bind(struct train_params *p, struct nn_exec *exec, struct train_grads *g);

/* A set for the feed whose rows were pulled last: zeros. Of pieces of a feed whose sets become one,
 * by executions beside each other: the first piece's holds anything where a parameter is
 * nn_param_is_joint, the others' hold nothing there. */
enum train_grads_kind { TRAIN_GRADS_ALONE, TRAIN_GRADS_FIRST, TRAIN_GRADS_OTHER };
int train_grads_take(struct train_params *p, enum train_grads_kind what, struct train_grads **out,
                     struct pd_err *err);
/* The set is of samples [first, first+n) of the feed only. Not called: of all, and every row of the
 * feed is pushed. */
void train_grads_mark_samples(struct train_params *p, struct train_grads *g,
                              const struct nn_feed *feed, uint32_t first, uint32_t n);
/* Slice k of n of into += from; slices share nothing, so threads may add one each. Both were marked
 * by train_grads_mark_samples. A row which only one of both has keeps its bits, as at the servers.
 */
void train_grads_add_slice(const struct train_params *p, struct train_grads *into,
                           struct train_grads *from, uint32_t k, uint32_t n);
void train_grads_add_done(struct train_params *p, struct train_grads *into,
                          struct train_grads *from); /* all slices are: `from` is free again */
/* Scale what backward added up over n_samples so that the norm of its mean over all parameters is
 * at most max_norm. */
void train_grads_clip(const struct train_params *p, struct train_grads *g, uint64_t n_samples,
                      double max_norm);
/* One parameter's part of it; each at most once. */
int train_grads_push_one(struct train_params *p, struct train_grads *g, uint32_t param);
/* What has not been pushed yet; the set is then the client's. */
int train_grads_push(struct train_params *p, struct train_grads *g);
void train_grads_reclaim(struct train_params *p); /* after ps_wait */

#endif
