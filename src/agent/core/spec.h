/* spec.h - a node's part of a job, out of AG_JOB_SETUP. */
#ifndef PD_AGENT_SPEC_H
#define PD_AGENT_SPEC_H

#include <jansson.h>
#include <stdint.h>

#include "agent/core/bind.h"
#include "agent/core/roles.h"
#include "base/err.h"

enum {
    SPEC_MAX_NODES = 65536,
    SPEC_MAX_PORTS = 250,
    GRACE_MS_MAX = 3600000,
    SAVE_MS_MAX = 3600000,
    SPEC_MAX_LOG_KEEP = 100
};

struct spec {
    int node, n_nodes;
    int attached;
    uint64_t attach_lease_ms, detach_lease_ms;
    uint64_t connect_ms, ready_ms,
        end_ms;            /* for all agents to join, a pserver to listen, pservers to end */
    uint64_t heartbeat_ms; /* a process that is stopped for so long is ended; 0: never */
    unsigned grace_ms;
    uint64_t log_max_size; /* 0: log files grow for ever */
    unsigned log_keep;
    int data_apart,
        encrypt; /* data files came apart (file_fetch.h); what nodes send each other is sealed */
    int max_restarts;            /* 0: a failure ends the job */
    uint64_t restart_ms;         /* wait before the first restart; doubled each time */
    int port, n_dense, n_sparse; /* where to start looking; ports of a pserver */
    enum bind_how bind;
    char nic[64], worker[65], data[65]; /* worker, data: hash, "" if unused */
    const char *workspace;              /* the strings and objects below point into `whole` */
    const char *command[N_ROLES];
    struct roles roles;  /* as the job begins; later attempts may have others (head.h) */
    json_t *env, *train; /* objects of strings */
    json_t *whole;
};

/* Checks everything: PD_EPROTO or PD_ECONF with the key's name. `job` is this agent's. Keeps
 * `body`. */
int spec_parse(struct spec *s, json_t *body, const char *job, struct pd_err *err);
void spec_release(struct spec *s);

#endif
