/* ssh_session.c - one host: from a name to a command that runs, as a table of steps.
 *
 * Callbacks of libuv only report (they store what happened and call session_drive); session_drive runs the current
 * step's function, which returns the step to be in: its own while there is nothing to do but wait. enter_step alone
 * writes the state. Everything that libssh has buffered is handled before the loop is asked to wait again, since the
 * socket does not become readable for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/ssh/ssh_impl.h"

enum { MAX_ATTEMPTS = 8, LOST_AFTER_MS = 15000, DRIVE_BUDGET = 4 << 20, GROW_AFTER = 512 << 10 };

static enum ssh_step run_resolve(struct session *s);
static enum ssh_step run_connect(struct session *s);
static enum ssh_step run_kex(struct session *s);
static enum ssh_step run_channel(struct session *s);
static enum ssh_step run_exec(struct session *s);
static enum ssh_step run_open(struct session *s);
static enum ssh_step run_failed(struct session *s);
static void enter_wait(struct session *s);
static void enter_channel(struct session *s);
static void enter_open(struct session *s);
static void enter_backoff(struct session *s);
static void enter_closing(struct session *s);

static const struct {
    const char *doing; /* "timed out while ..." */
    void (*enter)(struct session *);
    enum ssh_step (*run)(struct session *); /* NULL: this step ends by an event only */
} steps[SSH_N_STEPS] = {
    [STEP_WAIT] = {"waiting for its turn", enter_wait, NULL},
    [STEP_RESOLVE] = {"resolving the name", NULL, run_resolve},
    [STEP_CONNECT] = {"connecting", NULL, run_connect},
    [STEP_KEX] = {"exchanging keys", NULL, run_kex},
    [STEP_HOST_KEY] = {"checking the host key", NULL, auth_host_key},
    [STEP_KEY_AUTH] = {"authenticating with a key file", NULL, auth_key},
    [STEP_AGENT_AUTH] = {"authenticating with the ssh agent", NULL, auth_agent},
    [STEP_CHANNEL] = {"opening a channel", enter_channel, run_channel},
    [STEP_EXEC] = {"starting a command", NULL, run_exec},
    [STEP_OPEN] = {"running", enter_open, run_open}, /* no deadline: the layer above pings and gives up */
    [STEP_BACKOFF] = {"waiting to connect again", enter_backoff, NULL},
    [STEP_CLOSING] = {"closing", enter_closing, NULL},
    [STEP_FAILED] = {"failing", NULL, run_failed},
};

static void enter_step(struct session *s, enum ssh_step next) {
    s->step = next;
    if (steps[next].enter)
        steps[next].enter(s);
}

