/* merge.h - the lines of many sources (a stream of a node each) as one sequence, ordered by when
 * they came to their agents.
 *
 *     frames of bytes ──▶ source 0: pieces ┐
 *                 ──▶ source 1: pieces ├─▶ the earliest line ──▶ on_line
 *                 ──▶ ...              ┘
 *
 * A line's time is when its end came. What existed when a source was subscribed is history: it is
 * merged exactly, however long a source takes (but for one that has said nothing for STALL). What
 * came later is live: a line waits at most `hold_ms` for earlier ones of other sources. Lines of
 * one time are in the order of the sources; those of one source always keep theirs.
 *
 * No line is lost, doubled or torn: repeated bytes are passed over, missing ones are told in a line
 * of their own, a line longer than MERGE_LINE_MAX comes in pieces. "\r\n" ends a line like "\n"; of
 * text overwritten by a lone "\r" the last version counts.
 *
 * Memory is what has been fed and not emitted yet; merge_ack_offset tells what may be acknowledged,
 * so the sender's window bounds it. A line that is not complete counts as dealt with, so that a
 * window need not hold a whole line. */
#ifndef LAUNCHER_MERGE_H
#define LAUNCHER_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MERGE_LINE_MAX = 8 << 20 };

struct merge_line {
    unsigned source;
    uint64_t time_us, offset; /* offset of the line's first byte */
    const char *text; /* until on_line returns; without the line's end, and not NUL-terminated */
    size_t n;
};

struct merge_events {
    int (*on_line)(void *arg, const struct merge_line *line); /* 1: no more for now */
    void (*on_stall)(void *arg,
                     unsigned source); /* the others don't wait for it any longer; may be NULL */
};

struct merge_opts {
    unsigned n_sources;
    uint64_t hold_ms, stall_ms;
    struct merge_events ev;
    void *arg;
};

struct merge;
int merge_new(struct merge **out, const struct merge_opts *o, struct pd_err *err);
void merge_free(struct merge *m);

/* The source's bytes come from `start` on, those before `history_end` are history; the others came
 * after node_now_us. Everything waits for a source that has not begun. One that is back after
 * merge_disconnect has no history: `start` is merge_next_offset. */
void merge_begin(struct merge *m, unsigned source, uint64_t start, uint64_t history_end,
                 uint64_t node_now_us, uint64_t now_ms);

/* Bytes at `offset` that came at `time_us`; `times` are n_times times {u64 offset, u64 time} as
 * AG_LOG's section 2 has them, little-endian: what begins there came then. 0, PD_EPROTO for times
 * that make no sense, PD_ENOMEM: nothing was taken. */
int merge_feed(struct merge *m, unsigned source, uint64_t offset, uint64_t time_us,
               const void *bytes, size_t n, const uint8_t *times, size_t n_times, uint64_t now_ms);
void merge_end(struct merge *m,
               unsigned source); /* nothing more comes: the last line may lack its end */
void merge_disconnect(struct merge *m,
                      unsigned source); /* its connection is lost: nobody waits for it */

/* Emit what may be. Returns after how many ms to call again, UINT64_MAX: when something is fed or
 * on_line has room again. */
uint64_t merge_run(struct merge *m, uint64_t now_ms);

uint64_t merge_next_offset(const struct merge *m, unsigned source); /* offset of the byte to come */
uint64_t merge_ack_offset(const struct merge *m,
                          unsigned source); /* up to here all is dealt with */
int merge_is_empty(const struct merge *m,
                   unsigned source); /* all that was fed is emitted, but for a line without end */
int merge_in_history(const struct merge *m); /* 1: some source has history to come or to emit */
size_t merge_peak_bytes(const struct merge *m);

#endif
