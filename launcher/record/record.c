/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include <sys/file.h>

#include "launcher/record/record_internal.h"

struct record {
    char dir[PATH_MAX];
    int lock, fd; /* the folder, locked; metrics.jsonl */
    json_t *run;
    json_t *pass; /* the end of trainer 0's last pass */
    struct record_thin thin;
    uint64_t size;
    struct pd_err err;
};

/* --- which events --- */

enum {
    PERIOD_MS = 250,
    SHARE = 1000,
    NODES_MAX = 100000,
    AHEAD_MS = 600000, /* clocks differ; later times are an error of the node */
    TRIES = 20,
    TRY_NS = 10000000
};
/* More than any run of ours needs: a node cannot fill the disk with events. */
static const uint64_t metrics_max = UINT64_C(1) << 30;

static struct record_node *node_of(struct record_thin *t, int node) {
    if (node < 0 || node >= NODES_MAX || pd_grow(t->v, t->cap, (size_t)node + 1))
        return NULL;
    while (t->n <= (size_t)node)
        t->v[t->n++] = (struct record_node){0};
    return &t->v[node];
}

int record_keeps(struct record_thin *t, int node, const json_t *event) {
    const char *ev = json_string_value(json_object_get(event, "ev"));
    const int64_t now = record_time(event);
    if (!ev || !strcmp(ev, "doing"))
        return 0;
    const int serves = !strcmp(ev, "serving");
    struct record_node *n = serves || !strcmp(ev, "progress") ? node_of(t, node) : NULL;
    if (!n)
        return 1;
    struct record_kept *k = serves ? &n->serving : &n->progress;
    if (!k->first_ms || now < k->last_ms) /* the clock was set back */
        k->first_ms = now;
    else if (now - k->last_ms < PERIOD_MS || now - k->last_ms < (now - k->first_ms) / SHARE)
        return 0;
    k->last_ms = now;
    return 1;
}

void record_thin_release(struct record_thin *t) { free(t->v); }

/* --- files --- */

int record_path(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err) {
    return pd_fmt(out, PATH_MAX, "%s/%s", dir, name)
               ? pd_fail(err, PD_EUSAGE, "%s/%s: the path is too long", dir, name)
               : 0;
}

/* Opens and locks the folder, because its files are replaced. `runs` looks at the lock for a
 * moment. -1: PD_EEXIST, PD_ENOENT, PD_EIO. */
static int lock_dir(const char *dir, struct pd_err *err) {
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int locked = -1;
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        locked = flock(fd, LOCK_EX | LOCK_NB);
        if (!locked || errno != EWOULDBLOCK)
            return fd; /* a file system without locks: nobody is kept out */
        nanosleep(&(struct timespec){0, TRY_NS}, NULL);
    }
    if (fd < 0)
        pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "%s", dir);
    else
        pd_fail(err, PD_EEXIST, "%s: another paddlectl writes this record", dir);
    pd_close(fd);
    return -1;
}

int record_is_written(const char *dir) {
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    pd_close(fd);
    return is_locked;
}

static int open_metrics(const char *dir, int flags, struct pd_err *err) {
    char path[PATH_MAX];
    if (record_path(dir, "metrics.jsonl", path, err))
        return -1;
    const int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK | flags, RECORD_MODE);
    if (fd < 0)
        pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "%s", path);
    return fd;
}

