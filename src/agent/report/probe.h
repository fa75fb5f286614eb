/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - finds out which addresses of a node lead to its agent.
 *
 * All addresses are tried at the same time, each with a complete handshake. The handshake proves
 * the key and the node's id. Therefore the agent of another job does not count, nor does another
 * machine behind an address such as 127.0.1.1 or docker0's 172.17.0.1.
 *
 * If no address leads to the agent, all are tried again for PROBE_MS: a connection may be reset. */
#pragma once

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "wire/handshake.h"

enum { PROBE_ADDRS_MAX = 64, PROBE_MS = 3000 };

struct probe_result {
    const char *addr;
    int ok;
    double ms;     /* time until the agent answered */
    char why[200]; /* the failure, if not ok */
};

struct probe_target {
    const json_t *addrs; /* strings. The first `max` are tried; an element that is not a string ends
                            the list */
    size_t max;          /* at most PROBE_ADDRS_MAX */
    int port;
    uint32_t node;
};

/* `hs` (copied) has this end's identity and the key. `done` is called once, possibly from inside
 * this call, with the result of each address in the given order. The results are valid until `done`
 * returns. 0, or PD_ENOMEM, after which `done` is not called. */
int probe_node(struct agent_core *core, const struct wire_hs_opts *hs,
               const struct probe_target *target,
               void (*done)(void *arg, const struct probe_result *v, size_t n), void *arg,
               struct pd_err *err);

/* The first address that leads to the agent; NULL: none. */
const struct probe_result *probe_best(const struct probe_result *v, size_t n);
