/* SPDX-License-Identifier: Apache-2.0 */
/* trainers.h - what the events of a job's trainers say together: the progress, each trainer's rate
 * over the last ten seconds, which trainer the others wait for, and whether the job stands still.
 *
 *     progress events ─▶ rate and share of waiting ─▶ slow trainers
 *     doing events    ─▶ who waits for servers, and for which ─▶ the process that a stalled job
 *                                                                waits for
 *
 * It reads no clock: the caller gives the time in milliseconds, which never goes back. */
#pragma once

#include "launcher/view/progress.h"

enum { TRAINERS_WINDOW_S = 10, TRAINERS_NAMED = 3 };

enum trainer_mark {
    TRAINER_WELL,
    TRAINER_SLOW,    /* the others wait for it, or it is much slower than most */
    TRAINER_SILENT,  /* no event for ten seconds while others have events */
    TRAINER_STALLED, /* the job stands still and waits for this trainer */
};

/* A trainer as it is shown. */
struct trainer_view {
    int known; /* 0: this node has no trainer, or none that has sent progress */
    struct progress last;
    enum trainer_mark mark;
    double rate; /* units per second over the window; -1: unknown */
    /* a slow trainer: the share of time that the others wait for it, and its rate as a share of
     * the others'. -1: not slow in this sense */
    double others_wait, relative_rate;
    uint64_t silent_ms; /* since its last event */
};

/* The job as it is shown. */
struct trainers_summary {
    struct progress p; /* of the lowest rank, with the smallest fraction; its rate is the job's */
    uint64_t first_ms; /* time of the first progress event */
    double first_done, done; /* fractions of the whole job, at that time and now; -1: unknown */
    const char *doing;       /* "testing", "saving" ...; NULL: it trains */
    /* A stalled job: since when no trainer has completed a step; 0: not stalled. */
    uint64_t stalled_ms;
    unsigned waits_for[TRAINERS_NAMED]; /* nodes of the trainers that it waits for */
    unsigned n_waits_for;               /* their number, possibly larger than TRAINERS_NAMED */
    const char *servers;                /* the servers that it waits for; "": unknown or none */
    unsigned n_known, n_marked;         /* trainers; those that are not TRAINER_WELL */
};

struct trainers;
int trainers_new(struct trainers **out, unsigned n_nodes, struct pd_err *err);
void trainers_free(struct trainers *t); /* NULL is allowed */
/* Takes a line of the stream "events". Returns 1 if the line changes what is shown. */
int trainers_event(struct trainers *t, unsigned node, const char *json, size_t n, uint64_t now_ms);
void trainers_remove(struct trainers *t, unsigned node); /* the node has no trainer any more */
/* Computes everything for this time. 1: *out is set. 0: no trainer has sent progress yet. Strings
 * in *out are valid until the next call. */
int trainers_look(struct trainers *t, uint64_t now_ms, struct trainers_summary *out);
/* A trainer as of the last trainers_look. */
const struct trainer_view *trainers_at(const struct trainers *t, unsigned node);
