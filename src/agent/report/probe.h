/* probe.h - which of a node's addresses lead to its agent?
 *
 * All addresses are tried at once, each with the whole handshake. The handshake proves the key and
 * tells the node's id, so that another machine behind an address (127.0.1.1, docker0's 172.17.0.1),
 * or another job's agent, is no answer.
 */
#ifndef PD_AGENT_PROBE_H
#define PD_AGENT_PROBE_H

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "wire/handshake.h"

enum { PROBE_ADDRS_MAX = 64, PROBE_MS = 3000 };

struct probe_result {
    const char *addr;
    int ok;
    double ms;     /* until it answered */
    char why[200]; /* why not */
};

struct probe_target {
    const json_t *addrs; /* strings; of more than `max` only the first are tried, and none behind
                            what is no string */
    size_t max;          /* at most PROBE_ADDRS_MAX */
    int port;
    uint32_t node;
};

/* `hs` says who asks and holds the key (copied). `done` is called once, also from inside this call,
 * with what came of each address in the order given; they are valid until it returns. */
int probe_node(struct agent_core *core, const struct wire_hs_opts *hs,
               const struct probe_target *target,
               void (*done)(void *arg, const struct probe_result *v, size_t n), void *arg,
               struct pd_err *err);

/* The first that leads there; NULL: none. */
const struct probe_result *probe_best(const struct probe_result *v, size_t n);

#endif
