/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_trial.c - one trial of a sweep.
 *
 *     trial 3: paddlectl run --json --name=SWEEP-3 --set ...   its output: trial-3.log
 *                                                              its record: OUTPUTS/JOB */
#include <spawn.h>
#include <sys/wait.h>

#include "base/json_text.h"
#include "launcher/runs/sweep_internal.h"

extern char **environ;

enum { LOG_HEAD = 1 << 16 };

/* --- the values in its record --- */

static int open_curves(struct sweep *s, struct trial *t, struct pd_err *err) {
    if (t->curves || pd_fmt(t->dir, sizeof t->dir, "%s/%s", s->o->outputs, t->job))
        return 0;
    return curves_new(&t->curves, t->dir, &s->metric, 1, err);
}

/* NAN is worse than any value. */
static int is_better(const struct sweep *s, double a, double b) {
    return !isnan(a) && (isnan(b) || (s->more_is_better ? a > b : a < b));
}

/* The best value until this pass; NAN: none. */
static double best_until(struct sweep *s, struct trial *t, double pass) {
    size_t n = 0;
    double best = NAN;
    const struct plot_point *v = t->curves ? curves_points(t->curves, 0, 1, &n) : NULL;
    for (size_t k = 0; v && k < n && v[k].x <= pass; k++)
        if (is_better(s, v[k].y, best))
            best = v[k].y;
    return best;
}

/* The passes of the whole trial; 0: the record does not say. */
static int64_t passes_of(const struct trial *t) {
    json_t *run = NULL, *settings = json_object();
    int64_t n = 0;
    struct pd_err none = {0};
    if (!record_read_run(t->dir, &run, &none) && !record_settings(settings, t->dir, run, &none)) {
        const char *text = pd_json_text(settings, "train.num_passes");
        if (pd_parse_i64(*text ? text : "1", 1, INT64_MAX, &n))
            n = 0;
    }
    json_decref(run);
    json_decref(settings);
    return n;
}

/* 1: at some pass the trial was worse than the median of the complete trials; its value is that of
 * this pass. Each pass is judged once, and the last one never: so the result does not depend on the
 * moment at which the values are read. */
static int is_hopeless(struct sweep *s, struct trial *t) {
    double others[CMD_SWEEP_TRIALS];
    size_t n = 0;
    const struct plot_point *v = t->curves ? curves_points(t->curves, 0, 1, &n) : NULL;
    if (s->no_early_stop || s->halving || !v || !n)
        return 0;
    if (!t->n_passes)
        t->n_passes = passes_of(t);
    for (size_t k = 0; k < n; k++) {
        const double at = v[k].x;
        size_t n_others = 0;
        if (is_better(s, v[k].y, t->value))
            t->value = v[k].y;
        if (at < 1 || at >= (double)t->n_passes || at <= t->judged_until)
            continue;
        t->judged_until = at;
        for (size_t i = 0; i < s->n; i++)
            if (!strcmp(s->v[i].state, "done")) {
                const double other = best_until(s, &s->v[i], at);
                if (!isnan(other))
                    others[n_others++] = other;
            }
        if (cmd_sweep_hopeless(t->value, others, n_others, s->more_is_better))
            return 1;
    }
    return 0;
}

/* All trials have the files of the first one. */
static int check_ids(struct sweep *s, struct trial *t, struct pd_err *err) {
    static const struct {
        const char *key, *text;
    } ids[] = {{"workspace", "the workspace"}, {"data", "the data"}, {"worker", "paddle_worker"}};
    json_t *run = NULL;
    struct pd_err none = {0};
    int rc = 0;
    t->is_checked = !record_read_run(t->dir, &run, &none);
    for (size_t i = 0; t->is_checked && i < sizeof ids / sizeof ids[0] && !rc; i++) {
        json_t *id = json_object_get(run, ids[i].key);
        const json_t *first = json_object_get(s->ids, ids[i].key);
        if (!first && id)
            json_object_set(s->ids, ids[i].key, id);
        else if (first && id && !json_equal(first, id))
            rc = pd_fail(err, PD_EUSAGE,
                         "%s differs from that of the sweep's first trial: results could not be "
                         "compared; give another --name",
                         ids[i].text);
    }
    json_decref(run);
    return rc;
}

