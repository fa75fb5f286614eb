/* SPDX-License-Identifier: Apache-2.0 */
/* head_ask.c - the head's requests to a node in each state. NULL means that there is no request for
 * the node. */
#include "agent/head/head_internal.h"
#include "agent/core/msg.h"
#include "net/conn.h"
#include "wire/msg.h"

enum { ENV_MAX = (128 << 10) - 100 }; /* exec accepts at most 128 KiB for a variable and its name */

static int is_loopback(const char *addr) {
    return !strncmp(addr, "127.", 4) || !strcmp(addr, "::1");
}

static int one_network(const struct ag_head *h) {
    for (int i = 0; i < h->spec->n_nodes; i++)
        if (!h->gone[i] && strcmp(h->node[i].net_id, h->node[h->spec->node].net_id))
            return 0;
    return 1;
}

/* Addresses to try for a node. If all nodes share one network stack, 127.x and ::1 come first;
 * otherwise they are left out. */
json_t *head_candidates(const struct ag_head *h, int node) {
    const json_t *all = json_object_get(json_array_get(h->peers, (size_t)node), "addrs"), *v;
    json_t *out = json_array();
    int same = one_network(h);
    size_t i;
    for (int loopback = 1; loopback >= 0; loopback--)
        json_array_foreach (all, i, v) {
            const char *s = json_string_value(v);
            if (s && is_loopback(s) == loopback && (same || !loopback))
                json_array_append_new(out, json_string(s));
        }
    return out;
}

json_t *head_addrs(const struct ag_head *h, int node) {
    json_t *out = head_candidates(h, node);
    if (*h->node[node].addr)
        json_array_insert_new(out, 0, json_string(h->node[node].addr));
    return out;
}

int head_has(const struct ag_head *h, int node) { return h->node[node].joined; }

struct where {
    const char *net_id;
    int node;
};

static size_t boot_len(const char *net_id) { return strcspn(net_id, " "); }

static int by_machine(const void *a, const void *b) {
    const struct where *x = a, *y = b;
    int order = strcmp(x->net_id, y->net_id);
    return order ? order : x->node - y->node;
}

/* If possible, each node is probed by a node on another machine. The address of a container bridge
 * (172.17.0.1, say) works only on its own machine. The nodes are sorted by machine. Let n be the
 * number of nodes on the largest machine. The node n places away is on another machine, unless the
 * largest machine has more than half of all nodes. */
void head_plan_probes(struct ag_head *h) {
    const int all = h->spec->n_nodes;
    int n = 0, most = 0;
    struct where *v = pd_calloc((size_t)all, sizeof *v);
    for (int i = 0; i < all; i++)
        h->node[i].probes = (i + all - 1) % all;
    if (!v)
        return;
    for (int i = 0; i < all; i++)
        if (!h->gone[i])
            v[n++] = (struct where){h->node[i].net_id, i};
    qsort(v, (size_t)n, sizeof *v, by_machine);
    for (int i = 0, first = 0; i < n; i++) {
        size_t len = boot_len(v[i].net_id);
        if (len != boot_len(v[first].net_id) || strncmp(v[i].net_id, v[first].net_id, len))
            first = i;
        most = i - first + 1 > most ? i - first + 1 : most;
    }
    for (int i = 0; i < n; i++)
        h->node[v[i].node].probes = v[(i + n - (most < n ? most : 1)) % n].node;
    free(v);
}

json_t *head_ask_probe(struct ag_head *h, int node, uint16_t *type) {
    int target = h->node[node].probes;
    *type = WIRE_HD_PROBE;
    const json_t *peer = json_array_get(h->peers, (size_t)target);
    json_t *addrs = head_candidates(h, target);
    json_t *body =
        wire_put(&wire_hd_probe,
                 &(struct hd_probe){.node = target,
                                    .addrs = addrs,
                                    .port = json_integer_value(json_object_get(peer, "port"))});
    json_decref(addrs);
    return body;
}

/* Agents on one machine divide its CPUs among their processes. *count is the number of agents there
 * that have a role, and *index is this node's place among them. */
static void count_machine(const struct ag_head *h, int node, int *index, int *count) {
    *index = *count = 0;
    for (int i = 0; i < h->spec->n_nodes; i++)
        if (!strcmp(h->node[i].machine, h->node[node].machine) && roles_any(&h->roles, i)) {
            *index += i < node;
            ++*count;
        }
}

json_t *head_ask_bind(struct ag_head *h, int node, uint16_t *type) {
    int ps = roles_rank(&h->roles, ROLE_PSERVER, node) >= 0,
        tr = roles_rank(&h->roles, ROLE_TRAINER, node) >= 0, index = 0, count = 1;
    *type = WIRE_HD_BIND;
    if (!ps && !tr)
        return NULL;
    if (h->spec->bind != BIND_NONE)
        count_machine(h, node, &index, &count);
    return wire_put(&wire_hd_bind, &(struct hd_bind){.pserver = ps,
                                                     .trainer = tr,
                                                     .addr = h->node[node].addr,
                                                     .machine_index = index,
                                                     .machine_count = count});
}

/* "10.0.0.1:7164,[2001:db8::2]:7164", in rank order. Built once per attempt and kept. "": no
 * memory, or no node has the role. */
static const char *endpoints(struct ag_head *h, enum role r) {
    if (h->endpoints[r])
        return h->endpoints[r];
    struct pd_buf b = {0};
    for (int i = 0; i < h->roles.n[r]; i++) {
        const struct head_node *n = &h->node[h->roles.nodes[r][i]];
        char text[NET_ENDPOINT_MAX];
        pd_put_fmt(&b, "%s%s", i ? "," : "", net_endpoint(n->addr, n->ports[r], text));
    }
    pd_put_u8(&b, 0);
    h->endpoints[r] = b.failed ? NULL : pd_strdup((char *)b.data);
    pd_buf_release(&b);
    return h->endpoints[r] ? h->endpoints[r] : "";
}

