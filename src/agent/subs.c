/* subs.c - log subscriptions: what is in the files goes to whoever asked for it, from the place asked for. A client that
 * reads slowly has at most HIGH_WATER bytes queued here, and at most its window unacknowledged; the rest waits in the
 * files. */
#include <string.h>

#include "agent/job.h"
#include "agent/session.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "wire/msg.h"

enum {
    HIGH_WATER = 1 << 20,
    PIECE = 65536,
    TIMES_MAX = 4096,         /* times a frame carries */
    LINE_BACK_MAX = 8 << 20,  /* how far back a line's beginning is looked for */
    TAIL_LINES_MAX = 10000,
    TAIL_BACK_MAX = 64 << 20, /* ... and the last lines */
};

/* Bytes from sub->offset on, at most PIECE, whenever they came; the times of all but the first go to `times`. */
static int read_piece(struct logs *l, int i, struct subscription *sub, char *piece, size_t *n, uint64_t *first_us,
                      struct pd_buf *times, struct pd_err *err) {
    size_t cap = PIECE, got;
    uint64_t time_us, last_us = 0;
    if (sub->window && sub->acked + sub->window - sub->offset < cap)
        cap = (size_t)(sub->acked + sub->window - sub->offset);
    *n = 0;
    while (*n < cap && times->len < TIMES_MAX * 16) {
        uint64_t at = sub->offset + *n;
        int rc = logs_read(l, (enum log_stream)i, at, piece + *n, cap - *n, &got, &time_us, &sub->hint, err);
        if (rc)
            return *n ? 0 : rc; /* what came before it is good; the next try tells */
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

static int send_piece(struct session *s, struct logs *l, int i, struct pd_err *err) {
    struct subscription *sub = &s->subs[i];
    char piece[PIECE];
    size_t n;
    uint64_t time_us = 0;
    struct pd_buf b, times;
    pd_buf_init(&b);
    pd_buf_init(&times);
    int rc = read_piece(l, i, sub, piece, &n, &time_us, &times, err);
    pd_put_u32(&b, (uint32_t)agent_node(s->ag));
    pd_put_u32(&b, (uint32_t)i);
    pd_put_u64(&b, sub->offset);
    pd_put_u64(&b, time_us);
    struct net_sec sec[3] = {{b.data, b.len}, {piece, n}, {times.data, times.len}};
    if (!rc && (b.failed || times.failed))
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
    else if (!rc && n)
        rc = net_send(s->conn, WIRE_AG_LOG, 0, 0, sec, times.len ? 3 : 2, NULL, NULL);
    pd_buf_release(&b);
    pd_buf_release(&times);
    if (!rc)
        sub->offset += n;
    return rc;
}

static int may_send(const struct subscription *sub) {
    return !sub->window || sub->offset < sub->acked || sub->offset - sub->acked < sub->window;
}

/* What was rotated away is not waited for; the client sees the gap. */
static void skip_to(struct subscription *sub, uint64_t first) {
    sub->offset = first;
    if (sub->acked < first)
        sub->acked = first;
}

void subs_pump(struct session *s) {
    struct logs *l = agent_logs(s->ag);
    struct pd_err err = {0};
    int more = 1;
    while (more && s->conn && l && net_queued_bytes(s->conn) < HIGH_WATER) {
        more = 0;
        for (int i = 0; i < N_LOG_STREAMS; i++) {
            struct subscription *sub = &s->subs[i];
            if (!sub->on)
                continue;
            if (sub->offset < l->f[i].first)
                skip_to(sub, l->f[i].first);
            if (sub->offset < l->f[i].size) {
                if (!may_send(sub))
                    continue;
                int rc = send_piece(s, l, i, &err);
                if (rc == PD_ENOENT) { /* somebody removed a file: on with what is left */
                    pd_err_clear(&err);
                } else if (rc) {
                    pd_error(&s->ag->log, "%s", err.msg);
                    sub->on = 0;
                    continue;
                }
                more = 1;
            } else if (l->f[i].complete) {
                sub->on = 0;
                msg_send(s->conn, WIRE_AG_LOG_END, 0,
                         json_pack("{s:s, s:I}", "stream", log_names[i], "size", (json_int_t)l->f[i].size));
            }
        }
    }
}

/* --- where a subscription begins ------------------------------------------------------------------------------ */

/* The bytes [from, from + n), whenever they came; 0 or -1. */
static int read_span(struct logs *l, int i, uint64_t from, char *buf, size_t n) {
    uint64_t time_us, hint = 0;
    for (size_t at = 0, got; at < n; at += got)
        if (logs_read(l, (enum log_stream)i, from + at, buf + at, n - at, &got, &time_us, &hint, NULL) || !got)
            return -1;
    return 0;
}

/* Behind the n_lines-th newline before `end`; not further back than `reach` bytes. */
static uint64_t lines_back(struct logs *l, int i, uint64_t end, int64_t n_lines, uint64_t reach) {
    uint64_t first = l->f[i].first, stop = end > first + reach ? end - reach : first, at = end;
    char buf[PIECE];
    while (at > stop) {
        size_t n = at - stop < sizeof buf ? (size_t)(at - stop) : sizeof buf;
        if (read_span(l, i, at - n, buf, n)) /* rotated away: what is left begins here */
            return at;
        at -= n;
        for (size_t k = n; k > 0; k--)
            if (buf[k - 1] == '\n' && --n_lines == 0)
                return at + k;
    }
    return at;
}

/* The first byte that came at or after `since_us`: times ascend with the offsets. */
static uint64_t first_since(struct logs *l, int i, uint64_t since_us) {
    uint64_t lo = l->f[i].first, hi = l->f[i].size, time_us, hint;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        char byte;
        size_t got = 0;
        hint = 0;
        if (logs_read(l, (enum log_stream)i, mid, &byte, 1, &got, &time_us, &hint, NULL) || !got || time_us < since_us)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t where_to_begin(struct logs *l, int i, uint64_t asked, uint64_t since_us, int64_t tail) {
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

int subs_on_subscribe(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    const json_t *streams = json_object_get(body, "streams"), *acked = json_object_get(body, "acked");
    struct logs *l = agent_logs(s->ag);
    uint64_t since = (uint64_t)msg_int(body, "since_us", 0, INT64_MAX, 0);
    int64_t tail = msg_int(body, "tail", 0, TAIL_LINES_MAX, 0);
    if (!json_is_object(streams))
        return pd_fail(err, PD_EPROTO, "AG_LOG_SUBSCRIBE: there are no streams");
    s->onlooker |= msg_bool(body, "onlooker");
    json_t *answer = json_object();
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        if (!json_object_get(streams, log_names[i]))
            continue;
        uint64_t at = (uint64_t)msg_int(streams, log_names[i], 0, INT64_MAX / 2, 0);
        if (l)
            at = where_to_begin(l, i, at, since, tail);
        s->subs[i] = (struct subscription){.on = 1, .offset = at, .window = (uint64_t)msg_int(body, "window", 0, INT64_MAX / 4, 0),
                                           .acked = (uint64_t)msg_int(acked, log_names[i], 0, (int64_t)at, (int64_t)at)};
        json_object_set_new(answer, log_names[i],
                            json_pack("{s:I, s:I, s:b}", "start", (json_int_t)at, "size", (json_int_t)(l ? l->f[i].size : 0),
                                      "ended", l ? l->f[i].complete : 0));
    }
    if (f->req)
        msg_send(s->conn, WIRE_AG_LOG_SUBSCRIBE, f->req,
                 json_pack("{s:O, s:I}", "streams", answer, "now_us", (json_int_t)pd_wall_us()));
    json_decref(answer);
    subs_pump(s);
    return 0;
}

int subs_on_ack(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    const json_t *streams = json_object_get(body, "streams");
    (void)f;
    if (!json_is_object(streams))
        return pd_fail(err, PD_EPROTO, "AG_LOG_ACK: there are no streams");
    for (int i = 0; i < N_LOG_STREAMS; i++) {
        struct subscription *sub = &s->subs[i];
        uint64_t at = (uint64_t)msg_int(streams, log_names[i], 0, (int64_t)sub->offset, 0);
        if (at > sub->acked)
            sub->acked = at;
    }
    subs_pump(s);
    return 0;
}
