/* view.h - what the user sees of a job: the nodes' log lines, and one line of progress.
 *
 *     gpu-02/trainer | Pass 0, Batch 100, Cost 6.1 ...
 *     pass 1/2, batch 100, cost 6.1, 12300 samples/s         the live line: on a terminal below the scroll
 *
 * Only whole lines are shown, so neither UTF-8 nor lines of two nodes are ever torn; "\r\n" ends a line like "\n", and of
 * text overwritten by a lone "\r" the last version counts. Output goes through a thread of its own: a terminal that is
 * stopped, or a pager that waits, must not keep the loop from renewing the job's lease.
 */
#ifndef LAUNCHER_VIEW_H
#define LAUNCHER_VIEW_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { VIEW_LINE_MAX = 8 << 20, VIEW_QUEUE_MAX = 64 << 20 };

struct view;

int view_new(struct view **out, int fd, struct pd_err *err);
/* Show what is left (waiting at most `wait_ms` for a stopped output), take the live line away, end the thread. */
void view_free(struct view *v, uint64_t wait_ms);

void view_line(struct view *v, const char *prefix, const char *text, size_t n);
void view_say(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* a line of ours */
/* An event line of a worker, at time `now_ms`: progress is shown at once on a terminal, else every few seconds. */
void view_event(struct view *v, const char *json, size_t n, uint64_t now_ms);

/* One stream of one node: bytes with their offsets into whole lines. */
struct view_stream {
    struct pd_buf part;   /* the line that is not complete yet */
    uint64_t next;        /* offset of the byte to come */
    int skip_lf;          /* a "\r" stood last */
};

typedef void (*view_on_line)(void *arg, const char *text, size_t n);
/* Bytes at `offset`; what was there before is passed over, a gap is a PD_EDATA and is shown as one. */
int view_stream_feed(struct view_stream *s, uint64_t offset, const uint8_t *p, size_t n, view_on_line line, void *arg);
void view_stream_end(struct view_stream *s, view_on_line line, void *arg); /* a last line without a newline */
void view_stream_release(struct view_stream *s);

#endif
