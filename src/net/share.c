/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - see share.h. */
#include "net/share.h"

#include "net/shm/arena.h"
#include "net/conn_internal.h"
#include "wire/msg.h"

struct net_share {
    atomic_uint refs; /* one of the connection, one of each frame */
    struct net_arena *ours, *theirs;
    const struct net_region *region; /* own region to lend from, or NULL */
    struct net_memory lent;          /* the peer's region; map NULL: none */
    int sending;
};

static void unref_share(struct net_share *s) {
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    net_arena_free(s->ours);
    net_arena_free(s->theirs);
    net_memory_free(&s->lent);
    free(s);
}

int net_share_sends(const struct net_share *s) { return s && s->sending; }

void net_lend(struct net_conn *c, const struct net_region *r) { c->region = r; }

int net_is_shared(const struct net_conn *c) { return net_share_sends(c->share); }

/* --- callbacks of the decoder --- */

static uint8_t *frame_at(void *arg, uint64_t offset, uint64_t n) {
    struct net_share *s = arg;
    uint8_t *p = net_arena_bytes(s->theirs, offset, n);
    if (p)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return p;
}

static uint8_t *lent_at(void *arg, uint64_t offset, uint64_t n) {
    const struct net_memory *m = &((struct net_share *)arg)->lent;
    return m->map && offset >= NET_MEMORY_DATA && offset % WIRE_ALIGN == 0 && offset <= m->bytes &&
                   n <= m->bytes - offset
               ? m->map + offset
               : NULL;
}

static void frame_done(void *arg, uint32_t turn) {
    struct net_share *s = arg;
    net_arena_give_back(s->ours, turn);
    unref_share(s);
}

/* --- setting up --- */

static int begin(struct net_conn *c, struct net_memory_name *name) {
    struct net_share *s = pd_calloc(1, sizeof *s);
    if (!s || net_arena_new(&s->ours, name)) {
        free(s);
        return PD_ENOMEM;
    }
    atomic_init(&s->refs, 1);
    s->region = c->region;
    c->share = s;
    return 0;
}

void net_share_end(struct net_conn *c) {
    if (!c->share)
        return;
    wire_decoder_share_memory(c->decoder, NULL);
    net_arena_drop_all(c->share->ours);
    unref_share(c->share);
    c->share = NULL;
}

void net_share_reclaim(struct net_share *s) {
    if (s && s->sending && s->region)
        net_arena_reclaim(s->ours, s->theirs);
}

static void send_buf(struct net_conn *c, uint16_t type, const struct pd_buf *b) {
    const struct net_sec sec = {b->data, b->len};
    (void)net_send(c, type, 0, 0, &sec, 1, NULL, NULL);
}

static void put_name(struct pd_buf *b, const struct net_memory_name *name) {
    pd_put_u32(b, name->pid);
    pd_put_u32(b, name->fd);
    pd_put_u64(b, name->bytes);
    pd_put(b, name->secret, sizeof name->secret);
}

static void get_name(struct pd_reader *r, struct net_memory_name *name) {
    name->pid = pd_get_u32(r);
    name->fd = pd_get_u32(r);
    name->bytes = pd_get_u64(r);
    const uint8_t *secret = pd_get(r, sizeof name->secret);
    if (secret)
        memcpy(name->secret, secret, sizeof name->secret);
}

/* Sends the name of the own arena, and of the region to lend from, if any. */
static void offer(struct net_conn *c, const struct net_memory_name *name) {
    struct pd_buf b = {0};
    put_name(&b, name);
    if (c->share->region)
        put_name(&b, net_region_name(c->share->region));
    if (!b.failed)
        send_buf(c, WIRE_HS_SHARE, &b);
    pd_buf_release(&b);
}

static void answer(struct net_conn *c, uint32_t found) {
    struct pd_buf b = {0};
    pd_put_u32(&b, found);
    if (!b.failed)
        send_buf(c, WIRE_HS_SHARED, &b);
    pd_buf_release(&b);
}