enum ssh_step session_fail(struct session *s, int code, const char *fmt, ...) {
    char msg[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    pd_fail(&s->why, code, "%s", msg);
    return STEP_FAILED;
}

/* --- handles, counted ---------------------------------------------------------------------------------- */

static void session_free(struct session *s) {
    transport_release(&s->base);
    free(s->host);
    free(s->user);
    free(s->command);
    free(s->config_identity);
    free(s);
}

static void handle_gone(struct session *s) {
    if (--s->n_handles)
        return;
    s->base.ev->on_close(&s->why, s->base.arg);
    session_free(s);
}

static void on_timer_closed(uv_handle_t *h) { handle_gone(h->data); }

static void on_poll_closed(uv_handle_t *h) {
    struct session *s = h->data;
    free(h);
    handle_gone(s);
}

static void on_poll(uv_poll_t *h, int status, int events) {
    (void)status; /* an error of the socket shows when it is used */
    (void)events;
    session_drive(h->data);
}

static int poll_open(struct session *s, int fd) {
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

static void poll_close(struct session *s) {
    if (s->poll)
        uv_close((uv_handle_t *)s->poll, on_poll_closed);
    s->poll = NULL;
}

/* The connection goes, the session stays (to try again, or to report). The poll handle first: libssh closes the fd. */
static void drop_connection(struct session *s) {
    poll_close(s);
    if (s->channel) {
        ssh_remove_channel_callbacks(s->channel, &s->channel_cb);
        ssh_channel_free(s->channel);
        s->channel = NULL;
    }
    if (s->ssh) {
        ssh_disconnect(s->ssh);
        ssh_free(s->ssh);
        s->ssh = NULL;
    } else if (s->fd >= 0) {
        close(s->fd);
    }
    s->fd = -1;
    if (s->agent_fd >= 0 && s->agent_done)
        close(s->agent_fd);
    s->agent_fd = -1;
}

void session_reconnect(struct session *s) { drop_connection(s); }

/* --- waiting --------------------------------------------------------------------------------------------- */

static int want_write(struct session *s) {
    if (s->step != STEP_OPEN)
        return 0;
    return transport_queued(&s->base) && ssh_channel_window_size(s->channel) > 0;
}

static void arm(struct session *s, int again) {
    if (!s->poll || s->step == STEP_AGENT_AUTH) {
        if (s->poll)
            uv_poll_stop(s->poll); /* the worker thread has the session now */
        return;
    }
    int events = UV_READABLE;
    if (s->step == STEP_CONNECT)
        events = UV_WRITABLE;
    else if (again || (ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING) || want_write(s))
        events |= UV_WRITABLE;
    if (s->step < STEP_OPEN) { /* else the server's small messages wait 40 ms for our delayed acknowledgement */
        int one = 1;
        setsockopt(s->fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
    }
    uv_poll_start(s->poll, events, on_poll);
}

void session_drive(struct session *s) {
    if (s->in_drive || s->step == STEP_CLOSING)
        return;
    s->in_drive = 1;
    s->more = 0;
    while (steps[s->step].run) {
        enum ssh_step next = steps[s->step].run(s);
        if (next == s->step || s->step == STEP_CLOSING)
            break;
        enter_step(s, next);
    }
    s->in_drive = 0;
    if (s->step != STEP_CLOSING)
        arm(s, s->more);
    else if (s->close_in_drive) { /* closed by a callback: now that no libssh call is under way */
        s->close_in_drive = 0;
        enter_closing(s);
    }
}

static void on_deadline(uv_timer_t *t) {
    struct session *s = t->data;
    session_fail(s, PD_ETIMEOUT, "timed out after %.3g s while %s", (double)s->pool->connect_timeout_ms / 1000,
                 steps[s->step].doing);
    if (s->step == STEP_AGENT_AUTH && !s->agent_done) {
        auth_agent_cut(s);
        return; /* the worker comes back and finds the error */
    }
    if (s->step == STEP_RESOLVE)
        uv_cancel((uv_req_t *)&s->resolve);
    enter_step(s, STEP_CLOSING);
}

/* --- the steps ------------------------------------------------------------------------------------------- */

static void enter_wait(struct session *s) {
    uint64_t spent = uv_now(s->pool->loop) - s->started_ms;
    if (s->started_ms)
        s->budget_ms = spent < s->budget_ms ? s->budget_ms - spent : 1;
    uv_timer_stop(&s->deadline);
    ssh_pool_wait(s->pool, s);
}

static void on_turn(uv_timer_t *t) {
    struct session *s = t->data;
    if (s->step == STEP_CLOSING)
        return;
    enter_step(s, s->addrs ? STEP_CONNECT : STEP_RESOLVE);
    session_drive(s);
}

/* Called by the pool, possibly from inside another session's step: so only a timer is set. */
void session_start(struct session *s) {
    s->started_ms = uv_now(s->pool->loop);
    uv_timer_start(&s->deadline, on_deadline, s->budget_ms, 0);
    uv_timer_start(&s->backoff, on_turn, 0, 0);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *res) {
    struct session *s = req->data;
    if (s->step == STEP_CLOSING) {
        uv_freeaddrinfo(res);
        handle_gone(s);
        return;
    }
    s->n_handles--; /* never the last one: the timers are still open */
    s->addrs = s->addr = res;
    if (status)
        session_fail(s, PD_EHOST, "cannot resolve the name: %s", uv_strerror(status));
    session_drive(s);
}

static enum ssh_step run_resolve(struct session *s) {
    if (s->why.code)
        return STEP_FAILED;
    if (s->addrs)
        return STEP_CONNECT;
    char port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC, .ai_flags = AI_ADDRCONFIG};
    pd_fmt(port, sizeof port, "%d", s->port);
    s->resolve.data = s;
    int rc = uv_getaddrinfo(s->pool->loop, &s->resolve, on_resolved, s->host, port, &hints);
    if (rc)
        return session_fail(s, PD_EHOST, "cannot resolve the name: %s", uv_strerror(rc));
    s->n_handles++;
    return STEP_RESOLVE;
}

static void set_socket_options(int fd) {
    int one = 1, ms = LOST_AFTER_MS, ask_s = LOST_AFTER_MS / 4000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* Also while nothing may be sent, because the other side's window is full: it is asked every few seconds. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &ask_s, sizeof ask_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &ask_s, sizeof ask_s);
    /* A peer that is gone must show: what we send (pings at least) is acknowledged within this time, or it is lost. */
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static int connect_begin(struct session *s) { /* 0 or an errno */
    s->fd = socket(s->addr->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return errno;
    set_socket_options(s->fd);
    if (connect(s->fd, s->addr->ai_addr, s->addr->ai_addrlen) && errno != EINPROGRESS)
        return errno;
    return poll_open(s, s->fd) ? ENOMEM : 0;
}

static enum ssh_step run_connect(struct session *s) {
    int e = 0;
    if (s->fd >= 0) {
        socklen_t n = sizeof e;
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof peer;
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &n))
            e = errno;
        if (!e && getpeername(s->fd, (struct sockaddr *)&peer, &peer_len))
            return STEP_CONNECT; /* still on its way */
        if (!e)
            return STEP_KEX;
        drop_connection(s);
        s->addr = s->addr->ai_next;
    }
    while (s->addr) {
        e = connect_begin(s);
        if (!e)
            return STEP_CONNECT;
        drop_connection(s);
        s->addr = s->addr->ai_next;
    }
    return session_fail(s, PD_EHOST, "cannot connect to port %d: %s", s->port, strerror(e));
}

static int open_session(struct session *s) {
    int off = 0;
    long seconds = (long)(s->budget_ms / 1000) + 1;
    /* GCM first: with the AES instructions it costs two thirds of what ChaCha20 does. */
    const char *ciphers = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"
                          "aes128-ctr,aes256-ctr";
    s->ssh = ssh_new();
    if (!s->ssh)
        return PD_ENOMEM;
    ssh_set_blocking(s->ssh, 0);
    /* Our own list decides on host keys: libssh would read the files twice per host. */
    if (ssh_options_set(s->ssh, SSH_OPTIONS_PROCESS_CONFIG, &off) || ssh_options_set(s->ssh, SSH_OPTIONS_HOST, s->host) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_USER, s->user) || ssh_options_set(s->ssh, SSH_OPTIONS_PORT, &s->port) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_FD, &s->fd) || ssh_options_set(s->ssh, SSH_OPTIONS_TIMEOUT, &seconds) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_KNOWNHOSTS, "/dev/null") ||
        ssh_options_set(s->ssh, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null") ||
        ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_C_S, ciphers) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_S_C, ciphers) ||
        ssh_options_set(s->ssh, SSH_OPTIONS_COMPRESSION, "no"))
        return PD_EFAIL;
    if (s->hostkey_types[0] && ssh_options_set(s->ssh, SSH_OPTIONS_HOSTKEYS, s->hostkey_types))
        return PD_EFAIL;
    return 0;
}

