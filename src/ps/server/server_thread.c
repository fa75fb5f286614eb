/* SPDX-License-Identifier: Apache-2.0 */
/* server_thread.c - a server thread: passes frames between its connections and its shard. */
#include "base/spans.h"
#include "ps/server/server_internal.h"
#include "wire/msg.h"

enum {
    TICK_MS = 1000,
    LINGER_BYE_MS = 1000,
    LINGER_FAIL_MS = 3000,
    WAIT_LOG_MS = 10000,
    SAY_AGAIN_MS = 60000,
    RECONNECT_MS = 10000,
    START_MS = 30 * 60000,
    PATIENCE_TICK_MS = 50,
    LOUD_MS = 1000
};

static void gone(struct server_thread *t, uint32_t trainer, const struct pd_err *why);
static void refuse(struct trainer_conn *p, uint16_t type, uint64_t req, const struct pd_err *why);
static void found(struct server_thread *t, struct seat *s);

static const struct pd_log *thread_log(const struct server_thread *t) {
    return t->server->opts.log;
}

static struct seat *peer_seat(const struct trainer_conn *p) { return &p->t->seats[p->trainer]; }

/* --- the end --- */

static void finish(struct server_thread *t) {
    if (t->state == THREAD_CLOSING)
        return;
    t->state = THREAD_CLOSING;
    server_saves_end(t);
    server_thread_ends(t);
    uv_close((uv_handle_t *)&t->wake, NULL);
    uv_close((uv_handle_t *)&t->tick, NULL);
    uv_close((uv_handle_t *)&t->patience, NULL);
    uv_close((uv_handle_t *)&t->before, NULL);
    if (t->listener)
        net_listener_close(t->listener, NULL, NULL);
    t->listener = NULL;
    for (struct trainer_conn *p = t->peers; p; p = p->next)
        net_close(p->conn);
}

/* 1 if no trainer is left to be told how the job ended. */
static int nobody_to_tell(const struct server_thread *t) {
    return t->verdict ? !t->n_members && !t->n_lost : ps_shard_all_known(t->shard);
}

/* Lingering: the thread does no more work, but a trainer that is connected, or reconnects, can
 * still read the verdict. on_late ends the lingering. */
static void on_late(uv_timer_t *timer) { finish(timer->data); }

static void linger(struct server_thread *t, uint64_t ms, int verdict) {
    if (t->state != THREAD_SERVING)
        return;
    t->state = THREAD_LINGERING;
    t->verdict = verdict;
    uv_timer_start(&t->tick, on_late, ms, 0);
    if (nobody_to_tell(t))
        finish(t);
}

static void tell_all(struct server_thread *t, const struct pd_err *why) {
    for (struct trainer_conn *p = t->peers; p; p = p->next)
        if (p->joined && !p->refused) {
            p->refused = 1;
            net_send_error(p->conn, WIRE_PS_BYE, 0, why);
        }
}

static enum ps_lost on_lost(const struct server_thread *t) { return t->server->opts.on_lost; }

/* Drops trainers that another thread has given up. */
static void drop_given_up(struct server_thread *t) {
    struct pd_err why = {0};
    for (uint32_t i = 0; i < t->server->opts.n_trainers; i++) {
        struct seat *s = &t->seats[i];
        /* Under `continue`, a trainer that never connected here will not do so any more. */
        int any = !s->incarnation && on_lost(t) == PS_LOST_CONTINUE;
        if ((!any && !s->incarnation) ||
            !server_given_up(t->server, i, any ? NULL : &s->incarnation, &why) ||
            ps_shard_has_lost(t->shard, i))
            continue;
        if (s->peer && !s->peer->refused) {
            struct pd_err e = {0};
            pd_fail(&e, PD_EGONE, "trainer %u was given up: %.800s", i, why.msg);
            refuse(s->peer, WIRE_PS_BYE, 0, &e);
        }
        found(t, s);
        gone(t, i, &why);
    }
}

