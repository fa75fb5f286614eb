/* SPDX-License-Identifier: Apache-2.0 */
/* best.h - the best pass of a job: keep_best, early_stopping_passes.
 *
 *     test after a pass ─▶ train_best_tested ─▶ train_best_decide ─▶ save the pass, or end the job
 *
 * Each saved model says which pass was the best until then (model.h). So a job that resumes knows
 * it, and so does a process that replaces a lost trainer. The number of passes without an
 * improvement is the distance to the best pass.
 *
 * All trainers have the same values of a test, so all decide the same; under update = sync the
 * decision is the same in every run. */
#pragma once

#include "conf/options.h"
#include "model/model.h"
#include "nn/evals/eval.h"

struct train_loop;

struct train_best {
    const char *metric;     /* keep_best, borrowed; NULL: not given */
    double now;             /* its value after this pass; NAN: none */
    struct model_best best; /* until now; metric "": none */
    int is_best, ends;      /* the last decision */
    int is_extra;           /* the pass is saved only because it is the best */
};

/* Reads the options. From then on passes are compared by keep_best in `eval`. PD_ECONF: there is no
 * such value, or no test data. */
int train_best_init(struct train_best *b, const struct pd_options *o, int has_test,
                    struct nn_eval *eval, struct pd_err *err);
/* This process replaces a lost one: takes the best pass from the newest saved model. */
int train_best_find(struct train_loop *l, struct pd_err *err);
/* The best pass of the model that this job resumes from. */
void train_best_resume(struct train_best *b, const struct model_best *best);
/* The test after a pass is over; l->eval has its values. */
void train_best_tested(struct train_loop *l, double cost);
/* Called by all trainers after the test of a complete pass. Sets is_best, and ends if the job is to
 * end before its last pass. */
int train_best_decide(struct train_loop *l, uint64_t pass, struct pd_err *err);
