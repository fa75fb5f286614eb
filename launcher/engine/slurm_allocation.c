/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_allocation.c - paddlectl run outside of an allocation: salloc runs the same command inside
 * a new one, and gives it back however that command ends.
 *
 *     paddlectl run ─▶ salloc ─▶ paddlectl run (inner)
 *        ▲    ▲          │ stderr: "Pending job allocation 12", why it is refused
 *        │    └──────────┘                │
 *        └────────────────────────────────┘ a pipe: the inner one's process id when it starts,
 *                                           and its exit status, since salloc ends with 0 after a
 *                                           command that was killed
 *
 * If this process is killed, the kernel sends SIGTERM to salloc, which gives the allocation back
 * and ends the inner one. If salloc is killed, this process does both. */
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "launcher/engine/slurm.h"
#include "launcher/hosts/host_source.h"

#define INNER "PADDLE_IN_ALLOCATION" /* in the inner one's environment */
enum { REPORT_FD = 8, STDERR_FD = 9, FREE_FD = 20, LINE_CAP = 1000, END_MS = 100 };

struct allocation {
    const struct pd_options *o;
    pid_t salloc, inner;
    int text, report, signals; /* descriptors */
    char line[LINE_CAP];       /* what salloc has written of a line */
    size_t len;
    char id[32];       /* of the Slurm job */
    char why[600];     /* what salloc says of a failure */
    int64_t next_look; /* ms: when squeue is asked again why the request waits; 0: never */
    int told, revoked, signum;
    int status; /* of the inner one; -1: unknown */
};

/* Reasons for which a request waits that time does not mend. */
static const char *const for_ever[] = {
    "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints",
    "InvalidAccount",  "InvalidQOS",         "AccountNotAllowed",  "PerJobLimit"};

void slurm_put_options(struct pd_buf *b, const struct pd_options *o) {
    const struct {
        const char *name, *value;
    } given[] = {{"partition", o->partition}, {"time", o->time}, {"account", o->account}};
    pd_put_fmt(b, " --job-name=");
    pd_put_quoted(b, *o->job_name ? o->job_name : "paddlectl");
    if (o->nodes)
        pd_put_fmt(b, " --nodes=%lld", (long long)o->nodes);
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (*given[i].value) {
            pd_put_fmt(b, " --%s=", given[i].name);
            pd_put_quoted(b, given[i].value);
        }
    pd_put_fmt(b, " %s", o->slurm_options);
}

/* The inner shell gives its process id, gets the terminal as standard error, and becomes the inner
 * paddlectl. Ctrl-Z has no effect: salloc would not notice a stopped command. */
static int put_script(struct pd_buf *b, const struct pd_options *o, char *const *argv,
                      struct pd_err *err) {
    char self[PATH_MAX];
    if (pd_self_dir(self, sizeof self))
        return pd_fail(err, PD_ENOENT, "cannot determine the folder of this program");
    pd_put_fmt(b, "exec salloc --kill-command=TERM");
    slurm_put_options(b, o);
    pd_put_fmt(b,
               " /bin/sh -c 'echo $$ >&%d; trap \"\" TSTP; " INNER
               "=1 exec \"$0\" \"$@\" 2>&%d %d>&-' ",
               REPORT_FD, STDERR_FD, STDERR_FD);
    pd_put_quoted(b, self);
    pd_put_fmt(b, "/paddlectl");
    for (; *argv; argv++) {
        pd_put_u8(b, ' ');
        pd_put_quoted(b, *argv);
    }
    pd_put_u8(b, 0);
    return b->failed ? pd_oom(err, "the command of salloc") : 0;
}

static void become_salloc(const char *script, int text, int pid, const sigset_t *mask) {
    int t = fcntl(text, F_DUPFD, FREE_FD), p = fcntl(pid, F_DUPFD, FREE_FD),
        e = fcntl(STDERR_FILENO, F_DUPFD, FREE_FD);
    if (t < 0 || p < 0 || e < 0 || dup2(p, REPORT_FD) < 0 || dup2(e, STDERR_FD) < 0 ||
        dup2(t, STDERR_FILENO) < 0)
        _exit(127);
    pd_close(t);
    pd_close(p);
    pd_close(e);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* With a terminal, salloc makes the command's group the foreground and so must be there itself.
     * Otherwise Ctrl-C is this process's, which tells the inner one. */
    if (!isatty(STDIN_FILENO))
        setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", script, (char *)NULL);
    _exit(127);
}

/* --- what salloc says --- */

