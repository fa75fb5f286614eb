/* node_report.c - what this node tells of its processes: to the head when it joins again, and in
 * AG_STATUS. */
#include "agent/core/msg.h"
#include "agent/process/node_int.h"

void node_describe(const struct ag_node *n, json_t *join) {
    json_t *ready = json_array(), *exited = json_array();
    for (int i = 0; i < N_ROLES; i++) {
        if (n->role[i].ready)
            json_array_append_new(ready, json_string(role_names[i]));
        if (n->role[i].exit_body)
            json_array_append(exited, n->role[i].exit_body);
    }
    json_object_set_new(join, "ready", ready);
    json_object_set_new(join, "exited", exited);
}

static json_t *process(const struct node_role *r) {
    const json_t *x = r->exit_body;
    return json_pack(
        "{s:s, s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:i, s:b, s:s}", "role", role_names[r->role],
        "rank", r->rank, "pid", (int)r->pid, "state", x ? "exited" : "running", "exit_code",
        x ? (json_int_t)msg_int(x, "exit_code", -1, 255, -1) : -1, "signal",
        (json_int_t)msg_int(x, "signal", 0, 128, 0), "started_us", (json_int_t)r->started_us,
        "ended_us", (json_int_t)msg_int(x, "time", 0, INT64_MAX, 0), "port", r->ports[0],
        "listening", !x && r->role == ROLE_PSERVER && r->ready, "bind",
        bind_names[r->node->spec->bind]);
}

json_t *node_processes(const struct ag_node *n) {
    json_t *a = json_array();
    for (int i = 0; i < N_ROLES; i++)
        if (n->role[i].started)
            json_array_append_new(a, process(&n->role[i]));
    return a;
}