static void on_wake(uv_async_t *a) {
    struct server_thread *t = a->data;
    struct pd_err why;
    if (server_verdict(t->server, &why)) {
        struct pd_err stopped = {0};
        char host[100] = "?";
        size_t n = sizeof host;
        uv_os_gethostname(host, &n);
        pd_fail(&stopped, PD_EFAIL, "the pserver with port %u of %s was stopped",
                t->server->ports[0], host);
        if (t->state == THREAD_SERVING)
            tell_all(t, why.code ? &why : &stopped);
        finish(t);
        return;
    }
    if (!why.code && t->state == THREAD_SERVING)
        drop_given_up(t);
    if (!why.code || t->state != THREAD_SERVING)
        return;
    ps_shard_fail(t->shard, &why);
    tell_all(t, &why);
    linger(t, LINGER_FAIL_MS, 1);
}

/* --- long waits --- */

/* A trainer that was started by hand and failed before it connected is unknown to all servers, so
 * the wait for it needs a limit. Ticks are counted instead of time: while this process was stopped,
 * no trainer could connect. */
static void wait_for_absent(struct server_thread *t) {
    const uint64_t limit = t->server->opts.start_ms ? t->server->opts.start_ms : START_MS;
    char text[400];
    const uint32_t n = ps_shard_absent(t->shard, text, sizeof text);
    if (n != t->n_absent)
        t->absent_ms = 0;
    t->n_absent = n;
    if (!n || t->state != THREAD_SERVING || (t->absent_ms += TICK_MS) < limit)
        return;
    struct pd_err why = {0};
    pd_fail(&why, PD_ETIMEOUT,
            "%s of %u never connected: no new trainer for %.4g s (start_timeout)", text,
            t->server->opts.n_trainers, (double)limit / 1000);
    server_fail(t->server, &why);
}

static void on_tick(uv_timer_t *timer) {
    struct server_thread *t = timer->data;
    for (struct trainer_conn *p = t->peers; p; p = p->next)
        net_check_host(p->conn);
    server_serving(t);
    wait_for_absent(t);
    char text[900];
    struct ps_shard_stats st;
    uint64_t limit = t->server->opts.wait_log_ms ? t->server->opts.wait_log_ms : WAIT_LOG_MS;
    ps_shard_stats(t->shard, &st);
    if (st.progress != t->progress || t->state != THREAD_SERVING ||
        !ps_shard_waiting(t->shard, text, sizeof text)) {
        t->progress = st.progress;
        t->stalled_ms = t->said_ms = 0;
        return;
    }
    t->stalled_ms += TICK_MS;
    if (t->stalled_ms < limit || (t->said_ms && t->stalled_ms < t->said_ms + SAY_AGAIN_MS))
        return;
    t->said_ms = t->stalled_ms;
    /* All threads see the same wait; only thread 0 logs it as a warning. */
    pd_log_write(thread_log(t), t->index == 0 ? PD_WARN : PD_INFO, __FILE__, __LINE__,
                 "%s, for %llu s", text, (unsigned long long)(t->stalled_ms / 1000));
}

/* --- callbacks of the shard --- */

/* Call when this process of the trainer is gone for good. */
static void gone(struct server_thread *t, uint32_t trainer, const struct pd_err *why) {
    struct pd_err err = {0};
    if (on_lost(t) != PS_LOST_FAIL && t->seats[trainer].incarnation &&
        !ps_shard_has_failed(t->shard))
        server_give_up(t->server, trainer, t->seats[trainer].incarnation, why);
    if (ps_shard_gone(t->shard, trainer, why, &err)) {
        if (t->state == THREAD_SERVING)
            server_fail(t->server, &err);
    } else if (ps_shard_all_left(t->shard)) {
        linger(t, LINGER_BYE_MS, 0);
    }
}

static uint64_t reconnect_ms(const struct server_thread *t) {
    return t->server->opts.reconnect_ms ? t->server->opts.reconnect_ms : RECONNECT_MS;
}

