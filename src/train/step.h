/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - one step of a trainer: forward and backward over its samples, and its contribution to
 * the sum of all trainers.
 *
 * reproducible = run: all samples of the trainer are one batch and one contribution. This is
 * fastest, but the sums then associate by trainers, and matrix products of other shapes may round
 * differently.
 *
 * reproducible = topology: each stream's share is a batch of its own, with the same shape in any
 * trainer. Gradients are added in the tree over stream ids (ps/plan/sum_tree.h): in the trainer for
 * the nodes of the tree that its streams fill, then at the servers. Example with 12 streams, of
 * which this trainer has [4, 8):
 *
 *     [4,6) = 4 + 5, [6,7), [7,8)      one contribution for each of these largest nodes
 *
 * Only one set of gradients per level of the tree is in use at a time, not one per stream.
 *
 * With l->overlap backward pushes each parameter's gradient as soon as it is complete, last layers
 * first. This requires that nothing is added to it afterwards: reproducible = run, one thread, and
 * no clip_norm, which needs all gradients.
 */
#pragma once

#include "train/pass.h"

/* Number of parts into which a trainer's samples are divided. A part is a batch of the network: all
 * samples, or those of one stream. */
uint32_t train_n_parts(const struct train_loop *l);
/* Number of samples in part k of the batch in l->now, which has n samples. */
uint32_t train_part(const struct train_loop *l, uint32_t k, uint32_t n);

/* The numbers that travel with a step: its cost, 1 if this trainer was asked to stop, 1 if it has
 * another batch. */
enum { STEP_COST, STEP_ASKED, STEP_MORE, N_STEP_STATS };

/* Sums over a pass, by part. The last two belong to the trainer and are in part 0. */
enum { SUM_COST, SUM_SAMPLES, SUM_LEFT_EARLY, SUM_ASKED, N_SUMS };

/* Computes the step of the n samples in l->now, whose rows and values are here; pushes and ends it.
 * `asked` travels with the cost. */
int train_step(struct train_loop *l, const struct train_streams *streams, uint64_t pass, uint32_t n,
               int asked, double (*sums)[N_SUMS], struct pd_err *err);

/* sum[0..k): sums of the numbers v[part * k + 0..k) over all parts of all trainers, added in the
 * same order as the gradients. */
int train_sum(struct train_loop *l, const double *v, size_t k, double *sum, struct pd_err *err);

static inline int train_client_error(const struct train_loop *l, int rc, struct pd_err *err) {
    return rc ? pd_err_copy(err, ps_client_err(l->client)) : 0;
}
