/* package.h - packages on their way: packed once into a nameless file, sent to any number of nodes from it, and the
 * packages of outputs that come back. */
#ifndef LAUNCHER_PACKAGE_H
#define LAUNCHER_PACKAGE_H

#include "launcher/cluster/link.h"
#include "pack/pack.h"

struct package {
    const char *kind;            /* "worker", "workspace", "deploy" */
    char name[100], hash[65];    /* what the agent is told; for a workspace the hash is that of the package */
    int fd;                      /* -1: not packed yet */
    struct pack_result packed;
};

/* A workspace: a folder or a tar archive. PD_ENOENT when it is missing. */
int package_workspace(struct package *p, const char *kind, const char *path, struct pd_err *err);
/* The worker: the hash of the executable at once, the packing when the first node lacks it. */
int package_worker_hash(struct package *p, const char *path, struct pd_err *err);
int package_worker_pack(struct package *p, const char *path, struct pd_err *err);
void package_release(struct package *p);

/* Send it: BEGIN, DATA, END. `answer` gets the agent's answer to the END, or the failure. One package at a time on a
 * link. 0 or PD_ENOMEM. */
int package_send(struct link *l, const struct package *p, const char *what, link_answer answer, void *arg);

/* A folder of the node's job, fetched below `aside` ("<aside>/node-<id>") and verified. `done` comes once; `err` is NULL
 * or the failure; `missing`: the node has no such folder. */
typedef void (*fetch_done)(void *arg, int missing, const char *skipped, const struct pd_err *err);
int package_fetch(struct link *l, uv_loop_t *loop, const char *dir, const char *aside, int node, fetch_done done, void *arg);

/* Move the entries of <aside>/node-0, node-1, ... into `target`, in this order. Folders merge; of two different files
 * with one name the later gets the name "<name>.node-<id>", and *n_renamed counts it. */
int package_merge(const char *aside, int n_nodes, const char *target, int *n_renamed, struct pd_err *err);

/* Move the tree `from` over the folder `to`: files of the same name are replaced, all others stay. */
int package_overlay(const char *from, const char *to, struct pd_err *err);

#endif
