/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - see agent.h: the table of services, AG_HELLO and AG_STATE, the loop, the socket, and
 * the end. */
#include "agent/agent.h"

#include "agent/report/check.h"
#include "agent/report/clean.h"
#include "agent/package/package.h"
#include "agent/host/facts.h"
#include "agent/client/fetch.h"
#include "agent/client/models.h"
#include "agent/job.h"
#include "agent/report/job_list.h"
#include "agent/report/job_turn.h"
#include "agent/core/result.h"
#include "base/version.h"
#include "wire/msg.h"

enum {
    TICK_MS = 50,
    STILL_MS = 500, /* a tick that comes so late */
    TERM_GRACE_MS = 1000,
    QUIT_MS = 2000,
    FIRST_LEASE_MS = 10000,
    N_SERVICES = 12
};

struct agent {
    struct agent_core core;
    char state[16], text[400]; /* the last AG_STATE */
    json_t *result;            /* AG_RESULT once the job is over on this node, else NULL */
    struct clients *clients;
    struct client_use uses[N_SERVICES];
    struct ag_job *job; /* in job mode, else NULL */
    struct logs logs;   /* of a finished job */
    int logs_open;
    struct log_source log_source;
    struct status_source status_source;
    struct kept_data kept;
    struct job_turn turn;
    uv_pipe_t listener;
    uv_timer_t tick;
    uint64_t ticked_ms, due_ms; /* the last turn of tick, and when the next one was due */
    uv_signal_t on_term;
    int has_daemon_handles; /* the three handles above are open */
    uv_timer_t give_up;     /* the deadline of quitting */
    int give_up_open;
    int quit_soon;
    int no_memory; /* 1: a connection waits to be accepted */
    char join[64]; /* the job named by AG_JOIN */
};

/* --- quitting --- */

static void on_give_up(uv_timer_t *t) {
    struct agent *ag = t->data;
    clients_close(ag->clients, 1);
    ag_job_cut(ag->job);
    uv_close((uv_handle_t *)t, NULL);
    ag->give_up_open = 0;
}

/* Closes all handles after queued frames are written. A client that no longer reads can delay the
 * end by at most QUIT_MS. */
static void quit(struct agent *ag) {
    if (ag->core.quitting)
        return;
    ag->core.quitting = 1;
    clients_close(ag->clients, 0);
    ag_job_close(ag->job);
    job_turn_release(&ag->turn);
    if (!uv_timer_init(&ag->core.loop, &ag->give_up)) {
        ag->give_up.data = ag;
        ag->give_up_open = 1;
        uv_timer_start(&ag->give_up, on_give_up, QUIT_MS, 0);
        uv_unref((uv_handle_t *)&ag->give_up); /* the timer alone must not keep the loop running */
    }
    if (ag->has_daemon_handles) {
        uv_close((uv_handle_t *)&ag->listener, NULL);
        uv_close((uv_handle_t *)&ag->tick, NULL);
        uv_close((uv_handle_t *)&ag->on_term, NULL);
    }
}

static void on_tick(uv_timer_t *t);

/* The next tick is near, although the job was calm before. */
static void tick_soon(struct agent *ag) {
    if (ag->has_daemon_handles && !ag->core.quitting)
        uv_timer_start(&ag->tick, on_tick, TICK_MS, 0);
}

static void on_job_quit(void *arg, int now) {
    struct agent *ag = arg;
    if (now) {
        quit(ag);
        return;
    }
    ag->quit_soon = 1;
    tick_soon(ag);
}

/* --- messages to clients --- */

