/* shard_int.h - the shard's inside, shared by shard.c (declaration, barrier), shard_member.c (members that are lost), shard_again.c (what comes twice), shard_step.c (contributions), shard_apply.c (their
 * application), shard_life.c (rows that come and go), shard_pull.c (answers to pulls), shard_task.c (files handed out), shard_save.c, shard_chain.c, shard_load.c and shard_models.c (models).
 */
#ifndef PD_PS_SHARD_INT_H
#define PD_PS_SHARD_INT_H

#include <limits.h>

#include "base/buf.h"
#include "model/model.h"
#include "ps/table/changed.h"
#include "ps/table/decay.h"
#include "ps/plan/layout.h"
#include "ps/plan/message.h"
#include "ps/table/life.h"
#include "ps/plan/optim.h"
#include "ps/plan/rule.h"
#include "ps/shard/shard.h"
#include "ps/table/table.h"
#include "ps/plan/tree.h"
#include "ps/table/values.h"
#include "wire/msg.h"

enum {
    SHARD_AHEAD = 8,
    SHARD_RING = SHARD_AHEAD + 1, /* steps of a member: those that it has ended, the one that it is at */
    SHARD_CHUNK = 1024,
    SHARD_REDUCES = 64,
    SHARD_WAITING = 1024, /* of a member */
    SHARD_ANSWERS = 128, /* kept for each member */
    SHARD_LISTS = 2,     /* key lists of a member and table: of the batch that computes, of the next */
};

/* Row numbers of one key list. */
struct row_list {
    uint32_t *rows; /* of a table with a life of rows PS_ROW_NONE where there is none yet */
    size_t n, cap;
    uint64_t *keys; /* ascending */
    size_t cap_keys;
};

struct row_push {
    int here;
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
    size_t n_owned; /* n_frames when ps_shard_own_pushes was called last */
    const float **dense;     /* [n_dense], NULL: not pushed */
    struct row_push *tables; /* [n_sparse] */
};

/* A member's part in one step: a contribution of all its streams, or several of disjoint ranges of them, by stream. */
struct member_step {
    uint64_t n_samples;
    uint32_t n_stats;
    uint64_t req; /* of the STEP_END that wants the sums of the stats */
    struct contribution *parts; /* those beyond n_parts have memory to be used again */
    uint32_t n_parts, cap_parts;
};

struct reduction {
    uint64_t req;
    uint32_t n;
    double *v;
};

enum member_state { MEMBER_ABSENT, MEMBER_JOINED, MEMBER_LEFT };

/* An answer that cannot be made again. */
struct kept_answer {
    uint64_t req; /* 0: none */
    uint32_t connection; /* that it was given to */
    uint16_t type;
    size_t n;
    uint8_t small[16 + 8 * PS_STATS_MAX]; /* of n bytes that fit: a step's sums; others at data */
    uint8_t *data;
    size_t cap;
};

struct member {
    enum member_state state;
    struct ps_range streams;
    char addr[80];
    uint64_t step; /* the step it works at: all before are ended */
    int in_pass;
    uint64_t pass_req;
    struct member_step *ring; /* [SHARD_RING], by step */
    int has_pulled;          /* since it ended its last step, when updates_seen updates were applied */
    uint64_t updates_seen;
    double sums[PS_STATS_MAX]; /* without a barrier: of all members since this one was told last */
    uint64_t sum_samples;
    struct known_list {
        uint32_t id; /* 0: none */
        struct row_list list;
    } *known; /* [n_sparse * SHARD_LISTS]: the keys of the last creating pulls, each */
    struct reduction reduces[SHARD_REDUCES];
    uint32_t first_reduce, n_reduces;
    uint64_t incarnation;
    uint32_t connection;         /* counts its connections */
    uint64_t last_req;           /* the id of the request taken last: they grow */
    struct kept_answer *answers; /* [SHARD_ANSWERS], a ring: more than a trainer has requests under way */
    uint32_t next_answer;
    int knows;                   /* it has the answer to its PS_BYE */
    int attached;                /* it has a connection */
    int lost;                    /* gone for good: this process of it does not come back */
    int resumed;                 /* it was started again, and goes on where the lost process was */
    uint32_t n_replayed;         /* reductions since the pass began that it has the answer to */
    struct ps_pass_sums in_this, in_last; /* its steps' numbers, of this pass and the one before */
    uint64_t task;     /* the file that it reads, counted from 1; 0: none (data = queue) */
    uint64_t task_req; /* it waits for one; 0: it does not */
    uint64_t n_tasks;  /* that it has read in this pass */
    int own_first;     /* it has the files of its own number, others have to come to it */
    uint64_t own_next; /* none of its own before this one is left */
    uint64_t hint;     /* the file that it was told to expect next, counted from 1; 0: none */
    struct note {
        uint64_t after; /* so many steps */
        struct pd_buf text;
    } note[2]; /* what it wants to be in a checkpoint; the first is the newer one */
};

