/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c - see runs.h. */
#include "launcher/record/record_internal.h"
#include "launcher/record/runs.h"

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* --- one run --- */

static void keep(json_t **to, json_t *event) {
    json_decref(*to);
    *to = json_incref(event);
}

/* 1: the test `a` is better than `b`. */
static int is_better(const json_t *a, const json_t *b) {
    const json_t *x = json_object_get(a, "value"), *y = json_object_get(b, "value");
    if (!x || !json_object_get(a, "pass"))
        return 0;
    return !y ||
           (strcmp(text_of(a, "better"), "higher") ? json_number_value(x) < json_number_value(y)
                                                   : json_number_value(x) > json_number_value(y));
}

static void take_event(void *arg, json_t *event) {
    struct run *r = arg;
    const char *ev = text_of(event, "ev");
    if (!strcmp(ev, "test")) {
        keep(&r->test, event);
        if (is_better(event, r->best))
            keep(&r->best, event);
    } else if (record_is_pass(event)) {
        keep(&r->pass, event);
    }
}

int64_t run_pass(const json_t *event) {
    const json_t *pass = json_object_get(event, "pass");
    const json_int_t n = json_integer_value(pass);
    return json_is_integer(pass) && n >= 0 && n < UINT32_MAX ? n + 1 : 0;
}

static void read_run(struct run *r, const char *dir) {
    static const char *const ends[] = {"done", "failed", "stopped", "lost"};
    const char *state = text_of(r->record, "state");
    int known = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        known |= !strcmp(state, ends[i]);
    pd_fmt(r->state, sizeof r->state, "%s",
           known                        ? state
           : record_is_written(dir)     ? "running"
           : !strcmp(state, "detached") ? "detached"
                                        : "unknown");
    r->test = json_incref(json_object_get(r->record, "test"));
    r->best = json_incref(json_object_get(r->record, "best"));
    r->pass = json_incref(json_object_get(r->record, "pass"));
    if (!r->pass) /* the record has no end */
        record_read_metrics(dir, take_event, r, NULL);
    r->n_passes = run_pass(r->pass) - !json_is_true(json_object_get(r->pass, "complete"));
    r->n_passes = r->n_passes > 0 ? r->n_passes : 0;
}

static double member(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

double run_number(const struct run *r, const char *key) {
    if (!strcmp(key, "passes"))
        return (double)r->n_passes;
    if (!strcmp(key, "seconds"))
        return member(r->record, "seconds");
    if (!strcmp(key, "rate"))
        return member(r->pass, "rate");
    if (!strcmp(key, "best") || !strcmp(key, "last"))
        return member(*key == 'b' ? r->best : r->test, "value");
    if (!strcmp(key, "cost") || !strcmp(key, "test.cost"))
        return member(*key == 'c' ? r->pass : r->test, "cost");
    return member(json_object_get(pd_starts_with(key, "test.") ? r->test : r->pass, "metrics"),
                  key);
}

/* --- all --- */

static int newest_first(const void *a, const void *b) {
    const struct run *x = a, *y = b;
    const json_int_t s = json_integer_value(json_object_get(x->record, "started_ms")),
                     t = json_integer_value(json_object_get(y->record, "started_ms"));
    return s != t ? (s < t) - (s > t) : strcmp(y->job, x->job);
}

/* Only a folder with run.json is a record; a record that cannot be read is counted. */
static int add(struct runs *out, const char *outputs, const char *name, struct pd_err *err) {
    char dir[PATH_MAX];
    struct pd_err why = {0};
    struct run r = {0};
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, name) || pd_fmt(r.job, sizeof r.job, "%s", name))
        return 0;
    const int rc = record_read_run(dir, &r.record, &why);
    if (rc == PD_ENOENT)
        return 0;
    if (rc == PD_ENOMEM)
        return pd_err_copy(err, &why);
    if (rc) {
        if (pd_grow(out->bad, out->cap_bad, out->n_bad + 1))
            return pd_oom(err, "the records");
        pd_fmt(out->bad[out->n_bad++].text, sizeof out->bad->text, "%.490s", why.msg);
        return 0;
    }
    if (pd_grow(out->v, out->cap, out->n + 1)) {
        json_decref(r.record);
        return pd_oom(err, "the records");
    }
    read_run(&r, dir);
    out->v[out->n++] = r;
    return 0;
}

int runs_load(struct runs *out, const char *outputs, struct pd_err *err) {
    const struct dirent *e;
    int rc = 0;
    *out = (struct runs){0};
    DIR *d = opendir(outputs);
    if (!d)
        return errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "%s", outputs);
    while (!rc && (e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, "latest")) /* a link to one of them */
            rc = add(out, outputs, e->d_name, err);
    closedir(d);
    if (rc)
        runs_release(out);
    else if (out->n)
        qsort(out->v, out->n, sizeof *out->v, newest_first);
    return rc;
}

void runs_release(struct runs *r) {
    for (size_t i = 0; i < r->n; i++) {
        json_decref(r->v[i].record);
        json_decref(r->v[i].test);
        json_decref(r->v[i].best);
        json_decref(r->v[i].pass);
    }
    free(r->v);
    free(r->bad);
    *r = (struct runs){0};
}

int runs_find(const struct runs *r, const char *want, const struct run **out, struct pd_err *err) {
    size_t n = 0;
    if (!strcmp(want, "latest") && r->n) {
        *out = r->v;
        return 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct run *x = &r->v[i];
        if (!strcmp(x->job, want)) {
            *out = x;
            return 0;
        }
        if (*want && (pd_ends_with(x->job, want) || !strcmp(text_of(x->record, "name"), want))) {
            *out = x;
            n++;
        }
    }
    if (n > 1)
        return pd_fail(err, PD_EUSAGE,
                       "%zu runs are called '%.80s': give more of the job's id ('paddlectl runs')",
                       n, want);
    return n ? 0
             : pd_fail(err, PD_ENOENT,
                       "there is no record of a run '%.80s': 'paddlectl runs' "
                       "lists them",
                       want);
}