static void found(struct server_thread *t, struct seat *s) {
    if (!s->lost)
        return;
    free(s->lost);
    s->lost = NULL;
    s->said = 0;
    if (!--t->n_lost)
        uv_timer_stop(&t->patience);
}

/* Warns about a lost connection. This is delayed by LOUD_MS: if the job is being stopped, the news
 * of that arrives at about the same time. */
static void warn_lost(struct server_thread *t, uint32_t trainer) {
    struct seat *s = &t->seats[trainer];
    char limit[60] = "until it comes back or is started again";
    if (on_lost(t) != PS_LOST_WAIT)
        snprintf(limit, sizeof limit, "%.3g s for it to come back", (double)reconnect_ms(t) / 1000);
    s->said = 1;
    pd_log_write(thread_log(t), server_level(t->server, PD_WARN), __FILE__, __LINE__,
                 "thread %u: the connection of trainer %u is lost: %s; waiting %s", t->index,
                 trainer, s->lost->msg, limit);
}

/* Ticks are counted instead of time: while this process was stopped, no trainer could reconnect. */
static void on_patience(uv_timer_t *timer) {
    struct server_thread *t = timer->data;
    for (uint32_t i = 0; i < t->server->opts.n_trainers && t->n_lost; i++) {
        struct seat *s = &t->seats[i];
        if (!s->lost)
            continue;
        s->lost_ms += PATIENCE_TICK_MS;
        if (!s->said && s->lost_ms >= LOUD_MS)
            warn_lost(t, i);
        if (on_lost(t) == PS_LOST_WAIT || s->lost_ms < reconnect_ms(t))
            continue;
        struct pd_err why = {0};
        pd_fail(&why, PD_EFAIL, "%.700s; it did not come back in %.3g s", s->lost->msg,
                (double)reconnect_ms(t) / 1000);
        found(t, s);
        gone(t, i, &why);
    }
}

/* Call when a trainer's connection is lost. The trainer may come back on another connection. */
static void lost(struct trainer_conn *p, const struct pd_err *why) {
    struct server_thread *t = p->t;
    struct seat *s = peer_seat(p);
    if (!p->joined)
        return;
    p->joined = 0;
    s->peer = NULL;
    t->n_members--;
    if (!p->refused && ps_shard_detach(t->shard, p->trainer)) {
        s->lost = pd_calloc(1, sizeof *s->lost);
        if (!s->lost) {
            gone(t, p->trainer, why);
        } else {
            pd_info(thread_log(t), "thread %u: the connection of trainer %u (%s) is lost: %s",
                    t->index, p->trainer, net_peer_addr(p->conn), why->msg);
            *s->lost = *why;
            s->lost_ms = 0;
            if (!t->n_lost++)
                uv_timer_start(&t->patience, on_patience, PATIENCE_TICK_MS, PATIENCE_TICK_MS);
        }
    }
    if (t->state == THREAD_LINGERING && nobody_to_tell(t))
        finish(t);
}

/* Call when a trainer has declared here, for the first time or again. Closes its earlier
 * connection. */
static void seated(struct trainer_conn *p) {
    struct server_thread *t = p->t;
    struct seat *s = peer_seat(p);
    int back = s->lost || s->peer;
    if (s->peer) {
        s->peer->joined = 0;
        s->peer->refused = 1;
        net_close(s->peer->conn);
        t->n_members--;
    }
    if (s->lost && !s->said)
        pd_log_write(thread_log(t), server_level(t->server, PD_WARN), __FILE__, __LINE__,
                     "thread %u: trainer %u had lost its connection for %.2g s: %s", t->index,
                     p->trainer, (double)s->lost_ms / 1000, s->lost->msg);
    found(t, s);
    p->joined = 1;
    s->peer = p;
    s->incarnation = net_peer(p->conn)->incarnation;
    t->n_members++;
    pd_info(thread_log(t), "thread %u: trainer %u (%s) is %s", t->index, p->trainer,
            net_peer_addr(p->conn), back ? "back" : "here");
}

