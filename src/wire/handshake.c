/* handshake.c - the state machine of one handshake: bytes in, bytes out, no sockets. */
#include "wire/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fs.h"
#include "base/str.h"
#include "wire/msg.h"

_Static_assert(WIRE_KEY_BYTES == crypto_auth_KEYBYTES, "the job's key is an HMAC key");

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
    struct wire_hs_opts self;
    struct wire_hello peer;
    uint8_t nonce[WIRE_NONCE_BYTES];
    struct pd_buf transcript; /* HELLO body, CHALLENGE body */
    uint8_t *greeting;        /* own greeting (acceptor) or the peer's (connector) */
    size_t greeting_len;
    uint8_t session_key[32];
};

struct wire_hs *wire_hs_new(const struct wire_hs_opts *opts, int connector) {
    struct wire_hs *hs = sodium_init() < 0 ? NULL : pd_calloc(1, sizeof *hs);
    if (!hs)
        return NULL;
    hs->self = *opts;
    hs->step = connector ? SEND_HELLO : WAIT_HELLO;
    pd_buf_init(&hs->transcript);
    randombytes_buf(hs->nonce, sizeof hs->nonce);
    if (!connector && opts->greeting_len) {
        hs->greeting =
            opts->greeting_len <= WIRE_GREETING_MAX ? pd_malloc(opts->greeting_len) : NULL;
        if (!hs->greeting) {
            wire_hs_free(hs);
            return NULL;
        }
        memcpy(hs->greeting, opts->greeting, opts->greeting_len);
        hs->greeting_len = opts->greeting_len;
    }
    return hs;
}

void wire_hs_free(struct wire_hs *hs) {
    if (!hs)
        return;
    pd_buf_release(&hs->transcript);
    free(hs->greeting);
    sodium_memzero(hs, sizeof *hs);
    free(hs);
}

/* HMAC(key, label || transcript || greeting). Only the acceptor's proof covers the greeting. */
static void proof(const struct wire_hs *hs, const char *label, const void *extra, size_t n,
                  uint8_t mac[crypto_auth_BYTES]) {
    crypto_auth_hmacsha512256_state st;
    crypto_auth_hmacsha512256_init(&st, hs->self.key, sizeof hs->self.key);
    crypto_auth_hmacsha512256_update(&st, (const uint8_t *)label, strlen(label));
    crypto_auth_hmacsha512256_update(&st, hs->transcript.data, hs->transcript.len);
    if (n)
        crypto_auth_hmacsha512256_update(&st, extra, n);
    crypto_auth_hmacsha512256_final(&st, mac);
}

static void put_self(struct pd_buf *b, const struct wire_hs *hs) {
    pd_put_u16(b, hs->self.self.role);
    pd_put_u32(b, hs->self.self.id);
    pd_put_u64(b, hs->self.self.incarnation);
    pd_put_str(b, hs->self.self.job);
    pd_put(b, hs->nonce, sizeof hs->nonce);
}

/* Appends a frame to `out`. Both proofs cover the bodies in the transcript exactly as encoded here.
 */
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
    struct pd_buf b;
    uint8_t mac[crypto_auth_BYTES];
    int rc = 0;
    pd_buf_init(&b);
    switch (hs->step) {
    case SEND_HELLO:
        pd_put_u32(&b, WIRE_VERSION); /* lowest and highest version that this program speaks */
        pd_put_u32(&b, WIRE_VERSION);
        put_self(&b, hs);
        rc = append_frame(hs, WIRE_HS_HELLO, &b, 1, out, err);
        hs->step = WAIT_CHALLENGE;
        break;
    case SEND_CHALLENGE:
        pd_put_u32(&b, WIRE_VERSION);
        put_self(&b, hs);
        rc = append_frame(hs, WIRE_HS_CHALLENGE, &b, 1, out, err);
        hs->step = WAIT_PROOF;
        break;
    case SEND_PROOF:
        proof(hs, "paddlectl connector", NULL, 0, mac);
        pd_put(&b, mac, sizeof mac);
        rc = append_frame(hs, WIRE_HS_PROOF, &b, 0, out, err);
        hs->step = WAIT_WELCOME;
        break;
    case SEND_WELCOME:
        proof(hs, "paddlectl acceptor", hs->greeting, hs->greeting_len, mac);
        pd_put(&b, mac, sizeof mac);
        pd_put_blob(&b, hs->greeting, hs->greeting_len);
        rc = append_frame(hs, WIRE_HS_WELCOME, &b, 0, out, err);
        hs->step = OPEN;
        break;
    default:
        break;
    }
    pd_buf_release(&b);
    return rc;
}

