/* cluster.h - what every subcommand that talks to nodes begins with: the hosts of conf.ini, their
 * roles, the agent's executable, the ssh sessions' common part, and the loop. Everything that can
 * be wrong with the configuration is found here, before the first connection. */
#ifndef LAUNCHER_CLIENT_ENV_H
#define LAUNCHER_CLIENT_ENV_H

#include "conf/options.h"
#include "launcher/link/link.h"

struct client_env {
    uv_loop_t loop;
    int has_loop;
    const struct pd_options *opts;
    struct hosts hosts;
    int *pservers, *trainers; /* node ids in rank order */
    size_t n_pservers, n_trainers;
    struct agent_image agent;
    struct ssh_pool *ssh;
    struct link_env env;
};

/* `opts` stays in use. On failure nothing is left to release. */
int client_env_init(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
/* The same without the agent's executable, for plain commands. */
int client_env_init_plain(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
void client_env_release(struct client_env *c); /* after all links are closed */

/* Where a value came from: "conf.ini:12", "command line". */
const char *option_source(const struct pd_options *opts, const char *name);

#endif