/* The saves that the next one may leave out what has not changed since: the file of all rows, and those of changes on top of it. */
struct chain {
    char *folder; /* of the last one, which links to the files of the others; NULL: none */
    int full;     /* with the optimizer's state */
    struct chain_layer {
        struct model_part part;
        uint64_t dev, ino;
    } *layer; /* [n], the lowest first */
    uint32_t n;
    const struct ps_saving *latest; /* rows are watched since its cut */
};

/* A request that is answered once `after` steps are applied. */
struct waiting {
    uint32_t trainer;
    uint64_t after;
    struct wire_frame *f;
};

struct ps_shard {
    struct ps_shard_opts opts;
    struct ps_saving *savings; /* under way */
    struct chain chain;
    char *staged; /* folder of a save that is not committed: removed when the shard ends */
    struct ps_shard_ops ops;
    void *arg;

    int declared;
    struct ps_job job;
    uint32_t thread; /* which of its kind */
    const struct ps_optim *optim; /* whose state is kept */
    const struct ps_optim *by;    /* what contributions are given to: that; under a rule that adds, plain descent */
    uint32_t planes;              /* values that travel for each value: 1, or with its state (ps_job_planes) */
    const struct ps_rule *rule;
    struct ps_seg *segs; /* [n_dense], of this thread */
    uint64_t n_values;
    struct ps_values *values; /* NULL without dense parameters */
    struct net_region *region; /* that they lie in, or NULL */
    float *state;
    struct ps_table **tables; /* [n_sparse] or NULL in a dense thread */
    struct ps_decay *decays;  /* [n_sparse], likewise: l1 and l2 of rows that updates do not touch */
    struct ps_changed *changed; /* [n_sparse], likewise: rows to be in the next save of changes */
    struct ps_life *lives;    /* [n_sparse], likewise: how rows come and go */
    uint64_t updates, samples; /* applied: steps that had samples, and how many those were */

    struct member *members;
    uint32_t *order; /* members that have joined, by stream */
    uint32_t n_joined, n_left;
    uint32_t n_byes, n_absent; /* of those that have left: with PS_BYE; without ever having been here */
    uint64_t pass_began_ns; /* when the first step of this pass was ended; 0: none was */
    uint64_t last_pass_ms;  /* from then to the end of the pass before */
    uint64_t pass_step;  /* the step that this pass began with */
    struct reduced {     /* reductions since then, for a trainer that is started again */
        uint32_t n;
        double *v;
    } *reduced;
    size_t cap_reduced, reduced_bytes;
    int reduced_full; /* they were too many to be kept */
    uint32_t n_reduced;
    /* Without a barrier: contributions of this pass; of them dropped as too old. */
    uint64_t pass_given, pass_lagged;
    uint64_t step, pass; /* steps applied (without a barrier: by every member that is in the pass), passes ended */
    struct waiting *waiting;
    size_t n_waiting, cap_waiting, n_answering; /* n_answering: of them, those that shard_answer_waiting has answered, or is about to */

    struct {             /* data = queue: the files of the pass; see shard_task.c */
        uint32_t *owner; /* [n] NULL: nobody has asked */
        uint64_t n, next, n_done; /* next: none before it is left; */
        uint64_t n_left;          /* that have never been handed out */
        uint64_t n_back, n_again; /* given back: not handed out since; in all */
    } tasks;

