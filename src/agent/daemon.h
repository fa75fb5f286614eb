/* daemon.h - from the relay that ssh started to the agent that stays.
 *
 *     relay ──fork──▶ (setsid) ──fork──▶ watcher ──▶ guardian ──▶ agent ──▶ pserver, trainer, their children
 *       waits for "listening"            sub-reapers, all three; each gets TERM when the one above
 * it dies
 *
 * Whatever way the agent ends, kill -9 included, the guardian then ends every process below and
 * removes the socket and the key; if the guardian is killed, or the watcher, the agent does the
 * same; of any two that are killed at once the third ends all. What outlives all three is for
 * orphans.h.
 */
#ifndef PD_AGENT_DAEMON_H
#define PD_AGENT_DAEMON_H

#include "agent/core/node_paths.h"

/* Make the job's folder and start the three; returns once the agent's socket listens. Until the job
 * is set up the agent waits lease_ms for bytes of its client (0: some seconds). Call it while the
 * process has one thread. `build` as in agent.h. On failure the folder is gone again. */
int daemon_start(const struct node_paths *p, int node, unsigned lease_ms, const char *build,
                 struct pd_err *err);

#endif
