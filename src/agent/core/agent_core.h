/* agent_core.h - what every part of an agent may know, and nothing else of it: the loop, the
 * folders, the log, the executable's hash and the mode.
 *
 *   tool    `relay --root`           one client on stdin and stdout, no job: packages, job list
 *   job     the daemon of `--start`  clients on the job's unix socket, TCP to the other agents
 *   over    `relay --job`, no agent  one client on stdin and stdout: a finished job, from disk
 */
#ifndef PD_AGENT_AGENT_CORE_H
#define PD_AGENT_AGENT_CORE_H

#include <uv.h>

#include "agent/core/node_paths.h"
#include "base/log.h"

enum agent_mode { AGENT_TOOL, AGENT_JOB, AGENT_OVER };

struct agent_core {
    uv_loop_t loop;
    enum agent_mode mode;
    struct node_paths paths;
    struct pd_log log;
    char build[65]; /* BLAKE2b-256 of this executable */
};

/* `build` may be NULL: then the hash is computed. The loop is closed again on failure. */
int agent_core_init(struct agent_core *a, const struct node_paths *p, enum agent_mode mode,
                    const char *build, struct pd_err *err);
/* From the job's nodefile; -1: no job, or not known yet. */
int agent_node_id(const struct agent_core *a);

#endif
