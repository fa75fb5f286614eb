/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sweep.c - paddlectl sweep: a job for each combination of some settings, one after the other
 * (sweep_internal.h). The ids of workspace, data and program of the first trial are those of all.
 */
#include <poll.h>
#include <sys/signalfd.h>

#include "launcher/cmd/cmd.h"
#include "launcher/runs/sweep_internal.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"

enum { PERIOD_MS = 200, NAME_MOST = 50 };

/* --- trials --- */

/* Waits for a signal, at most PERIOD_MS. A signal to end is passed on to the trials that run: a
 * second one kills their processes at once. */
static void wait_for_signals(struct sweep *s) {
    struct pollfd f = {.fd = s->signals, .events = POLLIN};
    struct signalfd_siginfo got;
    poll(&f, 1, PERIOD_MS);
    while (read(s->signals, &got, sizeof got) == sizeof got) {
        if (got.ssi_signo == SIGCHLD)
            continue;
        s->is_interrupted = 1;
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].pid)
                kill(s->v[i].pid, SIGINT);
    }
}

static int run_trial(struct sweep *s, struct trial *t, struct pd_err *err) {
    int rc = sweep_trial_start(s, t, err);
    while (t->pid) {
        struct pd_err failure = {0};
        wait_for_signals(s);
        if (sweep_trial_look(s, t, rc ? &failure : err) && !rc)
            rc = err->code;
    }
    return rc;
}

/* Takes the result of an earlier call. A trial that still runs, because `paddlectl sweep` was
 * killed, is waited for. */
static int reload_trial(struct sweep *s, struct trial *t, struct pd_err *err) {
    int goes_on;
    while ((goes_on = sweep_trial_goes_on(s, t)) && !s->is_interrupted)
        wait_for_signals(s);
    return goes_on || !*t->state ? 0 : sweep_trial_reload(s, t, err);
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
    int rc = pd_read_regular(from, SWEEP_FILE_MAX, &b, err);
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
        rc = reload_trial(s, &s->v[i], err);
    if (!rc)
        rc = sweep_state_save(s, err);
    for (size_t i = 0; i < s->n && !rc && !s->is_interrupted; i++)
        if (!is_complete(&s->v[i]))
            rc = run_trial(s, &s->v[i], err);
    if (rc)
        return rc;
    const struct trial *best = winner(s);
    print_table(s, best);
    if (s->is_interrupted)
        fprintf(stderr, "paddlectl: stopped; --resume continues with the trials that are left\n");
    else
        rc = keep_winner(s, best, err);
    return rc ? rc : s->is_interrupted ? pd_code_exit_status(PD_ECANCELED) : !best;
}

/* --- which trials --- */

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
        rc = sweep_state_load(s, err);
    if (rc)
        return rc;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &s->mask_before);
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

/* Divides the words into those of --set with a comma, the options of sweep itself, and the options
 * that each `paddlectl run` gets. argv keeps the last two kinds, for cmd_parse. */
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
        if (!mine && s->n_pass_on < SWEEP_ARGS_MAX)
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
    if (!s || argc >= SWEEP_ARGS_MAX) {
        free(s);
        pd_oom(&err, "a sweep");
        return cmd_fail(&err);
    }
    s->lock = -1;
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
    pd_close(s->lock);
    json_decref(s->ids);
    json_decref(s->others);
    cmd_sweep_release(&s->keys);
    free(s);
    return err.code ? cmd_fail(&err) : rc;
}
