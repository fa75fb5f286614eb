/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sweep.c - paddlectl sweep: runs with all combinations of some settings, one after the other.
 *
 *     sweep ─▶ trial 1: paddlectl run --json --name=SWEEP-1 --set ...   its output: trial-1.log
 *              trial 2: ...                                             its record: OUTPUTS/JOB
 *
 * OUTPUTS/sweep-NAME/state.json has the trials: number, settings, job, state, value. It is written
 * when the job of a trial is known and when the trial ends, so that --resume goes on after any end.
 * A trial is known by its settings, and keeps its number; earlier trials with other settings stay
 * in the file. The ids of workspace, data and program of the first trial are those of all. */
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "launcher/cmd/cmd.h"
#include "launcher/plot/curves.h"
#include "launcher/record/runs.h"
#include "launcher/runs/sweep.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"

extern char **environ;

enum {
    PERIOD_MS = 200,
    LOG_HEAD = 1 << 16,
    STATE_MAX = 16 << 20,
    SET_TEXT = 4000,
    ARGS_MAX = 4096,
    NAME_MOST = 50
};

struct trial {
    size_t combination;
    int64_t number;          /* in names and messages, from 1 */
    char settings[SET_TEXT]; /* its identity: "key=value key=value" */
    char job[80];
    /* "": not begun; running, done, failed, stopped; hopeless: ended early by the median rule */
    char state[16];
    double value; /* NAN: none */
    char dir[PATH_MAX];
    struct curves *curves;
};

struct sweep {
    const char *metric, *goal, *trials, *seed;
    int resume, more_is_better, no_early_stop;
    struct sweep_keys keys;
    const char *pass_on[ARGS_MAX]; /* the options of `paddlectl run` */
    size_t n_pass_on;
    const struct pd_options *o;
    char name[100], dir[PATH_MAX];
    json_t *ids;    /* workspace, data, worker */
    json_t *others; /* earlier trials that this call does not want */
    struct trial *v;
    size_t n;
    int interrupted, signals;
    sigset_t before;
};

static const char *const id_keys[] = {"workspace", "data", "worker"};
enum { N_IDS = sizeof id_keys / sizeof id_keys[0] };

/* --- state.json --- */

static int state_path(const struct sweep *s, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/state.json", s->dir);
}

static json_t *options_of(const struct sweep *s) {
    json_t *a = json_array();
    for (size_t i = 0; i < s->n_pass_on; i++)
        json_array_append_new(a, json_string(s->pass_on[i]));
    return a;
}

static int save(const struct sweep *s, struct pd_err *err) {
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
                  "goal", s->goal, "options", options_of(s), "ids", s->ids, "trials", trials);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(o);
    int rc = text ? 0 : pd_oom(err, "a sweep");
    if (!rc && !state_path(s, path))
        rc = pd_write_file_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Takes what an earlier call has reached: its trials, and the largest of their numbers. */
static void load_trials(struct sweep *s, const json_t *trials, int64_t *largest) {
    const json_t *one;
    size_t k;
    json_array_foreach (trials, k, one) {
        const int64_t number = json_integer_value(json_object_get(one, "number"));
        size_t i = 0;
        while (i < s->n && strcmp(s->v[i].settings, text_of(one, "settings")))
            i++;
        *largest = number > *largest ? number : *largest;
        if (i == s->n) {
            json_array_append_new(s->others, json_deep_copy(one));
            continue;
        }
        s->v[i].number = number;
        pd_fmt(s->v[i].job, sizeof s->v[i].job, "%s", text_of(one, "job"));
        pd_fmt(s->v[i].state, sizeof s->v[i].state, "%s", text_of(one, "state"));
    }
}

/* New trials get the next numbers: an earlier log or run of that name is not written over. */
static void number_trials(struct sweep *s, int64_t largest) {
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].number < 1)
            s->v[i].number = ++largest;
}

