/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - the training loop of a pass, and the evaluation of held-out data. */
#pragma once

#include "conf/options.h"
#include "train/best.h"
#include "train/params.h"
#include "train/report.h"
#include "train/input/streams.h"
#include "train/trainer_threads.h"

struct train_checkpoints;

struct train_input { /* a batch of input */
    struct nn_feed *feed;
    uint32_t *counts; /* [stream_hi - stream_lo] samples of each stream */
    uint32_t n;       /* samples; 0: end of the data */
    double fraction;  /* train_streams_fraction after the batch */
};

struct train_loop { /* borrowed; assembled by trainer.c */
    const struct pd_options *options;
    const struct nn_graph *graph;
    struct ps_client *client;
    struct train_params *params;
    struct train_input now, next; /* input of this step, of the next step */
    int overlap; /* push gradients during backward and prefetch the next batch's rows */
    struct train_threads *threads;
    struct pd_batch *batch;
    struct nn_eval *eval; /* evaluators of thread 0 */
    struct train_report *report;
    int partial_data; /* this node has only some data files; others are fetched when needed */
    uint32_t n_streams, stream_lo, stream_hi; /* streams of the job; range of this trainer */
    double clip_norm;                         /* from [optimizer]; 0: none */
    struct train_checkpoints *checkpoints;    /* saving and resuming */
    struct train_best best;
    int (*stop)(void *arg); /* 1 if this trainer was asked to stop; may be NULL */
    void *stop_arg;
    int asked; /* this trainer was asked to stop */
    /* The same on all trainers. leave: some trainer was asked to stop; cut: the pass ended before
     * its data. */
    int leave, cut;
    uint64_t skip; /* batches of the pass that an earlier process of this trainer has done */
    /* Batches, steps and sums of the pass from the earlier process. Some of these batches may be
     * repeated. */
    uint64_t before_batches, before_steps;
    double before_cost, before_samples;
    int only_end; /* the earlier process did all steps of the pass: only the end remains */
    /* Trainers (from a checkpoint: streams) with another batch, after the last step whose sums
     * came. */
    double others;
    uint64_t batches; /* of this pass, done by this trainer; after the pass: done by all */
};

/* Trains one pass over `streams`; returns when every trainer of the job has ended the pass. If a
 * trainer is asked to stop, all end the pass after the same step. */
int train_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
               struct pd_err *err);

/* Computes cost and evaluators over `streams` with the current parameters, summed over all
 * trainers. Changes no parameter. If a trainer is asked to stop, all return without a report. */
int train_evaluate(struct train_loop *l, struct train_streams *streams,
                   const struct train_tested *what, struct pd_err *err);
