/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. Source node * n_logs + k of the merge is the k-th shown log of the node.
 */
#include "launcher/follow/follow.h"

enum {
    N_STREAMS = 3,
    EVENTS = 2, /* streams: server.log, train.log, events, in the order of docs/protocol.md */
    HOLD_MS = 80,
    STALL_MS = 10000, /* see merge.h */
    MOVES_BYTES = 4096,
    PUMP_MS = 10,          /* frames that arrive within this time are processed together */
    WINDOW_ALL = 32 << 20, /* bytes in transfer or waiting, of all sources */
    WINDOW_MIN = 64 << 10,
    WINDOW_MAX = 1 << 20,
    ASK_MS = 60000,
    EVENTS_BACK = 20, /* number of earlier events to request */
    EVENT_LINE_MAX = 65536,
};

static const char *const names[N_STREAMS] = {"server.log", "train.log", "events"};
static const char *const roles[EVENTS] = {"pserver", "trainer"};

struct log_node {
    struct follow *f;
    unsigned id;
    struct link *link;     /* NULL: no open link */
    int begun, gone, told; /* `told`: on_done was called */
    int ended[N_STREAMS];
    uint64_t stop[EVENTS];  /* only_history: where each log ends */
    uint64_t acked[EVENTS]; /* offset of the last AG_LOG_ACK */
    struct pd_buf event;    /* an incomplete event line */
    uint64_t event_next;    /* offset of the next byte of events */
    int event_cut;          /* the beginning of the event line is missing */
};

struct follow {
    struct follow_opts o;
    struct log_node *nodes;
    unsigned log[EVENTS], n_logs; /* the streams that are shown */
    struct show_source *sources;
    struct merge *merge;
    struct show *show;
    uint64_t window, fed, fed_seen;
    int closed, flushing, history_over, told_broken;
    uv_timer_t pump;
    uv_async_t room;
};

static uint64_t now(const struct follow *f) { return uv_now(f->o.loop); }
static unsigned source_of(const struct follow *f, unsigned node, unsigned k) {
    return node * f->n_logs + k;
}

static void pump(struct follow *f);
static void on_pump(uv_timer_t *t) { pump(t->data); }
static void on_room(uv_async_t *a) { pump(a->data); }
/* Called in the thread of the view. */
static void wake(void *arg) { uv_async_send(&((struct follow *)arg)->room); }

static void pump_in(struct follow *f, uint64_t ms) {
    if (!f->closed &&
        (!uv_is_active((uv_handle_t *)&f->pump) || uv_timer_get_due_in(&f->pump) > ms))
        uv_timer_start(&f->pump, on_pump, ms, 0);
}

/* --- output of the merge --- */

static int on_line(void *arg, const struct merge_line *l) {
    struct follow *f = arg;
    int full = show_line(f->show, l, now(f));
    if (full)
        show_flush(f->show, 0, now(f));
    return full && !f->flushing && view_backlog(f->o.view) > VIEW_ROOM;
}

static void on_stall(void *arg, unsigned source) {
    struct follow *f = arg;
    view_printf(
        f->o.view,
        "%s sends its log slowly: the other logs continue, lines of this node may appear late",
        f->o.nodes[source / f->n_logs].host);
}

/* Acknowledge shown bytes to the node, a quarter of a window at a time. */
static void acknowledge(struct follow *f, struct log_node *n) {
    json_t *streams = NULL;
    for (unsigned k = 0; k < f->n_logs; k++) {
        uint64_t at = merge_ack_offset(f->merge, source_of(f, n->id, k));
        if (n->ended[f->log[k]] || at < n->acked[k] + f->window / 4)
            continue;
        n->acked[k] = at;
        if (!streams)
            streams = json_object();
        json_object_set_new(streams, names[f->log[k]], json_integer((json_int_t)at));
    }
    if (streams)
        link_send(n->link, WIRE_AG_LOG_ACK, 0,
                  wire_put(&wire_ag_log_ack, &(struct ag_log_ack){.streams = streams}), NULL, 0);
    json_decref(streams);
}

static void pump(struct follow *f) {
    uint64_t wait = UINT64_MAX, again;
    if (f->closed && !f->flushing)
        return;
    if (f->flushing || view_backlog(f->o.view) <= VIEW_ROOM)
        wait = merge_run(f->merge, now(f));
    if (!f->history_over && !merge_in_history(f->merge)) {
        f->history_over = 1;
        show_history_over(f->show, now(f));
    }
    again = show_flush(f->show, 0, now(f));
    for (unsigned i = 0; i < f->o.n_nodes && !f->flushing; i++)
        if (f->nodes[i].link)
            acknowledge(f, &f->nodes[i]);
    if (!f->told_broken && f->o.on_broken && view_is_broken(f->o.view)) {
        f->told_broken = 1;
        f->o.on_broken(f->o.arg);
    }
    wait = again < wait ? again : wait;
    if (wait != UINT64_MAX)
        pump_in(f, wait);
}