static int load(struct sweep *s, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    int64_t largest = 0;
    if (state_path(s, path))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", s->dir);
    const int there = !access(path, F_OK);
    if (there && !s->resume)
        return pd_fail(err, PD_EUSAGE,
                       "there is a sweep '%s' already: continue it with --resume, or give another "
                       "--name",
                       s->name);
    if (!there && s->resume)
        return pd_fail(err, PD_ENOENT, "there is no sweep '%s' to resume", s->name);
    if (!there) {
        number_trials(s, 0);
        return 0;
    }
    int rc = pd_read_regular(path, STATE_MAX, &b, err);
    json_t *o = rc ? NULL : json_loadb((char *)b.data, b.len, 0, NULL), *options = options_of(s);
    pd_buf_release(&b);
    if (!rc && json_integer_value(json_object_get(o, "version")) != RECORD_VERSION)
        rc = pd_fail(err, PD_EDATA, "%s is damaged, or of another version of paddlectl", path);
    if (!rc && (strcmp(text_of(o, "metric"), s->metric) || strcmp(text_of(o, "goal"), s->goal)))
        rc = pd_fail(err, PD_EUSAGE, "the sweep '%s' has --metric=%.60s --goal=%.10s", s->name,
                     text_of(o, "metric"), text_of(o, "goal"));
    if (!rc && !json_equal(json_object_get(o, "options"), options))
        rc = pd_fail(err, PD_EUSAGE,
                     "the sweep '%s' began with other options (%s has them): results could not be "
                     "compared; give another --name",
                     s->name, path);
    if (!rc)
        load_trials(s, json_object_get(o, "trials"), &largest);
    number_trials(s, largest);
    json_decref(options);
    if (!rc && json_is_object(json_object_get(o, "ids")))
        json_object_update(s->ids, json_object_get(o, "ids"));
    json_decref(o);
    return rc;
}

/* --- what a trial has reached --- */

static int open_curves(struct sweep *s, struct trial *t, struct pd_err *err) {
    if (t->curves || pd_fmt(t->dir, sizeof t->dir, "%s/%s", s->o->outputs, t->job))
        return 0;
    return curves_new(&t->curves, t->dir, &s->metric, 1, err);
}

/* The best value until this pass; NAN: none. *last: the pass of the last value. */
static double best_until(struct sweep *s, struct trial *t, double pass, double *last) {
    size_t n = 0;
    double best = NAN;
    const struct plot_point *v = t->curves ? curves_points(t->curves, 0, 1, &n) : NULL;
    for (size_t k = 0; v && k < n && v[k].x <= pass; k++) {
        if (isnan(best) || (s->more_is_better ? v[k].y > best : v[k].y < best))
            best = v[k].y;
        *last = v[k].x;
    }
    return best;
}

/* 1: the trial is worse than the median of those that are complete, at the same pass. */
static int is_hopeless(struct sweep *s, struct trial *t) {
    double others[CMD_SWEEP_TRIALS], at = 0, ignored;
    size_t n = 0;
    const double value = best_until(s, t, INFINITY, &at);
    if (isnan(value) || at < 1 || s->no_early_stop)
        return 0;
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->v[i].state, "done")) {
            const double other = best_until(s, &s->v[i], at, &ignored);
            if (!isnan(other))
                others[n++] = other;
        }
    return cmd_sweep_hopeless(value, others, n, s->more_is_better);
}

/* All trials have the files of the first one. *known: the record has the ids. */
static int check_ids(struct sweep *s, const struct trial *t, int *known, struct pd_err *err) {
    json_t *run = NULL;
    struct pd_err none = {0};
    int rc = 0;
    *known = !record_read_run(t->dir, &run, &none);
    for (int i = 0; *known && i < N_IDS && !rc; i++) {
        json_t *is = json_object_get(run, id_keys[i]), *was = json_object_get(s->ids, id_keys[i]);
        if (!was && is)
            json_object_set(s->ids, id_keys[i], is);
        else if (was && is && !json_equal(was, is))
            rc = pd_fail(err, PD_EUSAGE,
                         "%s differs from that of the sweep's first trial: results could not be "
                         "compared; give another --name",
                         !i       ? "the workspace"
                         : i == 1 ? "the data"
                                  : "paddle_worker");
    }
    json_decref(run);
    return rc;
}

/* --- one trial --- */

static int log_path(const struct sweep *s, const struct trial *t, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/trial-%lld.log", s->dir, (long long)t->number);
}

