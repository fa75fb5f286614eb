/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c - the data of a job for the page, from its record; see report.h. A record may be
 * cut off, damaged or of another version: the page shows the readable parts, and a note names the
 * rest.
 */
#include "base/json_text.h"
#include "launcher/record/record.h"
#include "launcher/report/report.h"

enum { RUN_MAX = 4 << 20, MARKS_MAX = 200, TEXT_MAX = 300 };

__attribute__((format(printf, 2, 3))) static void note(struct report_job *j, const char *fmt, ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_array_append_new(j->notes, json_string(text));
}

/* --- run.json --- */

static json_t *read_run(struct report_job *j, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf text = {0};
    json_error_t bad;
    json_t *run = NULL;
    if (!pd_fmt(path, sizeof path, "%s/run.json", j->dir) &&
        !pd_read_regular(path, RUN_MAX, &text, err))
        run = json_loadb((const char *)text.data, text.len, 0, &bad);
    if (err->code)
        note(j, "run.json cannot be read: %.400s", err->msg);
    else if (!json_is_object(run))
        note(j, "run.json is damaged or cut off (line %d): settings and result are missing",
             bad.line);
    else if (json_integer_value(json_object_get(run, "version")) != RECORD_VERSION)
        note(j,
             "run.json is of another version of paddlectl (%lld, this one knows %d): what this "
             "version knows is shown",
             (long long)json_integer_value(json_object_get(run, "version")), RECORD_VERSION);
    *err = (struct pd_err){0};
    pd_buf_release(&text);
    if (json_is_object(run))
        return run;
    json_decref(run);
    return json_object();
}

/* Members that the page does not show: the command line may have secrets, hosts may be many. */
static void shorten_run(json_t *run) {
    static const char *const counted[] = {"hosts", "pservers", "trainers"};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        json_object_set_new(
            run, counted[i],
            json_integer((json_int_t)json_array_size(json_object_get(run, counted[i]))));
    json_object_del(run, "command");
    json_object_del(run, "settings");
}

/* --- metrics.jsonl --- */

/* At most TEXT_MAX bytes, whole characters. */
static json_t *short_text(const char *s) { return json_stringn(s, report_cut(s, TEXT_MAX)); }

/* As isBad in page.js. */
static int is_failure(const json_t *event) {
    const char *ev = pd_json_text(event, "ev"), *state = pd_json_text(event, "state");
    return !strcmp(ev, "lost") || !strcmp(ev, "failed") ||
           (!strcmp(ev, "state") &&
            (pd_starts_with(state, "failed") || pd_starts_with(state, "lost") ||
             pd_starts_with(state, "restart")));
}

static void add_mark(struct report_job *j, const json_t *event) {
    static const char *const keys[] = {"t",    "ev",     "state", "text", "path", "host",
                                       "from", "reason", "node",  "role", "rank"};
    const char *ev = pd_json_text(event, "ev");
    j->n_lost += !strcmp(ev, "lost");
    j->n_restarts +=
        !strcmp(ev, "state") && pd_starts_with(pd_json_text(event, "state"), "restart");
    size_t i = 0;
    if (++j->n_marks > MARKS_MAX) { /* the oldest one gives way, if it is no failure */
        while (i < MARKS_MAX && is_failure(json_array_get(j->marks, i)))
            i++;
        if (json_array_remove(j->marks, i))
            return;
    }
    json_t *o = json_object();
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *v = json_object_get(event, keys[i]);
        if (json_is_string(v) && *json_string_value(v))
            json_object_set_new(o, keys[i], short_text(json_string_value(v)));
        else if (json_is_number(v))
            json_object_set(o, keys[i], v);
    }
    json_array_append_new(j->marks, o);
}

static void add_event(void *arg, json_t *event) {
    struct report_job *j = arg;
    const json_int_t t = json_integer_value(json_object_get(event, "t"));
    const char *ev = pd_json_text(event, "ev");
    if (t > 0 && (!j->first_ms || t < j->first_ms))
        j->first_ms = t;
    if (report_is_series(ev)) {
        j->no_memory |= report_series_add(&j->many, event) != 0;
    } else if (!strcmp(ev, "model")) { /* of the last start */
        json_decref(j->graph);
        j->graph =
            json_pack("{s:O*, s:O*, s:O*}", "nodes", json_object_get(event, "nodes"), "values",
                      json_object_get(event, "values"), "flops", json_object_get(event, "flops"));
    } else if (*ev && strcmp(ev, "doing")) {
        add_mark(j, event);
    }
}