static enum ssh_step run_kex(struct session *s) {
    if (!s->ssh && open_session(s))
        return session_fail(s, PD_EHOST, "cannot set up ssh: %s", s->ssh ? ssh_get_error(s->ssh) : "out of memory");
    int rc = ssh_connect(s->ssh);
    fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK); /* ssh_connect clears it */
    if (rc == SSH_AGAIN)
        return STEP_KEX;
    if (rc == SSH_OK)
        return STEP_HOST_KEY;
    if (s->hostkey_types[0])
        return session_fail(s, PD_EHOST,
                            "HOST KEY CHANGED: known_hosts lists other types of keys (%s) than the server has; "
                            "connection refused", s->hostkey_types);
    /* Closed before it has said who it is: sshd has too many logins under way. */
    s->dropped_early = !ssh_get_serverbanner(s->ssh);
    return session_fail(s, PD_EHOST, "ssh: %s", s->dropped_early ? "the server closed the connection before its greeting"
                                                                 : ssh_get_error(s->ssh));
}

static void enter_channel(struct session *s) { ssh_pool_leave(s); }

static void on_exit_status(ssh_session ssh, ssh_channel ch, int status, void *arg) {
    (void)ssh;
    (void)ch;
    ((struct session *)arg)->base.status = status;
}

