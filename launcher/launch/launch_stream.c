/* SPDX-License-Identifier: Apache-2.0 */
/* launch_stream.c - a command on a node as a transport. It waits for a call of its node, which it
 * then has for itself. */
#include "launcher/launch/launch_internal.h"

enum { STREAM_PIECE = 256 << 10 };

struct launch_stream {
    struct transport base; /* must be first: the public pointer points here */
    struct launch *l;
    int node, plain;
    char *line;
    struct launch_call *call;   /* NULL: waits, or over */
    struct launch_stream *next; /* of those that wait for a call of the same node */
    uv_timer_t timer;           /* the limit of the wait; then a turn of the loop */
    int waits, closed, is_open;
    struct pd_err why;
};

static void on_timer_closed(uv_handle_t *h) {
    struct launch_stream *s = h->data;
    s->base.ev->on_close(&s->why, s->base.arg);
    transport_release(&s->base);
    free(s->line);
    free(s);
}

static void leave_queue(struct launch_stream *s) {
    struct launch_node *n = &s->l->nodes[s->node];
    struct launch_stream **at = &n->first;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    s->waits = 0;
}

/* Without a call, or when it is closed. */
static void finish(struct launch_stream *s) {
    if (s->waits)
        leave_queue(s);
    if (!uv_is_closing((uv_handle_t *)&s->timer))
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static void fail(struct launch_stream *s, const struct pd_err *why) {
    if (s->closed)
        return;
    s->closed = 1;
    s->why = *why;
    if (s->call)
        net_close(s->call->conn);
    else
        finish(s);
}

static void on_late(uv_timer_t *t) {
    struct launch_stream *s = t->data;
    struct pd_err why = {0};
    pd_fail(&why, PD_ETIMEOUT, "rank %d (host %s) has not called back within %.3g s", s->node,
            s->l->nodes[s->node].host, (double)s->l->o.timeout_ms / 1000);
    fail(s, &why);
}

static void no_memory(struct launch_stream *s) {
    struct pd_err why = {0};
    pd_oom(&why, "a command on a node");
    fail(s, &why);
}

static void on_begun(uv_timer_t *t) {
    struct launch_stream *s = t->data;
    if (s->closed)
        return;
    s->is_open = 1;
    s->base.ev->on_open(s->base.arg);
}

void launch_take_call(struct launch *l, int node) {
    struct launch_node *n = &l->nodes[node];
    struct launch_stream *s = n->first;
    if (!s || !n->call)
        return;
    const struct cb_open o = {.line = s->line, .plain = s->plain};
    leave_queue(s);
    s->call = n->call;
    s->call->stream = s;
    n->call = NULL;
    net_background(s->call->conn, 0);
    if (launch_send(s->call->conn, WIRE_CB_OPEN, wire_put(&wire_cb_open, &o)))
        no_memory(s);
    else
        uv_timer_start(&s->timer, on_begun, 0, 0);
}

static void give_back(struct launch_stream *s) {
    struct launch_call *k = s->call;
    s->call = NULL;
    k->stream = NULL;
    net_background(k->conn, 1);
    launch_call_waits(k);
}

static void take_end(struct launch_stream *s, const json_t *body) {
    struct cb_end end;
    struct pd_err why = {0};
    if (wire_get(&wire_cb_end, &end, body, &why)) {
        fail(s, &why);
        return;
    }
    s->base.status = (int)end.status;
    if (end.signal) {
        const char *name = sigabbrev_np((int)end.signal);
        snprintf(s->base.signal, sizeof s->base.signal, "%s", name ? name : "?");
    }
    transport_ended(&s->base, &why);
    if (end.waits)
        give_back(s);
    fail(s, &why);
}

void launch_stream_frame(struct launch_stream *s, const struct wire_frame *f, const json_t *body) {
    struct pd_err why = {0};
    if (s->closed)
        return;
    if (f->flags & WIRE_F_ERROR) {
        wire_error_get(f, &why);
        fail(s, &why);
    } else if (f->type == WIRE_CB_END) {
        take_end(s, body);
    } else if (f->n_sec && f->type == WIRE_CB_ERR) {
        transport_add_stderr(&s->base, f->sec[0], f->len[0]);
    } else if (f->n_sec && f->type == WIRE_CB_OUT) {
        s->base.ev->on_bytes(f->sec[0], f->len[0], s->base.arg);
    }
}

void launch_stream_drained(struct launch_stream *s) {
    s->base.queued = net_queued_bytes(s->call->conn);
    if (s->is_open && !s->closed && s->base.ev->on_drain)
        s->base.ev->on_drain(s->base.arg);
}

void launch_stream_lost(struct launch_stream *s, const struct pd_err *why) {
    s->call = NULL;
    if (!s->closed) {
        s->closed = 1;
        pd_fail(&s->why, PD_ECLOSED, "the connection was lost: %s", why->msg);
    }
    finish(s);
}

void launch_fail_streams(struct launch *l) {
    for (struct launch_call *k = l->calls; k; k = k->next)
        if (k->stream)
            fail(k->stream, &l->why);
    for (int i = 0; i < l->n_nodes; i++)
        while (l->nodes[i].first)
            fail(l->nodes[i].first, &l->why);
}

static int stream_write(struct transport *t, const void *p, size_t n) {
    struct launch_stream *s = (struct launch_stream *)t;
    const char *at = p;
    int rc = 0;
    while (n && s->call && !s->closed && !rc) {
        const struct net_sec sec = {at, n < STREAM_PIECE ? n : STREAM_PIECE};
        rc = net_send(s->call->conn, WIRE_CB_OUT, 0, 0, &sec, 1, NULL, NULL);
        at += sec.n;
        n -= sec.n;
        t->queued = net_queued_bytes(s->call->conn);
    }
    return rc == PD_ENOMEM ? rc : 0; /* a broken connection is reported by on_close */
}

static void stream_eof(struct transport *t) {
    struct launch_stream *s = (struct launch_stream *)t;
    if (s->call && !s->closed && launch_send(s->call->conn, WIRE_CB_EOF, json_object()))
        no_memory(s);
}

static void stream_close(struct transport *t) {
    struct launch_stream *s = (struct launch_stream *)t;
    static const struct pd_err none;
    fail(s, &none);
}

int launch_open(struct transport **out, struct launch *l, int node, const char *line,
                const struct transport_events *ev, void *arg, struct pd_err *err) {
    const int rank = l->rank_of ? l->rank_of[node] : node;
    struct launch_stream *s = pd_calloc(1, sizeof *s), **at = &l->nodes[rank].first;
    if (!s || !(s->line = pd_strdup(line))) {
        free(s);
        return pd_oom(err, "a command on a node");
    }
    transport_init(&s->base, ev, arg);
    s->base.write = stream_write;
    s->base.eof = stream_eof;
    s->base.close = stream_close;
    s->l = l;
    s->node = rank;
    s->plain = ev->on_stderr != NULL;
    uv_timer_init(l->loop, &s->timer);
    s->timer.data = s;
    while (*at)
        at = &(*at)->next;
    *at = s;
    s->waits = 1;
    *out = &s->base;
    if (l->ended) {
        fail(s, &l->why);
    } else {
        uv_timer_start(&s->timer, on_late, l->o.timeout_ms, 0);
        launch_take_call(l, rank);
    }
    return 0;
}
