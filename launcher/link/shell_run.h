/* SPDX-License-Identifier: Apache-2.0 */
/* shell_run.h - one command on many hosts, through each user's login shell as `ssh host COMMAND`
 * runs it; without the agent.
 *
 *     shell_run --> on_output ... --> on_over         for each host; returns when all are over
 *
 * The command ends with paddlectl. A remote command without a terminal would outlive its
 * connection, so a small shell script stands before the command: the watch. Its child process
 * polls a few times a second whether the login shell's parent is still the sshd process (on this
 * machine: paddlectl) that started it. If not, while the login shell lives, the watch ends every
 * process of the shell's session: TERM, a second later KILL. So it does not matter how paddlectl
 * ends. Daemons that an ended command left behind are not touched. The command's stdin is empty, or
 * the caller's input.
 */
#pragma once

#include "launcher/link/client_env.h"

enum shell_stream { SHELL_OUT, SHELL_ERR, SHELL_N_STREAMS };

/* Exit statuses as in timeout(1) and ssh(1). */
enum { SHELL_TIMED_OUT = 124, SHELL_NO_HOST = 255 };

struct shell_host {
    int asked;        /* set by the caller: run the command here */
    int over, status; /* 0..255; of a signal 128 plus its number */
    int timed_out;
    char signal[32];   /* "" or "KILL" */
    struct pd_err err; /* why there is no exit status */
    uint64_t ms;       /* duration of the command */
};

struct shell_events {
    void (*on_output)(void *arg, size_t host, enum shell_stream stream, const uint8_t *p, size_t n);
    void (*on_over)(void *arg, size_t host); /* may be NULL */
};

struct shell_run;

struct shell_job {
    const char *command;
    /* stdin of each command; in use until shell_run returns */
    const void *input;
    size_t n_input;
    uint64_t timeout_ms;      /* from the command's start; 0: none */
    struct shell_host *hosts; /* one for each host of the configuration */
    struct shell_run *run;    /* valid while shell_run runs */
};

/* Run the loop until all hosts are over, and as long as handles of the caller are open. Ctrl-C,
 * TERM and HUP end the commands; a second signal has its default action, so the user need not wait.
 * 1: interrupted. */
int shell_run(struct client_env *c, struct shell_job *job, const struct shell_events *ev,
              void *arg);
/* end the commands, as Ctrl-C does; may be called from a callback */
void shell_stop(struct shell_job *job);
