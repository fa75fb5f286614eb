/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_session.c - one host: from a name to a command that runs, as a table of steps.
 *
 * A callback of libuv stores the event and calls session_drive. session_drive runs the function of
 * the current step, which returns the next step, or the same step in order to wait. Only enter_step
 * writes the step. All bytes that libssh has buffered are handled before the loop waits again,
 * since the socket does not become readable for them.
 *
 * The session of a jump host has no command; it ends in STEP_CARRY instead of STEP_OPEN.
 */
#include <libssh/server.h> /* ssh_send_keepalive */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <sys/socket.h>

#include "launcher/ssh/ssh_internal.h"

enum { MAX_ATTEMPTS = 12, ALIVE_TICK_MS = 2500, ALIVE_TICKS = 6 };

static enum ssh_step run_config(struct session *s);
static enum ssh_step run_turn(struct session *s);
static enum ssh_step run_failed(struct session *s);
static void enter_channel(struct session *s);
static void enter_open(struct session *s);
static void enter_backoff(struct session *s);
static void enter_closing(struct session *s);

static const struct {
    const char *doing; /* "timed out while ..." */
    void (*enter)(struct session *);
    enum ssh_step (*run)(struct session *); /* NULL: only an event ends the step */
    int timed;                              /* connect_timeout counts */
} steps[SSH_N_STEPS] = {
    [STEP_CONFIG] = {"asking for its configuration", NULL, run_config, 0}, /* own limit */
    [STEP_JUMP] = {"waiting for the jump host", NULL, run_jump, 0},        /* own limit */
    [STEP_TURN] = {"waiting for its turn", NULL, run_turn, 0},
    [STEP_RESOLVE] = {"resolving the name", NULL, run_resolve, 1},
    [STEP_FORWARD] = {"connecting through the jump host", NULL, run_forward, 1},
    [STEP_CONNECT] = {"connecting", NULL, run_connect, 1},
    [STEP_KEX] = {"exchanging keys", auth_begin, run_kex, 1},
    [STEP_HOST_KEY] = {"checking the host key", NULL, run_host_key, 1},
    [STEP_NONE_AUTH] = {"asking how to authenticate", NULL, run_none, 1},
    [STEP_KEY_AUTH] = {"authenticating with a key file", NULL, run_key, 1},
    [STEP_AGENT_AUTH] = {"authenticating with the ssh agent", NULL, run_agent, 1},
    [STEP_LOCKED_KEY_AUTH] = {"authenticating with a locked key file", NULL, run_locked_key, 1},
    [STEP_KBDINT_AUTH] = {"answering the server's questions", NULL, run_kbdint, 1},
    [STEP_PASSWORD_AUTH] = {"authenticating with a password", NULL, run_password, 1},
    [STEP_ASK] = {"waiting for your answer", NULL, run_ask, 0}, /* no limit; Ctrl-C ends it */
    [STEP_CHANNEL] = {"opening a channel", enter_channel, run_channel, 1},
    [STEP_EXEC] = {"starting a command", NULL, run_exec, 1},
    [STEP_OPEN] = {"running", enter_open, run_open, 0}, /* on_alive probes */
    [STEP_CARRY] = {"carrying connections", enter_open, run_carry, 0},
    [STEP_BACKOFF] = {"waiting to connect again", enter_backoff, NULL, 0},
    [STEP_CLOSING] = {"closing", enter_closing, NULL, 0},
    [STEP_FAILED] = {"failing", NULL, run_failed, 0},
};

static void on_deadline(uv_timer_t *t);

static void enter_step(struct session *s, enum ssh_step next) {
    uint64_t now = uv_now(s->pool->loop);
    if (steps[next].timed && !s->deadline_runs) {
        s->deadline_runs = 1;
        s->started_ms = now;
        uv_timer_start(&s->deadline, on_deadline, s->budget_ms, 0);
    } else if (!steps[next].timed && s->deadline_runs) {
        s->deadline_runs = 0;
        uv_timer_stop(&s->deadline);
        s->budget_ms =
            now - s->started_ms < s->budget_ms ? s->budget_ms - (now - s->started_ms) : 1;
    }
    s->step = next;
    if (steps[next].enter)
        steps[next].enter(s);
}

