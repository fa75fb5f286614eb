/* checkpoint.h - what a training job saves, and how it goes on from it.
 *
 *     save_dir/pass-00002                 pass 2 is done: goes on with pass 3
 *              pass-00003-batch-000400    400 batches of pass 3 are done
 *              pass-00003-stopped         what a stop that saves has left
 *
 * A checkpoint lies between two steps, the same for all: before a trainer ends the step, it notes
 * how far its streams are (ps_note); behind it trainer 0 starts the save, and training goes on
 * while the servers write. With the optimizer's state, the numbers of steps and updates and these
 * positions, a synchronous job goes on with the same bits as if it had never stopped.
 *
 * A stream's line: its position ("-": the beginning of the pass), then of what this trainer has
 * added up in the pass (by stream, or all of it at its first stream): the cost as a hexadecimal
 * float, and the samples; then the seconds that the pass has taken, and 1 when more of it is to be
 * trained. Older checkpoints do without the last two.
 */
#ifndef PD_TRAIN_CHECKPOINT_H
#define PD_TRAIN_CHECKPOINT_H

#include "train/step.h"

struct train_checkpoints;
/* `config`: text of train.ini, borrowed. may_copy 0: there is no second server for
 * checkpoint_copies. */
int train_checkpoints_new(struct train_checkpoints **out, const char *config, int may_copy,
                          struct pd_err *err);
void train_checkpoints_free(struct train_checkpoints *k);

/* --- going on --- */

/* Called by all trainers, after ps_start. Finds the checkpoint that the options ask for; `restarts`
 * > 0: the job was started again after a failure, and goes on from the furthest that is whole, if
 * there is one, else from where it began; what only `lost_nodes` (may be NULL) had is not. */
int train_resume(struct train_loop *l, uint64_t restarts, const char *lost_nodes,
                 struct pd_err *err);
int train_resumed(const struct train_loop *l);         /* it does go on from one */
uint64_t train_first_pass(const struct train_loop *l); /* to be trained */
/* At the beginning of a pass: rewinds the streams, or goes on where the checkpoint is. */
int train_begin_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], struct pd_err *err);

/* --- saving --- */

/* Before each ps_step_end: if a checkpoint comes behind this step. `unused`: 1 when the batch
 * behind the one that is trained has been read. */
int train_checkpoint_note(struct train_loop *l, const struct train_streams *streams,
                          double (*sums)[N_SUMS], int unused, struct pd_err *err);
/* May one come behind a step of others when this trainer's data has ended? Then it has to end those
 * steps too, without samples. */
int train_checkpoint_keeps_pace(const struct train_loop *l);
/* Before the first step of a pass: when the checkpoints of this pass need every trainer's positions
 * from its beginning on. BLOCKS then, until all trainers are here. */
int train_checkpoint_note_begin(struct train_loop *l, const struct train_streams *streams,
                                double (*sums)[N_SUMS], struct pd_err *err);
/* Before ps_pass_end. `unused`: so many batches (at most 2) were read, but not trained. */
int train_checkpoint_note_end(struct train_loop *l, const struct train_streams *streams,
                              double (*sums)[N_SUMS], int unused, struct pd_err *err);
/* After each step: starts the save that is due, and looks after the one under way. */
int train_checkpoint_step(struct train_loop *l, uint64_t pass, struct pd_err *err);
/* --- an online job's: online.c --- */

struct train_saved {
    const char *name, *data; /* in save_dir; the folder of data that it has come to */
    uint64_t pass;           /* that it was saved behind */
};
struct train_online_saves {
    int (*saved)(void *arg, const struct train_saved *s,
                 struct pd_err *err); /* at trainer 0, when a model is complete */
    void *arg;
    uint64_t keep; /* the saved models of so many passes, older ones are removed; 0: all */
};
enum { TRAIN_DATA_MAX = 128 };
void train_checkpoints_online(struct train_loop *l, const struct train_online_saves *online);
/* What is trained from here on, and whether the next save is of all rows or of changes. */
void train_checkpoints_data(struct train_loop *l, const char *data, int base);
const char *train_resumed_data(const struct train_loop *l); /* of what it goes on from; "" */
int train_resumed_inside(const struct train_loop *l);       /* of a pass */

/* Called by all trainers between passes, l->batches being those of the pass. last: nothing is
 * trained after it. */
int train_save_pass(struct train_loop *l, uint64_t pass, int last, struct pd_err *err);
int train_save_initial(struct train_loop *l, struct pd_err *err);
int train_checkpoint_poll(struct train_loop *l,
                          struct pd_err *err); /* looks after the one under way; never blocks */
/* Until what is under way is complete. */
int train_checkpoint_finish(struct train_loop *l, struct pd_err *err);

#endif
