/* SPDX-License-Identifier: Apache-2.0 */
/* callback_shell.h - a command of /bin/sh whose standard streams are a connection to paddlectl:
 * CB_OUT in both directions, CB_ERR, CB_EOF, CB_END. */
#pragma once

#include "net/conn.h"
#include "wire/client_bodies.h"

struct callback_shell;

struct callback_shell_events {
    /* The command has ended. 1: the connection is the caller's again, and waits for the next
     * command. 0: it is closed. */
    int (*on_end)(void *arg);
    void (*on_over)(void *arg); /* the command has ended, and its connection is not used any more */
};

/* Starts the command. If the connection is lost, the command loses its streams; a plain command, or
 * what does not end after that, gets TERM, and KILL. NULL: no memory. */
struct callback_shell *callback_shell_new(uv_loop_t *loop, struct net_conn *c,
                                          const struct cb_open *o,
                                          const struct callback_shell_events *ev, void *arg);
void callback_shell_frame(struct callback_shell *s, const struct wire_frame *f);
void callback_shell_drained(struct callback_shell *s);
void callback_shell_lost(struct callback_shell *s); /* the connection is closed */
/* 1: `pid` is the command, which libuv waits for. */
int callback_shell_is(const struct callback_shell *s, pid_t pid);
