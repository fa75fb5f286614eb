/* view.h - the output of a command that shows a job: lines that scroll, and on a terminal a live
 * block below them.
 *
 *     gpu-02/trainer | Pass 0, Batch 100, Cost 6.1 ...            view_put: whole lines, and
 * nothing is torn pass 1/2 [####------] 41 % ...                              view_live: wiped
 * before lines are written, drawn again after
 *
 * A thread of its own writes: a terminal that is stopped, or a pager that waits, must not keep the
 * loop from renewing the job's lease. Who has much to show asks view_backlog first, and goes on
 * when it is called from view_on_room. */
#ifndef LAUNCHER_VIEW_H
#define LAUNCHER_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    VIEW_ROOM = 1 << 20,       /* bytes that may wait to be written */
    VIEW_QUEUE_MAX = 64 << 20, /* more is dropped, and told */
    VIEW_LIVE_MS = 100,        /* the live block is drawn at most every so often */
};

enum view_colour { VIEW_COLOUR_AUTO, VIEW_COLOUR_ALWAYS, VIEW_COLOUR_NEVER };

struct view;

int view_new(struct view **out, int fd, enum view_colour colour, struct pd_err *err);
/* Take the live block away, show what is left (waiting at most `wait_ms` for a stopped output), end
 * the thread. */
void view_free(struct view *v, uint64_t wait_ms);

int view_is_live(const struct view *v); /* a terminal: view_live shows something */
int view_has_colour(const struct view *v);
int view_width(const struct view *v); /* columns, as of now */
int view_height(const struct view *v);

void view_put(struct view *v, const void *lines, size_t n); /* whole lines, each with its newline */
void view_printf(struct view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));  /* a line of ours */
void view_printf_to_stderr(struct view *v); /* from now on: the output is data */
/* The live block from now on: lines without a newline behind the last, none wider than view_width()
 * - 1. "": none. */
void view_live(struct view *v, const char *text, size_t n);

size_t view_backlog(
    struct view *v); /* bytes put and not written yet; 0 when the reader of a pipe is gone */
int view_is_broken(struct view *v);  /* it is: nobody reads */
int view_why_broken(struct view *v); /* an errno; 0: it is not broken */
/* Called from the writing thread whenever there is room again, until replaced; NULL: not any more.
 */
void view_on_room(struct view *v, void (*room)(void *arg), void *arg);

/* "auto", "always", "never"; NULL is auto. 0 or PD_EUSAGE. */
int view_colour_parse(enum view_colour *out, const char *text, struct pd_err *err);

#endif
