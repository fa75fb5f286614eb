/* SPDX-License-Identifier: Apache-2.0 */
/* job_spec.h - the settings of a job that paddlectl sends to every agent, as one table: fields of
 * the object `spec` of AG_JOB_SETUP. A new setting is a field here and a row in job_spec.c; if the
 * row names an option of conf.ini, paddlectl sends that option's value. */
#pragma once

#include "wire/body.h"

/* Times ending in _ms are milliseconds. The texts belong to the JSON object. */
struct job_spec {
    int64_t attached;    /* paddlectl stays connected: the job ends without it */
    int64_t encrypt;     /* connections between agents are sealed */
    int64_t data_copies; /* nodes that have each data file that was sent apart */
    int64_t local;       /* all nodes are on one machine: agents listen on loopback only */
    uint64_t attach_lease_ms, detach_lease_ms;
    uint64_t connect_ms;                     /* limit for all agents to join */
    uint64_t ready_ms, end_ms;               /* limits for a pserver to listen, pservers to end */
    uint64_t heartbeat_ms;                   /* a stopped process is ended after it; 0: never */
    uint64_t grace_ms;                       /* between SIGTERM and SIGKILL */
    uint64_t log_max_size;                   /* bytes of a log file; 0: no limit */
    int64_t log_keep;                        /* rotated files */
    int64_t max_restarts;                    /* with on_failure = restart */
    uint64_t restart_ms;                     /* before the first restart; doubled each time */
    int64_t port;                            /* the first port to try */
    int64_t ports_num, ports_num_for_sparse; /* ports of a pserver */
    const char *name, *on_failure, *bind, *nic, *pserver_command, *trainer_command;
};

enum { JOB_SPEC_MAX_NAME = 60, JOB_SPEC_MAX_PORTS = 250, JOB_SPEC_MAX_LOG_KEEP = 100 };
extern const struct wire_body wire_job_spec;

/* data_copies = 2: the node for another copy of files that are on node `own`. Nodes in the order of
 * the list after `own`, around: the first one on another machine with the fewest copies so far.
 * machine: a number by node; NULL: each node is a machine of its own. left_out: nodes that get
 * none; NULL: any may. -1: there is no such node. */
int wire_copy_node(const int *machine, const char *left_out, const unsigned *n_copies, int n_nodes,
                   int own);
