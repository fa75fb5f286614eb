/* ssh.h - commands on many hosts over ssh, all on one libuv loop, without blocking it.
 *
 *   waiting -> resolving -> connecting -> keys -> authenticating [-> agent] -> channel -> exec -> open
 *
 * At most SSH_UNAUTHENTICATED connections per address are in the steps before authentication has succeeded (sshd drops
 * more than its MaxStartups), at most `fanout` in all; a connection that is dropped before the server has said who it is
 * is tried again after a random wait. A host has `connect_timeout_ms` for all steps up to exec, waiting for its turn not
 * counted; the message of a failure names the step.
 */
#ifndef LAUNCHER_SSH_H
#define LAUNCHER_SSH_H

#include "launcher/cluster/hosts.h"
#include "launcher/cluster/transport.h"

enum { SSH_UNAUTHENTICATED = 8 };

struct ssh_opts {
    const char *identity_file; /* "" or NULL: what ~/.ssh/config says, else ~/.ssh/id_ed25519, id_ecdsa, id_rsa */
    const char *known_hosts;   /* "" or NULL: ~/.ssh/known_hosts, and the system's list beside it */
    const char *config;        /* "" or NULL: ~/.ssh/config */
    int accept_new;            /* host_key_policy = accept-new: an unknown key is added; a changed one never */
    uint64_t connect_timeout_ms;
    int fanout; /* sessions that are set up at a time */
};

struct ssh_pool;

/* Reads known_hosts. PD_ECONF for a file that is named but can't be used. */
int ssh_pool_new(struct ssh_pool **out, uv_loop_t *loop, const struct ssh_opts *opts, struct pd_err *err);
void ssh_pool_free(struct ssh_pool *pool); /* after on_close of all its transports; may be NULL */

/* Run `command` on the host through the user's login shell. */
int ssh_pool_open(struct transport **out, struct ssh_pool *pool, const struct host *host, const char *command,
                  const struct transport_events *ev, void *arg, struct pd_err *err);

#endif
