/* head_lost.c - nodes whose connection broke. A node may join again within the lease. After the
 * lease it has ended its processes, and the head counts it as lost. If the job may be restarted, it
 * continues without the node; otherwise it fails. The roles of a lost node move (roles.h), no state
 * waits for it, and its later messages are ignored. */
#include "agent/head/head_internal.h"
#include "agent/core/msg.h"

enum { LOST_TURN_MS = 100 };

static const char lost_reason[] =
    "its agent is gone: the connection to it broke and did not come back";

static uint64_t rejoin_ms(const struct ag_head *h) {
    const struct spec *s = h->spec;
    return s->job.attached && s->job.attach_lease_ms < s->job.detach_lease_ms
               ? s->job.attach_lease_ms
               : s->job.detach_lease_ms;
}

/* Before the pservers start, every node is needed: min_nodes was applied before the job began. */
static int may_go_on(const struct ag_head *h) {
    return h->state == HEAD_RESTARTING || h->state == HEAD_BACKOFF
               ? !h->stopped && !h->no_retry && !h->failure
               : head_may_restart(h);
}

int head_waits_for_lost(const struct ag_head *h) {
    int any = 0;
    for (int i = 0; i < h->spec->n_nodes; i++) {
        const struct head_node *n = &h->node[i];
        if (h->gone[i] || n->answered)
            continue;
        if (n->joined || !n->lost_ns)
            return 0; /* it is connected but silent */
        any = 1;
    }
    return any && may_go_on(h);
}

/* Appends where the roles of a lost node moved: "; its pserver goes to node 2 (gpu-02); 3 trainers
 * are left". */
static void tell_moves(struct ag_head *h, const int to[N_ROLES]) {
    for (int r = 0; r < N_ROLES; r++) {
        size_t at = strlen(h->moves);
        char *out = h->moves + at;
        if (to[r] >= 0)
            snprintf(out, sizeof h->moves - at, "; its %s goes to node %d (%.60s)", role_names[r],
                     to[r], head_host(h, to[r]));
        else if (to[r] == -1)
            snprintf(out, sizeof h->moves - at, "; %d %s%s left", h->roles.n[r], role_names[r],
                     h->roles.n[r] == 1 ? " is" : "s are");
    }
}

static void send_away(struct ag_head *h, int node) {
    uint16_t type;
    json_t *body = head_ask_leave(h, node, &type);
    h->io.send(h->arg, node, type, ++h->next_req, body);
}

int head_is_gone(struct ag_head *h, int node) {
    if (h->gone[node])
        send_away(h, node);
    return h->gone[node];
}

static void note_gone(struct ag_head *h, int node, const char *reason) {
    h->gone[node] = 1;
    json_array_append_new(
        h->lost_nodes,
        wire_put(&wire_lost_node,
                 &(struct lost_node){.node = node, .host = head_host(h, node), .reason = reason}));
}

/* 1: the node has no role, and the job may be restarted: the job does not need the node. */
static int is_spare(const struct ag_head *h, int node) {
    return node && !roles_any(&h->roles, node) && h->spec->job.max_restarts &&
           h->state > HEAD_PROBING && h->state != HEAD_OVER;
}

/* The running processes are not affected. Only the list of lost nodes and the published state
 * change. */
static void do_without_spare(struct ag_head *h, int node, const char *reason) {
    char text[sizeof h->text];
    note_gone(h, node, reason);
    pd_warn(h->log, "node %d (%s) is lost, which ran nothing", node, head_host(h, node));
    if (h->node[node].joined)
        send_away(h, node);
    memcpy(text, h->text, sizeof text);
    head_publish(h, text);
    head_check(h);
}

void head_note_lost_spares(struct ag_head *h) {
    for (int i = 0; i < h->spec->n_nodes; i++)
        if (!h->gone[i] && !h->node[i].joined && h->node[i].lost_ns && is_spare(h, i))
            note_gone(h, i, lost_reason);
}

static void go_on_without(struct ag_head *h, int node, const char *reason) {
    int to[N_ROLES];
    json_t *failure = head_reason_failure(h, node, reason);
    note_gone(h, node, reason);
    roles_leave(&h->roles, node, h->gone, to);
    tell_moves(h, to);
    pd_warn(h->log, "node %d (%s) is lost, the job goes on without it%s", node, head_host(h, node),
            h->moves);
    if (h->node[node].joined)
        send_away(h, node);
    if (h->state != HEAD_RESTARTING && h->state != HEAD_BACKOFF) {
        head_note_failure(h, node, failure, 0, 1);
        return;
    }
    head_name_restart(h, failure); /* the earlier failure was a consequence of the loss */
    json_decref(failure);
    head_publish(h, h->restart_text);
    head_check(h);
}

void head_give_up(struct ag_head *h, int node, const char *reason) {
    char text[600];
    int was_trainer = roles_rank(&h->roles, ROLE_TRAINER, node) >= 0;
    if (is_spare(h, node)) {
        do_without_spare(h, node, reason);
    } else if (may_go_on(h) && was_trainer &&
               !strcmp(msg_str(h->spec->train, "data_layout"), "local")) {
        snprintf(text, sizeof text,
                 "%s, and with it the data that only it has (data_layout = local)", reason);
        head_fail(h, node, text);
    } else if (may_go_on(h) && node) {
        go_on_without(h, node, reason);
    } else {
        head_fail(h, node, reason);
    }
}

static void on_lost_turn(uv_timer_t *t) {
    struct ag_head *h = t->data;
    int any = 0;
    for (int i = 0; i < h->spec->n_nodes; i++) {
        struct head_node *n = &h->node[i];
        if (n->joined || !n->lost_ns)
            continue;
        any = 1;
        if (pd_mono_ns() - n->lost_ns < rejoin_ms(h) * 1000000u)
            continue;
        n->lost_ns = 0;
        head_give_up(h, i, lost_reason);
    }
    if (!any)
        uv_timer_stop(t);
}

void head_lost(struct ag_head *h, int node) {
    struct head_node *n = &h->node[node];
    if (!n->joined)
        return;
    n->joined = 0;
    n->asked = n->answered;
    /* The node was given up before, or it has ended its processes on request. */
    if (h->state == HEAD_OVER || h->gone[node] || (h->state == HEAD_CLOSING && n->answered))
        return;
    n->lost_ns = pd_mono_ns();
    if (h->state != HEAD_IDLE && h->state != HEAD_CLOSING)
        uv_timer_start(&h->lost, on_lost_turn, LOST_TURN_MS, LOST_TURN_MS);
    pd_warn(h->log, "the connection to node %d (%s) broke", node, head_host(h, node));
    head_check(h);
}

const json_t *head_lost_nodes(const struct ag_head *h) { return h->lost_nodes; }
