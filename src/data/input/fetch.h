/* fetch.h - data files that are not on this node: asked for over PADDLE_DATA_FD from the agent,
 * which gets them from whoever has them (data_layout = dispatched; src/agent/data.h). Any thread
 * may call; the calls that wait do so until the agent has an answer, which it always has in the
 * end: it tries others, and then says who was asked and why it failed.
 */
#ifndef PD_DATA_FETCH_H
#define PD_DATA_FETCH_H

#include "data/input/input.h"

struct data_fetch;

/* Over this stream socket, which stays the caller's. */
int data_fetch_new(struct data_fetch **out, int fd, struct pd_err *err);
void data_fetch_free(struct data_fetch *f); /* NULL is fine */

/* BLOCKS until `path`, relative to the workspace, is there: 0; PD_E* with who was asked for it. */
int data_fetch_wait(struct data_fetch *f, const char *path, struct pd_err *err);
/* It will be opened soon, if nobody else is quicker: when it is not there, it is brought. Never
 * waits, fails silently. NULL is fine. */
void data_fetch_prefetch(struct data_fetch *f, const char *path);

/* The same where it is not there already, and where f is not NULL: then whoever opens it says what
 * is wrong. Names from outside the workspace are left alone. */
int data_fetch_ensure(struct data_fetch *f, const char *path, struct pd_err *err);
/* data_fetch_ensure, then data_input_open. */
int data_fetch_open(struct data_fetch *f, struct data_input **out, const char *path,
                    const char *shown, struct pd_err *err);

#endif
