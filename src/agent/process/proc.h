/* proc.h - one supervised process of the job: started in a process group of its own, its output and
 * events read through pipes, its end reported once.
 *
 *     proc_start ─▶ on_output, on_event ... ─▶ on_exit ─▶ (output of what it left behind)
 *                                                              ─▶ proc_close
 */
#ifndef PD_AGENT_PROC_H
#define PD_AGENT_PROC_H

#include <sys/types.h>
#include <uv.h>

#include "agent/core/bind.h"
#include "base/err.h"

struct proc;

struct proc_events {
    void (*on_output)(struct proc *p, const void *bytes, size_t n, void *arg);
    /* Whole lines (or one that is too long to wait for its end), newline included. */
    void (*on_event)(struct proc *p, const void *bytes, size_t n, void *arg);
    /* It has ended and what it wrote was delivered. exit_code is -1 after a signal. */
    void (*on_exit)(struct proc *p, int exit_code, int signal, void *arg);
};

struct proc_command {
    const char *path; /* absolute */
    char *const *argv, *const *envp;
    const char *cwd;
    const int *fds; /* become descriptors 4, 5, ... of the process; closed here */
    unsigned n_fds;
    int block;                   /* a signal that waits until the program asks for it; 0: none */
    const struct bind_set *bind; /* NULL: where the agent may run */
};

/* Descriptor 3 of every process is the pipe for events; 4 and on are those given. */
enum { PROC_EVENT_FD = 3, PROC_FIRST_FD = 4 };

/* 0, or PD_E* when it could not be started: the message says whether the program or its folder is
 * missing. */
int proc_start(struct proc **out, uv_loop_t *loop, const struct proc_command *cmd,
               const struct proc_events *ev, void *arg, struct pd_err *err);
pid_t proc_pid(const struct proc *p); /* 0 once it was reaped */

/* The reaper found, at this time, that a child ended. Returns 1 if it was this one. */
int proc_reaped(struct proc *p, pid_t pid, int status, uint64_t wall_us);

uint64_t proc_exit_us(const struct proc *p); /* when it was reaped, wall clock */

/* Both pipes have reached their end: nothing that this process started holds them any more. */
int proc_drained(const struct proc *p);

/* Stop reading and free; `closed` may be NULL. The process itself is not touched. */
void proc_close(struct proc *p, void (*closed)(void *), void *arg);

#endif
