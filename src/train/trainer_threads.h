/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_threads.h - the threads of a trainer (trainer_count). Each thread has its own execution
 * buffers and evaluators and computes pieces of a batch. The values of parameters and the feed are
 * shared and only read.
 *
 *     caller = thread 0       thread 1 ... n-1
 *     pieces 0, n, 2n, ...    pieces 1, n+1, ...      the assignment changes no bit of the result
 *
 * If the pieces are a whole batch, one per thread, they become one gradient in the same run:
 *
 *     forward, backward of a piece │ barrier │ per thread: a slice of the gradients of matrices,
 *                                  │         │ of all samples (nn_exec_joint_gradient), and one of
 *                                  │         │ the sum of the other gradients
 *
 * No lock is taken per sample: the threads synchronise at the beginning and end of a run and at
 * this barrier. With one thread none is started.
 */
#pragma once

#include "thread/cpus.h"
#include "thread/workers.h"
#include "nn/evals/eval.h"
#include "train/params.h"

struct train_threads;

enum { TRAIN_MAX_THREADS = 256 };

struct train_piece { /* samples [first, first + n) of the feed */
    uint32_t part, first, n;
    struct train_grads *grads; /* backward adds to this set; NULL: forward only, for tests */
    struct nn_cost cost;       /* out */
    uint64_t forward_ns;       /* out: time of forward, evaluators included */
};

struct train_work {
    struct train_params *params; /* with current rows and values */
    const struct nn_feed *feed;
    uint64_t seed, pass;
    /* NULL; for a single piece: nn_exec_on_gradient, called in the caller's thread. */
    void (*on_gradient)(void *arg, uint32_t param);
    void *arg;
};

/* 1 <= n_threads <= TRAIN_MAX_THREADS. max_piece: most samples of a piece. max_batch: most samples
 * of a feed whose pieces become one gradient; 0: there are no such feeds. `eval` belongs to the
 * caller and is used by thread 0. cpus: thread i is pinned to the i-th core in turn; NULL: not
 * pinned. PD_ENOMEM, PD_EHOST. */
int train_threads_new(struct train_threads **out, const struct nn_graph *g, uint32_t n_threads,
                      uint32_t max_piece, uint32_t max_batch, struct nn_eval *eval,
                      const struct pd_cpus *cpus, struct pd_err *err);
void train_threads_free(struct train_threads *t);
uint32_t train_threads_size(const struct train_threads *t);
/* [size], filled by the caller. */
struct train_piece *train_threads_pieces(struct train_threads *t);

/* Computes all pieces and their evaluators. Returns 0, or the first error in the order of threads.
 */
int train_threads_compute(struct train_threads *t, const struct train_work *w,
                          struct train_piece *piece, uint32_t n, struct pd_err *err);
/* The same for 1 <= n <= size non-empty pieces that are the whole feed. Their sets were taken as
 * FIRST and OTHER, and given to train_grads_mark_samples if n > 1. The gradient is then in the set
 * of the first piece; the other sets are free again. */
int train_threads_compute_batch(struct train_threads *t, const struct train_work *w,
                                struct train_piece *piece, uint32_t n, struct pd_err *err);
/* into += from, divided among the threads; `from` is free again. Both were given to
 * train_grads_mark_samples. */
void train_threads_add(struct train_threads *t, struct train_params *p, struct train_grads *into,
                       struct train_grads *from);

/* The threads as workers for other work between two runs; with one thread: none. */
struct pd_workers train_threads_workers(struct train_threads *t);

/* merge: adds the evaluators of all threads to that of the caller. clear: resets all evaluators. */
int train_threads_merge_eval(struct train_threads *t, struct pd_err *err);
void train_threads_clear_eval(struct train_threads *t);