/* Sends the reason to the peer, logs it, and closes the connection. The failure of the whole job is
 * no warning for each of its trainers. */
static void refuse(struct trainer_conn *p, uint16_t type, uint64_t req, const struct pd_err *why) {
    struct pd_err e = *why;
    if (p->refused)
        return;
    p->refused = 1;
    /* Otherwise the trainer would take the refusal for a failure of this server. */
    if (!ps_shard_has_failed(p->t->shard) && e.code != PD_EIO && e.code != PD_ENOSPC &&
        e.code != PD_ENOMEM)
        ps_err_from_trainer(&e, p->trainer, net_peer_addr(p->conn));
    const enum pd_level level = ps_shard_has_failed(p->t->shard) ? PD_INFO : PD_WARN;
    pd_log_write(thread_log(p->t), server_level(p->t->server, level), __FILE__, __LINE__,
                 "trainer %u (%s): %s: refused: %s", p->trainer, net_peer_addr(p->conn),
                 wire_msg_name(type), why->msg);
    net_send_error(p->conn, type, req, &e);
    net_close_after_flush(p->conn);
}

/* --- callbacks of the connections --- */

static void on_drain(struct net_conn *c, void *arg) {
    struct trainer_conn *p = arg;
    if (!p || !p->choked)
        return;
    p->choked = 0;
    ps_shard_drained(p->t->shard);
    if (!p->choked)
        net_resume(c);
}

static void on_open(struct net_conn *c, void *arg) {
    struct server_thread *t = arg;
    struct trainer_conn *p = pd_calloc(1, sizeof *p);
    net_set_arg(c, p);
    if (!p || t->state == THREAD_CLOSING) {
        free(p);
        net_set_arg(c, NULL);
        net_close(c);
        return;
    }
    const struct wire_hello *hello = net_peer(c);
    p->t = t;
    p->conn = c;
    p->trainer = hello->id;
    p->next = t->peers;
    if (p->next)
        p->next->prev = p;
    t->peers = p;
    net_watch_host(c);
    if (hello->role == WIRE_ROLE_TRAINER && hello->id < t->server->opts.n_trainers)
        return;
    if (hello->role == WIRE_ROLE_PROBE) {
        net_close_after_flush(c);
        return;
    }
    struct pd_err err = {0};
    pd_fail(&err, PD_ECONF,
            "trainer %u, but this server was started for %u trainers (num_gradient_servers)",
            hello->id, t->server->opts.n_trainers);
    refuse(p, WIRE_PS_DECLARE, 0, &err);
}

/* Handles the failure of a member, which has sent its reason. A reason that the member got from
 * another server is passed on unchanged: it is the first cause. */
static void failed_member(struct trainer_conn *p, const struct wire_frame *f) {
    struct pd_err err = {0};
    wire_error_get(f, &err);
    if (f->req != WIRE_BYE_RELAYED) {
        err.code = PD_EFAIL;
        pd_err_prefix(&err, "trainer %u (%s) has failed", p->trainer, net_peer_addr(p->conn));
    }
    ps_err_from_trainer(&err, p->trainer, net_peer_addr(p->conn));
    p->refused = 1;
    /* The trainer failed, not the job. */
    if (on_lost(p->t) != PS_LOST_FAIL && (f->req != WIRE_BYE_RELAYED || err.code == PD_EGONE)) {
        gone(p->t, p->trainer, &err);
        return;
    }
    ps_shard_fail(p->t->shard, &err);
    (void)ps_shard_gone(p->t->shard, p->trainer, NULL, NULL);
    server_fail(p->t->server, &err);
}

/* A restarted trainer declares while its old process still has the place here. If the old process
 * was silent for half of heartbeat_ms, or another thread gave it up, it is given up now. */