void head_forget_endpoints(struct ag_head *h) {
    for (int r = 0; r < N_ROLES; r++) {
        free(h->endpoints[r]);
        h->endpoints[r] = NULL;
    }
}

/* An empty list is left out, because programs read it as a list of one server. A list that is too
 * long for exec is left out, too. */
static void put_list(json_t *env, const char *name, const char *list) {
    if (*list && strlen(list) < ENV_MAX)
        json_object_set_new(env, name, json_string(list));
}

/* "node 1 (gpu-02), node 3 (gpu-04)", which the processes show in their messages. */
static json_t *lost_names(const struct ag_head *h) {
    char text[500] = "";
    const json_t *v;
    struct lost_node l;
    size_t i, at = 0;
    json_array_foreach (h->lost_nodes, i, v)
        if (at < sizeof text && !wire_get(&wire_lost_node, &l, v, NULL))
            at += (size_t)snprintf(text + at, sizeof text - at, "%snode %d (%.60s)", i ? ", " : "",
                                   (int)l.node, l.host);
    return wire_text(text, strlen(text));
}

static json_t *ask_start(struct ag_head *h, int node, enum role r) {
    int rank = roles_rank(&h->roles, r, node);
    if (rank < 0)
        return NULL;
    char own[NET_ENDPOINT_MAX], count[16];
    net_endpoint(h->node[node].addr, h->node[node].ports[r], own);
    snprintf(count, sizeof count, "%d", h->attempt);
    json_t *env = json_pack("{s:s, s:s, s:s}", "POD_IP", h->node[node].addr,
                            "PADDLE_CURRENT_ENDPOINT", own, "PADDLE_RESTART_COUNT", count);
    put_list(env, "PADDLE_PSERVERS_IP_PORT_LIST", endpoints(h, ROLE_PSERVER));
    put_list(env, "PADDLE_TRAINER_ENDPOINTS", endpoints(h, ROLE_TRAINER));
    if (json_array_size(h->lost_nodes))
        json_object_set_new(env, "PADDLE_LOST_NODES", lost_names(h));
    int alone = r == ROLE_TRAINER ? h->node[node].alone : 0;
    json_t *body = wire_put(&wire_hd_start,
                            &(struct hd_start){.role = role_names[r],
                                               .rank = rank,
                                               .trainers = h->roles.n[ROLE_TRAINER],
                                               .alone = alone,
                                               .restarts = h->restarts,
                                               .env = env,
                                               .note = h->attempt || alone ? h->restart_text : ""});
    json_decref(env);
    return body;
}

json_t *head_ask_pserver(struct ag_head *h, int node, uint16_t *type) {
    *type = WIRE_HD_START;
    return ask_start(h, node, ROLE_PSERVER);
}

json_t *head_ask_trainer(struct ag_head *h, int node, uint16_t *type) {
    *type = WIRE_HD_START;
    return ask_start(h, node, ROLE_TRAINER);
}

json_t *head_ask_save(struct ag_head *h, int node, uint16_t *type) {
    *type = WIRE_HD_SAVE;
    return roles_rank(&h->roles, ROLE_TRAINER, node) < 0
               ? NULL
               : wire_put(&wire_hd_save, &(struct hd_save){.save_ms = h->save_ms});
}

json_t *head_ask_stop(struct ag_head *h, int node, uint16_t *type) {
    (void)node;
    *type = WIRE_HD_STOP;
    return wire_put(&wire_hd_stop, &(struct hd_stop){.grace_ms = h->grace_ms});
}

/* A user's trainer may be a shell that has exited while its children still save the model. The
 * children get the rest of the time for saving. */
unsigned head_end_grace_ms(const struct ag_head *h) {
    uint64_t now = pd_mono_ns();
    if (!*h->spec->command[ROLE_TRAINER] || h->save_until_ns <= now)
        return h->grace_ms;
    uint64_t left_ms = (h->save_until_ns - now) / 1000000u;
    return left_ms > h->grace_ms ? (unsigned)left_ms : h->grace_ms;
}

json_t *head_ask_end(struct ag_head *h, int node, uint16_t *type) {
    char cause[WIRE_MAX_CAUSE + 1];
    (void)node;
    *type = WIRE_HD_END;
    head_name_cause(h, cause, sizeof cause);
    return wire_put(&wire_hd_end, &(struct hd_end){.grace_ms = head_end_grace_ms(h),
                                                   .cause = h->stopped ? "" : cause,
                                                   .status = h->stopped   ? "stopped"
                                                             : h->failure ? "failed"
                                                                          : "done"});
}

json_t *head_ask_leave(struct ag_head *h, int node, uint16_t *type) {
    char reason[100];
    snprintf(reason, sizeof reason, "node %d was away for too long: the job went on without it",
             node);
    *type = WIRE_HD_END;
    return wire_put(&wire_hd_end, &(struct hd_end){.grace_ms = (int64_t)h->spec->job.grace_ms,
                                                   .status = "failed",
                                                   .reason = reason});
}

json_t *head_ask_restart(struct ag_head *h, int node, uint16_t *type) {
    (void)node;
    *type = WIRE_HD_END;
    return wire_put(&wire_hd_end, &(struct hd_end){.grace_ms = (int64_t)h->spec->job.grace_ms,
                                                   .status = "restarting",
                                                   .restart = 1,
                                                   .restarts = h->restarts});
}
