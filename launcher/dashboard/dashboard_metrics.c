/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_metrics.c - the runs that the dashboard shows, in Prometheus's text format
 * (prometheus.io, "Exposition formats", version 0.0.4): base units, counters end with _total. */
#include "launcher/dashboard/dashboard.h"

static void put_label(struct pd_buf *out, const char *name, const char *value) {
    pd_put_fmt(out, "%s=\"", name);
    for (const char *p = value; *p; p++)
        if (*p == '\n')
            pd_put(out, "\\n", 2);
        else
            pd_put_fmt(out, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    pd_put(out, "\"", 1);
}

static void put_job_labels(struct pd_buf *out, const struct dashboard_job *j) {
    const char *name = json_string_value(json_object_get(j->job.run, "name"));
    pd_put(out, "{", 1);
    put_label(out, "job_id", j->id);
    pd_put(out, ",", 1);
    put_label(out, "job_name", name ? name : "");
}

static void put_head(struct pd_buf *out, const char *name, const char *type, const char *help) {
    pd_put_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* --- one number of each job --- */

enum job_number {
    NONE,
    RUNNING,
    STARTED,
    LOST,
    RESTARTS,
    HOSTS,
    PASS,
    PASS_RATIO,
    COST,
    SPEED,
    TRAIN_METRICS,
    TEST_METRICS
};

static double of_record(const struct dashboard_job *j, enum job_number which) {
    switch (which) {
    case RUNNING:
        return !strcmp(j->state, "running");
    case STARTED:
        return (double)j->started_ms / 1000;
    case LOST:
        return (double)j->job.n_lost;
    case RESTARTS:
        return (double)j->job.n_restarts;
    default:
        return NAN;
    }
}

/* Of a job whose record is not here, as its agents say; NAN: they do not say. */
static double of_agents(const struct host_job *j, enum job_number which) {
    const struct progress *p = j->has_progress ? &j->progress : NULL;
    switch (which) {
    case RUNNING:
        return j->n_running > 0;
    case STARTED:
        return j->started_ms ? (double)j->started_ms / 1000 : NAN;
    case LOST:
        return j->is_elsewhere ? NAN : j->n_lost;
    case HOSTS:
        return j->n_running;
    case PASS:
        return p ? (double)p->pass + 1 : NAN;
    case PASS_RATIO:
        return p && p->fraction >= 0 ? p->fraction : NAN;
    case COST:
        return p ? p->cost : NAN;
    case SPEED:
        return p && p->rate >= 0 ? p->rate : NAN;
    default:
        return NAN;
    }
}

static const struct of_job {
    const char *name, *type, *help;
    enum job_number number;
} of_jobs[] = {
    {"paddle_job_running", "gauge", "1 while the job runs, or a paddlectl here follows it",
     RUNNING},
    {"paddle_job_start_time_seconds", "gauge", "Start of the job, since 1970", STARTED},
    {"paddle_job_lost_hosts_total", "counter", "Hosts that were lost", LOST},
    {"paddle_job_restarts_total", "counter", "Restarts of the job", RESTARTS},
    {"paddle_job_hosts", "gauge", "Hosts of conf.ini on which the job runs", HOSTS},
};

static int is_shown(const struct dashboard_jobs *d, const char *id) {
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->v[i]->id, id))
            return 1;
    return 0;
}

/* The labels up to the last one of a job of the hosts. The owner sets such a job apart from those
 * with a record here. */
static void put_agents_labels(struct pd_buf *out, const char *name, const struct host_job *j) {
    pd_put_fmt(out, "%s{", name);
    put_label(out, "job_id", j->id);
    pd_put(out, ",", 1);
    put_label(out, "job_name", j->name);
    pd_put(out, ",", 1);
    put_label(out, "user", j->user);
}

