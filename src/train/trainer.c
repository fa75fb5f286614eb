/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - the jobs of a trainer: assemble, run, release. */
#include "train/trainer.h"

#include <cblas.h>

#include "base/spans.h"
#include "math/hash.h"
#include "conf/train_check.h"
#include "data/input/fetch.h"
#include "data/read/pipe.h"
#include "nn/graph/checkgrad.h"
#include "ps/plan/update_rule.h"
#include "ps/table/table.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/online.h"

struct trainer_state {
    const struct train_setup *setup;
    const struct pd_options *o;
    uint32_t id, n_trainers, n_streams, lo, hi;
    struct nn_graph *graph;       /* owned by config */
    struct data_workers *workers; /* reader threads; NULL: none */
    struct data_fetch *fetch;     /* NULL: all files are on this node */
    struct data_spec spec[2];     /* training data, test data */
    /* test: NULL without test data. Online jobs: no files yet, folders come later. */
    struct train_streams *train, *test;
    struct ps_client *client;
    struct train_params *params;
    struct train_input input[2];
    struct train_threads *threads;
    struct nn_eval *eval;
    struct pd_batch batch;
    struct train_report report;
    uint64_t from_pass, from_batch; /* start of a process that replaces a lost one; else 0 */
    struct train_config config;
};

static void on_bad_line(void *arg, const char *message) {
    struct trainer_state *t = arg;
    pd_warn(t->setup->log, "%s", message);
}

static uint32_t n_pservers(const struct pd_options *o) {
    uint32_t n = 0;
    for (const char *p = o->pserver_list; p && *p; p++)
        n += *p == ',' || !p[1];
    return n;
}

static int has_no_second_server(const struct pd_options *o) {
    return o->checkpoint_copies > 1 && (o->local || n_pservers(o) < 2);
}

static int check_options(struct trainer_state *t, struct pd_err *err) {
    const struct pd_options *o = t->o;
    const struct pd_train_place place = {n_pservers(o), t->setup->first_trainers,
                                         t->setup->restarts > 0};
    int rc = pd_train_check(o, &place, err);
    if (rc)
        return rc;
    t->id = (uint32_t)o->trainer_id;
    t->n_trainers = (uint32_t)o->num_gradient_servers;
    t->n_streams = pd_train_streams(o, &place);
    data_stream_range(t->n_streams, t->n_trainers, t->id, &t->lo, &t->hi);
    return 0;
}

static int open_data(struct trainer_state *t, struct pd_err *err) {
    const struct model_ini *m = nn_graph_model(t->graph);
    const struct data_spec *train = &t->spec[0], *test = &t->spec[1];
    const struct data_files none = {0};
    if (t->setup->data_fd > 2 && !strcmp(m->dir, ".") && t->o->data_layout == PD_DATA_DISPATCHED &&
        data_fetch_new(&t->fetch, t->setup->data_fd, err))
        return err->code;
    t->spec[1] = (struct data_spec){.schema = m->schema,
                                    .max_bad_lines = (uint64_t)t->o->max_bad_lines,
                                    .seed = (uint64_t)t->o->seed,
                                    .fetch = t->fetch,
                                    .workers = t->workers,
                                    .on_bad = on_bad_line,
                                    .arg = t};
    t->spec[0] = *test;
    t->spec[0].shuffle_buffer = (uint64_t)t->o->shuffle_buffer;
    uint64_t batch = (uint64_t)t->o->batch_size;
    int own = t->o->update != PD_UPDATE_SYNC;
    const struct train_files train_files = {m->dir, m->data.train.text, "train",
                                            (enum pd_data_layout)t->o->data_layout};
    const struct train_files test_files = {m->dir, m->data.test.text, "test",
                                           (enum pd_data_layout)t->o->data_layout};
    int rc = 0;
    if (data_schema_is_text(m->schema)) /* a sample predicts one word */
        t->report.unit = "words";
    t->report.perplexity = m->n_costs == 1 && !strcmp(m->cost[0].type.text, "cross_entropy");
    if (t->o->job == PD_JOB_TRAIN)
        rc = t->o->data ==
                     PD_DATA_QUEUE /* all files form one stream; each trainer may read any file */
                 ? train_streams_new(&t->train, train, &train_files, 1, 0, 1, batch, own, err)
                 : train_streams_new(&t->train, train, &train_files, t->n_streams, t->lo, t->hi,
                                     batch, own, err);
    if (t->o->job == PD_JOB_ONLINE)
        rc = train_streams_of_list(&t->train, train, m->dir, &none, t->n_streams, t->lo, t->hi,
                                   batch, own, err);
    if (!rc && *m->data.test.text && t->o->job != PD_JOB_ONLINE)
        rc = train_streams_new(&t->test, test, &test_files, t->n_streams, t->lo, t->hi, batch, own,
                               err);
    if (!rc && t->o->job == PD_JOB_TEST && !t->test)
        rc = pd_fail(err, PD_ECONF, "%s: job = test, but [data] names no test files", m->file);
    if (rc)
        return rc;
    uint32_t max = train_streams_max_batch(t->train ? t->train : t->test);
    if (pd_batch_init(&t->batch, nn_graph_field(t->graph, 0), m->schema->n_fields, max))
        return pd_fail(err, PD_ENOMEM, "out of memory for a batch of %u samples", max);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = nn_feed_new(&t->input[i].feed, t->graph, max, err);
        if (!rc && !(t->input[i].counts = pd_calloc(t->hi - t->lo, sizeof *t->input[i].counts)))
            rc = pd_oom(err, "a trainer");
    }
    uint32_t n_threads = (uint32_t)t->o->trainer_count, piece = (max + n_threads - 1) / n_threads;
    if (t->o->reproducible == PD_REPRODUCIBLE_TOPOLOGY) { /* see step.h */
        piece = train_streams_max_share(t->train ? t->train : t->test);
        max = 0;
    }
    if (!rc)
        rc = nn_eval_new(&t->eval, t->graph, err);
    return rc ? rc
              : train_threads_new(&t->threads, t->graph, n_threads, piece, max, t->eval,
                                  t->setup->cpus, err);
}