static json_t *hello(struct agent *ag) {
    const struct node_paths *p = &ag->core.paths;
    json_t *addrs = NULL, *facts = facts_node(p->root);
    (void)facts_addrs(NULL, &addrs, NULL); /* NULL becomes an empty list */
    json_t *o = wire_put(&wire_ag_hello, &(struct ag_hello){.version = WIRE_CLIENT_VERSION,
                                                            .least = WIRE_CLIENT_LEAST,
                                                            .program = PD_VERSION,
                                                            .build = ag->core.build,
                                                            .job = p->job,
                                                            .node = agent_node_id(&ag->core),
                                                            .root = p->root,
                                                            .job_dir = p->dir,
                                                            .addrs = addrs,
                                                            .state = ag->state,
                                                            .text = ag->text,
                                                            .pid = getpid()});
    json_object_update(o, facts); /* arch, cores, mem_bytes, disk_free */
    json_decref(facts);
    json_decref(addrs);
    return o;
}

/* The node of the job's head. */
static int head_of(const struct agent *ag) {
    return ag->result ? (int)msg_int(ag->result, "head", 0, WIRE_MAX_NODES, 0)
                      : ag_job_head(ag->job);
}

static void send_state(struct client *c, void *arg) {
    const struct agent *ag = arg;
    json_t *lost = ag_job_lost_nodes(ag->job);
    const struct file_few few = ag_job_few(ag->job);
    if (*ag->state)
        client_send(c, WIRE_AG_STATE, 0,
                    wire_put(&wire_ag_state, &(struct ag_state){.node = agent_node_id(&ag->core),
                                                                .state = ag->state,
                                                                .text = ag->text,
                                                                .head = head_of(ag),
                                                                .lost = lost,
                                                                .few_copies = few.files,
                                                                .few_bytes = few.bytes}));
    json_decref(lost);
}

static void on_job_state(void *arg, const char *state, const char *text) {
    struct agent *ag = arg;
    snprintf(ag->text, sizeof ag->text, "%s", text);
    snprintf(ag->state, sizeof ag->state, "%s", state);
    pd_info(&ag->core.log, "%s: %s", ag->state, ag->text);
    clients_each(ag->clients, send_state, ag);
}

static void send_result(struct client *c, void *arg) {
    client_send(c, WIRE_AG_RESULT, 0, json_incref(((struct agent *)arg)->result));
}

static void on_job_over(void *arg, json_t *result) {
    struct agent *ag = arg;
    ag->result = json_incref(result);
    tick_soon(ag);
    job_turn_release(&ag->turn);
    log_send_all(ag->clients);
    clients_each(ag->clients, send_result, ag);
}

/* A connection alone renews no lease; its first frame does. AG_LIST, for example, only tests
 * whether an agent answers. */
static void on_client_open(struct client *c, void *arg) {
    struct agent *ag = arg;
    if (client_send(c, WIRE_AG_HELLO, 0, hello(ag)))
        return;
    send_state(c, ag);
    if (ag->result)
        send_result(c, ag);
}

static void on_client_close(void *arg) {
    struct agent *ag = arg;
    if (ag->core.mode != AGENT_JOB)
        quit(ag);
}

static void status_now(void *arg, struct status_now *out) {
    const struct agent *ag = arg;
    const json_t *lost = json_object_get(ag->result, "lost");
    out->state = ag->state;
    out->text = ag->text;
    out->job = ag_job_state(ag->job);
    out->lost = lost ? json_deep_copy(lost) : ag_job_lost_nodes(ag->job);
    out->logs = ag->log_source.logs;
}

/* --- the agent's own service --- */

static const struct client_service own_service;

static int on_ping(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    json_t *o = NULL;
    struct ag_ping m;
    int64_t sent_ns = 0;
    (void)body;
    msg_body(f, &o, NULL); /* a body is optional */
    if (!wire_get(&wire_ag_ping, &m, o, NULL)) {
        client_show_token(c, m.owner, (int)m.claim, m.holder);
        sent_ns = m.sent_ns;
    }
    json_decref(o);
    /* The answer also shows the client that the connection works. */
    return client_answer(c, f, client_lease(c, sent_ns), err);
}

/* A client that has read the list of jobs continues with one of them on the same stream, without a
 * second login. */