    /* scratch of one step: as many as there are contributions, and as members */
    size_t cap_parts;
    struct ps_range *ranges, *sub; /* of all contributions, of those to one parameter or row */
    struct ps_add *plan;
    const float **from, **val;
    struct contribution **parts; /* of the step, by stream */
    float *tmp;
    size_t cap_tmp;
    struct touch *touched;
    size_t cap_touched;
    struct node *nodes;
    size_t cap_nodes;
    struct row_list scratch;

    struct pd_buf head; /* section 0 of the answer being made; ANSWER_ROOM bytes are always there */
    struct pd_err failed;
    struct ps_shard_stats stats;
};

/* For ps_put_*: section 0 is written to s->head. */
static inline struct ps_body shard_body(struct ps_shard *s) { return (struct ps_body){.head = &s->head}; }
int shard_answer(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, const struct ps_body *b, struct pd_err *err);

int shard_advance(struct ps_shard *s, struct pd_err *err); /* whatever is complete happens, and is answered */
void shard_initial_dense(struct ps_shard *s, uint32_t id); /* the values of its segment are as at the beginning */
/* Of plane * n_dense + parameter, as PS_PUSH_DENSE and PS_PULL_DENSE count. */
static inline uint32_t shard_n_planes(const struct ps_shard *s) { return s->job.n_dense * s->planes; }
static inline const struct ps_seg *shard_seg(const struct ps_shard *s, uint32_t i) { return &s->segs[i % s->job.n_dense]; }
static inline const char *shard_dense_name(const struct ps_shard *s, uint32_t i) { return s->job.dense[i % s->job.n_dense].name; }
float *shard_plane(const struct ps_shard *s, uint32_t i);
static inline uint32_t shard_width(const struct ps_shard *s, uint32_t table) { return s->job.sparse[table].dim * s->planes; }
static inline float *shard_w(const struct ps_shard *s, uint32_t id) { return s->values->w + s->segs[id].off; }

/* Make room for n elements; *cap counts them. */
int shard_room(void *array, size_t *cap, size_t n, size_t size);

/* Handlers get the frame by reference: one that keeps it sets *f to NULL. */

/* shard_member.c */
/* Is this the same trainer on another connection, or in another process in its place? It then is a member as before. 1, 0, or an
 * error: it takes itself for one. */
int shard_comes_back(struct ps_shard *s, uint32_t trainer, const char *addr, const struct ps_declare *d, const struct ps_job *job,
                     struct pd_err *err);
void shard_keep_reduced(struct ps_shard *s, const double *sum, uint32_t n);
int shard_reduce_again(struct ps_shard *s, uint32_t trainer, uint32_t n, uint64_t req, struct pd_err *err);
void shard_forget_reduced(struct ps_shard *s);

/* shard_again.c */
int shard_repeated(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err); /* its id is not above the last */
/* Of section 0 alone; kept until it is known to have arrived. Without memory for the body: PD_ENOMEM. */
int shard_answer_kept(struct ps_shard *s, uint32_t trainer, uint16_t type, uint64_t req, const struct ps_body *b);
void shard_forget_pulls(struct ps_shard *s, uint32_t trainer);   /* that wait: it will ask again */
void shard_forget_waiting(struct ps_shard *s, uint32_t trainer); /* and all else that waits: nobody will ask */

