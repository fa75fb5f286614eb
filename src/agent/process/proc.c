/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - see proc.h. A process is started by fork and exec, because uv_spawn can't set the
 * parent-death signal. Between fork and exec only async-signal-safe functions are called, because
 * threads of the pool may hold any lock. */
#include "agent/process/proc.h"

#include <sys/prctl.h>
#include <sys/wait.h>

enum { EVENT_LINE_MAX = 65536, READ_MAX = 65536, DRAIN_MS = 200, MAX_FDS = 256 };

struct proc {
    pid_t pid;
    int status, reaped, reported, closing, n_handles;
    uint64_t exit_us;
    uv_pipe_t out, events;
    int out_eof, events_eof;
    uv_timer_t drain;
    struct proc_events ev;
    void *arg;
    char line[EVENT_LINE_MAX];
    size_t line_len;
    char buf[READ_MAX];
    void (*closed)(void *);
    void *closed_arg;
};

/* The child's report of a failure before exec: the failed step and errno. */
enum start_step { STEP_SETUP, STEP_BIND, STEP_CWD, STEP_EXEC };
struct trouble {
    int step, errnum;
};

static void give_up(int report, enum start_step step) {
    const struct trouble t = {step, errno};
    (void)!write(report, &t, sizeof t);
    _exit(127);
}

/* When memory is out, the kernel ends the job's processes before others. The child of an agent that
 * is not dumpable may write this file only once it is dumpable, as it is after exec. */
static void prefer_for_oom(void) {
    enum { LEAST = 500 };
    char text[16] = "";
    int now = 0;
    prctl(PR_SET_DUMPABLE, 1);
    const int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return;
    for (const char *s = text; *s >= '0' && *s <= '9'; s++)
        now = now * 10 + *s - '0';
    if (now < LEAST)
        (void)!pwrite(fd, "500", 3, 0);
    close(fd);
}

/* Runs in the child. It first moves `fds` above all target numbers, so that no target overwrites a
 * source. */
static void become(const struct proc_command *cmd, int null, int out, int events, int report,
                   pid_t parent) {
    int high[MAX_FDS + 3], base = PROC_FIRST_FD + (int)cmd->n_fds;
    sigset_t none;
    for (int s = 1; s < 65; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    if (cmd->block)
        sigaddset(&none, cmd->block);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || setpgid(0, 0))
        give_up(report, STEP_SETUP);
    if (getppid() != parent) /* the parent died before prctl took effect */
        _exit(127);
    prefer_for_oom();
    if (report < base && (report = fcntl(report, F_DUPFD_CLOEXEC, base)) < 0)
        _exit(127);
    high[0] = fcntl(null, F_DUPFD_CLOEXEC, base);
    high[1] = fcntl(out, F_DUPFD_CLOEXEC, base);
    high[2] = fcntl(events, F_DUPFD_CLOEXEC, base);
    for (unsigned i = 0; i < cmd->n_fds; i++)
        high[3 + i] = fcntl(cmd->fds[i], F_DUPFD_CLOEXEC, base);
    for (unsigned i = 0; i < cmd->n_fds + 3; i++)
        if (high[i] < 0)
            give_up(report, STEP_SETUP);
    if (dup2(high[0], 0) < 0 || dup2(high[1], 1) < 0 || dup2(high[1], 2) < 0 ||
        dup2(high[2], PROC_EVENT_FD) < 0)
        give_up(report, STEP_SETUP);
    for (unsigned i = 0; i < cmd->n_fds; i++)
        if (dup2(high[3 + i], PROC_FIRST_FD + (int)i) < 0)
            give_up(report, STEP_SETUP);
    /* The report pipe moves to the first free number. All other descriptors of the agent are
     * closed. */
    if (report != base && dup3(report, base, O_CLOEXEC) < 0)
        give_up(report, STEP_SETUP);
    report = base;
    close_range((unsigned)base + 1, ~0u, 0);
    if (cmd->bind && bind_apply(cmd->bind))
        give_up(report, STEP_BIND);
    if (chdir(cmd->cwd))
        give_up(report, STEP_CWD);
    execve(cmd->path, cmd->argv, cmd->envp);
    give_up(report, STEP_EXEC);
}

static void report_exit(struct proc *p) {
    if (p->reported || p->closing)
        return;
    p->reported = 1;
    uv_timer_stop(&p->drain);
    if (p->line_len) {
        p->ev.on_event(p, p->line, p->line_len, p->arg);
        p->line_len = 0;
    }
    int st = p->status;
    p->ev.on_exit(p, WIFEXITED(st) ? WEXITSTATUS(st) : -1, WIFSIGNALED(st) ? WTERMSIG(st) : 0,
                  p->arg);
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    struct proc *p = h->data;
    (void)want;
    /* One buffer is enough: each read is delivered before the next. */
    *buf = uv_buf_init(p->buf, sizeof p->buf);
}

/* Only whole lines are passed on, because two processes of a node share the stream of events. */
static void take_events(struct proc *p, const char *s, size_t n) {
    while (n) {
        size_t room = sizeof p->line - p->line_len, k = n < room ? n : room;
        memcpy(p->line + p->line_len, s, k);
        p->line_len += k;
        s += k;
        n -= k;
        char *nl = memrchr(p->line, '\n', p->line_len);
        size_t whole = nl                              ? (size_t)(nl + 1 - p->line)
                       : p->line_len == sizeof p->line ? p->line_len
                                                       : 0;
        if (whole) {
            p->ev.on_event(p, p->line, whole, p->arg);
            memmove(p->line, p->line + whole, p->line_len - whole);
            p->line_len -= whole;
        }
    }
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
    struct proc *p = s->data;
    int is_out = s == (uv_stream_t *)&p->out;
    if (p->closing || n == 0)
        return;
    if (n > 0 && is_out)
        p->ev.on_output(p, buf->base, (size_t)n, p->arg);
    else if (n > 0)
        take_events(p, buf->base, (size_t)n);
    else {
        uv_read_stop(s);
        *(is_out ? &p->out_eof : &p->events_eof) = 1;
        if (p->reaped && proc_drained(p))
            report_exit(p);
    }
}

