/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - limits and small types that the client's calls, the messages and the servers share.
 * client.h has the calls. */
#pragma once

struct pd_row_life; /* base/row_life.h */

/* Limit of a frame; a larger frame is refused. */
#define PS_FRAME_MAX (UINT64_C(1) << 30)
/* The sections that have plain values (`floats` of message.h), as bits. A receiver uses them in
 * shared memory (net/share.h), because every float is valid; a check for NaN comes after a copy.
 * All other sections are copied before they are read. */
enum { PS_IN_PLACE = 1 << 2 };
#define PS_PIECE (1u << 20) /* limit of the bytes of a checkpoint's file in one message */

enum {
    PS_NAME_MAX = 127, /* bytes of a parameter's name: printable characters without blanks */
    PS_RULE_MAX = 16,  /* bytes of the name of an update rule, with the NUL */
    PS_DIMS_MAX = 4,
    PS_FILE_MAX = 63,       /* bytes of the name of a model's file */
    PS_LAYERS_MAX = 256,    /* delta saves on top of one full save */
    PS_PARAMS_MAX = 4096,   /* dense parameters, and as many tables */
    PS_STATS_MAX = 16,      /* numbers in one ps_step_end */
    PS_REDUCE_MAX = 65536,  /* numbers in one ps_reduce */
    PS_TASKS_MAX = 1 << 24, /* files of one pass */
    PS_NOTE_MAX = 512,      /* bytes of a line of ps_note */
    PS_PARTS_MAX = 64, /* contributions of a trainer to one step: twice the depth of a tree over
                          2^32 streams */
};

/* --- declarations of a trainer: ps_declare_dense, ps_declare_table --- */

struct ps_dense_spec {
    const char *name;
    uint32_t n_dims; /* 1..PS_DIMS_MAX; the product of `shape` is the number of values */
    uint64_t shape[PS_DIMS_MAX];
    float init_mean, init_std; /* normal; std 0: all values are the mean; below 0: uniform within
                                  |std| of the mean */
    float lr_factor;           /* factor of the optimizer's learning rate; 0: never changed */
    float l1, l2;  /* l2 * w is added to the mean gradient; l1: w is moved towards 0 by rate * l1 */
    float average; /* above 0, at most 1: the parameter is a running mean and not trained. Each step
                      does w += average * (sum / samples - w), where sum is the sum of the pushed
                      values. Optimizer, rate, decay and clipping are not used. With lr_factor 0 the
                      mean does not change */
};

struct ps_table_spec {
    const char *name;
    uint32_t dim;    /* floats per row */
    uint64_t n_rows; /* ids are 0..n_rows-1; 0: any 64-bit id, number of rows not known */
    float init_mean, init_std;
    float lr_factor, l1,
        l2; /* as above; src/ps/table/lazy_decay.h updates the rows that a step does not touch */
    const struct pd_row_life *life; /* when rows are admitted and removed: base/row_life.h; NULL:
                                       every used id has a row, for ever */
};

/* Handling of a gradient that is infinite or not a number. */
enum ps_nan {
    PS_NAN_TAKE,
    PS_NAN_STOP,   /* the job ends with the parameter's name when the step is applied */
    PS_NAN_REFUSE, /* the push is refused on arrival, like any malformed push, and its trainer is
                      lost (enum ps_lost) */
};

/* --- steps and passes --- */

/* A trainer's contributions to the steps of one pass. `stats`: sums of its ps_step_end numbers. */
struct ps_pass_sums {
    uint64_t steps, samples;
    double stats[PS_STATS_MAX];
};

/* Answer of ps_next_task: a file, all files are read, or ask again later (ssp). */
enum ps_task { PS_TASK_FILE, PS_TASK_OVER, PS_TASK_LATER };

/* --- heartbeats (client_beat.h, server_beat.c) --- */

/* A limit below PS_BEAT_LIMIT_MIN_MS counts as PS_BEAT_LIMIT_MIN_MS: a beat may be late on a busy
 * machine. */
enum { PS_BEAT_PERIOD_MS = 500, PS_BEAT_LIMIT_MIN_MS = 2000, PS_BEAT_FRAME_MAX = 4096 };

/* --- models --- */

/* How much of the tables a save writes. Every folder is complete: a delta links to the files of
 * earlier saves for rows that have not changed. */
enum ps_chain {
    PS_CHAIN_NONE,  /* all rows */
    PS_CHAIN_BASE,  /* all rows; from then on servers track changed rows */
    PS_CHAIN_DELTA, /* rows changed since the last base or delta; a server that cannot write a delta
                       writes all rows */
};

/* How ps_load treats declared parameters that the model lacks. */
enum ps_missing { PS_MISSING_FAIL, PS_MISSING_RAND, PS_MISSING_ZERO };
