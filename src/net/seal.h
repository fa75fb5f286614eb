/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - the sealed byte stream of a connection. After the handshake a connection is a sequence
 * of Noise transport messages in each direction, each after its length as Noise recommends. The
 * length has a tag of its own, so that nobody is made to wait for bytes that do not exist:
 *
 *     u16 n, big-endian | 16 bytes: tag of n | n bytes: contents and 16 bytes of tag    (a record)
 *
 * The contents of all records, in order, are the stream of frames. A record has nothing to do with
 * the borders of frames: small frames share a record, large ones have many. */
#pragma once

#include <uv.h>

#include "wire/frame.h"
#include "wire/noise.h"

enum {
    NET_RECORD_HEAD = 2 + WIRE_TAG,
    NET_RECORD_OVERHEAD = NET_RECORD_HEAD + WIRE_TAG,
    /* Contents that are sealed and written at a time: small enough for a CPU's cache. */
    NET_SEAL_CHUNK = 4 * WIRE_RECORD_MAX,
};

struct net_seal;
/* Takes the ciphers, also on failure. NULL: out of memory. */
struct net_seal *net_seal_new(struct wire_cipher *send, struct wire_cipher *receive);
void net_seal_free(struct net_seal *s); /* NULL is fine */

/* Bytes of the records for n bytes of contents. */
static inline size_t net_sealed_size(size_t n) {
    return n + (n + WIRE_RECORD_MAX - 1) / WIRE_RECORD_MAX * NET_RECORD_OVERHEAD;
}
/* Seals the first n bytes of the buffers into net_sealed_size(n) bytes at `out`. */
void net_seal_put(struct net_seal *s, uint8_t *out, const uv_buf_t *bufs, size_t n);

/* Memory for the next bytes from the peer; they are then committed. *n = 0: out of memory. */
void net_seal_space(struct net_seal *s, uint8_t **p, size_t *n);
void net_seal_commit(struct net_seal *s, size_t n);
/* Opens the next record, or a part of it, for the decoder, which must have given all its frames.
 * 1: it may have new frames. 0: no complete record is here. PD_EIO: the record is not the next
 * one of the peer, so the connection is of no more use. Other errors are the decoder's. */
int net_seal_feed(struct net_seal *s, struct wire_decoder *d, struct pd_err *err);
/* For tests: both directions renew their keys after so many messages, of which a record has two. */
void net_seal_limits(struct net_seal *s, uint64_t messages);
int net_seal_idle(const struct net_seal *s); /* 1: between two records, all given to the decoder */
