/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - the outputs of many hosts while they come: "node3: text", whole lines, on stdout and
 * stderr.
 *
 * If the output is slower than the hosts or stops (a pager), bytes wait in spools, on disk if they
 * are many. A line of more than STREAM_LINE_MAX bytes is shown in pieces. */
#pragma once

#include <uv.h>

#include "launcher/view/spool.h"

enum { STREAM_LINE_MAX = 256 << 10 };

struct stream_view;

/* `names`: of the hosts. `broken` is called once, when the reader of the output is gone. Both stay
 * in use as long as the view. */
int stream_view_new(struct stream_view **out, uv_loop_t *loop, const char *const *names, size_t n,
                    size_t memory, void (*broken)(void *arg), void *arg, struct pd_err *err);
int stream_view_put(struct stream_view *v, size_t host, int is_stderr, const void *p, size_t n,
                    struct pd_err *err);
/* the host's output has ended; its last line may lack the newline */
void stream_view_end(struct stream_view *v, size_t host);
/* After all is shown the view has no handle in the loop any more. */
void stream_view_end_all(struct stream_view *v);
void stream_view_free(struct stream_view *v); /* call after the loop has ended */
