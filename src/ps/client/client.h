/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - how a trainer, of this project or of another program, uses the parameter servers of
 * its job.
 *
 *     ps_client_new, ps_declare_dense/_table ..., ps_start
 *     trainer 0: ps_load if it continues; then every trainer: ps_barrier
 *     each pass:
 *         each batch:  ps_pull_dense/_rows ..., ps_wait      parameters down
 *                      ps_push_dense/_rows ..., ps_step_end  gradients up
 *         ps_pass_end
 *     ps_bye, ps_client_free
 *
 * Synchronous mode: step s is applied once every trainer that is still in the pass has ended it.
 * The gradient is the sum over all samples of the step, reduced in a fixed tree over stream ids,
 * divided by the number of samples. A pull answers with the state after the last step that THIS
 * trainer has ended.
 *
 * Other rules (opts.update, src/ps/plan/update_rule.h): no step waits for all trainers. A pull
 * answers with the current values of the servers. These include this trainer's own steps; under
 * geo, its exchanges. ps_pass_end is a barrier under every rule.
 *
 * Requests are sent at once and pipelined; only the functions marked BLOCKS wait. A client belongs
 * to one thread: its event loop runs inside these calls and nowhere else.
 *
 * Errors: every function returns 0 (or the value in its comment) or PD_E*. The first error is kept:
 * every later call returns its code, and ps_client_err has the message. If a trainer or server
 * dies, every wait of the others ends with PD_EFAIL and a message that names the dead process and
 * the step; there is no silent hang. Exception: the servers may be configured to wait for a lost
 * trainer or to continue without it (src/ps/shard/shard.h, enum ps_lost).
 *
 * With local = 1 the same code runs on one shard inside this process, without sockets and with the
 * same results. */
#pragma once

#include "ps/plan/types.h"
#include "thread/workers.h"

struct ps_optim_conf; /* src/ps/plan/optim_conf.h */

struct ps_optimizer {
    const char *name; /* "sgd", "adagrad", "adam", ...; the table is in src/ps/plan/optim.c */
    double learning_rate;
    double eps;           /* epsilon; 0: the optimizer's default */
    const char *settings; /* further settings, "momentum=0.8 learning_rate_schedule=poly ..."
                             (src/ps/plan/optim_conf.c); may be NULL */
    const struct ps_optim_conf
        *conf; /* or all settings at once; the fields above are then not used */
};

/* A call that BLOCKS waits for servers. */
struct ps_waiting {
    uint64_t ms;         /* how long it has waited */
    const char *servers; /* "pserver 1 on 10.0.0.3": those that owe an answer; "": all of them */
};

struct ps_client_opts {
    int local; /* 1: no servers; pservers, job and key are not used */
    const char
        *pservers; /* "10.0.0.1:7164,10.0.0.2:7164": numeric address and first port of each server,
                      in server order; the greeting of that port lists the server's other ports */
    uint32_t trainer_id, n_trainers;
    uint32_t n_streams; /* streams of the whole job, at least n_trainers; 0: n_trainers */
    uint32_t stream_lo, stream_hi; /* this trainer owns streams [lo, hi); not used if n_streams is
                                      0: it then owns the stream trainer_id */
    uint64_t seed;                 /* initial values are a function of (seed, name, index) */
    struct ps_optimizer optimizer;
    const char *update; /* "sync" (NULL), "async", "ssp", "geo": src/ps/plan/update_rule.c */
    uint32_t staleness; /* ssp: steps that a trainer may be ahead of the slowest trainer */
    uint32_t geo_sgd_need_push_nums;        /* geo: steps between exchanges; 0: 100 */
    double async_lagged_grad_discard_ratio; /* async: src/ps/plan/update_rule.h; 0: nothing is
                                               dropped */
    int stop_on_nan; /* 1: a gradient that is not finite ends the job with the parameter's name */
    int reject_nan;  /* 1: such a gradient is refused and its trainer is lost (on_trainer_lost);
                        takes precedence over stop_on_nan */
    const char *job; /* job id; "" if no launcher gave one */
    const uint8_t *key;          /* 32 bytes; NULL: all zero */
    int plain;                   /* encrypt = off; also at all servers */
    uint64_t connect_timeout_ms; /* time to wait for servers that are not up yet; 0: 60 s */
    uint64_t reconnect_ms; /* time to reconnect to a lost server, after which the job continues
                              where it was; 0: 10 s */
    uint64_t heartbeat_ms; /* a server without heartbeats (ps/client/client_beat.h) for this time is
                              lost; at least 2 s; 0: no heartbeats are sent */
    struct pd_workers crew; /* local: threads that help to update large dense parameters; the
                               results have the same bits without them; may have none */
    const char *output_dir; /* local: path of the folder "output"; NULL: paths are used as given */
    const struct pd_log *log; /* may be NULL */
    /* Called once a second while a call BLOCKS, from inside that call; may be NULL. It must not
     * call the client. */
    void (*on_wait)(void *arg, const struct ps_waiting *w);
    void *on_wait_arg;
};

