/* SPDX-License-Identifier: Apache-2.0 */
/* head_lost.c - nodes whose connection broke, and a head that takes a lost head's part. A node may
 * join again within the lease. After the lease it has ended its processes, and the head counts it
 * as lost. If the job may be restarted, it continues without the node; otherwise it fails. The
 * roles of a lost node move (roles.h), no state waits for it, and its later messages are ignored.
 */
#include "agent/head/election.h"
#include "agent/head/head_internal.h"
#include "agent/core/msg.h"

enum { LOST_TURN_MS = 100, FIRST_JOIN_MS = 10000 };

static const char lost_reason[] =
    "its agent is gone: the connection to it broke and did not come back";

/* After a take-over the nodes must first hear of the new head. */
static uint64_t rejoin_ms(const struct ag_head *h, const struct head_node *n) {
    const struct spec *s = h->spec;
    const uint64_t first = n->ever_joined ? 0 : FIRST_JOIN_MS;
    return first + (s->job.attached && s->job.attach_lease_ms < s->job.detach_lease_ms
                        ? s->job.attach_lease_ms
                        : s->job.detach_lease_ms);
}

int head_may_be_chosen(const struct spec *s) {
    return s->job.max_restarts && s->n_nodes >= ELECTION_LEAST;
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
    return node != h->spec->node && !roles_any(&h->roles, node) && h->spec->job.max_restarts &&
           h->state > HEAD_PROBING && h->state != HEAD_OVER;
}

void head_tell_state(struct ag_head *h) {
    char text[sizeof h->text];
    memcpy(text, h->text, sizeof text);
    head_publish(h, text);
}

/* The running processes are not affected. Only the list of lost nodes and the published state
 * change. */
static void do_without_spare(struct ag_head *h, int node, const char *reason) {
    note_gone(h, node, reason);
    pd_warn(h->log, "node %d (%s) is lost, which ran nothing", node, head_host(h, node));
    if (h->node[node].joined)
        send_away(h, node);
    head_tell_state(h);
    head_check(h);
}

static int is_away(const struct head_node *n) { return !n->joined && n->lost_ns; }

/* It does not end, although it has nothing to end. */
static int is_silent(const struct ag_head *h, int i) {
    return h->state == HEAD_CLOSING && h->node[i].asked && !h->node[i].answered;
}

void head_note_lost_spares(struct ag_head *h) {
    for (int i = 0; i < h->spec->n_nodes; i++)
        if (!h->gone[i] && is_spare(h, i) && (is_away(&h->node[i]) || is_silent(h, i)))
            note_gone(h, i, lost_reason);
}

static void leave(struct ag_head *h, int node, const char *reason, int told) {
    int to[N_ROLES];
    note_gone(h, node, reason);
    roles_leave(&h->roles, node, h->gone, to);
    if (told)
        tell_moves(h, to);
}

static void go_on_without(struct ag_head *h, int node, const char *reason) {
    json_t *failure = head_reason_failure(h, node, reason);
    leave(h, node, reason, 1);
    h->gave_up_ns = pd_mono_ns();
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

static int has_own_data(const struct ag_head *h, int node) {
    return roles_rank(&h->roles, ROLE_TRAINER, node) >= 0 &&
           !strcmp(msg_str(h->spec->train, "data_layout"), "local");
}

static void fail_without_data(struct ag_head *h, int node, const char *reason) {
    char text[600];
    snprintf(text, sizeof text, "%s, and with it the data that only it has (data_layout = local)",
             reason);
    head_fail(h, node, text);
}

void head_give_up(struct ag_head *h, int node, const char *reason) {
    if (is_spare(h, node)) {
        do_without_spare(h, node, reason);
    } else if (may_go_on(h) && has_own_data(h, node)) {
        fail_without_data(h, node, reason);
    } else if (may_go_on(h) && node != h->spec->node) {
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
        if (pd_mono_ns() - n->lost_ns < rejoin_ms(h, n) * 1000000u)
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
    head_pace(h, node);
    /* The node was given up before, or it has ended its processes on request. */
    if (h->state == HEAD_OVER || h->gone[node] || (h->state == HEAD_CLOSING && n->answered))
        return;
    n->lost_ns = pd_mono_ns();
    if (h->state != HEAD_IDLE && h->state != HEAD_CLOSING)
        uv_timer_start(&h->lost, on_lost_turn, LOST_TURN_MS, LOST_TURN_MS);
    pd_warn(h->log, "the connection to node %d (%s) broke", node, head_host(h, node));
    head_check(h);
}

/* --- another node takes the head's part --- */

int head_leave(struct ag_head *h, int fenced) {
    int others = 0;
    for (int i = 0; i < h->spec->n_nodes; i++)
        others |= i != h->spec->node && h->node[i].joined && !h->gone[i];
    if (!fenced && (!others || h->spec->job.max_restarts <= h->restarts || !may_go_on(h)))
        return 0;
    pd_warn(h->log, "this node leaves the job: another node takes the head's part");
    h->left = 1;
    head_enter(h, HEAD_OVER);
    return 1;
}

/* The passes that paddlectl has heard of; the nodes repeat their last ones when they join. */
static void hear_passes(struct ag_head *h, const json_t *passes) {
    const json_t *v;
    struct heard_pass p;
    size_t i;
    json_array_foreach (passes, i, v) {
        struct pd_err err = {0};
        if (!wire_get(&wire_heard_pass, &p, v, NULL) && p.node < h->spec->n_nodes &&
            head_take_pass(h, (int)p.node, p.pass, &err))
            pd_warn(h->log, "a report of a pass: %s", err.msg);
    }
}

void head_take_over(struct ag_head *h, int head, const json_t *lost, int restarts,
                    const json_t *passes) {
    const int own = h->spec->node;
    const json_t *v;
    struct lost_node l;
    char reason[300];
    size_t i;
    int local = has_own_data(h, head);
    snprintf(reason, sizeof reason, "%s", lost_reason);
    h->took_over = 1;
    h->restarts = restarts;
    hear_passes(h, passes);
    json_array_foreach (lost, i, v) {
        if (wire_get(&wire_lost_node, &l, v, NULL) || l.node >= h->spec->n_nodes || l.node == own ||
            h->gone[l.node])
            continue;
        local |= has_own_data(h, (int)l.node) && l.node != head;
        leave(h, (int)l.node, l.reason, l.node == head);
        if (l.node == head)
            snprintf(reason, sizeof reason, "%.290s", l.reason);
    }
    const size_t at = strlen(h->moves);
    pd_fmt(h->moves + at, sizeof h->moves - at, "; node %d (%.60s) is the head now", own,
           head_host(h, own));
    for (int k = 0; k < h->spec->n_nodes; k++)
        if (k != own && !h->gone[k])
            h->node[k].lost_ns = pd_mono_ns(); /* it joins this head, or is lost, too */
    uv_timer_start(&h->lost, on_lost_turn, LOST_TURN_MS, LOST_TURN_MS);
    if (local) {
        fail_without_data(h, head, reason);
    } else if (h->restarts >= h->spec->job.max_restarts) {
        head_fail(h, head, reason);
    } else {
        h->failure = head_reason_failure(h, head, reason);
        head_restart(h);
    }
}

const json_t *head_lost_nodes(const struct ag_head *h) { return h->lost_nodes; }
