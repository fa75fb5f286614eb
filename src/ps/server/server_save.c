/* SPDX-License-Identifier: Apache-2.0 */
/* server_save.c - writes a server thread's part of a model while the thread continues: training
 * pauses only for a fork.
 *
 *     shard: ops.save ──▶ fork ──▶ child: ps_saving_image; the result through a pipe, _exit
 *                           ├──▶ writer (a thread): waits for the child, ps_saving_rest ─▶ done
 *                           └──▶ the server thread continues ─▶ on_done ─▶ ps_shard_saved: answers
 *
 * Rows of tables are not in the child (snapshot.h), so the thread's changes do not copy their
 * pages.
 *
 * Other threads may hold any lock when the child begins. So the child allocates no memory and calls
 * only the shard's writing functions. It closes all sockets: otherwise peers would not notice the
 * server's death. It dies with the thread that started it. */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "model/model.h"
#include "ps/server/server_internal.h"

enum { WRITER_NICE = 5 };

struct result {
    int rc;
    struct model_part part;
    struct pd_err err;
};

struct server_saving {
    struct server_saving *next;
    struct server_thread *t;
    struct ps_saving *j;
    pid_t pid; /* of the child; the server thread reaps it, so the number is not reused before */
    int fd;
    pthread_t writer;
    uv_async_t done;
    struct result result; /* belongs to the writer until it has ended */
    size_t got;
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
    (void)setpriority(PRIO_PROCESS, 0, WRITER_NICE);
    r.rc = ps_saving_image(j, &r.part, &r.err);
    _exit(pd_write_all(fd, &r, sizeof r) ? 1 : 0);
}

/* --- the writer --- */

/* Reads n bytes, or fewer if the pipe ends. Returns their number. */
static size_t hear(int fd, void *to, size_t n) {
    size_t got = 0;
    for (ssize_t k = 1; got < n && k;)
        if ((k = read(fd, (char *)to + got, n - got)) > 0)
            got += (size_t)k;
        else if (k < 0 && errno != EINTR)
            k = 0;
    return got;
}

static void *write_part(void *arg) {
    struct server_saving *v = arg;
    struct result *r = &v->result;
    char more;
    (void)setpriority(PRIO_PROCESS, 0, WRITER_NICE); /* applies to this thread only */
    v->got = hear(v->fd, r, sizeof *r);
    if (v->got == sizeof *r && !r->rc)
        r->rc = ps_saving_rest(v->j, &r->part, &r->err);
    (void)hear(v->fd, &more, 1); /* waits for the end of the child, when its memory has been freed:
                                    reaping it then takes no time */
    uv_async_send(&v->done);
    return NULL;
}

/* --- the server thread --- */

static void on_closed(uv_handle_t *h) { free(h->data); }

static int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* Call when writer and child have ended. Removes the save from the list; the handle's close frees
 * its memory. Returns the child's status. */
static int unlink_saving(struct server_saving *v) {
    struct server_saving **at = &v->t->savings;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    pthread_join(v->writer, NULL);
    uv_close((uv_handle_t *)&v->done, on_closed);
    close(v->fd);
    return reap(v->pid);
}

static void on_done(uv_async_t *a) {
    struct server_saving *v = a->data;
    const int status = unlink_saving(v);
    if (v->got < sizeof v->result) {
        v->result.rc = PD_EFAIL;
        pd_fail(&v->result.err, PD_EFAIL, "the process that wrote the model ended with %s %d",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    ps_shard_saved(v->t->shard, v->j, v->result.rc ? NULL : &v->result.part, &v->result.err);
}

/* Starts the child and the writer that waits for it. All signals are blocked, so no signal handler
 * of this process runs in either. */
static int start(struct server_saving *v, struct pd_err *err) {
    int fd[2], rc = 0;
    sigset_t all, mask;
    pid_t self = getpid();
    if (pipe2(fd, O_CLOEXEC))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a pipe to save");
    uint64_t began = pd_mono_ns();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    v->fd = fd[0];
    v->pid = pd_fault("ps.fork") ? -1 : fork();
    if (v->pid == 0)
        child(v->j, fd[1], self, &mask);
    if (v->pid < 0)
        rc = pd_fail_errno(err, PD_EIO, errno ? errno : ENOMEM, "cannot start a process to save");
    close(fd[1]);
    if (!rc) {
        int why = pthread_create(&v->writer, NULL, write_part, v);
        if (why) {
            rc = pd_fail_errno(err, PD_EIO, why, "cannot start a thread to save");
            (void)kill(v->pid, SIGKILL);
            (void)reap(v->pid);
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (rc) {
        close(fd[0]);
        return rc;
    }
    pd_info(v->t->server->opts.log,
            "thread %u: a snapshot of the model is being written; the thread paused for %.1f ms",
            v->t->index, (double)(pd_mono_ns() - began) * 1e-6);
    return 0;
}

int server_save(void *arg, struct ps_saving *j, struct pd_err *err) {
    struct server_thread *t = arg;
    struct server_saving *v = pd_calloc(1, sizeof *v);
    if (!v)
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    v->t = t;
    v->j = j;
    if (uv_async_init(&t->loop, &v->done, on_done)) {
        free(v);
        return pd_fail(err, PD_EIO, "cannot start a thread to save");
    }
    v->done.data = v;
    int rc = start(v, err);
    if (rc) {
        uv_close((uv_handle_t *)&v->done, on_closed);
        return rc;
    }
    v->next = t->savings;
    t->savings = v;
    return 0;
}

void server_saves_end(struct server_thread *t) {
    while (t->savings) {
        struct server_saving *v = t->savings;
        (void)kill(v->pid, SIGKILL);
        ps_saving_stop(v->j);
        (void)unlink_saving(v);
    }
}