static int on_join(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct agent *ag = client_context(c, &own_service);
    struct ag_join m;
    struct node_paths p;
    (void)f;
    if (wire_get(&wire_ag_join, &m, body, err))
        return err->code;
    if (ag->core.mode != AGENT_TOOL)
        return pd_fail(err, PD_EPROTO, "AG_JOIN: this agent has a job");
    if (!*m.job || node_paths_init(&p, ag->core.paths.root, m.job, err))
        return pd_fail(err, PD_EUSAGE, "AG_JOIN: '%.63s' is no job", m.job);
    memcpy(ag->join, p.job, sizeof ag->join);
    client_close(c, 1);
    return 0;
}

static int on_bye(struct client *c, const struct wire_frame *f, const json_t *body,
                  struct pd_err *err) {
    struct agent *ag = client_context(c, &own_service);
    json_t *o = NULL;
    struct ag_bye m;
    (void)body;
    (void)err;
    msg_body(f, &o, NULL); /* a body is optional */
    if (ag->job && !wire_get(&wire_ag_bye, &m, o, NULL))
        ag_job_bye(ag->job, (int)m.abandon, (int)m.detach, client_is_spare(c));
    json_decref(o);
    client_close(c, 0);
    return 0;
}

static const struct client_request own_requests[] = {
    {WIRE_AG_PING, 0, 0, on_ping, NULL},
    {WIRE_AG_JOIN, 0, 1, on_join, NULL},
    {WIRE_AG_BYE, 0, 0, on_bye, NULL},
    {0},
};
static const struct client_service own_service = {.name = "agent", .requests = own_requests};

/* --- start and end --- */

/* on_close of the services is called in this order. */
static void use_services(struct agent *ag) {
    const struct client_use uses[N_SERVICES] = {
        {&own_service, ag},
        {&package_service, &ag->kept},
        {&file_fetch_service, ag->job ? (void *)(uintptr_t)ag_job_files(ag->job) : NULL},
        {&log_send_service, &ag->log_source},
        {&fetch_service, NULL},
        {&models_service, NULL},
        {&check_service, NULL},
        {&check_net_service, NULL},
        {&clean_service, NULL},
        {&job_list_service, &ag->status_source},
        {&ag_job_service, ag->job},
        {&job_turn_service, &ag->turn},
    };
    ag->log_source.node = agent_node_id(&ag->core);
    ag->status_source = (struct status_source){status_now, ag};
    memcpy(ag->uses, uses, sizeof ag->uses);
    clients_serve(ag->clients, ag->uses, N_SERVICES);
}

/* On failure everything is released. */
static int agent_init(struct agent *ag, const struct node_paths *p, enum agent_mode mode,
                      unsigned first_lease_ms, const char *build, struct pd_err *err) {
    static const struct client_events ev = {on_client_open, on_client_close};
    static const struct ag_job_events job_ev = {on_job_state, on_job_over, on_job_quit};
    *ag = (struct agent){0};
    int rc = agent_core_init(&ag->core, p, mode, build, err);
    if (rc)
        return rc;
    rc = clients_new(&ag->clients, &ag->core, &ev, ag, err);
    const struct ag_job_opts o = {.core = &ag->core,
                                  .clients = ag->clients,
                                  .logs = &ag->log_source,
                                  .kept = &ag->kept,
                                  .first_lease_ms = first_lease_ms,
                                  .events = &job_ev,
                                  .arg = ag};
    if (!rc && mode == AGENT_JOB)
        rc = ag_job_new(&ag->job, &o, err);
    if (!rc) {
        use_services(ag);
        return 0;
    }
    clients_free(ag->clients);
    uv_loop_close(&ag->core.loop);
    return rc;
}

/* Runs until every handle is closed. Returns 1 if a process of the job ran. *unwritten 1: its
 * result is in no file. */
