/* client.h - how a trainer, ours or anybody's, talks to the parameter servers of its job.
 *
 *     ps_client_new, ps_declare_dense/_table ..., ps_start
 *     trainer 0: ps_load if it continues; then everybody: ps_barrier
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
 * Requests leave at once and are pipelined; only the functions marked BLOCKS wait. A client belongs
 * to one thread: its event loop runs inside these calls and nowhere else. Every function returns 0
 * (or what it says) or PD_E*. The first error is kept: every later call returns its code, and
 * ps_client_err has the message. A trainer or server that dies makes every wait of the others end
 * with PD_EFAIL, naming it and the step (unless the servers were told to wait for it, or to go on
 * without it: src/ps/shard/shard.h, enum ps_lost); there is no silent hang.
 *
 * Under the other rules (opts.update, src/ps/plan/update_rule.h) nobody waits for a step of all: a
 * pull answers with what the servers have, which holds this trainer's own steps (geo: the exchanges
 * among them); ps_pass_end is a barrier under all of them.
 *
 * With local = 1 the same code runs on one shard inside this process, without sockets and with the
 * same results.
 */
#ifndef PD_PS_CLIENT_H
#define PD_PS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "ps/plan/types.h"
#include "thread/workers.h"

struct ps_optim_conf; /* src/ps/plan/optim_conf.h */

struct ps_optimizer {
    const char *name; /* "sgd", "adagrad", "adam", ...: src/ps/plan/optim.c has the table */
    double learning_rate;
    double eps;           /* 0: the optimizer's own */
    const char *settings; /* more of them, "momentum=0.8 learning_rate_schedule=poly ..."
                             (src/ps/plan/optim_conf.c); may be NULL */
    const struct ps_optim_conf *conf; /* or all of it at once, in place of the above */
};

struct ps_client_opts {
    int local;            /* 1: no servers; pservers, job and key are not used */
    const char *pservers; /* "10.0.0.1:7164,10.0.0.2:7164": first port of each, in server order,
                           * numeric; the greeting of that port tells the server's other ports */
    uint32_t trainer_id, n_trainers;
    uint32_t n_streams; /* of the whole job, at least n_trainers; 0: n_trainers */
    uint32_t stream_lo,
        stream_hi; /* this trainer owns streams [lo, hi); both 0 without n_streams: its own id */
    uint64_t seed; /* initial values are a function of (seed, name, index) */
    struct ps_optimizer optimizer;
    const char *update; /* "sync" (NULL), "async", "ssp", "geo": src/ps/plan/update_rule.c */
    uint32_t staleness; /* ssp: steps that a trainer may be ahead of the slowest */
    uint32_t geo_sgd_need_push_nums;        /* geo: steps between exchanges; 0: 100 */
    double async_lagged_grad_discard_ratio; /* async: src/ps/plan/update_rule.h; 0: nothing is
                                               dropped */
    int stop_on_nan; /* 1: a gradient that is not finite ends the job with the parameter's name */
    int reject_nan;  /* 1: it is refused, and its trainer is lost (on_trainer_lost); goes before
                        stop_on_nan */
    const char *job; /* job id, "" by hand */
    const uint8_t *key;          /* 32 bytes; NULL: all zero */
    uint64_t connect_timeout_ms; /* how long servers that are not up yet are tried; 0: 60 s */
    uint64_t reconnect_ms;  /* how long one that was lost is tried, so that the job goes on where it
                               was; 0: 10 s */
    uint64_t heartbeat_ms;  /* a server whose heartbeats (ps/client/client_beat.h) stop for so long
                               is gone; at least 2 s; 0: none are sent */
    struct pd_workers crew; /* local: threads that help to update large dense parameters, which
                            changes no bit; may have none */
    const char *output_dir; /* local: where the folder "output" really is; NULL: as it says */
    const struct pd_log *log; /* may be NULL */
};

/* The id by which the launcher's processes know their job: PADDLE_JOB_ID and, after a restart, the
 * number of the restart. So a process of an earlier attempt, on a node that was cut off, is
 * refused. "" without that variable. */
enum { PS_JOB_MAX = 64 };
int ps_job_of_environ(char out[PS_JOB_MAX], struct pd_err *err);

struct ps_client;
int ps_client_new(struct ps_client **out, const struct ps_client_opts *opts,
                  struct pd_err *err); /* copies opts */
void ps_client_free(
    struct ps_client *c); /* without ps_bye before: the others see this trainer as gone */
const struct pd_err *ps_client_err(const struct ps_client *c);

/* --- declaration: before ps_start, by every trainer alike --- */

