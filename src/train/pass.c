/* pass.c - see pass.h.
 *
 *     read batch k ─ pull ─ wait ─ forward, backward ─ push, step_end ─┐
 *          ^          dense values of step k+1 are asked for at once   │
 *          └───────────── batch k+1 is read while they travel ◀────────┘
 */
#include "train/pass.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

enum { MAX_EVALUATORS = 30 };

static int client_error(struct train_loop *l, int rc, struct pd_err *err) {
    return rc ? pd_fail(err, rc, "%s", ps_client_err(l->client)->msg) : 0;
}

/* The next batch: read, made ready, its rows asked for. The number of samples, 0 at the end, or PD_E*. */
static int next_batch(struct train_loop *l, struct train_streams *streams, int train, struct pd_err *err) {
    int n = train_streams_next(streams, l->batch, err);
    if (n <= 0)
        return n;
    int rc = nn_feed_set(l->feed, l->batch, err);
    if (!rc)
        rc = train_params_pull_rows(l->params, l->feed, train, err);
    return rc ? rc : n;
}

/* Once asked, asked for good. */
static int asked(struct train_loop *l) {
    if (!l->asked && l->stop && l->stop(l->stop_arg)) {
        l->asked = 1;
        train_report_say(l->report, "Asked to stop: the trainers finish this step and save the model");
    }
    return l->asked;
}

/* Hand the sums that have arrived to the report; a cost that is no number ends the job. The request to stop is one more number
 * that travels with a step, so all that take part in it hear of it at the same one. */
static int collect(struct train_loop *l, int *leave, struct pd_err *err) {
    uint64_t step, n;
    double sums[PS_STATS_MAX];
    int rc;
    while ((rc = ps_step_stats(l->client, &step, &n, sums)) == 1) {
        train_report_step(l->report, n, sums[0]);
        *leave |= sums[1] > 0;
        if (!isfinite(sums[0]) && l->options->stop_on_nan)
            return pd_fail(err, PD_ENUM, "the cost is not a finite number in pass %llu, batch %llu (stop_on_nan)",
                           (unsigned long long)l->report->pass, (unsigned long long)l->report->batches);
    }
    return client_error(l, rc, err);
}

static int wait_for_servers(struct train_loop *l, struct pd_err *err) {
    uint64_t began = pd_mono_ns();
    int rc = ps_wait(l->client);
    if (!rc && l->options->update == PD_UPDATE_SYNC) /* the sums of the step before: all have them and break here, or none */
        rc = ps_wait_stats(l->client);
    l->report->waited_ns += pd_mono_ns() - began;
    return client_error(l, rc, err);
}

int train_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass, struct pd_err *err) {
    train_streams_rewind(streams);
    train_report_pass_begin(l->report, pass);
    uint64_t first = ps_step(l->client);
    double mine[4] = {0}; /* cost, samples (a double counts them exactly up to 2^53), left early, asked to stop */
    int leave = 0, rc = client_error(l, train_params_pull_dense(l->params), err), n;
    while (!rc && (n = next_batch(l, streams, 1, err)) != 0) {
        struct nn_cost cost;
        if (n < 0)
            return n;
        l->report->fraction = train_streams_fraction(streams);
        if ((rc = wait_for_servers(l, err)) || (rc = collect(l, &leave, err)) || leave)
            break;
        l->report->own_samples += (uint64_t)n;
        if ((rc = train_params_bind(l->params, l->exec, 1, err)))
            break;
        nn_exec_forward(l->exec, l->feed, 0, (uint32_t)n, NN_TRAIN, (uint64_t)l->options->seed, pass, &cost);
        nn_exec_backward(l->exec);
        if (l->clip_norm > 0)
            train_params_clip(l->params, (uint64_t)n, l->clip_norm);
        rc = train_params_push(l->params);
        if (!rc)
            rc = ps_step_end(l->client, (uint64_t)n, (const double[2]){cost.sum, asked(l)}, 2);
        if (!rc)
            rc = train_params_pull_dense(l->params);
        rc = client_error(l, rc, err);
        mine[0] += cost.sum;
        mine[1] += cost.n;
    }
    if (!rc)
        rc = client_error(l, ps_wait(l->client), err);
    if (!rc)
        rc = client_error(l, ps_pass_end(l->client), err);
    mine[2] = leave;
    mine[3] = asked(l);
    if (!rc)
        rc = collect(l, &leave, err);
    /* A step's sums reach who took part in it; the pass's totals include those of trainers that went on longer. */
    if (!rc)
        rc = client_error(l, ps_reduce(l->client, mine, 4), err);
    if (rc)
        return rc;
    l->cut = mine[2] > 0;
    l->leave = l->cut || mine[3] > 0;
    train_report_pass_end(l->report, ps_step(l->client) - first, (uint64_t)mine[1], mine[0], train_streams_bad_lines(streams),
                          l->cut);
    return 0;
}

int train_evaluate(struct train_loop *l, struct train_streams *streams, const char *when, struct pd_err *err) {
    double sums[3 + MAX_EVALUATORS] = {0}; /* cost, samples (a double counts them exactly up to 2^53), evaluators, asked to stop */
    uint32_t n_eval = nn_graph_n_evaluators(l->graph);
    n_eval = n_eval < MAX_EVALUATORS ? n_eval : MAX_EVALUATORS;
    train_streams_rewind(streams);
    int rc = client_error(l, train_params_pull_dense(l->params), err), n;
    while (!rc && !asked(l) && (n = next_batch(l, streams, 0, err)) != 0) {
        struct nn_cost cost;
        if (n < 0)
            return n;
        if ((rc = client_error(l, ps_wait(l->client), err)))
            break;
        if ((rc = train_params_bind(l->params, l->exec, 0, err)))
            break;
        nn_exec_forward(l->exec, l->feed, 0, (uint32_t)n, NN_TEST, (uint64_t)l->options->seed, 0, &cost);
        sums[0] += cost.sum;
        sums[1] += cost.n;
        for (uint32_t i = 0; i < n_eval; i++)
            sums[2 + i] += nn_exec_evaluate(l->exec, i);
    }
    if (!rc)
        rc = client_error(l, ps_wait(l->client), err);
    sums[2 + n_eval] = asked(l);
    if (!rc)
        rc = client_error(l, ps_reduce(l->client, sums, 3 + n_eval), err);
    l->leave |= sums[2 + n_eval] > 0;
    if (rc || l->leave)
        return rc;
    const struct model_ini *m = nn_graph_model(l->graph);
    int is_entropy = m->n_costs == 1 && !strcmp(m->cost[0].type.text, "cross_entropy");
    train_report_test(l->report, when, (uint64_t)sums[1], sums[0], is_entropy);
    if (!isfinite(sums[0]) && l->options->stop_on_nan)
        return pd_fail(err, PD_ENUM, "the cost of the test data %s is not a finite number (stop_on_nan)", when);
    for (uint32_t i = 0; i < n_eval; i++)
        train_report_metric(l->report, when, nn_graph_evaluator_name(l->graph, i),
                            nn_graph_evaluator_finish(l->graph, i, sums[2 + i], sums[1]));
    return 0;
}
