/* trainer.h - what a trainer does, from the options to the last saved model.
 *
 *     streams.c   the batches: a share of each of this trainer's streams per step
 *     params.c    the graph's parameters, declared to the servers, and their buffers here
 *     pass.c      the training loop of a pass, and the evaluation of held-out data
 *     step.c      one step of it: what is computed in one batch, and in which order it is added up
 *     team.c      the threads that compute it
 *     checkpoint.c, resume.c    what is saved, and going on from it
 *     online.c    folders of data as they appear; watch.c looks for them, done.c tells of what is
 * saved report.c    lines for people and events for the launcher trainer.c   the jobs: train, test,
 * checkgrad
 */
#ifndef PD_TRAIN_TRAINER_H
#define PD_TRAIN_TRAINER_H

#include <stdint.h>

#include "thread/cpus.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/options.h"

struct train_setup {
    const struct pd_options
        *options;           /* checked; paths are relative to the current folder, the workspace */
    const char *job_id;     /* "" by hand */
    const uint8_t *key;     /* 32 bytes, or NULL */
    const char *output_dir; /* PADDLE_OUTPUT_DIR, or NULL */
    const struct pd_cpus *cpus; /* to pin threads to, the calling one is already; or NULL */
    uint64_t restarts;       /* of the job after a failure: it goes on from its last checkpoint */
    uint32_t first_trainers; /* so many it began with, and as many streams, where the options do not
                                say; 0: as many as now */
    const char
        *lost_nodes; /* "node 1 (gpu-02)": that it went on without, for messages; NULL: none */
    const struct pd_log *log;
    int out_fd;    /* lines for people */
    int log_lines; /* the log gets these lines too; 0 when both would meet on one terminal */
    int data_fd;   /* asks the agent for data files that are not here; below 3: none */
    int event_fd;  /* JSON lines for the launcher; -1: none */
    int (*stop)(void *arg); /* asked each step: end after it, with the model saved? NULL: never */
    void *stop_arg;
};

/* Run options->job to its end. 0, or PD_E* with what went wrong, first cause first. */
int train_run(const struct train_setup *setup, struct pd_err *err);

#endif