int ps_declare_dense(struct ps_client *c,
                     const struct ps_dense_spec *spec); /* an id >= 0, counted from 0, or PD_E* */
int ps_declare_table(struct ps_client *c,
                     const struct ps_table_spec *spec); /* table ids are counted apart */

/* BLOCKS. Connects to all servers (again and again until the timeout, naming the server that is
 * missing) and declares. The first trainer's declaration counts; a later one that differs is
 * refused with the parameter's name and both values. */
int ps_start(struct ps_client *c);

/* A trainer that was lost and is started again takes its place when the servers wait for it
 * (on_trainer_lost = wait). 1: this one does. It runs the program from the end of pass `*pass` - 1
 * on (from the beginning when *pass is 0), leaves out the first *batches batches of this pass, and
 * the loads and saves that come before a reduction which is repeated: the next ps_repeated()
 * ps_reduce (ps_barrier) have been done by the process before and give what they gave then. A
 * process that is lost between the messages of one step to several server threads has ended it at
 * some of them only: the new one gives that step to the others. Its values may then be those of
 * before this step from some and of after it from others. */
int ps_resumed(const struct ps_client *c, uint64_t *pass, uint64_t *batches);
/* The contributions of this trainer's earlier processes to pass `pass`, which is the pass of
 * ps_resumed or the pass before it. 1; 0: unknown, or this trainer has no earlier process. */
struct ps_before {
    uint64_t batches; /* number of batches of the pass in `sums`; UINT64_MAX: all. Batches beyond
                         ps_resumed's are trained again. */
    uint64_t ms;      /* since the first step of the pass was ended; of the pass before: until it
                         ended; 0: not known */
    struct ps_pass_sums sums;
};
int ps_resumed_sums(const struct ps_client *c, uint64_t pass, struct ps_before *out);
uint32_t ps_repeated(const struct ps_client *c);

/* --- a step --- */

/* The whole parameter into out[0..n). Complete after ps_wait. `n` must be its number of values. */
int ps_pull_dense(struct ps_client *c, int id, float *out, size_t n);
/* A local client has the values itself: they can be read where they are, without a pull, until the
 * next ps_step_end or ps_load. NULL: not local. */
const float *ps_local_dense(const struct ps_client *c, int id, size_t n);

/* Rows of sorted, unique keys into out[i * dim]. PS_CREATE makes rows that are missing; without it
 * they read as their initial value and are not made. `keys` is copied; `out` is complete after
 * ps_wait. */
enum ps_pull_mode { PS_NO_CREATE = 0, PS_CREATE = 1 };
int ps_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                 enum ps_pull_mode mode);

/* Prefetch for the next step: requests rows, created if missing, with their values after the
 * current step (rules without a barrier: not older than the current step). The keys are sent and
 * looked up while the current step computes. Called between the ps_wait and the ps_step_end of the
 * current step; complete after the following ps_wait. Before the push of these rows, no pass may
 * end and no model may be loaded. */
int ps_pull_rows_next(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out);
/* Sends queued requests now, also the end of a step, which otherwise leaves with the next pull or
 * wait. Handles what has arrived. Never blocks. */
int ps_flush(struct ps_client *c);

int ps_wait(struct ps_client
                *c); /* BLOCKS until all pulls are complete and all pushed buffers are free again */

/* Several contributions to a step: the pushes that follow are of the streams [lo, hi), some of this
 * trainer's, until the next ps_part or ps_step_end, which ends the step for all of them.
 * Contributions of a step do not overlap. When each is the sum in the tree (src/ps/plan/sum_tree.h)
 * over a whole node of it, the result has the same bits whichever trainers the streams belong to.
 * The numbers are those that ps_step_end takes else, of these streams; it then gets none, and every
 * part has equally many. Not under geo, where the optimizer works in the trainers. */
int ps_part(struct ps_client *c, uint32_t lo, uint32_t hi, const double *stats, size_t n_stats);

/* Gradient SUM over this trainer's samples of the step. At most once per parameter and
 * contribution; a parameter that no trainer pushes in a step is not changed by it. `grad` must stay
 * as it is until the next ps_wait. */
int ps_push_dense(struct ps_client *c, int id, const float *grad, size_t n);
/* n floats, of any content, that servers on this machine read where they are: gradients that are
 * pushed from there are not copied. Also on other machines such a gradient must stay as it is until
 * values have been pulled that are from after its step. They go with the client. After ps_start;
 * NULL: there are none, or no more. */
float *ps_lend(struct ps_client *c, size_t n);
/* The same for rows of sorted, unique keys; when they are those of one of the last two PS_CREATE
 * pulls of the table, they are not sent again. */