static int agent_finish(struct agent *ag, int *unwritten) {
    uv_run(&ag->core.loop, UV_RUN_DEFAULT);
    if (ag->give_up_open) {
        uv_close((uv_handle_t *)&ag->give_up, NULL);
        uv_run(&ag->core.loop, UV_RUN_DEFAULT);
    }
    const int started = ag_job_started(ag->job);
    *unwritten = ag_job_unwritten(ag->job);
    ag_job_free(ag->job);
    json_decref(ag->result);
    kept_data_release(&ag->kept);
    if (ag->logs_open)
        logs_close(&ag->logs);
    clients_free(ag->clients);
    uv_loop_close(&ag->core.loop);
    return started;
}

static void free_handle(uv_handle_t *h) { free(h); }

/* --- stdin and stdout --- */

static uv_stream_t *open_pipe(uv_loop_t *loop, int fd, struct pd_err *err) {
    uv_pipe_t *p = pd_malloc(sizeof *p);
    if (!p || uv_pipe_init(loop, p, 0)) {
        free(p);
        pd_oom(err, "a connection");
        return NULL;
    }
    pd_widen_pipe(fd); /* large packages come through this pipe */
    if (uv_pipe_open(p, fd)) {
        pd_fail(err, PD_EIO, "stdin and stdout must be pipes or sockets");
        uv_close((uv_handle_t *)p, free_handle);
        return NULL;
    }
    return (uv_stream_t *)p;
}

/* Loads the state of a finished job from its files. */
static void load_over(struct agent *ag) {
    const struct node_paths *p = &ag->core.paths;
    ag->result = result_read(p);
    ag->logs_open = !logs_open(&ag->logs, p->dir, 1, NULL);
    ag->log_source.logs = ag->logs_open ? &ag->logs : NULL;
    snprintf(ag->state, sizeof ag->state, "%s",
             ag->result ? msg_str(ag->result, "status") : "lost");
    snprintf(ag->text, sizeof ag->text, "%s%s",
             ag->result ? "the job is over" : "the job's agent is gone and left no result",
             ag->result ? "" : result_why_missing(p));
    const char *why = msg_str(json_object_get(ag->result, "first_failure"), "reason");
    clients_set_over(ag->clients, *why ? why : ag->text);
}

int agent_run_stdio(const struct node_paths *p, enum agent_mode mode, const char *build,
                    char join[64]) {
    struct agent ag;
    struct pd_err err = {0};
    int kept[2] = {-1, -1}, unwritten;
    signal(SIGPIPE, SIG_IGN);
    int rc = agent_init(&ag, p, mode, 0, build, &err);
    if (rc) {
        msg_write_error(1, WIRE_AG_HELLO, &err);
        return 1;
    }
    if (mode == AGENT_OVER)
        load_over(&ag);
    for (int i = 0; join && i < 2; i++) /* the streams close descriptors 0 and 1 */
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
    uv_stream_t *in = open_pipe(&ag.core.loop, 0, &err), *out = open_pipe(&ag.core.loop, 1, &err);
    rc = err.code;
    if (!rc)
        rc = client_open(ag.clients, in, out, &err);
    if (rc) {
        msg_write_error(1, WIRE_AG_HELLO, &err);
        if (in)
            uv_close((uv_handle_t *)in, free_handle);
        if (out)
            uv_close((uv_handle_t *)out, free_handle);
    }
    agent_finish(&ag, &unwritten);
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
    uv_os_fd_t fd;
    if (!p || uv_pipe_init(&ag->core.loop, p, 0)) {
        free(p);
        ag->no_memory = !status; /* libuv listens no further until it is accepted: on_tick */
        return;
    }
    if (uv_accept(l, (uv_stream_t *)p) || ag->core.quitting ||
        client_open(ag->clients, (uv_stream_t *)p, (uv_stream_t *)p, &err)) {
        pd_warn(&ag->core.log, "a client was turned away: %s", err.msg);
        if (err.code && !uv_fileno((uv_handle_t *)p, &fd))
            msg_write_error(fd, WIRE_AG_HELLO, &err);
        uv_close((uv_handle_t *)p, free_handle);
    }
}

/* After a standstill (SIGSTOP, a suspended machine) messages wait to be read. They come before the
 * leases are judged, in the next turn. */
