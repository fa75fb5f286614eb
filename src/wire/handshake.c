/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.c - the state machine of one handshake: bytes in, bytes out, no sockets. */
#include "wire/handshake.h"

#include <sodium.h>

#include "wire/msg.h"

_Static_assert((int)WIRE_KEY_BYTES == (int)WIRE_NOISE_KEY,
               "the job's key is Noise's pre-shared key");

/* In HELLO and CHALLENGE, beside the set of enum wire_cipher_kind. */
enum { PLAIN = 0x100 };

enum step {
    SEND_HELLO,
    WAIT_CHALLENGE,
    SEND_PROOF,
    WAIT_WELCOME,
    WAIT_HELLO,
    SEND_CHALLENGE,
    WAIT_PROOF,
    SEND_WELCOME,
    OPEN
};

struct wire_hs {
    enum step step;
    struct wire_hs_opts self; /* acceptor: without the key */
    const uint8_t *key;
    int connector;
    struct wire_hello peer;
    uint8_t nonce[WIRE_NONCE_BYTES];
    struct pd_buf transcript; /* HELLO body, CHALLENGE body */
    struct pd_buf greeting;   /* own greeting (acceptor) or the peer's (connector) */
    unsigned suite;           /* what CHALLENGE chose: one cipher, and PLAIN or not */
    struct pd_err unfit;      /* acceptor: HELLO cannot be accepted */
    struct wire_noise *noise; /* from CHALLENGE on */
    struct wire_cipher *send, *receive;
};

struct wire_hs *wire_hs_new(const struct wire_hs_opts *opts, int connector) {
    struct wire_hs *hs = sodium_init() < 0 ? NULL
                         : connector       ? pd_secret_new(sizeof *hs)
                                           : pd_calloc(1, sizeof *hs);
    if (!hs)
        return NULL;
    hs->self = *opts;
    hs->connector = connector;
    hs->key = connector ? hs->self.key : opts->key;
    if (!connector)
        sodium_memzero(hs->self.key, sizeof hs->self.key);
    hs->step = connector ? SEND_HELLO : WAIT_HELLO;
    if (!hs->self.ciphers)
        hs->self.ciphers = wire_ciphers();
    pd_buf_init(&hs->transcript);
    pd_buf_init(&hs->greeting);
    randombytes_buf(hs->nonce, sizeof hs->nonce);
    if (!connector && opts->greeting_len <= WIRE_GREETING_MAX)
        pd_put(&hs->greeting, opts->greeting, opts->greeting_len);
    if (hs->greeting.failed || opts->greeting_len > WIRE_GREETING_MAX) {
        wire_hs_free(hs);
        return NULL;
    }
    return hs;
}

void wire_hs_free(struct wire_hs *hs) {
    if (!hs)
        return;
    pd_buf_release(&hs->transcript);
    pd_buf_release(&hs->greeting);
    wire_noise_free(hs->noise);
    wire_cipher_free(hs->send);
    wire_cipher_free(hs->receive);
    if (hs->connector)
        pd_secret_free(hs, sizeof *hs);
    else
        free(hs);
}

/* HELLO and CHALLENGE are known: the Noise handshake begins. */
static int begin_noise(struct wire_hs *hs, int initiator, struct pd_err *err) {
    if (hs->unfit.code)
        return 0;
    hs->noise = wire_noise_new(hs->suite & ~(unsigned)PLAIN, initiator, hs->key,
                               hs->transcript.data, hs->transcript.len);
    return hs->noise ? 0 : pd_fail(err, PD_ENOMEM, "handshake: out of memory");
}

/* Both Noise messages are known: the connection's keys. */
static int end_noise(struct wire_hs *hs, struct pd_err *err) {
    int rc = hs->suite & PLAIN ? 0 : wire_noise_split(hs->noise, &hs->send, &hs->receive, err);
    wire_noise_free(hs->noise);
    hs->noise = NULL;
    return rc;
}

static void put_self(struct pd_buf *b, const struct wire_hs *hs, uint32_t suite) {
    pd_put_u16(b, hs->self.self.role);
    pd_put_u32(b, hs->self.self.id);
    pd_put_u64(b, hs->self.self.incarnation);
    pd_put_str(b, hs->self.self.job);
    pd_put(b, hs->nonce, sizeof hs->nonce);
    pd_put_u32(b, suite);
}

