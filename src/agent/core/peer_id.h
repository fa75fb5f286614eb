/* SPDX-License-Identifier: Apache-2.0 */
/* peer_id.h - the identity of this agent towards the other agents of its job, and its proof. */
#pragma once

#include "wire/handshake.h"

struct peer_id {
    char job[64]; /* as in struct wire_hello */
    int node;
    uint64_t incarnation; /* a new value for each start of the agent */
    uint8_t key[32];      /* the job's key */
    int plain;            /* the job has encrypt = off */
};

/* Fills in the options of a handshake in this role. */
static inline void peer_id_put(const struct peer_id *p, uint16_t role, struct wire_hs_opts *hs) {
    *hs = (struct wire_hs_opts){
        .self = {.role = role, .id = (uint32_t)p->node, .incarnation = p->incarnation}};
    memcpy(hs->self.job, p->job, sizeof hs->self.job);
    memcpy(hs->key, p->key, sizeof hs->key);
    hs->plain = p->plain;
}
