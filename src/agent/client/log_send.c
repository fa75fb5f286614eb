/* SPDX-License-Identifier: Apache-2.0 */
/* log_send.c - see log_send.h. Backpressure: a slow client has at most about HIGH_WATER bytes
 * queued here, and at most its window unacknowledged. All other bytes stay in the files. */
#include "agent/client/log_send.h"

#include "wire/client_bodies.h"
#include "wire/msg.h"

enum {
    HIGH_WATER = 1 << 20,
    PIECE = 65536,
    TIMES_MAX = 4096,         /* times in a frame */
    LINE_BACK_MAX = 8 << 20,  /* the search for a line's beginning stops after so many bytes */
    TAIL_BACK_MAX = 64 << 20, /* the search for the last lines stops after so many bytes */
};

struct subscription {
    int on;
    uint64_t offset, hint; /* the next byte to send */
    uint64_t window;       /* send at most so many bytes beyond `acked`; 0: no limit */
    uint64_t acked;
};

/* The subscriptions of one client. */
struct subscriptions {
    struct subscription of[N_LOG_STREAMS];
};

static struct logs *logs_of(const struct client *c) {
    const struct log_source *from = client_context(c, &log_send_service);
    return from->logs;
}

/* Reads at most PIECE bytes from sub->offset on. `*first_us` is the time of the first byte. Each
 * later change of the time adds an (offset, time) pair to `times`. */
static int read_piece(struct logs *l, int i, struct subscription *sub, char *piece, size_t *n,
                      uint64_t *first_us, struct pd_buf *times, struct pd_err *err) {
    size_t cap = PIECE, got;
    uint64_t time_us, last_us = 0;
    if (sub->window && sub->acked + sub->window - sub->offset < cap)
        cap = (size_t)(sub->acked + sub->window - sub->offset);
    *n = 0;
    while (*n < cap && times->len < TIMES_MAX * 16) {
        uint64_t at = sub->offset + *n;
        int rc = logs_read(l, (enum log_stream)i, at, piece + *n, cap - *n, &got, &time_us,
                           &sub->hint, err);
        if (rc)
            return *n ? 0 : rc; /* the bytes before the error are good; the next call reports it */
        if (!got)
            break;
        if (!*n)
            *first_us = last_us = time_us;
        if (time_us != last_us) {
            pd_put_u64(times, at);
            pd_put_u64(times, time_us);
            last_us = time_us;
        }
        *n += got;
    }
    return 0;
}

static int send_piece(struct client *c, struct subscription *sub, int i, struct pd_err *err) {
    const struct log_source *from = client_context(c, &log_send_service);
    char piece[PIECE];
    size_t n;
    uint64_t time_us = 0;
    struct pd_buf b = {0}, times = {0};
    int rc = read_piece(from->logs, i, sub, piece, &n, &time_us, &times, err);
    pd_put_u32(&b, (uint32_t)from->node);
    pd_put_u32(&b, (uint32_t)i);
    pd_put_u64(&b, sub->offset);
    pd_put_u64(&b, time_us);
    struct net_sec sec[3] = {{b.data, b.len}, {piece, n}, {times.data, times.len}};
    if (!rc && (b.failed || times.failed))
        rc = pd_oom(err, "a log subscription");
    else if (!rc && n)
        rc = client_send_raw(c, WIRE_AG_LOG, 0, sec, times.len ? 3 : 2);
    pd_buf_release(&b);
    pd_buf_release(&times);
    if (!rc)
        sub->offset += n;
    return rc;
}

static int may_send(const struct subscription *sub) {
    return !sub->window || sub->offset < sub->acked || sub->offset - sub->acked < sub->window;
}

/* Skips bytes that were rotated away; the client sees the gap. */
static void skip_to(struct subscription *sub, uint64_t first) {
    sub->offset = first;
    if (sub->acked < first)
        sub->acked = first;
}

/* 1: a piece was sent or skipped, and more may follow. */
static int send_stream(struct client *c, struct subscription *sub, int i, struct log_file *f) {
    struct pd_err err = {0};
    if (sub->offset < f->first)
        skip_to(sub, f->first);
    if (sub->offset >= f->size) {
        sub->on = !f->complete;
        if (f->complete)
            client_send(c, WIRE_AG_LOG_END, 0,
                        wire_put(&wire_ag_log_end, &(struct ag_log_end){.stream = log_names[i],
                                                                        .size = (int64_t)f->size}));
        return 0;
    }
    if (!may_send(sub))
        return 0;
    int rc = send_piece(c, sub, i, &err);
    /* PD_ENOENT: another process removed a file; the next call continues with the kept bytes. */
    if (rc && rc != PD_ENOENT) {
        pd_error(&client_core(c)->log, "%s", err.msg);
        sub->on = 0;
    }
    return !rc || rc == PD_ENOENT;
}

static void pump(struct client *c) {
    struct subscriptions *s = client_state(c, &log_send_service);
    struct logs *l = logs_of(c);
    for (int more = 1; more && l && client_is_open(c) && client_queued_bytes(c) < HIGH_WATER;) {
        more = 0;
        for (int i = 0; i < N_LOG_STREAMS; i++)
            more |= s->of[i].on && send_stream(c, &s->of[i], i, &l->f[i]);
    }
}

static void pump_one(struct client *c, void *arg) {
    (void)arg;
    pump(c);
}

