/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - starts the agent of a job as a daemon, from the relay that ssh started.
 *
 *     relay ──fork──▶ (setsid) ──fork──▶ watcher ──▶ guardian ──▶ agent ──▶ pserver, trainer
 *       waits for "listening"            all three are sub-reapers; the death of one sends TERM
 *                                        to the next
 *
 * Whenever the agent ends, even by kill -9, the guardian ends all its descendants and removes the
 * socket and the key. If the guardian or the watcher is killed, the agent does the same. If any two
 * of the three are killed at once, the third ends all processes. If all three are killed, orphans.h
 * finds the remaining processes. */
#pragma once

#include "agent/core/node_paths.h"

/* Creates the job's folder and starts watcher, guardian and agent. Returns 0 when the agent's
 * socket listens. On failure it returns PD_E* and removes the folder. `lease_ms` and `build` are as
 * for agent_run_daemon. The calling process must have one thread. */
int daemon_start(const struct node_paths *p, int node, unsigned lease_ms, const char *build,
                 struct pd_err *err);
