/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - merges the lines of many sources (one stream of one node each) into one sequence, by
 * the time at which each line reached its agent.
 *
 *     frames of bytes ──▶ source 0: pieces ┐
 *                     ──▶ source 1: pieces ├─▶ the earliest line ──▶ on_line
 *                     ──▶ ...              ┘
 *
 * The time of a line is the time of its end. Bytes that existed at the subscription are history:
 * they are merged exactly, however long a source takes (except a source that is silent for
 * stall_ms). Later bytes are live: a line waits at most `hold_ms` for earlier lines of other
 * sources. Lines with equal times come in the order of sources; the lines of a source keep their
 * order.
 *
 * No line is lost, doubled or torn. Repeated bytes are skipped. Missing bytes are reported in a
 * line of their own. A line longer than MERGE_LINE_MAX comes in pieces. "\r\n" ends a line like
 * "\n". Of text that a lone "\r" overwrites, only the last version counts.
 *
 * Memory holds what was fed and not emitted yet. merge_ack_offset tells what may be acknowledged,
 * so the sender's window bounds the memory. An incomplete line counts as done: a window need not
 * hold a whole line.
 */
#pragma once

enum { MERGE_LINE_MAX = 8 << 20 };

struct merge_line {
    unsigned source;
    uint64_t time_us, offset; /* offset: of the line's first byte */
    /* valid until on_line returns; without the line's end, and not NUL-terminated */
    const char *text;
    size_t n;
};

struct merge_events {
    int (*on_line)(void *arg, const struct merge_line *line); /* 1: take no more lines now */
    /* the other sources stop waiting for this one; may be NULL */
    void (*on_stall)(void *arg, unsigned source);
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

/* Begin a source. Its bytes begin at `start`; those before `history_end` are history. The others
 * came after node_now_us. All lines wait for a source that has not begun. After merge_disconnect a
 * source begins again at `start` = merge_next_offset, without history. */
void merge_begin(struct merge *m, unsigned source, uint64_t start, uint64_t history_end,
                 uint64_t node_now_us, uint64_t now_ms);

/* Feed n bytes at `offset`, whose last ones came at `time_us`. `times`: n_times pairs {u64 offset,
 * u64 time} as in AG_LOG's section 2, little-endian; each gives the time of the bytes from its
 * offset on. 0; PD_EPROTO: invalid times; PD_ENOMEM: nothing was taken. */
int merge_feed(struct merge *m, unsigned source, uint64_t offset, uint64_t time_us,
               const void *bytes, size_t n, const uint8_t *times, size_t n_times, uint64_t now_ms);
/* no more bytes will come: the last line may lack its end */
void merge_end(struct merge *m, unsigned source);
/* the source's connection is lost: no line waits for it */
void merge_disconnect(struct merge *m, unsigned source);

/* Emit the lines that may go. Returns after how many ms to call again. UINT64_MAX: call again when
 * bytes were fed or when on_line has room. */
uint64_t merge_run(struct merge *m, uint64_t now_ms);

uint64_t merge_next_offset(const struct merge *m, unsigned source); /* offset of the next byte */
/* offset up to which bytes may be acknowledged */
uint64_t merge_ack_offset(const struct merge *m, unsigned source);
/* 1: all bytes fed are emitted, except an incomplete line */
int merge_is_empty(const struct merge *m, unsigned source);
/* 1: a source has history that is not emitted yet */
int merge_in_history(const struct merge *m);
size_t merge_peak_bytes(const struct merge *m);
