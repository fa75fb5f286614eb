/* daemon.h - from the relay that ssh started to the agent that stays.
 *
 *     relay ──fork──▶ (setsid) ──fork──▶ watcher ──▶ guardian ──▶ agent ──▶ pserver, trainer
 *       waits for "listening"            sub-reapers, all three; the death of one is a TERM
 *                                        for the next
 *
 * However the agent ends, kill -9 included, the guardian ends every process below it and removes
 * the socket and the key. If the guardian or the watcher is killed, the agent does the same. If any
 * two of the three are killed at once, the third ends everything. What outlives all three is for
 * orphans.h.
 */
#ifndef PD_AGENT_DAEMON_H
#define PD_AGENT_DAEMON_H

#include "agent/core/node_paths.h"

/* Makes the job's folder and starts the three. Returns once the agent's socket listens; on failure
 * the folder is removed. Until the job is set up, the agent waits lease_ms (0: some seconds) for
 * bytes of a client. The calling process has one thread. `build` as in agent.h. */
int daemon_start(const struct node_paths *p, int node, unsigned lease_ms, const char *build,
                 struct pd_err *err);

#endif
