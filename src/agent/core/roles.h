/* SPDX-License-Identifier: Apache-2.0 */
/* roles.h - the roles and ranks of the nodes in an attempt of a job, and how they move when a node
 * is lost. */
#pragma once

enum role { ROLE_PSERVER, ROLE_TRAINER, N_ROLES };
extern const char *const role_names[N_ROLES]; /* "pserver", "trainer" */
int role_of(const char *name);                /* -1: neither */

struct roles {
    int n_nodes;
    int n[N_ROLES];
    int *nodes[N_ROLES]; /* the node of rank i */
    int *rank[N_ROLES];  /* the rank of node i, or -1 */
};

/* Prepares one role for n_nodes nodes, none of which has the role. -1: out of memory; roles_release
 * then frees what was allocated. */
int roles_init(struct roles *s, enum role r);
/* -1: out of memory, nothing to release. */
int roles_copy(struct roles *out, const struct roles *s);
void roles_release(struct roles *s);

/* Gives the next rank to a node without the role. */
void roles_add(struct roles *s, enum role r, int node);
int roles_rank(const struct roles *s, enum role r, int node); /* -1: the node has no such role */
int roles_any(const struct roles *s, int node);

/* Removes the roles of a lost node. Each role moves, with its rank, to a live node that lacks that
 * role: both roles to one idle node if there is one, otherwise each to the least loaded node
 * (lowest id first). If every live node has the role, its count drops by one, and all higher ranks
 * drop by one.
 *
 * gone[node] is set for the lost node and for all nodes that were lost before. to[r] becomes the
 * node that role r moved to, -1 if the count dropped, -2 if the lost node did not have the role. */
void roles_leave(struct roles *s, int node, const char *gone, int to[N_ROLES]);