/* --- its process --- */

static int spawn(const struct sweep *s, struct trial *t, const char *const *argv, int log,
                 struct pd_err *err) {
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, log, 1);
    posix_spawn_file_actions_adddup2(&acts, log, 2);
    posix_spawnattr_init(&attr); /* a group of its own: Ctrl-C is passed on, once */
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &s->mask_before);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int e = posix_spawn(&t->pid, "/proc/self/exe", &acts, &attr,
                              (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&acts);
    if (e)
        t->pid = 0;
    return e ? pd_fail_errno(err, PD_EFAIL, e, "paddlectl run") : 0;
}

int sweep_trial_start(struct sweep *s, struct trial *t, struct pd_err *err) {
    char name[140], set[CMD_SWEEP_KEYS][600], passes[40], before[100];
    const char *argv[SWEEP_ARGS_MAX + 2 * CMD_SWEEP_KEYS + 8];
    size_t n = 0;
    argv[n++] = "paddlectl";
    argv[n++] = "run";
    for (size_t i = 0; i < s->n_pass_on; i++)
        argv[n++] = s->pass_on[i];
    for (size_t i = 0; i < s->keys.n; i++) {
        if (cmd_sweep_setting(&s->keys, t->combination, i, set[i], sizeof set[i]))
            return pd_fail(err, PD_EUSAGE, "--set %.200s: a value is too long", s->keys.v[i].key);
        argv[n++] = "--set";
        argv[n++] = set[i];
    }
    snprintf(name, sizeof name, "--name=%s-%lld", s->name, (long long)t->number);
    if (s->parts)
        argv[n++] = s->parts[t->part]; /* "--hosts=..." */
    if (t->passes) {
        snprintf(passes, sizeof passes, "--num_passes=%lld", (long long)t->passes);
        argv[n++] = passes;
    }
    if (t->before != SWEEP_NONE) {
        snprintf(before, sizeof before, "--resume=%s", s->v[t->before].job);
        argv[n++] = before;
    }
    argv[n++] = name;
    argv[n++] = "--json";
    argv[n] = NULL;
    *t->job = *t->dir = 0;
    t->is_checked = t->is_hopeless = t->is_stopped = 0;
    t->value = NAN;
    t->judged_until = 0;
    t->n_passes = 0;
    curves_free(t->curves);
    t->curves = NULL;
    const int log = sweep_log_open(s, t, err);
    if (log < 0)
        return err->code;
    pd_fmt(t->state, sizeof t->state, "running");
    int rc = sweep_state_save(s, err); /* a later call waits for this process */
    if (!rc)
        rc = spawn(s, t, argv, log, err);
    pd_close(log);
    if (!rc)
        fprintf(stderr, "paddlectl: trial %lld (%zu of %zu): %s\n", (long long)t->number,
                (size_t)(t - s->v) - s->first + 1, s->n - s->first, t->settings);
    return rc;
}

