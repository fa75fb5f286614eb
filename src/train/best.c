/* SPDX-License-Identifier: Apache-2.0 */
/* best.c - see best.h. */
#include "train/checkpoint.h"

static const char prefix[] = "test."; /* train_check.c has checked it */

int train_best_init(struct train_best *b, const struct pd_options *o, int has_test,
                    struct nn_eval *eval, struct pd_err *err) {
    *b = (struct train_best){.now = NAN};
    if (!*o->keep_best || o->job != PD_JOB_TRAIN)
        return 0;
    if (!has_test)
        return pd_fail(err, PD_ECONF,
                       "keep_best = %s needs test data: [data] of train.ini names no test files",
                       o->keep_best);
    int rc = strlen(o->keep_best) < sizeof b->best.metric
                 ? nn_eval_judge_by(eval, o->keep_best + sizeof prefix - 1)
                 : PD_ENOENT;
    if (rc == PD_ENOENT)
        return pd_fail(err, PD_ECONF,
                       "keep_best = %.200s: train.ini has no evaluator with a value of this name "
                       "that can be better or worse (test.cost always exists)",
                       o->keep_best);
    b->metric = o->keep_best;
    return rc ? pd_oom(err, "the evaluators") : 0;
}

void train_best_resume(struct train_best *b, const struct model_best *best) {
    if (b->metric && !strcmp(best->metric, b->metric))
        b->best = *best;
}

int train_best_find(struct train_loop *l, struct pd_err *err) {
    struct ps_models *m = NULL;
    struct model_resume at = {0};
    struct model_best best = {0};
    if (!l->best.metric)
        return 0;
    int rc = ps_models(l->client, l->options->save_dir, NULL, &m);
    if (!rc && ps_models_n(m))
        rc = ps_models_resume(l->client, m, 0, l->options->save_dir, &at, &best);
    if (!rc)
        train_best_resume(&l->best, &best);
    model_resume_release(&at);
    ps_models_free(m);
    return train_client_error(l, rc, err);
}

void train_best_tested(struct train_loop *l, double cost) {
    uint32_t i;
    l->best.now = nn_eval_judge(l->eval, &i) ? nn_eval_value(l->eval, i) : cost;
}

/* A process that repeats the end of a pass may have found this pass as the best one. */
static int is_better(const struct train_loop *l, uint64_t pass) {
    const struct train_best *b = &l->best;
    uint32_t i;
    if (!isfinite(b->now))
        return 0;
    if (!*b->best.metric || b->best.pass >= pass)
        return 1;
    return nn_eval_judge(l->eval, &i) > 0 ? b->now > b->best.value : b->now < b->best.value;
}

int train_best_decide(struct train_loop *l, uint64_t pass, struct pd_err *err) {
    struct train_best *b = &l->best;
    const uint64_t most = (uint64_t)l->options->early_stopping_passes;
    char text[TRAIN_PASS_TEXT];
    if (!b->metric)
        return 0;
    double said[2] = {is_better(l, pass)};
    said[1] = !said[0] && most && *b->best.metric && pass - b->best.pass >= most;
    int rc = train_client_error(l, ps_reduce(l->client, said, 2), err);
    if (rc)
        return rc;
    b->is_best = said[0] > 0;
    b->ends = !b->is_best && said[1] > 0 && pass + 1 < (uint64_t)l->options->num_passes;
    if (b->is_best) {
        b->best = (struct model_best){.value = b->now, .pass = pass};
        snprintf(b->best.metric, sizeof b->best.metric, "%s", b->metric);
    }
    if (b->ends && !l->report->trainer_id)
        train_report_print(
            l->report, "Early stopping: %s has not been better than %.6g (pass %s) for %llu passes",
            b->metric, b->best.value, train_report_pass_text(l->report, b->best.pass, text),
            (unsigned long long)most);
    return 0;
}