static void on_wait(void *arg, const struct ps_waiting *w) {
    struct trainer_state *t = arg;
    train_report_wait(&t->report, w);
}

static int join_servers(struct trainer_state *t, struct pd_err *err) {
    struct ps_client_opts opts = {
        .local = (int)t->o->local,
        .pservers = t->o->pserver_list,
        .trainer_id = t->id,
        .n_trainers = t->n_trainers,
        .n_streams = t->n_streams,
        .stream_lo = t->lo,
        .stream_hi = t->hi,
        .seed = (uint64_t)t->o->seed,
        .optimizer = {.conf = &t->config.optimizer},
        .update =
            ps_update_rule_at((size_t)t->o->update)->name, /* the choices of the option are the
                                                       names of the table: a test compares them */
        .staleness = (uint32_t)t->o->staleness,
        .async_lagged_grad_discard_ratio = t->o->async_lagged_grad_discard_ratio,
        .geo_sgd_need_push_nums = (uint32_t)t->o->geo_sgd_need_push_nums,
        .stop_on_nan = t->o->stop_on_nan != 0,
        .reject_nan = t->o->reject_nan != 0,
        .job = t->setup->job_id,
        .key = t->setup->key,
        .plain = t->o->encrypt == PD_ENCRYPT_OFF,
        .connect_timeout_ms = (uint64_t)(t->o->server_timeout * 1000),
        .reconnect_ms = (uint64_t)(t->o->reconnect_timeout * 1000),
        .heartbeat_ms = (uint64_t)(t->o->heartbeat_timeout * 1000),
        .crew = train_threads_workers(t->threads),
        .output_dir = t->setup->output_dir,
        .log = t->setup->log,
        .on_wait = on_wait,
        .on_wait_arg = t,
    };
    char pass[TRAIN_PASS_TEXT];
    int rc = ps_client_new(&t->client, &opts, err);
    t->report.client = t->client;
    if (!rc)
        rc = train_params_new(&t->params, t->graph, t->client, err);
    if (!rc && (rc = ps_start(t->client)))
        pd_err_copy(err, ps_client_err(t->client));
    if (!rc && ps_resumed(t->client, &t->from_pass, &t->from_batch))
        train_report_print(&t->report,
                           "Restarted: resuming in pass %s after %llu batches of this trainer",
                           train_report_pass_text(&t->report, t->from_pass, pass),
                           (unsigned long long)t->from_batch);
    /* The values before that step are gone where all trainers have ended it. A job restarts all its
     * processes after this failure, from the last checkpoint. */
    if (!rc && *t->setup->job_id && t->o->update == PD_UPDATE_SYNC && ps_resumed_torn(t->client))
        rc = pd_fail(err, PD_EFAIL,
                     "the lost process had ended a step at some server threads only, so this "
                     "process cannot repeat it with the same values");
    return rc;
}

