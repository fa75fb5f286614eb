/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - shared memory for both directions of a connection within a machine (arena.h).
 *
 *     connector                          acceptor
 *     HS_SHARE {its arena}      ──▶      maps it
 *     maps it, may send         ◀──      HS_SHARE {its arena}
 *     HS_SHARED                 ──▶      may send
 *
 * The peer can change the bytes at any time. So a section that is checked, or of which a wrong byte
 * could lead astray (keys, counts, strings, heads), is copied when its frame is received, before
 * anybody looks at it. Only sections of net_opts.in_place are used where the peer has put them:
 * they have values of which every one is valid.
 *
 * Either side may answer HS_SHARED {0} instead; then all frames go through the socket. A received
 * frame keeps its memory until it is freed, on any thread, even after the connection has closed. */
#pragma once

#include "net/conn.h"

enum { NET_SHARE_LEAST = 16 << 10 /* bytes; smaller frames are faster through the socket */ };

struct net_share;
/* Process a received HS_SHARE or HS_SHARED. 0, or PD_EPROTO. The caller still owns the frame. */
int net_share_frame(struct net_conn *c, const struct wire_frame *f, struct pd_err *err);
/* Put the sections into shared memory, by copying or lending. 1: `wire` is to be sent through the
 * socket, and `release` is called when the sections are no longer used. 0: no room. */
int net_share_write(struct net_share *s, uint16_t type, uint16_t flags, uint64_t req,
                    const struct net_sec *sec, uint32_t n_sec, const size_t *len,
                    void (*release)(void *), void *release_arg,
                    uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY]);
/* release sections that the peer has read; NULL is fine */
void net_share_reclaim(struct net_share *s);
/* From here on all frames go through the socket, and nothing counts as lent. */
void net_share_end(struct net_conn *c);
int net_share_sends(const struct net_share *s); /* 1: sending uses shared memory; s may be NULL */
