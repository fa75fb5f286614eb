/* SPDX-License-Identifier: Apache-2.0 */
/* launch_env.h - for client_env.c: starts the command of the option `launch`, and makes the hosts
 * of its ranks. */
#pragma once

#include "launcher/link/client_env.h"

/* The options are sound. */
int client_env_check_launch(const struct client_env *c, struct pd_err *err);
/* Runs the loop until all nodes have called back. Without hosts, *list becomes a host expression,
 * one host a rank, which the caller frees. The agent's executable must be loaded. */
int client_env_launch(struct client_env *c, char **list, struct pd_err *err);
