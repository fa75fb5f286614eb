/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_internal.h - the parts of `paddlectl sweep`.
 *
 *     cmd_sweep.c    options; which trials
 *     sweep_run.c    starts the trials, one after the other or side by side; shows the table
 *     sweep_trial.c  one trial: a process `paddlectl run`, its record, its end
 *     sweep_state.c  OUTPUTS/sweep-NAME: state.json, locks
 *     sweep.c        settings of trials, the median rule, successive halving */
#pragma once

#include "conf/options.h"
#include "launcher/plot/curves.h"
#include "launcher/runs/sweep.h"

enum { SWEEP_NONE = -1, SWEEP_SET_TEXT = 4000, SWEEP_ARGS_MAX = 4096, SWEEP_FILE_MAX = 16 << 20 };

struct trial {
    size_t combination;
    int64_t number;                /* in names and messages, from 1 */
    char settings[SWEEP_SET_TEXT]; /* its identity: "key=value key=value" */
    char job[80];
    /* "": not begun; running, done, failed, stopped, unknown; hopeless: ended early by the median
     * rule */
    char state[16];
    double value; /* NAN: none */
    /* Successive halving: the trial trains to `passes`, from the end of the trial `before`. */
    int64_t passes; /* 0: as the options say */
    int before;     /* SWEEP_NONE: from the beginning */
    char dir[PATH_MAX];
    struct curves *curves;
    /* While its process runs. */
    pid_t pid;      /* 0: no process */
    size_t part;    /* of the hosts */
    int is_checked; /* its record has the ids of the sweep */
    int is_hopeless;
    double judged_until; /* a pass */
    int64_t n_passes;    /* of its settings; 0: not read */
    int is_stopped;      /* its process has got a signal to end */
};

struct sweep {
    const char *metric, *goal, *trials, *seed, *nodes_per_trial;
    int resume, more_is_better, no_early_stop, halving;
    struct sweep_keys keys;
    const char *pass_on[SWEEP_ARGS_MAX]; /* the options of `paddlectl run` */
    size_t n_pass_on;
    const struct pd_options *o;
    char name[100], dir[PATH_MAX];
    int lock;       /* the folder, locked; -1: not yet */
    json_t *ids;    /* workspace, data, worker */
    json_t *others; /* trials of earlier calls that this one has not used */
    char **parts;   /* host lists, one for each trial that runs at a time; NULL: all hosts */
    size_t n_parts; /* at least 1 */
    struct trial *v;
    size_t n, cap;
    int64_t passes; /* of the last round; 0: no successive halving */
    size_t first;   /* trial of this round; 0 without successive halving */
    int64_t largest_number;
    int is_interrupted, signals;
    sigset_t mask_before;
};

/* --- sweep_state.c --- */

int sweep_state_save(const struct sweep *s, struct pd_err *err);
/* Makes and locks the folder of the sweep, and reads the state of an earlier call. PD_EEXIST:
 * another process runs this sweep. */
int sweep_state_load(struct sweep *s, struct pd_err *err);
/* Gives the trials from `first` on their numbers and, if an earlier call has run them, its results.
 */
void sweep_state_adopt(struct sweep *s, size_t first);

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
/* Sends the process a signal to end, unless it has got one. */
void sweep_trial_stop(struct trial *t);
/* 1: the trial of an earlier call still runs, so its result is not known. */
int sweep_trial_goes_on(struct sweep *s, struct trial *t);
/* Sets the state and the value of an earlier call's trial, which does not run any more. */
int sweep_trial_reload(struct sweep *s, struct trial *t, struct pd_err *err);

/* --- cmd_sweep.c --- */

/* Adds a trial. `passes`, `before`: see struct trial. */
int sweep_add(struct sweep *s, size_t combination, int64_t passes, int before, struct pd_err *err);

/* --- sweep_run.c --- */

/* Runs all trials that are not complete. Returns the exit status, or a code with err. */
int sweep_run(struct sweep *s, struct pd_err *err);
