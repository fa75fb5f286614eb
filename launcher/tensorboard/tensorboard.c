/* SPDX-License-Identifier: Apache-2.0 */
/* tensorboard.c - see tensorboard.h. */
#include "launcher/tensorboard/tensorboard.h"

#include <event.pb-c.h>

#include "base/json_text.h"
#include "launcher/record/record.h"
#include "launcher/tensorboard/tfrecord.h"

enum {
    VALUES_MAX = 256, /* of an event; paddlectl's trainers write some 40 */
    TAG_MAX = 200,
    PASSES_MAX = 1 << 20,
    WRITE_BYTES = 1 << 20 /* of a long record, written at once */
};

struct tensorboard {
    struct tfrecord file;
    char dir[PATH_MAX]; /* of the record */
    struct record_place place;
    double started; /* seconds since 1970 */
    /* A step is a batch of trainer 0, counted over all passes. */
    int64_t *first; /* the first step of each pass so far */
    size_t n_passes, cap_passes;
    int64_t step; /* trainer 0's last one */
    struct pd_buf packed;
    size_t n; /* values of the event */
    Tensorboard__Value value[VALUES_MAX], *values[VALUES_MAX];
    char tag[VALUES_MAX][TAG_MAX];
    struct pd_err err;
};

/* The values that become scalars. An object has one for each member, whose name follows the tag; a
 * value of each trainer is followed by the rank. */
static const struct scalar {
    const char *ev, *key, *tag;
    int of_chief; /* a number of the whole job, which trainer 0 reports */
} scalars[] = {
    {"progress", "cost", "cost/train", 1},
    {"progress", "metrics", "train/", 1},
    {"progress", "rate", "speed/job", 1},
    {"progress", "own_rate", "speed/trainer-", 0},
    {"progress", "wait", "share/wait/trainer-", 0},
    {"progress", "read", "share/read/trainer-", 0},
    {"progress", "forward", "share/forward/trainer-", 0},
    {"progress", "backward", "share/backward/trainer-", 0},
    {"progress", "push", "share/push/trainer-", 0},
    {"progress", "pull", "share/pull/trainer-", 0},
    {"pass", "cost", "cost/pass", 1},
    {"pass", "metrics", "pass/", 1},
    {"pass", "rows", "rows/", 1},
    {"pass", "server_memory", "memory/pserver-", 1},
    {"pass", "peak_memory", "memory/trainer-", 0},
    {"pass", "sent", "network/sent/trainer-", 0},
    {"pass", "received", "network/received/trainer-", 0},
    {"pass", "seconds", "seconds/pass/trainer-", 0},
    {"pass", "waited", "seconds/waited/trainer-", 0},
    {"test", "cost", "cost/test", 1},
    {"test", "metrics", "test/", 1},
};

/* --- steps --- */

/* The first step of a pass in which trainer 0 is; -1: no memory, or no pass. */
static int64_t enter_pass(struct tensorboard *t, int64_t pass) {
    if (pass < 0 || pass >= PASSES_MAX || pd_grow(t->first, t->cap_passes, (size_t)pass + 1))
        return -1;
    if ((size_t)pass + 1 < t->n_passes) /* the job was restarted from a checkpoint */
        t->n_passes = (size_t)pass + 1;
    while (t->n_passes <= (size_t)pass)
        t->first[t->n_passes++] = t->step;
    return t->first[pass];
}

static int64_t number_of(const json_t *event, const char *key) {
    const json_int_t v = json_integer_value(json_object_get(event, key));
    return v > 0 && v < (json_int_t)1 << 53 ? v : 0;
}

static int64_t step_of(struct tensorboard *t, const json_t *event, const char *ev, int is_chief) {
    const int64_t pass = number_of(event, "pass");
    const int64_t batch = number_of(event, !strcmp(ev, "pass") ? "batches" : "batch");
    if (!strcmp(ev, "test") || (!strcmp(ev, "pass") && !is_chief))
        return t->step;
    if (!is_chief)
        return (size_t)pass < t->n_passes ? t->first[pass] + batch : t->step;
    const int64_t first = enter_pass(t, pass);
    if (first >= 0)
        t->step = first + batch;
    return t->step;
}

/* --- events --- */

static void put_event(struct tensorboard *t, const Tensorboard__Event *e) {
    const size_t n = tensorboard__event__get_packed_size(e);
    pd_buf_clear(&t->packed);
    if (pd_buf_reserve(&t->packed, n)) {
        pd_oom(&t->err, "an event file");
        return;
    }
    tensorboard__event__pack(e, t->packed.data);
    tfrecord_put(&t->file, t->packed.data, n);
}

static void begin_file(struct tensorboard *t) {
    static const char version[] = "brain.Event:2";
    Tensorboard__Event e = TENSORBOARD__EVENT__INIT;
    tfrecord_rewind(&t->file);
    t->n_passes = 0;
    t->step = 0;
    e.wall_time = t->started;
    e.file_version = (char *)(uintptr_t)version;
    put_event(t, &e);
}

