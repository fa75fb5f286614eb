/* SPDX-License-Identifier: Apache-2.0 */
/* bar_keys.h - the keys of a command whose progress is a bar (dispatch, fetch): q asks and then
 * stops, ? helps, Ctrl-L draws again, Ctrl-Z suspends. Without a terminal there are no keys. */
#pragma once

#include "launcher/dispatch/bar.h"
#include "launcher/link/ask_all.h"
#include "launcher/view/keys.h"

struct bar_keys {
    struct bar *bar;
    struct ask_all *g;
    const char *what; /* "dispatch" */
    struct suspend suspend;
    uv_timer_t tick;
    int asks, told, is_open;
};

/* The view and the bar must exist. PD_E*. `what` names the command. The keys are read while no
 * log-in is under way, since log-ins ask for passwords on the same terminal. */
int bar_keys_open(struct bar_keys *k, struct bar *bar, struct ask_all *g, const char *what,
                  struct pd_err *err);
void bar_keys_close(struct bar_keys *k);   /* may be called again; the loop must run once more */
void bar_keys_release(struct bar_keys *k); /* after the loop has ended */
