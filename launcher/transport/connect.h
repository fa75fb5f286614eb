/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h - hosts behind a command: `connect = kubectl exec -i %h --` in place of ssh. paddlectl
 * runs the command with "/bin/sh" behind it, once for each connection. Its stdin and stdout must be
 * those of a shell on the host.
 *
 *     knock, once a second         ──▶  the shell
 *                                  ◀──  READY    what comes before is ignored; stdin may lose bytes
 *     the line, and nothing else   ──▶           a shell may read more than the line that it runs
 *                                  ◀──  BEGUN    without a newline: a command that passes only
 *                                                complete lines on is found here
 *     go                           ──▶           on_open: now stdin belongs to the line's command
 *                                  ◀──  ENDED 3  of a plain command: its exit status
 *
 * The marks are random. Neither exit status 0 of the command nor the end of its output is taken for
 * success: commands such as kubectl lose connections without an error.
 */
#pragma once

#include "launcher/transport/transport.h"

struct connector;

struct connect_host {
    const char *host, *user; /* %h, %u; user NULL: the user of this process */
    int port;                /* %p; 0: 22 */
    int node;                /* %n */
};

/* `command` is split at blanks; quotes ('' and "") hold words together. No shell reads it. %h, %u,
 * %p and %n are replaced in each word, %% is a percent sign. At most `fanout` connections are set
 * up at a time, each within timeout_ms. PD_ECONF: a quote without end, another %, no %h and no %n.
 */
int connector_new(struct connector **out, uv_loop_t *loop, const char *command, uint64_t timeout_ms,
                  int fanout, struct pd_err *err);
int connector_uses(const struct connector *c, char letter); /* 1: `letter` is replaced */
/* After on_close of all its transports. NULL is fine. */
void connector_free(struct connector *c);

/* Run `line` in the shell of a host. If ev->on_stderr is set, the line is a plain command, whose
 * exit status transport_status returns. */
int connector_open(struct transport **out, struct connector *c, const struct connect_host *host,
                   const char *line, const struct transport_events *ev, void *arg,
                   struct pd_err *err);
