/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - assembles and runs an agent: core, clients and their services, the job.
 *
 * An agent has one loop on one thread. Scans, reads and writes of large folders (fetch.c,
 * package.h, file_fetch.h, clean.h) run on threads of the pool, which do not touch the loop's data.
 */
#pragma once

#include "agent/core/agent_core.h"

/* `build` below is the BLAKE2b-256 of this executable, if the starter has compared the file's
 * checksum. If it is NULL, the hash is computed.
 *
 * Runs a job's agent. Blocks until the job and its clients are done. Before the job is set up, the
 * agent ends if no client sends bytes for lease_ms (0: 10 s). Writes "1" to `ready` when the socket
 * listens, or else the reason of the failure. Returns the exit status. */
int agent_run_daemon(const struct node_paths *p, unsigned lease_ms, const char *build, int ready);

/* Serves one client on stdin and stdout, without a daemon. Returns the exit status. `join` (may be
 * NULL) becomes the job of the client's AG_JOIN, or "". If it is a job, stdin and stdout stay open
 * for the process that serves this job. */
int agent_run_stdio(const struct node_paths *p, enum agent_mode mode, const char *build,
                    char join[64]);