/* --- frames of the nodes --- */

static int is_done(const struct log_node *n) {
    const struct follow *f = n->f;
    int done = n->gone || !f->o.on_event || f->o.only_history || n->ended[EVENTS];
    for (unsigned k = 0; k < f->n_logs && !n->gone; k++)
        done &= n->ended[f->log[k]];
    return done;
}

static void check_done(struct log_node *n) {
    if (n->told || !is_done(n))
        return;
    n->told = 1;
    if (n->f->o.on_done)
        n->f->o.on_done(n->f->o.arg, n->id);
}

static void end_log(struct log_node *n, unsigned k) {
    n->ended[n->f->log[k]] = 1;
    merge_end(n->f->merge, source_of(n->f, n->id, k));
    pump_in(n->f, PUMP_MS);
}

static void take_log(struct log_node *n, unsigned k, uint64_t offset, uint64_t time_us,
                     const struct wire_frame *frame) {
    struct follow *f = n->f;
    size_t size = frame->len[1], n_times = frame->n_sec > 2 ? frame->len[2] / 16 : 0;
    if (f->o.only_history && offset + size > n->stop[k])
        size = offset < n->stop[k] ? (size_t)(n->stop[k] - offset) : 0;
    struct pd_reader r;
    pd_reader_init(&r, frame->sec[2], n_times * 16);
    for (size_t i = 0; i < n_times;
         i++, pd_get_u64(&r)) /* skip the times of bytes that are cut off */
        if (pd_get_u64(&r) >= offset + size)
            n_times = i;
    f->fed += size;
    int rc = merge_feed(f->merge, source_of(f, n->id, k), offset, time_us, frame->sec[1], size,
                        frame->sec[2], n_times, now(f));
    if (rc)
        view_printf(f->o.view, "%s: a part of its log cannot be used: %s", f->o.nodes[n->id].host,
                    pd_code_text(rc));
    if (f->o.only_history && offset + size >= n->stop[k] && !n->ended[f->log[k]])
        end_log(n, k);
    pump_in(f, PUMP_MS);
}

/* Pass complete lines to on_event. Events are small and rare, so they have no flow control. */
static void take_events(struct log_node *n, uint64_t offset, const char *p, size_t size) {
    uint64_t old = offset < n->event_next ? n->event_next - offset : 0;
    if (offset > n->event_next) {
        pd_buf_clear(&n->event);
        n->event_cut = n->event_next != 0;
    }
    if (old >= size)
        return;
    n->event_next = offset + size;
    p += old;
    size -= (size_t)old;
    for (const char *nl; (nl = memchr(p, '\n', size)); p = nl + 1) {
        pd_put(&n->event, p, (size_t)(nl - p));
        size -= (size_t)(nl + 1 - p);
        if (!n->event_cut && !n->event.failed)
            n->f->o.on_event(n->f->o.arg, n->id, (const char *)n->event.data, n->event.len);
        n->event_cut = n->event.failed = 0;
        pd_buf_clear(&n->event);
    }
    if (n->event.len + size > EVENT_LINE_MAX)
        n->event_cut = 1;
    else
        pd_put(&n->event, p, size);
}

static int shown_log(const struct follow *f, unsigned stream) {
    for (unsigned k = 0; k < f->n_logs; k++)
        if (f->log[k] == stream)
            return (int)k;
    return -1;
}

int follow_frame(struct follow *f, unsigned node, const struct wire_frame *frame,
                 const json_t *body) {
    struct log_node *n = &f->nodes[node];
    struct pd_reader r;
    if (frame->type == WIRE_AG_LOG_END) {
        struct ag_log_end end;
        const int ok = !wire_get(&wire_ag_log_end, &end, body, NULL);
        for (unsigned i = 0; ok && i < N_STREAMS; i++) {
            if (strcmp(end.stream, names[i]) || n->ended[i])
                continue;
            n->ended[i] = 1;
            if (shown_log(f, i) >= 0)
                end_log(n, (unsigned)shown_log(f, i));
        }
        check_done(n);
        return 1;
    }
    if (frame->type != WIRE_AG_LOG)
        return 0;
    pd_reader_init(&r, frame->sec[0], frame->len[0]);
    pd_get_u32(&r); /* node id, known from the connection */
    unsigned stream = pd_get_u32(&r);
    uint64_t offset = pd_get_u64(&r), time_us = pd_get_u64(&r);
    if (r.failed || frame->n_sec < 2 || stream >= N_STREAMS ||
        offset > INT64_MAX) /* a stream of a later version */
        return 1;
    if (stream == EVENTS && f->o.on_event)
        take_events(n, offset, (const char *)frame->sec[1], frame->len[1]);
    else if (shown_log(f, stream) >= 0)
        take_log(n, (unsigned)shown_log(f, stream), offset, time_us, frame);
    check_done(n);
    return 1;
}