/* Writes the id by which the processes of a launched job recognise it: PADDLE_JOB_ID and, after a
 * restart, the number of the restart. So a process of an earlier attempt, on a node that was cut
 * off, is refused. Without that variable the id is "". Returns 0 or PD_ECONF. */
enum { PS_JOB_MAX = 64 };
int ps_job_of_environ(char out[PS_JOB_MAX], struct pd_err *err);

struct ps_client;
/* Copies the strings and the key of opts; output_dir, log and crew must outlive the client. */
int ps_client_new(struct ps_client **out, const struct ps_client_opts *opts, struct pd_err *err);
/* Without ps_bye before, the other trainers see this trainer as gone. */
void ps_client_free(struct ps_client *c);
const struct pd_err *ps_client_err(const struct ps_client *c);

/* --- declaration: before ps_start, alike in every trainer --- */

/* Returns an id >= 0, counted from 0, or PD_E*. */
int ps_declare_dense(struct ps_client *c, const struct ps_dense_spec *spec);
/* The same; table ids are counted separately. */
int ps_declare_table(struct ps_client *c, const struct ps_table_spec *spec);

/* BLOCKS. Connects to all servers, trying until the timeout (the message names a missing server),
 * and declares. The first trainer's declaration counts; a later declaration that differs is refused
 * with the parameter's name and both values. */
int ps_start(struct ps_client *c);

/* A lost trainer that is started again takes its old place if the servers wait for it
 * (on_trainer_lost = wait). Returns 1 if this trainer does so, else 0.
 *
 * The program then runs from the end of pass `*pass` - 1 on, or from the beginning if *pass is 0.
 * It leaves out:
 * - the first *batches batches of this pass
 * - loads and saves that come before a repeated reduction: the next ps_repeated() calls of
 *   ps_reduce (ps_barrier) were already done by the lost process and give the same results
 *
 * If the process was lost between its messages of one step to several server threads, only some of
 * these threads have ended the step. The new process sends the step to the other threads. Its
 * values may then be from before this step on some threads and from after it on others. */
int ps_resumed(const struct ps_client *c, uint64_t *pass, uint64_t *batches);
/* The contributions of this trainer's earlier processes to pass `pass`, which is the pass of
 * ps_resumed or the pass before it. Returns 1, or 0: unknown, or this trainer has no earlier
 * process. */
struct ps_before {
    uint64_t batches; /* number of batches of the pass in `sums`; UINT64_MAX: all. Batches beyond
                         ps_resumed's are trained again. */
    uint64_t ms;      /* duration of the pass so far, from the end of its first step; of the earlier
                         pass: until its end; 0: not known */
    struct ps_pass_sums sums;
};
int ps_resumed_sums(const struct ps_client *c, uint64_t pass, struct ps_before *out);
/* After ps_resumed: 1 if the lost process had ended a step at some threads only. */
int ps_resumed_torn(const struct ps_client *c);
uint32_t ps_repeated(const struct ps_client *c);

/* --- a step --- */

/* Copies the whole parameter to out[0..n), complete after ps_wait. `n` must be its number of
 * values. */
int ps_pull_dense(struct ps_client *c, int id, float *out, size_t n);
/* The values of a parameter of a local client, without a copy. They are valid until the next
 * ps_step_end or ps_load. NULL: not local. */
const float *ps_local_dense(const struct ps_client *c, int id, size_t n);

