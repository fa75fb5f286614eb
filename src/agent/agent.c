/* agent.c - see agent.h: the loop, the socket, the lease before there is a job, and the end. */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/job.h"
#include "agent/result.h"
#include "agent/session.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "pack/object/object.h"
#include "wire/msg.h"

enum { TICK_MS = 50, TERM_GRACE_MS = 1000, QUIT_MS = 2000, FIRST_LEASE_MS = 10000 };

int agent_node(const struct agent *ag) { return *ag->place.job ? place_read_node(&ag->place) : -1; }

void agent_set_state(struct agent *ag, const char *state, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(ag->text, sizeof ag->text, fmt, ap);
    va_end(ap);
    snprintf(ag->state, sizeof ag->state, "%s", state);
    pd_info(&ag->log, "%s: %s", ag->state, ag->text);
    for (struct session *s = ag->sessions; s; s = s->next)
        session_say_state(s);
}

static int agent_init(struct agent *ag, const struct place *p, enum agent_mode mode, const char *build, struct pd_err *err) {
    *ag = (struct agent){.mode = mode, .place = *p, .last_client_ns = pd_mono_ns()};
    pd_log_init(&ag->log, -1, -1, PD_INFO);
    int rc = uv_loop_init(&ag->loop) ? pd_fail(err, PD_ENOMEM, "cannot make an event loop") : 0;
    if (build)
        snprintf(ag->build, sizeof ag->build, "%s", build);
    else if (!rc && (rc = object_hex_of_file("/proc/self/exe", ag->build, err)))
        uv_loop_close(&ag->loop);
    return rc;
}

/* Runs until every handle is closed. */
static int agent_finish(struct agent *ag) {
    uv_run(&ag->loop, UV_RUN_DEFAULT);
    if (ag->give_up_open) {
        uv_close((uv_handle_t *)&ag->give_up, NULL);
        uv_run(&ag->loop, UV_RUN_DEFAULT);
    }
    ag->job_started = ag->job && ag->job->started;
    ag_job_free(ag->job);
    json_decref(ag->result);
    free(ag->data_root);
    agent_let_data_go(ag);
    if (ag->logs_open)
        logs_close(&ag->logs);
    return uv_loop_close(&ag->loop) ? 1 : 0;
}

static void on_give_up(uv_timer_t *t) {
    struct agent *ag = t->data;
    for (struct session *s = ag->sessions; s; s = s->next)
        if (s->conn)
            net_close(s->conn);
    job_cut(ag->job);
    uv_close((uv_handle_t *)t, NULL);
    ag->give_up_open = 0;
}

/* Everything is closed when what is queued has gone out, but a client that reads no more does not keep us. */
void agent_quit(struct agent *ag) {
    if (ag->quitting)
        return;
    ag->quitting = 1;
    for (struct session *s = ag->sessions; s; s = s->next)
        if (s->conn)
            net_close_after_flush(s->conn);
    job_close(ag->job);
    if (!uv_timer_init(&ag->loop, &ag->give_up)) {
        ag->give_up.data = ag;
        ag->give_up_open = 1;
        uv_timer_start(&ag->give_up, on_give_up, QUIT_MS, 0);
        uv_unref((uv_handle_t *)&ag->give_up); /* it does not keep the loop when all is closed before */
    }
    if (ag->has_daemon_handles) {
        uv_close((uv_handle_t *)&ag->listener, NULL);
        uv_close((uv_handle_t *)&ag->tick, NULL);
        uv_close((uv_handle_t *)&ag->on_term, NULL);
    }
}

void agent_quit_soon(struct agent *ag) { ag->quit_soon = 1; }

void agent_let_data_go(struct agent *ag) {
    if (ag->data_held > 0)
        close(ag->data_held);
    ag->data_held = 0;
}

static void free_handle(uv_handle_t *h) { free(h); }

/* --- stdin and stdout --- */

static uv_stream_t *open_pipe(uv_loop_t *loop, int fd) {
    uv_pipe_t *p = pd_malloc(sizeof *p);
    if (!p || uv_pipe_init(loop, p, 0)) {
        free(p);
        return NULL;
    }
    pd_widen_pipe(fd); /* packages come */
    if (uv_pipe_open(p, fd)) {
        uv_close((uv_handle_t *)p, free_handle);
        return NULL;
    }
    return (uv_stream_t *)p;
}

