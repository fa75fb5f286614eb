/* dispatch.h - packages to all nodes of a run, over the links that it has: what crosses this
 * machine's link does so once.
 *
 *     dispatch_new ─▶ dispatch_add (hashing begins, on a thread) ─▶ dispatch_add_node (its link is open) ... ─▶ on_done | on_failed, each
 *                                                                   dispatch_start (the bytes may go)         node once ─▶ dispatch_free
 *
 * Each node is asked at once whether it has a package (its root object names it). What it lacks it
 * takes from another node, or from here: plan.h decides, feed.h is "here". docs/protocol.md,
 * "Dispatch".
 */
#ifndef LAUNCHER_DISPATCH_H
#define LAUNCHER_DISPATCH_H

#include "launcher/link/link.h"
#include "pack/scan/scan.h"

enum { DISPATCH_PACKAGES = 3, DISPATCH_ALL = (1 << DISPATCH_PACKAGES) - 1 };

struct dispatch;

struct dispatch_conf {
    uv_loop_t *loop;
    int n_nodes;
    int relay, encrypt, port;
    uint64_t store_limit;
    uint64_t silence_ms; /* a node that takes a package and says nothing for so long fails; agents
                            say something every second */
    int at_once; /* bytes go when the first node is there; else when dispatch_start says so */
    void (*on_done)(void *arg, int node);
    void (*on_failed)(void *arg, int node, const struct pd_err *err);
    /* A package can't be made (any more): all nodes that still need it fail. Comes once, before
     * their on_failed. May be NULL. */
    void (*on_broken)(void *arg, const struct pd_err *err);
    void (*on_scanned)(void *arg, int package); /* dispatch_scan tells what it is. May be NULL */
    void (*on_change)(
        void *arg); /* something that dispatch_progress tells; a few times a second. May be NULL */
    void *arg;
};

int dispatch_new(struct dispatch **out, const struct dispatch_conf *conf, struct pd_err *err);
/* The number of the package, 0, 1, ...; `scan` is taken over, and must not have been run. `name`
 * and `kind` ("worker", "packed-worker", "workspace", "deploy") as in docs/protocol.md. */
int dispatch_add(struct dispatch *d, const char *kind, const char *name, struct scan *scan,
                 struct pd_err *err);

/* A package of which each node gets a part of its own, from here. Its scan is hashed like the
 * others', and then it waits for dispatch_parts: make, called on another thread for each node, says
 * 1 and which part (scan_pick), 0: nothing, or PD_E*, which breaks the package. May come again,
 * with other parts, when all nodes that want this package are done or gone. */
int dispatch_add_parts(struct dispatch *d, const char *kind, struct scan *scan, struct pd_err *err);
typedef int (*dispatch_make)(void *arg, struct scan *scan, int node, struct scan_root *out,
                             struct pd_err *err);
void dispatch_parts(struct dispatch *d, int package, dispatch_make make, void *arg);
/* The root id of this node's part; 0: it has none. */
int dispatch_part_id(const struct dispatch *d, int node, int package, struct object_id *id);

/* This node's link is open and these packages (bits) belong on it. Nodes may come at any time, and
 * again after dispatch_remove_node. */
void dispatch_add_node(struct dispatch *d, int node, struct link *l, unsigned packages);
/* It has or gets what was asked for before, and now these too; on_done comes again. */
void dispatch_add_packages(struct dispatch *d, int node, struct link *l, unsigned packages);
void dispatch_remove_node(
    struct dispatch *d,
    int node); /* its link is lost or closed; neither on_done nor on_failed will come for it */
void dispatch_start(struct dispatch *d);  /* until then nodes are only asked */
void dispatch_cancel(struct dispatch *d); /* no callback comes any more; threads end soon */
/* After the loop has ended, or before it began: it is run until the threads have ended. NULL is
 * fine. */
void dispatch_free(struct dispatch *d);

const struct scan *dispatch_scan(const struct dispatch *d,
                                 int package); /* once dispatch_is_scanned */
int dispatch_is_scanned(const struct dispatch *d, int package);
int dispatch_had_package(const struct dispatch *d, int node,
                         int package); /* it was there already */

struct dispatch_progress {
    int scanning;                  /* packages that are still hashed */
    uint64_t scanned, to_scan;     /* bytes of them */
    int n_nodes, n_done, n_failed; /* that take part */
    uint64_t have, of;             /* bytes of contents, over all nodes that lacked something */
    uint64_t least, most;          /* of one node: how far the slowest is, and how much it needs */
    uint64_t sent;                 /* bytes over this machine's link */
    uint64_t rate;                 /* bytes of contents a second that arrive at the slowest node */
    uint64_t agent_peak; /* bytes of memory: the most that an agent has needed which took something;
                            0: none did */
    int n_bypassed, n_direct; /* relays that were passed by; nodes that take from here */
};
void dispatch_get_progress(const struct dispatch *d, struct dispatch_progress *p);

#endif