static int start(struct sweep *s, struct trial *t, pid_t *pid, struct pd_err *err) {
    char log[PATH_MAX], name[140], set[CMD_SWEEP_KEYS][600];
    const char *argv[ARGS_MAX + 2 * CMD_SWEEP_KEYS + 5];
    size_t n = 0;
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
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
    argv[n++] = name;
    argv[n++] = "--json";
    argv[n] = NULL;
    if (log_path(s, t, log))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", s->dir);
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&acts, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&acts, 1, 2);
    posix_spawnattr_init(&attr); /* a group of its own: Ctrl-C is passed on, once */
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &s->before);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int e =
        posix_spawn(pid, "/proc/self/exe", &acts, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&acts);
    return e ? pd_fail_errno(err, PD_EFAIL, e, "paddlectl run") : 0;
}

/* The job of the trial, from the first line of its log that names one. */
static void find_job(const struct sweep *s, struct trial *t) {
    static const char key[] = "\"job\":\"";
    char log[PATH_MAX], head[LOG_HEAD] = "";
    const int fd = log_path(s, t, log) ? -1 : open(log, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : pd_read_full(fd, head, sizeof head - 1);
    pd_close(fd);
    head[n > 0 ? n : 0] = 0;
    const char *p = strstr(head, key);
    const size_t len = p ? strcspn(p + strlen(key), "\"\n") : 0;
    if (len && len < sizeof t->job)
        snprintf(t->job, sizeof t->job, "%.*s", (int)len, p + strlen(key));
}

static void take_signals(struct sweep *s, pid_t pid) {
    struct pollfd f = {.fd = s->signals, .events = POLLIN};
    struct signalfd_siginfo got;
    poll(&f, 1, PERIOD_MS);
    while (read(s->signals, &got, sizeof got) == sizeof got) {
        if (got.ssi_signo == SIGCHLD)
            continue;
        s->interrupted = 1;
        if (pid > 0)
            kill(pid, SIGINT); /* a second one kills the job's processes at once */
    }
}

/* The last line of its log says what is wrong, if the job never began. */
static void print_last_line(const struct sweep *s, const struct trial *t) {
    char log[PATH_MAX];
    struct pd_buf b = {0};
    if (!log_path(s, t, log) && !pd_read_regular(log, STATE_MAX, &b, NULL)) {
        char *text = (char *)b.data, *end = text + strlen(text);
        while (end > text && end[-1] == '\n')
            *--end = 0;
        char *line = strrchr(text, '\n');
        fprintf(stderr, "paddlectl: trial %lld: %.500s (%s)\n", (long long)t->number,
                pd_make_printable(line ? line + 1 : text), log);
    }
    pd_buf_release(&b);
}

static void end_trial(struct sweep *s, struct trial *t, int hopeless) {
    json_t *run = NULL;
    double last;
    int more;
    if (*t->dir && !record_read_run(t->dir, &run, NULL))
        pd_fmt(t->state, sizeof t->state, "%.15s", text_of(run, "state"));
    else
        pd_fmt(t->state, sizeof t->state, "%s", s->interrupted ? "stopped" : "failed");
    json_decref(run);
    if (hopeless)
        pd_fmt(t->state, sizeof t->state, "hopeless");
    if (t->curves)
        curves_read(t->curves, &more, NULL);
    t->value = best_until(s, t, INFINITY, &last);
    if (!strcmp(t->state, "failed"))
        print_last_line(s, t);
}

static int run_trial(struct sweep *s, struct trial *t, struct pd_err *err) {
    pid_t pid = 0;
    int status = 0, hopeless = 0, checked = 0, more, rc;
    *t->job = *t->dir = 0;
    curves_free(t->curves);
    t->curves = NULL;
    pd_fmt(t->state, sizeof t->state, "running");
    rc = start(s, t, &pid, err);
    fprintf(stderr, "paddlectl: trial %lld (%zu of %zu): %s\n", (long long)t->number,
            (size_t)(t - s->v) + 1, s->n, t->settings);
    while (!rc && waitpid(pid, &status, WNOHANG) != pid) {
        take_signals(s, pid);
        if (!*t->job) {
            find_job(s, t);
            if (!*t->job)
                continue;
            save(s, err); /* a sweep that is killed now waits for this job when it is resumed */
        }
        if (open_curves(s, t, err) || curves_read(t->curves, &more, err))
            continue;
        if (!checked) {
            struct pd_err bad = {0};
            if (check_ids(s, t, &checked, &bad) || (checked && save(s, &bad))) {
                kill(pid, SIGINT);
                pd_err_copy(err, &bad);
            }
        }
        if (!hopeless && !s->interrupted && !err->code && is_hopeless(s, t)) {
            hopeless = 1;
            kill(pid, SIGINT);
        }
    }
    if (rc)
        return rc;
    if (!*t->job)
        find_job(s, t);
    if (*t->job)
        open_curves(s, t, err);
    end_trial(s, t, hopeless);
    struct pd_err none = {0};
    if (!err->code && !checked && *t->dir)
        check_ids(s, t, &checked, err);
    return save(s, err->code ? &none : err) || err->code ? err->code : 0;
}

/* The trial of an earlier call: complete, or to be run again. Its job may still run, if paddlectl
 * sweep was killed: then it is waited for. */
static int take_earlier(struct sweep *s, struct trial *t, struct pd_err *err) {
    const int was_hopeless = !strcmp(t->state, "hopeless");
    int more;
    if (!*t->job || open_curves(s, t, err))
        return err->code;
    while (record_is_written(t->dir) && !s->interrupted)
        take_signals(s, 0);
    if (curves_read(t->curves, &more, err))
        return err->code;
    end_trial(s, t, was_hopeless);
    return 0;
}

static int is_complete(const struct trial *t) {
    return !strcmp(t->state, "done") || !strcmp(t->state, "hopeless");
}

/* --- the end --- */

static const struct trial *winner(const struct sweep *s) {
    const struct trial *best = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct trial *t = &s->v[i];
        if (!strcmp(t->state, "done") && !isnan(t->value) &&
            (!best || (s->more_is_better ? t->value > best->value : t->value < best->value)))
            best = t;
    }
    return best;
}

