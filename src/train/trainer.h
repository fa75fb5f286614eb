/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the job of a trainer, from the options to the last saved model.
 *
 *     streams.c         batches: a share of each of this trainer's streams per step
 *     params.c          the graph's parameters, declared to the servers, and their buffers
 *     pass.c            the training loop of a pass, and the evaluation of held-out data
 *     step.c            one step: what is computed in one batch, and in which order it is added up
 *     trainer_threads.c the threads that compute a step
 *     checkpoint.c      saving; resume.c: resuming
 *     best.c            the best pass, and the end of a job that does not improve
 *     online.c          folders of data as they appear; folder_watch.c finds the folders,
 *                       done_file.c tells a serving system about saved models
 *     report.c          lines for users and events for the launcher
 *     trainer.c         the jobs: train, test, online, checkgrad
 */
#pragma once

#include "thread/cpus.h"
#include "conf/options.h"

struct train_setup {
    /* Checked; paths are relative to the current folder, the workspace. */
    const struct pd_options *options;
    const char *job_id;     /* "": started by hand */
    const uint8_t *key;     /* 32 bytes, or NULL */
    const char *output_dir; /* PADDLE_OUTPUT_DIR, or NULL */
    const struct pd_cpus
        *cpus; /* CPUs for threads; the caller is already pinned; NULL: do not pin */
    uint64_t
        restarts; /* restarts of the job after failures; > 0: resume from the last checkpoint */
    /* Number of trainers at the first start, which is the default of n_streams; 0: as many as now.
     */
    uint32_t first_trainers;
    const char
        *lost_nodes; /* "node 1 (gpu-02)": nodes lost from the job, for messages; NULL: none */
    const struct pd_log *log;
    struct pd_spans *spans; /* profile = 1: of this process; or NULL */
    int out_fd;             /* lines for users */
    int log_lines; /* write these lines to the log, too; 0 if both go to the same terminal */
    int data_fd;   /* socket for requests for missing data files to the agent; below 3: none */
    int event_fd;  /* JSON lines for the launcher; -1: none */
    int (*stop)(void *arg); /* called each step; 1: end after this step and save; NULL: never */
    void *stop_arg;
    /* Called with the error at once: before the threads end, which may wait for a slow file. */
    void (*on_failure)(void *arg, const struct pd_err *err);
    void *failure_arg;
};

/* Runs options->job to its end. 0, or PD_E* with the first cause first. */
int train_run(const struct train_setup *setup, struct pd_err *err);
