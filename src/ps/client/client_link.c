/* SPDX-License-Identifier: Apache-2.0 */
/* client_link.c - the connections to the server threads, and the recovery of a broken connection
 * while both processes live.
 *
 *     DOWN ─▶ CONNECTING ─▶ OPEN ─▶ DECLARING ─▶ ATTACHED
 *      ^          │           │         │            │      lost: again after 50 ms ... 1 s,
 *      └──────────┴───────────┴─────────┴────────────┘      for at most reconnect_ms
 *
 * Every frame is kept until the server is known to have taken it. An answer to it, or to a later
 * frame of the link, shows this, since a server takes the requests of a link in order. Ids of
 * frames grow.
 *
 * After a loss, PS_DECLARE identifies the trainer, and its answer has the id of the last frame
 * taken. Then the client sends again, in the order of ids, all frames after that id and all
 * requests without an answer. The server answers repeated requests without doing them a second
 * time.
 *
 * A frame's sections live as long as the frame is kept, so a pushed buffer is the caller's again
 * only when its push was taken. Where ps_wait expects no other answer on a link, it asks for one
 * (client_ask_taken). */
#include "ps/client/client_beat.h"
#include "ps/client/client_internal.h"

enum {
    CONNECT_TIMEOUT_MS = 60000,
    RECONNECT_MS = 10000,
    ATTEMPT_MS = 5000,
    TICK_MS = 50,
    SLOW_TICK_MS = 1000,
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 1000,
    STEADY_MS = 2000, /* after a connection that lasted so long, a loss is retried at once and
                         counted anew */
};

/* --- frames that are kept --- */

static void sent_free(struct ps_client *c, struct sent *s) {
    void (*release)(void *) = s->release;
    s->release = NULL;
    if (release)
        release(s->release_arg);
    s->next = c->free_sent;
    c->free_sent = s;
}

static void on_sent(void *arg) {
    struct sent *s = arg;
    if (!--s->in_net && !s->kept)
        sent_free(s->c, s);
}

static void unkeep(struct ps_client *c, struct sent *s) {
    s->kept = 0;
    if (!s->in_net)
        sent_free(c, s);
}

struct sent *ps_link_keep(struct server_link *l, uint16_t type, uint64_t id, int asks,
                          const struct net_sec *sec, uint32_t n_sec, void (*release)(void *),
                          void *release_arg) {
    struct ps_client *c = l->c;
    struct sent *s = c->free_sent;
    size_t copied = 0; /* bytes of section 0; without a release, of all sections */
    for (uint32_t i = 0; i < (release ? 1 : n_sec); i++)
        copied += sec[i].n;
    if (s)
        c->free_sent = s->next;
    else if (!(s = pd_calloc(1, sizeof *s)))
        return NULL;
    if (copied > s->cap) {
        free(s->mem);
        s->cap = copied + copied / 2;
        s->mem = pd_malloc(s->cap);
        if (!s->mem) {
            free(s);
            return NULL;
        }
    }
    uint8_t *at = s->mem;
    for (uint32_t i = 0; i < n_sec; i++) {
        s->sec[i] = sec[i];
        if (i && release)
            continue;
        if (sec[i].n)
            memcpy(at, sec[i].p, sec[i].n);
        s->sec[i].p = at;
        at += sec[i].n;
    }
    s->c = c;
    s->id = id;
    s->type = type;
    s->asks = asks;
    s->n_sec = n_sec;
    s->kept = 1;
    s->in_net = 0;
    s->release = release;
    s->release_arg = release_arg;
    s->next = NULL;
    if (l->last_sent)
        l->last_sent->next = s;
    else
        l->first_sent = s;
    l->last_sent = s;
    l->n_sent++;
    l->n_held += release != NULL;
    return s;
}

int ps_link_send(struct server_link *l, struct sent *s, int soon) {
    if (l->state != LINK_ATTACHED || !l->conn)
        return 0; /* sent after the connection is back */
    s->in_net++;
    const int hold = soon && net_is_shared(l->conn);
    if (hold)
        net_hold(l->conn, 1);
    int rc = net_send(l->conn, s->type, 0, s->id, s->sec, s->n_sec, on_sent, s);
    if (!hold)
        net_hold(l->conn, 0);
    return rc;
}

