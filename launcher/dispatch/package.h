/* SPDX-License-Identifier: Apache-2.0 */
/* package.h - the folders that come back from the nodes, and what becomes of them here. (What goes
 * to the nodes: launcher/dispatch.) */
#pragma once

#include "launcher/link/link.h"

/* The fetches of one job's folders:
 *
 *     <store>/.paddlectl        objects of interrupted fetches
 *     <aside>/node-<id>         "output" of a node; `aside` is below `store`
 *     <aside>/logs/node-<id>    "log" of a node
 *     <into>/                   where they go later, and an earlier fetch may have put them: what
 *                               its files have already does not travel again
 *
 * PACKAGE_FETCHES of them run at a time, which bounds memory and open files. */
enum { PACKAGE_FETCHES = 16 };
struct package_fetch;
struct package_fetches {
    char store[PATH_MAX], aside[PATH_MAX], into[PATH_MAX];
    unsigned n_active;
    struct package_fetch *waiting;
    /* Sums: bytes of the files that are known and that are here, those of an interrupted fetch
     * included; bytes that came over the links; folders that are complete. */
    uint64_t of, have, arrived;
    uint64_t due; /* bytes that the nodes have announced, and that are not written */
    int n_done;
};

/* `store` and `aside` exist. PD_EIO. */
int package_fetches_init(struct package_fetches *all, const char *store, const char *aside,
                         const char *into, struct pd_err *err);

struct package_fetched {
    const char *dir;   /* as in package_fetch */
    int missing;       /* the node has no such folder */
    uint64_t bytes;    /* of objects, as they came over the link */
    char skipped[300]; /* what could not travel; "" */
};
/* Fetches folder `dir` ("output", "log") of the node's job, or its subfolder `only` (NULL: all of
 * it). Every object is compared with its hash, and the folder
 * appears when it is complete. `done` comes once, on the loop's thread; `err` is NULL or the
 * failure. If the link closes, a thread may still write below `aside` until the loop is idle.
 * PD_EIO, PD_ENOMEM: it will not come. */
typedef void (*package_fetch_done)(void *arg, const struct package_fetched *r,
                                   const struct pd_err *err);
int package_fetch(struct package_fetches *all, struct link *l, uv_loop_t *loop, const char *dir,
                  const char *only, int node, package_fetch_done done, void *arg);

/* Move the entries of <aside>/node-0, node-1, ... into `target`, in this order. Folders merge; of
 * two different files with one name the later gets the name "<name>.node-<id>", and *n_renamed
 * counts it. A file that has this name in `placed`, where an earlier fetch has put it, keeps it:
 * the first node may be missing now, and its file stays. */
int package_merge(const char *aside, int n_nodes, const char *target, const char *placed,
                  int *n_renamed, struct pd_err *err);

/* Move the tree `from` over the folder `to`: files of the same name are replaced, all others stay.
 */
int package_overlay(const char *from, const char *to, struct pd_err *err);
