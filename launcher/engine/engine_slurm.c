/* engine_slurm.c - engine = slurm: the nodes of the Slurm allocation that paddlectl runs in. srun
 * starts a shell on each of them, as a step that shares the allocation with other steps. */
#include "launcher/engine/engine.h"

/* --overlap, --mem=0: a step takes all of the allocation otherwise, and the next one waits.
 * --unbuffered: bytes pass at once, not line by line. */
#define CONNECT                                                                     \
    "srun --overlap --mem=0 --unbuffered --nodes=1 --ntasks=1 --ntasks-per-node=1 " \
    "--mpi=none --cpu-bind=none --kill-on-bad-exit --nodelist=%h"

static int options(struct pd_options *o, struct pd_err *err) {
    int rc = engine_set(o, "hosts", "slurm", err);
    return rc ? rc : engine_set(o, "connect", CONNECT, err);
}

static int prepare(struct engine_run *run, const struct pd_options *o, struct pd_err *err) {
    /* What salloc and sbatch were told for the tasks of a program is not meant for the agents,
     * which need all CPUs of a node. */
    static const char *const of_tasks[] = {
        "SLURM_CPUS_PER_TASK",   "SRUN_CPUS_PER_TASK",     "SLURM_NTASKS_PER_NODE",
        "SLURM_NTASKS_PER_CORE", "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION",
        "SLURM_EXACT",           "SLURM_EXCLUSIVE"};
    (void)run;
    for (size_t i = 0; i < sizeof of_tasks / sizeof of_tasks[0]; i++)
        unsetenv(of_tasks[i]);
    return engine_needs(o, "srun", err);
}

const struct engine engine_slurm = {.name = "slurm", .options = options, .prepare = prepare};