static void take_word(char *out, size_t cap, const char *from) {
    pd_fmt(out, cap, "%.*s", (int)strcspn(from, " \t\n"), from);
}

static void take_line(struct allocation *a, const char *line) {
    static const char pending[] = "Pending job allocation ", granted[] = "Granted job allocation ",
                      error[] = "error: ", prefix[] = "salloc: ";
    if (pd_starts_with(line, prefix))
        line += sizeof prefix - 1;
    if (pd_starts_with(line, pending)) {
        take_word(a->id, sizeof a->id, line + sizeof pending - 1);
        a->next_look = (int64_t)(pd_mono_ns() / 1000000) + 300;
    } else if (pd_starts_with(line, granted)) {
        take_word(a->id, sizeof a->id, line + sizeof granted - 1);
        a->next_look = 0;
    } else if (pd_starts_with(line, error) || pd_starts_with(line, "unrecognized option")) {
        const char *what = line + (*line == 'e' ? sizeof error - 1 : 0);
        char was[sizeof a->why];
        pd_fmt(was, sizeof was, "%s", a->why);
        pd_fmt(a->why, sizeof a->why, "%s%s%s", was, *was ? "; " : "", what);
    } else if (strstr(line, "has been revoked") || strstr(line, "TIME LIMIT") ||
               strstr(line, "CANCELLED")) {
        a->revoked = 1;
    } else if (pd_starts_with(line, "Relinquishing")) {
        a->revoked = -1; /* by the inner one's end */
    }
}

static void take_text(struct allocation *a) {
    char piece[1000];
    ssize_t n = read(a->text, piece, sizeof piece);
    if (n == 0 || (n < 0 && errno != EINTR)) {
        pd_close(a->text);
        a->text = -1;
    }
    for (ssize_t i = 0; i < n; i++)
        if (piece[i] != '\n') {
            if (a->len < sizeof a->line - 1)
                a->line[a->len++] = piece[i];
        } else {
            a->line[a->len] = 0;
            a->len = 0;
            if (a->revoked >= 0)
                take_line(a, a->line);
        }
}

/* --- the wait --- */

static void look_why(struct allocation *a) {
    struct pd_buf command = {0}, text = {0};
    struct pd_err none = {0};
    pd_put_fmt(&command, "squeue --noheader --format=%%r --jobs=%s", a->id);
    pd_put_u8(&command, 0);
    if (!command.failed)
        host_source_run((char *)command.data, "squeue", &text, &none);
    pd_put_u8(&text, 0);
    const char *why = text.failed || none.code ? "" : pd_trim((char *)text.data);
    const int known = *why && strcmp(why, "None") != 0;
    for (size_t i = 0; i < sizeof for_ever / sizeof for_ever[0]; i++)
        if (strstr(why, for_ever[i]) && !*a->why) {
            pd_fmt(a->why, sizeof a->why, "Slurm cannot give it: %s", why);
            kill(a->salloc, SIGINT);
        }
    if (!a->told && known && !*a->why) {
        dprintf(STDERR_FILENO, "paddlectl: waiting for an allocation: Slurm job %s, %s\n", a->id,
                why);
        a->told = 1;
    }
    a->next_look = (int64_t)(pd_mono_ns() / 1000000) + (a->told ? 10000 : 500);
    pd_buf_release(&command);
    pd_buf_release(&text);
}

/* "PID\n", later "STATUS\n" */
static void take_report(struct allocation *a) {
    char text[64] = "", *end;
    int64_t n;
    if (read(a->report, text, sizeof text - 1) <= 0) {
        pd_close(a->report);
        a->report = -1;
    }
    for (char *s = text; (end = strchr(s, '\n')); s = end + 1) {
        *end = 0;
        if (pd_parse_i64(s, 0, INT32_MAX, &n))
            continue;
        if (a->inner)
            a->status = (int)n;
        else
            a->inner = (pid_t)n;
        a->next_look = 0;
    }
}

void slurm_allocation_ended(int status) {
    if (getenv(INNER))
        dprintf(REPORT_FD, "%d\n", status);
}

/* To the inner one, which ends the job and with that all; before that to salloc, which cancels the
 * request. */
static void pass_signal(struct allocation *a) {
    struct signalfd_siginfo s;
    if (read(a->signals, &s, sizeof s) != sizeof s || s.ssi_signo == SIGCHLD)
        return;
    a->signum = (int)s.ssi_signo;
    kill(a->inner ? a->inner : a->salloc, a->inner ? a->signum : SIGINT);
}

