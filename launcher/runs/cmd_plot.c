/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plot.c - paddlectl plot: the curves of runs in the terminal, also while they run. */
#include <poll.h>
#include <sys/signalfd.h>

#include "launcher/cmd/cmd.h"
#include "launcher/plot/charts.h"
#include "launcher/record/runs.h"
#include "launcher/text/term.h"

enum { PERIOD_MS = 500, METRICS_TEXT = 1000 };

struct plot_cmd {
    int follow;
    const char *metrics; /* --metric, or NULL */
    char *names;         /* of the metrics, in one text */
    struct charts charts;
    struct pd_buf last; /* the picture on the terminal */
};

/* --- which runs and metrics --- */

static int add_run(struct plot_cmd *p, struct runs *all, const char *want, struct pd_err *err) {
    const struct run *run;
    char dir[PATH_MAX], label[200];
    const int rc = runs_find(all, want, &run, err);
    if (rc)
        return rc;
    if (pd_fmt(dir, sizeof dir, "%s/%s", all->outputs, run->job))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", all->outputs);
    snprintf(label, sizeof label, "%s %.100s", run->job, run_text(run, "name"));
    return charts_add(&p->charts, dir, label, err);
}

/* "test.auc,cost" */
static int add_metrics(struct charts *c, char *text, struct pd_err *err) {
    char *save = NULL;
    for (char *s = strtok_r(text, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        if (c->n_metrics == CURVES_METRICS)
            return pd_fail(err, PD_EUSAGE, "--metric: more than %d metrics", CURVES_METRICS);
        c->metric[c->n_metrics++] = s;
    }
    return c->n_metrics ? 0 : pd_fail(err, PD_EUSAGE, "--metric: name a metric, as in test.auc");
}

/* Says which metrics there are, if none of those wanted has values. */
static int check(struct plot_cmd *p, struct pd_err *err) {
    char known[METRICS_TEXT] = "";
    const char *name;
    json_t *one, *names;
    struct charts *c = &p->charts;
    for (size_t m = 0; m < c->n_metrics; m++)
        if (charts_has_values(c, m))
            return 0;
    names = json_object();
    for (size_t i = 0; i < c->n; i++)
        json_object_update(names, (json_t *)curves_known(c->v[i].curves));
    json_object_foreach (names, name, one) {
        const size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%.60s", at ? ", " : "", name);
    }
    json_decref(names);
    return pd_fail(err, PD_EUSAGE, "no run has values of %.100s; there are: %.800s",
                   p->metrics ? c->metric[0] : "a cost or a test", *known ? known : "none");
}

/* --- following --- */

/* Erases the picture that is on the terminal. Its lines may have wrapped since. */
static void erase(const struct plot_cmd *p) {
    const char *s = (const char *)p->last.data, *end = s + p->last.len, *stop;
    const size_t width = (size_t)term_width(STDOUT_FILENO);
    size_t up = 0;
    for (; s < end && (stop = memchr(s, '\n', (size_t)(end - s))); s = stop + 1) {
        const size_t columns = term_columns(s, (size_t)(stop - s));
        up += columns > width ? (columns + width - 1) / width : 1;
    }
    const size_t most = (size_t)term_height(STDOUT_FILENO) - 1;
    if (up)
        printf("\033[%zuA\r\033[J", up < most ? up : most);
}

/* Cuts the lines that the terminal has no place for: a line that has scrolled out cannot be erased.
 */
static void cut(struct pd_buf *b, int lines) {
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] == '\n' && !--lines)
            b->len = i + 1;
}

static int show(struct plot_cmd *p, struct pd_err *err) {
    struct pd_buf b = {0};
    const int tty = p->follow && isatty(STDOUT_FILENO); /* all of it is on the terminal at once */
    const int lines = tty ? term_height(STDOUT_FILENO) - 1 : 0;
    const int rc = charts_draw(&p->charts, lines, &b, err);
    if (lines)
        cut(&b, lines);
    if (!b.len)
        pd_put_fmt(&b, "(no values yet)\n");
    if (!rc) {
        if (p->follow && term_is_live(STDOUT_FILENO))
            erase(p);
        fwrite(b.data, 1, b.len, stdout);
        fflush(stdout);
    }
    pd_buf_release(&p->last);
    p->last = b;
    return rc;
}

