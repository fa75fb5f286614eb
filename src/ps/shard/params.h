/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - the values of a server thread: its segments of the dense parameters, its rows of the
 * tables, the optimizer's state. And how contributions change them. This file knows neither
 * messages nor members.
 *
 *     ps_params_declare                     sets all values to their initial values
 *     scratch.parts, scratch.ranges ─▶ ps_params_apply    one update: contributions are summed in
 *                                           the fixed tree, divided, and passed to the optimizer
 *     ps_params_gather                      returns rows as they are after the last update */
#pragma once

#include "net/shm/region.h"
#include "ps/plan/declaration.h"
#include "ps/plan/layout.h"
#include "ps/plan/optim.h"
#include "ps/plan/sum_tree.h"
#include "ps/plan/update_rule.h"
#include "ps/table/dirty_rows.h"
#include "ps/table/lazy_decay.h"
#include "ps/table/row_policy.h"
#include "ps/table/shared_values.h"
#include "ps/table/table.h"
#include "thread/pool.h"
#include "thread/workers.h"

enum { PARAMS_CHUNK = 1024 /* values that are summed at a time */ };

/* Row numbers of one key list. */
struct row_list {
    uint32_t *rows; /* PS_ROW_NONE: no row yet, in a table whose rows come and go */
    size_t n, cap;
    uint64_t *keys; /* ascending */
    size_t cap_keys;
};

struct row_push {
    int pushed;
    struct row_list list;
    const float *grad;
    const uint32_t *seen; /* shows and clicks of each key, in a table whose rows come and go */
};

/* The contribution of some of a member's streams to one step. Gradients stay in the frames in which
 * they arrived. */
struct contribution {
    struct ps_range streams;
    double stats[PS_STATS_MAX];
    struct wire_frame **frames;
    size_t n_frames, cap_frames;
    size_t n_copied;         /* n_frames at the last ps_shard_copy_pushes */
    const float **dense;     /* [n_dense], NULL: not pushed */
    struct row_push *tables; /* [n_sparse] */
};

/* Memory of one update. Arrays have room for all contributions and all members. */
struct scratch {
    size_t cap_parts;
    struct ps_range *ranges,
        *sub; /* streams of all contributions; of the contributions to one parameter or row */
    struct ps_add *plan;
    const float **from, **val;
    struct contribution **parts; /* the contributions of the update, sorted by stream */
    uint64_t step;               /* step of these contributions, for messages */
    float *tmp;
    size_t cap_tmp;
    struct touched_row *touched;
    size_t cap_touched;
    struct row_term *nodes;
    size_t cap_nodes;
    struct row_list rows; /* rows of a pull */
};
int shard_scratch_room(struct scratch *x, size_t n); /* room for n contributions; 0 or PD_ENOMEM */
void shard_scratch_release(struct scratch *x);

struct ps_params {
    /* The owner sets these before ps_params_declare. */
    const struct pd_log *log; /* may be NULL */
    struct pd_pool *pool;     /* may be NULL */
    struct pd_workers crew; /* threads that update large dense parameters; the results have the same
                               bits without them */
    int lends; /* 1: the dense values lie in memory that trainers of this machine map */
    struct scratch scratch;

    int declared;
    struct ps_declaration decl;
    uint32_t thread;                    /* number of this thread among the threads of its kind */
    const struct ps_optim *optim;       /* the optimizer whose state is kept */
    const struct ps_optim *apply_optim; /* the optimizer that applies contributions: `optim`; under
                                           a rule that adds, sgd */
    uint32_t planes; /* floats exchanged per value: 1, or more with state (ps_declaration_planes) */
    const struct ps_update_rule *rule;
    struct ps_seg *segs; /* [n_dense], segments of this thread; NULL in a sparse thread */
    uint64_t n_values;
    struct ps_shared_values *values; /* NULL without dense parameters */
    struct net_region *region;       /* the memory of `values`, or NULL */
    float *state;
    struct ps_table **tables; /* [n_sparse] or NULL in a dense thread */
    struct ps_lazy_decay
        *decays; /* [n_sparse] or NULL: l1 and l2 of rows that updates do not touch */
    struct ps_dirty_rows *dirty;    /* [n_sparse] or NULL: rows changed since the last save */
    struct ps_row_policy *policies; /* [n_sparse] or NULL: when rows are admitted and removed */
    uint64_t updates,
        samples; /* number of applied updates that had samples; number of their samples */
};

