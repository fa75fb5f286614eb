/* SPDX-License-Identifier: Apache-2.0 */
/* proc.h - one supervised process of the job. It runs in a process group of its own. Its output and
 * its events are read through pipes. Its end is reported once.
 *
 *     proc_start ─▶ on_output, on_event ... ─▶ on_exit ─▶ (output of its remaining children)
 *                                                              ─▶ proc_close */
#pragma once

#include <uv.h>

#include "agent/host/bind.h"

struct proc;

struct proc_events {
    void (*on_output)(struct proc *p, const void *bytes, size_t n, void *arg);
    /* Whole lines, newline included. A line that exceeds the buffer comes in pieces. */
    void (*on_event)(struct proc *p, const void *bytes, size_t n, void *arg);
    /* The process has ended, and its output was delivered. exit_code is -1 after a signal. */
    void (*on_exit)(struct proc *p, int exit_code, int signal, void *arg);
};

struct proc_command {
    const char *path; /* absolute */
    char *const *argv, *const *envp;
    const char *cwd;
    const int *fds; /* become descriptors 4, 5, ... of the process; proc_start closes them */
    unsigned n_fds;
    int block; /* a signal that is blocked until the program waits for it; 0: none */
    const struct bind_set *bind; /* NULL: the agent's own CPUs */
};

/* Descriptor 3 of every process is the pipe for events. The given descriptors start at 4. */
enum { PROC_EVENT_FD = 3, PROC_FIRST_FD = 4 };

/* 0, or PD_E* if the process could not be started; the message names the program or the folder that
 * can't be used. */
int proc_start(struct proc **out, uv_loop_t *loop, const struct proc_command *cmd,
               const struct proc_events *ev, void *arg, struct pd_err *err);
pid_t proc_pid(const struct proc *p); /* 0 after it was reaped */

/* The reaper found at wall_us (wall clock) that child `pid` had ended. Returns 1 if it is this
 * process. */
int proc_reaped(struct proc *p, pid_t pid, int status, uint64_t wall_us);

uint64_t proc_exit_us(const struct proc *p); /* the wall_us of proc_reaped */

/* 1: both pipes have reached their end, so no child of this process holds them any more. */
int proc_drained(const struct proc *p);

/* Stops reading and frees p. `closed` (may be NULL) is called when the handles are closed. The
 * process itself is not signalled. */
void proc_close(struct proc *p, void (*closed)(void *), void *arg);
