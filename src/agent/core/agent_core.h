/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core.h - the state that every part of an agent shares: the loop, the folders, the log, the
 * executable's hash and the mode.
 *
 *   tool    `relay --root`           one client on stdin and stdout, no job: packages, job list
 *   job     the daemon of `--start`  clients on the job's unix socket, TCP to the other agents
 *   over    `relay --job`, no agent  one client on stdin and stdout: a finished job, from disk */
#pragma once

#include <uv.h>

#include "agent/core/node_paths.h"

enum agent_mode { AGENT_TOOL, AGENT_JOB, AGENT_OVER };

struct agent_core {
    uv_loop_t loop;
    enum agent_mode mode;
    struct node_paths paths;
    struct pd_log log;
    char build[65]; /* BLAKE2b-256 of this executable */
    int quitting;   /* the agent closes its handles */
};

/* If `build` is NULL, the hash of this executable is computed. 0 or PD_E*; on failure the loop is
 * closed. The caller sets and closes the log. */
int agent_core_init(struct agent_core *a, const struct node_paths *p, enum agent_mode mode,
                    const char *build, struct pd_err *err);
/* The node's id from the job's nodefile; -1: no job, or the id is not known yet. */
int agent_node_id(const struct agent_core *a);
