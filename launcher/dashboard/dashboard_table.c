/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_table.c - the jobs of the hosts as JSON for the page; see dashboard.h. */
#include "launcher/dashboard/dashboard.h"
#include "launcher/text/fold_lines.h"

enum { SILENT_MAX = 20 }; /* lines about hosts that do not answer */

/* The text without a character that was cut in its middle. */
static json_t *text_json(const char *s) { return json_stringn(s, pd_utf8_valid(s, strlen(s))); }

static json_t *known(double v) { return isfinite(v) && v >= 0 ? json_real(v) : json_null(); }

static int has_record(const struct dashboard_jobs *d, const char *id) {
    char path[PATH_MAX];
    return !pd_fmt(path, sizeof path, "%s/%s/run.json", d->outputs, id) && !access(path, F_OK);
}

static json_t *progress_json(const struct progress *p) {
    json_t *metrics = json_object();
    for (int i = 0; i < p->n_metrics; i++)
        json_object_set_new(metrics, p->metric[i].name, json_real(p->metric[i].value));
    json_t *o = json_pack("{s:I, s:I, s:s, s:o}", "pass", (json_int_t)p->pass, "num_passes",
                          (json_int_t)p->num_passes, "unit", p->unit, "metrics", metrics);
    json_object_set_new(o, "fraction", known(p->fraction));
    json_object_set_new(o, "cost", isfinite(p->cost) ? json_real(p->cost) : json_null());
    json_object_set_new(o, "rate", known(p->rate));
    return o;
}

static json_t *job_json(const struct dashboard_jobs *d, const struct host_job *j) {
    json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:b, s:b}",
                          "job", j->id, "name", text_json(j->name), "user", text_json(j->user),
                          "state", text_json(j->state), "running", j->n_running, "having",
                          j->n_having, "nodes", j->n_nodes, "lost", j->n_lost, "attached",
                          j->is_attached, "started_ms", (json_int_t)j->started_ms, "ended_ms",
                          (json_int_t)j->ended_ms, "changed_ms", (json_int_t)j->changed_ms,
                          "record", has_record(d, j->id), "elsewhere", j->is_elsewhere);
    json_object_set_new(o, "progress", j->has_progress ? progress_json(&j->progress) : json_null());
    return o;
}

static void add_silent(void *arg, const char *before, const char *who, const char *text,
                       size_t n_hosts) {
    json_t *list = arg;
    char line[600];
    (void)before;
    (void)n_hosts;
    if (json_array_size(list) < SILENT_MAX &&
        !pd_fmt(line, sizeof line, "%.200s: %.390s", who, text))
        json_array_append_new(list, text_json(line));
}

static json_t *silent_json(const struct hosts_picture *p) {
    json_t *list = json_array();
    struct fold_line *v = pd_calloc(p->n_hosts, sizeof *v);
    for (size_t i = 0; v && i < p->n_hosts; i++)
        v[i] = (struct fold_line){.name = p->hosts[i].name, .text = p->hosts[i].error};
    if (v)
        fold_lines(v, p->n_hosts, add_silent, list);
    free(v);
    return list;
}

json_t *dashboard_hosts_json(const struct dashboard_jobs *d) {
    const struct hosts_picture *p = d->picture;
    if (!d->asks)
        return *d->why_not ? json_pack("{s:o}", "why_not", text_json(d->why_not)) : NULL;
    if (!p)
        return json_pack("{s:b}", "asking", 1);
    json_t *jobs = json_array();
    for (size_t i = 0; i < p->n_jobs; i++)
        json_array_append_new(jobs, job_json(d, &p->jobs[i]));
    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "n", (json_int_t)p->n_hosts, "answered",
                     (json_int_t)p->n_answered, "n_jobs", (json_int_t)p->n_all, "jobs", jobs,
                     "silent", silent_json(p));
}
