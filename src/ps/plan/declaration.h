/* SPDX-License-Identifier: Apache-2.0 */
/* declaration.h - the settings that all trainers of a job must declare alike. The client builds a
 * declaration, PS_DECLARE carries it, and each server thread keeps it. */
#pragma once

#include "base/row_life.h"
#include "ps/plan/optim.h"
#include "ps/plan/types.h"

enum {
    PS_PROTO = 10, /* version of the 0x4xx messages */
    PS_TRAINERS_MAX = 1 << 16,
    PS_THREADS_MAX = 1 << 16, /* dense or sparse threads of all servers */
    PS_DIM_MAX = 1 << 20,
};
#define PS_VALUES_MAX (UINT64_C(1) << 40) /* values of one parameter */
/* Request id of a PS_BYE with WIRE_F_ERROR. WIRE_BYE_RELAYED: the message came from another server.
 * 0: the failure is the trainer's own. */
#define WIRE_BYE_RELAYED 1

struct ps_dense {
    char name[PS_NAME_MAX + 1];
    uint32_t n_dims;
    uint64_t shape[PS_DIMS_MAX], n;
    float mean, std, lr_factor, l1, l2, average;
};

struct ps_sparse {
    char name[PS_NAME_MAX + 1];
    uint32_t dim;
    uint64_t n_rows;
    float mean, std, lr_factor, l1, l2;
    struct pd_row_life life;
};

struct ps_declaration {
    uint32_t n_trainers, n_streams, n_servers, n_dense_threads, n_sparse_threads;
    uint64_t seed;
    char update[PS_RULE_MAX]; /* name of a row of the table of update rules */
    uint32_t staleness;       /* ssp: steps */
    double discard_ratio; /* async: a contribution is dropped when it lags by more than this number
                             times the number of trainers; 0: never */
    enum ps_nan on_nan;
    struct ps_optim_conf optim;
    struct ps_dense *dense;
    struct ps_sparse *sparse;
    uint32_t n_dense, n_sparse;
};

/* The fields of a PS_DECLARE that differ between trainers and between the receiving threads. */
enum ps_kind {
    PS_KIND_DENSE = 1,
    PS_KIND_SPARSE = 2,
    PS_KIND_BOTH = 3 /* local mode */
};
struct ps_declare_sender {
    uint32_t kind,
        thread; /* the receiver's number among the threads of its kind, counted over all servers */
    uint32_t stream_lo, stream_hi;
    uint64_t incarnation; /* identifies one start of the trainer's program */
    uint64_t epoch;       /* of the server, for a trainer that connects again; else 0 */
};

void ps_declaration_init(struct ps_declaration *job);
void ps_declaration_release(struct ps_declaration *job);
int ps_declaration_add_dense(struct ps_declaration *job, const struct ps_dense_spec *spec,
                             struct pd_err *err);
int ps_declaration_add_table(struct ps_declaration *job, const struct ps_table_spec *spec,
                             struct pd_err *err);
/* Checks ranges, unique names, the update rule and the optimizer. Returns 0 or PD_ECONF. */
int ps_declaration_check(const struct ps_declaration *job, struct pd_err *err);

/* Number of floats that client and server exchange for each value: 1. Under geo, where trainers
 * apply the optimizer, its state floats count too if they are sums over updates. */
uint32_t ps_declaration_planes(const struct ps_declaration *job);

void ps_declaration_put(struct pd_buf *b, const struct ps_declare_sender *d,
                        const struct ps_declaration *job);
/* Decodes and checks a PS_DECLARE of n bytes. Every size is checked before memory is allocated.
 * Returns 0, PD_EPROTO, PD_ECONF or PD_ENOMEM; on failure *job is empty. */
int ps_declaration_get(const void *p, size_t n, struct ps_declare_sender *d,
                       struct ps_declaration *job, struct pd_err *err);

/* Returns 0, or PD_ECONF with a message that names the first difference and both values. */
int ps_declaration_same(const struct ps_declaration *first, const struct ps_declaration *later,
                        struct pd_err *err);