static int stood_still(const struct agent *ag) {
    return ag->due_ms && ag->ticked_ms > ag->due_ms + STILL_MS;
}

static void on_tick(uv_timer_t *t) {
    struct agent *ag = t->data;
    if (ag->no_memory) {
        ag->no_memory = 0;
        on_connection((uv_stream_t *)&ag->listener, 0);
    }
    const uint64_t last = ag->ticked_ms;
    ag->ticked_ms = uv_now(&ag->core.loop);
    if (ag->quit_soon)
        quit(ag);
    else if (!stood_still(ag))
        ag_job_tick(ag->job, last ? ag->ticked_ms - last : TICK_MS);
    const uint64_t calm_ms = ag_job_calm_ms(ag->job), next_ms = calm_ms ? calm_ms : TICK_MS;
    ag->due_ms = ag->ticked_ms + next_ms;
    if (!ag->core.quitting)
        uv_timer_start(t, on_tick, next_ms, 0);
}

/* The guardian is gone, the machine is being shut down, or a user has signalled the agent: the
 * node ends its processes and leaves the job. */
static void on_term(uv_signal_t *h, int sig) {
    char reason[60];
    snprintf(reason, sizeof reason, "the agent got signal %d", sig);
    ag_job_end(((struct agent *)h->data)->job, TERM_GRACE_MS, "agent", reason);
}

/* The current folder is the job's folder, so the socket's path is short for every root_dir. */
static int listen_here(struct agent *ag, struct pd_err *err) {
    uv_pipe_init(&ag->core.loop, &ag->listener, 0);
    uv_timer_init(&ag->core.loop, &ag->tick);
    uv_signal_init(&ag->core.loop, &ag->on_term);
    ag->listener.data = ag->tick.data = ag->on_term.data = ag;
    ag->has_daemon_handles = 1;
    mode_t old = umask(0177);
    int rc = uv_pipe_bind(&ag->listener, ".agent/sock");
    umask(old);
    if (!rc)
        rc = uv_listen((uv_stream_t *)&ag->listener, 16, on_connection);
    if (!rc)
        rc = uv_timer_start(&ag->tick, on_tick, TICK_MS, 0);
    if (!rc)
        rc = uv_signal_start(&ag->on_term, on_term, SIGTERM);
    return rc ? pd_fail(err, PD_EIO, "cannot listen on %s/.agent/sock: %s", ag->core.paths.dir,
                        uv_strerror(rc))
              : 0;
}

static int open_log(struct agent *ag, struct pd_err *err) {
    char path[PATH_MAX];
    int rc = node_paths_join(ag->core.paths.dir, "log/paddle_agent.INFO", path, err);
    return rc ? rc : pd_log_open(&ag->core.log, path, -1, PD_INFO, err);
}

static int write_pid(struct pd_err *err) {
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return pd_write_file_atomic(".agent/pid", text, (size_t)n, 0600, err);
}

int agent_run_daemon(const struct node_paths *p, unsigned lease_ms, const char *build, int ready) {
    struct agent ag;
    struct pd_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    int rc = agent_init(&ag, p, AGENT_JOB, lease_ms ? lease_ms : FIRST_LEASE_MS, build, &err);
    int opened = !rc, keep = 0, unwritten = 0;
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
            quit(&ag);
        else {
            pd_info(&ag.core.log, "agent %.16s of job %s in %s", ag.core.build, p->job, p->dir);
            on_job_state(&ag, "setup", "");
        }
        keep = agent_finish(&ag, &unwritten);
        pd_info(&ag.core.log, "the agent ends");
        pd_log_close(&ag.core.log);
    }
    unlink(".agent/sock");
    unlink(".agent/key");
    unlink(".agent/pid");
    if (!rc && !keep) /* no process ran: the folder is not needed */
        pd_rm_tree(p->dir, NULL);
    return rc || unwritten ? 1 : 0; /* the guardian writes the result, if it can */
}