static void on_drain_late(uv_timer_t *t) { report_exit(t->data); }

int proc_reaped(struct proc *p, pid_t pid, int status, uint64_t wall_us) {
    if (!p->pid || pid != p->pid)
        return 0;
    p->pid = 0;
    p->reaped = 1;
    p->exit_us = wall_us;
    p->status = status;
    /* Its output is in the pipes already. A remaining child may hold the pipes open, so the wait
     * for their end is limited. */
    uv_timer_start(&p->drain, on_drain_late, proc_drained(p) ? 0 : DRAIN_MS, 0);
    return 1;
}

int proc_drained(const struct proc *p) { return p->out_eof && p->events_eof; }
uint64_t proc_exit_us(const struct proc *p) { return p->exit_us; }
pid_t proc_pid(const struct proc *p) { return p->pid; }

static void on_closed(uv_handle_t *h) {
    struct proc *p = h->data;
    if (--p->n_handles)
        return;
    if (p->closed)
        p->closed(p->closed_arg);
    free(p);
}

void proc_close(struct proc *p, void (*closed)(void *), void *arg) {
    p->closing = 1;
    p->closed = closed;
    p->closed_arg = arg;
    uv_close((uv_handle_t *)&p->out, on_closed);
    uv_close((uv_handle_t *)&p->events, on_closed);
    uv_close((uv_handle_t *)&p->drain, on_closed);
}

static int why_not(const struct proc_command *cmd, const struct trouble *t, struct pd_err *err) {
    if (t->step == STEP_BIND)
        return pd_fail_errno(err, PD_EHOST, t->errnum, "cannot bind %s to its CPUs", cmd->path);
    if (t->step == STEP_CWD)
        return pd_fail_errno(err, PD_EHOST, t->errnum, "cannot use the folder %s", cmd->cwd);
    if (t->step == STEP_EXEC)
        return pd_fail_errno(err, PD_EHOST, t->errnum, "cannot run %s", cmd->path);
    return pd_fail_errno(err, PD_EHOST, t->errnum, "cannot set up a process for %s", cmd->path);
}

/* 0: exec succeeded, and the pipe was closed without a report. */
static int wait_exec(int fd, pid_t pid, const struct proc_command *cmd, struct pd_err *err) {
    struct trouble t;
    ssize_t k;
    do
        k = read(fd, &t, sizeof t);
    while (k < 0 && errno == EINTR);
    if (k != (ssize_t)sizeof t)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return why_not(cmd, &t, err);
}

static struct proc *proc_new(uv_loop_t *loop, const struct proc_events *ev, void *arg) {
    struct proc *p = pd_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->ev = *ev;
    p->arg = arg;
    uv_pipe_init(loop, &p->out, 0);
    uv_pipe_init(loop, &p->events, 0);
    uv_timer_init(loop, &p->drain);
    p->out.data = p->events.data = p->drain.data = p;
    p->n_handles = 3;
    return p;
}

int proc_start(struct proc **out, uv_loop_t *loop, const struct proc_command *cmd,
               const struct proc_events *ev, void *arg, struct pd_err *err) {
    int o[2] = {-1, -1}, e[2] = {-1, -1}, r[2] = {-1, -1}, null = -1, rc = 0;
    pid_t parent = getpid(), pid = -1;
    sigset_t all, old;
    struct proc *p = proc_new(loop, ev, arg);
    if (!p)
        rc = pd_oom(err, "a process");
    if (!rc && cmd->n_fds > MAX_FDS)
        rc = pd_fail(err, PD_EFAIL, "too many sockets for one process");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old); /* a signal handler in the child would write into the loop's pipe */
    if (!rc && (pipe2(o, O_CLOEXEC) || pipe2(e, O_CLOEXEC) || pipe2(r, O_CLOEXEC) ||
                (null = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 || (pid = fork()) < 0))
        rc = pd_fail_errno(err, PD_EHOST, errno, "cannot start a process");
    if (pid == 0)
        become(cmd, null, o[1], e[1], r[1], parent);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    const int theirs[] = {o[1], e[1], r[1], null};
    for (int i = 0; i < 4; i++)
        pd_close(theirs[i]);
    for (unsigned i = 0; i < cmd->n_fds; i++)
        close(cmd->fds[i]);
    if (!rc)
        rc = wait_exec(r[0], pid, cmd, err);
    pd_close(r[0]);
    if (!rc && !uv_pipe_open(&p->out, o[0]))
        o[0] = -1; /* the handle owns it now */
    if (!rc && o[0] < 0 && !uv_pipe_open(&p->events, e[0]))
        e[0] = -1;
    if (!rc && (o[0] >= 0 || e[0] >= 0)) {
        kill(pid, SIGKILL); /* not yet reaped, so the pid is still this process's */
        rc = pd_fail(err, PD_EIO, "cannot read the output of %s", cmd->path);
    }
    if (rc) {
        pd_close(o[0]);
        pd_close(e[0]);
        if (p)
            proc_close(p, NULL, NULL);
        return rc;
    }
    p->pid = pid;
    uv_read_start((uv_stream_t *)&p->out, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&p->events, on_alloc, on_read);
    *out = p;
    return 0;
}
