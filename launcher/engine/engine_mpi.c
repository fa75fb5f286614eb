/* SPDX-License-Identifier: Apache-2.0 */
/* engine_mpi.c - engine = mpi: mpirun of Open MPI starts one agent on each of its hosts, which are
 * those of its hostfile or of its allocation, or those of the option `hosts`. */
#include "launcher/engine/engine.h"

/* --bind-to none: one or two processes of a host are bound to one core each otherwise. ppr:1:node:
 * the slots of a hostfile count cores, and an agent has a whole host. */
#define MPIRUN "mpirun --bind-to none --map-by ppr:1:node"

static int options(struct pd_options *o, struct pd_err *err) {
    const int row = pd_options_find("hosts", PD_LAUNCHER);
    const int lists =
        o->origin[row].level != PD_FROM_DEFAULT && *o->hosts && strcmp(o->hosts, "mpi");
    char launch[160];
    pd_fmt(launch, sizeof launch, MPIRUN "%s%s", geteuid() ? "" : " --allow-run-as-root",
           lists ? " --host %H" : "");
    int rc = engine_set(o, "hosts", "mpi", err);
    return rc ? rc : engine_set(o, "launch", launch, err);
}

static int prepare(struct engine_run *run, const struct pd_options *o, struct pd_err *err) {
    (void)run;
    return o->origin[pd_options_find("launch", PD_LAUNCHER)].level == PD_FROM_DEFAULT
               ? engine_needs(o, "mpirun", err)
               : 0;
}

const struct engine engine_mpi = {.name = "mpi", .options = options, .prepare = prepare};
