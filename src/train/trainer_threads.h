/* team.h - the threads of a trainer (trainer_count): each has the buffers of an execution and
 * evaluators of its own, and computes pieces of a batch; values of the parameters, and the feed,
 * are shared and only read.
 *
 *     caller = thread 0       thread 1 ... n-1
 *     pieces 0, n, 2n, ...    pieces 1, n+1, ...      <- which thread computes a piece changes no
 * bit of it
 *
 * Pieces that are a whole batch, one for each thread, become one gradient in the same run:
 *
 *     forward, backward of its piece  │ all meet │  its slice of the gradients of matrices, of all samples (nn_exec_joint_gradient);
 *                                     │          │  its slice of the others is added up
 *
 * No lock is taken per sample: the threads meet at the beginning and the end of a run, and in that
 * one between. With one thread nothing is started.
 */
#ifndef PD_TRAIN_TRAINER_THREADS_H
#define PD_TRAIN_TRAINER_THREADS_H

#include "thread/cpus.h"
#include "thread/workers.h"
#include "nn/evals/eval.h"
#include "train/params.h"

struct train_threads;

enum { TRAIN_MAX_THREADS = 256 };

struct train_piece { /* samples [first, first + n) of the feed */
    uint32_t part, first, n;
    struct train_grads *grads; /* where backward adds; NULL: forward only, as a test */
    struct nn_cost cost;       /* out */
};

struct train_work {
    struct train_params *params; /* whose rows and values are here */
    const struct nn_feed *feed;
    uint64_t seed, pass;
    void (*on_gradient)(void *arg,
                        uint32_t param); /* NULL; or of a single piece: nn_exec_on_gradient, in the
                                            caller's thread */
    void *arg;
};

/* 1 <= n_threads <= TRAIN_MAX_THREADS; a piece has at most max_piece samples, a feed whose pieces
 * become one gradient max_batch; 0: there are none such. `eval` is the caller's and thread 0's;
 * cpus: thread i is pinned to the i-th core in turn, NULL: not. PD_ENOMEM, PD_EHOST. */
int train_threads_new(struct train_threads **out, const struct nn_graph *g, uint32_t n_threads,
                      uint32_t max_piece, uint32_t max_batch, struct nn_eval *eval,
                      const struct pd_cpus *cpus, struct pd_err *err);
void train_threads_free(struct train_threads *t);
uint32_t train_threads_size(const struct train_threads *t);
struct train_piece *train_threads_pieces(
    struct train_threads *t); /* [size], for the caller to use */

/* Compute all pieces, with their evaluators. The first error in the order of the threads, or 0. */
int train_threads_compute(struct train_threads *t, const struct train_work *w,
                          struct train_piece *piece, uint32_t n, struct pd_err *err);
/* The same of 1 <= n <= size pieces that are the whole feed, of which none is empty. Their sets
 * were taken as the first and others, and marked by train_grads_mark_samples if n > 1; the gradient
 * is in that of the first, the others are free again. */
int train_threads_compute_batch(struct train_threads *t, const struct train_work *w,
                                struct train_piece *piece, uint32_t n, struct pd_err *err);
/* into += from, cut over the threads; `from` is free again. Both were marked by
 * train_grads_mark_samples. */
void train_threads_add(struct train_threads *t, struct train_params *p, struct train_grads *into,
                       struct train_grads *from);

struct pd_workers train_threads_workers(
    struct train_threads
        *t); /* its threads for other work between two runs; with one thread: none */

/* The evaluators of all threads into that of the caller; and forget what they hold. */
int train_threads_merge_eval(struct train_threads *t, struct pd_err *err);
void train_threads_clear_eval(struct train_threads *t);

#endif
