/* worker.h - what both roles of paddle_worker start with: options from all sources, log, key, job
 * id. */
#ifndef PADDLE_WORKER_H
#define PADDLE_WORKER_H

#include "thread/cpus.h"
#include "base/err.h"
#include "base/log.h"
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
    int event_fd;        /* -1: nobody listens */
    struct pd_cpus cpus; /* PADDLE_BIND=cores: those of this process, for its threads to be pinned;
                            else none */
};

/* argv without the program and the role. train.ini is read when it is there; only a trainer needs
 * it. On failure `w` is released. */
int worker_init(struct worker *w, const char *role, enum pd_opt_who who, int argc, char **argv,
                struct pd_err *err);
void worker_release(struct worker *w);
int worker_fd(
    const char *name); /* the descriptor that this variable names, if it is open; else -1 */
/* Print the error where a person and the agent see it; returns the exit status. */
int worker_failed(const struct worker *w, const char *role, const struct pd_err *err);

int trainer_main(int argc, char **argv);
int infer_main(int argc, char **argv); /* `paddlectl infer` runs it */
int model_main(int argc, char **argv); /* `paddlectl conf --model` runs it */
int pserver_main(int argc, char **argv);

#endif
