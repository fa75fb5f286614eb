/* barrier.h - the members of a pass: how far each member is, and its requests that wait for an
 * answer.
 */
#ifndef PD_PS_BARRIER_H
#define PD_PS_BARRIER_H

#include "base/buf.h"
#include "ps/shard/params.h"
#include "wire/frame.h"

enum {
    SHARD_AHEAD = 8,              /* steps that a member may be ahead of the barrier */
    SHARD_RING = SHARD_AHEAD + 1, /* steps of a member: the ended steps and the current step */
    SHARD_REDUCES = 64,           /* reductions under way, of a member */
    SHARD_ANSWERS = 128,          /* kept for each member */
    SHARD_LISTS = 2, /* key lists of a member and table: of the batch that computes, of the next */
};

/* A member's part in one step: a contribution of all its streams, or several of disjoint ranges of
 * them, by stream. */
struct member_step {
    uint64_t n_samples;
    uint32_t n_stats;
    uint64_t req;               /* of the STEP_END that wants the sums of the stats */
    struct contribution *parts; /* those beyond n_parts have memory to be used again */
    uint32_t n_parts, cap_parts;
};

struct reduction {
    uint64_t req;
    uint32_t n;
    double *v;
};

enum shard_member_state { MEMBER_ABSENT, MEMBER_JOINED, MEMBER_LEFT };

/* An answer that cannot be made again. */
struct kept_answer {
    uint64_t req;        /* 0: none */
    uint32_t connection; /* that it was given to */
    uint16_t type;
    size_t n;
    uint8_t small[16 + 8 * PS_STATS_MAX]; /* of n bytes that fit: a step's sums; others at data */
    uint8_t *data;
    size_t cap;
};

struct shard_member {
    enum shard_member_state state;
    struct ps_range streams;
    char addr[80];
    uint64_t step; /* the step it works at: all before are ended */
    int in_pass;
    uint64_t pass_req;
    struct member_step *ring; /* [SHARD_RING], by step */
    int has_pulled; /* since it ended its last step, when updates_seen updates were applied */
    uint64_t updates_seen;
    double sums[PS_STATS_MAX]; /* without a barrier: of all members since this one was told last */
    uint64_t sum_samples;
    struct known_list {
        uint32_t id; /* 0: none */
        struct row_list list;
    } * known; /* [n_sparse * SHARD_LISTS]: the keys of the last creating pulls, each */
    struct reduction reduces[SHARD_REDUCES];
    uint32_t first_reduce, n_reduces;
    uint64_t incarnation;
    uint32_t connection; /* counts its connections */
    uint64_t last_req;   /* the id of the request taken last: they grow */
    struct kept_answer
        *answers; /* [SHARD_ANSWERS], a ring: more than a trainer has requests under way */
    uint32_t next_answer;
    int knows_bye;       /* it has the answer to its PS_BYE */
    int attached;        /* it has a connection */
    int lost;            /* gone for good: this process of it does not come back */
    int resumed;         /* it was started again, and goes on where the lost process was */
    uint32_t n_replayed; /* reductions since the pass began that it has the answer to */
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
    } note[2]; /* the last two notes for checkpoints, newest first */
};

/* A request that is answered once `after` steps are applied. */
struct waiting {
    uint32_t trainer;
    uint64_t after;
    struct wire_frame *f;
};

struct barrier {
    uint32_t n_trainers; /* that will come */
    struct shard_member *members;
    uint32_t *order; /* members that have joined, by stream */
    uint32_t n_joined, n_left;
    uint32_t n_byes,
        n_absent; /* of those that have left: with PS_BYE; without ever having been here */
    uint64_t pass_began_ns; /* when the first step of this pass was ended; 0: none was */
    uint64_t last_pass_ms;  /* from then to the end of the pass before */
    uint64_t pass_step;     /* the step that this pass began with */
    struct reduced {        /* reductions since then, for a trainer that is started again */
        uint32_t n;
        double *v;
    } * reduced;
    size_t cap_reduced, reduced_bytes;
    int reduced_full; /* they were too many to be kept */
    uint32_t n_reduced;
    /* Without a barrier: contributions of this pass; of them dropped as too old. */
    uint64_t pass_given, pass_lagged;
    uint64_t step, pass; /* steps applied (without a barrier: by every member that is in the pass),
                            passes ended */
    struct waiting *waiting;
    size_t n_waiting, cap_waiting,
        n_answering; /* n_answering: of them, those that shard_answer_waiting has answered, or is
                        about to */
};

int shard_barrier_init(struct barrier *b, uint32_t n_trainers); /* 0 or PD_ENOMEM */
/* The member has its place in the order of streams. */
void shard_barrier_join(struct barrier *b, uint32_t trainer, struct ps_range streams);
int shard_barrier_is_complete(
    const struct barrier *b); /* every trainer has been here, or never comes */

/* Under a rule with a barrier: everybody in the pass has ended step b->step. */
int shard_barrier_step_ready(const struct barrier *b);
/* 1 if all members have left the pass and every step is applied. A restarted trainer must send
 * PS_PASS_END again. */
int shard_barrier_pass_over(const struct barrier *b);
uint64_t shard_barrier_furthest(
    const struct barrier *b); /* without a barrier: the step that some member has reached */
/* Without a barrier: the step that every member of the pass has reached, or once all are out, the
 * last one of any. */
uint64_t shard_barrier_slowest(const struct barrier *b);
uint64_t shard_barrier_pass_ms(
    const struct barrier *b); /* since the first step of this pass was ended; 0: none was */
int shard_barrier_steps_under_way(const struct barrier *b);

/* The text of ps_shard_absent and ps_shard_waiting. */
uint32_t shard_barrier_absent(const struct barrier *b, char *text, size_t cap);
int shard_barrier_waiting(const struct barrier *b, char *text, size_t cap);

static inline struct member_step *shard_barrier_step_of(const struct shard_member *m,
                                                        uint64_t step) {
    return &m->ring[step % SHARD_RING];
}

#endif
