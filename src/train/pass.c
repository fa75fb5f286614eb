/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - see pass.h. The loop of a pass:
 *
 *     read batch k+1 ─ wait for k's values ─ prefetch k+1's rows ─ forward, backward ─ step_end ─┐
 *          ^                                                   push gradients one by one         │
 *          └──── read batch k+2 meanwhile ◀──── request the dense values of step k+1 ◀───────────┘
 *
 * Prefetched rows have the values after step k. Without overlap the rows of k+1 are requested
 * together with the dense values, and gradients are pushed after backward.
 */
#include "base/spans.h"
#include "train/checkpoint.h"

static int sum_over_trainers(void *arg, double *v, size_t n, struct pd_err *err) {
    struct train_loop *l = arg;
    return train_client_error(l, ps_reduce(l->client, v, n), err);
}

static int total_evaluators(struct train_loop *l, struct pd_err *err) {
    const struct nn_eval_all all = {.rank = (uint32_t)l->options->trainer_id,
                                    .n_ranks = (uint32_t)l->options->num_gradient_servers,
                                    .sum = sum_over_trainers,
                                    .arg = l};
    int rc = train_threads_merge_eval(l->threads, err);
    return rc ? rc : nn_eval_total(l->eval, &all, err);
}

/* Reads the next batch into *in and prepares its feed. */
static int read_batch(struct train_loop *l, struct train_streams *streams, struct train_input *in,
                      int train, struct pd_err *err) {
    int n = train_streams_next(streams, l->batch, err);
    in->n = 0;
    if (n <= 0)
        return n;
    memcpy(in->counts, train_streams_counts(streams),
           (l->stream_hi - l->stream_lo) * sizeof *in->counts);
    in->fraction = train_streams_fraction(streams);
    nn_feed_seed(in->feed, (uint64_t)l->options->seed, train ? l->report->pass : 0);
    int rc = nn_feed_set(in->feed, l->batch, err);
    if (!rc)
        rc = nn_feed_check_labels(in->feed, err);
    if (!rc)
        in->n = (uint32_t)n;
    return rc;
}

/* Reads the next batch into l->now and requests its rows. */
static int next_batch(struct train_loop *l, struct train_streams *streams, int train,
                      struct pd_err *err) {
    const uint64_t began = pd_mono_ns();
    int rc = read_batch(l, streams, &l->now, train, err);
    const uint64_t read = train_report_time(l->report, TRAIN_READ, began);
    if (!rc && l->now.n)
        rc = train_params_pull_rows(l->params, l->now.feed, train, err);
    train_report_time(l->report, TRAIN_PULL, read);
    return rc;
}

/* 1 once this trainer was asked to stop; stays 1. */
static int asked(struct train_loop *l) {
    if (!l->asked && l->stop && l->stop(l->stop_arg)) {
        l->asked = 1;
        train_report_print(l->report,
                           "Asked to stop: the trainers finish this step and save the model");
    }
    return l->asked;
}

/* Gives the sums that have arrived to the report; a cost that is not finite ends the job. The
 * request to stop is one of the numbers of a step, so that all trainers learn of it at the same
 * step. */
static int collect(struct train_loop *l, int *leave, struct pd_err *err) {
    uint64_t step, n;
    double sums[PS_STATS_MAX];
    char text[TRAIN_PASS_TEXT];
    int rc;
    while ((rc = ps_step_stats(l->client, &step, &n, sums)) == 1) {
        train_report_step(l->report, n, sums[STEP_COST]);
        *leave |= sums[STEP_ASKED] > 0;
        l->others = sums[STEP_MORE];
        if (!isfinite(sums[STEP_COST]) && l->options->stop_on_nan)
            return pd_fail(err, PD_ENUM,
                           "the cost is not a finite number in pass %s, batch %llu (stop_on_nan)",
                           train_report_pass_text(l->report, l->report->pass, text),
                           (unsigned long long)l->report->batches);
    }
    return train_client_error(l, rc, err);
}

