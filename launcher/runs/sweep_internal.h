/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_internal.h - the parts of `paddlectl sweep`.
 *
 *     cmd_sweep.c    options; which trials; starts them, shows the table
 *     sweep_trial.c  one trial: a process `paddlectl run`, its record, its end
 *     sweep_state.c  OUTPUTS/sweep-NAME: state.json, locks
 *     sweep.c        settings of trials, the median rule */
#pragma once

#include "conf/options.h"
#include "launcher/plot/curves.h"
#include "launcher/runs/sweep.h"

enum { SWEEP_SET_TEXT = 4000, SWEEP_ARGS_MAX = 4096, SWEEP_FILE_MAX = 16 << 20 };

struct trial {
    size_t combination;
    int64_t number;                /* in names and messages, from 1 */
    char settings[SWEEP_SET_TEXT]; /* its identity: "key=value key=value" */
    char job[80];
    /* "": not begun; running, done, failed, stopped, unknown; hopeless: ended early by the median
     * rule */
    char state[16];
    double value; /* NAN: none */
    char dir[PATH_MAX];
    struct curves *curves;
    /* While its process runs. */
    pid_t pid;      /* 0: no process */
    int is_checked; /* its record has the ids of the sweep */
    int is_hopeless;
    int is_stopped; /* its process has got a signal to end */
};

struct sweep {
    const char *metric, *goal, *trials, *seed;
    int resume, more_is_better, no_early_stop;
    struct sweep_keys keys;
    const char *pass_on[SWEEP_ARGS_MAX]; /* the options of `paddlectl run` */
    size_t n_pass_on;
    const struct pd_options *o;
    char name[100], dir[PATH_MAX];
    int lock;       /* the folder, locked; -1: not yet */
    json_t *ids;    /* workspace, data, worker */
    json_t *others; /* earlier trials that this call does not want */
    struct trial *v;
    size_t n;
    int is_interrupted, signals;
    sigset_t mask_before;
};

/* --- sweep_state.c --- */

int sweep_state_save(const struct sweep *s, struct pd_err *err);
/* Makes and locks the folder of the sweep, reads the state of an earlier call, and numbers the
 * trials. PD_EEXIST: another process runs this sweep. */
int sweep_state_load(struct sweep *s, struct pd_err *err);

int sweep_log_path(const struct sweep *s, const struct trial *t, char out[PATH_MAX]);
/* Opens and empties the log of a new process. The process gets this descriptor, and so the lock on
 * the file: the log is locked until the process ends, also if `paddlectl sweep` is killed. -1: the
 * process of an earlier call still runs, or the file cannot be written. */
int sweep_log_open(const struct sweep *s, const struct trial *t, struct pd_err *err);
/* 1: the process of this trial runs, also that of an earlier call. */
int sweep_log_is_locked(const struct sweep *s, const struct trial *t);

/* --- sweep_trial.c --- */

int sweep_trial_start(struct sweep *s, struct trial *t, struct pd_err *err);
/* Looks at the process and the record. Stops a hopeless trial, and a trial with an error, for
 * example other files than the first trial (PD_EUSAGE). At the end of the process t->pid becomes 0,
 * and state and value are set. */
int sweep_trial_look(struct sweep *s, struct trial *t, struct pd_err *err);
/* 1: the trial of an earlier call still runs, so its result is not known. */
int sweep_trial_goes_on(struct sweep *s, struct trial *t);
/* Sets the state and the value of an earlier call's trial, which does not run any more. */
int sweep_trial_reload(struct sweep *s, struct trial *t, struct pd_err *err);
