/* SPDX-License-Identifier: Apache-2.0 */
/* record_complete.c - makes metrics.jsonl anew of the events that the nodes keep, after
 * `paddlectl fetch --log`. */
#include "launcher/record/record_internal.h"

enum { LINES_MAX = 4000000 }; /* more than any run of ours: they are in memory */

struct lines {
    struct line {
        json_t *event;
        size_t order; /* events of the same time keep their order */
    } * v;
    size_t n, cap;
    struct record_thin thin;
    int node;            /* of the file that is read */
    json_int_t t;        /* time of the last event of the file */
    const json_t *hosts; /* of run.json */
    int failed;
};

static void add(struct lines *l, json_t *event) {
    if (!event || l->n >= LINES_MAX || pd_grow(l->v, l->cap, l->n + 1)) {
        json_decref(event);
        l->failed = 1;
        return;
    }
    l->v[l->n] = (struct line){event, l->n};
    l->n++;
}

/* Adds an event of a node. */
static void add_event(void *arg, json_t *event) {
    struct lines *l = arg;
    const json_int_t t = record_time(event);
    l->t = t > 0 ? t : l->t;
    json_object_set_new(event, "t", json_integer(l->t));
    if (!record_keeps(&l->thin, l->node, event))
        return;
    const json_t *host;
    const char *name = NULL;
    size_t i;
    json_array_foreach (l->hosts, i, host)
        if (json_integer_value(json_object_get(host, "node")) == l->node)
            name = json_string_value(json_object_get(host, "host"));
    add(l, record_of_node(event, l->node, name));
}

/* Keeps a line of the record as it was, if it is a note of paddlectl. */
static void add_note(void *arg, json_t *event) {
    if (!json_object_get(event, "node") && json_object_get(event, "ev"))
        add(arg, json_incref(event));
}

static int by_time(const void *a, const void *b) {
    const struct line *x = a, *y = b;
    const json_int_t s = record_time(x->event), t = record_time(y->event);
    return s != t ? (s > t) - (s < t) : (x->order > y->order) - (x->order < y->order);
}

/* Reads events.N, ..., events.1 and events of one node, the oldest first. */
static int read_node(struct lines *l, const char *folder, struct pd_err *err) {
    char path[PATH_MAX];
    struct stat st;
    int n = 0, rc = 0;
    while (!pd_fmt(path, sizeof path, "%s/events.%d", folder, n + 1) && !lstat(path, &st))
        n++;
    for (l->t = 0; n >= 0 && !rc; n--) {
        rc = n ? pd_fmt(path, sizeof path, "%s/events.%d", folder, n)
               : pd_fmt(path, sizeof path, "%s/events", folder);
        if (!rc && !lstat(path, &st)) /* a node without a trainer has none */
            rc = record_each_line(path, NULL, add_event, l, err);
    }
    return rc;
}

static int read_nodes(struct lines *l, const char *dir, struct pd_err *err) {
    char log[PATH_MAX], folder[PATH_MAX];
    const struct dirent *e;
    int rc = pd_fmt(log, sizeof log, "%s/log", dir);
    DIR *d = rc ? NULL : opendir(log);
    while (d && !rc && (e = readdir(d)))
        if (sscanf(e->d_name, "node-%d", &l->node) == 1 &&
            !pd_fmt(folder, sizeof folder, "%s/%s", log, e->d_name))
            rc = read_node(l, folder, err);
    pd_closedir(d);
    return rc;
}

static int write_lines(const struct lines *l, const char *dir, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf out = {0};
    pd_put_fmt(&out, "{\"version\":%d}\n", RECORD_VERSION);
    for (size_t i = 0; i < l->n && !out.failed; i++) {
        char *text = json_dumps(l->v[i].event, RECORD_LINE);
        out.failed |= !text;
        if (text)
            pd_put_fmt(&out, "%s\n", text);
        free(text);
    }
    int rc =
        out.failed ? pd_oom(err, "the record") : pd_fmt(path, sizeof path, "%s/metrics.jsonl", dir);
    if (!rc)
        rc = pd_write_file_atomic(path, out.data, out.len, RECORD_MODE, err);
    pd_buf_release(&out);
    return rc;
}

int record_complete(const char *dir, json_t *more, struct pd_err *err) {
    struct lines l = {0};
    struct record *r = NULL;
    int rc = record_lock(&r, dir, err);
    if (!rc)
        rc = record_read_metrics(dir, add_note, &l, err);
    if (!rc) {
        l.hosts = json_object_get(record_run(r), "hosts");
        rc = read_nodes(&l, dir, err);
    }
    if (!rc && l.failed)
        rc = pd_oom(err, "the record");
    if (!rc) {
        if (l.n)
            qsort(l.v, l.n, sizeof *l.v, by_time);
        rc = write_lines(&l, dir, err);
    }
    if (!rc) { /* metrics.jsonl has later ones */
        json_object_del(record_run(r), "pass");
        json_object_del(record_run(r), "test");
        json_object_del(record_run(r), "best");
    }
    for (size_t i = 0; i < l.n; i++)
        json_decref(l.v[i].event);
    free(l.v);
    record_thin_release(&l.thin);
    if (!r) {
        json_decref(more);
        return rc;
    }
    struct pd_err end = {0};
    if (record_end(r, more, &end) && !rc)
        rc = pd_err_copy(err, &end);
    return rc;
}