/* A server that may not write in save_dir says so before the first step, not at the first save. */
static int try_save_dir(struct trainer_state *t, struct pd_err *err) {
    struct ps_models *m = NULL;
    if (t->id || t->o->job == PD_JOB_TEST)
        return 0;
    const int rc = ps_models(t->client, t->o->save_dir, "pass-init", &m);
    ps_models_free(m);
    return rc ? pd_err_copy(err, ps_client_err(t->client)) : 0;
}

/* Loads the initial values. All trainers have declared their parameters and agree. */
static int load(struct trainer_state *t, struct pd_err *err) {
    int rc = 0;
    /* Both enumerations have the same choices in the same order. */
    if (t->id == 0 && !ps_repeated(t->client))
        rc = ps_load(t->client, t->o->init_model_path,
                     (enum ps_missing)t->o->load_missing_parameter_strategy);
    if (!rc)
        rc = ps_barrier(t->client);
    if (!rc)
        return 0;
    return ps_client_err(t->client)->code ? pd_err_copy(err, ps_client_err(t->client))
                                          : pd_oom(err, "the model");
}

/* Checks before the first step that all trainers agree. Each trainer lists its files and reads its
 * options independently. If the lists differed, some files would be trained twice and others never;
 * if the options differed, the results would be silently wrong. Each trainer puts its fingerprints
 * at its own places of a sum and reads those of all. */
static int check_trainers_agree(struct trainer_state *t, struct pd_err *err) {
    static const char *const what[] = {
        "another list of training files", "another list of test files",
        "other options (batch_size, num_passes, saving_period, saving_period_by_batches, "
        "save_initial, "
        "save_state, keep_best, early_stopping_passes, resume, resume_older, start_pass, seed, "
        "shuffle_buffer, data, data_layout, "
        "reproducible, job, online_* or evaluators)"};
    const struct pd_options *o = t->o;
    uint64_t options = 0;
    const int64_t values[] = {o->batch_size,
                              o->num_passes,
                              o->saving_period,
                              o->save_initial,
                              o->seed,
                              o->reproducible,
                              o->job,
                              nn_graph_n_evaluators(t->graph),
                              o->saving_period_by_batches,
                              o->save_state,
                              (int64_t)ps_name_hash(o->keep_best),
                              o->early_stopping_passes,
                              o->resume_older,
                              o->start_pass,
                              (int64_t)t->setup->restarts,
                              (int64_t)ps_name_hash(o->resume),
                              o->shuffle_buffer,
                              o->data,
                              o->data_layout,
                              o->online_shuffle,
                              o->online_test,
                              o->online_base_period,
                              o->online_delta_period};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        options = pd_mix64(options ^ pd_mix64((uint64_t)values[i] + i));
    const uint64_t mine[] = {train_streams_fingerprint(t->train),
                             train_streams_fingerprint(t->test), options};
    double *all = pd_calloc(t->n_trainers, sizeof *all);
    int rc = all ? 0 : pd_oom(err, "a trainer");
    for (size_t k = 0; k < sizeof what / sizeof what[0] && !rc; k++) {
        memset(all, 0, t->n_trainers * sizeof *all);
        all[t->id] = (double)(mine[k] >> 12); /* 52 bits: a double holds them exactly */
        if ((rc = ps_reduce(t->client, all, t->n_trainers)))
            pd_err_copy(err, ps_client_err(t->client));
        for (uint32_t i = 0; i < t->n_trainers && !rc; i++)
            if (all[i] != all[t->id] &&
                (all[i] != 0 || t->o->on_trainer_lost !=
                                    PD_TRAINER_LOST_CONTINUE)) /* 0: this trainer is already lost */
                rc = pd_fail(err, PD_ECONF, "trainer %u has %s than trainer %u", i, what[k], t->id);
    }
    free(all);
    return rc;
}

