/* agent.h - an agent, put together and run: core, clients and their services, the job.
 *
 * One loop, one thread; unpacking, packing what is fetched, and turns of work of a dispatch
 * (package.h) run on threads that touch nothing of it.
 */
#ifndef PD_AGENT_AGENT_H
#define PD_AGENT_AGENT_H

#include "agent/core/agent_core.h"

/* `build` below: BLAKE2b-256 of this executable, when whoever started it has compared the file's
 * checksum; else NULL, and it is computed.
 *
 * Blocks until the job and its clients are done; without a client's word for lease_ms (0: some
 * seconds) before the job is set up, it ends. `ready` gets "1" once the socket listens, else why
 * not. */
int agent_run_daemon(const struct node_paths *p, unsigned lease_ms, const char *build, int ready);

/* One client on stdin and stdout, without a daemon. Returns the exit status. `join` (or NULL) gets
 * the job that the client asked for with AG_JOIN, or "": stdin and stdout are then still open, for
 * whoever serves that job. */
int agent_run_stdio(const struct node_paths *p, enum agent_mode mode, const char *build,
                    char join[64]);

#endif
