/* SPDX-License-Identifier: Apache-2.0 */
/* client_beat.h - heartbeats of a trainer: is each pserver alive, and does each pserver know that
 * this trainer is?
 *
 *     trainer's beat thread ── PS_BEAT every 0.5 s ──▶ server's main thread
 *                           ◀── PS_BEAT at once ──────
 *
 * The connection is made to the first port of the server, whose thread hands it to the main thread.
 * Neither end's thread computes, loads or saves, so a long step or checkpoint does not look like
 * silence. A process that is stopped (SIGSTOP) is silent on an open connection. So is a process
 * whose host hangs while its kernel still answers.
 *
 * Silence is final: a server that answers again stays lost. Ticks are counted instead of time: if
 * this process itself was stopped, that time does not count.
 *
 * A cut network is not silence: while the peer's kernel acknowledges nothing
 * (net_has_unacknowledged), nothing is counted. After the cut the count begins as far below 0 as
 * the cut lasted, since TCP waits that long before it sends again. The server's end is
 * server_beat.c. */
#pragma once

#include "ps/plan/types.h"
#include "wire/handshake.h"

struct ps_beat_server {
    const char *ip;
    int port;
};

struct ps_beat_opts {
    const struct ps_beat_server *servers; /* copied */
    uint32_t n_servers;
    struct wire_hs_opts hs; /* as for this trainer's other connections; copied */
    uint64_t limit_ms;      /* a server that answered before and is silent for this time is lost */
    uint64_t first_ms; /* the same for a server that never answered; limit_ms if that is longer */
    const struct pd_log *log; /* may be NULL; must outlive the heartbeats */
};

struct ps_beat;
int ps_beat_start(struct ps_beat **out, const struct ps_beat_opts *o, struct pd_err *err);
void ps_beat_stop(struct ps_beat *b); /* ends the thread; NULL is allowed */
/* Returns the number of the first lost server and sets *limit_ms to the limit that it exceeded; -1:
 * none. From any thread. */
int ps_beat_silent(const struct ps_beat *b, uint64_t *limit_ms);
