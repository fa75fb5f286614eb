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

static double running(const struct dashboard_job *j) { return !strcmp(j->state, "running"); }

static double started(const struct dashboard_job *j) { return (double)j->started_ms / 1000; }

static double lost(const struct dashboard_job *j) { return (double)j->job.n_lost; }

static double restarts(const struct dashboard_job *j) { return (double)j->job.n_restarts; }

static const struct of_job {
    const char *name, *type, *help;
    double (*value)(const struct dashboard_job *j);
} of_jobs[] = {
    {"paddle_job_running", "gauge", "1 while a paddlectl follows the job", running},
    {"paddle_job_start_time_seconds", "gauge", "Start of the job, since 1970", started},
    {"paddle_job_lost_hosts_total", "counter", "Hosts that were lost", lost},
    {"paddle_job_restarts_total", "counter", "Restarts of the job", restarts},
};

/* --- numbers of events --- */

/* `key` is that of a column; with `label` it is the beginning of keys, whose rest is the label. */
static const struct of_series {
    const char *name, *type, *help, *ev, *key, *label;
    int of_chief; /* a number of the whole job, which trainer 0 reports */
    double plus;
} of_series[] = {
    {"paddle_job_pass", "gauge", "The pass that runs, from 1", "progress", "pass", NULL, 1, 1},
    {"paddle_job_pass_ratio", "gauge", "Part of this pass that is done", "progress", "fraction",
     NULL, 1, 0},
    {"paddle_job_cost", "gauge", "Cost per sample while training", "progress", "cost", NULL, 1, 0},
    {"paddle_job_units_per_second", "gauge", "Speed of the job in samples or words", "progress",
     "rate", NULL, 1, 0},
    {"paddle_job_passes_total", "counter", "Passes that have ended", "pass", "pass", NULL, 1, 1},
    {"paddle_job_train_metric", "gauge", "Evaluators over the training data of the last pass",
     "pass", "metrics.", "metric", 1, 0},
    {"paddle_job_test_cost", "gauge", "Cost per sample of the last test", "test", "cost", NULL, 1,
     0},
    {"paddle_job_test_metric", "gauge", "Evaluators of the last test", "test", "metrics.", "metric",
     1, 0},
    {"paddle_job_table_rows", "gauge", "Rows of a table on all servers", "pass", "rows.", "table",
     1, 0},
    {"paddle_trainer_units_per_second", "gauge", "Speed of a trainer in samples or words",
     "progress", "own_rate", NULL, 0, 0},
    {"paddle_trainer_wait_ratio", "gauge", "Share of its time that a trainer waits for servers",
     "progress", "wait", NULL, 0, 0},
    {"paddle_trainer_sent_bytes_per_second", "gauge", "Bytes from a trainer to servers, now",
     "progress", "sent_rate", NULL, 0, 0},
    {"paddle_trainer_received_bytes_per_second", "gauge", "Bytes from servers to a trainer, now",
     "progress", "received_rate", NULL, 0, 0},
    {"paddle_trainer_peak_memory_bytes", "gauge", "Most resident memory of a trainer", "pass",
     "peak_memory", NULL, 0, 0},
    {"paddle_trainer_sent_bytes_total", "counter", "Bytes from a trainer to servers", "pass",
     "sent", NULL, 0, 0},
    {"paddle_trainer_received_bytes_total", "counter", "Bytes from servers to a trainer", "pass",
     "received", NULL, 0, 0},
    {"paddle_pserver_sent_bytes_per_second", "gauge", "Bytes from a server to trainers, now",
     "serving", "sent_rate", NULL, 0, 0},
    {"paddle_pserver_received_bytes_per_second", "gauge", "Bytes from trainers to a server, now",
     "serving", "received_rate", NULL, 0, 0},
    {"paddle_pserver_waiting_requests", "gauge", "Requests to a server that wait for a step",
     "serving", "waiting", NULL, 0, 0},
    {"paddle_pserver_queued_bytes", "gauge", "Answers that trainers have not taken yet", "serving",
     "queued", NULL, 0, 0},
    {"paddle_pserver_table_rows", "gauge", "Rows of a table on a server", "serving", "rows.",
     "table", 0, 0},
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
            pd_put_fmt(out, "%s", m->name);
            put_job_labels(out, d->v[i]);
            pd_put_fmt(out, "} %.17g\n", m->value(d->v[i]));
        }
    }
    for (size_t k = 0; k < sizeof of_series / sizeof of_series[0]; k++) {
        put_head(out, of_series[k].name, of_series[k].type, of_series[k].help);
        for (size_t i = 0; i < d->n; i++)
            for (size_t s = 0; s < d->v[i]->job.many.n; s++)
                put_series(out, &of_series[k], d->v[i], d->v[i]->job.many.v[s]);
    }
    return out->failed ? pd_oom(err, "the metrics") : 0;
}