static void note_damage(void *arg, const char *text) { note(arg, "%s", text); }

static struct timespec run_time(const struct report_job *j) {
    char path[PATH_MAX];
    struct stat st = {0};
    if (!pd_fmt(path, sizeof path, "%s/run.json", j->dir) && stat(path, &st))
        st = (struct stat){0};
    return st.st_mtim;
}

int report_job_read(struct report_job *j, const char *dir, struct pd_err *err) {
    struct pd_err why = {0};
    *j = (struct report_job){
        .marks = json_array(), .notes = json_array(), .settings = json_object()};
    if (!j->marks || !j->notes || !j->settings || pd_fmt(j->dir, sizeof j->dir, "%s", dir))
        return pd_oom(err, "the report");
    j->run_time = run_time(j);
    j->run = read_run(j, &why);
    if (report_settings(j->settings, dir, j->run, &why))
        note(j, "settings of train.ini are missing: %.400s", why.msg);
    shorten_run(j->run);
    why = (struct pd_err){0};
    if (record_read_more(dir, &j->place, add_event, j, &why))
        note(j, "metrics.jsonl cannot be read: %.400s", why.msg);
    else
        record_damage(dir, &j->place, note_damage, j);
    return j->no_memory ? pd_oom(err, "the report") : 0;
}

int report_job_update(struct report_job *j, int *changed, struct pd_err *err) {
    char dir[PATH_MAX];
    struct pd_err why = {0};
    const struct timespec t = run_time(j);
    const uint64_t before = j->place.n_lines;
    if (record_changed(j->dir, &j->place) || t.tv_sec != j->run_time.tv_sec ||
        t.tv_nsec != j->run_time.tv_nsec) {
        *changed = 1;
        pd_fmt(dir, sizeof dir, "%s", j->dir);
        report_job_release(j);
        return report_job_read(j, dir, err);
    }
    record_read_more(j->dir, &j->place, add_event, j, &why);
    *changed = j->place.n_lines != before;
    return j->no_memory ? pd_oom(err, "the report") : 0;
}

/* The notes, and those about the limits of a page. */
static json_t *notes_of(const struct report_job *j) {
    json_t *notes = json_copy(j->notes);
    const struct report_many *m = &j->many;
    if (j->n_marks > MARKS_MAX)
        json_array_append_new(
            notes, json_sprintf("%zu of %zu events are shown: failures, and the last of the others",
                                json_array_size(j->marks), j->n_marks));
    if (m->n_lost_events)
        json_array_append_new(
            notes,
            json_sprintf("%zu events of further trainers are not shown: a report has at most "
                         "%zu curves of a kind for each run",
                         m->n_lost_events, m->n));
    if (m->n_lost_values)
        json_array_append_new(
            notes, json_sprintf("%zu values are not shown: an event has too many, or the name is "
                                "too long; the first one is %s",
                                m->n_lost_values, m->lost_key));
    return notes;
}

json_t *report_job_json(const struct report_job *j, const char *state, struct report_points max,
                        struct pd_err *err) {
    const json_int_t started = json_integer_value(json_object_get(j->run, "started_ms"));
    const json_int_t t0 =
        started > 0 && (!j->first_ms || started < j->first_ms) ? started : j->first_ms;
    const char *slash = strrchr(j->dir, '/');
    json_t *notes = notes_of(j);
    json_t *out = json_pack("{s:O, s:O, s:s, s:s, s:I, s:o, s:O, s:O*, s:o}", "run", j->run,
                            "settings", j->settings, "job", slash ? slash + 1 : j->dir, "state",
                            state ? state : pd_json_text(j->run, "state"), "t0", t0, "series",
                            report_series_json(&j->many, t0, max), "marks", j->marks, "graph",
                            j->graph, "notes", notes);
    if (!out)
        pd_oom(err, "the report");
    return out;
}

void report_job_release(struct report_job *j) {
    report_series_release(&j->many);
    json_decref(j->run);
    json_decref(j->settings);
    json_decref(j->marks);
    json_decref(j->graph);
    json_decref(j->notes);
}
