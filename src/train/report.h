/* report.h - what a trainer tells: lines for people on its standard output, events for the
 * launcher's live line.
 *
 *   Pass 0, Batch 100, Cost 5.7311042 (average 6.0231), 38400 samples, 24103 words/s
 *   Pass 0 done: 3049 batches, 1170914 samples in 48.1 s, cost 4.7713
 *   Pass 0: 12 of 6098 pushes (0.2 %) came too late and were dropped
 *       (async_lagged_grad_discard_ratio)       only where there are some
 *   Test after pass 0: cost 4.2571, perplexity 70.60, error 0.71, 61627 samples
 *
 * Figures are those of the whole job: the sums come from the servers. Trainer 0 tells them; the
 * others only what is theirs alone. An event of each trainer tells its own speed too, and for how
 * much of the time it waited for servers: in a synchronous job all have the same batch, and the one
 * that waits least is the one that the others wait for.
 */
#ifndef PD_TRAIN_REPORT_H
#define PD_TRAIN_REPORT_H

#include <stdint.h>

#include "base/log.h"
#include "nn/evals/eval.h"

struct train_report {
    int out_fd, event_fd;     /* event_fd -1: nobody listens */
    const struct pd_log *log; /* the same lines go here too; NULL: no */
    uint32_t trainer_id;
    const char *unit; /* what a sample is to people: "words", "samples" */
    uint64_t log_period, n_passes;
    int perplexity; /* the cost is a cross entropy */
    /* of the pass */
    uint64_t pass, batches, samples, started_ns, last_event_ns;
    uint64_t samples_before; /* of `samples`: trained before this process went on with the pass */
    double seconds_before;   /* that those took; 0: not known */
    double cost;             /* sum over `samples` */
    uint64_t pushes,
        pushes_dropped; /* what trainers gave to server threads; of it too old (update = async) */
    double fraction;    /* of this trainer's part of the pass that is done, 0..1; -1: unknown */
    char test_metrics[600]; /* of the last evaluation, as members of a JSON object */
    /* of this trainer, since its last event */
    uint64_t own_samples, waited_ns;
};

void train_report_pass_begin(struct train_report *r, uint64_t pass);
/* It goes on in the pass: so much of it is done, in so many seconds (0: not known). */
void train_report_continue(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, double seconds);
double train_report_seconds(
    const struct train_report *r); /* that the pass has taken, those before included */
/* The sums of the next step of the pass, in order. */
void train_report_step(struct train_report *r, uint64_t n_samples, double cost_sum);
/* The pass's totals over all trainers, the evaluators' too; bad_lines are this trainer's. cut: it
 * was ended before its data. */
void train_report_pass_end(struct train_report *r, uint64_t batches, uint64_t samples,
                           double cost_sum, const struct nn_eval *eval, uint64_t bad_lines,
                           int cut);
/* A model is complete; its folder as the workspace names it. */
void train_report_saved(struct train_report *r, const char *dir, const char *name);
/* when: "before pass 0", "after pass 0". The evaluators' values stand in the same line, and from
 * then on in the events, as "test.NAME". */
void train_report_test(struct train_report *r, const char *when, uint64_t n_samples,
                       double cost_sum, const struct nn_eval *eval);
void train_report_print(struct train_report *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
