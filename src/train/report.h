/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what a trainer reports: lines for users on its standard output, events for the
 * launcher's live line.
 *
 *   Pass 1/2, Batch 100, Cost 5.7311042 (average 6.0231), 38400 samples, 24103 words/s
 *   Pass 1/2 done: 3049 batches, 1170914 samples in 48.1 s, cost 4.7713
 *   Pass 1/2: 12 of 6098 pushes (0.2 %) came too late and were dropped
 *       (async_lagged_grad_discard_ratio)       only if any were dropped
 *   Test after pass 1/2: cost 4.2571, perplexity 70.60, error 0.71, 61627 samples
 *   Saved output/pass-00000 (pass 1/2)
 *
 * People count passes from 1; the names of saved folders and the events count from 0.
 *
 * Figures are those of the whole job: the sums come from the servers. Trainer 0 reports them; other
 * trainers report only what concerns themselves. The event of each trainer also has its own speed
 * and the share of time that it waited for servers. In a synchronous job all trainers train the
 * same batch, and the trainer that waits least delays the others.
 */
#pragma once

#include "nn/evals/eval.h"
#include "ps/client/client.h"

/* What a trainer does; all but TRAIN_STEPS complete no steps. */
enum train_doing { TRAIN_STEPS, TRAIN_TESTING, TRAIN_SAVING, TRAIN_LOADING, TRAIN_WATCHING };

/* Where the time of a trainer goes, beside its waits for servers. Pulls are requests; their answers
 * are waited for. */
enum train_part {
    TRAIN_READ,
    TRAIN_FORWARD,
    TRAIN_BACKWARD,
    TRAIN_PUSH,
    TRAIN_PULL,
    TRAIN_N_PARTS
};

struct train_report {
    int out_fd, event_fd;     /* event_fd -1: no events */
    const struct pd_log *log; /* receives the same lines; NULL: none */
    uint32_t trainer_id;
    const char *unit; /* unit of samples for users: "words", "samples" */
    uint64_t log_period;
    uint64_t n_passes; /* 0: unknown */
    int perplexity;    /* the cost is a cross entropy */
    /* current pass */
    uint64_t pass, batches, samples, started_ns, last_event_ns;
    uint64_t samples_before; /* part of `samples`, trained by an earlier process */
    double seconds_before;   /* time of the earlier process; 0: unknown */
    double cost;             /* sum over `samples` */
    uint64_t pushes,
        pushes_dropped; /* pushes to server threads; dropped as too old (update = async) */
    double fraction; /* share of this trainer's part of the pass that is done, 0..1; -1: unknown */
    char test_metrics[4000]; /* values of the last evaluation, as members of a JSON object */
    /* this trainer, since its last event */
    uint64_t own_samples, waited_ns, part_ns[TRAIN_N_PARTS];
    struct ps_client_stats stats; /* as they were at stats_ns; 0: never */
    uint64_t stats_ns;
    /* of the current pass, by this process */
    uint64_t pass_waited_ns, pass_part_ns[TRAIN_N_PARTS];
    const struct ps_client *client; /* NULL: the events have no bytes */
    enum train_doing doing;
    uint64_t doing_event_ns; /* time of the last event of train_report_doing */
};

/* Counts time of a part: that since `began_ns`, and returns the time now. */
uint64_t train_report_time(struct train_report *r, enum train_part part, uint64_t began_ns);
/* The event "model": the network, once the graph is known. */
void train_report_model(const struct train_report *r, const struct nn_graph *g);
/* Says what the trainer does now. Other work than steps is an event, at most once a second. */
void train_report_doing(struct train_report *r, enum train_doing doing);
/* A second of a wait for servers has passed; w as in ps_client_opts.on_wait. */
void train_report_wait(struct train_report *r, const struct ps_waiting *w);

void train_report_pass_begin(struct train_report *r, uint64_t pass);
/* Resumes a pass: batches, samples and cost done so far, and their time (0: unknown). */
void train_report_continue(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, double seconds);
/* Time that the pass has taken, earlier processes included. */
double train_report_seconds(const struct train_report *r);
/* Adds the sums of the next step of the pass, in order. */
void train_report_step(struct train_report *r, uint64_t n_samples, double cost_sum);
/* Reports the totals of the pass over all trainers, evaluators included; bad_lines are those of
 * this trainer. cut: the pass ended before its data. */
void train_report_pass_end(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, const struct nn_eval *eval, uint64_t bad_lines,
                           int cut);
/* "6/40", or "6" if the number of passes is unknown. */
enum { TRAIN_PASS_TEXT = 48 };
const char *train_report_pass_text(const struct train_report *r, uint64_t pass,
                                   char out[TRAIN_PASS_TEXT]);
/* Reports a complete model; `dir` is relative to the workspace. what: "pass 6/40", or more. */
void train_report_saved(struct train_report *r, const char *dir, const char *name, const char *what,
                        int state);
struct train_tested {
    const char *when; /* "before pass 1/2", "after pass 1/2", "of the saved model" */
    int after;        /* 1: the model at the end of the complete pass `pass` */
    uint64_t pass;
};
/* Reports an evaluation. The values of the evaluators are in the same line, and in all later events
 * as "test.NAME". The event "test" also says which value compares passes. */
void train_report_test(struct train_report *r, const struct train_tested *what, uint64_t n_samples,
                       double cost_sum, const struct nn_eval *eval);
/* There is no checkpoint in `dir`, so training starts from the beginning. */
void train_report_no_checkpoint(struct train_report *r, const char *dir);
void train_report_print(struct train_report *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
