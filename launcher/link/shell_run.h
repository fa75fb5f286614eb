/* shell_run.h - one command on many hosts, through each user's login shell as `ssh host COMMAND`
 * runs it; without our agent.
 *
 *     shell_run --> on_output ... --> on_over         for each host; returns when all are over
 *
 * The command ends with us. A remote command without a terminal outlives its connection, so a small
 * shell script is put in front of it, whose child looks a few times a second whether the sshd
 * process (or the paddlectl, on this machine) that started the login shell is still its parent.
 * When it is not, while the login shell lives, it ends everything in the shell's session: TERM, a
 * second later KILL. So it does not matter how we end. What a command that has ended left behind, a
 * daemon of the user's, is not touched. The stdin of the command is empty, or what the caller
 * gives.
 */
#ifndef LAUNCHER_SHELL_RUN_H
#define LAUNCHER_SHELL_RUN_H

#include "launcher/link/client_env.h"

enum shell_stream { SHELL_OUT, SHELL_ERR, SHELL_N_STREAMS };

/* Exit statuses as timeout(1) and ssh(1) have them. */
enum { SHELL_TIMED_OUT = 124, SHELL_NO_HOST = 255 };

struct shell_host {
    int asked;        /* set by the caller: run it here */
    int over, status; /* 0..255; a signal is 128 and its number */
    int timed_out;
    char signal[32];   /* "" or "KILL" */
    struct pd_err err; /* why there is no exit status */
    uint64_t ms;       /* how long the command ran */
};

struct shell_events {
    void (*on_output)(void *arg, size_t host, enum shell_stream stream, const uint8_t *p, size_t n);
    void (*on_over)(void *arg, size_t host); /* may be NULL */
};

struct shell_run;

struct shell_job {
    const char *command;
    const void *input; /* for everybody's stdin, in use until shell_run returns */
    size_t n_input;
    uint64_t timeout_ms;      /* from the command's start; 0: none */
    struct shell_host *hosts; /* one for each of the cluster */
    struct shell_run *run;    /* while it runs */
};

/* Runs the loop until all hosts are over, and then as long as handles of the caller's are open.
 * Ctrl-C, TERM and HUP end the commands; a second one, for who does not want to wait for anything,
 * is like the default. 1: interrupted. */
int shell_run(struct client_env *c, struct shell_job *job, const struct shell_events *ev,
              void *arg);
void shell_stop(struct shell_job *job); /* end the commands, as Ctrl-C does; from a callback */

#endif