static int wait_for_servers(struct train_loop *l, struct pd_err *err) {
    const uint64_t began = pd_mono_ns();
    int rc = ps_wait(l->client);
    pd_span_end("wait", began);
    /* The sums of the step before: either all trainers have them and leave here, or none. */
    if (!rc && l->options->update == PD_UPDATE_SYNC) {
        const uint64_t barrier = pd_span_begin();
        rc = ps_wait_stats(l->client);
        pd_span_end("barrier", barrier);
    }
    const uint64_t waited = pd_mono_ns() - began;
    l->report->waited_ns += waited;
    l->report->pass_waited_ns += waited;
    return train_client_error(l, rc, err);
}

/* Ends the step of l->now: requests the values of the next step and makes it the current one. */
static int step_on(struct train_loop *l, struct pd_err *err) {
    const uint64_t began = pd_mono_ns();
    int rc = train_client_error(l, train_params_pull_dense(l->params), err);
    struct train_input done = l->now;
    l->now = l->next;
    l->next = done;
    if (!rc && l->now.n && l->overlap)
        train_params_next_rows(l->params);
    else if (!rc && l->now.n)
        rc = train_params_pull_rows(l->params, l->now.feed, 1, err);
    train_report_time(l->report, TRAIN_PULL, began);
    return rc;
}

/* Counts a repeated batch once: it is sent again for servers that lack part of it, but is already
 * in the sums of the earlier process. */
static void count_once(const struct train_loop *l, double (*sums)[N_SUMS]) {
    for (uint32_t i = 0; i < train_n_parts(l); i++)
        sums[i][SUM_COST] = sums[i][SUM_SAMPLES] = 0;
    sums[0][SUM_COST] = l->before_cost;
    sums[0][SUM_SAMPLES] = l->before_samples;
}

/* Runs the steps of a pass until the data of this trainer ends or a trainer is asked to stop.
 * *unused: batches that were read but not trained. */
static int run_steps(struct train_loop *l, struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], int *leave, int *unused, struct pd_err *err) {
    int rc = 0, n;
    for (; l->skip && !rc; l->skip--, l->batches++)
        if ((n = train_streams_next(streams, l->batch, err)) < 0)
            rc = n;
    if (!rc)
        rc = train_client_error(l, train_params_pull_dense(l->params), err);
    if (!rc)
        rc = next_batch(l, streams, 1, err);
    while (!rc && l->now.n) {
        /* Send requests before reading the next batch. */
        const uint64_t began = pd_mono_ns();
        uint64_t time = began;
        rc = train_client_error(l, ps_flush(l->client), err);
        time = train_report_time(l->report, TRAIN_PUSH, time);
        if (rc || (rc = read_batch(l, streams, &l->next, 1, err)))
            break;
        train_report_time(l->report, TRAIN_READ, time);
        l->report->fraction = l->now.fraction;
        if ((rc = wait_for_servers(l, err)) || (rc = collect(l, leave, err)) || *leave) {
            *unused = 2;
            break;
        }
        time = pd_mono_ns();
        if (l->overlap && l->next.n &&
            (rc = train_params_pull_next_rows(l->params, l->next.feed, err)))
            break;
        train_report_time(l->report, TRAIN_PULL, time);
        l->report->own_samples += l->now.n;
        (void)pd_fault("train.compute");
        rc = train_step(l, streams, pass, l->now.n, asked(l), sums, err);
        if (!rc) {
            l->batches++;
            if (l->batches <= l->before_batches)
                count_once(l, sums);
            rc = train_checkpoint_step(l, pass, err);
        }
        if (!rc)
            rc = step_on(l, err);
        pd_span_end("step", began);
    }
    return rc;
}

/* The data of this trainer has ended, but not that of the others. Ends their steps with them,
 * without samples, so that a checkpoint can follow each step. */
static int keep_pace(struct train_loop *l, const struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], int *leave, struct pd_err *err) {
    int rc = 0;
    while (!rc) {
        int left = 0;
        rc = wait_for_servers(l, err);
        if (!rc)
            rc = collect(l, &left, err);
        /* Without others all data has ended: the pass is complete, even if a trainer was asked to
         * stop. */
        if (rc || !(l->others > 0))
            return rc;
        if ((*leave = left))
            return 0;
        rc = train_checkpoint_note(l, streams, sums, 0, err);
        if (!rc)
            rc = train_client_error(l,
                                    ps_step_end(l->client, 0,
                                                (const double[N_STEP_STATS]){0, asked(l), 0},
                                                N_STEP_STATS),
                                    err);
        if (rc)
            return rc;
        l->batches++;
        rc = train_checkpoint_step(l, pass, err);
    }
    return rc;
}

