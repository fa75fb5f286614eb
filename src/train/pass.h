/* pass.h - the training loop of a pass, and the evaluation of held-out data. */
#ifndef PD_TRAIN_PASS_H
#define PD_TRAIN_PASS_H

#include "conf/options.h"
#include "nn/evals/eval.h"
#include "train/params.h"
#include "train/report.h"
#include "train/streams.h"
#include "train/trainer_threads.h"

struct train_checkpoints;

struct train_input { /* a batch that was read */
    struct nn_feed *feed;
    uint32_t *counts; /* [stream_hi - stream_lo] samples of each stream */
    uint32_t n;       /* samples; 0: the data has ended */
    double fraction;  /* train_streams_fraction behind it */
};

struct train_loop { /* borrowed; assembled by trainer.c */
    const struct pd_options *options;
    const struct nn_graph *graph;
    struct ps_client *client;
    struct train_params *params;
    struct train_input now, next; /* of this step, and of the one behind it */
    int overlap; /* gradients leave during backward, and the next batch's rows are asked for before
                    it */
    struct train_threads *team;
    struct pd_batch *batch;
    struct nn_eval *eval; /* of the team */
    struct train_report *report;
    int files_apart; /* this node has only some of the job's data files, the others are fetched when
                        they are read */
    uint32_t n_streams, stream_lo, stream_hi; /* of the job; this trainer's */
    double clip_norm;                         /* of [optimizer]; 0: none */
    struct train_checkpoints *checkpoints;    /* what is saved, and gone on from */
    int (*stop)(void *arg);                   /* was this trainer asked to stop? may be NULL */
    void *stop_arg;
    int asked; /* it was */
    /* The same on all trainers: somebody was asked (leave), and the pass ended before its data did
     * (cut). */
    int leave, cut;
    uint64_t skip; /* batches of the pass that this trainer has done in an earlier process */
    /* Of the pass, in its earlier process: this many batches (perhaps some of those that are done
     * again), and what they came to. */
    uint64_t before_batches, before_steps;
    double before_cost, before_samples;
    int only_end;     /* and so the whole pass: what follows its last step is still to be done */
    double others;    /* trainers (of a checkpoint, streams) that had another batch behind the last
                         step whose sums have come */
    uint64_t batches; /* of this pass: done by this trainer; when the pass is over, by all */
};

/* One pass over `streams`; returns when every trainer of the job has ended it. When one is asked to
 * stop, all end it after the same step. */
int train_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
               struct pd_err *err);

/* Cost and evaluators over `streams` with the parameters as they are now; sums over all trainers;
 * changes nothing. When a trainer is asked to stop, all leave it without a report. */
int train_evaluate(struct train_loop *l, struct train_streams *streams, const char *when,
                   struct pd_err *err);

#endif