enum ssh_step session_fail(struct session *s, int code, const char *fmt, ...) {
    char msg[900];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    pd_fail(&s->why, code, "%s", msg);
    return STEP_FAILED;
}

enum ssh_step session_lost(struct session *s) {
    const char *jump = jump_failure(s);
    if (jump)
        return session_fail(s, PD_ECLOSED, "%s", jump);
    return session_fail(s, PD_ECLOSED, "the connection was lost: %s", ssh_get_error(s->ssh));
}

/* --- handles --- */

static void session_free(struct session *s) {
    transport_release(&s->base);
    ssh_target_release(&s->target);
    free(s->command);
    free(s->alias);
    free(s->given_user);
    free(s->given_address);
    free(s->given_identity);
    free(s->given_jump);
    free(s);
}

void session_finish(struct session *s) {
    s->base.ev->on_close(&s->why, s->base.arg);
    session_free(s);
}

void session_handle_gone(struct session *s) {
    struct ssh_pool *pool = s->pool;
    if (--s->n_handles)
        return;
    if (s->jump) { /* not a session of a caller */
        session_finish(s);
        return;
    }
    if (--pool->n_sessions || !pool->n_background) {
        session_finish(s);
        return;
    }
    struct session *earlier = pool->last; /* new sessions were opened while it waited */
    pool->last = s;
    if (earlier)
        session_finish(earlier);
    ssh_config_cancel(pool->config);
    ssh_secrets_cancel(pool->secrets);
    ssh_jumps_close(pool);
}

static void on_timer_closed(uv_handle_t *h) { session_handle_gone(h->data); }

static void on_poll_closed(uv_handle_t *h) {
    struct session *s = h->data;
    free(h);
    session_handle_gone(s);
}

static void on_poll(uv_poll_t *h, int status, int events) {
    struct session *s = h->data;
    (void)status; /* the next use of the socket shows the error */
    if (events & UV_READABLE)
        s->heard = 1;
    session_drive(s);
}

int session_watch(struct session *s, int fd) {
    uv_poll_t *p = pd_malloc(sizeof *p);
    if (!p)
        return PD_ENOMEM;
    if (uv_poll_init(s->pool->loop, p, fd)) {
        free(p);
        return PD_EFAIL;
    }
    p->data = s;
    s->poll = p;
    s->n_handles++;
    return 0;
}

/* The poll handle is closed first, because its descriptor is closed here. */
void session_drop(struct session *s) {
    if (s->poll)
        uv_close((uv_handle_t *)s->poll, on_poll_closed);
    s->poll = NULL;
    ssh_forward_leave(s);
    if (s->jump)
        jump_dropped(s->jump, &s->why);
    channel_release(s);
    if (s->ssh) {
        ssh_options_set(s->ssh, SSH_OPTIONS_FD,
                        NULL); /* else ssh_disconnect leaves its descriptor open */
        ssh_disconnect(s->ssh);
        ssh_free(s->ssh);
        s->ssh = NULL;
    }
    pd_close(s->fd);
    s->fd = -1;
    if (s->proxy) /* for a command that ignores the end of its stdin */
        uv_process_kill(s->proxy, SIGHUP);
    s->proxy = NULL;
}

enum ssh_step session_first_step(const struct session *s) {
    return s->via ? STEP_FORWARD : s->target.proxy || s->addrs ? STEP_CONNECT : STEP_RESOLVE;
}

/* --- waiting --- */

