/* SPDX-License-Identifier: Apache-2.0 */
/* sim_net.c - streams of bytes between machines. The bytes of one direction keep their order; those
 * of different connections do not. A cut holds bytes back, as TCP does, until the cut is over or
 * somebody gives up; a lost packet comes late; a reset drops what is on the way.
 *
 *     end 0 (connector) ── bytes, in order ──▶ end 1 (acceptor)         an end is
 *                       ◀───────────────────                            a struct net_conn, or
 *                                                                       a transport of paddlectl */

#include "net/conn.h"
#include "tests/sim/sim_net.h"
#include "wire/msg.h"

enum {
    RTO_MS = 200, /* until lost bytes are sent again; doubled up to RTO_MAX_MS */
    RTO_MAX_MS = 3200,
    SILENT_MS = 11000, /* as net_check_host */
    FIRST_PORT = 7000,
};

static struct sim_stream *streams;

int sim_reaches(int from, int to) {
    return !S.blocked[from][to] && !S.m[from].down && !S.m[to].down;
}

void sim_cut(int from, int to, int change) { S.blocked[from][to] += change; }

uint64_t sim_travel(int from, int to) {
    uint64_t ns = S.delay_ns[from][to] + sim_below(S.delay_ns[from][to] / 2 + 1);
    for (int k = 0; k < 4 && (int)sim_below(1000) < S.loss; k++)
        ns += (RTO_MS << k) * MS;
    if (S.slow_until[from][to] > S.now)
        ns += sim_below(1500 * MS);
    return ns;
}

struct sim_stream *sim_new_stream(int from, int to) {
    struct sim_stream *s = calloc(1, sizeof *s);
    *s = (struct sim_stream){.next = streams};
    streams = s;
    s->end[0].machine = from;
    s->end[1].machine = to;
    for (int i = 0; i < 2; i++)
        s->way[i] = (struct way){.s = s, .to = i, .last = &s->way[i].first, .rto_ms = RTO_MS};
    return s;
}

static void drop_chunks(struct way *w) {
    while (w->first) {
        struct chunk *c = w->first;
        w->first = c->next;
        free(c);
    }
    w->last = &w->first;
}

/* --- what an end notices --- */

static void free_conn(struct net_conn *c) {
    c->s->end[c->end].conn = NULL;
    wire_decoder_free(c->dec);
    free(c);
}

static void free_stream_handle(uv_handle_t *h) { free(h); }

static void on_conn_closed(void *arg) {
    struct net_conn *c = arg;
    struct actor *a = c->a;
    c->s->end[c->end].shut = 1;
    if (c->in)
        uv_close((uv_handle_t *)c->in, free_stream_handle);
    if (c->out && c->out != c->in)
        uv_close((uv_handle_t *)c->out, free_stream_handle);
    c->in = c->out = NULL;
    c->ev.on_close(c, &c->why, c->arg);
    free_conn(c);
    sim_alive(a, -1);
}

/* on_close follows, with this reason; code 0: the owner has closed it. */
static void close_conn(struct net_conn *c, int code, const char *why) {
    if (c->closing)
        return;
    c->closing = 1;
    if (code)
        pd_fail(&c->why, code, "%s", why);
    else
        snprintf(c->why.msg, sizeof c->why.msg, "%s", why);
    sim_after(c->a, 0, on_conn_closed, c);
}

static void on_transport_closed(void *arg) {
    struct sim_transport *t = arg;
    struct actor *a = t->a;
    t->s->end[0].shut = 1;
    t->s->end[0].t = NULL;
    t->t.ev->on_close(&t->why, t->t.arg);
    transport_release(&t->t);
    free(t);
    sim_alive(a, -1);
}

void sim_close_transport(struct sim_transport *t, int code, const char *why) {
    if (t->closing)
        return;
    t->closing = 1;
    if (code)
        pd_fail(&t->why, code, "%s", why);
    sim_after(t->a, 0, on_transport_closed, t);
}

static void end_is_over(struct end *e, const char *why) {
    if (e->conn)
        close_conn(e->conn, PD_ECLOSED, why);
    if (e->t)
        sim_close_transport(e->t, PD_ECLOSED, why);
}

static void opened(struct end *e) {
    struct net_conn *c = e->conn;
    if (c && !c->closing && !c->open) {
        c->open = 1;
        if (c->ev.on_open)
            c->ev.on_open(c, c->arg);
    }
    if (e->t && !e->t->closing && !e->t->open) {
        e->t->open = 1;
        e->t->t.ev->on_open(e->t->t.arg);
    }
}

