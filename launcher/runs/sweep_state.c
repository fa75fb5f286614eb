/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_state.c - the folder of a sweep, OUTPUTS/sweep-NAME.
 *
 * state.json has the trials: number, settings, job, state, value. It is written before a trial
 * starts, when its job is known, and at its end, so that --resume continues after any end. A trial
 * is known by its settings and keeps its number. Trials that a later call does not use stay in the
 * file.
 *
 * Two locks (flock): `paddlectl sweep` holds the folder, and the process of each trial holds its
 * log. */
#include <sys/file.h>

#include "base/json_text.h"
#include "launcher/runs/sweep_internal.h"

static int state_path(const struct sweep *s, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/state.json", s->dir);
}

/* The options that the results depend on. */
static json_t *run_options(const struct sweep *s) {
    json_t *a = json_array();
    for (size_t i = 0; i < s->n_pass_on; i++)
        json_array_append_new(a, json_string(s->pass_on[i]));
    if (s->nodes_per_trial)
        json_array_append_new(a, json_sprintf("--nodes-per-trial=%s", s->nodes_per_trial));
    if (s->halving)
        json_array_append_new(a, json_string("--halving"));
    return a;
}

int sweep_state_save(const struct sweep *s, struct pd_err *err) {
    char path[PATH_MAX];
    json_t *trials = json_deep_copy(s->others);
    for (size_t i = 0; i < s->n; i++) {
        const struct trial *t = &s->v[i];
        json_array_append_new(
            trials, json_pack("{s:I, s:s, s:s, s:s, s:o}", "number", (json_int_t)t->number,
                              "settings", t->settings, "job", t->job, "state", t->state, "value",
                              isnan(t->value) ? json_null() : json_real(t->value)));
    }
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:o, s:O, s:o}", "version", RECORD_VERSION, "metric", s->metric,
                  "goal", s->goal, "options", run_options(s), "ids", s->ids, "trials", trials);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(o);
    int rc = text ? 0 : pd_oom(err, "a sweep");
    if (!rc && !state_path(s, path))
        rc = pd_write_file_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

void sweep_state_adopt(struct sweep *s, size_t first) {
    const json_t *earlier;
    size_t k;
    for (size_t i = first; i < s->n; i++) {
        struct trial *t = &s->v[i];
        json_array_foreach (s->others, k, earlier)
            if (!strcmp(t->settings, pd_json_text(earlier, "settings"))) {
                t->number = json_integer_value(json_object_get(earlier, "number"));
                pd_fmt(t->job, sizeof t->job, "%s", pd_json_text(earlier, "job"));
                pd_fmt(t->state, sizeof t->state, "%s", pd_json_text(earlier, "state"));
                if (json_is_number(json_object_get(earlier, "value")))
                    t->value = json_number_value(json_object_get(earlier, "value"));
                json_array_remove(s->others, k);
                break;
            }
    }
    /* New trials get the next numbers: an earlier log or run of that name is not written over. */
    for (size_t i = first; i < s->n; i++)
        if (s->v[i].number < 1)
            s->v[i].number = ++s->largest_number;
}

static int read_state(struct sweep *s, const char *path, struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = pd_read_regular(path, SWEEP_FILE_MAX, &b, err);
    json_t *o = rc ? NULL : json_loadb((char *)b.data, b.len, 0, NULL), *options = run_options(s);
    const char *metric = pd_json_text(o, "metric"), *goal = pd_json_text(o, "goal");
    if (!rc && json_integer_value(json_object_get(o, "version")) != RECORD_VERSION)
        rc = pd_fail(err, PD_EDATA, "%s is damaged, or of another version of paddlectl", path);
    if (!rc && (strcmp(metric, s->metric) || strcmp(goal, s->goal)))
        rc = pd_fail(err, PD_EUSAGE, "the sweep '%s' has --metric=%.60s --goal=%.10s", s->name,
                     metric, goal);
    if (!rc && !json_equal(json_object_get(o, "options"), options))
        rc = pd_fail(err, PD_EUSAGE,
                     "the sweep '%s' began with other options (%s has them): results could not be "
                     "compared; give another --name",
                     s->name, path);
    const json_t *trial;
    size_t k;
    json_array_foreach (rc ? NULL : json_object_get(o, "trials"), k, trial) {
        const int64_t number = json_integer_value(json_object_get(trial, "number"));
        s->largest_number = number > s->largest_number ? number : s->largest_number;
        json_array_append_new(s->others, json_deep_copy(trial));
    }
    if (!rc && json_is_object(json_object_get(o, "ids")))
        json_object_update(s->ids, json_object_get(o, "ids"));
    json_decref(options);
    json_decref(o);
    pd_buf_release(&b);
    return rc;
}

/* A file system without locks keeps nobody out. */
static int lock_folder(struct sweep *s, struct pd_err *err) {
    s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return pd_fail_errno(err, PD_EIO, errno, "%s", s->dir);
    return flock(s->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK
               ? pd_fail(err, PD_EEXIST, "another paddlectl runs the sweep '%s'", s->name)
               : 0;
}

int sweep_state_load(struct sweep *s, struct pd_err *err) {
    char path[PATH_MAX];
    if (state_path(s, path))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", s->dir);
    const int is_there = !access(path, F_OK);
    if (is_there && !s->resume)
        return pd_fail(err, PD_EUSAGE,
                       "there is a sweep '%s' already: continue it with --resume, or give another "
                       "--name",
                       s->name);
    if (!is_there && s->resume)
        return pd_fail(err, PD_ENOENT, "there is no sweep '%s' to resume", s->name);
    int rc = pd_mkdirs(s->dir, 0777, err);
    if (!rc)
        rc = lock_folder(s, err);
    if (!rc && is_there)
        rc = read_state(s, path, err);
    return rc;
}

/* --- the logs of trials --- */

int sweep_log_path(const struct sweep *s, const struct trial *t, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/trial-%lld.log", s->dir, (long long)t->number);
}

int sweep_log_open(const struct sweep *s, const struct trial *t, struct pd_err *err) {
    char path[PATH_MAX];
    if (sweep_log_path(s, t, path)) {
        pd_fail(err, PD_EUSAGE, "%s: the path is too long", s->dir);
        return -1;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        pd_fail(err, PD_EEXIST, "trial %lld of an earlier call still runs: it writes %s",
                (long long)t->number, path);
    else if (fd >= 0 && !ftruncate(fd, 0))
        return fd;
    else
        pd_fail_errno(err, PD_EIO, errno, "%s", path);
    pd_close(fd);
    return -1;
}

int sweep_log_is_locked(const struct sweep *s, const struct trial *t) {
    char path[PATH_MAX];
    const int fd = sweep_log_path(s, t, path) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    const int is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    pd_close(fd);
    return is_locked;
}