/* Copies the rows of n sorted, unique keys to out[i * dim], complete after ps_wait. PS_CREATE
 * creates missing rows; PS_NO_CREATE reads their initial values and does not create them. `keys` is
 * copied. */
enum ps_pull_mode { PS_NO_CREATE = 0, PS_CREATE = 1 };
int ps_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                 enum ps_pull_mode mode);

/* Prefetch for the next step: requests rows, created if missing, with their values after the
 * current step (rules without a barrier: not older than the current step). The keys are sent and
 * looked up while the current step computes. Called between the ps_wait and the ps_step_end of the
 * current step; complete after the following ps_wait. Before the push of these rows, no pass may
 * end and no model may be loaded. */
int ps_pull_rows_next(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out);
/* Sends queued requests now, including the end of a step, which is otherwise sent with the next
 * pull or wait. Handles answers that have arrived. Never blocks. */
int ps_flush(struct ps_client *c);

/* BLOCKS until all pulls are complete and all pushed buffers may be reused. */
int ps_wait(struct ps_client *c);

/* Divides a step into several contributions. Until the next ps_part or ps_step_end, pushes belong
 * to the streams [lo, hi), which must be this trainer's. ps_step_end ends the step for all
 * contributions. Contributions of a step must not overlap.
 *
 * If each contribution is the sum in the tree (src/ps/plan/sum_tree.h) over a whole node, the
 * result has the same bits whichever trainers own the streams.
 *
 * `stats` are the numbers of these streams that ps_step_end takes otherwise; ps_step_end then gets
 * none. Every part must have the same n_stats. Not available under geo, where the optimizer runs in
 * the trainers. */
int ps_part(struct ps_client *c, uint32_t lo, uint32_t hi, const double *stats, size_t n_stats);

/* Pushes the gradient SUM over this trainer's samples of the step. At most once per parameter and
 * contribution; a parameter that no trainer pushes in a step is not changed by it. `grad` must not
 * change until the next ps_wait. */
int ps_push_dense(struct ps_client *c, int id, const float *grad, size_t n);
/* Returns n floats, not initialised, that servers on this machine read in place: gradients pushed
 * from this memory are not copied. Such a gradient must not change until values from after its step
 * have been pulled, even if all servers are on other machines. The client owns the memory. Call
 * after ps_start. NULL: not available, or no more. */
float *ps_lend(struct ps_client *c, size_t n);
/* Pushes the gradient sums of the rows of sorted, unique keys. If the keys are those of one of the
 * last two PS_CREATE pulls of the table, they are not sent again. */
int ps_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, const float *grad);
/* ps_push_rows for a table whose rows come and go. Key i was shown seen[2 * i] times in this
 * trainer's samples of the step, seen[2 * i + 1] times with a click (not more). Like `grad`, `seen`
 * must not change until the next ps_wait. ps_push_rows counts one show and no click per key. */
int ps_push_seen_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                      const float *grad, const uint32_t *seen);

/* Ends this trainer's contribution to the step. n_samples may be 0: the trainer then only keeps the
 * barrier. `stats`: numbers such as the cost, which are summed over the trainers of the step in
 * stream order; may be NULL if n_stats is 0. */
int ps_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats);

/* Collects the sums of the oldest step that is applied and not collected yet. Returns 1 and sets
 * *step, *n_samples and out; 0: none has arrived; or PD_E*. Never blocks. Steps that were ended
 * without stats do not appear. At most 1024 sums are kept; then the oldest are dropped. */
int ps_step_stats(struct ps_client *c, uint64_t *step, uint64_t *n_samples,
                  double out[PS_STATS_MAX]);
/* BLOCKS until the sums of every step that was ended with stats have arrived. */
int ps_wait_stats(struct ps_client *c);
/* Steps whose sums have not arrived or were not collected. */
size_t ps_stats_pending(const struct ps_client *c);

uint64_t ps_step(const struct ps_client *c); /* number of the next step; the first is 0 */

/* --- files that are handed out: data = queue, under the rules without a barrier --- */