/* shard_step.c */
int shard_member_init(struct ps_shard *s, struct member *m);
void shard_member_release(struct ps_shard *s, struct member *m);
int shard_push_dense(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
int shard_push_rows(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
int shard_step_end(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
/* Table known, keys sorted, unique and ours. */
int shard_keys(const struct ps_shard *s, const char *what, uint32_t table, uint64_t n, const uint64_t *keys, size_t n_keys,
               struct pd_err *err);
/* The key list of that number; NULL: it is not known (any more). */
struct known_list *shard_known(struct member *m, uint32_t table, uint32_t id);
static inline struct member_step *shard_step_of(const struct member *m, uint64_t step) { return &m->ring[step % SHARD_RING]; }
void shard_step_clear(struct ps_shard *s, struct member_step *p);
/* Room in the scratch of a step for n contributions. */
int shard_room_parts(struct ps_shard *s, size_t n);

/* shard_apply.c */
int shard_apply(struct ps_shard *s, struct pd_err *err); /* step s->step is complete */
/* Without a barrier: this member's step m->step is. */
int shard_apply_one(struct ps_shard *s, struct member *m, struct pd_err *err);

/* The sum of the m <= the step's contributions at s->from, which are added as s->plan says, is applied to `count` values; average > 0: as a
 * running mean. 0: it is not finite, and the job rejects that. */
int shard_reduce_and_apply(struct ps_shard *s, uint32_t m, const struct ps_optim_args *a, float average, float *w, float *state,
                           size_t stride, uint64_t count);

/* shard_rows.c */
/* What the n_parts contributions at s->parts do to rows of table `id`. PD_ENOMEM, or PD_ENUM: a sum is not finite, and the job rejects
 * that; other rows are changed then. */
int shard_apply_rows(struct ps_shard *s, uint32_t id, uint32_t n_parts, const struct ps_optim_args *a);

/* shard_life.c: of tables with a life of rows */
int shard_keep_keys(struct row_list *l, const uint64_t *keys, size_t n); /* 0 or PD_ENOMEM */
int shard_look_again(const struct ps_table *t, struct row_list *l);
int shard_check_seen(const uint32_t *seen, size_t n); /* 0, or PD_EPROTO: more clicks than shows */
/* All contributions of an update are here: their keys that get rows have them, and all are counted. 0 or PD_ENOMEM. */
int shard_admit(struct ps_shard *s, uint32_t id, uint32_t n_parts);
int shard_day_end(struct ps_shard *s, const struct wire_frame *f, struct ps_body *answer, struct pd_err *err);

/* shard_pull.c */
int shard_pull(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err); /* save and load too */
void shard_answer_waiting(struct ps_shard *s);
void shard_gather(struct ps_shard *s, uint32_t id, const uint64_t *keys, const uint32_t *rows, size_t n, float *out);

/* shard_task.c */
int shard_task(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err);
void shard_task_back(struct ps_shard *s, uint32_t trainer); /* what it holds, and its request */
void shard_hand_out(struct ps_shard *s);
void shard_tasks_over(struct ps_shard *s); /* the pass is */
void shard_tasks_release(struct ps_shard *s);
uint64_t shard_furthest(const struct ps_shard *s); /* without a barrier: the step that some member has reached */

/* shard_save.c: answered by itself, when the part is written */
int shard_save(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err);
int shard_is_saving(const struct ps_shard *s, uint32_t trainer, uint64_t req);
void shard_savings_release(struct ps_shard *s);
int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_err *err);
int shard_note(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err);
uint32_t shard_row_width(const struct ps_shard *s, uint32_t id); /* floats of a row's state in a checkpoint */
void shard_part_name(const struct ps_shard *s, char file[MODEL_FILE_MAX + 1]);

/* shard_chain.c */
void shard_chain_drop(struct ps_shard *s);                        /* the next save has all rows; rows are not watched */
int shard_chain_changes(const struct ps_shard *s, uint32_t id);   /* of this table the changed rows are enough */
/* 1: the files that a save of changes lies on are in `folder` now; 0: it has to be a base. */
int shard_chain_go_on(struct ps_shard *s, const char *folder, int full);
/* The n layers are what the next save may lie on, and will be in `folder`; takes both. */
void shard_chain_set(struct ps_shard *s, char *folder, int full, struct chain_layer *layer, uint32_t n);

/* shard_models.c */
int shard_models(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err);
int shard_is_about_models(uint16_t type);

/* shard_load.c */
int shard_steps_under_way(const struct ps_shard *s);
void shard_forget_rows(struct ps_shard *s); /* row numbers that members remember are not good any more */
int shard_load(struct ps_shard *s, const struct wire_frame *f, struct ps_body *answer, struct pd_err *err);
/* Where the folder that a trainer names is on this node. `name` may be changed. */
int shard_folder(const struct ps_shard *s, char name[PATH_MAX], char out[PATH_MAX], struct pd_err *err);

#endif