static void take_bytes(struct end *e, const uint8_t *p, size_t n) {
    struct net_conn *c = e->conn;
    struct pd_err err = {0};
    struct wire_frame *f;
    if (e->t && !e->t->closing)
        e->t->t.ev->on_bytes(p, n, e->t->t.arg);
    if (!c || c->closing)
        return;
    c->received += n;
    if (wire_decoder_feed(c->dec, p, n, &err))
        sim_fail("a frame that its sender made is refused: %s", err.msg);
    while (!c->closing && (f = wire_decoder_next(c->dec)))
        c->ev.on_frame(c, f, c->arg);
}

static void deliver(void *arg) {
    const struct chunk *c = arg;
    struct end *e = &c->w->s->end[c->w->to];
    if (e->shut)
        return;
    if (c->kind == OPENED)
        opened(e);
    else if (c->kind == BYTES)
        take_bytes(e, c->p, c->n);
    else
        end_is_over(e, c->kind == FIN ? "the peer closed the connection" : "it was reset");
}

/* --- on the way --- */

static void schedule(struct way *w);

/* After the last byte has gone, a connection that waited for that is closed. */
static void check_flushed(struct way *w) {
    struct net_conn *c = w->s->end[!w->to].conn;
    if (c && c->flush && !w->first)
        close_conn(c, 0, "closed");
}

static void on_arrive(void *arg) {
    struct way *w = arg;
    const int from = w->s->end[!w->to].machine, to = w->s->end[w->to].machine;
    struct end *e = &w->s->end[w->to];
    w->scheduled = 0;
    if (!w->first)
        return;
    if (!sim_reaches(from, to)) {
        w->rto_ms = w->rto_ms < RTO_MAX_MS ? w->rto_ms * 2 : RTO_MAX_MS;
        w->scheduled = 1;
        sim_after(NULL, (w->rto_ms + sim_below(50)) * MS, on_arrive, w);
        return;
    }
    w->rto_ms = RTO_MS;
    while (w->first && w->first->at <= S.now) {
        struct chunk *c = w->first;
        w->first = c->next;
        if (!w->first)
            w->last = &w->first;
        if (!sim_reaches(to, from)) /* the acknowledgment does not come back */
            w->unacked = w->unacked ? w->unacked : c->sent;
        if (!e->a || e->a->dead || (e->shut && c->kind == BYTES)) {
            const int silent = c->kind == FIN || c->kind == RST || e->a == NULL;
            free(c);
            if (!silent && !w->s->end[!w->to].shut) /* no process: its kernel answers */
                sim_put(&w->s->way[!w->to], RST, NULL, 0);
            continue;
        }
        sim_after_once(e->a, 0, deliver, c);
    }
    schedule(w);
    check_flushed(w);
}

static void schedule(struct way *w) {
    if (w->scheduled || !w->first)
        return;
    w->scheduled = 1;
    sim_after(NULL, w->first->at > S.now ? w->first->at - S.now : 0, on_arrive, w);
}

void sim_put(struct way *w, int kind, const void *p, size_t n) {
    struct chunk *c = malloc(sizeof *c + n);
    const int from = w->s->end[!w->to].machine, to = w->s->end[w->to].machine;
    uint64_t at = S.now + sim_travel(from, to);
    if (kind == RST)
        drop_chunks(w);
    *c = (struct chunk){
        .w = w, .sent = S.now, .at = at > w->last_at ? at : w->last_at, .kind = kind, .n = n};
    if (n)
        memcpy(c->p, p, n);
    w->last_at = c->at;
    *w->last = c;
    w->last = &c->next;
    schedule(w);
}

/* The end sends no more. A close with unread bytes resets the connection: bytes on the way are
 * lost. */
void sim_shut(struct sim_stream *s, int end, int silent) {
    if (s->end[end].shut)
        return;
    s->end[end].shut = 1;
    if (!silent)
        sim_put(&s->way[!end], sim_chance(20) ? RST : FIN, NULL, 0);
}

static int is_silent(struct way *w) {
    const int from = w->s->end[!w->to].machine, to = w->s->end[w->to].machine;
    if (w->unacked && sim_reaches(to, from))
        w->unacked = 0;
    uint64_t since = w->first && w->first->at <= S.now ? w->first->sent : w->unacked;
    if (w->unacked && w->unacked < since)
        since = w->unacked;
    return since && S.now - since > SILENT_MS * MS;
}

