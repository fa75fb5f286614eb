/* params.h - what a server thread holds: its segments of the dense parameters, its rows of the
 * tables, the optimizer's state, and how contributions change them. No messages and no members
 * here.
 *
 *     ps_params_declare                     everything has its initial values
 *     scratch.parts, scratch.ranges ─▶ ps_params_apply    one update: contributions are summed in
 *                                           the fixed tree, divided, and passed to the optimizer
 *     ps_params_gather                      rows as they are after the last update
 */
#ifndef PD_PS_PARAMS_H
#define PD_PS_PARAMS_H

#include "base/log.h"
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
    uint32_t *rows; /* of a table with a life of rows PS_ROW_NONE where there is none yet */
    size_t n, cap;
    uint64_t *keys; /* ascending */
    size_t cap_keys;
};

struct row_push {
    int pushed;
    struct row_list list;
    const float *grad;
    const uint32_t *seen; /* shows and clicks of each key; of a table with a life of rows */
};

/* What some of a member's streams give to one step. Gradients stay in the frames they came in. */
struct contribution {
    struct ps_range streams;
    double stats[PS_STATS_MAX];
    struct wire_frame **frames;
    size_t n_frames, cap_frames;
    size_t n_copied;         /* n_frames when ps_shard_copy_pushes was called last */
    const float **dense;     /* [n_dense], NULL: not pushed */
    struct row_push *tables; /* [n_sparse] */
};

/* Memory of one update: as much as there are contributions, and members. */
struct scratch {
    size_t cap_parts;
    struct ps_range *ranges, *sub; /* of all contributions, of those to one parameter or row */
    struct ps_add *plan;
    const float **from, **val;
    struct contribution **parts; /* of the update, by stream */
    uint64_t step;               /* that they are of, for messages */
    float *tmp;
    size_t cap_tmp;
    struct touched_row *touched;
    size_t cap_touched;
    struct row_term *nodes;
    size_t cap_nodes;
    struct row_list rows; /* of a pull */
};
int shard_scratch_room(struct scratch *x, size_t n); /* for n contributions. 0 or PD_ENOMEM */
void shard_scratch_release(struct scratch *x);

struct ps_params {
    /* Set by the owner before ps_params_declare. */
    const struct pd_log *log; /* may be NULL */
    struct pd_pool *pool;     /* may be NULL */
    struct pd_workers crew;   /* updates large dense parameters; changes no bit of them */
    int lends;                /* the dense values are in memory that trainers of this machine map */
    struct scratch scratch;

    int declared;
    struct ps_declaration decl;
    uint32_t thread;                    /* which of its kind */
    const struct ps_optim *optim;       /* whose state is kept */
    const struct ps_optim *apply_optim; /* what contributions are given to: that; under a rule that
                                           adds, plain descent */
    uint32_t planes;                    /* values that travel for each value: 1, or with its state
                                           (ps_declaration_planes) */
    const struct ps_update_rule *rule;
    struct ps_seg *segs; /* [n_dense], of this thread; NULL in a sparse thread */
    uint64_t n_values;
    struct ps_shared_values *values; /* NULL without dense parameters */
    struct net_region *region;       /* that they lie in, or NULL */
    float *state;
    struct ps_table **tables; /* [n_sparse] or NULL in a dense thread */
    struct ps_lazy_decay
        *decays; /* [n_sparse], likewise: l1 and l2 of rows that updates do not touch */
    struct ps_dirty_rows *dirty; /* [n_sparse], likewise: rows to be in the next save of changes */
    struct ps_row_policy *policies; /* [n_sparse], likewise: how rows come and go */
    uint64_t updates, samples;      /* applied: updates that had samples, and how many those were */
};

/* `kind`: enum ps_kind, what the thread holds. Takes *job, which is empty afterwards; on failure
 * nothing is declared. */
int ps_params_declare(struct ps_params *p, struct ps_declaration *job, uint32_t kind,
                      uint32_t thread, struct pd_err *err);
void ps_params_release(struct ps_params *p); /* nothing is declared any more; the scratch stays */

/* The n contributions at scratch.parts, of the streams at scratch.ranges and in their order, are
 * one update of `n_samples` samples in pass `pass`. PD_ENUM: a sum is not finite, and the job
 * rejects that. */
int ps_params_apply(struct ps_params *p, uint32_t n, uint64_t n_samples, uint64_t pass,
                    struct pd_err *err);

void ps_params_initial_dense(struct ps_params *p,
                             uint32_t id); /* the segment's values are as at the beginning */
/* Rows of a table as they are after the last update, also those that it did not touch. */
void ps_params_gather(const struct ps_params *p, uint32_t id, const uint64_t *keys,
                      const uint32_t *rows, size_t n, float *out);
uint32_t ps_params_state_width(const struct ps_params *p,
                               uint32_t id); /* floats of a row's state in a checkpoint */
/* A day of the data is over, in all tables whose rows age. 0 or PD_ENOMEM. */
int ps_params_day_end(struct ps_params *p, struct ps_row_policy_day *out, struct pd_err *err);

/* Of plane * n_dense + parameter, as PS_PUSH_DENSE and PS_PULL_DENSE count. */
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

/* Make room for n elements; *cap counts them. 0 or PD_ENOMEM. */
int shard_room(void *array, size_t *cap, size_t n, size_t size);

/* --- key lists --- */

int shard_list_keep_keys(struct row_list *l, const uint64_t *keys, size_t n); /* 0 or PD_ENOMEM */
/* Rows may have been made since the list was looked up. 0 or PD_ENOMEM. */
int shard_list_look_again(const struct ps_table *t, struct row_list *l);

/* --- inside --- */

/* The sum of the m <= the update's contributions at scratch.from, which are added as scratch.plan
 * says, is applied to `count` values; average > 0: as a running mean. 0: it is not finite, and the
 * job rejects that. */
int ps_params_reduce_and_apply(struct ps_params *p, uint32_t m, const struct ps_optim_args *a,
                               float average, float *w, float *state, size_t stride,
                               uint64_t count);
/* What the contributions do to rows of table `id`. PD_ENOMEM, or PD_ENUM: a sum is not finite, and
 * the job rejects that; other rows are changed then. */
int ps_params_apply_rows(struct ps_params *p, uint32_t id, uint32_t n_parts,
                         const struct ps_optim_args *a);
/* All contributions of an update are here: their keys that get rows have them, and all are counted.
 * 0 or PD_ENOMEM. */
int ps_params_admit(struct ps_params *p, uint32_t id, uint32_t n_parts);

#endif
