/* daemon.c - see daemon.h. */
#include "agent/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/procs.h"
#include "agent/result.h"
#include "base/fs.h"

enum { TERM_GRACE_MS = 1000 };

static void say(int fd, const char *text) { (void)!write(fd, text, strlen(text)); }

/* stdin from nowhere, stdout and stderr into log/agent.log, no other descriptor but `keep` (which becomes 3). */
static int own_stdio(const struct place *p, int keep) {
    char path[PATH_MAX];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = place_path(p->dir, "log/agent.log", path, NULL)
                  ? -1
                  : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (null < 0 || log < 0 || chdir(p->dir) || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        return -1;
    if (keep != 3 && dup2(keep, 3) < 0)
        return -1;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    if (close_range(4, ~0u, 0)) /* a kernel before 5.9 */
        for (int fd = 4; fd < 1024; fd++)
            close(fd);
    return 0;
}

/* The agent is dead: nothing of the job may outlive it. */
static void clean_up(const struct place *p, int status) {
    static const char *const files[] = {".agent/sock", ".agent/key", ".agent/pid"};
    char how[80];
    procs_end_all(TERM_GRACE_MS);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]); /* the guardian's folder is the job's */
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "the agent was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "the agent ended with status %d before the job did", WEXITSTATUS(status));
    result_write_if_missing(p, how);
}

static int guard(const struct place *p, pid_t agent) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    for (;;) {
        int sig = sigwaitinfo(&set, NULL), status;
        if (sig == SIGTERM || sig == SIGINT)
            kill(agent, SIGTERM);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            if (pid == agent) {
                clean_up(p, status);
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            }
    }
}

static int guardian(const struct place *p, unsigned lease_ms, int ready) {
    sigset_t set, old;
    if (own_stdio(p, ready)) {
        say(ready, "cannot set up the agent's log and folder");
        return 1;
    }
    prctl(PR_SET_NAME, "paddle_guardian");
    procs_become_subreaper();
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t self = getpid(), agent = fork();
    if (agent < 0) {
        say(3, "cannot start the agent: fork failed");
        return 1;
    }
    if (agent)
        return guard(p, agent);
    prctl(PR_SET_NAME, "paddle_agent");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != self) /* the guardian died before the line above */
        return 1;
    sigprocmask(SIG_SETMASK, &old, NULL);
    procs_become_subreaper();
    return agent_run_daemon(p, lease_ms, 3);
}

/* "1" when the agent listens, else what went wrong, up to the end. */
static int wait_ready(const struct place *p, int fd, struct pd_err *err) {
    char text[900];
    ssize_t n = 0, k;
    while ((size_t)n < sizeof text - 1 && ((k = read(fd, text + n, sizeof text - 1 - (size_t)n)) > 0 || (k < 0 && errno == EINTR))) {
        n += k > 0 ? k : 0;
        if (n && text[0] == '1')
            return 0;
    }
    text[n > 0 ? n : 0] = 0;
    return pd_fail(err, PD_EHOST, "the agent could not start in %s: %s", p->dir, *text ? text : "it ended at once");
}

int daemon_start(const struct place *p, int node, unsigned lease_ms, struct pd_err *err) {
    int fd[2], status;
    int rc = place_make_job(p, node, err);
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
        pid = fork(); /* not a session leader: it can't get a terminal */
        if (pid < 0)
            say(fd[1], "cannot start the agent: fork failed");
        _exit(pid ? 0 : guardian(p, lease_ms, fd[1]));
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