static void get_peer(struct wire_hs *hs, struct pd_reader *r) {
    hs->peer.role = pd_get_u16(r);
    hs->peer.id = pd_get_u32(r);
    hs->peer.incarnation = pd_get_u64(r);
    pd_get_str(r, hs->peer.job, sizeof hs->peer.job);
    (void)pd_get(r, WIRE_NONCE_BYTES);
}

static int take_opening(struct wire_hs *hs, const struct wire_frame *f, int is_hello,
                        struct pd_err *err) {
    struct pd_reader r;
    pd_reader_init(&r, f->sec[0], f->len[0]);
    uint32_t lo = pd_get_u32(&r), hi = is_hello ? pd_get_u32(&r) : lo;
    get_peer(hs, &r);
    if (!pd_reader_done(&r))
        return pd_fail(err, PD_EPROTO, "handshake: malformed %s", wire_msg_name(f->type));
    if (WIRE_VERSION < lo || WIRE_VERSION > hi)
        return pd_fail(err, PD_EPROTO,
                       "handshake: the peer speaks versions %u to %u, this program %d", lo, hi,
                       WIRE_VERSION);
    if (strcmp(hs->peer.job, hs->self.self.job))
        return pd_fail(err, PD_EAUTH,
                       "handshake: the peer belongs to job '%s', this process to '%s'",
                       hs->peer.job, hs->self.self.job);
    pd_put(&hs->transcript, f->sec[0], f->len[0]);
    return hs->transcript.failed ? pd_fail(err, PD_ENOMEM, "handshake: out of memory") : 0;
}

static int take_proof(struct wire_hs *hs, const struct wire_frame *f, const char *label,
                      int greeting, struct pd_err *err) {
    struct pd_reader r;
    uint8_t want[crypto_auth_BYTES];
    size_t n = 0;
    pd_reader_init(&r, f->sec[0], f->len[0]);
    const uint8_t *mac = pd_get(&r, crypto_auth_BYTES),
                  *extra = greeting ? pd_get_blob(&r, &n) : NULL;
    if (!pd_reader_done(&r) || n > WIRE_GREETING_MAX)
        return pd_fail(err, PD_EPROTO, "handshake: malformed %s", wire_msg_name(f->type));
    proof(hs, label, extra, n, want);
    if (sodium_memcmp(mac, want, sizeof want))
        return pd_fail(err, PD_EAUTH, "handshake: the peer does not hold this job's key");
    if (n) {
        hs->greeting = pd_malloc(n);
        if (!hs->greeting)
            return pd_fail(err, PD_ENOMEM, "handshake: out of memory");
        memcpy(hs->greeting, extra, n);
        hs->greeting_len = n;
    }
    crypto_generichash(hs->session_key, sizeof hs->session_key, hs->transcript.data,
                       hs->transcript.len, hs->self.key, sizeof hs->self.key);
    return 0;
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
        int rc = f->type == WIRE_HS_PROOF     ? take_proof(hs, f, "paddlectl connector", 0, err)
                 : f->type == WIRE_HS_WELCOME ? take_proof(hs, f, "paddlectl acceptor", 1, err)
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
const uint8_t *wire_hs_session_key(const struct wire_hs *hs) { return hs->session_key; }

const uint8_t *wire_hs_greeting(const struct wire_hs *hs, size_t *n) {
    *n = hs->greeting_len;
    return hs->greeting;
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
