/* SPDX-License-Identifier: Apache-2.0 */
/* paddle_ps.h - libpaddle_ps: your own program as a trainer of a job whose parameters are at
 * paddlectl's parameter servers.
 *
 *     paddle_ps *ps = paddle_ps_join("optimizer=adagrad optimizer.learning_rate=0.05",
 *                                    why, sizeof why);
 *     int w = paddle_ps_dense(ps, "w", 2, shape, "std=0.1");
 *     int t = paddle_ps_table(ps, "words", 32, 0, "std=0.01");
 *     paddle_ps_start(ps);
 *     each batch:
 *         paddle_ps_pull_dense(ps, w, W);
 *         paddle_ps_pull_rows(ps, t, n, ids, rows, 1);
 *         paddle_ps_wait(ps);
 *         ... forward and backward ...
 *         paddle_ps_push_dense(ps, w, dW);
 *         paddle_ps_push_rows(ps, t, n, ids, drows);
 *         paddle_ps_step_end(ps, batch, &cost, 1);
 *     each pass:
 *         paddle_ps_pass_end(ps);
 *     paddle_ps_leave(ps);
 *
 * A program that `paddlectl run` started as trainer_command finds its place in the job in its
 * environment. A program that is started by hand needs settings instead. Requests are sent at once
 * and answered in the background; only the calls marked BLOCKS wait.
 *
 * Gradients are SUMS over the samples of the step. The servers divide by the number of samples of
 * all trainers (update = sync) or of the push (async, ssp), and apply the optimizer. Values are
 * float32; arrays are dense and row-major.
 *
 * Return values: 0 or a number that the call explains, or a negative PADDLE_PS_E*. The handle keeps
 * the first error: every later call returns its code, and paddle_ps_error has the message. A handle
 * may be used by one thread at a time. A process may have several handles only if each is a
 * different trainer. */
#ifndef PADDLE_PS_H
#define PADDLE_PS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PADDLE_PS_VERSION 2 /* of this interface; calls are only added, never changed */

enum paddle_ps_error_code {
    /* The job failed: a server or another trainer is lost, or a gradient was refused. */
    PADDLE_PS_EFAILED = -1,
    PADDLE_PS_ENOMEM = -2,
    PADDLE_PS_EUSAGE = -9,   /* a call in the wrong order, or with wrong numbers */
    PADDLE_PS_ECONFIG = -10, /* a setting or attribute is unknown or out of range */
    /* Other codes are those of paddlectl; paddle_ps_error explains the error. */
};

typedef struct paddle_ps paddle_ps;

int paddle_ps_version(void); /* of the library */

/* Join the job. Settings are words NAME=VALUE separated by blanks. They have priority over the
 * environment (PADDLE_INIT_<NAME>, then PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM,
 * PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_KEY_FILE, PADDLE_JOB_ID):
 *
 *     optimizer=NAME            required: sgd momentum adagrad decayed_adagrad adadelta rmsprop
 *                               adam adamax ftrl ...
 *     optimizer.SETTING=VALUE   settings of [optimizer] in train.ini: learning_rate, epsilon,
 *                               momentum, learning_rate_schedule, ...
 *     pservers trainer_id num_gradient_servers n_streams key_file
 *                               the place of this trainer; local=1: one process, no servers
 *     seed update staleness geo_sgd_need_push_nums async_lagged_grad_discard_ratio stop_on_nan
 *     reject_nan reconnect_timeout server_timeout
 *
 * `settings` may be NULL if the environment has everything (PADDLE_PS_SETTINGS may hold settings,
 * too). Returns NULL on failure; then `why` (n_why bytes; may be NULL with 0) has the message. */
paddle_ps *paddle_ps_join(const char *settings, char *why, size_t n_why);

/* Free the handle. Without paddle_ps_leave before, the other trainers learn that this trainer is
 * lost. NULL is allowed. */
void paddle_ps_free(paddle_ps *ps);
/* The message of the first error, or ""; valid as long as ps. */
const char *paddle_ps_error(const paddle_ps *ps);

int paddle_ps_trainer_id(const paddle_ps *ps);
int paddle_ps_n_trainers(const paddle_ps *ps);
uint64_t paddle_ps_step(const paddle_ps *ps); /* number of the next step, counted from 0 */

/* --- declare: before paddle_ps_start, by every trainer the same in the same order --- */

/* Declare a dense parameter of at most 4 dimensions. `attributes`: words as above, or NULL: mean
 * std (of the normal initial values; 0) lr (factor of the learning rate; 1) l1 l2. Returns an id >=
 * 0 for the calls below. */
