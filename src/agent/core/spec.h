/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - a node's part of a job, read from AG_JOB_SETUP. */
#pragma once

#include <jansson.h>

#include "agent/host/bind.h"
#include "agent/core/roles.h"
#include "wire/client_bodies.h"
#include "wire/job_spec.h"

enum { SPEC_MAX_NODES = WIRE_MAX_NODES };

struct spec {
    int node, n_nodes;
    int data_apart; /* data files came separately, as a package of their own (file_fetch.h) */
    struct job_spec job;
    int began_attached; /* job.attached as AG_JOB_SETUP said; the client may detach it */
    enum bind_how bind;
    char worker[65], data[65];            /* hashes, "" if unused */
    char worker_hash[65];                 /* BLAKE2b-256 of the worker executable */
    const char *resume_job, *resume_name; /* a checkpoint of an earlier job on this node; "" */
    const char *workspace;                /* workspace, command, env and train point into `whole` */
    const char *command[N_ROLES];
    struct roles roles;       /* of the first attempt; later attempts may have others (head.h) */
    json_t *env, *train;      /* objects of strings */
    const json_t *copy_nodes; /* array of node ids by trainer: spec_copy_node; NULL: not told */
    const json_t *machines;   /* array of node ids by node: spec_machine; NULL: not told */
    json_t *whole;
};

/* Checks every field: PD_EPROTO or PD_ECONF with the key's name. `job` is this agent's job. Keeps a
 * reference to `body`. */
int spec_parse(struct spec *s, json_t *body, const char *job, struct pd_err *err);
/* The node that also has the data files of this trainer; -1: none has. */
int spec_copy_node(const struct spec *s, int trainer);
int spec_machine(const struct spec *s, int node); /* the lowest node on the same machine */
void spec_release(struct spec *s);