int ps_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, const float *grad);
/* The same of a table with a life of rows: seen[2 * i] times key i was shown in this trainer's
 * samples of the step, seen[2 * i + 1] of them with a click (not more); as `grad`, until the next
 * ps_wait. ps_push_rows says one show and no click of each. */
int ps_push_seen_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                      const float *grad, const uint32_t *seen);

/* This trainer's contribution is complete; n_samples may be 0 (it then only keeps the barrier).
 * stats (may be NULL with 0): numbers such as the cost, summed over the trainers of the step in
 * stream order. */
int ps_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats);

/* The sums of the oldest step that is applied and not collected yet: 1 and *step, *n_samples,
 * out[PS_STATS_MAX] are written; 0: none has arrived (never blocks); or PD_E*. Steps ended without
 * stats do not appear. At most 1024 are kept; the oldest are dropped then. */
int ps_step_stats(struct ps_client *c, uint64_t *step, uint64_t *n_samples,
                  double out[PS_STATS_MAX]);
int ps_wait_stats(struct ps_client *c); /* BLOCKS until the sums of every step that was ended with
                                           stats have arrived */
size_t ps_stats_pending(
    const struct ps_client *c); /* steps whose sums have not arrived or not been collected */

uint64_t ps_step(const struct ps_client *c); /* the next step's number; the first is 0 */

/* --- files that are handed out: data = queue, under the rules without a barrier --- */

/* BLOCKS. Gets the next of the n files of the pass (n at most PS_TASKS_MAX, the same for all
 * trainers). 1: *file in [0, n). 0: all files have been read, and the pass is over. Or PD_E*.
 *
 * done: 1 if all samples of this trainer's last file are in steps that it has ended; 0 only in the
 * first call of a pass. A trainer that is lost, or calls ps_pass_end, before it has reported its
 * file as done, gives the file back, and another trainer gets all of it. So each file is read at
 * least once, and exactly once if no trainer is lost.
 *
 * own_first: file i is on the node of trainer i mod the number of trainers and is preferably read
 * there; *next is then the probable next file (n: unknown). Without it files come in order. */
int ps_next_task(struct ps_client *c, uint64_t n, int done, int own_first, uint64_t *file,
                 uint64_t *next);

/* --- between steps --- */

/* BLOCKS. Called when this trainer's streams have no more data in this pass: the trainer leaves the
 * barrier, and the others continue without it. Returns when all trainers have called it. Then all
 * are in the barrier again, and ps_step is the same for all. */
int ps_pass_end(struct ps_client *c);
/* Of the pass that ps_pass_end has ended: what all trainers gave to all server threads, a step to a
 * thread counting one, and what of it was dropped because its values were too old
 * (async_lagged_grad_discard_ratio). */
struct ps_dropped {
    uint64_t given, dropped;
};
const struct ps_dropped *ps_pass_dropped(const struct ps_client *c);

/* BLOCKS. v[i] = sum over ALL trainers, in stream order; every trainer must call it equally often.
 * Not between the steps of a pass, where trainers differ in their number of steps: use
 * ps_step_end's stats there. */
int ps_reduce(struct ps_client *c, double *v, size_t n);
int ps_barrier(struct ps_client *c); /* ps_reduce of nothing */
/* BLOCKS. Between passes, by one trainer while the others wait (ps_barrier): a day of the data is
 * over. Rows of tables that age fade, get a day older and go (ps/table/row_policy.h). */
struct ps_day {
    uint64_t removed, rows,
        candidates; /* rows that went, that are left, of all such tables; ids that wait for a row */
};
int ps_day_end(struct ps_client *c, struct ps_day *out);
/* The same without blocking: start one, go on, collect it later. ps_reduce_done: 1 and v[n]
 * written, 0 not yet, or PD_E*. Reductions are collected in the order they were started. */
int ps_reduce_start(struct ps_client *c, const double *v, size_t n);
int ps_reduce_done(struct ps_client *c, double *v, size_t n);

/* Where a training goes on from a checkpoint: in this pass, of which so many batches are done (0:
 * it begins with it). */
struct ps_progress {
    uint64_t pass, batch;
};

struct ps_save_opts {
    const char *dir, *name; /* dir/name becomes the model's folder (src/model/model.h), relative to
                             * each server's working directory; complete or absent */
    uint64_t pass;
    const char *config; /* text of train.ini, kept in the manifest */
    enum ps_chain chain;
    uint32_t copies;                  /* 2: each part on the disk of another server too; 0: 1 */
    int create_rows;                  /* first make all rows of tables with a known n_rows */
    const struct ps_progress *resume; /* a checkpoint: with the optimizer's state, and when batch >
                                         0 all trainers' notes */
    const char *unsaid; /* note used for a stream without a note; NULL: such a save fails and names
                           the stream */
    const char *data;   /* data trained last, for a job that resumes; may be NULL */
};
/* BLOCKS. One trainer calls this (trainer 0), while no step is under way on the servers: after
 * ps_start, ps_pass_end or ps_barrier, or with all pulls of the last step answered. */
