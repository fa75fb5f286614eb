/* step.h - one step of a trainer: forward and backward over its samples, and what it gives to the
 * sum of all.
 *
 * reproducible = run: all its samples are one batch and one contribution. That is fastest; but the
 * sums then associate by trainers, and products of other shapes may round otherwise.
 *
 * reproducible = topology: each stream's share is a batch by itself, of the same shape whoever
 * computes it. The gradients are added in the tree over stream ids (ps/plan/sum_tree.h) as far as
 * the trainer's streams are nodes of it; the servers go on in the same tree:
 *
 *     12 streams, this trainer has [4, 8)      [4,6) = 4 + 5     one contribution for each of its
 * largest nodes [6,7), [7,8)
 *
 * With l->overlap a parameter's gradient leaves as soon as backward has made it, last layers first,
 * where nothing is added to it afterwards: under run, with one thread, and without clip_norm, which
 * needs all of them.
 *
 * Only one set of gradients a level of the tree is in use at a time, not one for each stream.
 */
#ifndef PD_TRAIN_STEP_H
#define PD_TRAIN_STEP_H

#include "train/pass.h"

/* The parts that a trainer's samples are computed in, each a batch of the network: one, or one a
 * stream. */
uint32_t train_n_parts(const struct train_loop *l);
/* Samples of part k of the batch in l->now, of n in all. */
uint32_t train_part(const struct train_loop *l, uint32_t k, uint32_t n);

/* The numbers that travel with a step: its cost, whether this trainer was asked to stop, whether it
 * has another batch. */
enum { STEP_COST, STEP_ASKED, STEP_MORE, N_STEP_STATS };

/* What is added up over a pass, by part. The last two are of the trainer: they stand in part 0. */
enum { SUM_COST, SUM_SAMPLES, SUM_LEFT_EARLY, SUM_ASKED, N_SUMS };

/* The step of the n samples in l->now, whose rows and values are here: push and end it. `asked`
 * travels with the cost. */
int train_step(struct train_loop *l, const struct train_streams *streams, uint64_t pass, uint32_t n,
               int asked, double (*sums)[N_SUMS], struct pd_err *err);

/* sum[0..k): of the numbers v[part * k + 0..k) of all parts of all trainers, added in the same
 * order as the gradients. */
int train_sum(struct train_loop *l, const double *v, size_t k, double *sum, struct pd_err *err);

static inline int train_client_error(const struct train_loop *l, int rc, struct pd_err *err) {
    return rc ? pd_fail(err, rc, "%s", ps_client_err(l->client)->msg) : 0;
}

#endif