static void arm_poll(struct session *s, int again) {
    if (!s->poll)
        return;
    /* A thread uses the connection, or no step reads from it. */
    if (agent_busy(s) || s->step == STEP_ASK) {
        uv_poll_stop(s->poll);
        return;
    }
    int events = UV_READABLE;
    if (s->step == STEP_CONNECT)
        events = UV_WRITABLE;
    else if (again || (s->ssh && (ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING)) ||
             channel_wants_write(s) || jump_carries(s))
        events |= UV_WRITABLE;
    /* With a delayed acknowledgement the server's small messages would wait 40 ms. */
    if (s->step < STEP_OPEN) {
        int one = 1;
        setsockopt(s->fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
    }
    uv_poll_start(s->poll, events, on_poll);
}

/* In these steps the calls of libssh return "again" forever after a DISCONNECT of the server ("too
 * many failures"). */
static int server_hung_up(const struct session *s) {
    return s->step > STEP_HOST_KEY && s->step < STEP_OPEN && s->step != STEP_ASK && s->ssh &&
           !agent_busy(s) && (ssh_get_status(s->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR));
}

void session_drive(struct session *s) {
    if (s->in_drive || s->step == STEP_CLOSING)
        return;
    s->in_drive = 1;
    s->more = 0;
    while (steps[s->step].run) {
        enum ssh_step was = s->step, next = steps[was].run(s);
        if (next == was && s->step == was && server_hung_up(s))
            next = was >= STEP_CHANNEL ? session_lost(s) : auth_broken(s);
        if (s->step == STEP_CLOSING || next == was)
            break;
        enter_step(s, next);
    }
    s->in_drive = 0;
    if (s->step != STEP_CLOSING)
        arm_poll(s, s->more);
    else if (s->close_in_drive) { /* closed by a callback; no libssh call runs now */
        s->close_in_drive = 0;
        enter_closing(s);
    }
}

static void on_wake(uv_timer_t *t) {
    struct session *s = t->data;
    if (s->step == STEP_BACKOFF)
        enter_step(s, STEP_TURN);
    session_drive(s);
}

void session_wake_after(struct session *s, uint64_t ms) {
    if (s->step != STEP_CLOSING && s->step != STEP_BACKOFF)
        uv_timer_start(&s->wake, on_wake, ms, 0);
}

void session_wake(struct session *s) { session_wake_after(s, 0); }

static void on_deadline(uv_timer_t *t) {
    struct session *s = t->data;
    session_fail(s, PD_ETIMEOUT, "timed out after %.3g s while %s",
                 (double)s->pool->connect_timeout_ms / 1000, steps[s->step].doing);
    if (agent_busy(s)) {
        agent_cut(s); /* the thread returns and finds the error */
        return;
    }
    enter_step(s, STEP_CLOSING);
}

/* Probes an open connection without traffic. After ALIVE_TICKS probes without an answer the
 * connection is lost. Ticks are counted, not seconds, since a machine may sleep during a tick. */
static void on_alive(uv_timer_t *t) {
    struct session *s = t->data;
    if (s->heard) {
        s->heard = s->silent_ticks = 0;
        return;
    }
    if (++s->silent_ticks > ALIVE_TICKS) {
        session_fail(s, PD_ECLOSED, "the connection was lost: the host has not answered for %d s",
                     ALIVE_TICKS * ALIVE_TICK_MS / 1000);
        enter_step(s, STEP_CLOSING);
        return;
    }
    /* The first call may only read the answer to the last probe. session_drive handles the other
     * packets that it reads. */
    ssh_send_keepalive(s->ssh);
    ssh_send_keepalive(s->ssh);
    session_drive(s);
}

/* --- steps --- */

static enum ssh_step run_config(struct session *s) {
    switch (ssh_query_state(s->query, s)) {
    case QUERY_WAITS:
        return STEP_CONFIG;
    case QUERY_FAILED:
        return session_fail(s, ssh_query_error(s->query)->code, "%s",
                            ssh_query_error(s->query)->msg);
    case QUERY_DONE:
        break;
    }
    wait_leave(s);
    if (ssh_target_make(s, ssh_query_settings(s->query), &s->why))
        return STEP_FAILED;
    if (s->target.jump && ssh_jump_get(&s->via, s, s->target.jump, &s->why))
        return STEP_FAILED;
    return s->via ? STEP_JUMP : STEP_TURN;
}

static enum ssh_step run_turn(struct session *s) {
    if (!s->has_slot)
        ssh_pool_want_turn(s);
    return s->has_slot ? session_first_step(s) : STEP_TURN;
}

static void leave_slot(struct session *s) {
    if (s->has_slot)
        ssh_slot_let_in(s->slot);
    ssh_pool_leave(s);
}

static void enter_channel(struct session *s) { leave_slot(s); }

static void enter_open(struct session *s) {
    leave_slot(s); /* a jump host has no channel of its own */
    s->heard = s->silent_ticks = 0;
    uv_timer_start(&s->deadline, on_alive, ALIVE_TICK_MS, ALIVE_TICK_MS);
    s->base.ev->on_open(s->base.arg);
}

/* --- ends --- */

static enum ssh_step run_failed(struct session *s) {
    if (s->dropped_early && s->attempts + 1 < MAX_ATTEMPTS &&
        s->backed_off_ms < s->pool->connect_timeout_ms) {
        s->dropped_early = 0;
        return STEP_BACKOFF;
    }
    return STEP_CLOSING;
}

static void enter_backoff(struct session *s) {
    pd_err_clear(&s->why);
    session_drop(s);
    ssh_slot_dropped(s->slot);
    ssh_pool_leave(s);
    uint32_t range =
        100u << (s->attempts < 4 ? s->attempts : 4); /* 100 ms .. 1.6 s, half of it random */
    uint32_t ms = range / 2 + randombytes_uniform(range / 2 + 1);
    s->attempts++;
    s->backed_off_ms += ms;
    uv_timer_start(&s->wake, on_wake, ms, 0);
}

static void enter_closing(struct session *s) {
    /* transport_close from a callback: libssh may be on the stack. */
    if (s->in_drive && !s->why.code) {
        s->close_in_drive = 1;
        return;
    }
    ssh_pool_leave(s);
    uv_close((uv_handle_t *)&s->deadline, on_timer_closed);
    uv_close((uv_handle_t *)&s->wake, on_timer_closed);
    if (agent_busy(s))
        agent_cut(s); /* when the thread has returned, on_worker_done drops the connection */
    else
        session_drop(s);
    connect_release(s);
}

static void session_close(struct transport *t) {
    struct session *s = (struct session *)t;
    if (s->step == STEP_CLOSING)
        return;
    pd_err_clear(&s->why);
    enter_step(s, STEP_CLOSING);
}

static int session_write(struct transport *t, const void *p, size_t n) {
    struct session *s = (struct session *)t;
    if (s->step == STEP_CLOSING)
        return 0;
    if (transport_push(t, p, n))
        return PD_ENOMEM;
    if (!s->in_drive && s->step == STEP_OPEN)
        arm_poll(s, 0);
    return 0;
}

static void session_eof(struct transport *t) {
    struct session *s = (struct session *)t;
    if (!s->in_drive && s->step == STEP_OPEN)
        arm_poll(s, 1);
}

/* Through a jump host or a ProxyCommand the socket is no TCP socket of that host. */
static int session_is_acknowledged(const struct transport *t) {
    const struct session *s = (const struct session *)t;
    struct tcp_info info;
    socklen_t n = sizeof info;
    return s->fd >= 0 && !getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &n) &&
           !info.tcpi_retransmits && !info.tcpi_probes;
}