void client_flush_links(struct ps_client *c) {
    for (uint32_t i = 0; i < c->n_links; i++)
        if (c->links[i]->conn)
            net_hold(c->links[i]->conn, 0);
}

/* Forgets the frames up to `id`, which were taken, except requests without an answer. `answered`
 * (0: none) has its answer. */
static void forget_sent(struct server_link *l, uint64_t id, uint64_t answered) {
    struct sent **p = &l->first_sent, *before = NULL;
    while (*p && (*p)->id <= id) {
        struct sent *s = *p;
        if (s->asks && s->id != answered) {
            before = s;
            p = &s->next;
            continue;
        }
        *p = s->next;
        if (l->last_sent == s)
            l->last_sent = before;
        l->n_sent--;
        l->n_held -= s->release != NULL;
        unkeep(l->c, s);
    }
}

void ps_link_answered(struct server_link *l, uint64_t id) {
    forget_sent(l, id, id);
    l->lost_ms = 0; /* the link makes progress, so later losses are counted anew */
    l->retries = 0;
}

static int done_taken(struct ps_client *c, struct pending_request *r, const struct answer *a,
                      struct pd_err *err) {
    struct ps_msg_pulled m;
    (void)c;
    (void)r;
    return ps_get_pulled(&a->body, &m, err);
}

/* An empty pull that waits for no step: its answer shows that all frames before it were taken. */
static int ask_taken(struct ps_client *c, struct server_link *l) {
    struct ps_body b = client_body(c);
    ps_put_pull_dense(&b, &(struct ps_msg_pull_dense){0});
    return client_ask(c, l, WIRE_PS_PULL_DENSE, &b, done_taken, NULL, 0);
}

int client_ask_taken(struct ps_client *c) {
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++)
        if (c->links[i]->n_held && !c->links[i]->last_sent->asks)
            ask_taken(c, c->links[i]);
    return c->err.code;
}

int client_bound_sent(struct ps_client *c, struct server_link *l) {
    enum { KEPT_MAX = 512, ASKED_MAX = 48 };
    if (l->n_sent > KEPT_MAX && !l->last_sent->asks)
        ask_taken(c, l);
    return l->n_asked > ASKED_MAX ? client_wait_link(c, l, ASKED_MAX) : c->err.code;
}

void client_links_release(struct ps_client *c) {
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct server_link *l = c->links[i];
        while (l->first_sent) {
            struct sent *s = l->first_sent;
            l->first_sent = s->next;
            unkeep(c, s);
        }
        free(l);
    }
    while (c->free_sent) {
        struct sent *s = c->free_sent;
        c->free_sent = s->next;
        free(s->mem);
        free(s);
    }
    free(c->links);
}

/* --- greeting and declaration --- */

static void try_connect(struct ps_client *c, struct server_link *l);

struct server_link *client_add_link(struct ps_client *c, uint32_t server, int port) {
    struct server *s = &c->servers[server];
    struct server_link *l = pd_calloc(1, sizeof *l);
    struct server_link **mine = pd_realloc(s->links, (s->n_links + 1) * sizeof *mine), **all = NULL;
    if (mine) {
        s->links = mine;
        all = pd_realloc(c->links, (c->n_links + 1) * sizeof *all);
    }
    if (all)
        c->links = all;
    if (!l || !mine || !all) {
        free(l);
        client_fail(c, PD_ENOMEM, "no memory for a connection");
        return NULL;
    }
    l->c = c;
    l->server = server;
    l->port = port;
    memcpy(l->ip, s->ip, sizeof l->ip);
    mine[s->n_links++] = l;
    all[c->n_links++] = l;
    return l;
}

/* Reads the greeting of a server's first port: u32 1, u32 n_dense, u32 n_sparse, u16 ports, dense
 * first. */