/* --- net/conn.h --- */

static struct net_conn *new_conn(struct sim_stream *s, int end, struct actor *a,
                                 const struct net_opts *opts, const struct net_events *ev,
                                 void *arg) {
    struct net_conn *c = calloc(1, sizeof *c);
    *c = (struct net_conn){.s = s, .end = end, .a = a, .ev = *ev, .arg = arg};
    c->dec = wire_decoder_new(opts->max_frame);
    snprintf(c->addr, sizeof c->addr, "10.0.0.%d:4000", s->end[!end].machine + 1);
    s->end[end].a = a;
    s->end[end].conn = c;
    sim_alive(a, 1);
    return c;
}

int __wrap_net_connect(struct net_conn **out, uv_loop_t *loop, const char *ip, int port,
                       uint64_t timeout_ms, const struct wire_hs_opts *hs,
                       const struct net_opts *opts, const struct net_events *ev, void *arg,
                       struct pd_err *err);
static void on_syn(void *arg);
static void on_handshake_late(void *arg) {
    struct sim_stream *s = arg;
    struct net_conn *c = s->end[0].conn;
    if (!c || c->open || c->closing)
        return;
    close_conn(c, PD_ETIMEOUT, "timed out while connecting");
    sim_shut(s, 0, 0);
}

int __wrap_net_connect(struct net_conn **out, uv_loop_t *loop, const char *ip, int port,
                       uint64_t timeout_ms, const struct wire_hs_opts *hs,
                       const struct net_opts *opts, const struct net_events *ev, void *arg,
                       struct pd_err *err) {
    int node = 0;
    struct actor *a = loop->data;
    (void)err;
    if (sscanf(ip, "10.0.0.%d", &node) != 1 || node < 1 || node > SIM_MACHINES)
        sim_fail("a connection to %s", ip);
    struct sim_stream *s = sim_new_stream(a->machine, node - 1);
    struct net_conn *c = *out = new_conn(s, 0, a, opts, ev, arg);
    c->self = hs->self;
    memcpy(c->key, hs->key, sizeof c->key);
    s->port = port;
    s->deadline = S.now + timeout_ms * MS;
    sim_after(NULL, sim_travel(a->machine, node - 1), on_syn, s);
    sim_after(a, timeout_ms * MS, on_handshake_late, s);
    return 0;
}

static void on_accepted(void *arg) {
    struct sim_stream *s = arg;
    struct net_conn *from = s->end[0].conn, *c;
    struct net_listener *l = S.m[s->end[1].machine].listener;
    if (!l || l->port != s->port || !from || s->end[0].shut) {
        sim_shut(s, 1, 0);
        return;
    }
    if (memcmp(from->key, l->hs.key, 32) || strcmp(from->self.job, l->hs.self.job)) {
        sim_fail("a connection without the key of the job");
        return;
    }
    c = new_conn(s, 1, l->a, &l->opts, &l->ev, l->arg);
    c->peer = from->self;
    from->peer = l->hs.self;
    c->has_peer = from->has_peer = 1;
    sim_put(&s->way[0], OPENED, NULL, 0);
    opened(&s->end[1]);
}

static void on_syn(void *arg) {
    struct sim_stream *s = arg;
    const int from = s->end[0].machine, to = s->end[1].machine;
    struct net_conn *c = s->end[0].conn;
    if (!c || c->closing || s->end[0].shut)
        return;
    if (!sim_reaches(from, to) || !sim_reaches(to, from)) {
        sim_after(NULL, 1000 * MS, on_syn, s);
        return;
    }
    struct net_listener *l = S.m[to].listener;
    if (!l || l->port != s->port) {
        close_conn(c, PD_ECLOSED, "connection refused");
        s->end[0].shut = 1;
        return;
    }
    s->end[1].a = l->a;
    sim_after(l->a, sim_travel(to, from), on_accepted, s);
}

