/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - see daemon.h. */
#include "agent/daemon.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/report/orphans.h"
#include "agent/process/process_tree.h"
#include "agent/core/result.h"

enum { TERM_GRACE_MS = 1000 };

static void write_message(int fd, const char *text) { (void)!write(fd, text, strlen(text)); }

/* Sets stdin to /dev/null, and stdout and stderr to log/agent.log. That file is not rotated: it has
 * only what a crash prints, and orphans.c's lines. `keep` becomes descriptor 3; all others are
 * closed. The job's folder becomes the current folder. */
static int own_stdio(const struct node_paths *p, int keep) {
    char path[PATH_MAX];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = node_paths_join(p->dir, "log/agent.log", path, NULL)
                  ? -1
                  : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (null < 0 || log < 0 || chdir(p->dir) || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
        dup2(log, 2) < 0)
        return -1;
    if (keep != 3 && dup2(keep, 3) < 0)
        return -1;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    if (close_range(4, ~0u, 0)) /* kernels before 5.9 lack close_range */
        for (int fd = 4; fd < 1024; fd++)
            close(fd);
    return 0;
}

/* --- watcher, guardian, agent ---
 *
 * Each of the three is the parent of the next and a sub-reaper. When a parent dies, its child gets
 * TERM. The result of each death:
 *
 *     the agent                      its parent ends all processes below it
 *     the guardian or the watcher    the agent gets TERM and ends all processes itself
 *     two of the three               the third does one of the two: the orphans become its
 *                                    children, or it is the agent
 *
 * If the guardian dies, the agent becomes the watcher's child, and the watcher waits for it. */

/* In memory shared by the three processes. */
struct guard_chain {
    volatile pid_t agent;        /* 0: the agent is not started yet */
    volatile int reaped, status; /* the agent's end, written by the process that reaped it */
    unsigned lease_ms;           /* as for agent_run_daemon */
    const char *build;           /* as in agent.h */
    uint64_t since;              /* no process of the job started earlier; in ticks since boot */
};

static void watched_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* The agent is dead: no process of the job may outlive it. The current folder is the job's. Its
 * path is not used, because a new job may already have a folder with this name. */
static void clean_up(const struct node_paths *p, const struct guard_chain *c) {
    static const char *const files[] = {".agent/sock", ".agent/key", ".agent/pid"};
    const int status = c->status;
    struct node_paths here = *p;
    char how[120] = "the agent and its guardian were killed";
    pd_fmt(here.dir, sizeof here.dir, ".");
    process_tree_end_all(TERM_GRACE_MS);
    if (!c->reaped || !WIFEXITED(status))
        orphans_end(&here, c->since, TERM_GRACE_MS);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    if (c->reaped && WIFSIGNALED(status))
        snprintf(how, sizeof how, "the agent was killed by signal %d", WTERMSIG(status));
    else if (c->reaped)
        snprintf(how, sizeof how, "the agent ended with status %d and left no result%s",
                 WEXITSTATUS(status), result_why_missing(&here));
    /* An agent that ended well has written it, or no process of the job has run. */
    if (!c->reaped || !WIFEXITED(status) || WEXITSTATUS(status))
        result_write_if_missing(&here, how);
}

/* 1: the agent is dead, or will never be a child of this process. Called only when the process
 * between the two is gone. */
static int agent_is_gone(const struct guard_chain *c) {
    siginfo_t si;
    return c->reaped || !c->agent ||
           (waitid(P_PID, (id_t)c->agent, &si, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD);
}

static void note_end(struct guard_chain *c, int status) {
    c->status = status;
    c->reaped = 1;
}

/* Runs in the parent of `below`, which is the guardian or the agent. Returns the exit status. */
static int guard(const struct node_paths *p, struct guard_chain *c, pid_t below) {
    sigset_t set;
    int there = 1;
    watched_signals(&set);
    for (;;) {
        int sig = sigwaitinfo(&set, NULL), status;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            if (pid == c->agent)
                note_end(c, status);
            if (pid == below)
                there = 0;
        }
        if (!there && agent_is_gone(c)) {
            clean_up(p, c);
            return c->reaped && WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 1;
        }
        if (sig == SIGTERM || sig == SIGINT)
            /* Not yet reaped, so the pid is still our child's. */
            kill(there ? below : c->agent, SIGTERM);
    }
}

