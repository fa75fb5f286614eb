/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h - the parts of engine = slurm.
 *
 *     in an allocation    engine_slurm.c: srun to each node, and the time limit
 *     outside of one      slurm_allocation.c: salloc runs the same command in a new allocation
 *                         slurm_batch.c: sbatch does (--detach)
 */
#pragma once

#include "launcher/engine/engine.h"

/* The options of salloc and sbatch from conf.ini, each with a blank before it, for a shell. */
void slurm_put_options(struct pd_buf *b, const struct pd_options *o);

/* Run the command in an allocation of its own, in the foreground. Returns 1 and the exit status of
 * the command; PD_EHOST: there is no allocation; PD_ECANCELED: a signal ended the wait for it. */
int slurm_allocation(const struct pd_options *o, char *const *argv, int *status,
                     struct pd_err *err);
/* Submit the command, without --detach, as a batch job, and print its id. 1; PD_EHOST: refused. */
int slurm_batch(const struct pd_options *o, char *const *argv, int *status, struct pd_err *err);
/* The inner one tells the outer one its exit status. */
void slurm_allocation_ended(int status);