/* Appends a frame to `out`. The transcript has the bodies exactly as they are encoded here. */
static int append_frame(struct wire_hs *hs, uint16_t type, const struct pd_buf *body,
                        int in_transcript, struct pd_buf *out, struct pd_err *err) {
    uint8_t header[WIRE_HEADER];
    static const uint8_t zeros[WIRE_ALIGN];
    size_t len[1] = {body->len};
    wire_header(header, type, 0, 0, 1, len);
    pd_put(out, header, sizeof header);
    pd_put(out, body->data, body->len);
    pd_put(out, zeros, wire_pad(body->len));
    if (in_transcript)
        pd_put(&hs->transcript, body->data, body->len);
    return body->failed || out->failed || hs->transcript.failed
               ? pd_fail(err, PD_ENOMEM, "handshake: out of memory")
               : 0;
}

int wire_hs_output(struct wire_hs *hs, struct pd_buf *out, struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = 0;
    switch (hs->step) {
    case SEND_HELLO:
        pd_put_u32(&b, WIRE_VERSION); /* lowest and highest version that this program speaks */
        pd_put_u32(&b, WIRE_VERSION);
        put_self(&b, hs, hs->self.ciphers | (hs->self.plain ? PLAIN : 0));
        rc = append_frame(hs, WIRE_HS_HELLO, &b, 1, out, err);
        hs->step = WAIT_CHALLENGE;
        break;
    case SEND_CHALLENGE:
        pd_put_u32(&b, WIRE_VERSION);
        put_self(&b, hs, hs->suite);
        rc = append_frame(hs, WIRE_HS_CHALLENGE, &b, 1, out, err);
        if (!rc)
            rc = begin_noise(hs, 0, err);
        hs->step = WAIT_PROOF;
        break;
    case SEND_PROOF:
        rc = wire_noise_write(hs->noise, NULL, 0, &b, err);
        if (!rc)
            rc = append_frame(hs, WIRE_HS_PROOF, &b, 0, out, err);
        hs->step = WAIT_WELCOME;
        break;
    case SEND_WELCOME:
        rc = wire_noise_write(hs->noise, hs->greeting.data, hs->greeting.len, &b, err);
        if (!rc)
            rc = append_frame(hs, WIRE_HS_WELCOME, &b, 0, out, err);
        if (!rc)
            rc = end_noise(hs, err);
        hs->step = OPEN;
        break;
    default:
        break;
    }
    pd_buf_release(&b);
    return rc;
}

static uint32_t get_peer(struct wire_hs *hs, struct pd_reader *r) {
    hs->peer.role = pd_get_u16(r);
    hs->peer.id = pd_get_u32(r);
    hs->peer.incarnation = pd_get_u64(r);
    pd_get_str(r, hs->peer.job, sizeof hs->peer.job);
    (void)pd_get(r, WIRE_NONCE_BYTES);
    return pd_get_u32(r);
}

/* The cipher of the connection, from HELLO's set or CHALLENGE's only one. 0: none. */
static unsigned choose(const struct wire_hs *hs, uint32_t offer) {
    const unsigned both = offer & hs->self.ciphers;
    return both & WIRE_AES256GCM ? WIRE_AES256GCM : both & WIRE_CHACHA20POLY1305;
}

/* The acceptor answers a HELLO that does not fit with its own suite, so that the connector can say
 * what is wrong. It accepts no PROOF of such a connector. */
static int check_suite(struct wire_hs *hs, uint32_t suite, struct pd_err *err) {
    if (!(suite & PLAIN) != !hs->self.plain)
        return pd_fail(err, PD_EAUTH, "handshake: encrypt is '%s' at the peer, '%s' here",
                       suite & PLAIN ? "off" : "all", hs->self.plain ? "off" : "all");
    return choose(hs, suite) ? 0
                             : pd_fail(err, PD_EPROTO, "handshake: no common cipher (0x%x, 0x%x)",
                                       suite, hs->self.ciphers);
}

static int take_opening(struct wire_hs *hs, const struct wire_frame *f, int is_hello,
                        struct pd_err *err) {
    struct pd_reader r;
    pd_reader_init(&r, f->sec[0], f->len[0]);
    uint32_t lo = pd_get_u32(&r), hi = is_hello ? pd_get_u32(&r) : lo;
    if (!r.failed && (WIRE_VERSION < lo || WIRE_VERSION > hi))
        return pd_fail(err, PD_EPROTO,
                       "handshake: the peer speaks versions %u to %u, this program %d", lo, hi,
                       WIRE_VERSION);
    const uint32_t suite = get_peer(hs, &r);
    if (!pd_reader_done(&r))
        return pd_fail(err, PD_EPROTO, "handshake: malformed %s", wire_msg_name(f->type));
    if (strcmp(hs->peer.job, hs->self.self.job))
        return pd_fail(err, PD_EAUTH,
                       "handshake: the peer belongs to job '%s', this process to '%s'",
                       hs->peer.job, hs->self.self.job);
    const int rc = check_suite(hs, suite, is_hello ? &hs->unfit : err);
    if (rc && !is_hello)
        return rc;
    hs->suite = choose(hs, suite) | (hs->self.plain ? PLAIN : 0);
    pd_put(&hs->transcript, f->sec[0], f->len[0]);
    if (hs->transcript.failed)
        return pd_fail(err, PD_ENOMEM, "handshake: out of memory");
    return is_hello ? 0 : begin_noise(hs, 1, err);
}

