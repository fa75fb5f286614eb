/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_run.c - the trials of a sweep, one after the other or side by side; see sweep_internal.h.
 *
 *     round of trials ─▶ a free part of the hosts ─▶ process ─▶ result ─▶ next round (halving)
 */
#include <poll.h>
#include <sys/signalfd.h>

#include "launcher/runs/sweep_internal.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"

enum { PERIOD_MS = 200 };

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

/* The number of a part of the hosts where no trial runs; n_parts: there is none. */
static size_t free_part(const struct sweep *s) {
    size_t part = 0;
    for (size_t i = 0; i < s->n && part < s->n_parts; i++)
        if (s->v[i].pid && s->v[i].part == part) {
            part++;
            i = SIZE_MAX; /* from the first trial again */
        }
    return part;
}

/* Looks at the trials that run. Returns their number. After the first error all are stopped. */
static size_t look_at_all(struct sweep *s, struct pd_err *err) {
    size_t n_running = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct trial *t = &s->v[i];
        struct pd_err later = {0};
        if (t->pid)
            sweep_trial_look(s, t, err->code ? &later : err);
        if (t->pid && err->code)
            sweep_trial_stop(t);
        n_running += t->pid != 0;
    }
    return n_running;
}

/* Takes the result of an earlier call. A trial that still runs, because `paddlectl sweep` was
 * killed, is waited for. */
static int reload(struct sweep *s, struct trial *t, struct pd_err *err) {
    int goes_on = sweep_trial_goes_on(s, t);
    if (goes_on)
        fprintf(stderr,
                "paddlectl: trial %lld of an earlier call, or a command that it started, still "
                "runs: waiting for its end\n",
                (long long)t->number);
    while (goes_on && !s->is_interrupted) {
        wait_for_signals(s);
        goes_on = sweep_trial_goes_on(s, t);
    }
    return goes_on || !*t->state ? 0 : sweep_trial_reload(s, t, err);
}

static int is_complete(const struct trial *t) {
    return !strcmp(t->state, "done") || !strcmp(t->state, "hopeless");
}

/* Runs the trials of this round. */
static int run_round(struct sweep *s, struct pd_err *err) {
    size_t next = s->first;
    for (size_t i = s->first; i < s->n; i++) /* first, for the median rule */
        if (reload(s, &s->v[i], err))
            return err->code;
    if (sweep_state_save(s, err))
        return err->code;
    for (;;) {
        while (next < s->n && is_complete(&s->v[next]))
            next++;
        const size_t part = free_part(s);
        if (next < s->n && part < s->n_parts && !s->is_interrupted && !err->code) {
            s->v[next].part = part;
            sweep_trial_start(s, &s->v[next++], err);
            continue;
        }
        if (!look_at_all(s, err) && (next == s->n || s->is_interrupted || err->code))
            return err->code;
        wait_for_signals(s);
    }
}

/* The better half of the trials of this round go on in the next one. */
static int promote(struct sweep *s, size_t n, int64_t passes, struct pd_err *err) {
    double value[CMD_SWEEP_TRIALS];
    size_t order[CMD_SWEEP_TRIALS], n_ranked;
    const size_t n_before = s->n - s->first, first = s->n;
    for (size_t i = 0; i < n_before; i++)
        value[i] = strcmp(s->v[s->first + i].state, "done") ? NAN : s->v[s->first + i].value;
    cmd_sweep_rank(value, n_before, s->more_is_better, order, &n_ranked);
    for (size_t i = 0; i < n && i < n_ranked; i++) {
        const struct trial *before = &s->v[s->first + order[i]];
        if (sweep_add(s, before->combination, passes, (int)(before - s->v), err))
            return err->code;
    }
    s->first = first;
    sweep_state_adopt(s, first);
    return 0;
}

/* --- the end --- */

static const struct trial *winner(const struct sweep *s) {
    const struct trial *best = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct trial *t = &s->v[i];
        if (!strcmp(t->state, "done") && !isnan(t->value) &&
            (!best || (s->more_is_better ? t->value > best->value : t->value < best->value) ||
             (t->value == best->value && t->passes > best->passes)))
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

int sweep_run(struct sweep *s, struct pd_err *err) {
    const size_t n = s->n, n_rounds = s->passes ? cmd_sweep_rounds(n, s->passes) : 1;
    int rc = run_round(s, err);
    for (size_t k = 1; k < n_rounds && !rc && !s->is_interrupted && s->n > s->first; k++) {
        rc = promote(s, n >> k, cmd_sweep_round_passes(k, n_rounds, s->passes), err);
        if (!rc)
            rc = run_round(s, err);
    }
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
