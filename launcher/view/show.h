/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - which log lines are shown, and in what form.
 *
 *     gpu-02/trainer | text                                     "host/role | ", coloured by node
 *     2026-11-21T10:00:00.123456+01:00 gpu-02/trainer | text    timestamps
 *     gpu-[01-04]/trainer | text                                fold: equal lines within 0.5 s
 *     gpu-[01-04] | --- stopping: trainer 2 on gpu-02 failed ---    always folded, over all roles
 *     {"time":"...Z","node":2,"host":"gpu-02","role":"trainer","stream":"train.log",...}     json
 *
 * Lines are written unchanged, with these exceptions. A terminal gets no control characters other
 * than tabs and colours; its errors are red, its warnings yellow. On a terminal and with `fold` the
 * lines of our workers lack date, thread, source file and line, unless `verbose`. In JSON, bytes
 * that are no UTF-8 become U+FFFD.
 */
#pragma once

#include "launcher/view/merge.h"
#include "launcher/view/view.h"

enum { SHOW_TAIL_MAX = 1000000, SHOW_START_MS = 5000 };

struct show_source {
    unsigned node;
    const char *host, *role, *stream; /* in use as long as the show */
};

struct show_opts {
    const struct show_source *sources; /* copied; in the merge's order */
    unsigned n_sources;
    int json, timestamps, fold, verbose;
    const char *grep;            /* POSIX extended; NULL: all lines */
    uint64_t since_us, until_us; /* 0: no bound */
    unsigned tail;               /* of the history only the last `tail` lines; 0: all */
};

struct show;
/* PD_EUSAGE: options that show_new would refuse */
int show_check(const struct show_opts *o, struct pd_err *err);
/* PD_EUSAGE: invalid grep */
int show_new(struct show **out, struct view *v, const struct show_opts *o, struct pd_err *err);
void show_free(struct show *s);

/* For merge's on_line. 1: the output has enough to write; call show_flush, and go on when there is
 * room. */
int show_line(struct show *s, const struct merge_line *l, uint64_t now_ms);
/* The history has been shown: emit its last `tail` lines. Later calls do nothing. */
void show_history_over(struct show *s, uint64_t now_ms);
/* With `fold`, 1: equal lines are one line if they come within SHOW_START_MS. So the first lines of
 * thousands of processes are few, although their starts take seconds. 0: within half a second;
 * the lines that wait are emitted. */
void show_starting(struct show *s, int starting, uint64_t now_ms);
/* Pass ready lines to the view; `last`: all lines. Returns after how many ms to call again.
 * UINT64_MAX: no need. */
uint64_t show_flush(struct show *s, int last, uint64_t now_ms);
