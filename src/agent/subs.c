/* subs.c - log subscriptions: what is in the files goes to whoever asked for it, from the offset asked for. A
 * client that reads slowly has at most HIGH_WATER bytes queued; the rest waits in the files. */
#include <string.h>

#include "agent/job.h"
#include "agent/session.h"
#include "base/buf.h"
#include "wire/msg.h"

enum { HIGH_WATER = 1 << 20, PIECE = 65536 };

static int send_piece(struct session *s, struct logs *l, int i, struct pd_err *err) {
    struct subscription *sub = &s->subs[i];
    char piece[PIECE];
    size_t n;
    uint64_t time_us;
    int rc = logs_read(l, (enum log_stream)i, sub->offset, piece, sizeof piece, &n, &time_us, &sub->hint, err);
    if (rc || !n)
        return rc;
    struct pd_buf b;
    pd_buf_init(&b);
    pd_put_u32(&b, (uint32_t)agent_node(s->ag));
    pd_put_u32(&b, (uint32_t)i);
    pd_put_u64(&b, sub->offset);
    pd_put_u64(&b, time_us);
    struct net_sec sec[2] = {{b.data, b.len}, {piece, n}};
    rc = b.failed ? PD_ENOMEM : net_send(s->conn, WIRE_AG_LOG, 0, 0, sec, 2, NULL, NULL);
    pd_buf_release(&b);
    if (!rc)
        sub->offset += n;
    return rc;
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
            if (sub->offset < l->f[i].size) {
                if (send_piece(s, l, i, &err)) {
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

int subs_on_subscribe(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    (void)f;
    const json_t *streams = json_object_get(body, "streams");
    if (!json_is_object(streams))
        return pd_fail(err, PD_EPROTO, "AG_LOG_SUBSCRIBE: there are no streams");
    for (int i = 0; i < N_LOG_STREAMS; i++)
        if (json_object_get(streams, log_names[i]))
            s->subs[i] = (struct subscription){.on = 1, .offset = (uint64_t)msg_int(streams, log_names[i], 0, INT64_MAX, 0)};
    subs_pump(s);
    return 0;
}