static void read_greeting(struct server_link *l) {
    struct ps_client *c = l->c;
    struct server *s = &c->servers[l->server];
    size_t n;
    const uint8_t *p = net_greeting(l->conn, &n);
    struct pd_reader r;
    pd_reader_init(&r, p, n);
    uint32_t version = pd_get_u32(&r), n_dense = pd_get_u32(&r), n_sparse = pd_get_u32(&r);
    if (r.failed || version != 1 || n_dense < 1 || n_dense > 1024 || n_sparse > 1024) {
        client_link_fail(l, PD_EPROTO, ": an unknown greeting");
        return;
    }
    for (uint32_t i = 0; i < n_dense + n_sparse; i++) {
        int port = pd_get_u16(&r);
        if (r.failed || port == 0 || (i == 0 && port != l->port)) {
            client_link_fail(l, PD_EPROTO, " is not the first port of a server");
            return;
        }
        struct server_link *more = i ? client_add_link(c, l->server, port) : l;
        if (!more)
            return;
        if (i)
            try_connect(c, more);
    }
    s->n_dense = n_dense;
    s->n_sparse = n_sparse;
    s->greeted = 1;
}

/* The answer to PS_DECLARE: the server has accepted this trainer, or recognised it. */
static int done_declare(struct ps_client *c, struct pending_request *r, const struct answer *a,
                        struct pd_err *err) {
    struct server_link *l = a->link;
    struct ps_msg_declared m;
    (void)r;
    if (ps_get_declared(&a->body, &m, err))
        return err->code;
    if (l->epoch && l->epoch != m.epoch)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    l->state = LINK_ATTACHED;
    l->attached_at_ms = c->shard ? 0 : uv_now(&c->loop);
    if (!l->epoch) {
        if (l->conn) {
            net_lend(l->conn, c->region);
            net_share(l->conn); /* not on a link that broke before, where the next message may be
                                   its last */
        }
        l->epoch = m.epoch;
        l->applied = m.resumed ? 0 : m.step;
        l->from_step = m.step;
        l->from_pass = m.pass;
        c->resumed |= m.resumed != 0;
        if (m.pass < c->pass || !c->greeted) { /* the thread that is furthest behind counts */
            c->pass = m.pass;
            c->first_step = m.pass_step;
        }
        if (m.step < c->step || !c->greeted)
            c->step = m.step;
        c->greeted = 1;
        if (l == c->dense[0]) { /* this thread has the sums and the reductions */
            c->n_repeated = (uint32_t)m.n_repeated;
            c->before_ms[0] = m.pass_ms;
            c->before_ms[1] = m.last_pass_ms;
            c->before[0] = m.this_pass;
            c->before[1] = m.last_pass;
        }
        return 0;
    }
    if (l->first_sent && l->first_sent->id <= m.last_id)
        l->lost_ms = l->retries = 0; /* some frames have arrived, so the link makes progress */
    forget_sent(l, m.last_id, 0);
    uint32_t n = 0;
    for (struct sent *s = l->first_sent; s; s = s->next, n++)
        if (ps_link_send(l, s, 0))
            return pd_fail(err, PD_ENOMEM, "no memory to send again");
    c->stats.reconnects++;
    c->stats.sent_again += n;
    pd_warn(c->opts.log, "pserver %s:%d: connected again, %u messages sent again", l->ip, l->port,
            n);
    return 0;
}

int ps_link_declare(struct server_link *l) {
    struct ps_client *c = l->c;
    struct ps_declare_sender d = {.kind = l->kind,
                                  .thread = l->thread,
                                  .stream_lo = c->opts.stream_lo,
                                  .stream_hi = c->opts.stream_hi,
                                  .incarnation = c->incarnation,
                                  .epoch = l->epoch};
    struct pd_buf b = {0};
    ps_declaration_put(&b, &d, &c->decl);
    l->state = LINK_DECLARING;
    int rc = b.failed ? client_fail(c, PD_ENOMEM, "no memory for a declaration")
                      : client_declare(c, l, &b, done_declare);
    pd_buf_release(&b);
    return rc;
}

/* --- connections open and close --- */

static void on_open(struct net_conn *conn, void *arg) {
    struct server_link *l = arg;
    struct ps_client *c = l->c;
    l->state = LINK_OPEN;
    net_watch_host(conn);
    if (l->epoch && net_peer(conn)->incarnation != l->epoch)
        client_link_fail(l, PD_EFAIL,
                         " was started again in step %llu: it no longer has the parameters",
                         (unsigned long long)c->step);
    else if (!c->servers[l->server].greeted)
        read_greeting(l);
    else if (c->declaring)
        ps_link_declare(l);
}

