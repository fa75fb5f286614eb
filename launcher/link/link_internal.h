/* SPDX-License-Identifier: Apache-2.0 */
/* link_internal.h - shared by link.c (frames and requests), link_open.c (the stream below them) and
 * link_keep.c (heartbeat, rejoining after a loss).
 *
 *     CONNECT -> BOOT [-> UPLOAD] -> HELLO -> OPEN -> CLOSED
 *        ^                                     |
 *        └─────────────── LOST <───────────────┘      only for a link that is kept
 */
#pragma once

#include "launcher/link/link.h"

enum link_phase {
    PHASE_CONNECT,
    PHASE_BOOT,
    PHASE_UPLOAD,
    PHASE_BOOT_FAILED,
    PHASE_HELLO,
    PHASE_OPEN,
    PHASE_LOST,
    PHASE_CLOSED,
};

enum { LINK_FRAME_MAX = 8 << 20, LINK_REASONS = 4 };

struct open_request;

struct link {
    const struct link_env *env;
    const struct link_events *ev;
    void *arg;
    const struct host *host;
    int node;
    char job[64];        /* the job to start or to join; "" */
    struct transport *t; /* NULL between two attempts and at the end */
    struct boot boot;
    /* of a node on this machine: it waits to start, or has begun to start an agent */
    int queued, starts, start;
    struct link *next;
    int over_socket; /* of a node on this machine: the transport is the socket of its agent */
    int silent;      /* nothing has come over this transport */
    struct wire_decoder *dec;
    enum link_phase phase;
    const uint8_t *upload; /* the agent, after the node has asked for it */
    size_t uploaded, upload_size;
    /* until the agent is on the node; NULL: this machine sends the agent */
    struct seedling *seedling;
    /* the script failed, and said `why`; stderr may say more */
    int boot_failed;
    struct agent_facts facts;
    uint64_t exec_ms; /* start of the command */
    struct open_request *requests;
    uint64_t next_id;
    void (*drain)(struct link *, void *);
    void *drain_arg;
    /* the phase's deadline, then that of the requests; in LOST the time of the next attempt */
    uv_timer_t timer;
    /* of a link that is kept: pings, silence, limits of attempts */
    uv_timer_t beat;
    int n_handles; /* not closed yet */
    int own_close; /* link_close or link_close_soon was called */
    /* why the link broke, if the transport has no error */
    struct pd_err why;

    struct {
        uint64_t lease_ms;  /* 0: this link is not kept */
        uint64_t heard_ms;  /* last time bytes came */
        uint64_t beat_ms;   /* last time of the heartbeat timer */
        uint64_t opened_ms; /* duration of the first connect, up to an open stream */
        int answers_pings;  /* only then does silence mean a loss */
        int lost;           /* since heard_ms */
        int gave_up;
        int cut;    /* silence: the link closed the transport itself (`why`) */
        int claims; /* link_claim */
        unsigned tries, n_beats;
        uint64_t try_ms;                 /* start of the last attempt */
        int64_t lost_at;                 /* seconds since 1970, for messages */
        char reasons[LINK_REASONS][200]; /* [0]: the loss; then why attempts failed */
    } keep;
};

/* link.c */
const char *link_doing(const struct link *l, enum link_phase p); /* for messages: "connecting" */
uint64_t link_timeout_ms(const struct link *l); /* for the agent's first word; not UPLOAD */
void link_enter(struct link *l, enum link_phase p, uint64_t timeout_ms);
/* end the link, with an error of the launcher's own */
void link_break(struct link *l, int code, const char *msg);
void link_fail_requests(struct link *l, const struct pd_err *why);
void link_take_frames(struct link *l, const uint8_t *p, size_t n);
void link_finish(struct link *l,
                 const struct pd_err *why); /* calls on_close, then closes the handles */

/* link_open.c */
int link_connect(struct link *l, int start, struct pd_err *err);
/* The agent on this machine has spoken, or will not: the next one starts. */
void link_started(struct link *l);
/* leave the seeding: this host takes and gives no chunks any more */
void link_leave_seeding(struct link *l);

/* link_keep.c */
/* The transport is gone. 1: another attempt follows, or on_close comes later. 0: the link is over,
 * *why is the reason. */
int link_lost(struct link *l, struct pd_err *why, enum link_phase was);
void link_retry(struct link *l);
void link_is_back(struct link *l);