static int any_is_written(const struct plot_cmd *p) {
    for (size_t i = 0; i < p->charts.n; i++)
        if (record_is_written(p->charts.v[i].dir))
            return 1;
    return 0;
}

static int follow(struct plot_cmd *p, struct pd_err *err) {
    sigset_t set, before;
    const int live = term_is_live(STDOUT_FILENO);
    int rc = 0, more = 0, written = 1, redraw = live;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGCONT);
    sigprocmask(SIG_BLOCK, &set, &before);
    const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "signals");
    while (!rc && written) {
        struct pollfd f = {.fd = fd, .events = POLLIN};
        struct signalfd_siginfo s;
        written = any_is_written(p); /* before reading: the end is read, too */
        rc = charts_read(&p->charts, &more, err);
        if (!rc && ((more && live) || redraw || !written) && term_is_foreground(STDOUT_FILENO))
            rc = written || live ? show(p, err) : 0;
        redraw = 0;
        if (!rc && written)
            poll(&f, 1, PERIOD_MS);
        while (!rc && read(fd, &s, sizeof s) == sizeof s) {
            if (s.ssi_signo == SIGINT)
                rc = PD_ECANCELED;
            if (s.ssi_signo == SIGCONT) /* the shell has written below it */
                pd_buf_clear(&p->last);
            redraw = live;
        }
    }
    pd_close(fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!rc && !live)
        rc = show(p, err);
    if (!rc)
        charts_warn(&p->charts);
    if (!rc)
        rc = check(p, err);
    return rc == PD_ECANCELED ? pd_code_exit_status(rc) : rc;
}

static int plot(void *arg, struct runs *all, const char *const *want, int n, struct pd_err *err) {
    struct plot_cmd *p = arg;
    int more, rc;
    if (p->charts.x && strcmp(p->charts.x, "pass") && strcmp(p->charts.x, "time"))
        return pd_fail(err, PD_EUSAGE, "--x=%.40s: give pass or time", p->charts.x);
    if (!(p->names = pd_strdup(p->metrics ? p->metrics : "cost,test")))
        return pd_oom(err, "a picture");
    rc = add_metrics(&p->charts, p->names, err);
    for (int i = 0; i < (n ? n : 1) && !rc; i++)
        rc = add_run(p, all, n ? want[i] : "latest", err);
    if (!rc)
        rc = charts_read(&p->charts, &more, err);
    if (!rc && p->follow)
        return follow(p, err);
    if (!rc)
        charts_warn(&p->charts);
    if (!rc)
        rc = check(p, err);
    return rc ? rc : show(p, err);
}

int cmd_plot(int argc, char **argv) {
    struct plot_cmd p = {0};
    const struct pd_extra_option extra[] = {
        {"metric=NAMES", NULL, &p.metrics,
         "which curves: cost, rate, wait, an evaluator's name, test.cost, test.NAME; several with "
         "commas; default: the cost, and the tests' value"},
        {"x=pass", NULL, &p.charts.x,
         "the axis: pass, or time in seconds; default: pass if it is known"},
        {"follow", &p.follow, NULL,
         "draw anew until the runs end (also -f); Ctrl-C leaves them running"},
        {"ascii", &p.charts.ascii, NULL, "plain characters, as in a locale without UTF-8"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl plot [options] [JOB...]\n"
                 "Draws the curves of runs in the terminal, one over the other. Without JOB: the "
                 "newest run. A JOB is an id, its end, or the name of a run.",
        .about = "It reads the records of 'paddlectl runs', and asks no host. With several runs, a "
                 "letter marks the end of each curve, and the legend has its last value. The width "
                 "is that of the terminal, or COLUMNS for a pipe.\n",
        .examples = "paddlectl plot -f\tthe job that runs\n"
                    "paddlectl plot wide deep --metric=test.auc\ttwo runs by their --name\n",
        .extra = extra,
        .max_rest = PLOT_CURVES,
    };
    for (int i = 1; i < argc; i++) /* the usual short form */
        if (!strcmp(argv[i], "-f"))
            argv[i] = (char *)(uintptr_t) "--follow";
    const int rc = cmd_runs_main(&line, argc, argv, plot, &p);
    charts_release(&p.charts);
    pd_buf_release(&p.last);
    free(p.names);
    return rc;
}
