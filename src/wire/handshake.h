/* handshake.h - mutual authentication: both ends prove that they hold the job's key before any
 * other message.
 *
 *     connector                              acceptor
 *     HELLO  {who I am, nonce_c}      -->
 *                                     <--    CHALLENGE {version, who I am, nonce_s}
 *     PROOF  {mac_c}                  -->    verified, else closed without an answer
 *                                     <--    WELCOME {mac_s, greeting}
 *
 * mac_x = HMAC-SHA-512-256(key, label_x || HELLO body || CHALLENGE body). The labels differ, so
 * neither proof can be reflected. A peer without the key learns a version and a nonce, nothing
 * else. Source: libsodium crypto_auth; the pattern is ISO/IEC 9798-4 three-pass mutual
 * authentication. */
#ifndef PD_WIRE_HANDSHAKE_H
#define PD_WIRE_HANDSHAKE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

enum { WIRE_VERSION = 2, WIRE_KEY_BYTES = 32, WIRE_NONCE_BYTES = 32, WIRE_GREETING_MAX = 2048 };

enum wire_role {
    WIRE_ROLE_NONE,
    WIRE_ROLE_AGENT,
    WIRE_ROLE_PSERVER,
    WIRE_ROLE_TRAINER,
    WIRE_ROLE_PROBE,
    WIRE_ROLE_TAKER
};

/* What each end says about itself. */
struct wire_hello {
    uint16_t role;        /* enum wire_role */
    uint32_t id;          /* node id, trainer id or server id */
    uint64_t incarnation; /* unique for each start of the process */
    char job[64];         /* job id; both ends must name the same */
};

struct wire_hs_opts {
    struct wire_hello self;
    uint8_t key[WIRE_KEY_BYTES];
    /* Acceptor only: bytes for WELCOME, such as a list of further ports; may be NULL. */
    const void *greeting;
    size_t greeting_len; /* at most WIRE_GREETING_MAX */
};

struct wire_hs;
/* The connector (connector = 1) sends first. Copies opts and the greeting. NULL: out of memory. */
struct wire_hs *wire_hs_new(const struct wire_hs_opts *opts, int connector);
void wire_hs_free(struct wire_hs *hs); /* wipes the key */

/* Append the next frame to send, header included, to `out`; nothing if there is none. */
int wire_hs_output(struct wire_hs *hs, struct pd_buf *out, struct pd_err *err);
/* Process a received frame. 0: continue; 1: the connection is open; PD_EAUTH or PD_EPROTO: close it
 * without an answer. */
int wire_hs_input(struct wire_hs *hs, const struct wire_frame *f, struct pd_err *err);

int wire_hs_done(const struct wire_hs *hs);
const struct wire_hello *wire_hs_peer(const struct wire_hs *hs);
const uint8_t *wire_hs_greeting(const struct wire_hs *hs, size_t *n); /* connector, once open */
const uint8_t *wire_hs_session_key(const struct wire_hs *hs);         /* 32 bytes, once open */

/* Read a key file: 32 bytes or 64 hex digits, mode without group and other bits (else PD_EAUTH). */
int wire_key_read(const char *path, uint8_t key[WIRE_KEY_BYTES], struct pd_err *err);

#endif