/* Allocates and initialises the parameters of *job. `kind`: enum ps_kind of this thread. Takes the
 * contents of *job, which is empty afterwards. Returns 0, or PD_ENOMEM with nothing declared. */
int ps_params_declare(struct ps_params *p, struct ps_declaration *job, uint32_t kind,
                      uint32_t thread, struct pd_err *err);
void ps_params_release(struct ps_params *p); /* frees all parameters; keeps the scratch */

/* Applies the n contributions at scratch.parts as one update of `n_samples` samples in pass `pass`.
 * scratch.ranges has their streams, in the same order. Returns 0, PD_ENOMEM, or PD_ENUM: a sum is
 * not finite and the job rejects such sums. */
int ps_params_apply(struct ps_params *p, uint32_t n, uint64_t n_samples, uint64_t pass,
                    struct pd_err *err);

/* Sets a segment's values to their initial values. */
void ps_params_initial_dense(struct ps_params *p, uint32_t id);
/* Copies n rows of a table to out[n * dim] with their values after the last update. Rows that the
 * update did not touch are brought up to date in `out`. */
void ps_params_gather(const struct ps_params *p, uint32_t id, const uint64_t *keys,
                      const uint32_t *rows, size_t n, float *out);
/* PD_ENOMEM, with the size of the table and the memory of the machine. */
int ps_params_no_rows(const struct ps_params *p, uint32_t id, struct pd_err *err);
/* Floats of a row's state in a checkpoint. */
uint32_t ps_params_state_width(const struct ps_params *p, uint32_t id);
/* Ends a day in all tables whose rows age. Returns 0 or PD_ENOMEM. */
int ps_params_day_end(struct ps_params *p, struct ps_row_policy_day *out, struct pd_err *err);

/* Planes are numbered plane * n_dense + parameter, as in PS_PUSH_DENSE and PS_PULL_DENSE. */
static inline uint32_t params_n_planes(const struct ps_params *p) {
    return p->decl.n_dense * p->planes;
}
static inline const struct ps_seg *params_seg(const struct ps_params *p, uint32_t i) {
    return &p->segs[i % p->decl.n_dense];
}
static inline const char *params_dense_name(const struct ps_params *p, uint32_t i) {
    return p->decl.dense[i % p->decl.n_dense].name;
}
static inline uint32_t params_width(const struct ps_params *p, uint32_t table) {
    return p->decl.sparse[table].dim * p->planes;
}
static inline float *params_w(const struct ps_params *p, uint32_t id) {
    return p->values->w + p->segs[id].off;
}
float *ps_params_plane(const struct ps_params *p, uint32_t i);

/* --- key lists --- */

int shard_list_keep_keys(struct row_list *l, const uint64_t *keys, size_t n); /* 0 or PD_ENOMEM */
/* Looks up the keys again if some have no row: rows may have been created since. Returns 0 or
 * PD_ENOMEM. */
int shard_list_look_again(const struct ps_table *t, struct row_list *l);

/* --- internal to params*.c --- */

/* Applies the sum of the m contributions at scratch.from to `count` values. scratch.plan gives the
 * order of addition. average > 0: the values are a running mean. Returns 1, or 0: a sum is not
 * finite and the job rejects such sums. */
int ps_params_reduce_and_apply(struct ps_params *p, uint32_t m, const struct ps_optim_args *a,
                               float average, float *w, float *state, size_t stride,
                               uint64_t count);
/* Applies the contributions to the rows of table `id`. Returns 0, PD_ENOMEM, or PD_ENUM: a sum is
 * not finite and the job rejects such sums; other rows may have changed then. */
int ps_params_apply_rows(struct ps_params *p, uint32_t id, uint32_t n_parts,
                         const struct ps_optim_args *a);
/* Call when all contributions of an update are complete. Creates the rows of admitted keys and
 * counts shows and clicks. Returns 0 or PD_ENOMEM. */
int ps_params_admit(struct ps_params *p, uint32_t id, uint32_t n_parts);
