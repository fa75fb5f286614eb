/* SPDX-License-Identifier: Apache-2.0 */
/* ssh.h - commands on many hosts over ssh, on one libuv loop, which no call blocks.
 *
 *   config -> turn -> resolve -> connect ---> keys -> host key -> authenticate -> channel
 *          \-> jump -> turn -> forward ----/                            -> exec -> open
 *
 * Limits:
 *   - At most SSH_UNAUTHENTICATED sessions per address are in the steps before authentication has
 *     succeeded, since sshd drops more than its MaxStartups; at most `fanout` sessions in all.
 *   - If the server drops a connection before its greeting, the session connects again after a
 *     random wait, and the limit of that address is halved.
 *   - The steps up to exec may take `connect_timeout_ms` in all. The waits for a turn, for a jump
 *     host (which has its own time) and for an answer of the user do not count. The message of a
 *     failure names the step.
 *   - An open connection without traffic is probed. If the host does not answer for 15 s, the
 *     connection is lost.
 *
 * conf.ini wins over ~/.ssh/config. Hosts behind the same jump host share one connection to it. A
 * thread asks the user on the terminal: once for each passphrase, and once per user for a password.
 */
#pragma once

#include "launcher/hosts/hosts.h"
#include "launcher/transport/transport.h"

enum { SSH_UNAUTHENTICATED = 8 };

struct ssh_opts {
    /* "" or NULL: those of ~/.ssh/config, else ~/.ssh/id_ed25519, id_ecdsa and id_rsa. */
    const char *identity_file;
    /* "" or NULL: those of ~/.ssh/config, else ~/.ssh/known_hosts and the system's file. */
    const char *known_hosts;
    const char *config; /* "" or NULL: ~/.ssh/config and the system's file */
    /* "[user@]host[:port],...": the jump hosts to every host. "none": no jump host, whatever
     * ~/.ssh/config says. */
    const char *proxy_jump;
    /* Where these were set, "conf.ini:5", for messages; NULL: unknown. */
    const char *from_identity_file, *from_known_hosts, *from_config;
    int accept_new;   /* host_key_policy = accept-new: unknown keys are added, changed keys never */
    int policy_named; /* conf.ini sets host_key_policy: StrictHostKeyChecking does not count */
    uint64_t connect_timeout_ms;
    int fanout; /* sessions that are set up at a time */
    /* Called for settings of ~/.ssh/config that are not followed; may be NULL. */
    void (*warn)(const char *text, void *arg);
    void *warn_arg;
};

struct ssh_pool;

/* Reads the configuration and known_hosts. PD_ECONF: a file that conf.ini names is unusable. */
int ssh_pool_new(struct ssh_pool **out, uv_loop_t *loop, const struct ssh_opts *opts,
                 struct pd_err *err);
/* After on_close of all its transports. `pool` may be NULL. */
void ssh_pool_free(struct ssh_pool *pool);

/* Runs `command` on the host, in the user's login shell. */
int ssh_pool_open(struct transport **out, struct ssh_pool *pool, const struct host *host,
                  const char *command, const struct transport_events *ev, void *arg,
                  struct pd_err *err);