static void on_exit_signal(ssh_session ssh, ssh_channel ch, const char *signal, int core, const char *msg,
                           const char *lang, void *arg) {
    (void)ssh;
    (void)ch;
    (void)core;
    (void)msg;
    (void)lang;
    struct session *s = arg;
    snprintf(s->base.signal, sizeof s->base.signal, "%s", signal && *signal ? signal : "?");
}

static void on_channel_close(ssh_session ssh, ssh_channel ch, void *arg) {
    (void)ssh;
    (void)ch;
    ((struct session *)arg)->remote_closed = 1;
}

static enum ssh_step run_channel(struct session *s) {
    if (!s->channel) {
        if (!(s->channel = ssh_channel_new(s->ssh)))
            return session_fail(s, PD_ENOMEM, "out of memory");
        s->channel_cb = (struct ssh_channel_callbacks_struct){
            .userdata = s,
            .channel_exit_status_function = on_exit_status,
            .channel_exit_signal_function = on_exit_signal,
            .channel_close_function = on_channel_close,
        };
        ssh_callbacks_init(&s->channel_cb);
        ssh_set_channel_callbacks(s->channel, &s->channel_cb);
    }
    int rc = ssh_channel_open_session(s->channel);
    if (rc == SSH_AGAIN)
        return STEP_CHANNEL;
    return rc == SSH_OK ? STEP_EXEC : session_fail(s, PD_EHOST, "cannot open a channel: %s", ssh_get_error(s->ssh));
}

static enum ssh_step run_exec(struct session *s) {
    int rc = ssh_channel_request_exec(s->channel, s->command);
    if (rc == SSH_AGAIN)
        return STEP_EXEC;
    return rc == SSH_OK ? STEP_OPEN : session_fail(s, PD_EHOST, "cannot run a command: %s", ssh_get_error(s->ssh));
}

static void enter_open(struct session *s) {
    uv_timer_stop(&s->deadline);
    s->base.ev->on_open(s->base.arg);
}

/* Read one stream once: the number of bytes, 0 for none now, -1 for a lost connection. A large count makes libssh open
 * its window that far, which costs a message each time: only for streams that carry much, and seldom. */
static int read_some(struct session *s, int is_stderr) {
    uint32_t want = 65536;
    if (s->read_since_grow >= GROW_AFTER) {
        want = SSH_READ_BYTES;
        s->read_since_grow = 0;
    }
    int n = ssh_channel_read_timeout(s->channel, s->pool->read_buf, want, is_stderr, 0);
    if (n == SSH_AGAIN || n == SSH_EOF || (n == SSH_ERROR && s->remote_closed))
        return 0;
    if (n > 0 && !is_stderr)
        s->read_since_grow += (uint64_t)n;
    return n < 0 ? -1 : n;
}

