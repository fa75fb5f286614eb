/* show.h - how log lines look: which are shown, and in what form.
 *
 *     gpu-02/trainer | text                                     "host/role | ", coloured by the
 * host on a terminal 2026-11-21T10:00:00.123456+01:00 gpu-02/trainer | text    timestamps
 *     gpu-[01-04]/trainer | text                                fold: what several said within half
 * a second
 *     {"time":"...Z","node":2,"host":"gpu-02","role":"trainer","stream":"train.log","offset":17,"text":"text"}
 * json
 *
 * Bytes go out as they are, but for a terminal, which gets no control characters other than tabs
 * and colours, and for JSON, where what is not UTF-8 becomes U+FFFD. */
#ifndef LAUNCHER_SHOW_H
#define LAUNCHER_SHOW_H

#include "launcher/view/merge.h"
#include "launcher/view/view.h"

enum { SHOW_TAIL_MAX = 1000000 };

struct show_source {
    unsigned node;
    const char *host, *role, *stream; /* in use as long as the show */
};

struct show_opts {
    const struct show_source *sources; /* copied; the merge's order */
    unsigned n_sources;
    int json, timestamps, fold;
    const char *grep;            /* POSIX extended; NULL: all */
    uint64_t since_us, until_us; /* 0: no bound */
    unsigned tail;               /* of what there was, only the last so many lines; 0: all */
};

struct show;
int show_check(const struct show_opts *o,
               struct pd_err *err); /* PD_EUSAGE: what show_new would refuse */
int show_new(struct show **out, struct view *v, const struct show_opts *o,
             struct pd_err *err); /* PD_EUSAGE: grep */
void show_free(struct show *s);

/* A merge's on_line. 1: the output has enough to write; flush, and go on when there is room. */
int show_line(struct show *s, const struct merge_line *l, uint64_t now_ms);
/* What there was has been shown: the last `tail` lines of it. Later calls do nothing. */
void show_history_over(struct show *s, uint64_t now_ms);
/* Hand over to the view what is ready; last: all. Returns in how many ms to call again, UINT64_MAX:
 * no need. */
uint64_t show_flush(struct show *s, int last, uint64_t now_ms);

#endif
