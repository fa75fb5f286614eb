/* client_beat.h - heartbeats of a trainer: is each pserver still alive, and does each pserver know
 * that this trainer is?
 *
 *     trainer's beat thread ── PS_BEAT every 0.5 s ──▶ server's main thread
 *                           ◀── PS_BEAT at once ──────
 *
 * The connection is made to the first port of the server, whose thread hands it to the main thread.
 * Neither end's thread computes, loads or saves, so a long step or checkpoint does not look like
 * silence; a process that is stopped (SIGSTOP), or whose host hangs while its kernel still answers,
 * is silent on a connection that stands. Silence is final: a server that answers again stays lost.
 * Ticks are counted and not the clock: if the judging process was itself stopped, that time does
 * not count. A cut network is no silence: as long as the peer's kernel acknowledges nothing
 * (net_has_unacknowledged), nothing is counted, and after the cut the count begins as far below 0
 * as the cut lasted, since TCP waits that long before it sends again. The server's end is
 * server_beat.c.
 */
#ifndef PD_PS_CLIENT_BEAT_H
#define PD_PS_CLIENT_BEAT_H

#include "base/err.h"
#include "base/log.h"
#include "ps/plan/types.h"
#include "wire/handshake.h"

struct ps_beat_server {
    const char *ip;
    int port;
};

struct ps_beat_opts {
    const struct ps_beat_server *servers; /* copied */
    uint32_t n_servers;
    struct wire_hs_opts hs;   /* as this trainer's other connections; copied */
    uint64_t limit_ms;        /* a server that answered before and is silent for so long is lost */
    uint64_t first_ms;        /* the same for one that never answered; at least limit_ms holds */
    const struct pd_log *log; /* may be NULL; outlives it */
};

struct ps_beat;
int ps_beat_start(struct ps_beat **out, const struct ps_beat_opts *o, struct pd_err *err);
void ps_beat_stop(struct ps_beat *b); /* ends the thread; NULL is legal */
/* The number of a server that is lost, and the limit that it has passed; -1: none. From any
 * thread. */
int ps_beat_silent(const struct ps_beat *b, uint64_t *limit_ms);

#endif
