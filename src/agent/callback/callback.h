/* SPDX-License-Identifier: Apache-2.0 */
/* callback.h - the program that `launch` (mpirun, srun) starts on each node: it calls paddlectl
 * back, and runs commands for it.
 *
 *     secret ──▶ enrols: CB_CALL ──▶ CB_ENROLLED: secrets of its own
 *                  └─ the connection waits ── CB_OPEN ──▶ /bin/sh -c LINE on its streams
 *                        ▲                       │
 *                        └── the next call ◀─────┘
 *
 * It is a sub-reaper, and the ancestor of all that is started through it. So the agents live as
 * long as it does, also where a cluster ends all processes that the started program has left. It
 * ends when none of them is left and paddlectl has said goodbye, or has been gone for the lease. */
#pragma once

enum { CALLBACK_MAX_ADDRS = 32 };

struct callback_opts {
    char *addrs; /* of paddlectl: "10.0.0.1,2001:db8::1"; changed */
    int port;
    int node, n;       /* this node's id, which is its rank; the number of nodes, 0: unknown */
    uint64_t enrol_ms; /* time limit for enrolling */
};

/* The environment variable with the secret: 64 hex digits, perhaps followed by a blank and more. It
 * is removed from the environment. Without it, standard input begins with the secret. */
#define CALLBACK_SECRET "PADDLECTL_LAUNCH"

/* 0: over. PD_E*: this node has not enrolled; err says why. The calling process must have no
 * children and one thread. */
int callback_run(struct callback_opts *o, struct pd_err *err);
