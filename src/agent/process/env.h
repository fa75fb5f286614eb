/* env.h - the environment of a process of the job; docs/design.md, "On a node".
 *
 *     the agent's own, without PADDLE_*, OPENBLAS_*, SSH_* and what is set below
 *       < [env] of conf.ini  < what the job decides (PADDLE_*, TRAINING_ROLE, POD_IP)
 *
 * OPENBLAS_CORETYPE above all must not leak in: it differs between a login shell and sshd, and with
 * it the bits.
 */
#ifndef PD_AGENT_ENV_H
#define PD_AGENT_ENV_H

#include <jansson.h>

#include "agent/core/node_paths.h"
#include "agent/core/spec.h"

struct env_role {
    enum role role;
    int rank, port;
    int n_trainers;        /* of this attempt; spec.roles has those of the first attempt */
    unsigned n_listen_fds; /* descriptors 4, 5, ... of our own pserver */
    int has_data_fd;       /* descriptor 4 of our own trainer: PADDLE_DATA_FD */
    const json_t *job_env; /* HD_START's `env` */
};

/* A NULL-terminated array for exec, or NULL without memory. `inherited` is normally environ. */
char **env_build(const struct node_paths *p, const struct spec *s, const struct env_role *r,
                 char *const *inherited);
void env_free(char **env);

#endif
