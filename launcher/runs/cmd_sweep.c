/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sweep.c - paddlectl sweep: a job for each combination of some settings (sweep_internal.h). */
#include <sys/signalfd.h>

#include "launcher/cmd/cmd.h"
#include "launcher/hosts/host_source.h"
#include "launcher/runs/sweep_internal.h"

enum { NAME_MOST = 50 };

/* --- which trials --- */

int sweep_add(struct sweep *s, size_t combination, int64_t passes, int before, struct pd_err *err) {
    struct trial *t = &s->v[s->n];
    size_t at = 0;
    assert(s->n < s->cap);
    *t = (struct trial){
        .combination = combination, .value = NAN, .passes = passes, .before = before};
    for (size_t i = 0; i < s->keys.n; i++, at = strlen(t->settings)) {
        char set[600];
        if (cmd_sweep_setting(&s->keys, t->combination, i, set, sizeof set) ||
            pd_fmt(t->settings + at, sizeof t->settings - at, "%s%s", i ? " " : "", set))
            return pd_fail(err, PD_EUSAGE, "--set %.200s: too long", s->keys.v[i].key);
    }
    if (passes && pd_fmt(t->settings + at, sizeof t->settings - at, " train.num_passes=%lld",
                         (long long)passes))
        return pd_fail(err, PD_EUSAGE, "--set %.200s: too long", s->keys.v[0].key);
    s->n++;
    return 0;
}

/* The passes of a whole trial: of the command line and conf.ini, or of train.ini. */
static int find_passes(struct sweep *s, struct pd_err *err) {
    struct pd_options o;
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < s->keys.n; i++)
        if (!strcmp(s->keys.v[i].key, "train.num_passes"))
            return pd_fail(err, PD_EUSAGE,
                           "--halving gives trials their number of passes: leave "
                           "out --set train.num_passes");
    int rc = pd_options_copy(&o, s->o, err);
    if (rc)
        return rc;
    if (!pd_fmt(path, sizeof path, "%s/%s", o.job_dispatch_package, o.config) && !stat(path, &st) &&
        S_ISREG(st.st_mode))
        rc = pd_options_read_train(&o, path, err);
    s->passes = o.num_passes;
    pd_options_release(&o);
    return !rc && s->passes < 2 ? pd_fail(err, PD_EUSAGE, "--halving needs --num_passes=2 or more")
                                : rc;
}

/* "--hosts=a,b,local*2" */
static char *host_list(const struct host *v, size_t n, struct pd_err *err) {
    struct pd_buf list = {0};
    size_t n_local = 0;
    int is_first = 1;
    for (size_t i = 0; i < n; i++)
        n_local += v[i].local != 0;
    pd_put_fmt(&list, "--hosts=");
    for (size_t i = 0; i < n; i++) {
        const size_t n_here = v[i].local ? n_local : 0;
        if (v[i].local && !n_here)
            continue; /* named with the first one */
        pd_put_fmt(&list, "%s%s", is_first ? "" : ",", v[i].local ? "" : v[i].spec);
        if (n_here)
            pd_put_fmt(&list, "local*%zu", n_here);
        n_local -= n_here;
        is_first = 0;
    }
    if (list.failed)
        pd_oom(err, "a sweep");
    return (char *)list.data;
}