/* data = queue: trains one file after the other, as the servers assign them. */
static int run_files(struct train_loop *l, struct train_streams *streams, uint64_t pass,
                     double (*sums)[N_SUMS], int *leave, struct pd_err *err) {
    const uint64_t n = train_streams_n_files(streams);
    uint64_t file, next, n_read = 0;
    char text[TRAIN_PASS_TEXT];
    int rc = 0, unused;
    l->skip = 0; /* files of a lost process are done or were assigned to another trainer */
    while (!rc && !*leave) {
        int got = ps_next_task(l->client, n, n_read > 0, l->partial_data, &file, &next);
        if (got <= 0) {
            rc = train_client_error(l, got, err);
            break;
        }
        if ((*leave = asked(l)))
            break;
        train_streams_rewind_to_file(streams, pass, file);
        if (next < n)
            train_streams_prefetch(streams, next); /* prefetch while this file is read */
        rc = run_steps(l, streams, pass, sums, leave, &unused, err);
        if (!rc)
            rc = train_client_error(l, ps_wait(l->client),
                                    err); /* its gradients are still in flight */
        n_read += !rc && !*leave;
    }
    if (!rc)
        train_report_print(l->report, "Pass %s: this trainer read %llu of %llu files, %.0f samples",
                           train_report_pass_text(l->report, pass, text),
                           (unsigned long long)n_read, (unsigned long long)n, sums[0][SUM_SAMPLES]);
    return rc;
}

int train_pass(struct train_loop *l, struct train_streams *streams, uint64_t pass,
               struct pd_err *err) {
    const uint64_t began = pd_span_begin();
    train_report_pass_begin(l->report, pass);
    train_threads_clear_eval(l->threads);
    int leave = 0, unused = 0;
    double all[N_SUMS], (*sums)[N_SUMS] = pd_calloc(train_n_parts(l), sizeof *sums);
    int rc = sums ? train_begin_pass(l, streams, pass, sums, err)
                  : pd_fail(err, PD_ENOMEM, "out of memory for a pass");
    /* A process that replaces a lost one may be inside the pass or at its end. */
    uint64_t first = ps_step(l->client) - (l->only_end ? l->before_steps : l->batches + l->skip);
    if (!rc && !l->only_end)
        rc = train_checkpoint_note_begin(l, streams, sums, err);
    if (!rc && !l->only_end) {
        rc = l->options->data == PD_DATA_QUEUE
                 ? run_files(l, streams, pass, sums, &leave, err)
                 : run_steps(l, streams, pass, sums, &leave, &unused, err);
        if (!rc && !leave && train_checkpoint_keeps_pace(l))
            rc = keep_pace(l, streams, pass, sums, &leave, err);
        if (!rc)
            rc = train_client_error(l, ps_wait(l->client), err);
        if (!rc)
            rc = train_checkpoint_note_end(l, streams, sums, unused, err);
        if (!rc)
            rc = train_client_error(l, ps_pass_end(l->client), err);
        l->report->pushes = ps_pass_dropped(l->client)->given;
        l->report->pushes_dropped = ps_pass_dropped(l->client)->dropped;
    }
    l->only_end = 0;
    if (!rc) {
        sums[0][SUM_LEFT_EARLY] = leave;
        sums[0][SUM_ASKED] = asked(l);
        rc = collect(l, &leave, err);
    }
    /* The lost process, whose place this process has taken, has reported the pass. */
    const int already_reported = !rc && ps_repeated(l->client);
    /* The sums of a step reach only trainers that took part in it. The totals of the pass include
     * trainers that trained longer. */
    if (!rc)
        rc = train_sum(l, sums[0], N_SUMS, all, err);
    if (!rc)
        rc = total_evaluators(l, err);
    free(sums);
    if (rc)
        return rc;
    l->cut = all[SUM_LEFT_EARLY] > 0;
    l->leave = l->cut || all[SUM_ASKED] > 0;
    l->batches = ps_step(l->client) - first;
    if (!already_reported)
        train_report_pass_end(l->report, l->batches, (uint64_t)all[SUM_SAMPLES], all[SUM_COST],
                              l->eval, train_streams_bad_lines(streams), l->cut);
    pd_span_end("pass", began);
    return 0;
}