int paddle_ps_dense(paddle_ps *ps, const char *name, unsigned n_dims, const uint64_t *shape,
                    const char *attributes);
/* Declare a table with rows of `dim` floats. n_rows > 0: ids are 0..n_rows-1. n_rows 0: any 64-bit
 * ids; a row is created at its first pull. With the attributes admit_count admit_probability
 * admit_candidates admit_zero ageing show_decay show_weight click_weight delete_score delete_days
 * rows are admitted and aged as docs/online.md says: a row is then created when an admitted id is
 * pushed. Not with update=geo. */
int paddle_ps_table(paddle_ps *ps, const char *name, uint32_t dim, uint64_t n_rows,
                    const char *attributes);

/* BLOCKS until all servers are connected and agree with the declarations. */
int paddle_ps_start(paddle_ps *ps);

/* --- a step --- */

/* Pull all values of the parameter; `out` is complete after paddle_ps_wait. */
int paddle_ps_pull_dense(paddle_ps *ps, int id, float *out);
/* Pull rows: out[i * dim ..] = row of ids[i]. Ids may have any order and may repeat; they are
 * copied. create 0: missing rows are not created and read as their initial value (for test data).
 * `out` is complete after paddle_ps_wait. */
int paddle_ps_pull_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, float *out,
                        int create);
/* BLOCKS until all pulled values are here and all pushed buffers belong to the caller again. */
int paddle_ps_wait(paddle_ps *ps);

/* Push the gradient of a dense parameter, at most once per parameter and step. Do not change `grad`
 * until the next paddle_ps_wait. */
int paddle_ps_push_dense(paddle_ps *ps, int id, const float *grad);
/* Push gradients of rows, at most once per table and step. Gradients of equal ids are added in
 * their order. `ids` and `grad` are copied. */
int paddle_ps_push_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids, const float *grad);
/* The same for a table with admission or ageing. seen[2 * i]: how often ids[i] was shown in this
 * trainer's samples of the step; seen[2 * i + 1]: how many of these were clicked. The numbers of
 * equal ids are added; `seen` is copied. paddle_ps_push_rows counts each ids[i] as one show without
 * a click. */
int paddle_ps_push_seen_rows(paddle_ps *ps, int table, size_t n, const uint64_t *ids,
                             const float *grad, const uint32_t *seen);
/* End this trainer's part of the step, which had n_samples samples (may be 0). `sums` (at most 16;
 * may be NULL with 0), for example the cost, are added over the trainers. Every step of every
 * trainer must give the same number of sums. */
int paddle_ps_step_end(paddle_ps *ps, uint64_t n_samples, const double *sums, size_t n_sums);
/* Collect the sums of the oldest complete step that was not collected yet: returns 1, and n_samples
 * of all trainers; NULLs are allowed. 0: no such step. */
int paddle_ps_step_sums(paddle_ps *ps, uint64_t *step, uint64_t *n_samples, double *sums,
                        size_t n_sums);

/* --- between steps: every trainer calls these equally often --- */

/* BLOCKS until all trainers have ended the pass. They may have different amounts of data. */
int paddle_ps_pass_end(paddle_ps *ps);
/* BLOCKS. v[i] = the sum over all trainers, with the same bits on all. */
int paddle_ps_reduce(paddle_ps *ps, double *v, size_t n);
int paddle_ps_barrier(paddle_ps *ps); /* BLOCKS */

/* BLOCKS. End a day of data: in tables with ageing, shows and clicks decay, and rows with a low
 * score are removed. All trainers call it, after paddle_ps_pass_end. Totals over all such tables,
 * NULLs are allowed: removed rows, remaining rows, ids without a row. */
int paddle_ps_day_end(paddle_ps *ps, uint64_t *removed, uint64_t *rows, uint64_t *waiting);

/* BLOCKS. The servers write the model as folder dir/name, relative to their working directory
 * (paddlectl fetches "output" of a launched job). They accept `dir` below "output" or their own
 * save_dir. All trainers call it; only trainer 0 sends the request. */
int paddle_ps_save(paddle_ps *ps, const char *dir, const char *name);
/* BLOCKS. Load values from a saved model: `folder` lies below "output", the servers' save_dir or
 * init_model_path, or in a launched job in the workspace. All trainers call it, after
 * paddle_ps_start. missing, for parameters that the model lacks: "fail", "rand" or "zero". */
int paddle_ps_load(paddle_ps *ps, const char *folder, const char *missing);

/* BLOCKS until the servers know that this trainer is done. Then call paddle_ps_free. */
int paddle_ps_leave(paddle_ps *ps);

#ifdef __cplusplus
}
#endif
#endif