static int evaluate(struct trainer_state *t, struct train_loop *l, int after, uint64_t pass,
                    struct pd_err *err) {
    char when[TRAIN_PASS_TEXT + 40], text[TRAIN_PASS_TEXT];
    if (!t->test)
        return 0;
    snprintf(when, sizeof when, "%s pass %s", after ? "after" : "before",
             train_report_pass_text(&t->report, pass, text));
    return train_evaluate(l, t->test, &(struct train_tested){when, after, pass}, err);
}

/* Fails if a whole pass had no sample: a model that was not trained must not be saved. */
static int check_samples(const struct trainer_state *t, const struct train_loop *l,
                         struct pd_err *err) {
    const struct model_ini *m = nn_graph_model(t->graph);
    int whole = !l->cut && !t->from_pass && !train_resumed(l);
    return !whole || l->batches || t->report.samples
               ? 0
               : pd_fail(err, PD_EDATA, "%s:%d: there is no sample in the files of 'train = %s'",
                         m->file, m->data.train.line, m->data.train.text);
}

static int run_passes(struct trainer_state *t, struct train_loop *l, struct pd_err *err) {
    const struct pd_options *o = t->o;
    const uint64_t first = t->from_pass
                               ? t->from_pass - 1
                               : train_first_pass(l); /* possibly only the end of a pass remains */
    int begins = !t->from_pass && !train_resumed(l),
        rc = o->save_initial && begins ? train_save_initial(l, err) : 0;
    if (!rc && begins)
        rc = evaluate(t, l, 0, 0, err);
    if (first >= (uint64_t)o->num_passes)
        train_report_print(&t->report, "All %llu passes are done", (unsigned long long)first);
    l->only_end = t->from_pass > 0;
    /* Stop requested between passes: nothing new to save. */
    for (uint64_t pass = first; pass < (uint64_t)o->num_passes && !rc && !l->leave && !l->best.ends;
         pass++) {
        l->skip = pass == t->from_pass ? t->from_batch : 0;
        l->best.is_best = 0;
        rc = train_pass(l, t->train, pass, err);
        if (!rc)
            rc = check_samples(t, l, err);
        if (!rc && !l->leave)
            rc = evaluate(t, l, 1, pass, err);
        if (!rc && !l->leave)
            rc = train_best_decide(l, pass, err);
        const int last = pass + 1 == (uint64_t)o->num_passes || l->leave || l->best.ends,
                  due = last || (o->saving_period && (pass + 1) % (uint64_t)o->saving_period == 0);
        l->best.is_extra = l->best.is_best && !due;
        if (!rc && (due || l->best.is_best))
            rc = train_save_pass(l, pass, last, err);
    }
    return rc ? rc : train_checkpoint_finish(l, err);
}

static int run_online(struct trainer_state *t, struct train_loop *l, struct pd_err *err) {
    const struct model_ini *m = nn_graph_model(t->graph);
    const struct train_online o = {.loop = l,
                                   .train = &t->spec[0],
                                   .test = &t->spec[1],
                                   .dir = m->dir,
                                   .pattern = m->data.train.text,
                                   .output_dir = t->setup->output_dir,
                                   .own_batches = t->o->update != PD_UPDATE_SYNC};
    return train_online(&o, err);
}

static int run_job(struct trainer_state *t, struct train_loop *l, struct pd_err *err) {
    if (t->o->job == PD_JOB_TEST)
        return train_evaluate(l, t->test, &(struct train_tested){.when = "of the saved model"},
                              err);
    return t->o->job == PD_JOB_ONLINE ? run_online(t, l, err) : run_passes(t, l, err);
}

