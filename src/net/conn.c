/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - the life of a connection: connect, handshake, read, close. send.c sends. */
#include "net/conn.h"

#include <sys/socket.h>

#include "net/conn_internal.h"
#include "wire/msg.h"

static void pump(struct net_conn *c);

/* Only for a connection without handles. */
static void conn_free(struct net_conn *c) {
    net_share_end(c);
    net_conn_drop_waiting(c);
    net_seal_free(c->seal);
    wire_decoder_free(c->decoder);
    wire_hs_free(c->hs);
    pd_buf_release(&c->cork);
    free(c);
}

struct net_conn *net_conn_new(uv_loop_t *loop, const struct wire_hs_opts *hs, int connector,
                              const struct net_opts *opts, const struct net_events *ev, void *arg) {
    struct net_conn *c = pd_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->loop = loop;
    c->opts = *opts;
    c->ev = *ev;
    c->arg = arg;
    c->waiting_end = &c->waiting;
    c->decoder = wire_decoder_new(hs ? NET_PRE_AUTH_FRAME : opts->max_frame);
    if (c->decoder)
        wire_decoder_use_pool(c->decoder, opts->pool);
    c->hs = hs ? wire_hs_new(hs, connector) : NULL;
    if (!c->decoder || (hs && !c->hs)) {
        conn_free(c);
        return NULL;
    }
    snprintf(c->addr, sizeof c->addr, "local");
    return c;
}

static void on_handle_closed(uv_handle_t *h) {
    struct net_conn *c = h->data;
    if (h != (uv_handle_t *)&c->timer)
        free(h);
    if (--c->n_handles)
        return;
    int silent = c->listener != NULL;
    /* A peer that only tests whether the port accepts sends nothing and closes: no warning. */
    if (silent && c->why.code && c->why.code != PD_ECLOSED)
        net_listener_refused(c);
    net_listener_opened(c);
    net_conn_drop_waiting(c); /* on_close is the last callback */
    if (!silent && c->ev.on_close)
        c->ev.on_close(c, &c->why, c->arg);
    conn_free(c);
}

void net_close(struct net_conn *c) {
    if (c->closing)
        return;
    (void)net_conn_flush(c);
    if (c->closing)
        return;
    c->closing = 1;
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
    uv_close((uv_handle_t *)c->in, on_handle_closed);
    if (c->out != c->in)
        uv_close((uv_handle_t *)c->out, on_handle_closed);
}

void net_abort(struct net_conn *c) {
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    uv_os_fd_t fd;
    if (!c->closing && c->in->type == UV_TCP && !uv_fileno((uv_handle_t *)c->in, &fd))
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    net_close(c);
}

