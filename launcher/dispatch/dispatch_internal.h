/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_internal.h - shared by dispatch.c (nodes, sources, the whole) and dispatch_package.c
 * (hashing, parts). */
#pragma once

#include "launcher/dispatch/dispatch.h"
#include "launcher/link/relay_plan.h"
#include "pack/scan/feed.h"

enum { DISPATCH_NAME_MAX = 100, FEED_CACHE = 48 << 20 };

enum member_state { OFF, ASKED, LACKS, DONE };

/* One package on one node. */
struct dispatch_member {
    struct dispatch *d;
    int node, package;
    enum member_state state;
    int had;
    uint64_t req, have, of, rate, told_ms;
    /* the last DS_STATUS: when it came; bytes that the node waited for */
    uint64_t heard_ms, asked;
    /* of the same: what the node had before, what of it is not in the tree yet, and what of it an
     * interrupted transfer left */
    uint64_t here, here_left, rest;
    struct feed_taker *taker; /* while the node takes from this machine */
};

struct dnode {
    struct link *l;
    unsigned wants, done; /* bits of packages */
    int serves, port, failed;
    json_t *addrs;
    struct dispatch_member m[DISPATCH_PACKAGES];
};

struct dpackage {
    struct dispatch *d;
    char kind[16], name[DISPATCH_NAME_MAX];
    struct scan *scan;
    struct feed *feed;
    struct relay_plan *plan;
    int scanned, broken;
    struct pd_err err; /* result of the thread */
    uv_work_t work;
    /* For dispatch_add_parts: */
    int is_parts, parts_ready; /* ready: roots and plan exist */
    dispatch_make make;        /* NULL: no parts are to be made */
    void *make_arg;
    struct scan_root **roots; /* of each node; NULL: no part */
    uint64_t sent_before;     /* by feeds that were freed */
};

struct dispatch {
    struct dispatch_conf c;
    struct dnode *nodes;
    struct dpackage packages[DISPATCH_PACKAGES];
    int n_packages, n_scanning, n_feeds_going;
    int started, over;
    uint8_t secret[32];
    /* a name only: the secret proves that a node belongs to this dispatch */
    char token[9];
    uv_timer_t tick;
    int tick_open;
    uint64_t rate, rate_have, rate_ms;
    uint64_t peak; /* the largest memory use of an agent */
    /* ticked_ms: the last tick; awake_ms: silence counts from this time on */
    uint64_t ticked_ms, awake_ms;
    int sending_plans;
};

/* dispatch.c */
void dispatch_changed(struct dispatch *d);
void dispatch_fail_node(struct dispatch *d, int node, const struct pd_err *err);
/* ask the node if it is there, wants the package, and the package can be sent */
void dispatch_begin(struct dispatch *d, int node, int package);
void dispatch_drop(struct dispatch_member *m);
