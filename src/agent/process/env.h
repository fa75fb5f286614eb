/* SPDX-License-Identifier: Apache-2.0 */
/* env.h - the environment of a process of the job; docs/design.md, "On a node".
 *
 *     the agent's own, without PADDLE_*, OPENBLAS_*, SSH_*, CPU_NUM and the names set below
 *       < [env] of conf.ini  < those of HD_START that env_check lists  < the agent's (PADDLE_*)
 *
 * OPENBLAS_CORETYPE must not be inherited: it may differ between a login shell and sshd, and it
 * changes the last bits of the results. CPU_NUM would override trainer_count. */
#pragma once

#include <jansson.h>

#include "agent/core/node_paths.h"
#include "agent/core/spec.h"

struct env_role {
    enum role role;
    int rank, port;
    int n_trainers;        /* of this attempt; spec.roles has the roles of the first attempt */
    unsigned n_listen_fds; /* descriptors 4, 5, ... of our own pserver */
    int has_data_fd;       /* descriptor 4 of our own trainer: PADDLE_DATA_FD */
    const json_t *job_env; /* HD_START's `env`, after env_check */
};

/* Are these the variables that HD_START may set, with values of their form? 0 or PD_EPROTO, which
 * names the variable. */
int env_check(const json_t *of_sender, struct pd_err *err);
/* Returns a NULL-terminated array for exec, to be freed with env_free; NULL: out of memory.
 * `inherited` is normally environ. */
char **env_build(const struct node_paths *p, const struct spec *s, const struct env_role *r,
                 char *const *inherited);
void env_free(char **env);