static enum ssh_step lost(struct session *s) {
    return session_fail(s, PD_ECLOSED, "the connection was lost: %s", ssh_get_error(s->ssh));
}

/* Hand on what is there. -1: lost. Stderr is drained too, unread it would stall the channel. */
static int read_all(struct session *s) {
    size_t total = 0;
    for (;;) {
        int closed = s->remote_closed;
        /* After EOF reads and polls of libssh return at once without looking at the socket, where the CLOSE is still
         * to come. Of its public calls this one takes what has arrived and does nothing else here. */
        if (ssh_channel_is_eof(s->channel))
            ssh_channel_accept_x11(s->channel, 0);
        int n = read_some(s, 0);
        if (n > 0)
            s->base.ev->on_bytes(s->pool->read_buf, (size_t)n, s->base.arg);
        if (n < 0 || s->step != STEP_OPEN)
            return n < 0 ? -1 : 0;
        int m = read_some(s, 1);
        if (m < 0)
            return -1;
        transport_add_stderr(&s->base, s->pool->read_buf, (size_t)m);
        if (s->step != STEP_OPEN)
            return 0;
        total += (size_t)n + (size_t)m;
        if (!n && !m && closed == s->remote_closed) /* the read of stderr may have brought the last of stdout */
            return 0;
        if (total > DRIVE_BUDGET) { /* the other hosts' turn; the loop comes back at once */
            s->more = 1;
            return 0;
        }
    }
}

static int write_all(struct session *s) {
    int wrote = 0;
    while (transport_queued(&s->base) && !(ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING)) {
        size_t n = transport_queued(&s->base);
        if (n > SSH_WRITE_BYTES)
            n = SSH_WRITE_BYTES;
        int k = ssh_channel_write(s->channel, s->base.queue.data + s->base.queue_off, (uint32_t)n);
        if (k == SSH_AGAIN || k == 0)
            break; /* the window is full: its message makes the socket readable */
        if (k < 0)
            return -1;
        transport_pop(&s->base, (size_t)k);
        wrote = 1;
    }
    if (wrote && transport_queued(&s->base) < TRANSPORT_LOW_WATER && s->base.ev->on_drain)
        s->base.ev->on_drain(s->base.arg);
    if (s->step == STEP_OPEN && s->base.at_eof && !s->sent_eof && !transport_queued(&s->base)) {
        s->sent_eof = 1;
        return ssh_channel_send_eof(s->channel) == SSH_ERROR ? -1 : 0;
    }
    return 0;
}

static enum ssh_step run_open(struct session *s) {
    if (read_all(s))
        return lost(s);
    if (s->step != STEP_OPEN)
        return s->step;
    if (s->remote_closed && !s->more) { /* CLOSE, not EOF: the exit status comes between the two */
        transport_ended(&s->base, &s->why);
        return STEP_FAILED;
    }
    if (s->remote_closed)
        return s->step;
    if (write_all(s))
        return lost(s);
    /* Writing takes in what has arrived, too: it lies in libssh's buffers, and no event of the socket will tell of it. */
    if (s->step != STEP_OPEN)
        return s->step;
    /* Looking takes in packets as well, the CLOSE among them: so first look, then ask whether it is closed. */
    int out = ssh_channel_poll(s->channel, 0), err = ssh_channel_poll(s->channel, 1);
    s->more |= s->remote_closed || out > 0 || err > 0 || out == SSH_ERROR || err == SSH_ERROR;
    return s->step;
}

/* --- ends -------------------------------------------------------------------------------------------------- */

