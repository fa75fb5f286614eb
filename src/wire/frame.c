/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - the frame codec.
 *
 * The decoder has a staging buffer for headers and small bodies. When at least DIRECT bytes of a
 * body are missing, the next read goes directly into the body. */
#include "wire/frame.h"

#include "base/memory_use.h"
#include "thread/page_memory.h"
#include "wire/msg.h"

enum { STAGE = WIRE_STAGE, DIRECT = 16 << 10, FRAME_SPACE = 192 };
_Static_assert(sizeof(struct wire_frame) <= FRAME_SPACE, "the frame's struct precedes its body");

struct queued_frame { /* a decoded frame in the queue, stored in the memory of its frame */
    struct wire_frame *frame;
    struct queued_frame *next;
};

struct wire_decoder {
    uint64_t max_frame;
    struct pd_pool *pool;
    struct wire_shared_memory elsewhere;
    uint8_t *stage;
    size_t stage_at, stage_len; /* bytes read and not yet parsed */
    size_t stage_most;          /* bytes of the stage that were ever read into */
    int direct;                 /* the last wire_decoder_space pointed into the body */
    uint8_t header[WIRE_HEADER];
    size_t header_got;
    struct wire_frame *cur;
    size_t body_len, body_got;
    struct queued_frame *first, **last;
    struct pd_err err;
};

void wire_frame_free(struct wire_frame *f) {
    if (f && f->release)
        f->release(f->release_arg, f->turn);
    if (f && f->pool)
        pd_pool_put(f->pool, f);
    else
        free(f);
}

