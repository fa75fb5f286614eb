/* package.h - the packages of outputs that come back from the nodes, and what becomes of them here.
 * (What goes to the nodes: launcher/dispatch.) */
#ifndef LAUNCHER_PACKAGE_H
#define LAUNCHER_PACKAGE_H

#include "launcher/link/link.h"
#include "pack/pack.h"

/* A folder of the node's job, fetched below `aside` ("<aside>/node-<id>") and verified. `done`
 * comes once; `err` is NULL or the failure; `missing`: the node has no such folder. */
typedef void (*fetch_done)(void *arg, int missing, const char *skipped, const struct pd_err *err);
int package_fetch(struct link *l, uv_loop_t *loop, const char *dir, const char *aside, int node,
                  fetch_done done, void *arg);

/* Move the entries of <aside>/node-0, node-1, ... into `target`, in this order. Folders merge; of
 * two different files with one name the later gets the name "<name>.node-<id>", and *n_renamed
 * counts it. */
int package_merge(const char *aside, int n_nodes, const char *target, int *n_renamed,
                  struct pd_err *err);

/* Move the tree `from` over the folder `to`: files of the same name are replaced, all others stay.
 */
int package_overlay(const char *from, const char *to, struct pd_err *err);

#endif