/* Runs in a new child of `parent`, whose name becomes `name`. -1: the parent has died already. */
static int begin_below(pid_t parent, const char *name) {
    prctl(PR_SET_NAME, name);
    process_tree_become_subreaper();
    return prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent ? -1 : 0;
}

static int agent(const struct node_paths *p, struct guard_chain *c, pid_t parent,
                 const sigset_t *mask) {
    c->agent = getpid();
    if (begin_below(parent, "paddle_agent"))
        return 1;
    sigprocmask(SIG_SETMASK, mask, NULL);
    return agent_run_daemon(p, c->lease_ms, c->build, 3);
}

static int guardian(const struct node_paths *p, struct guard_chain *c, pid_t parent,
                    const sigset_t *mask) {
    if (begin_below(parent, "paddle_guardian"))
        return 1;
    pid_t self = getpid(), pid = fork();
    if (!pid)
        return agent(p, c, self, mask);
    if (pid < 0) {
        write_message(3, "cannot start the agent: fork failed");
        return 1;
    }
    c->agent = pid;
    return guard(p, c, pid);
}

static int watcher(const struct node_paths *p, unsigned lease_ms, const char *build, int ready) {
    sigset_t set, old;
    if (own_stdio(p, ready)) {
        write_message(ready, "cannot set up the agent's log and folder");
        return 1;
    }
    struct guard_chain *c =
        mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) {
        write_message(3, "cannot start the agent: out of memory");
        return 1;
    }
    c->lease_ms = lease_ms;
    c->build = build;
    c->since = process_tree_start_ticks(getpid());
    prctl(PR_SET_NAME, "paddle_watcher");
    process_tree_become_subreaper();
    signal(SIGPIPE, SIG_IGN);
    watched_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t self = getpid(), pid = fork();
    if (!pid)
        return guardian(p, c, self, &old);
    if (pid < 0) {
        write_message(3, "cannot start the agent: fork failed");
        return 1;
    }
    return guard(p, c, pid);
}

/* Reads "1" if the agent listens, else an error text up to the end of the pipe. */
static int wait_ready(const struct node_paths *p, int fd, struct pd_err *err) {
    char text[900];
    ssize_t n = 0, k;
    while (
        (size_t)n < sizeof text - 1 &&
        ((k = read(fd, text + n, sizeof text - 1 - (size_t)n)) > 0 || (k < 0 && errno == EINTR))) {
        n += k > 0 ? k : 0;
        if (n && text[0] == '1')
            return 0;
    }
    text[n > 0 ? n : 0] = 0;
    return pd_fail(err, PD_EHOST, "the agent could not start in %s: %s", p->dir,
                   *text ? text : "it ended at once");
}

int daemon_start(const struct node_paths *p, int node, unsigned lease_ms, const char *build,
                 struct pd_err *err) {
    int fd[2], status;
    int rc = node_paths_make_job(p, node, err);
    if (rc)
        return rc;
    pid_t pid = -1;
    if (pipe2(fd, O_CLOEXEC) || (pid = fork()) < 0) {
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot start the agent");
        pd_rm_tree(p->dir, NULL);
        return rc;
    }
    if (!pid) {
        close(fd[0]);
        setsid();
        pid = fork(); /* not a session leader, so it can't get a controlling terminal */
        if (pid < 0)
            write_message(fd[1], "cannot start the agent: fork failed");
        _exit(pid ? 0 : watcher(p, lease_ms, build, fd[1]));
    }
    close(fd[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    rc = wait_ready(p, fd[0], err);
    close(fd[0]);
    if (rc)
        pd_rm_tree(p->dir, NULL);
    return rc;
}
