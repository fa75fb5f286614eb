/* SPDX-License-Identifier: Apache-2.0 */
/* seed.h - the protocol between launcher and seed, included by both. The specification is
 * docs/protocol.md, "The seed". */
#pragma once

#include <stdint.h>

enum {
    SEED_RECORD = 64,      /* bytes of a record on the seed's stdin */
    SEED_CHUNK = 32 << 10, /* unit of checking and forwarding; the last chunk may be shorter */
    SEED_CHUNKS_MAX = 1024,
    SEED_HASH = 32, /* BLAKE2b-256 */
    SEED_NONCE = 32,
    SEED_GREETING = SEED_NONCE, /* source to taker, first */
    SEED_PROOF = 4 + SEED_HASH, /* taker to source: u32 first chunk, keyed hash */
    SEED_TAKERS = 8,
};

/* Exit status of the seed. NOT_BEGUN: its file was not created and nothing of stdin was read. LOST:
 * paddlectl is gone or sent an invalid record. */
enum seed_exit {
    SEED_EXIT_LOST = 1,
    SEED_EXIT_NOT_BEGUN = 2,
    SEED_EXIT_WRITE = 3,
    SEED_EXIT_FULL = 4
};

enum seed_op { SEED_OP_INIT = 1, SEED_OP_CHUNK, SEED_OP_PEER, SEED_OP_LAUNCHER, SEED_OP_GO };

/* A record: u32 op, u32 a, u32 b, u32 0, 16 bytes address, 32 bytes secret. Little-endian, like
 * both machines. */
struct seed_record {
    uint32_t op, a, b, zero;
    uint8_t addr[16], secret[32];
};

/* The words after "MARKER seed " on stdout. */
#define SEED_SAYS_PORT "port "
#define SEED_SAYS_HAVE "have "
#define SEED_SAYS_LOST "lost "
#define SEED_SAYS_DONE "done"

#define SEED_PROOF_LABEL                                                                     \
    "paddlectl seed" /* without its NUL: keyed hash over it, the nonce and the first chunk's \
                        number */