int ps_save(struct ps_client *c, const struct ps_save_opts *opts);
/* ps_save without waiting. The model is saved as it is between the last step that this trainer has
 * ended and the next step (rules without a barrier: when the request arrives). Training continues
 * while the servers write. One save at a time. */
int ps_save_start(struct ps_client *c, const struct ps_save_opts *opts); /* copies opts */
int ps_save_busy(struct ps_client *c); /* never blocks: 1 under way, 0 done (or none), or PD_E* */
int ps_save_wait(struct ps_client *c); /* BLOCKS until it is done */
struct ps_saved {
    uint64_t step, bytes; /* of all its files, links included */
    int changes;          /* some of it lies in files of the saves before */
    uint8_t hash[16];     /* XXH3-128 of its manifest.json, canonical form */
};
const struct ps_saved *ps_last_saved(
    const struct ps_client *c); /* zeros before the first is done */

/* Sends this trainer's note for checkpoints: one line for each of its streams, at most
 * PS_NOTE_MAX - 1 bytes and a newline, valid after `after` steps (ps_step; before ps_step_end:
 * ps_step + 1). A checkpoint holds the last note that is not newer than the checkpoint. */
int ps_note(struct ps_client *c, uint64_t after, const char *text, size_t n);

/* BLOCKS. One trainer calls this after ps_start, then all call ps_barrier. Every server must see
 * the complete folder. `missing`: what happens to declared parameters that the model does not have
 * (rand: their initial values; zero: for a table, rows start at zero). Rows that a table of the
 * model lacks keep their initial values. */
int ps_load(struct ps_client *c, const char *folder, enum ps_missing missing);

/* BLOCKS. Of a checkpoint also the optimizer's state and the numbers of steps, updates and passes.
 * One trainer calls this when all have done ps_start and a ps_barrier; then it tells *step and
 * *pass to the others, and all (it too) call ps_continue with them. */
int ps_resume(struct ps_client *c, const char *folder, enum ps_missing missing, uint64_t *step,
              uint64_t *pass);
int ps_continue(struct ps_client *c, uint64_t step, uint64_t pass);

/* --- checkpoints on the servers' disks; all BLOCK --- */

struct ps_checkpoint {
    char name[256];
    uint64_t step, pass, batch; /* where it goes on: struct ps_progress */
    int state;    /* with the optimizer's state: training can go on from it; else it is a model */
    int complete; /* every part is on some server, with the right size */
};
struct ps_models; /* a list, the furthest first; equal on all trainers while nobody saves or removes
                   */
struct model_resume;

/* Those in `dir` whose names begin with "pass-", or only `name`. */
int ps_models(struct ps_client *c, const char *dir, const char *name, struct ps_models **out);
void ps_models_free(struct ps_models *m);
size_t ps_models_n(const struct ps_models *m);
const struct ps_checkpoint *ps_models_at(const struct ps_models *m, size_t i);

/* One trainer calls this before ps_resume. Checks all parts of model number i and copies to every
 * server the parts that it needs and lacks. *why names a missing or damaged part (code 0: none);
 * the client does not fail by it. */
int ps_models_fetch(struct ps_client *c, struct ps_models *m, size_t i, const char *dir,
                    struct pd_err *why);
/* Reads the position to resume from in the manifest; for model_resume_release. */
int ps_models_resume(struct ps_client *c, const struct ps_models *m, size_t i, const char *dir,
                     struct model_resume *out);
/* From every server that has it; "pass-..." only. */
int ps_models_remove(struct ps_client *c, const char *dir, const char *name);

/* BLOCKS until the servers have heard it. Leave for good; a server ends when all trainers have. */
int ps_bye(struct ps_client *c);

/* This trainer cannot go on (bad data, not a number, ...): the servers hear why, and through them
 * the others. Free it then. */
void ps_abandon(struct ps_client *c, const struct pd_err *why);

struct ps_client_stats {
    uint64_t sent_bytes, received_bytes, messages, wait_ns;
    uint64_t reconnects, sent_again; /* connections that broke and came back, messages that were
                                        sent a second time */
};
void ps_client_stats(const struct ps_client *c, struct ps_client_stats *out);

#endif