/* BLOCKS. Gets the next of the n files of the pass (n at most PS_TASKS_MAX, the same for all
 * trainers). Returns 1 and sets *file in [0, n); 0: all files have been read, and the pass is over;
 * or PD_E*.
 *
 * done: 1 if all samples of this trainer's last file are in steps that it has ended; 0 only in the
 * first call of a pass. If a trainer is lost or calls ps_pass_end before it has reported its file
 * as done, the file is given to another trainer, which reads all of it. So each file is read at
 * least once, and exactly once if no trainer is lost.
 *
 * own_first: 1 if file i is on the node of trainer i mod the number of trainers and is preferably
 * read there; *next is then the probable next file (n: unknown). 0: files come in order. */
int ps_next_task(struct ps_client *c, uint64_t n, int done, int own_first, uint64_t *file,
                 uint64_t *next);

/* --- between steps --- */

/* BLOCKS. Called when this trainer's streams have no more data in this pass: the trainer leaves the
 * barrier, and the others continue without it. Returns when all trainers have called it. Then all
 * are in the barrier again, and ps_step is the same for all. */
int ps_pass_end(struct ps_client *c);
/* In the pass that ps_pass_end has ended: the contributions of all trainers to all server threads
 * (a step to a thread counts as one), and how many of them were dropped because their values were
 * too old (async_lagged_grad_discard_ratio). */
struct ps_dropped {
    uint64_t given, dropped;
};
const struct ps_dropped *ps_pass_dropped(const struct ps_client *c);
/* The rows of a table, in all server threads, when that pass ended; returns the table's name. NULL:
 * there is no such table, or not all threads have told. */
const char *ps_pass_rows(const struct ps_client *c, uint32_t table, uint64_t *rows);
/* The most resident memory of a server process until that pass ended; 0 bytes: it has not told. -1:
 * there is no such server. */
int ps_pass_memory(const struct ps_client *c, uint32_t server, uint64_t *bytes);

/* BLOCKS. Sets v[i] to the sum over ALL trainers, in stream order. Every trainer must call it
 * equally often. Do not call it between the steps of a pass, where trainers have different numbers
 * of steps: use ps_step_end's stats there. */
int ps_reduce(struct ps_client *c, double *v, size_t n);
int ps_barrier(struct ps_client *c); /* ps_reduce of 0 numbers */
/* BLOCKS. Ends a day of the data. Called between passes by one trainer while the others wait in
 * ps_barrier. In tables whose rows age, counts decay, all rows grow a day older, and rows below the
 * limits are removed (ps/table/row_policy.h). */
struct ps_day {
    uint64_t removed, rows, candidates; /* removed rows and remaining rows of all such tables; ids
                                           that wait for a row */
};
int ps_day_end(struct ps_client *c, struct ps_day *out);

/* The position at which a training resumes from a checkpoint: in this pass, after this number of
 * its batches (0: at its beginning). */
struct ps_progress {
    uint64_t pass, batch;
};

struct ps_save_opts {
    const char *dir, *name; /* dir/name becomes the model's folder (src/model/model.h), relative to
                               each server's working directory; the folder is complete or absent */
    uint64_t pass;
    const char *config; /* text of train.ini, stored in the manifest */
    enum ps_chain chain;
    uint32_t copies; /* 2: each part is also stored on another server's disk; 0: 1 */
    int create_rows; /* 1: first create all rows of tables with a known n_rows */
    const struct ps_progress *resume; /* not NULL: a checkpoint, with the optimizer's state and, if
                                         batch > 0, all trainers' notes */
    const char *unsaid; /* note for a stream without a note; NULL: such a save fails and the message
                           names the stream */
    const char *data;   /* the data trained last, for a job that resumes; may be NULL */
    const struct model_best *best; /* stored in the manifest; may be NULL */
};
/* BLOCKS. One trainer (trainer 0) calls this while no step is under way on the servers: after
 * ps_start, ps_pass_end or ps_barrier, or when all pulls of the last step are answered. */
int ps_save(struct ps_client *c, const struct ps_save_opts *opts);
/* ps_save without waiting. The model is saved as it is between the last step that this trainer has
 * ended and the next step (rules without a barrier: when the request arrives). Training continues
 * while the servers write. One save at a time. */
