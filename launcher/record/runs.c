/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c - see runs.h. */
#include "base/json_text.h"
#include "launcher/record/runs_internal.h"

static const int64_t settled_ns = INT64_C(2000000000); /* the coarsest clock of a file system */
enum { UNINDEXED_MAX = 32 }; /* so many records are read without writing the index anew */

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
    return !y || (strcmp(pd_json_text(a, "better"), "higher")
                      ? json_number_value(x) < json_number_value(y)
                      : json_number_value(x) > json_number_value(y));
}

static void keep_result(void *arg, json_t *event) {
    struct run *r = arg;
    const char *ev = pd_json_text(event, "ev");
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

static void set_state(struct run *r, const char *dir) {
    static const char *const ends[] = {"done", "failed", "stopped", "lost"};
    const char *state = run_text(r, "state");
    int known = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        known |= !strcmp(state, ends[i]);
    pd_fmt(r->state, sizeof r->state, "%s",
           known                        ? state
           : record_is_written(dir)     ? "running"
           : !strcmp(state, "detached") ? "detached"
                                        : "unknown");
}

static void release_record(struct run *r) {
    json_decref(r->record);
    json_decref(r->test);
    json_decref(r->best);
    json_decref(r->pass);
    r->record = r->test = r->best = r->pass = NULL;
}

static int read_record(struct run *r, const char *dir, int without_metrics, struct pd_err *err) {
    const int rc = record_read_run(dir, &r->record, err);
    if (rc)
        return rc;
    r->test = json_incref(json_object_get(r->record, "test"));
    r->best = json_incref(json_object_get(r->record, "best"));
    r->pass = json_incref(json_object_get(r->record, "pass"));
    if (!r->pass && !without_metrics) /* the record has no end */
        record_read_metrics(dir, keep_result, r, NULL);
    return 0;
}

int run_read(const struct runs *all, size_t i, struct pd_err *err) {
    char dir[PATH_MAX];
    struct run *r = &all->v[i];
    return r->record                                     ? 0
           : record_path(all->outputs, r->job, dir, err) ? err->code
                                                         : read_record(r, dir, 0, err);
}

/* --- all --- */

static int newest_first(const void *a, const void *b) {
    const struct run *x = a, *y = b;
    return x->started_ms != y->started_ms
               ? (x->started_ms < y->started_ms) - (x->started_ms > y->started_ms)
               : strcmp(y->job, x->job);
}

struct runs_loading {
    struct runs *out;
    int without_metrics;
    int fd; /* of the folder */
    int64_t began_ns;
    struct runs_index old, next;
    size_t n_read; /* records that the index lacked, and can have */
};

static void stamp(int fd, const char *job, const char *name, struct run_stamp *out) {
    char path[PATH_MAX];
    struct stat st;
    *out = (struct run_stamp){0};
    if (pd_fmt(path, sizeof path, "%s/%s", job, name) || fstatat(fd, path, &st, 0))
        return;
    const int64_t s = 1000000000;
    *out = (struct run_stamp){st.st_ino, (uint64_t)st.st_size,
                              st.st_mtim.tv_sec * s + st.st_mtim.tv_nsec,
                              st.st_ctim.tv_sec * s + st.st_ctim.tv_nsec};
}

/* 1: a later change of the file gives it another stamp. */
static int is_settled(const struct runs_loading *l, const struct run_stamp *s) {
    return s->mtime_ns < l->began_ns - settled_ns && s->ctime_ns < l->began_ns - settled_ns;
}

static int add_bad(struct runs *out, const struct pd_err *why, struct pd_err *err) {
    if (pd_grow(out->bad, out->cap_bad, out->n_bad + 1))
        return pd_oom(err, "the records");
    pd_fmt(out->bad[out->n_bad++].text, sizeof out->bad->text, "%.490s", why->msg);
    return 0;
}

/* Reads the record of `r` and makes its figures. */
static int read_figures(struct run *r, const char *dir, int without_metrics, int *needs_metrics,
                        struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = read_record(r, dir, without_metrics, err);
    if (rc)
        return rc;
    run_figures_put(&b, r);
    *needs_metrics = !json_object_get(r->record, "pass");
    release_record(r);
    r->own = b.data;
    r->figures = (struct pd_bytes){b.data, b.len};
    return b.failed ? pd_oom(err, "the records") : 0;
}

/* Only a folder with run.json is a record; a record that cannot be read is counted. */
static int add(struct runs_loading *l, const char *name, struct pd_err *err) {
    char dir[PATH_MAX];
    struct pd_err why = {0};
    struct run r = {0};
    struct run_entry e = {0};
    struct runs *out = l->out;
    if (pd_fmt(dir, sizeof dir, "%s/%s", out->outputs, name) ||
        pd_fmt(r.job, sizeof r.job, "%s", name))
        return 0;
    stamp(l->fd, name, "run.json", &e.stamps.run);
    if (!e.stamps.run.inode)
        return 0;
    const struct run_entry *known = runs_index_find(&l->old, name);
    int same = known && run_stamp_is_equal(&known->stamps.run, &e.stamps.run);
    if (!same || known->needs_metrics)
        stamp(l->fd, name, "metrics.jsonl", &e.stamps.metrics);
    same = same &&
           (!known->needs_metrics || run_stamp_is_equal(&known->stamps.metrics, &e.stamps.metrics));
    if (same) {
        e = *known;
        r.figures = known->figures;
    } else {
        const int rc = read_figures(&r, dir, l->without_metrics, &e.needs_metrics, &why);
        if (rc) {
            free(r.own);
            return rc == PD_ENOENT   ? 0
                   : rc == PD_ENOMEM ? pd_err_copy(err, &why)
                                     : add_bad(out, &why, err);
        }
        if (!e.needs_metrics)
            e.stamps.metrics = (struct run_stamp){0};
        e.figures = r.figures;
    }
    set_state(&r, dir);
    const double started = run_number(&r, "started_ms"), passes = run_number(&r, "passes");
    r.started_ms = fabs(started) < 9e15 ? (int64_t)started : 0;
    r.n_passes = passes >= 0 && passes < 9e15 ? (int64_t)passes : 0;
    e.is_settled = is_settled(l, &e.stamps.run) && is_settled(l, &e.stamps.metrics) &&
                   (same || !l->without_metrics || !e.needs_metrics);
    if (pd_grow(out->v, out->cap, out->n + 1) || runs_index_add(&l->next, &e)) {
        free(r.own);
        return pd_oom(err, "the records");
    }
    out->v[out->n++] = r;
    l->n_read += !same && e.is_settled;
    return 0;
}

/* The runs have the entries in l->next, one each. */
static void write_index(struct runs_loading *l) {
    struct runs_index *x = &l->next;
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        x->v[i].job = l->out->v[i].job;
        if (x->v[i].is_settled)
            x->v[n++] = x->v[i];
    }
    x->n = n;
    runs_index_write(x, l->out->outputs);
}

