/* roles.h - which nodes run which program in an attempt of a job: ranks, and how they move when
 * nodes are lost. */
#ifndef PD_AGENT_ROLES_H
#define PD_AGENT_ROLES_H

enum role { ROLE_PSERVER, ROLE_TRAINER, N_ROLES };
extern const char *const role_names[N_ROLES]; /* "pserver", "trainer" */
int role_of(const char *name);                /* -1: neither */

struct roles {
    int n_nodes;
    int n[N_ROLES];
    int *nodes[N_ROLES]; /* node of rank i */
    int *rank[N_ROLES];  /* of node i, or -1 */
};

/* For one role and n_nodes nodes, none of which has it. -1: out of memory. roles_release frees what
 * there is of it. */
int roles_init(struct roles *s, enum role r);
int roles_copy(struct roles *out,
               const struct roles *s); /* -1: out of memory, nothing to release */
void roles_release(struct roles *s);

void roles_add(struct roles *s, enum role r,
               int node); /* the next rank; it does not have the role yet */
int roles_rank(const struct roles *s, enum role r, int node); /* -1: the node has no such role */
int roles_any(const struct roles *s, int node);

/* A node is gone. What it ran goes, with its rank, to a node that runs no such thing: both of its
 * programs to one if there is one that runs neither, else to those that run the least, the lowest
 * number first. Where all run it already there is one less of it: the ranks behind it move up.
 * `gone` (n_nodes flags, the node's is set): nodes that nothing goes to. to[r]: where its role
 * went, -1: there is one less, -2: it had none. */
void roles_leave(struct roles *s, int node, const char *gone, int to[N_ROLES]);

#endif
