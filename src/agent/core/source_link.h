/* SPDX-License-Identifier: Apache-2.0 */
/* source_link.h - the connection to another node's agent from which this one takes objects. The
 * addresses of the node are tried in turn, until one proves the key. Payloads are sealed (seal.h).
 */
#pragma once

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "wire/handshake.h"

struct source_link_events {
    void (*on_open)(void *arg);
    /* A frame. The payload is malloc'ed and the callee's; NULL for HD_PING. PD_E* with err: the
     * link fails. */
    int (*on_payload)(void *arg, uint16_t type, uint8_t *p, size_t n, struct pd_err *err);
    /* The last event: the link is gone. */
    void (*on_failed)(void *arg, const struct pd_err *why);
};

struct source_link;
/* The link keeps a reference to `addrs`. No event comes before the return. */
int source_link_new(struct source_link **out, struct agent_core *core, json_t *addrs, int port,
                    const struct wire_hs_opts *hs, const struct source_link_events *ev, void *arg,
                    struct pd_err *err);
/* Once open. */
void source_link_send(struct source_link *l, uint16_t type, const void *p, size_t n);
void source_link_close(struct source_link *l); /* no event follows; NULL is allowed */
