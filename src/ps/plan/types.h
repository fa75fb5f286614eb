/* types.h - limits and small types that a trainer's calls, the messages and the servers share. The
 * calls that take them: client.h.
 */
#ifndef PD_PS_TYPES_H
#define PD_PS_TYPES_H

#include <stdint.h>

struct pd_row_life; /* base/row_life.h */

/* A message with a larger frame is refused. */
#define PS_FRAME_MAX (UINT64_C(1) << 30)
#define PS_PIECE (1u << 20) /* most bytes of a checkpoint's file in one message */

enum {
    PS_NAME_MAX = 127, /* bytes of a parameter's name: printable, no blanks */
    PS_RULE_MAX = 16,  /* bytes of the name of an update rule, with the NUL */
    PS_DIMS_MAX = 4,
    PS_FILE_MAX = 63,       /* bytes of the name of a model's file */
    PS_LAYERS_MAX = 256,    /* saves of changes on top of one of all rows */
    PS_PARAMS_MAX = 4096,   /* dense parameters, and as many tables */
    PS_STATS_MAX = 16,      /* numbers that may travel with a step */
    PS_REDUCE_MAX = 65536,  /* numbers in one ps_reduce */
    PS_TASKS_MAX = 1 << 24, /* files that are handed out in a pass */
    PS_NOTE_MAX = 512,      /* bytes of a line of ps_note */
    PS_PARTS_MAX = 64, /* contributions of a trainer to one step: twice the depth of a tree over
                          2^32 streams */
};

/* --- what a trainer declares: ps_declare_dense, ps_declare_table --- */

struct ps_dense_spec {
    const char *name;
    uint32_t n_dims; /* 1..PS_DIMS_MAX; the product of `shape` is the number of values */
    uint64_t shape[PS_DIMS_MAX];
    float init_mean,
        init_std;    /* normal; std 0: all equal to the mean; below 0: uniform within -std of it */
    float lr_factor; /* times the optimizer's learning rate; 0: never changed */
    float l1, l2;  /* l2 * w is added to the mean gradient; l1: w is moved towards 0 by rate * l1 */
    float average; /* above 0, at most 1: a running mean and not trained: w += average * (sum /
                    * samples - w), sum being what is pushed, of whatever it is a mean of; no
                    * optimizer, rate, decay or clipping. lr_factor 0 holds */
};

struct ps_table_spec {
    const char *name;
    uint32_t dim;    /* floats per row */
    uint64_t n_rows; /* ids are 0..n_rows-1; 0: any 64-bit id, not known before */
    float init_mean, init_std;
    float lr_factor, l1, l2;        /* as above; rows that a step does not touch are made up for:
                                       src/ps/table/lazy_decay.h */
    const struct pd_row_life *life; /* how rows come and go: base/row_life.h; NULL: a row for every
                                       id that is used, for ever */
};

/* A gradient that is no finite number. */
enum ps_nan {
    PS_NAN_TAKE,
    PS_NAN_STOP,   /* ends the job with the parameter's name, when the step is applied */
    PS_NAN_REFUSE, /* is refused when it comes, like anything else that does not fit: its trainer is
                      lost (enum ps_lost) */
};

/* --- steps and passes --- */

/* What a trainer has given to the steps of one pass. `stats`: sums of its ps_step_end numbers. */
struct ps_pass_sums {
    uint64_t steps, samples;
    double stats[PS_STATS_MAX];
};

/* What ps_next_task is answered: a file, all files are read, or ask again later (ssp). */
enum ps_task { PS_TASK_FILE, PS_TASK_OVER, PS_TASK_LATER };

/* --- heartbeats (client_beat.h, server_beat.c) --- */

/* A limit below PS_BEAT_LIMIT_MIN_MS counts as that: a beat may be late on a busy machine. */
enum { PS_BEAT_PERIOD_MS = 500, PS_BEAT_LIMIT_MIN_MS = 2000, PS_BEAT_FRAME_MAX = 4096 };

/* --- models --- */

/* How much of the tables is written. Every folder is complete: what a delta leaves out is in files
 * of the saves before, to which it links. */
enum ps_chain {
    PS_CHAIN_NONE,  /* all of it */
    PS_CHAIN_BASE,  /* all of it, and from here on servers watch which rows change */
    PS_CHAIN_DELTA, /* the rows that have changed since the last base or delta; all of it from a
                       server where that cannot be */
};

/* What ps_load does with declared parameters that the model does not have. */
enum ps_missing { PS_MISSING_FAIL, PS_MISSING_RAND, PS_MISSING_ZERO };

#endif
