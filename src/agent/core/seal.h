/* seal.h - the payload of the frames that two agents exchange about packages: sealed with
 * libsodium's secretstream, or plain. docs/protocol.md, "From node to node". */
#ifndef PD_AGENT_SEAL_H
#define PD_AGENT_SEAL_H

#include <sodium.h>

#include "net/conn.h"

struct seal {
    int on, sent, received; /* on: frames are sealed. The others: that direction has begun */
    uint8_t send_key[crypto_secretstream_xchacha20poly1305_KEYBYTES],
        receive_key[crypto_secretstream_xchacha20poly1305_KEYBYTES];
    crypto_secretstream_xchacha20poly1305_state out, in;
};

/* Derives the keys from the session key of an open connection. on 0: frames are sent plain. */
void seal_init(struct seal *s, const struct net_conn *c, int is_taker, int on);
/* Sends a frame with this payload in section 1. 0, PD_ENOMEM, or an error of net_send. */
int seal_send(struct seal *s, struct net_conn *c, uint16_t type, const void *p, size_t n);
/* Opens a received frame. *out is the malloc'ed payload, which the caller frees. PD_EAUTH: the
 * frame is not from the peer, or not in order. */
int seal_open(struct seal *s, const struct wire_frame *f, uint8_t **out, size_t *n,
              struct pd_err *err);

#endif
