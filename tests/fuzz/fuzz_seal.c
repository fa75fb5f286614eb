/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_seal.c - sealed records with a known key and somebody on the path: what arrives is the
 * beginning of what was sent, whatever he does.
 *
 * Input: the sizes of the frames, the limit of the keys, deeds (flip, cut, join, repeat, exchange,
 * insert), and the sizes of the pieces in which the bytes come. */
#include "net/seal.h"
#include "tests/support/fuzz/fuzz.h"

enum { FRAMES = 6, FRAME_MAX = 1 << 20, STREAM_MAX = 512 << 10, DEEDS = 4 };

static const uint8_t key[2][WIRE_NOISE_KEY] = {{1}, {2}};

static struct net_seal *seal_of(int end, unsigned kind, uint64_t messages, uint64_t bytes) {
    struct wire_cipher *c[2];
    for (int i = 0; i < 2; i++) {
        fuzz_check(c[i] = wire_cipher_new(kind, key[i]));
        wire_cipher_limits(c[i], messages, bytes);
    }
    struct net_seal *s = net_seal_new(c[end], c[!end]);
    fuzz_check(s);
    return s;
}

static uint8_t content(uint64_t frame, size_t i) {
    return (uint8_t)(frame * 37 + i * (i >> 8 | 1));
}

struct stream {
    uint8_t b[STREAM_MAX];
    size_t n;
};

/* Frame `i` with `n` bytes, sealed as one write or joined to the one before. */
static size_t frame(uint8_t *to, uint64_t i, size_t n) {
    size_t len[WIRE_SECTIONS] = {n};
    const size_t total = (size_t)wire_header(to, 0x201, 0, i, 1, len);
    memset(to + WIRE_HEADER, 0, total - WIRE_HEADER);
    for (size_t k = 0; k < n; k++)
        to[WIRE_HEADER + k] = content(i, k);
    return total;
}

static void send_all(struct stream *s, struct pd_reader *in, unsigned kind, uint64_t messages,
                     uint64_t bytes, size_t size[FRAMES]) {
    static uint8_t plain[STREAM_MAX / 2];
    struct net_seal *a = seal_of(0, kind, messages, bytes);
    size_t n = 0;
    for (uint64_t i = 0; i < FRAMES; i++) {
        const unsigned how = fuzz_u8(in);
        size[i] = how & 1 ? (size_t)fuzz_u8(in) * 131 : fuzz_u8(in) % 100;
        n += frame(plain + n, i, size[i]);
        if (how & 2 && i + 1 < FRAMES) /* the next one is in the same record */
            continue;
        const uv_buf_t buf = uv_buf_init((char *)plain, (unsigned)n);
        net_seal_put(a, s->b + s->n, &buf, n);
        s->n += net_sealed_size(n);
        n = 0;
    }
    net_seal_free(a);
}

/* Begin of record `k` (k = 0, 1, ...) or the end. */
static size_t record_at(const struct stream *s, size_t k) {
    size_t at = 0;
    while (k-- && at + 2 <= s->n)
        at += 2 + ((size_t)s->b[at] << 8 | s->b[at + 1]);
    return at < s->n ? at : s->n;
}

static void insert(struct stream *s, size_t at, const uint8_t *p, size_t n) {
    if (s->n + n > STREAM_MAX)
        return;
    memmove(s->b + at + n, s->b + at, s->n - at);
    memcpy(s->b + at, p, n);
    s->n += n;
}

static void deed(struct stream *s, struct pd_reader *in) {
    static uint8_t copy[STREAM_MAX];
    const unsigned what = fuzz_u8(in) % 7, k = fuzz_u8(in) % (FRAMES + 1);
    const size_t from = record_at(s, k), to = record_at(s, k + 1), n = to - from;
    const size_t at = s->n ? fuzz_u32(in) % s->n : 0;
    if (!s->n)
        return;
    memcpy(copy, s->b + from, n);
    switch (what) {
    case 0:
        s->b[at] ^= (uint8_t)(1u << fuzz_u8(in) % 8);
        break;
    case 1: /* the rest never comes */
        s->n = at;
        break;
    case 2: /* left out */
        memmove(s->b + from, s->b + to, s->n - to);
        s->n -= n;
        break;
    case 3: /* repeated */
        insert(s, to, copy, n);
        break;
    case 4: /* exchanged with the one before it */
        if (k) {
            const size_t before = record_at(s, k - 1), m = from - before;
            memmove(s->b + before + n, s->b + before, m);
            memcpy(s->b + before, copy, n);
        }
        break;
    case 5: /* joined to the next one */
        if (to + 2 <= s->n && n >= 2) {
            const size_t both = n - 2 + record_at(s, k + 2) - to - 2;
            memmove(s->b + to, s->b + to + 2, s->n - to - 2);
            s->n -= 2;
            s->b[from] = (uint8_t)(both >> 8);
            s->b[from + 1] = (uint8_t)both;
        }
        break;
    default: {
        const size_t m = fuzz_u8(in);
        insert(s, at, fuzz_bytes(in, m), m);
    }
    }
}

/* The number of frames that come; each must be the next one that was sent. */
static uint64_t receive(const struct stream *s, struct pd_reader *in, unsigned kind,
                        uint64_t messages, uint64_t bytes, const size_t size[FRAMES]) {
    struct net_seal *b = seal_of(1, kind, messages, bytes);
    struct wire_decoder *d = wire_decoder_new(FRAME_MAX);
    struct wire_frame *f;
    struct pd_err err = {0};
    uint64_t got = 0;
    fuzz_check(d);
    for (size_t at = 0; at < s->n && !err.code;) {
        uint8_t *p;
        size_t room, piece = fuzz_left(in) ? 1 + (size_t)fuzz_u8(in) * 97 : s->n;
        net_seal_space(b, &p, &room);
        fuzz_check(room);
        piece = piece < room ? piece : room;
        piece = piece < s->n - at ? piece : s->n - at;
        memcpy(p, s->b + at, piece);
        net_seal_commit(b, piece);
        at += piece;
        do
            for (; (f = wire_decoder_next(d)); got++) {
                fuzz_check(got < FRAMES && f->req == got && f->n_sec == 1 &&
                           f->len[0] == size[got]);
                for (size_t k = 0; k < f->len[0]; k++)
                    fuzz_check(f->sec[0][k] == content(got, k));
                wire_frame_free(f);
            }
        while (net_seal_feed(b, d, &err) > 0);
        fuzz_check(!wire_decoder_error(d, NULL)); /* no changed byte reaches it */
    }
    fuzz_check(!err.code || err.code == PD_EIO);
    wire_decoder_free(d);
    net_seal_free(b);
    return got;
}

FUZZ(in) {
    static struct stream sent, s;
    size_t size[FRAMES];
    const unsigned how = fuzz_u8(in);
    const unsigned kind =
        how & 1 && wire_ciphers() & WIRE_AES256GCM ? WIRE_AES256GCM : WIRE_CHACHA20POLY1305;
    const uint64_t messages = how & 2 ? 2 : 1000, bytes = how & 4 ? 3000 : 1 << 30;
    sent.n = 0;
    send_all(&sent, in, kind, messages, bytes, size);
    s.n = sent.n;
    memcpy(s.b, sent.b, sent.n);
    for (unsigned i = 0; i < (how >> 3) % (DEEDS + 1); i++)
        deed(&s, in);
    const uint64_t got = receive(&s, in, kind, messages, bytes, size);
    const int same = s.n >= sent.n && !memcmp(s.b, sent.b, sent.n);
    fuzz_check((got == FRAMES) == same);
}