/* --- subscriptions --- */

static int on_subscribed(struct link *l, const struct wire_frame *frame, json_t *body,
                         const struct pd_err *err, void *arg) {
    struct log_node *n = arg;
    struct follow *f = n->f;
    (void)frame;
    if (n->link != l ||
        (err && err->code == PD_ECLOSED)) /* a new subscription follows, or the node is gone */
        return 1;
    struct ag_log_subscribe_answer a;
    struct pd_err bad = {0};
    if (!err && wire_get(&wire_ag_log_subscribe_answer, &a, body, &bad))
        err = &bad;
    if (err) {
        if (f->o.on_fail)
            f->o.on_fail(f->o.arg, n->id, err);
        follow_gone(f, n->id);
        return 1;
    }
    int begins_late = f->o.show.since_us || f->o.show.tail;
    for (unsigned k = 0; k < f->n_logs; k++) {
        if (n->ended[f->log[k]])
            continue;
        struct log_begin at = {.start = 0};
        (void)wire_get(&wire_log_begin, &at, json_object_get(a.streams, names[f->log[k]]), NULL);
        uint64_t start = (uint64_t)at.start;
        const uint64_t size = (uint64_t)at.size;
        unsigned source = source_of(f, n->id, k);
        if (n->begun)
            start = merge_next_offset(f->merge, source);
        else if (!begins_late)
            start = 0; /* the merge reports missing bytes */
        if (start < merge_next_offset(f->merge, source))
            start = merge_next_offset(f->merge, source);
        n->stop[k] = n->begun ? n->stop[k] : size;
        merge_begin(f->merge, source, start, n->begun ? 0 : size, (uint64_t)a.now_us, now(f));
        n->acked[k] = merge_ack_offset(f->merge, source);
        if (f->o.only_history && start >= n->stop[k])
            end_log(n, k);
    }
    n->begun = 1;
    pump_in(f, 0);
    check_done(n);
    return 1;
}

static void ask_events(struct log_node *n) {
    json_t *streams = json_pack("{s:I}", names[EVENTS], (json_int_t)n->event_next);
    const struct ag_log_subscribe m = {.streams = streams, .tail = n->begun ? 0 : EVENTS_BACK};
    link_send(n->link, WIRE_AG_LOG_SUBSCRIBE, 0, wire_put(&wire_ag_log_subscribe, &m), NULL, 0);
    json_decref(streams);
}

void follow_begin(struct follow *f, unsigned node, struct link *l) {
    struct log_node *n = &f->nodes[node];
    n->link = l;
    if (f->o.on_event && !n->ended[EVENTS])
        ask_events(n);
    json_t *streams = json_object(), *acked = json_object();
    for (unsigned k = 0; k < f->n_logs; k++) {
        unsigned source = source_of(f, node, k);
        if (n->ended[f->log[k]])
            continue;
        json_object_set_new(
            streams, names[f->log[k]],
            json_integer((json_int_t)(n->begun ? merge_next_offset(f->merge, source) : 0)));
        json_object_set_new(
            acked, names[f->log[k]],
            json_integer((json_int_t)(n->begun ? merge_ack_offset(f->merge, source) : 0)));
    }
    /* The last N lines of all nodes are among the last N lines of each node. With a pattern or
     * --until this does not hold. */
    const int tail_of_each =
        !f->o.show.grep && !f->o.show.until_us && f->o.show.tail <= WIRE_MAX_TAIL;
    const struct ag_log_subscribe m = {.streams = streams,
                                       .window = (int64_t)f->window,
                                       .acked = n->begun ? acked : NULL,
                                       .since_us = n->begun ? 0 : (int64_t)f->o.show.since_us,
                                       .tail = !n->begun && tail_of_each ? f->o.show.tail : 0,
                                       .onlooker = f->o.onlooker};
    link_request(l, WIRE_AG_LOG_SUBSCRIBE, wire_put(&wire_ag_log_subscribe, &m), NULL, 0, ASK_MS,
                 "asking for the logs", on_subscribed, n);
    json_decref(streams);
    json_decref(acked);
}

void follow_lost(struct follow *f, unsigned node) {
    f->nodes[node].link = NULL;
    for (unsigned k = 0; k < f->n_logs && f->nodes[node].begun; k++)
        merge_disconnect(f->merge, source_of(f, node, k));
    pump_in(f, 0);
}

void follow_gone(struct follow *f, unsigned node) {
    struct log_node *n = &f->nodes[node];
    n->link = NULL;
    n->gone = 1;
    for (unsigned k = 0; k < f->n_logs; k++)
        merge_end(f->merge, source_of(f, node, k));
    pump_in(f, 0);
    check_done(n);
}

