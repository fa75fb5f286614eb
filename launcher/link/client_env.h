/* SPDX-License-Identifier: Apache-2.0 */
/* client_env.h - the base of each subcommand that talks to nodes: the hosts of conf.ini, their
 * roles, the agent's executable, the pool of ssh sessions, and the loop. Every error of the
 * configuration is found here, before the first connection. */
#pragma once

#include "conf/options.h"
#include "launcher/engine/engine.h"
#include "launcher/link/link.h"

struct client_env {
    uv_loop_t loop;
    int has_loop;
    const struct pd_options *opts;
    struct engine_run engine;
    struct hosts hosts;
    int *pservers, *trainers; /* node ids in rank order */
    size_t n_pservers, n_trainers;
    struct agent_image agent;
    struct link_env env;
    struct link_starts starts;
};

/* `opts` stays in use. After a failure there is nothing to release. */
int client_env_init(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
/* As client_env_init for a job that begins: client_env_start, before the first connection, makes
 * the nodes if the engine does so. */
int client_env_init_job(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
int client_env_start(struct client_env *c, struct pd_err *err);
/* Warns on standard error if the machines' connections are not sealed (encrypt = off). */
void client_env_warn_plain(const struct pd_options *opts);
/* As client_env_init without the agent's executable, for plain commands. */
int client_env_init_plain(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
/* As client_env_init_job, but no node will be talked to: `launch` starts nothing. */
int client_env_init_dry(struct client_env *c, const struct pd_options *opts, struct pd_err *err);
/* Sets only the roles of *c, for that many nodes. They are released with it. */
int client_env_roles(struct client_env *c, size_t n_nodes, struct pd_err *err);
void client_env_release(struct client_env *c); /* call after all links are closed */
/* 1: each host is this machine, without ssh. */
int client_env_is_local(const struct client_env *c);

/* The source of an option's value: "conf.ini:12", "command line". */
const char *option_source(const struct pd_options *opts, const char *name);