/* --- opening --- */

static int copy_given(char **to, const char *from) {
    return from && !(*to = pd_strdup(from)) ? PD_ENOMEM : 0;
}

int ssh_session_open(struct session **out, struct ssh_pool *pool, const struct host *host,
                     const char *command, const struct transport_events *ev, void *arg,
                     struct pd_err *err) {
    struct session *s = pd_calloc(1, sizeof *s);
    int rc = 0;
    if (!s)
        return pd_oom(err, "an ssh session");
    transport_init(&s->base, ev, arg);
    s->base.write = session_write;
    s->base.eof = session_eof;
    s->base.close = session_close;
    s->base.is_acknowledged = session_is_acknowledged;
    s->pool = pool;
    s->fd = -1;
    s->budget_ms = pool->connect_timeout_ms;
    s->given_port = host->port;
    if (copy_given(&s->command, command) || copy_given(&s->alias, host->addr) ||
        copy_given(&s->given_user, host->user) || copy_given(&s->given_address, host->address) ||
        copy_given(&s->given_identity, host->identity_file))
        rc = pd_oom(err, "an ssh session");
    if (!rc)
        rc = ssh_config_query(&s->query, pool->config, s->alias, s->given_user, s->given_port, err);
    if (rc) {
        session_free(s);
        return rc;
    }
    uv_timer_init(pool->loop, &s->deadline);
    uv_timer_init(pool->loop, &s->wake);
    s->deadline.data = s->wake.data = s;
    s->n_handles = 2;
    pool->n_sessions++;
    enter_step(s, STEP_CONFIG);
    session_wake(s); /* this call makes no callback */
    *out = s;
    return 0;
}