static void make_room(struct trainer_conn *p) {
    struct server_thread *t = p->t;
    const uint64_t here = peer_seat(p)->incarnation;
    if (on_lost(t) != PS_LOST_WAIT || !here || here == net_peer(p->conn)->incarnation)
        return;
    if (server_beat_doubts(t->server, p->trainer, here)) {
        struct pd_err why = {0};
        pd_fail(&why, PD_EFAIL, "no sign of life, and it was started again");
        server_give_up(t->server, p->trainer, here, &why);
    }
    drop_given_up(t);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct trainer_conn *p = arg;
    struct pd_err err = {0};
    if (!p || p->refused || p->t->state == THREAD_CLOSING) {
        wire_frame_free(f);
        return;
    }
    struct server_thread *t = p->t;
    t->received += f->total;
    uint16_t type = f->type;
    uint64_t req = f->req;
    if (!p->joined && type == WIRE_PS_BEAT && !f->flags && net_peer(c)->role == WIRE_ROLE_TRAINER) {
        wire_frame_free(f);
        struct net_moved moved = net_move(c);
        server_beat_take(t->server, &moved, p->trainer, net_peer(c)->incarnation);
        net_close(c);
        return;
    }
    if (!p->joined && (type != WIRE_PS_DECLARE || net_peer(c)->role != WIRE_ROLE_TRAINER)) {
        wire_frame_free(f);
        pd_fail(&err, PD_EPROTO, "%s from a connection that has not declared", wire_msg_name(type));
        refuse(p, type, req, &err);
        return;
    }
    if (p->joined && type == WIRE_PS_BYE && f->flags & WIRE_F_ERROR) {
        failed_member(p, f);
        wire_frame_free(f);
        return;
    }
    if (!p->joined)
        make_room(p);
    t->current = p;
    const uint64_t began = pd_span_begin();
    int rc = ps_shard_frame(t->shard, p->trainer, net_peer_addr(c), f, &err);
    if (pd_span_ring)
        pd_span_end(wire_msg_name(type), began);
    t->current = NULL;
    if (rc) {
        /* The trainer relays this reason to the other servers; it says that the trainer failed, not
         * the job. */
        struct pd_err own = {0};
        if (p->joined && on_lost(t) != PS_LOST_FAIL && !ps_shard_has_failed(t->shard))
            pd_fail(&own, PD_EGONE, "trainer %u was given up: %.800s", p->trainer, err.msg);
        refuse(p, type, req, own.code ? &own : &err);
        if (p->joined)
            gone(t, p->trainer, &err);
        else if (t->state == THREAD_LINGERING)
            found(t, peer_seat(p)); /* it has received the reason */
        return;
    }
    if (!p->joined) {
        net_lend(c, ps_shard_region(t->shard));
        seated(p);
    }
    if (ps_shard_all_left(t->shard))
        linger(t, LINGER_BYE_MS, 0);
    if (t->state == THREAD_LINGERING && nobody_to_tell(t))
        finish(t);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct trainer_conn *p = arg;
    (void)c;
    if (!p)
        return;
    *(p->prev ? &p->prev->next : &p->t->peers) = p->next;
    if (p->next)
        p->next->prev = p->prev;
    if (why->code && why->code != PD_ECLOSED && !p->refused && !p->joined)
        pd_warn(thread_log(p->t), "trainer %u (%s): %s", p->trainer, net_peer_addr(c), why->msg);
    lost(p, why);
    free(p);
}

/* --- begin and end --- */

/* Writes the greeting of every port: u32 1, u32 n_dense, u32 n_sparse, u16 ports. */
static void put_greeting(struct pd_buf *b, const struct ps_server *s) {
    pd_put_u32(b, 1);
    pd_put_u32(b, s->opts.n_dense);
    pd_put_u32(b, s->opts.n_sparse);
    for (uint32_t i = 0; i < s->opts.n_dense + s->opts.n_sparse; i++)
        pd_put_u16(b, s->ports[i]);
}

