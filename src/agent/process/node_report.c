/* SPDX-License-Identifier: Apache-2.0 */
/* node_report.c - reports about this node's processes: to the head in HD_JOIN, and in AG_STATUS. */
#include "agent/core/msg.h"
#include "agent/process/node_internal.h"

void node_describe(const struct ag_node *n, struct hd_join *join) {
    join->ready = json_array();
    join->exited = json_array();
    join->passes = json_incref(n->passes);
    for (int i = 0; i < N_ROLES; i++) {
        if (n->role[i].ready)
            json_array_append_new(join->ready, json_string(role_names[i]));
        if (n->role[i].exit_body)
            json_array_append(join->exited, n->role[i].exit_body);
    }
}

static json_t *process(const struct node_role *r) {
    struct hd_exited x = {.exit_code = -1};
    if (r->exit_body)
        (void)wire_get(&wire_hd_exited, &x, r->exit_body, NULL);
    const struct node_process p = {.role = role_names[r->role],
                                   .rank = r->rank,
                                   .pid = r->pid,
                                   .state = r->exit_body ? "exited" : "running",
                                   .exit_code = x.exit_code,
                                   .signal = x.signal,
                                   .started_us = (int64_t)r->started_us,
                                   .ended_us = x.time,
                                   .port = r->ports[0],
                                   .listening =
                                       !r->exit_body && r->role == ROLE_PSERVER && r->ready,
                                   .bind = bind_names[r->node->spec->bind]};
    return wire_put(&wire_node_process, &p);
}

json_t *node_processes(const struct ag_node *n) {
    json_t *a = json_array();
    for (int i = 0; i < N_ROLES; i++)
        if (n->role[i].started)
            json_array_append_new(a, process(&n->role[i]));
    return a;
}