void net_conn_fail(struct net_conn *c, int code, const char *fmt, ...) {
    if (c->closing)
        return;
    char msg[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    pd_fail(&c->why, code, "%s", msg);
    net_close(c);
}

void net_close_after_flush(struct net_conn *c) {
    (void)net_conn_flush(c);
    c->flush_then_close = 1;
    if (!c->queued || c->deaf)
        net_close(c);
}

void net_conn_set_addr(struct net_conn *c) {
    struct sockaddr_storage sa;
    int n = sizeof sa;
    char ip[64];
    if (uv_tcp_getpeername((uv_tcp_t *)c->in, (struct sockaddr *)&sa, &n))
        return;
    int v6 = sa.ss_family == AF_INET6;
    if (v6)
        uv_ip6_name((struct sockaddr_in6 *)&sa, ip, sizeof ip);
    else
        uv_ip4_name((struct sockaddr_in *)&sa, ip, sizeof ip);
    int port =
        ntohs(v6 ? ((struct sockaddr_in6 *)&sa)->sin6_port : ((struct sockaddr_in *)&sa)->sin_port);
    static const char mapped[] = "::ffff:"; /* IPv4 address on a socket for both families */
    const int skip = v6 && !strncmp(ip, mapped, sizeof mapped - 1) && strchr(ip, '.')
                         ? (int)sizeof mapped - 1
                         : 0;
    net_endpoint(ip + skip, port, c->addr);
}

/* From here on the bytes of both directions are sealed, also those that came after the handshake's
 * last frame. */
static int begin_seal(struct net_conn *c) {
    struct wire_cipher *send = NULL, *receive = NULL;
    uint8_t *rest;
    size_t room;
    if (c->hs)
        wire_hs_ciphers(c->hs, &send, &receive);
    if (!send)
        return 0;
    c->seal = net_seal_new(send, receive);
    if (!c->seal)
        return PD_ENOMEM;
    net_seal_space(c->seal, &rest, &room);
    if (!room)
        return PD_ENOMEM;
    net_seal_commit(c->seal, wire_decoder_take_rest(c->decoder, rest));
    return 0;
}

static void now_open(struct net_conn *c) {
    if (begin_seal(c)) {
        net_conn_fail(c, PD_ENOMEM, "no memory for a sealed connection");
        return;
    }
    net_listener_opened(c);
    uv_timer_stop(&c->timer);
    wire_decoder_limit(c->decoder, c->opts.max_frame);
    c->open = 1;
    if (c->ev.on_open)
        c->ev.on_open(c, c->arg);
}

/* Sends the next frames of the handshake. They are small and go through the ordinary queue as
 * bytes. */
static void hs_send(struct net_conn *c) {
    struct pd_buf b = {0};
    struct pd_err err = {0};
    if (wire_hs_output(c->hs, &b, &err))
        net_conn_fail(c, err.code, "%s", err.msg);
    else if (b.len) {
        uv_buf_t buf = uv_buf_init((char *)b.data, (unsigned)b.len);
        int n = uv_try_write(c->out, &buf, 1);
        /* A new socket's buffer takes these few hundred bytes; a peer for which it does not is
         * dropped. */
        if (n < 0 || (size_t)n != b.len)
            net_conn_fail(c, PD_ECLOSED, "handshake: the connection broke");
    }
    pd_buf_release(&b);
}

static void hs_frame(struct net_conn *c, struct wire_frame *f) {
    struct pd_err err = {0};
    int rc = wire_hs_input(c->hs, f, &err);
    wire_frame_free(f);
    if (rc < 0) {
        net_conn_fail(c, rc, "%s", err.msg);
        return;
    }
    hs_send(c);
    if (!c->closing && wire_hs_done(c->hs))
        now_open(c);
}

static void share_frame(struct net_conn *c, struct wire_frame *f) {
    struct pd_err err = {0};
    int rc = net_share_frame(c, f, &err);
    wire_frame_free(f);
    if (rc)
        net_conn_fail(c, rc, "%s", err.msg);
}

/* The next frame of the connection. NULL: more bytes have to come, or err. */
static struct wire_frame *next_frame(struct net_conn *c, struct pd_err *err) {
    struct wire_frame *f;
    do {
        f = wire_decoder_next(c->decoder);
        if (f || wire_decoder_error(c->decoder, err))
            return f;
    } while (c->seal && net_seal_feed(c->seal, c->decoder, err) > 0);
    return NULL;
}

/* Hands out complete frames. A callback may pause or close the connection. */
static void pump(struct net_conn *c) {
    struct wire_frame *f;
    struct pd_err err = {0};
    int outer = !c->corked; /* a callback may resume a paused connection, which calls pump again */
    c->corked = c->opts.cork;
    while (!c->closing && !c->paused && (f = next_frame(c, &err))) {
        if (c->open && c->opts.share && (f->type == WIRE_HS_SHARE || f->type == WIRE_HS_SHARED))
            share_frame(c, f);
        else if (c->open)
            c->ev.on_frame(c, f, c->arg);
        else
            hs_frame(c, f);
    }
    if (outer) {
        c->corked = 0;
        (void)net_conn_flush(c);
    }
    if (!c->closing && !c->paused && err.code)
        net_conn_fail(c, err.code, "%s", err.msg);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf) {
    (void)suggested;
    struct net_conn *c = h->data;
    uint8_t *p;
    size_t n;
    if (c->seal)
        net_seal_space(c->seal, &p, &n);
    else
        wire_decoder_space(c->decoder, &p, &n);
    *buf = uv_buf_init((char *)p, (unsigned)(n < INT32_MAX ? n : INT32_MAX));
}

/* 1: the stream may end here. */
static int between_frames(const struct net_conn *c) {
    return wire_decoder_idle(c->decoder) && (!c->seal || net_seal_idle(c->seal));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
    (void)buf;
    struct net_conn *c = s->data;
    if (c->closing || n == 0)
        return;
    if (n == UV_EOF && between_frames(c)) {
        net_conn_fail(c, PD_ECLOSED, "the peer closed the connection");
    } else if (n < 0) {
        net_conn_fail(c, n == UV_EOF ? PD_EIO : PD_ECLOSED, "the connection broke%s: %s",
                      between_frames(c) ? "" : " in the middle of a message", uv_strerror((int)n));
    } else {
        struct pd_err err = {0};
        c->received += (uint64_t)n;
        /* Lent sections first: the frames just read may say that the peer has read them. */
        net_share_reclaim(c->share);
        /* pump reports the error after the valid frames. */
        if (c->seal)
            net_seal_commit(c->seal, (size_t)n);
        else
            (void)wire_decoder_commit(c->decoder, (size_t)n, &err);
        pump(c);
    }
}

static void on_handshake_late(uv_timer_t *t) {
    struct net_conn *c = t->data;
    net_conn_fail(c, PD_ETIMEOUT, "handshake: no answer in time");
}

static void on_first_turn(uv_timer_t *t) {
    struct net_conn *c = t->data;
    now_open(c);
    if (!c->closing && !c->paused)
        uv_read_start(c->in, on_alloc, on_read);
}

uint64_t net_conn_handshake_ms(const struct net_conn *c) {
    return c->opts.handshake_timeout_ms ? c->opts.handshake_timeout_ms : NET_DEFAULT_HANDSHAKE_MS;
}

int net_conn_begin(struct net_conn *c) {
    if (!c->hs)
        return uv_timer_start(&c->timer, on_first_turn, 0, 0);
    uv_timer_start(&c->timer, on_handshake_late, net_conn_handshake_ms(c), 0);
    hs_send(c);
    return c->closing ? 0 : uv_read_start(c->in, on_alloc, on_read);
}

void net_background(struct net_conn *c, int background) {
    void (*const change)(uv_handle_t *) = background ? uv_unref : uv_ref;
    change((uv_handle_t *)c->in);
    change((uv_handle_t *)c->out);
    change((uv_handle_t *)&c->timer);
}

void net_pause(struct net_conn *c) {
    if (c->closing || c->paused)
        return;
    if (c->deaf) { /* no other event would report the end */
        net_conn_fail(c, PD_ECLOSED, "the connection broke");
        return;
    }
    c->paused = 1;
    uv_read_stop(c->in);
}

void net_resume(struct net_conn *c) {
    if (c->closing || !c->paused)
        return;
    c->paused = 0;
    pump(c);
    if (!c->closing && !c->paused)
        uv_read_start(c->in, on_alloc, on_read);
}

struct connecting {
    uv_connect_t req;
    struct net_conn *c;
};

static void on_connect(uv_connect_t *req, int status) {
    struct net_conn *c = ((struct connecting *)req)->c;
    free(req);
    if (c->closing)
        return;
    if (status) {
        c->refused = status == UV_ECONNREFUSED;
        net_conn_fail(c, PD_ECLOSED, "cannot connect to %s: %s", c->addr, uv_strerror(status));
        return;
    }
    net_tune((uv_tcp_t *)c->in);
    int rc = net_conn_begin(c);
    if (rc)
        net_conn_fail(c, PD_EIO, "%s: %s", c->addr, uv_strerror(rc));
}

static void on_connect_late(uv_timer_t *t) {
    struct net_conn *c = t->data;
    net_conn_fail(c, PD_ETIMEOUT, "cannot connect to %s: no answer in time", c->addr);
}

/* Makes c the owner of one more handle. */
static void own_handle(struct net_conn *c, uv_handle_t *h) {
    h->data = c;
    c->n_handles++;
}

int net_connect(struct net_conn **out, uv_loop_t *loop, const char *ip, int port,
                uint64_t timeout_ms, const struct wire_hs_opts *hs, const struct net_opts *opts,
                const struct net_events *ev, void *arg, struct pd_err *err) {
    struct sockaddr_storage sa;
    if (net_ip_addr(ip, port, &sa))
        return pd_fail(err, PD_ECONF, "'%s' is not a numeric address", ip);
    struct net_conn *c = net_conn_new(loop, hs, 1, opts, ev, arg);
    struct connecting *req = pd_malloc(sizeof *req);
    uv_tcp_t *tcp = pd_malloc(sizeof *tcp);
    if (!c || !req || !tcp || uv_tcp_init(loop, tcp)) {
        if (c)
            conn_free(c);
        free(req);
        free(tcp);
        return pd_fail(err, PD_ENOMEM, "cannot connect to %s:%d: out of memory", ip, port);
    }
    net_endpoint(ip, port, c->addr);
    c->in = c->out = (uv_stream_t *)tcp;
    own_handle(c, (uv_handle_t *)tcp);
    uv_timer_init(loop, &c->timer);
    own_handle(c, (uv_handle_t *)&c->timer);
    uv_timer_start(&c->timer, on_connect_late, timeout_ms, 0);
    req->c = c;
    int rc = uv_tcp_connect(&req->req, tcp, (struct sockaddr *)&sa, on_connect);
    if (rc) { /* reported by on_close like every other failure */
        free(req);
        net_conn_fail(c, PD_ECLOSED, "cannot connect to %s: %s", c->addr, uv_strerror(rc));
    }
    *out = c;
    return 0;
}

int net_conn_on_streams(struct net_conn **out, uv_stream_t *in, uv_stream_t *outs,
                        const struct net_opts *opts, const struct net_events *ev, void *arg,
                        struct pd_err *err) {
    struct net_conn *c = net_conn_new(in->loop, NULL, 0, opts, ev, arg);
    if (!c)
        return pd_oom(err, "a connection");
    c->in = in;
    c->out = outs;
    own_handle(c, (uv_handle_t *)in);
    if (outs != in)
        own_handle(c, (uv_handle_t *)outs);
    uv_timer_init(in->loop, &c->timer);
    own_handle(c, (uv_handle_t *)&c->timer);
    net_conn_begin(c);
    *out = c;
    return 0;
}

struct net_moved net_move(struct net_conn *c) {
    struct net_moved m = {.fd = -1};
    uv_os_fd_t fd;
    (void)net_conn_flush(c);
    if (!c->closing && !c->queued && (!c->seal || net_seal_idle(c->seal)) &&
        !uv_fileno((const uv_handle_t *)c->in, &fd))
        m.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (m.fd >= 0) {
        m.seal = c->seal;
        c->seal = NULL;
    }
    return m;
}

void net_moved_drop(struct net_moved *m) {
    pd_close(m->fd);
    net_seal_free(m->seal);
    *m = (struct net_moved){.fd = -1};
}

static void free_handle(uv_handle_t *h) { free(h); }

int net_conn_moved(struct net_conn **out, uv_loop_t *loop, struct net_moved *m,
                   const struct net_opts *opts, const struct net_events *ev, void *arg,
                   struct pd_err *err) {
    uv_tcp_t *tcp = pd_malloc(sizeof *tcp);
    if (!tcp || uv_tcp_init(loop, tcp)) {
        free(tcp);
        net_moved_drop(m);
        return pd_oom(err, "a connection");
    }
    int rc = uv_tcp_open(tcp, m->fd);
    if (!rc)
        m->fd = -1; /* the handle has it */
    rc = rc ? pd_fail(err, PD_EIO, "a connection: %s", uv_strerror(rc))
            : net_conn_on_streams(out, (uv_stream_t *)tcp, (uv_stream_t *)tcp, opts, ev, arg, err);
    if (rc) {
        uv_close((uv_handle_t *)tcp, free_handle);
    } else {
        (*out)->seal = m->seal;
        m->seal = NULL;
    }
    net_moved_drop(m);
    return rc;
}

void net_set_arg(struct net_conn *c, void *arg) { c->arg = arg; }
const char *net_peer_addr(const struct net_conn *c) { return c->addr; }
int net_port_was_closed(const struct net_conn *c) { return c->refused; }
uint64_t net_received_bytes(const struct net_conn *c) { return c->received; }
size_t net_queued_bytes(const struct net_conn *c) { return c->queued; }
const struct wire_hello *net_peer(const struct net_conn *c) {
    return c->hs ? wire_hs_peer(c->hs) : NULL;
}
void net_forget(struct net_conn *c) { wire_decoder_forget(c->decoder); }
int net_is_sealed(const struct net_conn *c) { return c->seal != NULL; }

const uint8_t *net_greeting(const struct net_conn *c, size_t *n) {
    *n = 0;
    return c->hs ? wire_hs_greeting(c->hs, n) : NULL;
}
