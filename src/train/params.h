/* params.h - the graph's parameters on both sides: declared to the servers, and their buffers in this trainer. */
#ifndef PD_TRAIN_PARAMS_H
#define PD_TRAIN_PARAMS_H

#include "nn/graph.h"
#include "ps/client.h"

struct train_params;

/* Declares every parameter of `g` to `c` (before ps_start) and makes the dense buffers. */
int train_params_new(struct train_params **out, const struct nn_graph *g, struct ps_client *c, struct pd_err *err);
void train_params_free(struct train_params *p);

/* Ask for all dense values; complete after ps_wait. */
int train_params_pull_dense(struct train_params *p);
/* Ask for the rows that `feed` needs (created when missing if `train`); complete after ps_wait. */
int train_params_pull_rows(struct train_params *p, const struct nn_feed *feed, int train, struct pd_err *err);
/* After ps_wait: zero the gradients (train) and hand all buffers to `exec`. */
int train_params_bind(struct train_params *p, struct nn_exec *exec, int train, struct pd_err *err);
/* Scale what backward added up over n_samples so that the norm of its mean over all parameters is at most max_norm. */
void train_params_clip(struct train_params *p, uint64_t n_samples, double max_norm);
/* Push what backward added up. The buffers are the client's until the next ps_wait. */
int train_params_push(struct train_params *p);

#endif
