/* SPDX-License-Identifier: Apache-2.0 */
/* bar_fetch.h - the progress of fetched folders as a line (bar.h): bytes, nodes, rate, time left.
 * The bytes of a node are known when its list of files has come. */
#pragma once

#include <uv.h>

#include "launcher/dispatch/bar.h"
#include "launcher/dispatch/package.h"

struct bar_fetch {
    struct bar bar;
    const struct package_fetches *all;
    uv_timer_t timer;
    int is_open, n_folders;
    uint64_t rate, rate_have, rate_ms;
};

/* Shows the progress until bar_fetch_end. `view` and `object` as in bar_init. */
void bar_fetch_begin(struct bar_fetch *f, uv_loop_t *loop, struct view *view,
                     void (*object)(void *arg, json_t *o), void *arg,
                     const struct package_fetches *all, int n_folders);
/* Removes the line. If the fetch took a second or more, prints what came and how fast. May be
 * called again. The loop must run once more. */
void bar_fetch_end(struct bar_fetch *f);