void log_send_all(struct clients *all) { clients_each(all, pump_one, NULL); }

/* --- the start of a subscription --- */

/* Reads the bytes [from, from + n), regardless of their times. 0 or -1. */
static int read_span(struct logs *l, int i, uint64_t from, char *buf, size_t n) {
    uint64_t time_us, hint = 0;
    for (size_t at = 0, got; at < n; at += got)
        if (logs_read(l, (enum log_stream)i, from + at, buf + at, n - at, &got, &time_us, &hint,
                      NULL) ||
            !got)
            return -1;
    return 0;
}

/* The offset after the n_lines-th newline before `end`, counted backwards; at most `reach` bytes
 * back. */
static uint64_t lines_back(struct logs *l, int i, uint64_t end, int64_t n_lines, uint64_t reach) {
    uint64_t first = l->f[i].first, stop = end > first + reach ? end - reach : first, at = end;
    char buf[PIECE];
    while (at > stop) {
        size_t n = at - stop < sizeof buf ? (size_t)(at - stop) : sizeof buf;
        if (read_span(l, i, at - n, buf, n)) /* rotated away: the kept bytes begin here */
            return at;
        at -= n;
        for (size_t k = n; k > 0; k--)
            if (buf[k - 1] == '\n' && --n_lines == 0)
                return at + k;
    }
    return at;
}

/* The offset of the first byte that came at or after `since_us`. A binary search works, because
 * times ascend with the offsets. */
static uint64_t first_since(struct logs *l, int i, uint64_t since_us) {
    uint64_t lo = l->f[i].first, hi = l->f[i].size, time_us, hint;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        char byte;
        size_t got = 0;
        hint = 0;
        if (logs_read(l, (enum log_stream)i, mid, &byte, 1, &got, &time_us, &hint, NULL) || !got ||
            time_us < since_us)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t where_to_begin(struct logs *l, int i, uint64_t asked, uint64_t since_us,
                               int64_t tail) {
    uint64_t size = l->f[i].size, start = asked > l->f[i].first ? asked : l->f[i].first;
    if (since_us) {
        uint64_t at = lines_back(l, i, first_since(l, i, since_us), 1, LINE_BACK_MAX);
        start = at > start ? at : start;
    }
    if (tail && size) {
        char last = 0;
        read_span(l, i, size - 1, &last, 1);
        uint64_t at = lines_back(l, i, size, tail + (last == '\n'), TAIL_BACK_MAX);
        start = at > start ? at : start;
    }
    return start;
}

static int on_subscribe(struct client *c, const struct wire_frame *f, const json_t *body,
                        struct pd_err *err) {
    struct ag_log_subscribe m;
    struct subscriptions *s = client_state(c, &log_send_service);
    struct logs *l = logs_of(c);
    if (wire_get(&wire_ag_log_subscribe, &m, body, err))
        return err->code;
    if (!m.streams)
        return pd_fail(err, PD_EPROTO, "AG_LOG_SUBSCRIBE: there are no streams");
    if (m.onlooker)
        client_set_onlooker(c);
    json_t *answer = json_object();
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        if (!json_object_get(m.streams, log_names[i]))
            continue;
        uint64_t at = (uint64_t)msg_int(m.streams, log_names[i], 0, INT64_MAX / 2, 0);
        if (l)
            at = where_to_begin(l, i, at, (uint64_t)m.since_us, m.tail);
        s->of[i] = (struct subscription){
            .on = 1,
            .offset = at,
            .window = (uint64_t)m.window,
            .acked = (uint64_t)msg_int(m.acked, log_names[i], 0, (int64_t)at, (int64_t)at)};
        const struct log_begin b = {.start = (int64_t)at,
                                    .size = l ? (int64_t)l->f[i].size : 0,
                                    .ended = l ? l->f[i].complete : 0};
        json_object_set_new(answer, log_names[i], wire_put(&wire_log_begin, &b));
    }
    const struct ag_log_subscribe_answer a = {.streams = answer, .now_us = (int64_t)pd_wall_us()};
    if (f->req)
        client_send(c, f->type, f->req, wire_put(&wire_ag_log_subscribe_answer, &a));
    json_decref(answer);
    pump(c);
    return 0;
}

static int on_ack(struct client *c, const struct wire_frame *f, const json_t *body,
                  struct pd_err *err) {
    struct ag_log_ack m;
    struct subscriptions *s = client_state(c, &log_send_service);
    (void)f;
    if (wire_get(&wire_ag_log_ack, &m, body, err))
        return err->code;
    if (!m.streams)
        return pd_fail(err, PD_EPROTO, "AG_LOG_ACK: there are no streams");
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        struct subscription *sub = &s->of[i];
        uint64_t at = (uint64_t)msg_int(m.streams, log_names[i], 0, (int64_t)sub->offset, 0);
        if (at > sub->acked)
            sub->acked = at;
    }
    pump(c);
    return 0;
}

static const struct client_request requests[] = {
    {WIRE_AG_LOG_SUBSCRIBE, 1, 1, on_subscribe, NULL},
    {WIRE_AG_LOG_ACK, 1, 1, on_ack, NULL},
    {0},
};

const struct client_service log_send_service = {.name = "logs",
                                                .requests = requests,
                                                .state_size = sizeof(struct subscriptions),
                                                .on_drain = pump};
