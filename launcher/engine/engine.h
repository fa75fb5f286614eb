/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - where the nodes come from and how they are reached: [cluster] engine. An engine is a
 * row of functions; what it does not need is NULL.
 *
 *     conf.ini is read ─▶ options ─▶ (client_env) prepare ─▶ the hosts are read
 *                           │                                        │
 *                           │                          (a job begins) start ─▶ links
 *                           │                                        release ◀─ are closed
 *                           └─▶ (paddlectl run) outside: the same command in an allocation
 *
 * Everything else of paddlectl is the same with each engine. */
#pragma once

#include "conf/options.h"

struct engine;

/* paddlectl run, for `outside`. */
struct engine_call {
    char *const *argv; /* "run", its words, NULL */
    int detach, dry_run;
};

struct engine_run {
    const struct engine *engine; /* NULL: nothing to release */
    void *state;                 /* the engine's own, from prepare to release */
    int begins;                  /* in: a job begins, and `start` may make its nodes */
    char *hosts;                 /* out: the list in place of the option `hosts`; or NULL */
    int keep;                    /* in, for release: the job goes on, or has outputs */
    int dispose;                 /* in, for release: nothing runs on the nodes, give them back */
    int unsure;                  /* in, for release: or say how, since not all nodes answered */
};

struct engine {
    const char *name; /* the word in conf.ini */
    /* Sets options that the user did not set (engine_set). Without an effect outside of *o: each
     * subcommand calls it, also `paddlectl conf`. */
    int (*options)(struct pd_options *o, struct pd_err *err);
    /* paddlectl run. 0: this process is where the job can start. 1: the command has run elsewhere,
     * and *status is its exit status. */
    int (*outside)(const struct pd_options *o, const struct engine_call *call, int *status,
                   struct pd_err *err);
    void (*ended)(int status); /* paddlectl run, which `outside` let begin, ends so */
    /* Before the hosts are read, for a subcommand that talks to nodes. It checks that the engine
     * is installed (PD_ENOENT), and makes what the connections need. */
    int (*prepare)(struct engine_run *run, const struct pd_options *o, struct pd_err *err);
    /* A job begins, and nothing is wrong with its configuration: makes the nodes. */
    int (*start)(struct engine_run *run, struct pd_err *err);
    /* What `connect` calls host i, if not by its name in the list; NULL: by that name. */
    const char *(*address)(const struct engine_run *run, size_t i);
    /* 0: nothing can run on node i, it need not be asked. */
    int (*is_up)(const struct engine_run *run, size_t i);
    /* Append what `start` would make (YAML). */
    int (*manifest)(struct pd_buf *out, const struct pd_options *o, struct pd_err *err);
    void (*release)(struct engine_run *run); /* undoes start and prepare, also after a failure */
};

/* The rows, in the order of the option's words. */
extern const struct engine *const engine_table[PD_N_ENGINES];

/* May be called again when o->engine has changed, since the values have the default's level. */
int engine_options(struct pd_options *o, struct pd_err *err);
int engine_outside(const struct pd_options *o, const struct engine_call *call, int *status,
                   struct pd_err *err);
void engine_ended(const struct pd_options *o, int status);
/* After a failure there is nothing to release. */
int engine_prepare(struct engine_run *run, const struct pd_options *o, int begins,
                   struct pd_err *err);
int engine_start(struct engine_run *run, struct pd_err *err);
/* 1: the engine has nodes only because `start` made them. */
int engine_makes_nodes(const struct pd_options *o);
const char *engine_address(const struct engine_run *run, size_t i);
int engine_is_up(const struct engine_run *run, size_t i);
/* PD_EUSAGE: this engine makes nothing. */
int engine_manifest(struct pd_buf *out, const struct pd_options *o, struct pd_err *err);
void engine_release(struct engine_run *run);

/* --- for the rows --- */

extern const struct engine engine_slurm, engine_kubernetes, engine_mpi;

/* Set an option unless it has a value of the user. The origin is "engine = NAME". */
int engine_set(struct pd_options *o, const char *option, const char *value, struct pd_err *err);
/* PD_ENOENT: `program` is not in PATH. */
int engine_needs(const struct pd_options *o, const char *program, struct pd_err *err);