int follow_is_done(const struct follow *f, unsigned node) { return is_done(&f->nodes[node]); }

int follow_is_shown(const struct follow *f) {
    for (unsigned i = 0; i < f->o.n_nodes; i++) {
        if (!is_done(&f->nodes[i]))
            return 0;
        for (unsigned k = 0; k < f->n_logs; k++)
            if (!merge_is_empty(f->merge, source_of(f, i, k)))
                return 0;
    }
    return 1;
}

/* A trickle is no movement: a broken node could send it for ever. */
int follow_is_moving(struct follow *f) {
    int moving = f->fed - f->fed_seen >= MOVES_BYTES ||
                 (view_backlog(f->o.view) > 0 && !view_is_broken(f->o.view));
    f->fed_seen = f->fed;
    return moving;
}

/* --- creation and end --- */

void follow_starting(struct follow *f, int starting) { show_starting(f->show, starting, now(f)); }

void follow_flush(struct follow *f) {
    f->flushing = 1;
    for (unsigned i = 0; i < f->o.n_nodes * f->n_logs; i++)
        merge_end(f->merge, i);
    merge_run(f->merge, now(f) + HOLD_MS);
    show_history_over(f->show, now(f));
    show_flush(f->show, 1, now(f));
}

size_t follow_peak_bytes(const struct follow *f) { return merge_peak_bytes(f->merge); }

void follow_close(struct follow *f) {
    if (f->closed)
        return;
    f->closed = 1;
    view_on_room(f->o.view, NULL, NULL);
    uv_close((uv_handle_t *)&f->pump, NULL);
    uv_close((uv_handle_t *)&f->room, NULL);
}

void follow_free(struct follow *f) {
    if (!f)
        return;
    for (unsigned i = 0; f->nodes && i < f->o.n_nodes; i++)
        pd_buf_release(&f->nodes[i].event);
    show_free(f->show);
    merge_free(f->merge);
    free(f->sources);
    free(f->nodes);
    free(f);
}

static int make_parts(struct follow *f, struct pd_err *err) {
    unsigned n = f->o.n_nodes * f->n_logs;
    f->nodes = pd_calloc(f->o.n_nodes ? f->o.n_nodes : 1, sizeof *f->nodes);
    f->sources = pd_calloc(n ? n : 1, sizeof *f->sources);
    if (!f->nodes || !f->sources)
        return pd_oom(err, "the logs");
    for (unsigned i = 0; i < f->o.n_nodes; i++) {
        f->nodes[i].f = f;
        f->nodes[i].id = i;
        pd_buf_init(&f->nodes[i].event);
        for (unsigned k = 0; k < f->n_logs; k++)
            f->sources[source_of(f, i, k)] = (struct show_source){.node = i,
                                                                  .host = f->o.nodes[i].host,
                                                                  .role = roles[f->log[k]],
                                                                  .stream = names[f->log[k]]};
    }
    struct show_opts so = f->o.show;
    so.sources = f->sources;
    so.n_sources = n;
    const struct merge_opts mo = {.n_sources = n,
                                  .hold_ms = HOLD_MS,
                                  .stall_ms = STALL_MS,
                                  .ev = {on_line, on_stall},
                                  .arg = f};
    int rc = show_new(&f->show, f->o.view, &so, err);
    return rc ? rc : merge_new(&f->merge, &mo, err);
}

int follow_new(struct follow **out, const struct follow_opts *o, struct pd_err *err) {
    struct follow *f = pd_calloc(1, sizeof *f);
    if (!f)
        return pd_oom(err, "the logs");
    f->o = *o;
    for (unsigned i = 0; i < EVENTS; i++)
        if (o->streams & 1u << i)
            f->log[f->n_logs++] = i;
    int rc = make_parts(f, err);
    if (rc) {
        follow_free(f);
        return rc;
    }
    unsigned n_sources = o->n_nodes * f->n_logs;
    uint64_t share = WINDOW_ALL / (n_sources ? n_sources : 1);
    f->window = share < WINDOW_MIN ? WINDOW_MIN : share > WINDOW_MAX ? WINDOW_MAX : share;
    uv_timer_init(o->loop, &f->pump);
    uv_async_init(o->loop, &f->room, on_room);
    f->pump.data = f->room.data = f;
    view_on_room(o->view, wake, f);
    for (unsigned i = 0; i < o->n_nodes; i++) {
        f->nodes[i].gone = f->nodes[i].told = o->nodes[i].skip;
        for (unsigned k = 0; k < f->n_logs && o->nodes[i].skip; k++)
            merge_end(f->merge, source_of(f, i, k));
    }
    *out = f;
    return 0;
}
