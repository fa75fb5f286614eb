/* share.c - see share.h. */
#include "net/share.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "net/arena.h"
#include "net/internal.h"
#include "wire/msg.h"

struct net_share {
    atomic_uint refs; /* the connection's, and one of each frame */
    struct net_arena *ours, *theirs;
    int sending;
};

void net_share_drop(struct net_share *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    net_arena_free(s->ours);
    net_arena_free(s->theirs);
    free(s);
}

int net_share_sends(const struct net_share *s) { return s && s->sending; }

int net_shares(const struct net_conn *c) { return net_share_sends(c->share); }

/* --- what the decoder asks --- */

static uint8_t *frame_at(void *arg, uint64_t offset, uint64_t n) {
    struct net_share *s = arg;
    uint8_t *p = net_arena_at(s->theirs, offset, n);
    if (p)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return p;
}

static void frame_done(void *arg, uint32_t turn) {
    struct net_share *s = arg;
    net_arena_give_back(s->ours, turn);
    net_share_drop(s);
}

/* --- getting there --- */

static int begin(struct net_conn *c, struct net_arena_name *name) {
    struct net_share *s = pd_calloc(1, sizeof *s);
    if (!s || net_arena_new(&s->ours, name)) {
        free(s);
        return PD_ENOMEM;
    }
    atomic_init(&s->refs, 1);
    c->share = s;
    return 0;
}

static void end(struct net_conn *c) {
    wire_decoder_elsewhere(c->decoder, NULL);
    net_share_drop(c->share);
    c->share = NULL;
}

static void say(struct net_conn *c, uint16_t type, const struct pd_buf *b) {
    const struct net_sec sec = {b->data, b->len};
    (void)net_send(c, type, 0, 0, &sec, 1, NULL, NULL);
}

/* u32 pid, u32 fd, u64 bytes, 16 bytes that stand at its beginning */
static void offer(struct net_conn *c, const struct net_arena_name *name) {
    struct pd_buf b;
    pd_buf_init(&b);
    pd_put_u32(&b, name->pid);
    pd_put_u32(&b, name->fd);
    pd_put_u64(&b, name->bytes);
    pd_put(&b, name->secret, sizeof name->secret);
    if (!b.failed)
        say(c, WIRE_HS_SHARE, &b);
    pd_buf_release(&b);
}

static void answer(struct net_conn *c, uint32_t found) {
    struct pd_buf b;
    pd_buf_init(&b);
    pd_put_u32(&b, found);
    if (!b.failed)
        say(c, WIRE_HS_SHARED, &b);
    pd_buf_release(&b);
}

void net_share(struct net_conn *c) {
    struct net_arena_name name;
    if (c->closing || c->share || !c->opts.share || !net_same_machine(c->in) || begin(c, &name))
        return;
    offer(c, &name);
}

static void receive(struct net_conn *c) {
    const struct wire_elsewhere e = {frame_at, frame_done, c->share};
    wire_decoder_elsewhere(c->decoder, &e);
}

/* The connector has begun with its own arena before this comes, the acceptor has none yet. */
static int on_offer(struct net_conn *c, const struct wire_frame *f, struct pd_err *err) {
    const int connector = c->share != NULL;
    struct net_arena_name name, own;
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    name.pid = pd_get_u32(&r);
    name.fd = pd_get_u32(&r);
    name.bytes = pd_get_u64(&r);
    const uint8_t *secret = pd_get(&r, sizeof name.secret);
    if (secret)
        memcpy(name.secret, secret, sizeof name.secret);
    if (!pd_rd_done(&r) || (connector && c->share->theirs))
        return pd_fail(err, PD_EPROTO, "HS_SHARE of %zu bytes", f->len[0]);
    if (!connector && (!net_same_machine(c->in) || begin(c, &own))) {
        answer(c, 0);
        return 0;
    }
    if (net_arena_open(&c->share->theirs, &name)) {
        end(c);
        answer(c, 0);
        return 0;
    }
    receive(c);
    if (!connector) {
        offer(c, &own);
        return 0;
    }
    answer(c, 1);
    c->share->sending = 1;
    return 0;
}

static int on_answer(struct net_conn *c, const struct wire_frame *f, struct pd_err *err) {
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    const uint32_t found = pd_get_u32(&r);
    if (!pd_rd_done(&r) || found > 1 || !c->share || c->share->sending || (found && !c->share->theirs))
        return pd_fail(err, PD_EPROTO, "HS_SHARED of %zu bytes", f->len[0]);
    if (!found) {
        end(c);
        return 0;
    }
    c->share->sending = 1;
    return 0;
}

int net_share_frame(struct net_conn *c, const struct wire_frame *f, struct pd_err *err) {
    return f->type == WIRE_HS_SHARE ? on_offer(c, f, err) : on_answer(c, f, err);
}

/* --- sending --- */

int net_share_put(struct net_share *s, uint16_t type, uint16_t flags, uint64_t req, const struct net_sec *sec, uint32_t n_sec,
                  const size_t *len, uint8_t wire[WIRE_HEADER + WIRE_ELSEWHERE]) {
    size_t n = 0;
    uint64_t offset;
    uint32_t turn;
    for (uint32_t i = 0; i < n_sec; i++)
        n += len[i] + wire_pad(len[i]);
    uint8_t *to = net_arena_take(s->ours, s->theirs, n, &offset, &turn);
    if (!to)
        return 0;
    for (uint32_t i = 0; i < n_sec; i++) {
        if (len[i])
            memcpy(to, sec[i].p, len[i]);
        memset(to + len[i], 0, wire_pad(len[i]));
        to += len[i] + wire_pad(len[i]);
    }
    wire_header_elsewhere(wire, type, flags, req, n_sec, len, offset, turn);
    return 1;
}