int agent_run_stdio(const struct place *p, enum agent_mode mode, const char *build, char join[64]) {
    struct agent ag;
    struct pd_err err = {0};
    int kept[2] = {-1, -1};
    signal(SIGPIPE, SIG_IGN);
    int rc = agent_init(&ag, p, mode, build, &err);
    if (rc) {
        msg_write_error(1, WIRE_AG_HELLO, &err);
        return 1;
    }
    if (mode == AGENT_OVER) {
        ag.result = result_read(p);
        ag.logs_open = !logs_open(&ag.logs, p->dir, 1, &err);
        snprintf(ag.state, sizeof ag.state, "%s", ag.result ? msg_str(ag.result, "status") : "lost");
        snprintf(ag.text, sizeof ag.text, ag.result ? "the job is over" : "the job's agent is gone and left no result");
    }
    for (int i = 0; join && i < 2; i++) /* the streams close theirs */
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
    uv_stream_t *in = open_pipe(&ag.loop, 0), *out = open_pipe(&ag.loop, 1);
    if (!in || !out)
        rc = pd_fail(&err, PD_EIO, "stdin and stdout must be pipes or sockets");
    else
        rc = session_open(&ag, in, out, &err);
    if (rc) {
        msg_write_error(1, WIRE_AG_HELLO, &err);
        if (in)
            uv_close((uv_handle_t *)in, free_handle);
        if (out)
            uv_close((uv_handle_t *)out, free_handle);
    }
    agent_finish(&ag);
    if (join) {
        memcpy(join, ag.join, sizeof ag.join);
        for (int i = 0; i < 2; i++) {
            if (*join && dup2(kept[i], i) < 0)
                rc = pd_fail_errno(&err, PD_EIO, errno, "cannot go on with job %s", join);
            close(kept[i]);
        }
    }
    return rc ? 1 : 0;
}

/* --- the daemon --- */

static void on_connection(uv_stream_t *l, int status) {
    struct agent *ag = l->data;
    uv_pipe_t *p = status ? NULL : pd_malloc(sizeof *p);
    struct pd_err err = {0};
    if (!p || uv_pipe_init(&ag->loop, p, 0)) {
        free(p);
        return;
    }
    if (uv_accept(l, (uv_stream_t *)p) || ag->quitting || session_open(ag, (uv_stream_t *)p, (uv_stream_t *)p, &err)) {
        pd_warn(&ag->log, "a client was turned away: %s", err.msg);
        uv_close((uv_handle_t *)p, free_handle);
    }
}

static void on_tick(uv_timer_t *t) {
    struct agent *ag = t->data;
    if (ag->quit_soon)
        agent_quit(ag);
    else
        job_tick(ag, TICK_MS);
}

/* The guardian is gone, or somebody wants this agent to end: the job has failed, and nothing of it stays. */
static void on_term(uv_signal_t *h, int sig) {
    char reason[60];
    snprintf(reason, sizeof reason, "the agent got signal %d", sig);
    job_end_and_quit(h->data, TERM_GRACE_MS, reason);
}

/* The folder is the current one, so that the socket's name is short whatever root_dir is. */
static int listen_here(struct agent *ag, struct pd_err *err) {
    uv_pipe_init(&ag->loop, &ag->listener, 0);
    uv_timer_init(&ag->loop, &ag->tick);
    uv_signal_init(&ag->loop, &ag->on_term);
    ag->listener.data = ag->tick.data = ag->on_term.data = ag;
    ag->has_daemon_handles = 1;
    mode_t old = umask(0177);
    int rc = uv_pipe_bind(&ag->listener, ".agent/sock");
    umask(old);
    if (!rc)
        rc = uv_listen((uv_stream_t *)&ag->listener, 16, on_connection);
    if (!rc)
        rc = uv_timer_start(&ag->tick, on_tick, TICK_MS, TICK_MS);
    if (!rc)
        rc = uv_signal_start(&ag->on_term, on_term, SIGTERM);
    return rc ? pd_fail(err, PD_EIO, "cannot listen on %s/.agent/sock: %s", ag->place.dir, uv_strerror(rc)) : 0;
}

static int open_log(struct agent *ag, struct pd_err *err) {
    char path[PATH_MAX];
    int rc = place_path(ag->place.dir, "log/paddle_agent.INFO", path, err);
    return rc ? rc : pd_log_open(&ag->log, path, 2, PD_INFO, err);
}

static int write_pid(struct pd_err *err) {
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return pd_write_file_atomic(".agent/pid", text, (size_t)n, 0600, err);
}

int agent_run_daemon(const struct place *p, unsigned lease_ms, const char *build, int ready) {
    struct agent ag;
    struct pd_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    int rc = agent_init(&ag, p, AGENT_JOB, build, &err);
    ag.first_lease_ms = lease_ms ? lease_ms : FIRST_LEASE_MS;
    int opened = !rc, keep = 0;
    if (!rc)
        rc = open_log(&ag, &err);
    if (!rc)
        rc = write_pid(&err);
    if (!rc)
        rc = listen_here(&ag, &err);
    if (rc)
        (void)!write(ready, err.msg, strlen(err.msg));
    else
        (void)!write(ready, "1", 1);
    close(ready);
    if (opened) {
        if (rc)
            agent_quit(&ag);
        else {
            pd_info(&ag.log, "agent %.16s of job %s in %s", ag.build, p->job, p->dir);
            agent_set_state(&ag, "setup", "%s", "");
        }
        agent_finish(&ag);
        pd_info(&ag.log, "the agent ends");
        keep = ag.job_started;
        pd_log_close(&ag.log);
    }
    unlink(".agent/sock");
    unlink(".agent/key");
    unlink(".agent/pid");
    if (!rc && !keep) /* no process ever ran: the folder was made for nothing */
        pd_rm_tree(p->dir, NULL);
    return rc ? 1 : 0;
}
