/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the common start of all roles of paddle_worker: options from all sources, log, key,
 * job id. */
#pragma once

#include <pthread.h>

#include "thread/cpus.h"
#include "conf/options.h"
#include "ps/client/client.h"
#include "wire/handshake.h"

struct worker {
    struct pd_options options;
    struct pd_log log;
    int log_fd;                  /* log/paddle_ROLE.INFO, or 2 */
    char job_id[PS_JOB_MAX];     /* ps_job_of_environ */
    uint8_t key[WIRE_KEY_BYTES]; /* zero without a key file */
    int has_key;
    int event_fd;           /* -1: no process listens for events */
    struct pd_spans *spans; /* profile = 1; else NULL */
    const char *role;
    pthread_t watch; /* if is_watched: the thread of worker_watch_term */
    int is_watched;
    atomic_int watch_ends; /* SIGUSR2 to that thread: it is no longer needed */
    /* PADDLE_BIND=cores: the CPUs of this process, to pin threads to; else empty. */
    struct pd_cpus cpus;
};

/* Initialize *w. argv: without program and role. train.ini is read if it exists; only a trainer
 * needs it. On failure *w is released. */
int worker_init(struct worker *w, const char *role, enum pd_opt_who who, int argc, char **argv,
                struct pd_err *err);
int64_t worker_rank(const struct worker *w); /* of this process among those of its role */
/* Writes the spans of this process into the output folder. A failure is a warning in the log. */
void worker_write_profile(struct worker *w);
/* profile = 1: if SIGTERM ends this process, it writes its spans before. Call it before threads
 * start. */
void worker_watch_term(struct worker *w);
void worker_release(struct worker *w);
/* The descriptor that this environment variable names, if it is open; else -1. */
int worker_env_fd(const char *name);
/* Print the error for the user and for the agent; returns the exit status. */
int worker_report_error(const struct worker *w, const char *role, const struct pd_err *err);

/* A rank of mpirun or srun, without TRAINING_ROLE: sets the environment of its role, and removes
 * arguments that its role does not know. PD_EUSAGE: the ranks do not fit. */
int worker_has_rank(void);
int worker_take_rank(int *argc, char **argv, struct pd_err *err);

int trainer_main(int argc, char **argv);
int infer_main(int argc, char **argv); /* for `paddlectl infer` */
int model_main(int argc, char **argv); /* for `paddlectl conf --model` */
int pserver_main(int argc, char **argv);