/* Sums of an evaluation besides the evaluators, by part: cost, samples (exact in a double up to
 * 2^53), asked to stop. */
enum { TEST_COST, TEST_SAMPLES, TEST_ASKED, N_TEST_SUMS };

/* Tests the n samples in the feed: part after part, each divided among the threads. */
static int test_batch(struct train_loop *l, uint32_t n, double (*sums)[N_TEST_SUMS],
                      struct pd_err *err) {
    const struct train_work w = {l->params, l->now.feed, (uint64_t)l->options->seed, 0, NULL, NULL};
    struct train_piece *p = train_threads_pieces(l->threads);
    uint32_t at = 0, n_pieces = 0;
    int rc = 0, whole = l->options->reproducible == PD_REPRODUCIBLE_TOPOLOGY;
    for (uint32_t k = 0; k < train_n_parts(l) && !rc; k++) {
        uint32_t part = train_part(l, k, n),
                 cuts = whole ? part > 0 : train_threads_size(l->threads);
        for (uint32_t i = 0; i < cuts; i++) {
            uint32_t end = (uint32_t)((uint64_t)part * (i + 1) / cuts),
                     first = (uint32_t)((uint64_t)part * i / cuts);
            if (first < end)
                p[n_pieces++] =
                    (struct train_piece){.part = k, .first = at + first, .n = end - first};
        }
        at += part;
        if (n_pieces == train_threads_size(l->threads) || k + 1 == train_n_parts(l)) {
            rc = train_threads_compute(l->threads, &w, p, n_pieces, err);
            for (uint32_t i = 0; i < n_pieces; i++) {
                sums[p[i].part][TEST_COST] += p[i].cost.sum;
                sums[p[i].part][TEST_SAMPLES] += p[i].cost.n;
            }
            n_pieces = 0;
        }
    }
    return rc;
}

static int run_tests(struct train_loop *l, struct train_streams *streams,
                     double (*sums)[N_TEST_SUMS], struct pd_err *err) {
    int rc = train_client_error(l, train_params_pull_dense(l->params), err);
    while (!rc && !asked(l) && !(rc = next_batch(l, streams, 0, err)) && l->now.n) {
        train_report_doing(l->report, TRAIN_TESTING);
        rc = train_client_error(l, ps_wait(l->client), err);
        if (!rc)
            rc = test_batch(l, l->now.n, sums, err);
    }
    return rc;
}

int train_evaluate(struct train_loop *l, struct train_streams *streams,
                   const struct train_tested *what, struct pd_err *err) {
    const uint64_t began = pd_span_begin();
    double all[N_TEST_SUMS], (*sums)[N_TEST_SUMS] = pd_calloc(train_n_parts(l), sizeof *sums);
    train_report_doing(l->report, TRAIN_TESTING);
    train_streams_rewind(streams, 0);
    train_threads_clear_eval(l->threads);
    int rc = sums ? 0 : pd_fail(err, PD_ENOMEM, "out of memory for an evaluation");
    const int already_reported =
        ps_repeated(l->client) >
        0; /* by the lost process, whose place this process has taken: the result is known */
    if (!rc && !already_reported)
        rc = run_tests(l, streams, sums, err);
    if (!rc)
        rc = train_client_error(l, ps_wait(l->client), err);
    if (!rc) {
        sums[0][TEST_ASKED] = asked(l);
        rc = train_sum(l, sums[0], N_TEST_SUMS, all, err);
    }
    if (!rc)
        rc = total_evaluators(l, err);
    train_report_doing(l->report, TRAIN_STEPS);
    pd_span_end("test", began);
    free(sums);
    l->leave |= !rc && all[TEST_ASKED] > 0;
    if (rc || l->leave)
        return rc;
    train_best_tested(l, all[TEST_COST] / all[TEST_SAMPLES]);
    if (!already_reported)
        train_report_test(l->report, what, (uint64_t)all[TEST_SAMPLES], all[TEST_COST], l->eval);
    if (!isfinite(all[TEST_COST]) && l->options->stop_on_nan)
        return pd_fail(err, PD_ENUM,
                       "the cost of the test data %s is not a finite number (stop_on_nan)",
                       what->when);
    return 0;
}
