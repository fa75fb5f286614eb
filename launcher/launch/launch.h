/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - one command, such as mpirun or srun, that starts a program on each node, which calls
 * back: `launch` of conf.ini, in place of ssh.
 *
 *     launch_new ──▶ listens
 *     launch_run ──▶ the command ──▶ callbacks (src/agent/callback) ──▶ all have enrolled
 *     launch_open ─▶ a stream to a command on node i, which is rank i
 *     launch_free ─▶ goodbye; the command ends
 *
 * A call enrols with a one-time secret: once for each rank, and as long as a rank is missing. The
 * rank then gets a secret of its own for its later calls. The connections are sealed. None of the
 * handles keeps the loop running, but those of open streams. */
#pragma once

#include "launcher/transport/transport.h"

struct launch;

struct launch_opts {
    const char *command; /* the option */
    uint64_t timeout_ms; /* for all ranks to call back; later for a stream */
    uint64_t lease_ms;   /* so long callbacks without processes wait for a lost paddlectl */
    /* what fresh hosts get by the protocol of seeds (seed/seed.h); not copied */
    const uint8_t *payload;
    size_t payload_size;
};

/* Listen. PD_ECONF: the command is empty or has a quote without its end. */
int launch_new(struct launch **out, uv_loop_t *loop, const struct launch_opts *o,
               struct pd_err *err);

enum { LAUNCH_ADDRS_MAX = 32, LAUNCH_KEY = 32 };

/* Where callbacks and seeds find this process. */
struct launch_place {
    int port, seed_port;
    size_t n_addrs;
    char addrs[LAUNCH_ADDRS_MAX][46]; /* of this machine, loopback last */
    uint8_t secret[LAUNCH_KEY], seed_secret[LAUNCH_KEY];
};
const struct launch_place *launch_place(const struct launch *l);
/* 1: the command hands its standard input to all (srun). 0: the environment carries the secret. */
int launch_has_stdin(const struct launch *l);

/* Run the command with these words behind its own. `secret` is the value of the variable `name`, or
 * with launch_has_stdin the first line of `input`. Runs the loop until n_nodes ranks (0: as many as
 * they say) have enrolled. PD_EHOST: the command has ended, or a rank is missing; labels[i] is a
 * name for it, or NULL. PD_ECANCELED: Ctrl-C. */
struct launch_words {
    char *const *words; /* ends with NULL */
    const char *name, *secret;
    const void *input;
    size_t n_input;
};
int launch_run(struct launch *l, const struct launch_words *w, int n_nodes,
               const char *const *labels, struct pd_err *err);
int launch_n_nodes(const struct launch *l);
const char *launch_host(const struct launch *l, int rank); /* the name that it reports */

/* Node i is rank rank_of[i], which is copied; before that it is rank i. */
int launch_set_ranks(struct launch *l, const int *rank_of, struct pd_err *err);

/* Run `line` in /bin/sh on a node, as its user. With ev->on_stderr it is a plain command, which
 * ends with its connection. */
int launch_open(struct transport **out, struct launch *l, int node, const char *line,
                const struct transport_events *ev, void *arg, struct pd_err *err);
/* 1: the command has ended, so no node can be reached any more. */
int launch_has_ended(const struct launch *l);   /* NULL is fine */
const char *launch_end(const struct launch *l); /* then: how */

/* Say goodbye, wait for the command's end if no process stays on the nodes, and free. Runs the
 * loop. After on_close of all streams. NULL is fine. */
void launch_free(struct launch *l);
