/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h - what the agents of a job answer to AG_STATUS, once or again and again, and what the
 * answers say together: for `paddlectl status` and `top`. */
#pragma once

#include "launcher/job/find.h"

enum { ANSWERS_CPU_MS = 400 }; /* CPU use is measured over at least this time */

struct answers;

struct node_answer { /* of a host */
    struct answers *s;
    struct ask_all_node *n;
    json_t *body, *result;          /* AG_STATUS's; AG_RESULT */
    struct ag_status_answer status; /* of body; without a body zeros */
    json_t *before;                 /* the processes one answer earlier; NULL: it was the first */
    int64_t before_us;
    uv_timer_t again;
    int has_timer;
};

struct answers {
    struct ask_all *g;
    const struct found_job *job;
    struct node_answer *v; /* index: host of conf.ini */
    /* A node has answered: the next step is ask_all_done, answers_again or answers_twice. */
    void (*on_answer)(struct node_answer *a);
    int is_live; /* a host that answered once and then fails is asked again, while others answer */
    void (*on_result)(struct node_answer *a); /* the job is over there; or NULL */
    void *arg;
};

/* A whole command: finds the job that the user means (find_choose; without `want` the only running
 * one, else the newest one), and calls `run`, which calls answers_run and returns the exit status,
 * or fills err. */
int answers_main(const struct pd_options *o, const char *want,
                 int (*run)(struct answers *s, struct pd_err *err), void *arg, struct pd_err *err);
/* Asks all nodes of s->job, or with `running` those that run it, until ask_all_done was called for
 * each. PD_ECANCELED: Ctrl-C; PD_ENOMEM. */
int answers_run(struct answers *s, int running, struct pd_err *err);
void answers_again(struct node_answer *a, uint64_t ms); /* asks once more, later */
/* An on_answer: asks a host with running processes twice, for their CPU use. */
void answers_twice(struct node_answer *a);

/* Process i of a list; zeros and empty texts if there is none. */
struct node_process answers_process(const json_t *processes, size_t i);
int answers_runs(const struct node_process *p);
/* The CPU time of process i between the two answers, in percent of one CPU; -1: not known. */
double answers_cpu_percent(const struct node_answer *a, size_t i);

/* The head's answer, else that of the node with the lowest id. NULL: no answers. */
const struct node_answer *answers_head(const struct answers *s);
/* Why the head says that the job continues without this host, and its id there; NULL: the host is
 * not lost. */
const char *answers_lost_why(const struct answers *s, size_t host, int64_t *id);
/* The progress event of the lowest rank, without lost hosts; NULL: none. */
json_t *answers_progress(const struct answers *s);
/* The first failure of the job: the head's report if there is one, else any node's. *later: how
 * many followed. NULL: none. */
json_t *answers_failure(const struct answers *s, int64_t *later);