/* The job of the trial, from the first line of its log that names one. 1: it was not known. */
static int find_job(const struct sweep *s, struct trial *t) {
    static const char key[] = "\"job\":\"";
    char log[PATH_MAX], head[LOG_HEAD] = "";
    if (*t->job)
        return 0;
    const int fd = sweep_log_path(s, t, log) ? -1 : open(log, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : pd_read_full(fd, head, sizeof head - 1);
    pd_close(fd);
    head[n > 0 ? n : 0] = 0;
    const char *p = strstr(head, key);
    const size_t len = p ? strcspn(p + strlen(key), "\"\n") : 0;
    if (len && len < sizeof t->job)
        snprintf(t->job, sizeof t->job, "%.*s", (int)len, p + strlen(key));
    return *t->job != 0;
}

/* --- its end --- */

/* The last line of its log says why, if the job never began. */
static void print_last_line(const struct sweep *s, const struct trial *t) {
    char log[PATH_MAX];
    struct pd_buf b = {0};
    if (!sweep_log_path(s, t, log) && !pd_read_regular(log, SWEEP_FILE_MAX, &b, NULL)) {
        char *text = (char *)b.data, *end = text + strlen(text);
        while (end > text && end[-1] == '\n')
            *--end = 0;
        char *line = strrchr(text, '\n');
        fprintf(stderr, "paddlectl: trial %lld: %.500s (%s)\n", (long long)t->number,
                pd_make_printable(line ? line + 1 : text), log);
    }
    pd_buf_release(&b);
}

/* Sets state and value from the record. has_run: the trial has ended since its last judgement. */
static void set_result(struct sweep *s, struct trial *t, int has_run) {
    json_t *run = NULL;
    int more;
    const char *state = "";
    if (*t->dir && !record_read_run(t->dir, &run, NULL))
        state = pd_json_text(run, "state");
    if (!*state || !strcmp(state, "running")) /* its process was killed before the record's end */
        state = s->is_interrupted ? "stopped" : "failed";
    pd_fmt(t->state, sizeof t->state, "%.15s", state);
    json_decref(run);
    if (t->curves)
        curves_read(t->curves, &more, NULL);
    if (t->is_hopeless || (has_run && !s->is_interrupted && is_hopeless(s, t))) {
        pd_fmt(t->state, sizeof t->state, "hopeless");
        return;
    }
    t->value = best_until(s, t, INFINITY);
    if (t->before != SWEEP_NONE && is_better(s, s->v[t->before].value, t->value))
        t->value = s->v[t->before].value;
    if (!strcmp(t->state, "failed"))
        print_last_line(s, t);
}

/* Reads what is new of the trial. */
static int read_more(struct sweep *s, struct trial *t, struct pd_err *err) {
    int more;
    if (find_job(s, t) && sweep_state_save(s, err))
        return err->code;
    if (*t->job && (open_curves(s, t, err) || curves_read(t->curves, &more, err)))
        return err->code;
    return *t->job && !t->is_checked && (check_ids(s, t, err) || sweep_state_save(s, err))
               ? err->code
               : 0;
}

void sweep_trial_stop(struct trial *t) {
    if (!t->is_stopped)
        kill(t->pid, SIGINT);
    t->is_stopped = 1;
}

int sweep_trial_look(struct sweep *s, struct trial *t, struct pd_err *err) {
    const int has_ended = waitpid(t->pid, NULL, WNOHANG) == t->pid;
    struct pd_err last = {0};
    const int rc = read_more(s, t, err);
    if (has_ended) {
        t->pid = 0;
        set_result(s, t, 1);
        return sweep_state_save(s, rc ? &last : err) || rc ? err->code : 0;
    }
    if (!rc && !t->is_hopeless && !s->is_interrupted)
        t->is_hopeless = is_hopeless(s, t);
    if (rc || t->is_hopeless)
        sweep_trial_stop(t);
    return rc;
}

/* --- trials of an earlier call --- */

int sweep_trial_goes_on(struct sweep *s, struct trial *t) {
    if (!sweep_log_is_locked(s, t))
        return 0;
    pd_fmt(t->state, sizeof t->state, "running");
    return 1;
}

int sweep_trial_reload(struct sweep *s, struct trial *t, struct pd_err *err) {
    if (!strcmp(t->state, "hopeless"))
        return 0;
    find_job(s, t);
    if (*t->job && open_curves(s, t, err))
        return err->code;
    set_result(s, t, !strcmp(t->state, "running"));
    return 0;
}
