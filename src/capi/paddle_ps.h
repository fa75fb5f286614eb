/* paddle_ps.h - libpaddle_ps: a program of your own as a trainer of a job, with its parameters at
 * paddlectl's parameter servers.
 *
 *     paddle_ps *ps = paddle_ps_join("optimizer=adagrad optimizer.learning_rate=0.05", why, sizeof
 * why); int w = paddle_ps_dense(ps, "w", 2, shape, "std=0.1"), t = paddle_ps_table(ps, "words", 32,
 * 0, "std=0.01"); paddle_ps_start(ps); each batch:  paddle_ps_pull_dense(ps, w, W);
 * paddle_ps_pull_rows(ps, t, n, ids, rows, 1); paddle_ps_wait(ps);
 *                  ... forward and backward ...
 *                  paddle_ps_push_dense(ps, w, dW); paddle_ps_push_rows(ps, t, n, ids, drows);
 * paddle_ps_step_end(ps, batch, &cost, 1); each pass:   paddle_ps_pass_end(ps);
 *     paddle_ps_leave(ps);
 *
 * Launched by `paddlectl run` with trainer_command, a program finds its place in the job in its
 * environment; by hand the same comes as settings. Requests leave at once and are answered
 * meanwhile; only the calls marked BLOCKS wait.
 *
 * Gradients are SUMS over the samples of the step; the servers divide by the number of samples of
 * all trainers (update = sync) or of the push (async, ssp), and apply the optimizer. Values are
 * float32, arrays dense and row-major.
 *
 * Return values: 0 or a number that the call explains, or a negative PADDLE_PS_E*. The first error
 * is kept: every later call returns its code and paddle_ps_error has the message. One handle
 * belongs to one thread at a time; a process may have several handles only when each is another
 * trainer.
 */
#ifndef PADDLE_PS_H
#define PADDLE_PS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PADDLE_PS_VERSION 2 /* of this interface; calls are added, never changed */

enum paddle_ps_error_code {
    PADDLE_PS_EFAILED =
        -1, /* the job failed: a server or another trainer is gone, a gradient was refused */
    PADDLE_PS_ENOMEM = -2,
    PADDLE_PS_EUSAGE = -9,   /* a call that is out of order, or whose numbers do not fit */
    PADDLE_PS_ECONFIG = -10, /* a setting or attribute that does not exist or is out of range */
    /* Others are those of paddlectl itself; paddle_ps_error says in words what happened. */
};

typedef struct paddle_ps paddle_ps;

int paddle_ps_version(void); /* of the library */

/* Settings are words NAME=VALUE between blanks; they win over the environment (PADDLE_INIT_<NAME>,
 * then PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_KEY_FILE,
 * PADDLE_JOB_ID): optimizer=NAME            required: sgd momentum adagrad decayed_adagrad adadelta
 * rmsprop adam adamax ftrl ... optimizer.SETTING=VALUE   what train.ini's [optimizer] takes:
 * learning_rate, epsilon, momentum, learning_rate_schedule, ... pservers trainer_id
 * num_gradient_servers n_streams key_file    where this trainer stands; local=1: one process, no
 * servers seed update staleness geo_sgd_need_push_nums async_lagged_grad_discard_ratio stop_on_nan
 * reject_nan reconnect_timeout server_timeout `settings` may be NULL only when everything is in the
 * environment (PADDLE_PS_SETTINGS holds settings, too). NULL when it fails; `why` (of `n_why`
 * bytes, may be NULL with 0) then has the message. */
paddle_ps *paddle_ps_join(const char *settings, char *why, size_t n_why);

/* Without paddle_ps_leave before, the others hear that this trainer is gone. NULL is allowed. */
void paddle_ps_free(paddle_ps *ps);
const char *paddle_ps_error(
    const paddle_ps *ps); /* "" when nothing has failed; lives as long as ps */

int paddle_ps_trainer_id(const paddle_ps *ps);
int paddle_ps_n_trainers(const paddle_ps *ps);
uint64_t paddle_ps_step(const paddle_ps *ps); /* number of the next step, from 0 */

/* --- declare: before paddle_ps_start, by every trainer the same in the same order --- */

/* `attributes`, words as above, may be NULL: mean std (of the normal initial values; 0) lr (times
 * the learning rate; 1) l1 l2. An id >= 0 for the calls below. At most 4 dimensions. */