static int train_or_test(struct trainer_state *t, struct pd_err *err) {
    int rc = t->o->reader_threads
                 ? data_workers_new(&t->workers, (uint32_t)t->o->reader_threads, err)
                 : 0;
    if (!rc)
        rc = open_data(t, err);
    if (!rc)
        rc = join_servers(t, err);
    if (!rc && !t->from_pass)
        rc = check_trainers_agree(t, err);
    if (rc)
        return rc;
    struct train_loop l = {.options = t->o,
                           .graph = t->graph,
                           .client = t->client,
                           .params = t->params,
                           .n_streams = t->n_streams,
                           .stream_lo = t->lo,
                           .stream_hi = t->hi,
                           .clip_norm = t->config.optimizer.clip_norm,
                           .now = t->input[0],
                           .next = t->input[1],
                           .overlap = t->o->overlap && !t->o->local,
                           .partial_data = t->fetch != NULL,
                           .threads = t->threads,
                           .eval = t->eval,
                           .batch = &t->batch,
                           .report = &t->report,
                           .stop = t->setup->stop,
                           .stop_arg = t->setup->stop_arg};
    if ((rc = train_best_init(&l.best, t->o, t->test != NULL, t->eval, err)))
        return rc;
    if (has_no_second_server(t->o) && !t->id)
        train_report_print(&t->report,
                           "Only one pserver is left: from now on checkpoints have no second "
                           "copy (checkpoint_copies = 2)");
    rc = train_checkpoints_new(&l.checkpoints, (const char *)t->config.text.data,
                               !has_no_second_server(t->o), err);
    if (!rc)
        rc = try_save_dir(t, err);
    if (!rc && t->o->job != PD_JOB_TEST && !t->from_pass)
        rc = train_resume(&l, t->setup->restarts, t->setup->lost_nodes, err);
    if (!rc && t->from_pass)
        rc = train_best_find(&l, err);
    if (!rc && *t->o->init_model_path && !t->from_pass && !train_resumed(&l))
        rc = load(t, err);
    if (!rc)
        rc = run_job(t, &l, err);
    train_checkpoints_free(l.checkpoints);
    if (!rc && (rc = ps_bye(t->client)))
        pd_err_copy(err, ps_client_err(t->client));
    return rc;
}

static void on_checked(void *arg, const struct nn_check *c) {
    struct trainer_state *t = arg;
    char skipped[80] = "";
    if (c->n_skipped)
        snprintf(skipped, sizeof skipped, "; %llu at a kink of an activation, skipped",
                 (unsigned long long)c->n_skipped);
    train_report_print(&t->report,
                       "checkgrad %-20s %s: largest relative error %.3g in %llu values (at %llu: "
                       "%.8g, numeric %.8g)%s",
                       c->param, c->ok ? "ok" : "WRONG", c->max_relative,
                       (unsigned long long)(c->n_checked - c->n_skipped),
                       (unsigned long long)c->worst, c->analytic, c->numeric, skipped);
}

int train_run(const struct train_setup *setup, struct pd_err *err) {
    struct trainer_state t = {.setup = setup, .o = setup->options};
    pd_spans_thread(setup->spans, "trainer");
    int rc = check_options(&t, err);
    t.report = (struct train_report){.out_fd = setup->out_fd,
                                     .event_fd = setup->event_fd,
                                     .log = setup->log_lines ? setup->log : NULL,
                                     .trainer_id = t.id,
                                     .doing = TRAIN_LOADING,
                                     .log_period = (uint64_t)t.o->log_period,
                                     .n_passes = (uint64_t)t.o->num_passes,
                                     .unit = "samples"};
    if (!rc)
        rc = train_config_load(&t.config, t.o, t.o->config, err);
    t.graph = t.config.graph;
    if (!rc) {
        pd_info(setup->log,
                "trainer %u of %u, streams %u to %u of %u, %lld thread(s), OpenBLAS for %s with %d "
                "each",
                t.id, t.n_trainers, t.lo, t.hi - 1, t.n_streams, (long long)t.o->trainer_count,
                openblas_get_corename(), openblas_get_num_threads());
        train_report_model(&t.report, t.graph);
        struct nn_check_opts check = {.seed = (uint64_t)t.o->seed};
        rc = t.o->job == PD_JOB_CHECKGRAD ? nn_checkgrad(t.graph, &check, on_checked, &t, err)
                                          : train_or_test(&t, err);
    }
    if (rc && setup->on_failure)
        setup->on_failure(setup->failure_arg, err);
    if (rc && t.client)
        ps_abandon(t.client,
                   err); /* tell the others the reason, not only that this trainer is gone */
    train_params_free(t.params);
    ps_client_free(t.client);
    nn_eval_free(t.eval);
    train_threads_free(t.threads);
    for (int i = 0; i < 2; i++) {
        nn_feed_free(t.input[i].feed);
        free(t.input[i].counts);
    }
    pd_batch_release(&t.batch);
    train_streams_free(t.train);
    train_streams_free(t.test);
    data_workers_free(t.workers);
    data_fetch_free(t.fetch);
    train_config_release(&t.config);
    pd_spans_thread_end();
    return rc;
}