static void put_le(uint8_t *p, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

uint64_t wire_header(uint8_t out[WIRE_HEADER], uint16_t type, uint16_t flags, uint64_t req,
                     uint32_t n_sec, const size_t *len) {
    uint64_t total = WIRE_HEADER;
    memset(out, 0, WIRE_HEADER);
    for (uint32_t i = 0; i < n_sec; i++) {
        put_le(out + 32 + 8 * i, len[i], 8);
        total += len[i] + wire_pad(len[i]);
    }
    put_le(out, WIRE_MAGIC, 4);
    put_le(out + 4, type, 2);
    put_le(out + 6, flags, 2);
    put_le(out + 8, req, 8);
    put_le(out + 16, total, 8);
    put_le(out + 24, n_sec, 4);
    return total;
}

void wire_header_shared(uint8_t out[WIRE_HEADER + WIRE_SHARED_BODY], uint16_t type, uint16_t flags,
                        uint64_t req, uint32_t n_sec, const size_t *len,
                        const struct wire_shared_place *at) {
    (void)wire_header(out, type, flags | WIRE_F_SHARED, req, n_sec, len);
    put_le(out + 16, WIRE_HEADER + WIRE_SHARED_BODY, 8);
    memset(out + WIRE_HEADER, 0, WIRE_SHARED_BODY);
    put_le(out + WIRE_HEADER, at->offset, 8);
    put_le(out + WIRE_HEADER + 8, at->turn, 4);
    put_le(out + WIRE_HEADER + 12, at->lent, 4);
    put_le(out + WIRE_HEADER + 16, at->lent_offset, 8);
}

struct wire_decoder *wire_decoder_new(uint64_t max_frame) {
    struct wire_decoder *d = pd_calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->stage = pd_alloc64(STAGE);
    if (!d->stage) {
        free(d);
        return NULL;
    }
    d->max_frame = max_frame;
    d->last = &d->first;
    return d;
}

void wire_decoder_free(struct wire_decoder *d) {
    if (!d)
        return;
    for (struct wire_frame *f; (f = wire_decoder_next(d));)
        wire_frame_free(f);
    wire_frame_free(d->cur);
    free(d->stage);
    free(d);
}

void wire_decoder_use_pool(struct wire_decoder *d, struct pd_pool *pool) { d->pool = pool; }

void wire_decoder_share_memory(struct wire_decoder *d, const struct wire_shared_memory *e) {
    d->elsewhere = e ? *e : (struct wire_shared_memory){0};
}

void wire_decoder_limit(struct wire_decoder *d, uint64_t max_frame) { d->max_frame = max_frame; }

void wire_decoder_space(struct wire_decoder *d, uint8_t **p, size_t *n) {
    d->direct = d->cur && d->body_len - d->body_got >= DIRECT;
    d->stage_at = d->stage_len = 0;
    *p = d->direct ? d->cur->data + d->body_got : d->stage;
    *n = d->direct ? d->body_len - d->body_got : STAGE;
}

/* Places the sections one after another at p, except section `lent` - 1, which is in lent memory.
 */
static void place_sections(struct wire_frame *f, const uint8_t *p, uint32_t lent) {
    for (uint32_t i = 0; i < f->n_sec; i++) {
        if (i + 1 == lent)
            continue;
        f->sec[i] = p;
        p += f->len[i] + wire_pad(f->len[i]);
    }
}

/* Copies the sections that are not used in place to `own`. 1: others stay in shared memory. */
static int copy_sections(struct wire_frame *f, unsigned in_place, uint8_t *own) {
    int stays = 0;
    for (uint32_t i = 0; i < f->n_sec; i++) {
        if (in_place >> i & 1) {
            stays |= f->len[i] > 0;
            continue;
        }
        f->sec[i] = memcpy(own, f->sec[i], f->len[i]);
        own += f->len[i] + wire_pad(f->len[i]);
    }
    return stays;
}

/* The body that arrived says where the sections are in shared memory; sets f->sec. */
static int find_sections(struct wire_decoder *d, struct wire_frame *f) {
    const struct wire_shared_memory *e = &d->elsewhere;
    struct wire_shared_place w;
    struct pd_reader r;
    pd_reader_init(&r, f->data, WIRE_SHARED_BODY);
    w.offset = pd_get_u64(&r);
    w.turn = pd_get_u32(&r);
    w.lent = pd_get_u32(&r);
    w.lent_offset = pd_get_u64(&r);
    const uint64_t all = f->total - WIRE_HEADER;
    uint64_t bytes = all;
    const uint8_t *lent = NULL;
    if (w.lent && w.lent <= f->n_sec && e->lent) {
        const uint64_t n = f->len[w.lent - 1];
        lent = n ? e->lent(e->arg, w.lent_offset, n) : NULL;
        bytes -= n + wire_pad(n);
    }
    uint8_t *p = e->at && (lent || !w.lent) ? e->at(e->arg, w.offset, bytes) : NULL;
    if (!p)
        return pd_fail(&d->err, PD_EPROTO, "%s: %llu bytes at %llu and %llu of the shared memory",
                       wire_msg_name(f->type), (unsigned long long)all,
                       (unsigned long long)w.offset, (unsigned long long)w.lent_offset);
    place_sections(f, p, w.lent);
    if (lent)
        f->sec[w.lent - 1] = lent;
    if (copy_sections(f, e->in_place, f->data + WIRE_SHARED_BODY)) {
        f->release = e->release;
        f->release_arg = e->arg;
        f->turn = w.turn;
    } else {
        e->release(e->arg, w.turn);
    }
    f->flags &= (uint16_t)~WIRE_F_SHARED;
    return 0;
}

/* Checks the header before anything is allocated, then makes room for the body. */
static int begin_frame(struct wire_decoder *d) {
    struct pd_reader r;
    pd_reader_init(&r, d->header, WIRE_HEADER);
    uint32_t magic = pd_get_u32(&r);
    uint16_t type = pd_get_u16(&r), flags = pd_get_u16(&r);
    uint64_t req = pd_get_u64(&r), total = pd_get_u64(&r);
    uint32_t n_sec = pd_get_u32(&r), reserved = pd_get_u32(&r);
    if (magic != WIRE_MAGIC)
        return pd_fail(&d->err, PD_EPROTO, "not a frame: magic 0x%08x", magic);
    const int elsewhere = (flags & WIRE_F_SHARED) && d->elsewhere.at;
    if (flags & ~(WIRE_F_ERROR | (elsewhere ? WIRE_F_SHARED : 0)) || reserved ||
        n_sec > WIRE_SECTIONS)
        return pd_fail(&d->err, PD_EPROTO, "%s: flags 0x%x, %u sections", wire_msg_name(type),
                       flags, n_sec);
    if (total > d->max_frame)
        return pd_fail(&d->err, PD_EPROTO, "%s: %llu bytes, limit %llu", wire_msg_name(type),
                       (unsigned long long)total, (unsigned long long)d->max_frame);
    uint64_t sum = WIRE_HEADER, len[WIRE_SECTIONS];
    for (uint32_t i = 0; i < WIRE_SECTIONS; i++) {
        len[i] = pd_get_u64(&r);
        if (len[i] > d->max_frame || (i >= n_sec && len[i]))
            return pd_fail(&d->err, PD_EPROTO, "%s: section %u of %llu bytes", wire_msg_name(type),
                           i, (unsigned long long)len[i]);
        sum += len[i] + wire_pad(len[i]);
    }
    if (elsewhere && total == WIRE_HEADER + WIRE_SHARED_BODY) {
        if (sum > d->max_frame)
            return pd_fail(&d->err, PD_EPROTO, "%s: %llu bytes, limit %llu", wire_msg_name(type),
                           (unsigned long long)sum, (unsigned long long)d->max_frame);
    } else if (elsewhere || sum != total)
        return pd_fail(&d->err, PD_EPROTO, "%s: sections of %llu bytes in a frame of %llu",
                       wire_msg_name(type), (unsigned long long)sum, (unsigned long long)total);
    uint64_t bytes = FRAME_SPACE + (total - WIRE_HEADER);
    for (uint32_t i = 0; elsewhere && i < n_sec; i++)
        bytes += d->elsewhere.in_place >> i & 1 ? 0 : len[i] + wire_pad(len[i]);
    char text[PD_MEMORY_TEXT];
    /* A pool asks for large memory that it does not have yet. */
    uint8_t *mem = d->pool ? pd_pool_get(d->pool, bytes)
                   : bytes >= PD_HUGE_PAGE && !pd_memory_fits((double)bytes) ? NULL
                                                                             : pd_alloc64(bytes);
    if (!mem)
        return pd_fail(&d->err, PD_ENOMEM, "no memory for %s of %llu bytes on %s",
                       wire_msg_name(type), (unsigned long long)bytes, pd_memory_text(text));
    struct wire_frame *f = (struct wire_frame *)mem;
    *f = (struct wire_frame){.type = type,
                             .flags = flags,
                             .req = req,
                             .n_sec = n_sec,
                             .total = total,
                             .data = mem + FRAME_SPACE,
                             .pool = d->pool};
    memcpy(f->len, len, sizeof f->len);
    place_sections(f, f->data, 0);
    if (elsewhere)
        f->total = sum;
    d->cur = f;
    d->body_len = total - WIRE_HEADER;
    d->body_got = 0;
    return 0;
}

/* Parses the staged bytes up to the end of one frame. The rest stays, because the frame may change
 * the rules for the bytes after it: the end of the handshake raises the size limit. */
static struct wire_frame *parse_one(struct wire_decoder *d) {
    while (!d->err.code) {
        if (d->cur && d->body_got == d->body_len) {
            struct wire_frame *f = d->cur;
            d->cur = NULL;
            d->header_got = 0;
            if (f->flags & WIRE_F_SHARED && find_sections(d, f)) {
                wire_frame_free(f);
                return NULL;
            }
            return f;
        }
        size_t n = d->stage_len - d->stage_at;
        const uint8_t *p = d->stage + d->stage_at;
        if (!n)
            return NULL;
        size_t want = d->cur ? d->body_len - d->body_got : WIRE_HEADER - d->header_got,
               k = want < n ? want : n;
        d->stage_at += k;
        if (d->cur) {
            memcpy(d->cur->data + d->body_got, p, k);
            d->body_got += k;
        } else {
            memcpy(d->header + d->header_got, p, k);
            d->header_got += k;
            if (d->header_got == WIRE_HEADER && begin_frame(d))
                return NULL;
        }
    }
    return NULL;
}

int wire_decoder_commit(struct wire_decoder *d, size_t n, struct pd_err *err) {
    if (d->direct)
        d->body_got += n;
    else
        d->stage_len = n;
    if (d->stage_most < d->stage_len)
        d->stage_most = d->stage_len;
    d->direct = 0;
    return wire_decoder_error(d, err);
}

/* Queues the frames, so that the caller may feed any amount before it takes them. */
int wire_decoder_feed(struct wire_decoder *d, const void *p, size_t n, struct pd_err *err) {
    const uint8_t *s = p;
    while (n && !d->err.code) {
        uint8_t *to;
        size_t room;
        wire_decoder_space(d, &to, &room);
        size_t k = n < room ? n : room;
        memcpy(to, s, k);
        s += k;
        n -= k;
        (void)wire_decoder_commit(d, k, NULL);
        for (struct wire_frame *f; (f = parse_one(d));) {
            struct queued_frame *q = pd_malloc(sizeof *q);
            if (!q) {
                wire_frame_free(f);
                pd_fail(&d->err, PD_ENOMEM, "no memory for a frame");
                break;
            }
            *q = (struct queued_frame){.frame = f};
            *d->last = q;
            d->last = &q->next;
        }
    }
    return wire_decoder_error(d, err);
}

struct wire_frame *wire_decoder_next(struct wire_decoder *d) {
    struct queued_frame *n = d->first;
    if (!n)
        return parse_one(d);
    struct wire_frame *f = n->frame;
    d->first = n->next;
    if (!d->first)
        d->last = &d->first;
    free(n);
    return f;
}

int wire_decoder_error(const struct wire_decoder *d, struct pd_err *err) {
    return d->err.code ? pd_fail(err, d->err.code, "%s", d->err.msg) : 0;
}

size_t wire_decoder_take_rest(struct wire_decoder *d, uint8_t *out) {
    const size_t n = d->stage_len - d->stage_at;
    memcpy(out, d->stage + d->stage_at, n);
    d->stage_at = d->stage_len;
    return n;
}

/* A frame may come in several reads, and each begins at the front of the stage. */
void wire_decoder_forget(struct wire_decoder *d) {
    explicit_bzero(d->stage, d->stage_at);
    explicit_bzero(d->stage + d->stage_len, d->stage_most - d->stage_len);
}

int wire_decoder_idle(const struct wire_decoder *d) {
    return !d->cur && d->header_got == 0 && d->stage_at == d->stage_len;
}

/* --- errors --- */

void wire_error_put(struct pd_buf *b, const struct pd_err *e) {
    pd_put_u32(b, (uint32_t)-e->code);
    pd_put_str(b, e->msg);
    pd_put_str(b, e->from);
}

int wire_error_get(const struct wire_frame *f, struct pd_err *err) {
    struct pd_reader r;
    struct pd_err e = {.heard = 1};
    pd_reader_init(&r, f->sec[0], f->n_sec ? f->len[0] : 0);
    const uint32_t code = pd_get_u32(&r);
    pd_get_str(&r, e.msg, sizeof e.msg);
    if (!pd_reader_done(&r)) /* agents of earlier versions send no origin */
        pd_get_str(&r, e.from, sizeof e.from);
    e.code = code < 1000 ? -(int)code : 0;
    if (!pd_reader_done(&r) || !e.code || !strcmp(pd_code_name(e.code), "?"))
        return pd_fail(err, PD_EPROTO, "%s: a malformed error", wire_msg_name(f->type));
    pd_make_printable(e.msg);
    pd_make_printable(e.from);
    return pd_err_copy(err, &e);
}