static int write_run(const char *dir, const json_t *run, struct pd_err *err) {
    char path[PATH_MAX];
    char *text = json_dumps(run, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    int rc = text ? record_path(dir, "run.json", path, err) : pd_oom(err, "the record");
    if (!rc)
        rc = pd_write_file_quick(path, text, strlen(text), 0600,
                                 err); /* the command line may have secrets */
    free(text);
    return rc;
}

static void write_line(struct record *r, const json_t *o) {
    if (r->err.code)
        return;
    char *text = json_dumps(o, RECORD_LINE);
    const size_t n = text ? strlen(text) : 0;
    if (!text) {
        pd_oom(&r->err, "the record");
        return;
    }
    text[n] = '\n'; /* in place of its NUL */
    r->size += n + 1;
    if (r->size > metrics_max)
        pd_fail(&r->err, PD_EDATA, "%s/metrics.jsonl is full: it has 1 GiB", r->dir);
    else if (pd_write_all(r->fd, text, n + 1))
        pd_fail_errno(&r->err, PD_EIO, errno, "%s/metrics.jsonl", r->dir);
    free(text);
}

static int new_record(struct record **out, const char *dir, int flags, struct pd_err *err) {
    struct record *r = pd_calloc(1, sizeof *r);
    if (!r)
        return pd_oom(err, "the record");
    r->lock = r->fd = -1;
    int rc = pd_fmt(r->dir, sizeof r->dir, "%s", dir)
                 ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", dir)
                 : 0;
    if (!rc && ((r->lock = lock_dir(dir, err)) < 0 || (r->fd = open_metrics(dir, flags, err)) < 0))
        rc = err->code;
    *out = r;
    return rc;
}

static void release(struct record *r) {
    pd_close(r->fd);
    pd_close(r->lock);
    json_decref(r->run);
    json_decref(r->pass);
    record_thin_release(&r->thin);
    free(r);
}

int record_new(struct record **out, const char *dir, json_t *run, struct pd_err *err) {
    struct record *r = NULL;
    int rc = run ? pd_mkdirs(dir, 0777, err) : pd_oom(err, "the record");
    if (!rc)
        rc = new_record(&r, dir, O_CREAT, err);
    if (!rc && ftruncate(r->fd, 0))
        rc = pd_fail_errno(err, PD_EIO, errno, "%s/metrics.jsonl", dir);
    if (!rc)
        rc = write_run(dir, run, err);
    if (rc) {
        json_decref(run);
        if (r)
            release(r);
        return rc;
    }
    r->run = run;
    json_t *head = json_pack("{s:i}", "version", RECORD_VERSION);
    write_line(r, head);
    json_decref(head);
    *out = r;
    return 0;
}

/* --- a record that continues --- */

static void note_time(void *arg, json_t *event) {
    struct record *r = arg;
    const json_t *node = json_object_get(event, "node");
    struct record_node *n =
        json_is_integer(node) ? node_of(&r->thin, (int)json_integer_value(node)) : NULL;
    if (n && record_time(event) > n->from_ms)
        n->from_ms = record_time(event);
}

/* A killed writer may have left a part of a line. */
static void end_line(const struct record *r) {
    char last;
    if (r->size && pread(r->fd, &last, 1, (off_t)r->size - 1) == 1 && last != '\n')
        (void)pd_write_all(r->fd, "\n", 1);
}

int record_open(struct record **out, const char *dir, struct pd_err *err) {
    struct record *r = NULL;
    int rc = new_record(&r, dir, 0, err);
    if (!rc)
        rc = record_read_run(dir, &r->run, err);
    if (!rc)
        rc = record_read_metrics(dir, note_time, r, err);
    if (!rc) {
        r->size = (uint64_t)lseek(r->fd, 0, SEEK_END);
        end_line(r);
        *out = r;
    } else if (r) {
        release(r);
    }
    return rc;
}

int record_lock(struct record **out, const char *dir, struct pd_err *err) {
    struct record *r = NULL;
    struct pd_err none = {0};
    int rc = new_record(&r, dir, O_CREAT, err);
    if (!rc && record_read_run(dir, &r->run, &none)) {
        r->run = none.code == PD_ENOENT ? json_pack("{s:i}", "version", RECORD_VERSION) : NULL;
        if (!r->run)
            rc = pd_err_copy(err, &none);
    }
    if (!rc)
        *out = r;
    else if (r)
        release(r);
    return rc;
}

json_t *record_run(const struct record *r) { return r->run; }

/* --- writing --- */

void record_file(struct record *r, const char *name, const void *p, size_t n, mode_t mode) {
    char path[PATH_MAX];
    if (!r->err.code && !record_path(r->dir, name, path, &r->err))
        pd_write_file_quick(path, p, n, mode, &r->err);
}

void record_note(struct record *r, json_t *o) {
    if (r && o && !json_object_set_new(o, "t", json_integer((json_int_t)(pd_wall_us() / 1000))))
        write_line(r, o);
    json_decref(o);
}

json_t *record_of_node(json_t *event, int node, const char *host) {
    json_t *o = json_pack("{s:I, s:i, s:s*}", "t", record_time(event), "node", node, "host", host);
    if (!o || json_object_update_missing(o, event)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

void record_event(struct record *r, int node, const char *host, const char *json, size_t n) {
    json_t *event = r && !r->err.code ? json_loadb(json, n, 0, NULL) : NULL;
    if (!json_is_object(event)) {
        json_decref(event);
        return;
    }
    const json_int_t now = (json_int_t)(pd_wall_us() / 1000);
    if (!record_time(event) || record_time(event) > now + AHEAD_MS) /* a trainer of the user */
        json_object_set_new(event, "t", json_integer(now));
    const struct record_node *of = node_of(&r->thin, node);
    const int is_new = !of || record_time(event) > of->from_ms;
    if (record_is_pass(event)) {
        json_decref(r->pass);
        r->pass = json_incref(event);
    }
    if (is_new && record_keeps(&r->thin, node, event)) {
        json_t *o = record_of_node(event, node, host);
        if (o)
            write_line(r, o);
        json_decref(o);
    }
    json_decref(event);
}

int record_end(struct record *r, json_t *more, struct pd_err *err) {
    if (r->pass && json_object_get(more, "ended_ms"))
        json_object_set(r->run, "pass", r->pass);
    if (json_object_update(r->run, more) && !r->err.code)
        pd_oom(&r->err, "the record");
    json_decref(more);
    struct pd_err last = {0};
    if (write_run(r->dir, r->run, &last) && !r->err.code)
        pd_err_copy(&r->err, &last);
    const int rc = r->err.code ? pd_err_copy(err, &r->err) : 0;
    release(r);
    return rc;
}