static enum ssh_step run_failed(struct session *s) {
    if (s->dropped_early && s->attempts + 1 < MAX_ATTEMPTS) {
        s->dropped_early = 0;
        return STEP_BACKOFF;
    }
    return STEP_CLOSING;
}

static void on_backoff(uv_timer_t *t) {
    struct session *s = t->data;
    if (s->step == STEP_BACKOFF)
        enter_step(s, STEP_WAIT);
}

static void enter_backoff(struct session *s) {
    pd_err_clear(&s->why);
    drop_connection(s);
    ssh_pool_leave(s);
    uint32_t range = 100u << (s->attempts < 4 ? s->attempts : 4); /* 100 ms .. 1.6 s, half of it random */
    s->attempts++;
    uv_timer_start(&s->backoff, on_backoff, range / 2 + randombytes_uniform(range / 2 + 1), 0);
}

static void enter_closing(struct session *s) {
    if (s->in_drive && !s->why.code) { /* transport_close from a callback: libssh may be on the stack */
        s->close_in_drive = 1;
        return;
    }
    ssh_pool_leave(s);
    uv_close((uv_handle_t *)&s->deadline, on_timer_closed);
    uv_close((uv_handle_t *)&s->backoff, on_timer_closed);
    if (s->agent_fd >= 0 && !s->agent_done) {
        auth_agent_cut(s); /* the worker's callback drops the connection */
        return;
    }
    if (s->addrs)
        uv_freeaddrinfo(s->addrs);
    s->addrs = NULL;
    drop_connection(s);
}

void session_agent_back(struct session *s) {
    if (s->step != STEP_CLOSING) {
        s->n_handles--; /* never the last one: the timers are still open */
        session_drive(s);
        return;
    }
    if (s->addrs)
        uv_freeaddrinfo(s->addrs);
    s->addrs = NULL;
    drop_connection(s);
    handle_gone(s);
}

static void session_close(struct transport *t) {
    struct session *s = (struct session *)t;
    if (s->step == STEP_CLOSING)
        return;
    pd_err_clear(&s->why);
    if (s->step == STEP_RESOLVE)
        uv_cancel((uv_req_t *)&s->resolve);
    enter_step(s, STEP_CLOSING);
}

static int session_write(struct transport *t, const void *p, size_t n) {
    struct session *s = (struct session *)t;
    if (s->step == STEP_CLOSING)
        return 0;
    if (transport_push(t, p, n))
        return PD_ENOMEM;
    if (!s->in_drive && s->step == STEP_OPEN)
        arm(s, 0);
    return 0;
}

static void session_eof(struct transport *t) {
    struct session *s = (struct session *)t;
    if (!s->in_drive && s->step == STEP_OPEN)
        arm(s, 1);
}

/* --- opening ----------------------------------------------------------------------------------------------- */

int ssh_pool_open(struct transport **out, struct ssh_pool *pool, const struct host *host, const char *command,
                  const struct transport_events *ev, void *arg, struct pd_err *err) {
    struct session *s = pd_calloc(1, sizeof *s);
    if (!s)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    transport_init(&s->base, ev, arg);
    s->base.write = session_write;
    s->base.eof = session_eof;
    s->base.close = session_close;
    s->pool = pool;
    s->fd = s->agent_fd = -1;
    s->agent_done = 1;
    s->budget_ms = pool->connect_timeout_ms;
    int rc = ssh_pool_configure(s, host, err);
    if (!rc && (!(s->command = pd_strdup(command)) || !(s->slot = ssh_pool_slot(pool, s->host, s->port))))
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
    if (rc) {
        session_free(s);
        return rc;
    }
    auth_init(s);
    uv_timer_init(pool->loop, &s->deadline);
    uv_timer_init(pool->loop, &s->backoff);
    s->deadline.data = s->backoff.data = s;
    s->n_handles = 2;
    *out = &s->base;
    enter_step(s, STEP_WAIT);
    return 0;
}
