/* SPDX-License-Identifier: Apache-2.0 */
/* server_beat.c - the server's end of the heartbeats. A server thread accepts the connections and
 * hands them to the main thread, which does no other work. See client_beat.h.
 *
 *     server thread: accept, handshake, PS_BEAT ─▶ server_beat_take ─▶ main thread: answers
 *     silence of heartbeat_ms ─▶ server_give_up ─▶ every thread: on_trainer_lost */
#include "ps/plan/types.h"
#include "ps/server/server_internal.h"
#include "wire/msg.h"

/* A trainer that was silent for ASK_MS is sent a beat. Either its kernel acknowledges the beat, or
 * the network is cut. */
enum { TICK_MS = 250, ASK_MS = 1000 };

/* At most one per trainer: a new connection replaces the old one. */
struct server_beat {
    struct ps_server *s;
    uint32_t trainer;
    uint64_t incarnation;
    struct net_conn *conn;
    int64_t quiet_ms; /* negative after a cut; see client_beat.h */
};

struct taken {
    struct net_moved conn;
    uint32_t trainer;
    uint64_t incarnation;
    struct taken *next;
};

static void drop(struct server_beat *b) {
    if (b->s->beats[b->trainer] == b)
        b->s->beats[b->trainer] = NULL;
    net_close(b->conn);
}

static void on_open(struct net_conn *c, void *arg) {
    (void)arg;
    net_watch_host(c);
    /* Answers the frame that the server thread has read. */
    (void)net_send(c, WIRE_PS_BEAT, 0, 0, NULL, 0, NULL, NULL);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct server_beat *b = arg;
    b->quiet_ms = 0;
    atomic_store(&b->s->doubted[b->trainer], 0);
    if (f->type == WIRE_PS_BEAT && !net_queued_bytes(c))
        (void)net_send(c, WIRE_PS_BEAT, 0, 0, NULL, 0, NULL, NULL);
    wire_frame_free(f);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct server_beat *b = arg;
    (void)c;
    (void)why; /* the trainer's other connections report its end */
    if (b->s->beats && b->s->beats[b->trainer] == b)
        b->s->beats[b->trainer] = NULL;
    free(b);
}

static void begin(struct ps_server *s, struct taken *t) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
    const struct net_opts net = {.max_frame = PS_BEAT_FRAME_MAX};
    struct server_beat *b = pd_calloc(1, sizeof *b);
    struct pd_err err = {0};
    if (!b) {
        net_moved_drop(&t->conn);
        return;
    }
    *b = (struct server_beat){.s = s, .trainer = t->trainer, .incarnation = t->incarnation};
    if (net_conn_moved(&b->conn, &s->loop, &t->conn, &net, &events, b, &err)) {
        free(b);
        return;
    }
    if (s->beats[t->trainer])
        drop(s->beats[t->trainer]);
    s->beats[t->trainer] = b;
}

static void on_taken(uv_async_t *a) {
    struct ps_server *s = a->data;
    uv_mutex_lock(&s->lock);
    struct taken *t = s->taken;
    s->taken = NULL;
    uv_mutex_unlock(&s->lock);
    while (t) {
        struct taken *next = t->next;
        begin(s, t);
        free(t);
        t = next;
    }
}

static void on_tick(uv_timer_t *t) {
    struct ps_server *s = t->data;
    const int64_t limit = (int64_t)s->opts.heartbeat_ms;
    for (uint32_t i = 0; i < s->opts.n_trainers; i++) {
        struct server_beat *b = s->beats[i];
        if (!b)
            continue;
        if (net_has_unacknowledged(b->conn)) {
            b->quiet_ms = (b->quiet_ms < 0 ? b->quiet_ms : 0) - TICK_MS;
            net_check_host(b->conn);
            continue;
        }
        b->quiet_ms += TICK_MS;
        if (b->quiet_ms >= ASK_MS && !net_queued_bytes(b->conn))
            (void)net_send(b->conn, WIRE_PS_BEAT, 0, 0, NULL, 0, NULL, NULL);
        if (b->quiet_ms > limit / 2)
            atomic_store(&s->doubted[i], b->incarnation);
        if (b->quiet_ms <= limit)
            continue;
        struct pd_err why = {0};
        pd_fail(&why, PD_EFAIL,
                "no sign of life for %.4g s: it is stopped, or its host hangs (heartbeat_timeout)",
                (double)s->opts.heartbeat_ms / 1000);
        if (!server_give_up(s, i, b->incarnation,
                            &why)) /* without memory, the next tick tries again */
            drop(b);
    }
}

int server_beat_doubts(const struct ps_server *s, uint32_t trainer, uint64_t incarnation) {
    return incarnation && atomic_load(&s->doubted[trainer]) == incarnation;
}

void server_beat_take(struct ps_server *s, struct net_moved *conn, uint32_t trainer,
                      uint64_t incarnation) {
    struct taken *t = conn->fd < 0 ? NULL : pd_calloc(1, sizeof *t);
    uv_mutex_lock(&s->lock);
    if (t && !s->beats_over) {
        *t = (struct taken){*conn, trainer, incarnation, s->taken};
        s->taken = t;
        uv_async_send(&s->beat_taken);
        t = NULL;
        *conn = (struct net_moved){.fd = -1};
    }
    uv_mutex_unlock(&s->lock);
    free(t);
    net_moved_drop(conn);
}

int server_beats_init(struct ps_server *s) {
    s->beats = pd_calloc(s->opts.n_trainers, sizeof(struct server_beat *));
    s->doubted = pd_calloc(s->opts.n_trainers, sizeof *s->doubted);
    if (!s->beats || !s->doubted)
        return PD_ENOMEM; /* ps_server_free frees both */
    uv_async_init(&s->loop, &s->beat_taken, on_taken);
    uv_timer_init(&s->loop, &s->beat_tick);
    s->beat_taken.data = s->beat_tick.data = s;
    if (s->opts.heartbeat_ms && s->opts.heartbeat_ms < PS_BEAT_LIMIT_MIN_MS)
        s->opts.heartbeat_ms = PS_BEAT_LIMIT_MIN_MS;
    if (s->opts.heartbeat_ms)
        uv_timer_start(&s->beat_tick, on_tick, TICK_MS, TICK_MS);
    return 0;
}

void server_beats_close(struct ps_server *s) {
    uv_mutex_lock(&s->lock);
    const int over = s->beats_over;
    struct taken *t = s->taken;
    s->beats_over = 1;
    s->taken = NULL;
    uv_mutex_unlock(&s->lock);
    while (t) {
        struct taken *next = t->next;
        net_moved_drop(&t->conn);
        free(t);
        t = next;
    }
    if (over || !s->beats)
        return;
    uv_close((uv_handle_t *)&s->beat_taken, NULL);
    uv_close((uv_handle_t *)&s->beat_tick, NULL);
    for (uint32_t i = 0; i < s->opts.n_trainers; i++)
        if (s->beats[i])
            drop(s->beats[i]);
}