int __wrap_ports_bind(const char *ip, int from, int *port, int *claim, struct pd_err *err);
int __wrap_ports_bind(const char *ip, int from, int *port, int *claim, struct pd_err *err) {
    struct machine *m = &S.m[S.here->machine];
    (void)ip;
    (void)from;
    if (m->no_bind && m->listener) {
        m->no_bind--;
        return pd_fail(err, PD_EHOST, "no port is free (simulated)");
    }
    *port = FIRST_PORT + m->next_port++;
    if (claim)
        *claim = FAKE_FD + *port;
    return FAKE_FD + *port;
}
int __wrap_net_bind_first_free(const char *ip, int port, int tries, int *got, struct pd_err *err);
int __wrap_net_bind_first_free(const char *ip, int port, int tries, int *got, struct pd_err *err) {
    (void)ip;
    (void)port;
    (void)tries;
    (void)err;
    *got = 0;
    return FAKE_FD;
}
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) { return fd >= FAKE_FD ? 0 : __real_close(fd); }

int __wrap_net_listen_fd(struct net_listener **out, uv_loop_t *loop, int fd,
                         const struct wire_hs_opts *hs, const struct net_opts *opts,
                         const struct net_events *ev, void *arg, struct pd_err *err);
int __wrap_net_listen_fd(struct net_listener **out, uv_loop_t *loop, int fd,
                         const struct wire_hs_opts *hs, const struct net_opts *opts,
                         const struct net_events *ev, void *arg, struct pd_err *err) {
    struct net_listener *l = *out = calloc(1, sizeof *l);
    struct actor *a = loop->data;
    (void)err;
    *l = (struct net_listener){a, fd - FAKE_FD, *hs, *ev, *opts, arg};
    S.m[a->machine].listener = l;
    sim_alive(a, 1);
    return 0;
}
struct closed_listener {
    struct net_listener *l;
    void (*closed)(void *);
    void *arg;
};
static void on_listener_closed(void *arg) {
    const struct closed_listener x = *(struct closed_listener *)arg;
    struct actor *a = x.l->a;
    if (S.m[a->machine].listener == x.l)
        S.m[a->machine].listener = NULL;
    free(x.l);
    x.closed(x.arg);
    sim_alive(a, -1);
}
void __wrap_net_listener_close(struct net_listener *l, void (*closed)(void *), void *arg);
void __wrap_net_listener_close(struct net_listener *l, void (*closed)(void *), void *arg) {
    struct closed_listener *x = malloc(sizeof *x);
    *x = (struct closed_listener){l, closed, arg};
    if (S.m[l->a->machine].listener == l)
        S.m[l->a->machine].listener = NULL;
    sim_after_once(l->a, 0, on_listener_closed, x);
}

static void open_now(void *arg) {
    struct sim_stream *s = arg;
    if (s->end[1].conn)
        opened(&s->end[1]);
}

/* The agent's end of paddlectl's stream: the job's socket, or stdin and stdout. */
int __wrap_net_conn_on_streams(struct net_conn **out, uv_stream_t *in, uv_stream_t *outs,
                               const struct net_opts *opts, const struct net_events *ev, void *arg,
                               struct pd_err *err);
int __wrap_net_conn_on_streams(struct net_conn **out, uv_stream_t *in, uv_stream_t *outs,
                               const struct net_opts *opts, const struct net_events *ev, void *arg,
                               struct pd_err *err) {
    struct sim_stream *s = S.m[S.here->machine].incoming;
    (void)err;
    struct net_conn *c = *out = new_conn(s, 1, S.here, opts, ev, arg);
    c->in = in;
    c->out = outs;
    snprintf(c->addr, sizeof c->addr, "local");
    sim_after(S.here, 0, open_now, s);
    return 0;
}

int __wrap_net_send(struct net_conn *c, uint16_t type, uint16_t flags, uint64_t req,
                    const struct net_sec *sec, uint32_t n_sec, void (*release)(void *), void *ra);
