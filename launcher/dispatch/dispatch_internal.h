/* dispatch_int.h - what dispatch.c (nodes, sources, the whole) and dispatch_package.c (hashing,
 * parts) share. */
#ifndef LAUNCHER_DISPATCH_INTERNAL_H
#define LAUNCHER_DISPATCH_INTERNAL_H

#include "launcher/dispatch/dispatch.h"
#include "launcher/dispatch/feed.h"
#include "launcher/link/relay_plan.h"

enum { DISPATCH_NAME_MAX = 100 };

enum member_state { OFF, ASKED, LACKS, DONE };

/* A package on a node. */
struct member {
    struct dispatch *d;
    int node, package;
    enum member_state state;
    int had;
    uint64_t req, have, of, rate, told_ms;
    uint64_t heard_ms, asked; /* its last DS_STATUS: when it came, bytes that it waited for */
    struct feed_taker *taker; /* while it takes from here */
};

struct dnode {
    struct link *l;
    unsigned wants, done; /* packages */
    int serves, port, failed;
    json_t *addrs;
    struct member m[DISPATCH_PACKAGES];
};

struct dpackage {
    struct dispatch *d;
    char kind[16], name[DISPATCH_NAME_MAX];
    struct scan *scan;
    struct feed *feed;
    struct relay_plan *plan;
    int scanned, broken;
    struct pd_err err; /* of the thread */
    uv_work_t work;
    /* dispatch_add_parts */
    int is_parts, parts_ready; /* ready: roots and plan are there */
    dispatch_make make;        /* to be made; NULL: nothing is */
    void *make_arg;
    struct scan_root **roots; /* of each node; NULL: it gets nothing */
    uint64_t sent_before;     /* by feeds that are gone */
};

struct dispatch {
    struct dispatch_conf c;
    struct dnode *nodes;
    struct dpackage packages[DISPATCH_PACKAGES];
    int n_packages, n_scanning, n_feeds_going;
    int started, over;
    uint8_t secret[32];
    char token[9]; /* a name: what proves that somebody belongs to us is the secret */
    uv_timer_t tick;
    int tick_open;
    uint64_t rate, rate_have, rate_ms;
    uint64_t peak;                /* of the agents that said so */
    uint64_t ticked_ms, awake_ms; /* the last tick; silence counts from then, at the earliest */
    int sending_plans;
};

/* dispatch.c */
void dispatch_changed(struct dispatch *d);
void dispatch_fail_node(struct dispatch *d, int node, const struct pd_err *err);
void dispatch_begin(struct dispatch *d, int node,
                    int package); /* asks the node, if it is there, wants it, and it can be sent */
void dispatch_drop(struct member *m);

#endif
