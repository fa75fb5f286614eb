/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_jump.h - a jump host: its session (ssh_jump.c) and its forwards (ssh_forward.c). */
#pragma once

#include "launcher/ssh/ssh_internal.h"

struct ssh_jump {
    struct ssh_pool *pool;
    char *spec;
    struct session *s; /* NULL after its end */
    int up, down;
    struct pd_err why; /* down */
    struct wait_list waiters;
    struct ssh_forward *forwards;
    struct ssh_jump *next;
};

const char *jump_name(const struct ssh_jump *j); /* the last link of the chain */
void jump_forwards_drop(struct ssh_jump *j);     /* wakes the sessions that wait */
