/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h - packages to all nodes of a run, over the links that exist. Every object crosses this
 * machine's link once.
 *
 *     dispatch_new ─▶ dispatch_add          hashing begins, on a thread
 *                  ─▶ dispatch_add_node ...     for each node whose link is open
 *                  ─▶ dispatch_start        the bytes may go
 *                  ─▶ on_done | on_failed   once for each node
 *                  ─▶ dispatch_free
 *
 * Each node is asked at once whether it has a package (named by its root object). A node takes the
 * objects that it lacks from another node or from this machine: relay_plan.h decides, feed.h sends
 * from here. docs/protocol.md, "Dispatch".
 */
#pragma once

#include "launcher/link/link.h"
#include "pack/scan/scan.h"

enum { DISPATCH_PACKAGES = 4, DISPATCH_ALL = (1 << DISPATCH_PACKAGES) - 1 };

struct dispatch;

struct dispatch_conf {
    uv_loop_t *loop;
    int n_nodes;
    int relay, encrypt, port;
    int local; /* all nodes are on this machine */
    uint64_t store_limit;
    /* a node that takes a package and is silent for so long fails; agents report every second */
    uint64_t silence_ms;
    /* 1: bytes go when the first node is there; 0: after dispatch_start */
    int at_once;
    void (*on_done)(void *arg, int node);
    void (*on_failed)(void *arg, int node, const struct pd_err *err);
    /* A package cannot be made (any more): all nodes that still need it fail. Called once, before
     * their on_failed. May be NULL. */
    void (*on_broken)(void *arg, const struct pd_err *err);
    void (*on_scanned)(void *arg, int package); /* dispatch_scan has the result. May be NULL */
    /* dispatch_progress has changed; called a few times a second. May be NULL */
    void (*on_change)(void *arg);
    void *arg;
};

int dispatch_new(struct dispatch **out, const struct dispatch_conf *conf, struct pd_err *err);
/* Add a package; returns its number 0, 1, ... Takes over `scan`, which must not have run. `name`
 * and `kind` ("worker", "packed-worker", "workspace", "deploy", "resume") are those of
 * docs/protocol.md. */
int dispatch_add(struct dispatch *d, const char *kind, const char *name, struct scan *scan,
                 struct pd_err *err);

/* Add a package of which this machine sends each node a part of its own. After its scan is hashed,
 * the package waits for dispatch_parts. `make` is called on another thread for each node. It
 * returns 1 and the part (scan_pick), 0 for no part, or PD_E*, which breaks the package.
 * dispatch_parts may be called again with other parts when all nodes that want the package are done
 * or gone. */
int dispatch_add_parts(struct dispatch *d, const char *kind, struct scan *scan, struct pd_err *err);
typedef int (*dispatch_make)(void *arg, struct scan *scan, int node, struct scan_root *out,
                             struct pd_err *err);
void dispatch_parts(struct dispatch *d, int package, dispatch_make make, void *arg);
/* The root id of this node's part. 0: the node has no part. */
int dispatch_part_id(const struct dispatch *d, int node, int package, struct object_id *id);

/* This node's link is open; `packages` are the bits of the packages that it needs. Nodes may come
 * at any time, and again after dispatch_remove_node. */
void dispatch_add_node(struct dispatch *d, int node, struct link *l, unsigned packages);
/* Add packages for a node that was added before; on_done comes again. */
void dispatch_add_packages(struct dispatch *d, int node, struct link *l, unsigned packages);
/* the node's link is lost or closed; neither on_done nor on_failed will come for it */
void dispatch_remove_node(struct dispatch *d, int node);
void dispatch_start(struct dispatch *d);  /* until then nodes are only asked */
void dispatch_cancel(struct dispatch *d); /* no more callbacks; threads end soon */
/* Call it before the loop begins or after it has ended: it runs the loop until the threads have
 * ended. NULL is allowed. */
void dispatch_free(struct dispatch *d);

const struct scan *dispatch_scan(const struct dispatch *d,
                                 int package); /* valid after dispatch_is_scanned */
int dispatch_is_scanned(const struct dispatch *d, int package);
/* the node had the package before */
int dispatch_had_package(const struct dispatch *d, int node, int package);

struct dispatch_progress {
    int scanning;                  /* packages that are being hashed */
    uint64_t scanned, to_scan;     /* bytes of these packages */
    int n_nodes, n_done, n_failed; /* n_nodes: nodes that take part */
    /* bytes of contents, over all nodes that lacked objects */
    uint64_t have, of;
    /* of these, bytes that the nodes had before; and of them, what interrupted transfers left */
    uint64_t here, rest;
    uint64_t least, most; /* of the slowest node: bytes that it has and needs */
    uint64_t sent;        /* bytes over this machine's link */
    /* bytes of contents a second at the slowest node */
    uint64_t rate;
    /* bytes: the largest memory use of an agent that took objects; 0: none did */
    uint64_t agent_peak;
    /* n_bypassed: bypassed relays; n_direct: nodes that take from this machine */
    int n_bypassed, n_direct;
};
void dispatch_get_progress(const struct dispatch *d, struct dispatch_progress *p);