int ps_save_start(struct ps_client *c, const struct ps_save_opts *opts); /* copies opts */
int ps_save_busy(struct ps_client *c); /* never blocks; 1: under way, 0: done or none, or PD_E* */
int ps_save_wait(struct ps_client *c); /* BLOCKS until the save is done */
struct ps_saved {
    uint64_t step, bytes; /* bytes of all files, links included */
    int changes;          /* 1: a delta save, with some rows in files of earlier saves */
    uint8_t hash[16];     /* XXH3-128 of manifest.json in canonical form */
};
/* Zeros before the first save is done. */
const struct ps_saved *ps_last_saved(const struct ps_client *c);

/* Sends this trainer's note for checkpoints: one line for each of its streams, at most
 * PS_NOTE_MAX - 1 bytes and a newline, valid after `after` steps (ps_step; before ps_step_end:
 * ps_step + 1). A checkpoint holds the last note that is not newer than the checkpoint. */
int ps_note(struct ps_client *c, uint64_t after, const char *text, size_t n);

/* BLOCKS. One trainer calls this after ps_start, then all call ps_barrier. Every server must see
 * the complete folder. `missing`: how declared parameters that the model lacks are treated (rand:
 * their initial values; zero: a table's rows start at zero). Rows that a table of the model lacks
 * get their initial values. */
int ps_load(struct ps_client *c, const char *folder, enum ps_missing missing);

/* BLOCKS. Loads a checkpoint: parameters, the optimizer's state, and the numbers of steps, updates
 * and passes. One trainer calls ps_resume after all have called ps_start and ps_barrier. It sends
 * *step and *pass to the other trainers, and then all, itself included, call ps_continue with them.
 */
int ps_resume(struct ps_client *c, const char *folder, enum ps_missing missing, uint64_t *step,
              uint64_t *pass);
int ps_continue(struct ps_client *c, uint64_t step, uint64_t pass);

/* --- checkpoints on the servers' disks; all BLOCK --- */

struct ps_checkpoint {
    char name[256];
    uint64_t step, pass, batch; /* where training resumes: struct ps_progress */
    int state;    /* 1: with the optimizer's state, so training can resume from it; 0: a model */
    int complete; /* 1: every part is on some server, with the right size */
    int torn;     /* 1: some server does not have it at all */
};
struct ps_models; /* a list, the most advanced checkpoint first; equal on all trainers while none
                     saves or removes */
struct model_resume;

/* Lists the checkpoints in `dir` whose names begin with "pass-", or only `name` if it is not NULL.
 * The caller frees *out. */
int ps_models(struct ps_client *c, const char *dir, const char *name, struct ps_models **out);
void ps_models_free(struct ps_models *m);
size_t ps_models_n(const struct ps_models *m);
const struct ps_checkpoint *ps_models_at(const struct ps_models *m, size_t i);

/* One trainer calls this before ps_resume. Checks all parts of model number i and copies to every
 * server the parts that it needs and lacks; copies = 2: each part is on two servers then. *why
 * names a missing or damaged part (code 0: none); the client does not fail by it. */
int ps_models_fetch(struct ps_client *c, struct ps_models *m, size_t i, const char *dir,
                    uint32_t copies, struct pd_err *why);
/* Reads the position to resume from, and the best pass, in the manifest. Free *out with
 * model_resume_release. */
int ps_models_resume(struct ps_client *c, const struct ps_models *m, size_t i, const char *dir,
                     struct model_resume *out, struct model_best *best);
/* Removes a checkpoint from every server that has it. `name` must begin with "pass-". */
int ps_models_remove(struct ps_client *c, const char *dir, const char *name);

/* BLOCKS until the servers have confirmed it. Leaves the job for good; a server ends when all
 * trainers have left. */
int ps_bye(struct ps_client *c);

/* Call when this trainer cannot continue (bad data, not a number, ...). The servers get the reason
 * and send it to the other trainers. Then free the client. */
void ps_abandon(struct ps_client *c, const struct pd_err *why);

struct ps_client_stats {
    uint64_t sent_bytes, received_bytes, messages, wait_ns;
    uint64_t reconnects,
        sent_again; /* lost connections that came back; messages that were sent again */
};
void ps_client_stats(const struct ps_client *c, struct ps_client_stats *out);