static int load(struct runs *out, const char *outputs, int without_metrics, struct pd_err *err) {
    const struct dirent *e;
    struct runs_loading l = {
        .out = out, .without_metrics = without_metrics, .began_ns = (int64_t)pd_wall_us() * 1000};
    *out = (struct runs){0};
    if (pd_fmt(out->outputs, sizeof out->outputs, "%s", outputs))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", outputs);
    DIR *d = opendir(outputs);
    if (!d)
        return errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "%s", outputs);
    l.fd = dirfd(d);
    runs_index_read(&l.old, &out->index, outputs);
    int rc = 0;
    while (!rc && (e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, "latest")) /* a link to one of them */
            rc = add(&l, e->d_name, err);
    closedir(d);
    if (!rc && !without_metrics && l.n_read > UNINDEXED_MAX)
        write_index(&l);
    runs_index_release(&l.old);
    runs_index_release(&l.next);
    if (rc)
        runs_release(out);
    else if (out->n)
        qsort(out->v, out->n, sizeof *out->v, newest_first);
    return rc;
}

int runs_load(struct runs *out, const char *outputs, struct pd_err *err) {
    return load(out, outputs, 0, err);
}

int runs_list(struct runs *out, const char *outputs, struct pd_err *err) {
    return load(out, outputs, 1, err);
}

void runs_release(struct runs *r) {
    for (size_t i = 0; i < r->n; i++) {
        release_record(&r->v[i]);
        free(r->v[i].own);
    }
    free(r->v);
    free(r->bad);
    pd_buf_release(&r->index);
    *r = (struct runs){0};
}

int runs_find(const struct runs *r, const char *want, const struct run **out, struct pd_err *err) {
    size_t n = 0, at = 0;
    const int newest = !strcmp(want, "latest") && r->n;
    for (size_t i = 0; i < r->n && !newest; i++) {
        const struct run *x = &r->v[i];
        const int is_id = !strcmp(x->job, want);
        if (is_id ||
            (*want && (pd_ends_with(x->job, want) || !strcmp(run_text(x, "name"), want)))) {
            at = i;
            n = is_id ? 1 : n + 1;
        }
        if (is_id)
            break;
    }
    if (n > 1)
        return pd_fail(err, PD_EUSAGE,
                       "%zu runs are called '%.80s': give more of the job's id ('paddlectl runs')",
                       n, want);
    if (!n && !newest)
        return pd_fail(err, PD_ENOENT,
                       "there is no record of a run '%.80s': 'paddlectl runs' lists them", want);
    *out = &r->v[at];
    return run_read(r, at, err);
}