int paddle_ps_dense(paddle_ps *ps, const char *name, unsigned n_dims, const uint64_t *shape,
                    const char *attributes);
/* Rows of `dim` floats. n_rows > 0: ids are 0..n_rows-1; 0: any 64-bit ids, rows are made when they
 * are first asked for. Or rows come and go, as docs/online.md says, with the attributes admit_count
 * admit_probability admit_candidates admit_zero ageing show_decay show_weight click_weight
 * delete_score delete_days; a row is then made when an id is pushed that is admitted. Not with
 * update=geo. */
int paddle_ps_table(paddle_ps *ps, const char *name, uint32_t dim, uint64_t n_rows,
                    const char *attributes);

/* BLOCKS until all servers are there and agree. */
int paddle_ps_start(paddle_ps *ps);

/* --- a step --- */

/* All values of the parameter; `out` is complete after paddle_ps_wait. */
int paddle_ps_pull_dense(paddle_ps *ps, int id, float *out);
/* out[i * dim ..] = row of ids[i]. Ids in any order, repeated ones too; copied. create 0: rows that
 * are not there read as their initial value and are not made (for test data). `out` is complete
 * after paddle_ps_wait. */
int paddle_ps_pull_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, float *out,
                        int create);
/* BLOCKS until everything asked for is here and everything pushed belongs to the caller again. */
int paddle_ps_wait(paddle_ps *ps);

/* At most one push a parameter and step. `grad` stays as it is until the next paddle_ps_wait. */
int paddle_ps_push_dense(paddle_ps *ps, int id, const float *grad);
/* Gradients of equal ids are added up in the order they stand in. `ids` and `grad` are copied. */
int paddle_ps_push_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, const float *grad);
/* The same of a table whose rows come and go: seen[2 * i] times ids[i] was shown in this trainer's
 * samples of the step, seen[2 * i + 1] of them were clicked (not more); those of equal ids are
 * added up, too, and copied. paddle_ps_push_rows counts each ids[i] as one show without a click. */
int paddle_ps_push_seen_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids,
                             const float *grad, const uint32_t *seen);
/* This trainer's part of the step is complete: of n_samples samples, which may be 0. `sums` (at
 * most 16, may be NULL with 0), the cost for instance, are added up over the trainers; every step
 * and trainer gives equally many. */
int paddle_ps_step_end(paddle_ps *ps, uint64_t n_samples, const double *sums, size_t n_sums);
/* 1 and the sums of the oldest step that is complete and was not collected yet (n_samples of all
 * trainers; NULLs are allowed); 0: none yet. */
int paddle_ps_step_sums(paddle_ps *ps, uint64_t *step, uint64_t *n_samples, double *sums,
                        size_t n_sums);

/* --- between steps: every trainer calls these equally often --- */

int paddle_ps_pass_end(
    paddle_ps *ps); /* BLOCKS until all trainers have ended the pass; unequal data is no problem */
int paddle_ps_reduce(paddle_ps *ps, double *v,
                     size_t n); /* BLOCKS: v[i] = sum over all trainers, the same bits on all */
int paddle_ps_barrier(paddle_ps *ps); /* BLOCKS */

/* BLOCKS. A day of the data is over: in tables whose rows come and go shows and clicks fade, and
 * rows go that are not worth their place any more. All call it, behind paddle_ps_pass_end. Of all
 * such tables, NULLs are allowed: rows that went, rows that are left, ids that wait for a row. */
int paddle_ps_day_end(paddle_ps *ps, uint64_t *removed, uint64_t *rows, uint64_t *waiting);

/* BLOCKS. The servers write the model as folder dir/name (relative to their working directory; in a
 * launched job "output" is what paddlectl fetches). Trainer 0 alone writes, the others wait: all
 * call it. */
int paddle_ps_save(paddle_ps *ps, const char *dir, const char *name);
/* BLOCKS. Values from a saved model; all call it, after paddle_ps_start. missing: "fail", "rand" or
 * "zero", what becomes of parameters that it does not have. */
int paddle_ps_load(paddle_ps *ps, const char *folder, const char *missing);

/* BLOCKS until the servers know that this trainer is done. Then paddle_ps_free. */
int paddle_ps_leave(paddle_ps *ps);

#ifdef __cplusplus
}
#endif
#endif
