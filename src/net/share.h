/* share.h - the two directions of a connection within a machine, through memory (arena.h).
 *
 *     connector  HS_SHARE: its arena ─▶ acceptor finds it ─▶ HS_SHARE: its own ─▶ connector finds it, may send ─▶ HS_SHARED ─▶ may send
 *
 * Either may answer HS_SHARED with 0 instead; then all goes through the socket. Frames keep what
 * they lie in until they are freed, on whatever thread, also when the connection has gone.
 */
#ifndef PD_NET_SHARE_H
#define PD_NET_SHARE_H

#include "net/conn.h"

enum { NET_SHARE_LEAST = 16 << 10 /* bytes of a frame: less is not worth the way */ };

struct net_share;
/* One of these two that came. 0, or PD_EPROTO. The frame stays the caller's. */
int net_share_frame(struct net_conn *c, const struct wire_frame *f, struct pd_err *err);
/* The sections are in shared memory, copied or lent, and `wire` is what goes through the socket: 1,
 * and `release` is called when they are no longer needed; 0: there is no room. */
int net_share_put(struct net_share *s, uint16_t type, uint16_t flags, uint64_t req,
                  const struct net_sec *sec, uint32_t n_sec, const size_t *len,
                  void (*release)(void *), void *release_arg,
                  uint8_t wire[WIRE_HEADER + WIRE_ELSEWHERE]);
void net_share_look(struct net_share *s); /* what was lent may have been read; NULL is fine */
void net_share_end(
    struct net_conn *c); /* all goes through the socket; nothing counts as lent any more */
int net_share_sends(const struct net_share *s); /* NULL is fine */

#endif