static void print_table(const struct sweep *s, const struct trial *best) {
    struct table t;
    char number[24], value[40];
    table_init(&t, 5, "r.r");
    table_fit(&t, term_limit(STDOUT_FILENO), "d");
    table_row(&t, (const char *[TABLE_COLUMNS]){"TRIAL", "STATE", s->metric, "JOB", "SETTINGS"});
    for (size_t i = 0; i < s->n; i++) {
        snprintf(number, sizeof number, "%s%lld", &s->v[i] == best ? "*" : "",
                 (long long)s->v[i].number);
        snprintf(value, sizeof value, "%.6g", s->v[i].value);
        table_row(&t, (const char *[TABLE_COLUMNS]){number, *s->v[i].state ? s->v[i].state : "-",
                                                    isnan(s->v[i].value) ? "" : value, s->v[i].job,
                                                    s->v[i].settings});
    }
    table_print(&t, stdout);
    table_release(&t);
}

/* The best trial's train.ini becomes that of the sweep. */
static int keep_winner(const struct sweep *s, const struct trial *best, struct pd_err *err) {
    char from[PATH_MAX], to[PATH_MAX];
    struct pd_buf b = {0};
    if (!best || pd_fmt(from, sizeof from, "%s/train.ini", best->dir) ||
        pd_fmt(to, sizeof to, "%s/train.ini", s->dir) || access(from, F_OK))
        return 0;
    int rc = pd_read_regular(from, STATE_MAX, &b, err);
    if (!rc)
        rc = pd_write_file_atomic(to, b.data, b.len, 0644, err);
    pd_buf_release(&b);
    if (!rc)
        printf("the best: trial %lld, %s; its train.ini: %s\n", (long long)best->number,
               best->settings, to);
    return rc;
}

