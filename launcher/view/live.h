/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - a job's progress, from its trainers' events. On a terminal it is a block below the log:
 *
 *     pass 1/2 [=====>------]  41 %  ETA 3 min  cost 4.12  perplexity 61.6  12300 words/s
 *     gpu-01 4100/s  gpu-02 4120/s  gpu-03 4080/s, slow  gpu-04 silent for 12 s
 *
 * In a pipe it is a line every few seconds. In a synchronous job all trainers have the same speed:
 * the slow trainer is the one that hardly waits while the others do.
 */
#pragma once

#include <uv.h>

#include "launcher/view/view.h"

struct live;
/* `names`: of the nodes; they stay in use. */
int live_new(struct live **out, uv_loop_t *loop, struct view *v, const char *const *names,
             unsigned n_nodes, struct pd_err *err);
/* handle a worker's line of the stream "events" */
void live_event(struct live *l, unsigned node, const char *json, size_t n);
void live_state(struct live *l, const char *state); /* the head's AG_STATE */
/* A line below the block, also before it has figures: a question, or help. "": none. */
void live_note(struct live *l, const char *note);
/* Paddlectl was stopped, or the terminal has changed: draw the block again. */
void live_redraw(struct live *l);
void live_remove_trainer(struct live *l, unsigned node); /* the node has no trainer any more */
/* close the loop's handles; the last state stays on the terminal as a line */
void live_close(struct live *l);
void live_free(struct live *l); /* call after the loop has ended */