static void put_of_agents(struct pd_buf *out, const struct dashboard_jobs *d, const char *name,
                          enum job_number which) {
    for (size_t i = 0; d->picture && i < d->picture->n_jobs; i++) {
        const struct host_job *j = &d->picture->jobs[i];
        const double v = of_agents(j, which);
        if (isnan(v) || is_shown(d, j->id))
            continue;
        put_agents_labels(out, name, j);
        pd_put_fmt(out, "} %.17g\n", v);
    }
}

/* The evaluators in the progress of jobs: `of_test` those of the last test, else the others. */
static void put_agents_metrics(struct pd_buf *out, const struct dashboard_jobs *d, const char *name,
                               int of_test) {
    for (size_t i = 0; d->picture && i < d->picture->n_jobs; i++) {
        const struct host_job *j = &d->picture->jobs[i];
        for (int k = 0; j->has_progress && k < j->progress.n_metrics; k++) {
            const char *metric = j->progress.metric[k].name;
            if (is_shown(d, j->id) || pd_starts_with(metric, "test.") != of_test)
                continue;
            put_agents_labels(out, name, j);
            pd_put(out, ",", 1);
            put_label(out, "metric", metric);
            pd_put_fmt(out, "} %.17g\n", j->progress.metric[k].value);
        }
    }
}

static void put_hosts(struct pd_buf *out, const struct hosts_picture *p) {
    put_head(out, "paddle_host_up", "gauge", "1: the host of conf.ini answers");
    for (size_t i = 0; p && i < p->n_hosts; i++) {
        if (!p->hosts[i].has_answered && !p->hosts[i].error)
            continue; /* it was not asked yet */
        pd_put_fmt(out, "paddle_host_up{");
        put_label(out, "host", p->hosts[i].name);
        pd_put_fmt(out, "} %d\n", p->hosts[i].has_answered);
    }
}

/* --- numbers of events --- */

/* `key` is that of a column; with `label` it is the beginning of keys, whose rest is the label. */
static const struct of_series {
    const char *name, *type, *help, *ev, *key, *label;
    int of_chief; /* a number of the whole job, which trainer 0 reports */
    double plus;
    enum job_number of_agents; /* what agents say of it, for a job whose record is not here */
} of_series[] = {
    {"paddle_job_pass", "gauge", "The pass that runs, from 1", "progress", "pass", NULL, 1, 1,
     PASS},
    {"paddle_job_pass_ratio", "gauge", "Part of this pass that is done", "progress", "fraction",
     NULL, 1, 0, PASS_RATIO},
    {"paddle_job_cost", "gauge", "Cost per sample while training", "progress", "cost", NULL, 1, 0,
     COST},
    {"paddle_job_units_per_second", "gauge", "Speed of the job in samples or words", "progress",
     "rate", NULL, 1, 0, SPEED},
    {"paddle_job_passes_total", "counter", "Passes that have ended", "pass", "pass", NULL, 1, 1,
     NONE},
    {"paddle_job_train_metric", "gauge", "Evaluators over the training data of the last pass",
     "pass", "metrics.", "metric", 1, 0, TRAIN_METRICS},
    {"paddle_job_test_cost", "gauge", "Cost per sample of the last test", "test", "cost", NULL, 1,
     0, NONE},
    {"paddle_job_test_metric", "gauge", "Evaluators of the last test", "test", "metrics.", "metric",
     1, 0, TEST_METRICS},
    {"paddle_job_table_rows", "gauge", "Rows of a table on all servers", "pass", "rows.", "table",
     1, 0, NONE},
    {"paddle_trainer_units_per_second", "gauge", "Speed of a trainer in samples or words",
     "progress", "own_rate", NULL, 0, 0, NONE},
    {"paddle_trainer_wait_ratio", "gauge", "Share of its time that a trainer waits for servers",
     "progress", "wait", NULL, 0, 0, NONE},
    {"paddle_trainer_sent_bytes_per_second", "gauge", "Bytes from a trainer to servers, now",
     "progress", "sent_rate", NULL, 0, 0, NONE},
    {"paddle_trainer_received_bytes_per_second", "gauge", "Bytes from servers to a trainer, now",
     "progress", "received_rate", NULL, 0, 0, NONE},
    {"paddle_trainer_peak_memory_bytes", "gauge", "Most resident memory of a trainer", "pass",
     "peak_memory", NULL, 0, 0, NONE},
    {"paddle_trainer_sent_bytes_total", "counter", "Bytes from a trainer to servers", "pass",
     "sent", NULL, 0, 0, NONE},
    {"paddle_trainer_received_bytes_total", "counter", "Bytes from servers to a trainer", "pass",
     "received", NULL, 0, 0, NONE},
    {"paddle_pserver_sent_bytes_per_second", "gauge", "Bytes from a server to trainers, now",
     "serving", "sent_rate", NULL, 0, 0, NONE},
    {"paddle_pserver_received_bytes_per_second", "gauge", "Bytes from trainers to a server, now",
     "serving", "received_rate", NULL, 0, 0, NONE},
    {"paddle_pserver_waiting_requests", "gauge", "Requests to a server that wait for a step",
     "serving", "waiting", NULL, 0, 0, NONE},
    {"paddle_pserver_queued_bytes", "gauge", "Answers that trainers have not taken yet", "serving",
     "queued", NULL, 0, 0, NONE},
    {"paddle_pserver_table_rows", "gauge", "Rows of a table on a server", "serving", "rows.",
     "table", 0, 0, NONE},
};