static int run_all(struct sweep *s, struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < s->n && !rc; i++) /* first, for the median rule */
        if (*s->v[i].state)
            rc = take_earlier(s, &s->v[i], err);
    for (size_t i = 0; i < s->n && !rc && !s->interrupted; i++)
        if (!is_complete(&s->v[i]))
            rc = run_trial(s, &s->v[i], err);
    if (rc)
        return rc;
    const struct trial *best = winner(s);
    print_table(s, best);
    if (s->interrupted)
        fprintf(stderr, "paddlectl: stopped; --resume continues with the trials that are left\n");
    else
        rc = keep_winner(s, best, err);
    return rc ? rc : s->interrupted ? pd_code_exit_status(PD_ECANCELED) : !best;
}

/* --- the beginning --- */

static int plan(struct sweep *s, struct pd_err *err) {
    size_t combination[CMD_SWEEP_TRIALS];
    const size_t size = cmd_sweep_size(&s->keys);
    uint64_t n = size, seed = 0;
    if (s->trials && (pd_parse_u64(s->trials, CMD_SWEEP_TRIALS, &n) || !n))
        return pd_fail(err, PD_EUSAGE, "--trials=%.40s: give a number up to %d", s->trials,
                       CMD_SWEEP_TRIALS);
    if (s->seed && pd_parse_u64(s->seed, UINT64_MAX, &seed))
        return pd_fail(err, PD_EUSAGE, "--seed=%.40s: give a whole number", s->seed);
    n = size && n > size ? size : n;
    if (!size || n > CMD_SWEEP_TRIALS)
        return pd_fail(err, PD_EUSAGE, "more than %d trials: choose some with --trials=N",
                       CMD_SWEEP_TRIALS);
    if (!(s->v = pd_calloc(n, sizeof *s->v)))
        return pd_oom(err, "a sweep");
    cmd_sweep_draw(&s->keys, seed, n, combination);
    for (s->n = 0; s->n < n; s->n++) {
        struct trial *t = &s->v[s->n];
        t->combination = combination[s->n];
        t->value = NAN;
        for (size_t i = 0, at = 0; i < s->keys.n; i++, at = strlen(t->settings)) {
            char set[600];
            if (cmd_sweep_setting(&s->keys, t->combination, i, set, sizeof set) ||
                pd_fmt(t->settings + at, sizeof t->settings - at, "%s%s", i ? " " : "", set))
                return pd_fail(err, PD_EUSAGE, "--set %.200s: too long", s->keys.v[i].key);
        }
    }
    return 0;
}

static int sweep(struct sweep *s, struct pd_err *err) {
    sigset_t set;
    if (!s->keys.n)
        return pd_fail(err, PD_EUSAGE,
                       "give values to try, as in --set optimizer.learning_rate=0.1,0.03");
    if (strcmp(s->goal, "max") && strcmp(s->goal, "min"))
        return pd_fail(err, PD_EUSAGE, "--goal=%.40s: give max or min", s->goal);
    s->more_is_better = !strcmp(s->goal, "max");
    const char *name = *s->o->job_name ? s->o->job_name : "sweep";
    if (strchr(name, '/') || strlen(name) > NAME_MOST || /* "-NUMBER" follows */
        pd_fmt(s->name, sizeof s->name, "%s", name) ||
        pd_fmt(s->dir, sizeof s->dir, "%s/sweep-%s", s->o->outputs, s->name))
        return pd_fail(err, PD_EUSAGE,
                       "--name=%.60s: a sweep's name has at most %d bytes and no '/'", name,
                       NAME_MOST);
    int rc = plan(s, err);
    if (!rc)
        rc = load(s, err);
    if (!rc)
        rc = pd_mkdirs(s->dir, 0777, err);
    if (rc)
        return rc;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &s->before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    rc = s->signals < 0 ? pd_fail_errno(err, PD_EIO, errno, "signals") : run_all(s, err);
    pd_close(s->signals);
    return rc;
}

/* 1: the word is the option `name`; *takes_next: its value is the next word. */
static int is_option(const char *word, const char *name, int has_value, int *takes_next) {
    const size_t n = strlen(name);
    if (strncmp(word, "--", 2) || strncmp(word + 2, name, n))
        return 0;
    *takes_next = has_value && !word[2 + n];
    return !word[2 + n] || word[2 + n] == '=';
}

