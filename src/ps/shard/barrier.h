/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.h - the members of a pass: how far each member is, and its requests that wait for an
 * answer.
 */
#pragma once

#include "ps/shard/params.h"
#include "wire/frame.h"

enum {
    SHARD_AHEAD = 8,              /* steps that a member may be ahead of the barrier */
    SHARD_RING = SHARD_AHEAD + 1, /* steps of a member: the ended steps and the current step */
    SHARD_REDUCES = 64,           /* reductions under way per member */
    SHARD_ANSWERS = 128,          /* answers kept per member */
    SHARD_LISTS =
        2, /* key lists per member and table: of the current batch and of the next batch */
};

/* A member's part in one step: one contribution of all its streams, or several contributions of
 * disjoint ranges, sorted by stream. */
struct member_step {
    uint64_t n_samples;
    uint32_t n_stats;
    uint64_t req; /* request id of the STEP_END that is answered with the sums of the stats */
    struct contribution
        *parts; /* [cap_parts]; entries from n_parts on keep their memory for later steps */
    uint32_t n_parts, cap_parts;
};

struct reduction {
    uint64_t req;
    uint32_t n;
    double *v;
};

enum shard_member_state { MEMBER_ABSENT, MEMBER_JOINED, MEMBER_LEFT };

/* An answer that cannot be computed again. */
struct kept_answer {
    uint64_t req;        /* 0: none */
    uint32_t connection; /* number of the connection that it was sent on */
    uint16_t type;
    size_t n;
    uint8_t
        small[16 + 8 * PS_STATS_MAX]; /* used if n bytes fit, such as a step's sums; else data */
    uint8_t *data;
    size_t cap;
};

struct shard_member {
    enum shard_member_state state;
    struct ps_range streams;
    char addr[80];
    uint64_t step; /* the current step; the member has ended all earlier steps */
    int in_pass;
    uint64_t pass_req;
    struct member_step *ring; /* [SHARD_RING], by step */
    int has_pulled; /* 1: it has pulled since it ended its last step; updates_seen updates were
                       applied then */
    uint64_t updates_seen;
    double sums[PS_STATS_MAX]; /* without a barrier: sums over all members since this member's last
                                  answer */
    uint64_t sum_samples;
    struct known_list {
        uint32_t id; /* 0: none */
        struct row_list list;
    } * known; /* [n_sparse * SHARD_LISTS]: keys of the last creating pulls of each table */
    struct reduction reduces[SHARD_REDUCES];
    uint32_t first_reduce, n_reduces;
    uint64_t incarnation;
    uint32_t connection;         /* number of connections before the current one */
    uint64_t last_req;           /* id of the last request taken; ids grow */
    struct kept_answer *answers; /* [SHARD_ANSWERS], a ring, larger than the number of a trainer's
                                    requests under way */
    uint32_t next_answer;
    int knows_bye; /* 1: it has the answer to its PS_BYE */
    int attached;  /* 1: it has a connection */
    int lost;      /* 1: this process of the trainer is lost and must not come back */
    int resumed;   /* 1: a restarted trainer, which continues at the step of the lost process */
    uint32_t n_replayed; /* reductions of this pass whose answer it has */
    struct ps_pass_sums in_this,
        in_last;       /* numbers of its steps in this pass and in the last pass */
    uint64_t task;     /* the file that it reads, counted from 1; 0: none (data = queue) */
    uint64_t task_req; /* its waiting request for a file; 0: none */
    uint64_t n_tasks;  /* number of files that it has read in this pass */
    int own_first; /* 1: its node has the files of its own number; other files must be fetched */
    uint64_t own_next; /* all its own files before this file are assigned */
    uint64_t
        hint; /* its probable next file, which the last answer named, counted from 1; 0: none */
    struct note {
        uint64_t after; /* number of steps */
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
    uint32_t n_trainers; /* number of trainers in the job */
    struct shard_member *members;
    uint32_t *order; /* members that have joined, sorted by stream */
    uint32_t n_joined, n_left;
    uint32_t n_byes, n_absent; /* members that have left: after PS_BYE; without ever joining */
    uint64_t pass_began_ns;    /* time at which the first step of this pass ended; 0: none has */
    uint64_t last_pass_ms;     /* duration of the last pass, from the end of its first step */
    uint64_t pass_step;        /* the first step of this pass */
    struct reduced {           /* results of the reductions of this pass, for a restarted trainer */
        uint32_t n;
        double *v;
    } * reduced;
    size_t cap_reduced, reduced_bytes;
    int reduced_full; /* 1: there were too many results to keep */
    uint32_t n_reduced;
    /* Without a barrier: contributions of this pass, and how many of them were dropped as too old.
     */
    uint64_t pass_given, pass_lagged;
    uint64_t step, pass; /* steps applied (without a barrier: steps that every member in the pass
                            has ended), passes ended */
    struct waiting *waiting;
    size_t n_waiting, cap_waiting, n_answering; /* n_answering: number of these requests that
                                                   shard_answer_waiting has begun to answer */
};

int shard_barrier_init(struct barrier *b, uint32_t n_trainers); /* 0 or PD_ENOMEM */
/* Inserts a trainer in the order of streams. */
void shard_barrier_join(struct barrier *b, uint32_t trainer, struct ps_range streams);
/* 1: every trainer has joined, or was lost before it joined. */
int shard_barrier_is_complete(const struct barrier *b);

/* Under a rule with a barrier: 1 if every member in the pass has ended step b->step. */
int shard_barrier_step_ready(const struct barrier *b);
/* 1 if all members have left the pass and every step is applied. A restarted trainer must send
 * PS_PASS_END again. */
int shard_barrier_pass_over(const struct barrier *b);
/* Without a barrier: the highest step of any member. */
uint64_t shard_barrier_furthest(const struct barrier *b);
/* Without a barrier: the lowest step of the members in the pass; if none is in the pass, the
 * highest step of any member. */
uint64_t shard_barrier_slowest(const struct barrier *b);
/* Time since the first step of this pass ended; 0: none has. */
uint64_t shard_barrier_pass_ms(const struct barrier *b);
int shard_barrier_steps_under_way(const struct barrier *b);

/* Write the texts of ps_shard_absent and ps_shard_waiting. */
uint32_t shard_barrier_absent(const struct barrier *b, char *text, size_t cap);
int shard_barrier_waiting(const struct barrier *b, char *text, size_t cap);

static inline struct member_step *shard_barrier_step_of(const struct shard_member *m,
                                                        uint64_t step) {
    return &m->ring[step % SHARD_RING];
}