static void put_series(struct pd_buf *out, const struct of_series *m, const struct dashboard_job *j,
                       const struct report_series *s) {
    const struct report_who who = report_series_who(s);
    const size_t n = strlen(m->key);
    const char *key;
    double v;
    if (strcmp(who.ev, m->ev) || (m->of_chief && who.rank))
        return;
    for (size_t i = 0; report_series_last(s, i, &key, &v); i++) {
        if (m->label ? strncmp(key, m->key, n) : strcmp(key, m->key))
            continue;
        pd_put_fmt(out, "%s", m->name);
        put_job_labels(out, j);
        if (m->label) {
            pd_put(out, ",", 1);
            put_label(out, m->label, key + n);
        }
        if (!m->of_chief) {
            pd_put_fmt(out, ",%s=\"%lld\",", strcmp(who.ev, "serving") ? "trainer" : "pserver",
                       (long long)who.rank);
            put_label(out, "host", who.host);
        }
        pd_put_fmt(out, "} %.17g\n", v + m->plus);
    }
}

int dashboard_metrics(struct pd_buf *out, const struct dashboard_jobs *d, struct pd_err *err) {
    for (size_t k = 0; k < sizeof of_jobs / sizeof of_jobs[0]; k++) {
        const struct of_job *m = &of_jobs[k];
        put_head(out, m->name, m->type, m->help);
        for (size_t i = 0; i < d->n; i++) {
            if (isnan(of_record(d->v[i], m->number)))
                continue;
            pd_put_fmt(out, "%s", m->name);
            put_job_labels(out, d->v[i]);
            pd_put_fmt(out, "} %.17g\n", of_record(d->v[i], m->number));
        }
        put_of_agents(out, d, m->name, m->number);
    }
    put_hosts(out, d->picture);
    for (size_t k = 0; k < sizeof of_series / sizeof of_series[0]; k++) {
        put_head(out, of_series[k].name, of_series[k].type, of_series[k].help);
        for (size_t i = 0; i < d->n; i++)
            for (size_t s = 0; s < d->v[i]->job.many.n; s++)
                put_series(out, &of_series[k], d->v[i], d->v[i]->job.many.v[s]);
        const enum job_number told = of_series[k].of_agents;
        if (told == TRAIN_METRICS || told == TEST_METRICS)
            put_agents_metrics(out, d, of_series[k].name, told == TEST_METRICS);
        else
            put_of_agents(out, d, of_series[k].name, told);
    }
    return out->failed ? pd_oom(err, "the metrics") : 0;
}
