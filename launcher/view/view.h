/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - the output of a command that shows a job: lines that scroll, and on a terminal a live
 * block below them.
 *
 *     gpu-02/trainer | Pass 1/2, Batch 100, Cost 6.1 ...     view_put: whole lines, never torn
 *     pass 1/2 [####------] 41 % ...                       view_live: wiped before lines are
 *                                                          written, drawn again after them
 *
 * A thread of the view writes: a stopped terminal or a waiting pager must not keep the loop from
 * renewing the job's lease. Backpressure: a caller with much to show checks view_backlog first, and
 * goes on when view_on_room's callback comes.
 */
#pragma once

enum {
    VIEW_ROOM = 1 << 20,       /* bytes that may wait to be written */
    VIEW_QUEUE_MAX = 64 << 20, /* bytes beyond this are dropped, which is reported */
    VIEW_LIVE_MS = 100,        /* the shortest time between two draws of the live block */
};

enum view_colour { VIEW_COLOUR_AUTO, VIEW_COLOUR_ALWAYS, VIEW_COLOUR_NEVER };

struct view;

int view_new(struct view **out, int fd, enum view_colour colour, struct pd_err *err);
/* Remove the live block, show the queued lines (wait at most `wait_ms` for a stopped output), end
 * the thread. */
void view_free(struct view *v, uint64_t wait_ms);

int view_is_terminal(const struct view *v); /* also one on which no line can be overwritten */
int view_is_live(const struct view *v);     /* 1: a terminal, on which view_live shows its text */
int view_has_colour(const struct view *v);
int view_width(const struct view *v); /* current number of columns */
int view_height(const struct view *v);

void view_put(struct view *v, const void *lines, size_t n); /* whole lines, each with its newline */
/* a line of paddlectl's own; one that begins with "warning: " is yellow */
void view_printf(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* from now on view_printf writes to stderr, since the output is data */
void view_printf_to_stderr(struct view *v);
/* Set the live block, which is not drawn while paddlectl is in the background: lines without a
 * newline behind the last, none wider than view_width() - 1.
 * "": no block. */
void view_live(struct view *v, const char *text, size_t n);

/* Clear the screen and draw the block again (Ctrl-L). */
void view_clear(struct view *v);
/* Wipe the block and write nothing until view_resume: paddlectl is being stopped. Waits at most
 * wait_ms for the terminal. */
void view_pause(struct view *v, uint64_t wait_ms);
void view_resume(struct view *v);

/* bytes that are not written yet; 0 when the reader of a pipe is gone */
size_t view_backlog(struct view *v);
int view_is_broken(struct view *v);  /* 1: the reader is gone */
int view_why_broken(struct view *v); /* an errno; 0: not broken */
/* `room` is called from the writing thread whenever there is room again. One callback; NULL removes
 * it. */
void view_on_room(struct view *v, void (*room)(void *arg), void *arg);

/* "auto", "always", "never"; NULL is auto. 0 or PD_EUSAGE. */
int view_colour_parse(enum view_colour *out, const char *text, struct pd_err *err);
