/* live.h - how far a job is: on a terminal a block below its log, in a pipe a line every few seconds. */
#ifndef LAUNCHER_LIVE_H
#define LAUNCHER_LIVE_H

#include <uv.h>

#include "launcher/view/view.h"

struct live;
int live_new(struct live **out, uv_loop_t *loop, struct view *v, struct pd_err *err);
void live_event(struct live *l, unsigned node, const char *json, size_t n); /* an event line of a worker */
void live_close(struct live *l); /* the loop's handles; the last state stays standing */
void live_free(struct live *l);  /* after the loop has ended */

#endif
