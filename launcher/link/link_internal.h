/* link_int.h - what link.c (frames and requests), link_open.c (the stream below them) and
 * link_keep.c (pings, and the way back after a loss) share.
 *
 *     CONNECT -> BOOT [-> UPLOAD] -> HELLO -> OPEN -> CLOSED
 *        ^                                     |
 *        └─────────────── LOST <───────────────┘      only for a link that is kept
 */
#ifndef LAUNCHER_LINK_INTERNAL_H
#define LAUNCHER_LINK_INTERNAL_H

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

struct request;

struct link {
    const struct link_env *env;
    const struct link_events *ev;
    void *arg;
    const struct host *host;
    int node;
    char job[64];        /* the job to start or to join; "" without one */
    struct transport *t; /* NULL while there is none: between two attempts, or at the end */
    struct boot boot;
    struct wire_decoder *dec;
    enum link_phase phase;
    const uint8_t *upload; /* the agent, once it is asked for */
    size_t uploaded, upload_size;
    struct seedling *seedling; /* until the agent is there; NULL: it would come from here */
    int boot_failed;           /* `why` is what the script said; stderr may say more */
    struct agent_facts facts;
    uint64_t exec_ms; /* when the command was started */
    struct request *requests;
    uint64_t next_id;
    void (*drain)(struct link *, void *);
    void *drain_arg;
    uv_timer_t
        timer; /* the phase's deadline, then the requests'; the next attempt's time while LOST */
    uv_timer_t beat;   /* of a link that is kept: pings, silence, the limits of attempts */
    int n_handles;     /* that are not closed yet */
    int own_close;     /* link_close or link_close_soon was called */
    struct pd_err why; /* what broke it, if not the transport */

    struct {
        uint64_t lease_ms;  /* 0: this link is not kept */
        uint64_t heard_ms;  /* when bytes came last */
        uint64_t beat_ms;   /* when the beat came last */
        uint64_t opened_ms; /* how long the first way to an open stream took */
        int answers_pings;  /* so its silence means something */
        int lost;           /* since heard_ms */
        int gave_up;
        int cut; /* we closed the transport, because of its silence (`why`) */
        unsigned tries, n_beats;
        uint64_t try_ms; /* when the last attempt began */
        int64_t lost_at; /* seconds since 1970, for people */
        struct {
            char text[200];
            unsigned n;
        } reasons[LINK_REASONS]; /* [0]: the loss; why attempts failed */
    } keep;
};

extern const char *const link_phase_text[]; /* by phase */

/* link.c */
void link_enter(struct link *l, enum link_phase p, uint64_t timeout_ms);
void link_break(struct link *l, int code,
                const char *msg); /* the link ends for a reason of our own */
void link_fail_requests(struct link *l, const struct pd_err *why);
void link_take_frames(struct link *l, const uint8_t *p, size_t n);
void link_finish(struct link *l, const struct pd_err *why); /* on_close, then the handles */

/* link_open.c */
int link_connect(struct link *l, int start, struct pd_err *err);
void link_leave_seeding(struct link *l); /* it takes no part any more in how the agent travels */

/* link_keep.c */
/* The transport is gone. 1: it is tried again, or on_close comes later; 0: it is over, *why says
 * why. */
int link_lost(struct link *l, struct pd_err *why, enum link_phase was);
void link_retry(struct link *l);
void link_is_back(struct link *l);

#endif
