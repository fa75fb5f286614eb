/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.h - mutual authentication with the job's key, and the keys of a sealed connection.
 *
 *     connector                                     acceptor
 *     HELLO  {who I am, nonce_c, my ciphers}   -->
 *                                              <--  CHALLENGE {who I am, nonce_s, the cipher}
 *     PROOF  {Noise message 1}                 -->  verified, else closed without an answer
 *                                              <--  WELCOME {Noise message 2 with the greeting}
 *     from here on both ends send Noise transport messages
 *
 * PROOF and WELCOME are the two messages of Noise NNpsk0 (noise.h). The bodies of HELLO and
 * CHALLENGE are the prologue, so nobody can change them, or use a PROOF a second time: nonce_s is
 * new for each connection. A peer without the key learns what CHALLENGE says, nothing else. */
#pragma once

#include "wire/frame.h"
#include "wire/noise.h"

/* WIRE_VERSION is that of the connections between the processes of a job. All of them come from one
 * paddlectl. WIRE_CLIENT_VERSION (client_bodies.h) is that of paddlectl and an agent. */
enum { WIRE_VERSION = 6, WIRE_KEY_BYTES = 32, WIRE_NONCE_BYTES = 32, WIRE_GREETING_MAX = 2048 };

enum wire_role {
    WIRE_ROLE_NONE,
    WIRE_ROLE_AGENT,
    WIRE_ROLE_PSERVER,
    WIRE_ROLE_TRAINER,
    WIRE_ROLE_PROBE,
    WIRE_ROLE_TAKER,
    WIRE_ROLE_VOTE /* a candidate, or a head that was chosen */
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
    /* encrypt = off: after the handshake the frames are neither encrypted nor authenticated. Both
     * ends must say so. */
    int plain;
    unsigned ciphers; /* set of enum wire_cipher_kind; 0: all that this CPU can use */
    /* Acceptor only: bytes for WELCOME, such as a list of further ports; may be NULL. */
    const void *greeting;
    size_t greeting_len; /* at most WIRE_GREETING_MAX */
};

struct wire_hs;
/* The connector (connector = 1) sends first. Copies opts and the greeting. NULL: out of memory. The
 * acceptor does not copy the key, which must stay until the connection is open: a stranger who
 * connects takes no locked memory, and one page after his HELLO. */
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
/* Once open: the ciphers of the connection, which the caller frees. NULL in a plain connection, and
 * from the second call on. */
void wire_hs_ciphers(struct wire_hs *hs, struct wire_cipher **send, struct wire_cipher **receive);

/* Read a key file: 32 bytes or 64 hex digits, mode without group and other bits (else PD_EAUTH). */
int wire_key_read(const char *path, uint8_t key[WIRE_KEY_BYTES], struct pd_err *err);