/* --nodes-per-trial: a list of hosts for each trial that runs at a time. */
static int divide_hosts(struct sweep *s, struct pd_err *err) {
    struct hosts h = {0};
    int64_t size = 0;
    s->n_parts = 1;
    if (!s->nodes_per_trial)
        return 0;
    if (pd_parse_i64(s->nodes_per_trial, 1, HOSTS_MAX, &size))
        return pd_fail(err, PD_EUSAGE, "--nodes-per-trial=%.40s: give the number of hosts",
                       s->nodes_per_trial);
    if ((s->o->engine != PD_ENGINE_SSH && s->o->engine != PD_ENGINE_LOCAL) || *s->o->launch)
        return pd_fail(err, PD_EUSAGE,
                       "--nodes-per-trial needs a list of hosts: engine = ssh or local, no launch");
    if (host_source_load(&h, s->o, err))
        return err->code;
    s->n_parts = h.n / (size_t)size;
    if (!s->n_parts)
        pd_fail(err, PD_EUSAGE, "--nodes-per-trial=%lld: there are only %zu hosts", (long long)size,
                h.n);
    else if (!(s->parts = pd_calloc(s->n_parts, sizeof *s->parts)))
        pd_oom(err, "a sweep");
    for (size_t p = 0; p < s->n_parts && !err->code; p++)
        s->parts[p] = host_list(h.v + p * (size_t)size, (size_t)size, err);
    if (!err->code && h.n % (size_t)size)
        fprintf(stderr, "paddlectl: the last %zu of %zu hosts get no trial\n", h.n % (size_t)size,
                h.n);
    hosts_release(&h);
    return err->code;
}

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
    if (s->halving && find_passes(s, err))
        return err->code;
    const int64_t passes =
        s->halving ? cmd_sweep_round_passes(0, cmd_sweep_rounds(n, s->passes), s->passes) : 0;
    s->cap = s->halving ? 2 * n : n; /* a round has at most half of the trials of the one before */
    if (!(s->v = pd_calloc(s->cap, sizeof *s->v)))
        return pd_oom(err, "a sweep");
    cmd_sweep_draw(&s->keys, seed, n, combination);
    for (size_t i = 0; i < n; i++)
        if (sweep_add(s, combination[i], passes, SWEEP_NONE, err))
            return err->code;
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
        rc = divide_hosts(s, err);
    if (!rc)
        rc = sweep_state_load(s, err);
    if (!rc)
        sweep_state_adopt(s, 0);
    if (rc)
        return rc;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &s->mask_before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    rc = s->signals < 0 ? pd_fail_errno(err, PD_EIO, errno, "signals") : sweep_run(s, err);
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
    } own[] = {{"metric", 1},         {"goal", 1},
               {"trials", 1},         {"seed", 1},
               {"name", 1},           {"resume", 0},
               {"no-early-stop", 0},  {"no_early_stop", 0},
               {"halving", 0},        {"nodes-per-trial", 1},
               {"nodes_per_trial", 1}};
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
        {"nodes_per_trial=N", NULL, &s->nodes_per_trial,
         "run trials side by side, each on N of the hosts; default: one after the other on all"},
        {"halving", &s->halving, NULL,
         "successive halving: a short round with all trials, then the better half continues for "
         "twice as many passes, and so on"},
        {"no_early_stop", &s->no_early_stop, NULL, "run every trial to its end"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl sweep --set KEY=VALUE,VALUE... [options]\n"
                 "Runs a job for each combination of the values, and shows "
                 "which one is best. Other options are those of conf.ini and train.ini, as for "
                 "'paddlectl run'.",
        .about =
            "--set with a comma gives values to try, and may be repeated. A trial is stopped "
            "early if its best value is worse than the median of the complete trials at the same "
            "pass, once three are complete.\n"
            "\n"
            "--halving: with 8 trials of 8 passes, all train for one pass, then 4 up to pass 2, 2 "
            "up "
            "to pass 4, and one up to pass 8. Each continues from its checkpoint.\n"
            "\n"
            "Ctrl-C stops the trial that runs. OUTPUTS/sweep-NAME has the state of the sweep, the "
            "logs of its trials and in the end the train.ini of the best one; the records of its "
            "trials are those of 'paddlectl runs'. All trials must have the same workspace, data "
            "and program.\n",
        .examples = "paddlectl sweep --set optimizer.learning_rate=0.1,0.03,0.01 "
                    "--metric=test.auc --goal=max\tthree trials\n"
                    "paddlectl sweep --set optimizer.learning_rate=0.1,0.03,0.01 "
                    "--metric=test.auc --goal=max --resume\tcontinue it\n"
                    "paddlectl sweep --set layer.hidden.size=64,128,256,512 --nodes-per-trial=2 "
                    "--halving\tside by side, and the worse half ends early each time\n",
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
    for (size_t i = 0; s->parts && i < s->n_parts; i++)
        free(s->parts[i]);
    free(s->parts);
    free(s->v);
    pd_close(s->lock);
    json_decref(s->ids);
    json_decref(s->others);
    cmd_sweep_release(&s->keys);
    free(s);
    return err.code ? cmd_fail(&err) : rc;
}