/* Divides the words: --set with a comma, sweep's own options, and those that `run` gets. What is
 * left in argv is checked by cmd_parse. */
static int divide(struct sweep *s, int *argc, char **argv, struct pd_err *err) {
    static const struct {
        const char *name;
        int has_value;
    } own[] = {{"metric", 1}, {"goal", 1},   {"trials", 1},        {"seed", 1},
               {"name", 1},   {"resume", 0}, {"no-early-stop", 0}, {"no_early_stop", 0}};
    int n = 1, rc = 0, next = 0;
    for (int i = 1; i < *argc && !rc; i++) {
        const char *value = NULL;
        if (is_option(argv[i], "set", 1, &next))
            value = next ? (i + 1 < *argc ? argv[i + 1] : NULL) : argv[i] + strlen("--set=");
        if (value && strchr(value, ',')) {
            rc = cmd_sweep_key(&s->keys, value, err);
            i += next;
            continue;
        }
        int mine = 0;
        for (size_t k = 0; k < sizeof own / sizeof own[0] && !mine; k++)
            mine = is_option(argv[i], own[k].name, own[k].has_value, &next);
        if (!mine && s->n_pass_on < ARGS_MAX)
            s->pass_on[s->n_pass_on++] = argv[i];
        argv[n++] = argv[i];
        if (mine && next && i + 1 < *argc)
            argv[n++] = argv[++i];
    }
    argv[ *argc = n] = NULL;
    return rc;
}

int cmd_sweep(int argc, char **argv) {
    struct sweep *s = pd_calloc(1, sizeof *s);
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc;
    if (!s || argc >= ARGS_MAX) {
        free(s);
        pd_oom(&err, "a sweep");
        return cmd_fail(&err);
    }
    s->metric = "test";
    s->goal = "min";
    s->ids = json_object();
    s->others = json_array();
    const struct pd_extra_option extra[] = {
        {"metric=NAME", NULL, &s->metric,
         "what is compared: a metric of 'paddlectl plot', such as test.auc; default: the value of "
         "the tests"},
        {"goal=max|min", NULL, &s->goal, "which values are better; default: min"},
        {"trials=N", NULL, &s->trials, "N combinations drawn at random; default: all"},
        {"seed=S", NULL, &s->seed, "another draw; default: 0"},
        {"resume", &s->resume, NULL,
         "continue a sweep: trials that have failed or did not end are run again"},
        {"no_early_stop", &s->no_early_stop, NULL, "run every trial to its end"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl sweep --set KEY=VALUE,VALUE... [options]\n"
                 "Runs a job for each combination of the values, one after the other, and shows "
                 "which one is best. Other options are those of conf.ini and train.ini, as for "
                 "'paddlectl run'.",
        .about =
            "--set with a comma gives values to try, and may be repeated. A trial is stopped "
            "early if its best value is worse than the median of the complete trials at the same "
            "pass, once three are complete.\n"
            "\n"
            "Ctrl-C stops the trial that runs. OUTPUTS/sweep-NAME has the state of the sweep, the "
            "logs of its trials and in the end the train.ini of the best one; the records of its "
            "trials are those of 'paddlectl runs'. All trials must have the same workspace, data "
            "and program.\n",
        .examples = "paddlectl sweep --set optimizer.learning_rate=0.1,0.03,0.01 "
                    "--metric=test.auc --goal=max\tthree trials\n"
                    "paddlectl sweep --set optimizer.learning_rate=0.1,0.03,0.01 "
                    "--metric=test.auc --goal=max --resume\tcontinue it\n",
        .extra = extra,
        .sections = "cluster slurm ssh job train",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    rc = argc > 1 && pd_starts_with(argv[1], "--help") ? 0 : divide(s, &argc, argv, &err);
    if (!rc && (rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest)) == CMD_GO_ON) {
        s->o = &o;
        rc = sweep(s, &err);
        pd_options_release(&o);
    }
    for (size_t i = 0; i < s->n; i++)
        curves_free(s->v[i].curves);
    free(s->v);
    json_decref(s->ids);
    json_decref(s->others);
    cmd_sweep_release(&s->keys);
    free(s);
    return err.code ? cmd_fail(&err) : rc;
}