static uint64_t reconnect_ms(const struct ps_client *c) {
    return c->opts.reconnect_ms ? c->opts.reconnect_ms : RECONNECT_MS;
}

static void retry_later(struct server_link *l, uint64_t first_ms) {
    uint64_t ms = first_ms << (l->retries < 5 ? l->retries : 5);
    l->retries++;
    l->retry_at_ms = uv_now(&l->c->loop) + (ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS);
}

static const char *reason(const struct server_link *l) {
    return *l->last.msg ? l->last.msg : "no answer to the attempt to connect";
}

/* The server will not come back. A server ends when every trainer has sent PS_BYE, so the answer to
 * this trainer's PS_BYE may be lost for good: that is no failure. */
static void give_up(struct server_link *l) {
    struct ps_client *c = l->c;
    struct pending_request *bye = client_pending(c, l, WIRE_PS_BYE);
    if (bye) {
        bye->id = 0;
        c->n_calls--;
        l->left = 1;
        pd_warn(c->opts.log, "pserver %s:%d ended before it answered PS_BYE", l->ip, l->port);
        return;
    }
    client_link_fail(l, PD_EFAIL, " is gone in step %llu: %s; it was not reached again in %.3g s",
                     (unsigned long long)c->step, reason(l), (double)reconnect_ms(c) / 1000);
}

static void lost(struct server_link *l, enum link_state was, const struct pd_err *why) {
    struct ps_client *c = l->c;
    uint64_t now = uv_now(&c->loop);
    int at_once =
        was == LINK_ATTACHED && (now - l->attached_at_ms >= STEADY_MS || !l->retries_ever);
    if (was == LINK_ATTACHED) {
        if (at_once)
            l->lost_ms = l->retries = 0;
        pd_warn(c->opts.log,
                "pserver %s:%d: the connection is lost in step %llu (%s); trying for %.3g s to "
                "reach it again",
                l->ip, l->port, (unsigned long long)c->step, why->msg,
                (double)reconnect_ms(c) / 1000);
        l->last = *why;
    } else if (!l->last.code) {
        l->last = *why;
    }
    uv_timer_start(&c->tick, c->on_tick, TICK_MS, TICK_MS);
    l->retries_ever = 1;
    if (at_once)
        try_connect(c, l);
    else
        retry_later(l, RETRY_MIN_MS);
}

static void on_close(struct net_conn *conn, const struct pd_err *why, void *arg) {
    struct server_link *l = arg;
    struct ps_client *c = l->c;
    enum link_state was = l->state;
    int refused = net_port_was_closed(conn);
    l->conn = NULL;
    l->state = LINK_DOWN;
    struct pending_request *declaring = client_pending(c, l, WIRE_PS_DECLARE);
    if (declaring)
        declaring->id = 0;
    if (c->leaving || l->left || c->err.code)
        return;
    /* Once the server was reached, a failed handshake is a damaged one: it is tried again. */
    if ((why->code == PD_EAUTH && !l->epoch) || why->code == PD_ENOMEM ||
        (was >= LINK_OPEN && why->code == PD_EPROTO)) {
        client_link_fail(l, why->code, " is gone in step %llu: %s", (unsigned long long)c->step,
                         why->msg);
        return;
    }
    if (c->connected) {
        lost(l, was, why);
        if (refused && client_pending(c, l, WIRE_PS_BYE))
            give_up(l);
        return;
    }
    if (strcmp(l->last.msg, why->msg))
        pd_info(c->opts.log, "pserver %s:%d: %s; trying again", l->ip, l->port, why->msg);
    l->last = *why;
    retry_later(l, 2 * RETRY_MIN_MS);
}