static void add_value(struct tensorboard *t, const json_t *v, const char *tag, const char *more) {
    if (!json_is_number(v) || !isfinite(json_number_value(v)) || t->n == VALUES_MAX ||
        pd_fmt(t->tag[t->n], TAG_MAX, "%s%s", tag, more))
        return;
    t->value[t->n] = (Tensorboard__Value)TENSORBOARD__VALUE__INIT;
    t->value[t->n].tag = t->tag[t->n];
    t->value[t->n].simple_value = (float)json_number_value(v);
    t->values[t->n] = &t->value[t->n];
    t->n++;
}

/* The values of a test have names as test.auc; progress repeats those of the last test. */
static void add_members(struct tensorboard *t, json_t *object, const struct scalar *s) {
    const char *name;
    json_t *v;
    json_object_foreach (object, name, v) {
        const int is_tests = pd_starts_with(name, "test.");
        if (!is_tests || !strcmp(s->ev, "test"))
            add_value(t, v, s->tag, name + (is_tests ? strlen("test.") : 0));
    }
}

static void take_event(void *arg, json_t *event) {
    struct tensorboard *t = arg;
    const char *ev = pd_json_text(event, "ev");
    const json_int_t rank = json_integer_value(json_object_get(event, "rank"));
    char of_rank[24];
    if (t->err.code || (strcmp(ev, "progress") && strcmp(ev, "pass") && strcmp(ev, "test")))
        return;
    Tensorboard__Event e = TENSORBOARD__EVENT__INIT;
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    e.wall_time = (double)number_of(event, "t") / 1000;
    e.step = step_of(t, event, ev, !rank);
    pd_fmt(of_rank, sizeof of_rank, "%lld", (long long)rank);
    t->n = 0;
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        const struct scalar *s = &scalars[i];
        json_t *v = strcmp(s->ev, ev) ? NULL : json_object_get(event, s->key);
        if (!v || (s->of_chief && rank))
            continue;
        if (json_is_object(v))
            add_members(t, v, s);
        else
            add_value(t, v, s->tag, s->of_chief ? "" : of_rank);
    }
    summary.n_value = t->n;
    summary.value = t->values;
    e.summary = &summary;
    if (t->n)
        put_event(t, &e);
    if (t->file.out.len > WRITE_BYTES)
        tfrecord_write(&t->file, &t->err);
}

/* --- files --- */

int tensorboard_root(const char *root, struct pd_err *err) {
    struct pd_err why = {0};
    if (pd_mkdirs(root, 0777, &why))
        return pd_fail(err, PD_ECONF, "--tensorboard: %s", why.msg);
    if (access(root, W_OK | X_OK))
        return pd_fail_errno(err, PD_ECONF, errno, "--tensorboard: nothing can be written in %s",
                             root);
    return 0;
}

static int open_file(struct tensorboard *t, const char *root, struct pd_err *err) {
    char path[PATH_MAX];
    const char *slash = strrchr(t->dir, '/'), *job = slash ? slash + 1 : t->dir;
    int rc = pd_fmt(path, sizeof path, "%s/%s", root, job)
                 ? pd_fail(err, PD_EUSAGE, "%s: the path is too long", root)
                 : pd_mkdirs(path, 0777, err);
    if (!rc && pd_fmt(path, sizeof path, "%s/%s/events.out.tfevents.%010lld.paddlectl", root, job,
                      (long long)t->started))
        rc = pd_fail(err, PD_EUSAGE, "%s: the path is too long", root);
    return rc ? rc : tfrecord_open(&t->file, path, err);
}

int tensorboard_new(struct tensorboard **out, const char *root, const char *dir,
                    struct pd_err *err) {
    struct tensorboard *t = pd_calloc(1, sizeof *t);
    json_t *run = NULL;
    int rc = t ? 0 : pd_oom(err, "an event file");
    if (rc)
        return rc;
    t->file.fd = -1;
    if (pd_fmt(t->dir, sizeof t->dir, "%s", dir))
        rc = pd_fail(err, PD_EUSAGE, "%s: the path is too long", dir);
    if (!rc)
        rc = record_read_run(dir, &run, err);
    if (!rc) {
        t->started = (double)number_of(run, "started_ms") / 1000;
        rc = open_file(t, root, err);
    }
    json_decref(run);
    if (rc) {
        tensorboard_free(t);
        return rc;
    }
    begin_file(t);
    *out = t;
    return 0;
}

int tensorboard_update(struct tensorboard *t, struct pd_err *err) {
    if (record_changed(t->dir, &t->place))
        begin_file(t);
    int rc = record_read_more(t->dir, &t->place, take_event, t, err);
    if (!rc)
        rc = pd_err_copy(err, &t->err);
    if (!rc && t->file.out.len)
        rc = tfrecord_write(&t->file, err);
    return rc ? rc : tfrecord_cut(&t->file, err);
}

void tensorboard_damage(const struct tensorboard *t, void (*say)(void *arg, const char *text),
                        void *arg) {
    record_damage(t->dir, &t->place, say, arg);
}

void tensorboard_free(struct tensorboard *t) {
    if (!t)
        return;
    tfrecord_close(&t->file);
    pd_buf_release(&t->packed);
    free(t->first);
    free(t);
}
