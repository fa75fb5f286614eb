/* server_save.c - a server thread's part of a model is written by a child of fork, from its copy-on-write image of the thread's
 * memory, while the thread goes on: training pauses for the fork.
 *
 *     shard: ops.save ──▶ fork ──▶ child: ps_saving_run, the result through a pipe, _exit
 *                           └──▶ thread goes on ─▶ on_result ─▶ ps_shard_saved answers trainer 0
 *
 * Other threads may hold any lock when the child begins, so it takes no memory and calls nothing but the writer. It keeps no socket
 * of ours open, else nobody would notice the server's death, and dies with the thread that made it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "model/model.h"
#include "ps/server_int.h"

enum { CHILD_NICE = 5 };

struct result {
    int rc;
    struct model_part part;
    struct pd_err err;
};

struct server_saving {
    struct server_saving *next;
    struct server_thread *t;
    struct ps_saving *j;
    pid_t pid;
    int fd;
    uv_poll_t poll;
    size_t got;
    struct result result;
};

/* --- the child --- */

static void close_all_but(int a, int b) {
    int lo = a < b ? a : b, hi = a < b ? b : a;
    if (lo > 3)
        (void)close_range(3, (unsigned)lo - 1, 0);
    if (hi > lo + 1)
        (void)close_range((unsigned)lo + 1, (unsigned)hi - 1, 0);
    (void)close_range((unsigned)hi + 1, ~0u, 0);
}

static _Noreturn void child(const struct ps_saving *j, int fd, pid_t parent, const sigset_t *mask) {
    struct result r;
    memset(&r, 0, sizeof r);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_all_but(ps_saving_fd(j), fd);
    for (int s = 1; s < 32; s++)
        (void)signal(s, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (getppid() != parent)
        _exit(1);
    (void)setpriority(PRIO_PROCESS, 0, CHILD_NICE);
    r.rc = ps_saving_run(j, &r.part, &r.err);
    _exit(pd_write_all(fd, &r, sizeof r) ? 1 : 0);
}

/* --- the thread --- */

static void on_closed(uv_handle_t *h) { free(h->data); }

static int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* Off the list; its memory goes with the handle. */
static void unlink_saving(struct server_saving *v) {
    struct server_saving **at = &v->t->savings;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    uv_poll_stop(&v->poll);
    uv_close((uv_handle_t *)&v->poll, on_closed);
    close(v->fd);
}

static void on_result(uv_poll_t *p, int uv_status, int events) {
    struct server_saving *v = p->data;
    (void)events;
    (void)uv_status;
    ssize_t n = read(v->fd, (char *)&v->result + v->got, sizeof v->result - v->got);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && (v->got += (size_t)n) < sizeof v->result)
        return;
    int status = reap(v->pid);
    if (v->got < sizeof v->result) {
        v->result.rc = PD_EFAIL;
        pd_fail(&v->result.err, PD_EFAIL, "the process that wrote the model ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    unlink_saving(v);
    ps_shard_saved(v->t->shard, v->j, v->result.rc ? NULL : &v->result.part, &v->result.err);
}

static int start(struct server_saving *v, struct pd_err *err) {
    int fd[2];
    sigset_t all, mask;
    pid_t self = getpid();
    if (pipe2(fd, O_CLOEXEC))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a pipe to save");
    uint64_t began = pd_mono_ns();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask); /* no handler of ours runs in the child */
    v->pid = pd_fault("ps.fork") ? -1 : fork();
    int why = v->pid < 0 ? errno ? errno : ENOMEM : 0;
    if (v->pid == 0)
        child(v->j, fd[1], self, &mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    close(fd[1]);
    if (v->pid < 0) {
        close(fd[0]);
        return pd_fail_errno(err, PD_EIO, why, "cannot start a process to save");
    }
    pd_info(v->t->server->opts.log, "thread %u: the model as it is now is being written; the thread stood still for %.1f ms", v->t->index,
            (double)(pd_mono_ns() - began) * 1e-6);
    v->fd = fd[0];
    (void)fcntl(v->fd, F_SETFL, O_NONBLOCK);
    return 0;
}

int server_save(void *arg, struct ps_saving *j, struct pd_err *err) {
    struct server_thread *t = arg;
    struct server_saving *v = pd_calloc(1, sizeof *v);
    if (!v)
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    v->t = t;
    v->j = j;
    int rc = start(v, err);
    if (rc) {
        free(v);
        return rc;
    }
    v->next = t->savings;
    t->savings = v;
    uv_poll_init(&t->loop, &v->poll, v->fd);
    v->poll.data = v;
    uv_poll_start(&v->poll, UV_READABLE, on_result);
    return 0;
}

void server_saves_end(struct server_thread *t) {
    while (t->savings) {
        struct server_saving *v = t->savings;
        (void)kill(v->pid, SIGKILL);
        (void)reap(v->pid);
        unlink_saving(v);
    }
}
