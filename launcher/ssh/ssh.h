/* ssh.h - commands on many hosts over ssh, all on one libuv loop, without blocking it.
 *
 *   config [-> jump] -> turn -> resolve -> connect -> keys -> host key -> authenticate -> channel
 * -> exec -> open
 *                 \-> turn -> forward ------------/
 *
 * At most SSH_UNAUTHENTICATED connections per address are in the steps before authentication has
 * succeeded (sshd drops more than its MaxStartups), at most `fanout` in all; a connection that is
 * dropped before the server has said who it is is tried again after a random wait, with fewer at a
 * time on that address. A host has `connect_timeout_ms` for all steps up to exec; waiting for its
 * turn, for a jump host (which has a time of its own) and for an answer of the user are not
 * counted. The message of a failure names the step. An open connection that is silent is probed;
 * one that does not answer for 15 s is lost.
 *
 * What conf.ini says wins over ~/.ssh/config. Hosts behind the same jump host share one connection
 * to it. A passphrase is asked for once, a password once per user, on the terminal and by a thread:
 * the loop goes on.
 */
#ifndef LAUNCHER_SSH_H
#define LAUNCHER_SSH_H

#include "launcher/hosts/hosts.h"
#include "launcher/transport/transport.h"

enum { SSH_UNAUTHENTICATED = 8 };

struct ssh_opts {
    const char *identity_file; /* "" or NULL: what ~/.ssh/config says, else ~/.ssh/id_ed25519,
                                  id_ecdsa, id_rsa */
    const char *known_hosts; /* "" or NULL: what ~/.ssh/config says, else ~/.ssh/known_hosts and the
                                system's list */
    const char *config;      /* "" or NULL: ~/.ssh/config, and the system's */
    const char *proxy_jump;  /* "[user@]host[:port],...": the way to every host; "none": whatever
                                ~/.ssh/config says */
    int accept_new; /* host_key_policy = accept-new: an unknown key is added; a changed one never */
    int policy_named; /* conf.ini says which, so StrictHostKeyChecking of ~/.ssh/config does not
                         count */
    uint64_t connect_timeout_ms;
    int fanout; /* sessions that are set up at a time */
    void (*warn)(const char *text,
                 void *arg); /* what of ~/.ssh/config is not followed; may be NULL */
    void *warn_arg;
};

struct ssh_pool;

/* Reads the configuration and known_hosts. PD_ECONF for a file that is named but can't be used. */
int ssh_pool_new(struct ssh_pool **out, uv_loop_t *loop, const struct ssh_opts *opts,
                 struct pd_err *err);
void ssh_pool_free(struct ssh_pool *pool); /* after on_close of all its transports; may be NULL */

/* Run `command` on the host through the user's login shell. */
int ssh_pool_open(struct transport **out, struct ssh_pool *pool, const struct host *host,
                  const char *command, const struct transport_events *ev, void *arg,
                  struct pd_err *err);

#endif
