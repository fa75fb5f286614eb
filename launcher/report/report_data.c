/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c - what the page shows of a job, from its record; see report.h. A record may be cut
 * off, damaged or of another version: what can be read is taken, and a note says the rest. */
#include "launcher/record/record.h"
#include "launcher/report/report.h"

enum { RUN_MAX = 4 << 20, MARKS_MAX = 200, TEXT_MAX = 300, PART = 1 << 16 };

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

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

static uint64_t count_lines(const char *path) {
    struct stat st;
    char *part = pd_malloc(PART);
    const int fd = part ? pd_open_regular(path, O_RDONLY, 0, &st) : -1;
    uint64_t n = 0;
    char last = '\n';
    for (ssize_t k; fd >= 0 && (k = read(fd, part, PART)) > 0; last = part[k - 1])
        for (const char *p = part; (p = memchr(p, '\n', (size_t)(part + k - p))); p++)
            n++;
    pd_close(fd);
    free(part);
    return n + (last != '\n');
}

static void count_event(void *arg, json_t *event) {
    struct report_job *j = arg;
    const json_int_t t = json_integer_value(json_object_get(event, "t"));
    const json_t *version = json_object_get(event, "version");
    j->n_events++;
    if (version && json_integer_value(version) != RECORD_VERSION)
        note(j,
             "metrics.jsonl is of another version of paddlectl (%lld, this one knows %d): what "
             "this version knows is shown",
             (long long)json_integer_value(version), RECORD_VERSION);
    if (t > 0 && (!j->first_ms || t < j->first_ms))
        j->first_ms = t;
    if (report_series_takes(text_of(event, "ev")))
        report_series_count(&j->many, event);
}

int report_job_read(struct report_job *j, const char *dir, const char *state, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_err why = {0};
    *j = (struct report_job){.state = state, .out = json_object(), .notes = json_array()};
    if (!j->out || !j->notes || pd_fmt(j->dir, sizeof j->dir, "%s", dir))
        return pd_oom(err, "the report");
    json_t *run = read_run(j, &why), *settings = json_object();
    if (report_settings(settings, dir, run, &why))
        note(j, "settings of train.ini are missing: %.400s", why.msg);
    shorten_run(run);
    if (json_object_set_new(j->out, "run", run) ||
        json_object_set_new(j->out, "settings", settings))
        return pd_oom(err, "the report");
    why = (struct pd_err){0};
    if (record_read_metrics(dir, count_event, j, &why))
        note(j, "metrics.jsonl cannot be read: %.400s", why.msg);
    else if (!pd_fmt(path, sizeof path, "%s/metrics.jsonl", dir)) {
        const uint64_t lines = count_lines(path);
        if (lines > j->n_events)
            note(j,
                 "%llu of %llu lines of metrics.jsonl cannot be read: they are damaged, or the "
                 "record is cut off",
                 (unsigned long long)(lines - j->n_events), (unsigned long long)lines);
    }
    return 0;
}

/* --- the second reading --- */

struct taking {
    struct report_job *j;
    json_t *marks, *graph;
    size_t max_points, n_marks;
    json_int_t t0;
};

/* At most TEXT_MAX bytes, whole characters. */
static json_t *short_text(const char *s) {
    size_t n = strlen(s);
    if (n <= TEXT_MAX)
        return json_string(s);
    for (n = TEXT_MAX; n && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
        ;
    return json_stringn(s, n);
}

static void take_mark(struct taking *x, const json_t *event) {
    static const char *const keys[] = {"ev",   "state",  "text", "path", "host",
                                       "from", "reason", "node", "role", "rank"};
    if (++x->n_marks > MARKS_MAX)
        return;
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *v = json_object_get(event, keys[i]);
        if (json_is_string(v) && *json_string_value(v))
            json_object_set_new(o, keys[i], short_text(json_string_value(v)));
        else if (json_is_number(v))
            json_object_set(o, keys[i], v);
    }
    const json_int_t t = json_integer_value(json_object_get(event, "t"));
    json_object_set_new(o, "t", json_integer(t > x->t0 ? t - x->t0 : 0));
    json_array_append_new(x->marks, o);
}

static void take_event(void *arg, json_t *event) {
    struct taking *x = arg;
    const char *ev = text_of(event, "ev");
    if (!*ev || !strcmp(ev, "doing"))
        return;
    if (report_series_takes(ev)) {
        report_series_add(&x->j->many, event, x->t0, x->max_points);
    } else if (!strcmp(ev, "model")) { /* of the last start */
        json_decref(x->graph);
        x->graph =
            json_pack("{s:O*, s:O*, s:O*}", "nodes", json_object_get(event, "nodes"), "values",
                      json_object_get(event, "values"), "flops", json_object_get(event, "flops"));
    } else {
        take_mark(x, event);
    }
}

int report_job_finish(struct report_job *j, size_t max_points, struct pd_err *err) {
    const json_t *run = json_object_get(j->out, "run");
    const json_int_t started = json_integer_value(json_object_get(run, "started_ms"));
    const char *slash = strrchr(j->dir, '/');
    struct taking x = {.j = j, .marks = json_array(), .max_points = max_points};
    struct pd_err none = {0};
    x.t0 = started > 0 && (!j->first_ms || started < j->first_ms) ? started : j->first_ms;
    record_read_metrics(j->dir, take_event, &x, &none);
    if (x.n_marks > MARKS_MAX)
        note(j, "the first %d of %zu events are shown", MARKS_MAX, x.n_marks);
    json_t *series = report_series_json(&j->many);
    json_t *more =
        json_pack("{s:s, s:s, s:I, s:o*, s:o*, s:o*, s:O}", "job", slash ? slash + 1 : j->dir,
                  "state", j->state ? j->state : text_of(run, "state"), "t0", x.t0, "series",
                  series, "marks", x.marks, "graph", x.graph, "notes", j->notes);
    if (!more || json_object_update(j->out, more))
        pd_oom(err, "the report");
    json_decref(more);
    return err->code;
}

void report_job_release(struct report_job *j) {
    report_series_release(&j->many);
    json_decref(j->out);
    json_decref(j->notes);
}