static void try_connect(struct ps_client *c, struct server_link *l) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = client_on_frame, .on_close = on_close};
    struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_TRAINER,
                                       .id = c->opts.trainer_id,
                                       .incarnation = c->incarnation},
                              .plain = c->opts.plain};
    struct net_opts net = {.max_frame = PS_FRAME_MAX,
                           .log = c->opts.log,
                           .pool = c->pool,
                           .share = 1,
                           .in_place = PS_IN_PLACE};
    struct pd_err err = {0};
    memcpy(hs.self.job, c->job_id, sizeof hs.self.job);
    memcpy(hs.key, c->key, sizeof hs.key);
    l->state = LINK_CONNECTING;
    if (net_connect(&l->conn, &c->loop, l->ip, l->port, ATTEMPT_MS, &hs, &net, &events, l, &err))
        client_link_fail(l, err.code, ": %s", err.msg);
    explicit_bzero(hs.key, sizeof hs.key);
}

static void check_beats(struct ps_client *c) {
    uint64_t limit_ms = 0;
    const int i = ps_beat_silent(c->beat, &limit_ms);
    if (i >= 0 && !c->leaving && !c->err.code)
        client_link_fail(
            c->servers[i].links[0], PD_EFAIL,
            " is gone in step %llu: no sign of life for %.4g s: it is stopped, or its host hangs "
            "(%s)",
            (unsigned long long)c->step, (double)limit_ms / 1000,
            limit_ms == client_connect_ms(c) ? "server_timeout" : "heartbeat_timeout");
}

/* Time in which this process did not run its loop (it computed, or was stopped) is not counted
 * against the server. */
static void on_tick(uv_timer_t *t) {
    struct ps_client *c = t->data;
    uint64_t now = uv_now(&c->loop), passed = now - c->ticked_at_ms;
    uint32_t n = c->n_links, down = 0; /* links added meanwhile are tried at the next tick */
    c->ticked_at_ms = now;
    check_beats(c);
    for (uint32_t i = 0; i < n && !c->err.code; i++) {
        struct server_link *l = c->links[i];
        if (l->state == LINK_ATTACHED && l->conn)
            net_check_host(l->conn);
        if (l->state == LINK_ATTACHED || l->left)
            continue;
        down++;
        if (l->state >= LINK_OPEN) /* the server has answered the handshake, so it is alive; its
                                      declaration may take time */
            continue;
        if (c->connected &&
            (l->lost_ms += passed < 4 * TICK_MS ? passed : 4 * TICK_MS) > reconnect_ms(c))
            give_up(l);
        else if (l->state == LINK_DOWN && now >= l->retry_at_ms)
            try_connect(c, l);
    }
    if (c->connected && !down) /* the slow tick only wakes waits, so that long waits are logged */
        uv_timer_start(&c->tick, on_tick, SLOW_TICK_MS, SLOW_TICK_MS);
}

static const struct server_link *not_open(const struct ps_client *c) {
    for (uint32_t i = 0; i < c->n_links; i++)
        if (c->links[i]->state != LINK_OPEN)
            return c->links[i];
    return NULL;
}

uint64_t client_connect_ms(const struct ps_client *c) {
    return c->opts.connect_timeout_ms ? c->opts.connect_timeout_ms : CONNECT_TIMEOUT_MS;
}

int client_connect_all(struct ps_client *c) {
    if (!(c->pool = pd_pool_new()))
        return client_fail(c, PD_ENOMEM, "no memory for a client");
    if (uv_loop_init(&c->loop))
        return client_fail(c, PD_EIO, "cannot make an event loop");
    c->has_loop = 1;
    uv_timer_init(&c->loop, &c->tick);
    c->tick.data = c;
    c->on_tick = on_tick;
    for (uint32_t i = 0; i < c->n_servers; i++)
        if (!client_add_link(c, i, c->servers[i].port))
            return c->err.code;
    uint64_t ms = client_connect_ms(c);
    uint64_t deadline = pd_mono_ns() + ms * 1000000u;
    const struct server_link *l;
    uv_timer_start(&c->tick, on_tick, 0, TICK_MS);
    while (!c->err.code && (l = not_open(c))) {
        if (pd_mono_ns() > deadline)
            return client_link_fail(l, PD_ETIMEOUT, " could not be reached in %.3g s: %s",
                                    (double)ms / 1000, reason(l));
        uv_run(&c->loop, UV_RUN_ONCE);
    }
    c->connected = 1;
    return c->err.code;
}