/* Until salloc has ended. Returns its wait status. */
static int wait_for_end(struct allocation *a) {
    int status;
    pid_t got;
    while ((got = waitpid(a->salloc, &status, WNOHANG)) == 0) {
        struct pollfd f[] = {{.fd = a->signals, .events = POLLIN},
                             {.fd = a->text, .events = POLLIN},
                             {.fd = a->report, .events = POLLIN}};
        int64_t now = (int64_t)(pd_mono_ns() / 1000000);
        if (poll(f, 3, a->next_look ? (int)(a->next_look > now ? a->next_look - now : 0) : -1) < 0)
            continue;
        if (f[0].revents)
            pass_signal(a);
        if (f[1].revents)
            take_text(a);
        if (f[2].revents)
            take_report(a);
        if (a->next_look && (int64_t)(pd_mono_ns() / 1000000) >= a->next_look)
            look_why(a);
    }
    while (a->text >= 0 && poll(&(struct pollfd){.fd = a->text, .events = POLLIN}, 1, END_MS) == 1)
        take_text(a);
    while (a->report >= 0 && poll(&(struct pollfd){.fd = a->report, .events = POLLIN}, 1, 0) == 1)
        take_report(a);
    return got < 0 ? 1 << 8 : status;
}

/* salloc was killed: the inner one stops the job, and the allocation goes back. */
static void end_all(struct allocation *a) {
    struct pd_buf command = {0}, text = {0};
    if (a->inner && !kill(a->inner, SIGTERM))
        while (!kill(a->inner, 0))
            nanosleep(&(struct timespec){0, END_MS * 1000000}, NULL);
    pd_put_fmt(&command, "scancel %s", a->id);
    pd_put_u8(&command, 0);
    if (*a->id && !command.failed)
        host_source_run((char *)command.data, "scancel", &text, NULL);
    pd_buf_release(&command);
    pd_buf_release(&text);
}

static int conclude(struct allocation *a, int wait_status, int *status, struct pd_err *err) {
    if (WIFSIGNALED(wait_status))
        end_all(a);
    if (a->inner) {
        *status = a->status < 0 ? 1 : a->status;
        if (a->revoked > 0 || !WIFEXITED(wait_status) || a->status < 0)
            dprintf(STDERR_FILENO,
                    "paddlectl: the Slurm allocation %s has ended before the job%s\n", a->id,
                    !WIFEXITED(wait_status) ? ": salloc was killed"
                    : a->status < 0         ? ": its paddlectl was killed"
                                            : "");
        return 1;
    }
    if (a->signum)
        return pd_fail(err, PD_ECANCELED, "stopped while waiting for an allocation");
    return pd_fail(err, PD_EHOST, "no allocation: %s",
                   *a->why ? a->why : "salloc ended without a reason");
}

int slurm_allocation(const struct pd_options *o, char *const *argv, int *status,
                     struct pd_err *err) {
    struct allocation a = {.o = o, .text = -1, .report = -1, .signals = -1, .status = -1};
    struct pd_buf script = {0};
    int text[2] = {-1, -1}, pid[2] = {-1, -1}, rc = put_script(&script, o, argv, err);
    sigset_t passed, mask;
    if (rc)
        goto out;
    sigemptyset(&passed);
    sigaddset(&passed, SIGINT);
    sigaddset(&passed, SIGTERM);
    sigaddset(&passed, SIGCHLD);
    if (!pd_signal_is_ignored(SIGHUP))
        sigaddset(&passed, SIGHUP);
    sigprocmask(SIG_BLOCK, &passed, &mask);
    a.signals = signalfd(-1, &passed, SFD_CLOEXEC);
    if (a.signals < 0 || pipe2(text, O_CLOEXEC) || pipe2(pid, O_CLOEXEC) ||
        (a.salloc = fork()) < 0) {
        rc = pd_fail_errno(err, PD_EFAIL, errno, "cannot start salloc");
    } else if (!a.salloc) {
        become_salloc((char *)script.data, text[1], pid[1], &mask);
    } else {
        pd_close(text[1]);
        pd_close(pid[1]);
        text[1] = pid[1] = -1;
        a.text = text[0];
        a.report = pid[0];
        rc = conclude(&a, wait_for_end(&a), status, err);
        text[0] = a.text;
        pid[0] = a.report;
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
out:
    for (size_t i = 0; i < 2; i++) {
        if (text[i] >= 0)
            pd_close(text[i]);
        if (pid[i] >= 0)
            pd_close(pid[i]);
    }
    if (a.signals >= 0)
        pd_close(a.signals);
    pd_buf_release(&script);
    return rc;
}