int __wrap_net_send(struct net_conn *c, uint16_t type, uint16_t flags, uint64_t req,
                    const struct net_sec *sec, uint32_t n_sec, void (*release)(void *), void *ra) {
    size_t len[WIRE_SECTIONS] = {0};
    for (uint32_t i = 0; i < n_sec; i++)
        len[i] = sec[i].n;
    uint8_t head[WIRE_HEADER], *p, *at;
    const uint64_t n = wire_header(head, type, flags, req, n_sec, len);
    if (!c->closing && !c->flush && !c->s->end[c->end].shut && !c->a->dead) {
        p = at = calloc(1, n);
        memcpy(at, head, sizeof head);
        at += sizeof head;
        for (uint32_t i = 0; i < n_sec; i++) {
            if (len[i])
                memcpy(at, sec[i].p, len[i]);
            at += len[i] + wire_pad(len[i]);
        }
        sim_put(&c->s->way[!c->end], BYTES, p, n);
        free(p);
    }
    if (release)
        release(ra);
    return 0;
}
int __wrap_net_send_error(struct net_conn *c, uint16_t type, uint64_t req, const struct pd_err *e);
int __wrap_net_send_error(struct net_conn *c, uint16_t type, uint64_t req, const struct pd_err *e) {
    struct pd_buf b;
    pd_buf_init(&b);
    wire_error_put(&b, e);
    const struct net_sec sec = {b.data, b.len};
    __wrap_net_send(c, type, WIRE_F_ERROR, req, &sec, 1, NULL, NULL);
    pd_buf_release(&b);
    return 0;
}
void __wrap_net_close(struct net_conn *c);
void __wrap_net_close(struct net_conn *c) {
    if (c->closing)
        return;
    close_conn(c, 0, "closed");
    sim_shut(c->s, c->end, c->a->dead);
}
void __wrap_net_close_after_flush(struct net_conn *c);
void __wrap_net_close_after_flush(struct net_conn *c) {
    if (c->closing || c->flush)
        return;
    c->flush = 1;
    sim_put(&c->s->way[!c->end], FIN, NULL, 0);
    if (c->a->dead)
        close_conn(c, 0, "closed");
}
void __wrap_net_check_host(struct net_conn *c);
void __wrap_net_check_host(struct net_conn *c) {
    if (c->closing || !is_silent(&c->s->way[!c->end]))
        return;
    close_conn(c, PD_ECLOSED, "its host has acknowledged nothing for 11 s");
    sim_shut(c->s, c->end, 0);
}
void __wrap_net_forget(struct net_conn *c);
void __wrap_net_forget(struct net_conn *c) { wire_decoder_forget(c->dec); }
uint64_t __wrap_net_received_bytes(const struct net_conn *c);
uint64_t __wrap_net_received_bytes(const struct net_conn *c) { return c->received; }
size_t __wrap_net_queued_bytes(const struct net_conn *c);
size_t __wrap_net_queued_bytes(const struct net_conn *c) {
    (void)c;
    return 0;
}
const struct wire_hello *__wrap_net_peer(const struct net_conn *c);
const struct wire_hello *__wrap_net_peer(const struct net_conn *c) {
    return c->has_peer ? &c->peer : NULL;
}
const char *__wrap_net_peer_addr(const struct net_conn *c);
const char *__wrap_net_peer_addr(const struct net_conn *c) { return c->addr; }

/* --- faults --- */

void sim_net_reset_one(int a, int b) {
    unsigned n = 0;
    struct sim_stream *chosen = NULL;
    for (struct sim_stream *s = streams; s; s = s->next) {
        const int x = s->end[0].machine, y = s->end[1].machine;
        if (((x == a && y == b) || (x == b && y == a)) && !s->end[0].shut && !s->end[1].shut &&
            s->end[0].a && s->end[1].a && !sim_below(++n))
            chosen = s;
    }
    for (int i = 0; chosen && i < 2; i++)
        sim_put(&chosen->way[i], RST, NULL, 0);
}

/* sshd notices after a while that its client is gone. */
static void on_sshd(void *arg) {
    struct sim_stream *s = arg;
    if (!s->end[1].shut)
        sim_put(&s->way[1], RST, NULL, 0);
}

void sim_net_kill(struct actor *a, int power) {
    for (struct sim_stream *s = streams; s; s = s->next)
        for (int i = 0; i < 2; i++)
            if (s->end[i].a == a && (s->end[i].conn || s->end[i].t)) {
                sim_shut(s, i, power);
                if (a->machine >= SIM_LAUNCHER && power)
                    sim_after(NULL, 100000 * MS, on_sshd, s);
                if (s->end[i].conn)
                    close_conn(s->end[i].conn, PD_ECLOSED, "killed");
                if (s->end[i].t)
                    sim_close_transport(s->end[i].t, PD_ECLOSED, "killed");
            }
}

void sim_net_reset(void) {
    while (streams) {
        struct sim_stream *s = streams;
        streams = s->next;
        drop_chunks(&s->way[0]);
        drop_chunks(&s->way[1]);
        if (s->end[0].conn || s->end[1].conn || s->end[0].t)
            sim_fail("a connection was not closed");
        free(s);
    }
}
