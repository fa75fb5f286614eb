/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - see seal.h.
 *
 *     socket --> in: |..given..|  record  |  record  | part of a record |..space..|
 *                              at                                       len
 *
 * A record that belongs to the middle of a large frame is opened directly into the frame. Any other
 * one is opened in place, and `plain` of its bytes wait at `at` for the decoder. */
#include "net/seal.h"

enum {
    RECORD = NET_RECORD_HEAD + WIRE_SEALED_MAX,
    IN_LEAST = RECORD + 1024, /* for connections that carry little */
    IN_MOST = 5 * RECORD,     /* after a read has filled the memory; given back when it is empty */
};
_Static_assert((int)IN_LEAST >= (int)WIRE_STAGE, "there is room for the rest of the handshake");

struct net_seal {
    struct wire_cipher *out, *opener;
    uint8_t *in;
    size_t cap, at, len;
    size_t plain;   /* opened bytes at `at` */
    size_t skipped; /* bytes after them: the record's tag */
    size_t body;    /* bytes after the next record's head, which has been checked; 0: not yet */
    int busy;       /* the last read brought much */
};

struct net_seal *net_seal_new(struct wire_cipher *send, struct wire_cipher *receive) {
    struct net_seal *s = pd_calloc(1, sizeof *s);
    if (!s) {
        wire_cipher_free(send);
        wire_cipher_free(receive);
        return NULL;
    }
    s->out = send;
    s->opener = receive;
    return s;
}

void net_seal_free(struct net_seal *s) {
    if (!s)
        return;
    wire_cipher_free(s->out);
    wire_cipher_free(s->opener);
    free(s->in);
    free(s);
}

/* --- sending --- */

/* The next n bytes of the buffers, which advance: in place if one buffer has them all, else copied
 * to `to`. */
static const uint8_t *gather(const uv_buf_t **buf, size_t *at, uint8_t *to, size_t n) {
    while (*at == (*buf)->len) {
        ++*buf;
        *at = 0;
    }
    const uint8_t *p = (const uint8_t *)(*buf)->base + *at;
    if ((*buf)->len - *at >= n) {
        *at += n;
        return p;
    }
    for (size_t got = 0; got < n;) {
        size_t k = (*buf)->len - *at < n - got ? (*buf)->len - *at : n - got;
        memcpy(to + got, (*buf)->base + *at, k);
        got += k;
        *at += k;
        if (got < n) {
            ++*buf;
            *at = 0;
        }
    }
    return to;
}

void net_seal_put(struct net_seal *s, uint8_t *out, const uv_buf_t *bufs, size_t n) {
    size_t at = 0;
    while (n) {
        const size_t k = n < WIRE_RECORD_MAX ? n : WIRE_RECORD_MAX, sealed = k + WIRE_TAG;
        uint8_t *body = out + NET_RECORD_HEAD;
        const uint8_t *p = gather(&bufs, &at, body, k);
        out[0] = (uint8_t)(sealed >> 8);
        out[1] = (uint8_t)sealed;
        wire_cipher_tag(s->out, out + 2, out, 2);
        wire_cipher_seal(s->out, body, p, k);
        out = body + sealed;
        n -= k;
    }
}

/* --- receiving --- */

void net_seal_space(struct net_seal *s, uint8_t **p, size_t *n) {
    if (s->at)
        memmove(s->in, s->in + s->at, s->len - s->at);
    s->len -= s->at;
    s->at = 0;
    const size_t want = s->busy ? IN_MOST : IN_LEAST;
    if (s->cap < want) {
        uint8_t *more = pd_realloc(s->in, want);
        if (more) {
            s->in = more;
            s->cap = want;
        }
    }
    *p = s->in + s->len;
    *n = s->cap - s->len;
}

void net_seal_commit(struct net_seal *s, size_t n) {
    s->len += n;
    s->busy = s->len == s->cap || (s->busy && n > IN_LEAST / 2);
}

/* A large memory is kept only while bytes wait in it: thousands of connections may be open. */
static void give_back(struct net_seal *s) {
    if (s->at < s->len || s->cap < IN_MOST)
        return;
    free(s->in);
    s->in = NULL;
    s->cap = s->at = s->len = 0;
}

/* Gives the decoder opened bytes. */
static void give(struct net_seal *s, struct wire_decoder *d) {
    uint8_t *to;
    size_t room;
    wire_decoder_space(d, &to, &room);
    const size_t k = room < s->plain ? room : s->plain;
    memcpy(to, s->in + s->at, k);
    explicit_bzero(s->in + s->at, k); /* they may be a key */
    (void)wire_decoder_commit(d, k, NULL);
    s->at += k;
    s->plain -= k;
    if (s->plain)
        return;
    s->at += s->skipped;
    s->skipped = 0;
}

static int not_the_next(size_t n, struct pd_err *err) {
    return pd_fail(err, PD_EIO,
                   "a record of %zu bytes is not the peer's next one: it was changed, "
                   "repeated, left out or inserted on the way",
                   n);
}

int net_seal_feed(struct net_seal *s, struct wire_decoder *d, struct pd_err *err) {
    if (!s->plain) {
        const size_t here = s->len - s->at;
        const uint8_t *head = s->in + s->at;
        const size_t n = here < NET_RECORD_HEAD ? 0 : (size_t)head[0] << 8 | head[1];
        if (here >= NET_RECORD_HEAD && !s->body) {
            if (n <= WIRE_TAG || wire_cipher_check(s->opener, head + 2, head, 2))
                return not_the_next(n, err);
            s->body = n;
        }
        if (here < NET_RECORD_HEAD || here - NET_RECORD_HEAD < n) {
            give_back(s);
            return 0;
        }
        uint8_t *record = s->in + s->at + NET_RECORD_HEAD, *to;
        size_t room;
        wire_decoder_space(d, &to, &room);
        const int direct = room >= n - WIRE_TAG;
        if (wire_cipher_open(s->opener, direct ? to : record, record, n))
            return not_the_next(n, err);
        s->body = 0;
        if (direct) {
            s->at += NET_RECORD_HEAD + n;
            (void)wire_decoder_commit(d, n - WIRE_TAG, NULL);
            return 1;
        }
        s->at += NET_RECORD_HEAD;
        s->plain = n - WIRE_TAG;
        s->skipped = WIRE_TAG;
    }
    give(s, d);
    return 1;
}

void net_seal_limits(struct net_seal *s, uint64_t messages) {
    wire_cipher_limits(s->out, messages, UINT64_MAX);
    wire_cipher_limits(s->opener, messages, UINT64_MAX);
}

int net_seal_idle(const struct net_seal *s) { return s->at == s->len; }
