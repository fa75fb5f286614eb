/* SPDX-License-Identifier: Apache-2.0 */
/* node_role.c - the resources of a role on this node (sockets, claims on ports, a process) and
 * their release. */
#include "agent/process/node_internal.h"

void node_close_sockets(struct node_role *r) {
    for (unsigned i = 0; i < r->n_fds; i++)
        close(r->fds[i]);
    r->n_fds = 0;
}

void node_drop_claims(struct node_role *r) {
    for (unsigned i = 0; i < r->n_claims; i++)
        close(r->claims[i]);
    r->n_claims = 0;
}

void node_handle_closed(void *arg) {
    struct ag_node *n = arg;
    if (--n->n_handles == 0 && n->freeing)
        free(n);
}

void node_forget_process(struct node_role *r) {
    node_close_sockets(r);
    node_drop_claims(r);
    if (r->proc) {
        r->node->n_handles++;
        proc_close(r->proc, node_handle_closed, r->node);
    }
    json_decref(r->exit_body);
    json_decref(r->short_exit);
    r->proc = NULL;
    r->exit_body = r->short_exit = NULL;
    r->started = r->ready = r->final = r->told_to_save = r->trained = 0;
    *r->failed_from = *r->failed_text = 0;
    r->pid = 0;
}

void node_forget_processes(struct ag_node *n) {
    for (int i = 0; i < N_ROLES; i++) {
        node_forget_process(&n->role[i]);
        n->role[i].alone = 0;
    }
    n->bound = 0;
}
