/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - what a training job saves, and how it resumes.
 *
 *     save_dir/pass-00002                 the third pass is done: resume with the fourth
 *              pass-00003-batch-000400    400 batches of the fourth pass are done
 *              pass-00003-stopped         saved by a stop
 *
 * A checkpoint lies between two steps, the same for all trainers. Before a trainer ends the step,
 * it sends a note with the positions of its streams (ps_note). After the step trainer 0 starts the
 * save, and training continues while the servers write. A checkpoint holds the optimizer's state,
 * the numbers of steps and updates, and the positions. Therefore a resumed synchronous job computes
 * the same bits as a job that never stopped.
 *
 * The note has one line per stream: position ("-": the beginning of the pass), cost, samples,
 * seconds, more. Cost (a hexadecimal float) and samples are the sums of this trainer in the pass,
 * by stream or all at its first stream. Seconds is the time that the pass has taken. more is 1 if
 * the stream has samples left to train. Older checkpoints lack seconds and more.
 */
#pragma once

#include "train/step.h"

struct train_checkpoints;
/* `config`: text of train.ini, borrowed. may_copy = 0: no second server exists for
 * checkpoint_copies. */
int train_checkpoints_new(struct train_checkpoints **out, const char *config, int may_copy,
                          struct pd_err *err);
void train_checkpoints_free(struct train_checkpoints *k);

/* --- resuming --- */

/* Called by all trainers, after ps_start. Finds the checkpoint that the options name. restarts > 0:
 * the job was restarted after a failure; it resumes from the newest whole checkpoint, or from where
 * it first began if there is none. Checkpoints with parts that only `lost_nodes` (may be NULL) held
 * are not whole. */
int train_resume(struct train_loop *l, uint64_t restarts, const char *lost_nodes,
                 struct pd_err *err);
int train_resumed(const struct train_loop *l);         /* 1 if the job resumes from a checkpoint */
uint64_t train_first_pass(const struct train_loop *l); /* first pass to train */
/* Begins a pass: rewinds the streams, or moves them to the checkpoint's positions. */
int train_begin_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], struct pd_err *err);

/* --- saving --- */

/* Called before each ps_step_end: sends the note if a checkpoint follows this step. `unused`: 1 if
 * the batch behind the trained one was already read. */
int train_checkpoint_note(struct train_loop *l, const struct train_streams *streams,
                          double (*sums)[N_SUMS], int unused, struct pd_err *err);
/* 1 if a checkpoint may follow a step of other trainers after this trainer's data has ended. This
 * trainer must then end those steps too, without samples. */
int train_checkpoint_keeps_pace(const struct train_loop *l);
/* Called before the first step of a pass. Sends a note if the checkpoints of this pass need every
 * trainer's positions from its beginning on; then BLOCKS until all trainers are here. */
int train_checkpoint_note_begin(struct train_loop *l, const struct train_streams *streams,
                                double (*sums)[N_SUMS], struct pd_err *err);
/* Called before ps_pass_end. `unused`: number of batches (at most 2) that were read but not
 * trained. */
int train_checkpoint_note_end(struct train_loop *l, const struct train_streams *streams,
                              double (*sums)[N_SUMS], int unused, struct pd_err *err);
/* Called after each step: starts a save that is due and polls the running save. */
int train_checkpoint_step(struct train_loop *l, uint64_t pass, struct pd_err *err);

/* --- online jobs: online.c --- */

struct train_saved {
    const char *name, *data; /* name in save_dir; the last folder of data that was trained */
    uint64_t pass;           /* saved after this pass */
};
struct train_online_saves {
    /* Called at trainer 0 when a model is complete. */
    int (*saved)(void *arg, const struct train_saved *s, struct pd_err *err);
    void *arg;
    uint64_t keep; /* models of this many passes are kept, older ones removed; 0: keep all */
};
enum { TRAIN_DATA_MAX = 128 };
void train_checkpoints_online(struct train_loop *l, const struct train_online_saves *online);
/* Sets the folder that is trained from here on, and whether the next save holds all rows (base) or
 * changed rows only. */
void train_checkpoints_data(struct train_loop *l, const char *data, int base);
const char *train_resumed_data(const struct train_loop *l); /* the checkpoint's folder; or "" */
int train_resumed_inside(const struct train_loop *l); /* 1 if the checkpoint is inside a pass */

/* Called by all trainers between passes; l->batches are the batches of the pass. last: no training
 * follows. */
int train_save_pass(struct train_loop *l, uint64_t pass, int last, struct pd_err *err);
int train_save_initial(struct train_loop *l, struct pd_err *err);
/* Handles the end of a running save; never blocks. */
int train_checkpoint_poll(struct train_loop *l, struct pd_err *err);
/* BLOCKS until the running save is complete. */
int train_checkpoint_finish(struct train_loop *l, struct pd_err *err);