static int take_proof(struct wire_hs *hs, const struct wire_frame *f, int is_welcome,
                      struct pd_err *err) {
    struct pd_buf none = {0};
    if (hs->unfit.code)
        return pd_fail(err, hs->unfit.code, "%s", hs->unfit.msg);
    int rc =
        wire_noise_read(hs->noise, f->sec[0], f->len[0], is_welcome ? &hs->greeting : &none, err);
    if (!rc && (is_welcome ? hs->greeting.len > WIRE_GREETING_MAX : none.len))
        rc = pd_fail(err, PD_EPROTO, "handshake: malformed %s", wire_msg_name(f->type));
    if (!rc && is_welcome)
        rc = end_noise(hs, err);
    pd_buf_release(&none);
    return rc;
}

int wire_hs_input(struct wire_hs *hs, const struct wire_frame *f, struct pd_err *err) {
    static const struct {
        enum step step, next;
        uint16_t type;
    } expect[] = {{WAIT_HELLO, SEND_CHALLENGE, WIRE_HS_HELLO},
                  {WAIT_CHALLENGE, SEND_PROOF, WIRE_HS_CHALLENGE},
                  {WAIT_PROOF, SEND_WELCOME, WIRE_HS_PROOF},
                  {WAIT_WELCOME, OPEN, WIRE_HS_WELCOME}};
    for (size_t i = 0; i < sizeof expect / sizeof expect[0]; i++) {
        if (hs->step != expect[i].step)
            continue;
        if (f->type != expect[i].type || f->flags || f->n_sec != 1)
            break;
        int rc = f->type == WIRE_HS_PROOF     ? take_proof(hs, f, 0, err)
                 : f->type == WIRE_HS_WELCOME ? take_proof(hs, f, 1, err)
                                              : take_opening(hs, f, f->type == WIRE_HS_HELLO, err);
        if (rc)
            return rc;
        hs->step = expect[i].next;
        return hs->step == OPEN || hs->step == SEND_WELCOME;
    }
    return pd_fail(err, PD_EPROTO, "handshake: unexpected %s (0x%x)", wire_msg_name(f->type),
                   f->type);
}

int wire_hs_done(const struct wire_hs *hs) { return hs->step == OPEN; }
const struct wire_hello *wire_hs_peer(const struct wire_hs *hs) { return &hs->peer; }

void wire_hs_ciphers(struct wire_hs *hs, struct wire_cipher **send, struct wire_cipher **receive) {
    *send = hs->send;
    *receive = hs->receive;
    hs->send = hs->receive = NULL;
}

const uint8_t *wire_hs_greeting(const struct wire_hs *hs, size_t *n) {
    *n = hs->greeting.len;
    return hs->greeting.data;
}

int wire_key_read(const char *path, uint8_t key[WIRE_KEY_BYTES], struct pd_err *err) {
    struct stat st;
    uint8_t raw[2 * WIRE_KEY_BYTES + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, PD_ENOENT, errno, "cannot open the key file %s", path);
    ssize_t n = fstat(fd, &st) ? -1 : pd_read_full(fd, raw, sizeof raw - 1);
    close(fd);
    if (n < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot read the key file %s", path);
    if (st.st_mode & 077)
        return pd_fail(err, PD_EAUTH, "the key file %s can be read by others: chmod 600 it", path);
    raw[n] = 0;
    if (n == WIRE_KEY_BYTES)
        memcpy(key, raw, WIRE_KEY_BYTES);
    else if (pd_unhex(key, WIRE_KEY_BYTES, pd_trim((char *)raw)))
        n = -1;
    sodium_memzero(raw, sizeof raw);
    return n < 0 ? pd_fail(err, PD_EAUTH,
                           "the key file %s holds neither 32 bytes nor 64 hex digits", path)
                 : 0;
}
