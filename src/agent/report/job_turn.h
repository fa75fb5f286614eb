/* SPDX-License-Identifier: Apache-2.0 */
/* job_turn.h - other jobs on this machine, and this job's turn: AG_TURN. */
#pragma once

#include "agent/client/client.h"
#include "agent/host/machine_jobs.h"

struct job_turn { /* zeroed: this job has no ticket */
    struct machine_ticket *waits, *runs;
    uint64_t order; /* of `waits` */
};

/* The jobs of all users on this machine, an array of wire_other_job. */
json_t *job_turn_jobs(void);
void job_turn_release(struct job_turn *t);           /* the job's processes have ended */
extern const struct client_service job_turn_service; /* context: struct job_turn */