void net_share(struct net_conn *c) {
    struct net_memory_name name;
    if (c->closing || c->share || !c->opts.share || !net_same_machine(c->in) || begin(c, &name))
        return;
    offer(c, &name);
}

static void receive(struct net_conn *c) {
    const struct wire_shared_memory e = {c->opts.in_place, lent_at, frame_at, frame_done, c->share};
    wire_decoder_share_memory(c->decoder, &e);
}

/* The connector already has an arena of its own when this arrives; the acceptor makes one now. */
static int on_offer(struct net_conn *c, const struct wire_frame *f, struct pd_err *err) {
    const int connector = c->share != NULL, lends = f->len[0] > NET_MEMORY_NAME;
    struct net_memory_name name, lent, own;
    struct pd_reader r;
    pd_reader_init(&r, f->sec[0], f->len[0]);
    get_name(&r, &name);
    if (lends)
        get_name(&r, &lent);
    if (!pd_reader_done(&r) || (connector && c->share->theirs))
        return pd_fail(err, PD_EPROTO, "HS_SHARE of %zu bytes", f->len[0]);
    if (!connector && (!net_same_machine(c->in) || begin(c, &own))) {
        answer(c, 0);
        return 0;
    }
    if (net_arena_open(&c->share->theirs, &name) ||
        (lends && net_memory_open(&c->share->lent, &lent, 0))) {
        net_share_end(c);
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
    struct pd_reader r;
    pd_reader_init(&r, f->sec[0], f->len[0]);
    const uint32_t found = pd_get_u32(&r);
    if (!pd_reader_done(&r) || found > 1 || !c->share || c->share->sending ||
        (found && !c->share->theirs))
        return pd_fail(err, PD_EPROTO, "HS_SHARED of %zu bytes", f->len[0]);
    if (!found) {
        net_share_end(c);
        return 0;
    }
    c->share->sending = 1;
    return 0;
}

int net_share_frame(struct net_conn *c, const struct wire_frame *f, struct pd_err *err) {
    return f->type == WIRE_HS_SHARE ? on_offer(c, f, err) : on_answer(c, f, err);
}

/* --- sending --- */

/* Index + 1 of the section that is in the own region and large enough to lend; 0: none. */
static uint32_t lent_section(const struct net_share *s, const struct net_sec *sec, uint32_t n_sec,
                             uint64_t *offset) {
    for (uint32_t i = 0; s->region && i < n_sec; i++)
        if (sec[i].n >= NET_SHARE_LEAST && net_region_has(s->region, sec[i].p, sec[i].n, offset))
            return i + 1;
    return 0;
}

int net_share_write(struct net_share *s, uint16_t type, uint16_t flags, uint64_t req,
                    const struct net_sec *sec, uint32_t n_sec, const size_t *len,
                    void (*release)(void *), void *release_arg,
                    uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY]) {
    struct wire_shared_place w = {0};
    size_t n = 0;
    w.lent = lent_section(s, sec, n_sec, &w.lent_offset);
    for (uint32_t i = 0; i < n_sec; i++)
        n += i + 1 == w.lent ? 0 : len[i] + wire_pad(len[i]);
    uint8_t *to = net_arena_take(s->ours, s->theirs, n ? n : 1, &w.offset, &w.turn);
    if (!to)
        return 0;
    for (uint32_t i = 0; i < n_sec; i++) {
        if (i + 1 == w.lent)
            continue;
        if (len[i])
            memcpy(to, sec[i].p, len[i]);
        memset(to + len[i], 0, wire_pad(len[i]));
        to += len[i] + wire_pad(len[i]);
    }
    wire_header_shared(wire, type, flags, req, n_sec, len, &w);
    if (release && w.lent && net_region_lent(s->region) == NET_LENT_UNTIL_READ)
        net_arena_on_free(s->ours, release, release_arg);
    else if (release)
        release(release_arg);
    return 1;
}
