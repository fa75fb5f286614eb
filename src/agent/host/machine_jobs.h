/* SPDX-License-Identifier: Apache-2.0 */
/* machine_jobs.h - the jobs of all users on this machine, and who came first.
 *
 * Each agent of a job has a ticket: a listening unix socket with an abstract name,
 *
 *     @paddlectl/<realm>/<r|w>/<16 hex digits: order>/<job>/<pid>     r: it runs; w: it waits
 *
 * so that the kernel removes a ticket with its process, whatever ends it. /proc/net/unix lists the
 * names for every user. A name is only believed to be a ticket if its socket listens; the user and
 * the process come from the kernel (SO_PEERCRED). Nothing is read from other users' processes.
 *
 * The realm is "1", or the environment's PADDLE_MACHINE: a test has its jobs for itself.
 */
#pragma once

#include <uv.h>

enum { MACHINE_JOBS_MAX = 256, MACHINE_JOB_NAME = 64 };
enum machine_job_kind { MACHINE_RUNS = 'r', MACHINE_WAITS = 'w' };

struct machine_job {
    enum machine_job_kind kind;
    uint64_t order; /* microseconds since 1970: when it began to run or to wait */
    char job[MACHINE_JOB_NAME];
    uid_t uid; /* (uid_t)-1: unknown */
    pid_t pid; /* 0: unknown, or in another pid namespace */
};

/* The tickets of jobs other than `own`, in any order. Returns their number, at most max. */
size_t machine_jobs_list(const char *own, struct machine_job *out, size_t max);

struct machine_ticket;
int machine_ticket_new(struct machine_ticket **out, uv_loop_t *loop, enum machine_job_kind kind,
                       uint64_t order, const char *job, struct pd_err *err);
void machine_ticket_free(struct machine_ticket *t); /* NULL is fine; the loop must run once more */