static int listen_on(struct server_thread *t, const int *fds, struct pd_err *err) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = on_frame, .on_drain = on_drain, .on_close = on_close};
    const struct ps_server_opts *o = &t->server->opts;
    struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_PSERVER, .incarnation = t->server->epoch},
                              .plain = o->plain};
    struct net_opts net = {.max_frame = PS_FRAME_MAX,
                           .log = o->log,
                           .pool = t->pool,
                           .share = 1,
                           .in_place = PS_IN_PLACE,
                           .cork = 1};
    struct pd_buf b = {0};
    put_greeting(&b, t->server);
    memcpy(hs.key, o->key, sizeof hs.key);
    snprintf(hs.self.job, sizeof hs.self.job, "%s", o->job);
    hs.greeting = b.data;
    hs.greeting_len = b.len;
    int rc;
    if (b.failed) {
        close(fds[t->index]);
        rc = pd_fail(err, PD_ENOMEM, "no memory for a server");
    } else {
        rc = net_listen_fd(&t->listener, &t->loop, fds[t->index], &hs, &net, &events, t, err);
    }
    explicit_bzero(hs.key, sizeof hs.key);
    pd_buf_release(&b);
    return rc;
}

int server_thread_init(struct ps_server *s, uint32_t index, const int *fds, struct pd_err *err) {
    struct server_thread *t = &s->threads[index];
    t->pool = pd_pool_new();
    struct ps_shard_opts so = {.kind = index < s->opts.n_dense ? PS_KIND_DENSE : PS_KIND_SPARSE,
                               .n_trainers = s->opts.n_trainers,
                               .epoch = s->epoch,
                               .output_dir = s->opts.output_dir,
                               .folders = s->opts.folders,
                               .on_lost = s->opts.on_lost,
                               .log = s->opts.log,
                               .pool = t->pool,
                               .lends = 1};
    t->server = s;
    t->index = index;
    t->seats = pd_calloc(s->opts.n_trainers, sizeof *t->seats);
    if (!t->seats || !t->pool || ps_shard_new(&t->shard, &so, &server_shard_ops, t) ||
        uv_loop_init(&t->loop)) {
        close(fds[index]);
        return pd_fail(err, PD_ENOMEM, "no memory for a server thread");
    }
    t->has_loop = 1;
    uv_async_init(&t->loop, &t->wake, on_wake);
    uv_timer_init(&t->loop, &t->tick);
    uv_timer_init(&t->loop, &t->patience);
    uv_prepare_init(&t->loop, &t->before);
    uv_prepare_start(&t->before, server_send_held);
    uv_timer_start(&t->tick, on_tick, TICK_MS, TICK_MS);
    t->wake.data = t->tick.data = t->patience.data = t->before.data = t;
    return listen_on(t, fds, err);
}

void server_thread_run(struct server_thread *t) {
    char name[16];
    snprintf(name, sizeof name, "ps_%s%u", t->index < t->server->opts.n_dense ? "dense" : "sparse",
             t->index);
    pthread_setname_np(pthread_self(), name);
    pd_spans_thread(t->server->opts.spans, name);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    pd_spans_thread_end();
    struct ps_shard_stats st;
    ps_shard_stats(t->shard, &st);
    pd_info(thread_log(t),
            "thread %u: %llu steps, %llu rows, %llu repeated, %llu stale and %llu lagging pushes "
            "dropped, %llu requests repeated",
            t->index, (unsigned long long)st.steps, (unsigned long long)st.rows,
            (unsigned long long)st.duplicates, (unsigned long long)st.stale,
            (unsigned long long)st.lagged, (unsigned long long)st.repeated);
}

void server_thread_release(struct server_thread *t) {
    if (t->has_loop) {
        finish(t); /* if it never ran */
        uv_run(&t->loop, UV_RUN_DEFAULT);
        uv_loop_close(&t->loop);
    }
    ps_shard_free(t->shard);
    pd_pool_free(t->pool);
    for (uint32_t i = 0; t->seats && i < t->server->opts.n_trainers; i++)
        free(t->seats[i].lost);
    free(t->seats);
}
