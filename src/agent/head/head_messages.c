/* SPDX-License-Identifier: Apache-2.0 */
/* head_messages.c - answers and events of the nodes: what each message changes in the head. head.c
 * has the states that follow. */
#include "agent/core/msg.h"
#include "agent/head/head_internal.h"
#include "wire/msg.h"

/* Our pservers exit after the last trainer's goodbye, slightly before the head hears of the
 * trainer's exit. If the head has not heard of it after end_ms, that trainer or its agent hangs. A
 * node that is away may have its exit to report; its lease decides. A user's pserver that exits is
 * itself the failure, because trainers would wait for it for ever. */
static void on_early(uv_timer_t *t) {
    struct ag_head *h = t->data;
    if (h->state != HEAD_TRAINERS)
        return;
    for (int i = 0; i < h->roles.n[ROLE_TRAINER] && !*h->spec->command[ROLE_PSERVER]; i++) {
        const int node = h->roles.nodes[ROLE_TRAINER][i];
        const struct hd_exited x = {
            .role = role_names[ROLE_TRAINER], .rank = i, .exit_code = -1, .last_lines = ""};
        if (h->node[node].exited[ROLE_TRAINER])
            continue;
        if (!h->node[node].joined)
            uv_timer_start(t, on_early, h->spec->job.end_ms + 1, 0);
        else
            head_note_failure(
                h, node,
                head_process_failure(h, node, &x,
                                     "the pservers have ended, but its end is not reported"),
                0, 1);
        return;
    }
    head_note_failure(h, h->early_node, json_incref(h->early_exit), h->early_time, 1);
}

static void watch_early(struct ag_head *h, int node, const struct hd_exited *x) {
    if (h->early_exit)
        return;
    h->early_node = node;
    h->early_exit = head_process_failure(h, node, x, "it ended before the trainers");
    h->early_time = x->time;
    uv_timer_start(&h->early, on_early, h->spec->job.end_ms, 0);
}

static int take_exit(struct ag_head *h, int node, const json_t *body, struct pd_err *err) {
    struct head_node *n = &h->node[node];
    struct hd_exited x;
    if (wire_get(&wire_hd_exited, &x, body, err))
        return err->code;
    const int r = role_of(x.role);
    if (r < 0 || n->exited[r])
        return 0;
    if (r == ROLE_TRAINER && x.alone != n->alone)
        return 0; /* the node repeats an old exit; it does not know yet that its trainer was
                     restarted */
    n->exited[r] = 1;
    if (r == ROLE_TRAINER)
        n->trained = (int)x.trained;
    if (h->state == HEAD_STOPPING)
        head_check(h);
    if (h->state == HEAD_RESTARTING || h->state == HEAD_CLOSING || h->state == HEAD_OVER ||
        h->state == HEAD_STOPPING || x.ending)
        return 0; /* the node ends its processes on purpose */
    if (h->state == HEAD_SAVING && *h->spec->command[r])
        head_check(h); /* after TERM any exit status of a user's program is accepted */
    else if (x.exit_code != 0)
        head_note_exit(h, node, &x);
    else if (h->state == HEAD_PSERVERS)
        head_note_failure(
            h, node, head_process_failure(h, node, &x, "it ended before all pservers listened"),
            x.time, 1);
    else if (h->state == HEAD_TRAINERS && r == ROLE_PSERVER && h->roles.n[ROLE_TRAINER])
        watch_early(h, node, &x);
    else
        head_check(h);
    return 0;
}

/* The node refused a request, or sent a body that the tables of wire/bodies.h refuse. */
static void fail_node(struct ag_head *h, int node, const struct pd_err *err) {
    head_note_failure(h, node, head_reason_failure(h, node, err->msg), 0, 0);
}

static int take_probe(struct ag_head *h, int prober, const json_t *body, struct pd_err *err) {
    int target = h->node[prober].probes;
    struct hd_probe_answer a;
    if (wire_get(&wire_hd_probe_answer, &a, body, err))
        return err->code;
    if (net_is_ip(a.addr)) {
        snprintf(h->node[target].addr, sizeof h->node[target].addr, "%s", a.addr);
        return 0;
    }
    json_t *c = head_candidates(h, target);
    char *list = json_dumps(c, JSON_COMPACT), reason[500];
    snprintf(reason, sizeof reason,
             "node %d (%.60s) reaches none of its addresses %.250s: choose one with nic, or open "
             "the ports",
             prober, head_host(h, prober), list ? list : "");
    free(list);
    json_decref(c);
    head_note_failure(h, target, head_reason_failure(h, target, reason), 0, 0);
    return 0;
}

static int take_bind(struct ag_head *h, int node, const json_t *body, struct pd_err *err) {
    struct hd_bind_answer a;
    if (wire_get(&wire_hd_bind_answer, &a, body, err))
        return err->code;
    h->node[node].ports[ROLE_PSERVER] = (int)a.pserver_port;
    h->node[node].ports[ROLE_TRAINER] = (int)a.trainer_port;
    return 0;
}

/* `role` is "agent" if the node leaves the job. A process that is ended can't become ready. */
static void take_reason(struct ag_head *h, int node, const char *reason, const char *role) {
    if (!strcmp(role, "agent"))
        head_give_up(h, node, reason);
    else if (!*role || h->state != HEAD_RESTARTING)
        head_note_failure(h, node, head_reason_failure(h, node, reason), 0, *role != 0);
}

static int take_fail(struct ag_head *h, int node, const json_t *body, struct pd_err *err) {
    struct hd_fail f;
    if (!wire_get(&wire_hd_fail, &f, body, err))
        take_reason(h, node, f.reason, f.role);
    return err->code;
}

int head_take_pass(struct ag_head *h, int node, const json_t *body, struct pd_err *err) {
    struct hd_pass x;
    if (wire_get(&wire_hd_pass, &x, body, err))
        return err->code;
    if (x.event && x.number > h->node[node].n_passes) {
        h->node[node].n_passes = x.number;
        h->io.pass(h->arg, node, body, x.event);
    }
    return 0;
}

/* A client told the node to stop the job. */
static int take_stop(struct ag_head *h, const json_t *body, struct pd_err *err) {
    struct hd_stop_job s;
    if (wire_get(&wire_hd_stop_job, &s, body, err))
        return err->code;
    if (s.save)
        head_save(h, (unsigned)s.save_ms, (unsigned)s.grace_ms, s.reason);
    else
        head_stop(h, (unsigned)s.grace_ms, s.reason);
    return 0;
}

/* Handles the answer to the current state's request. */
static int take_answer(struct ag_head *h, int node, uint16_t type, const json_t *body,
                       struct pd_err *err) {
    struct hd_stop_answer stop = {0};
    if (type == WIRE_HD_PROBE)
        return take_probe(h, node, body, err);
    if (type == WIRE_HD_BIND)
        return take_bind(h, node, body, err);
    if (type == WIRE_HD_STOP && !wire_get(&wire_hd_stop_answer, &stop, body, err) && !stop.trainer)
        h->node[node].exited[ROLE_TRAINER] = 1;
    return err->code;
}

/* Handles a message that answers no request. 1: `type` is not such a message. */
static int take_event(struct ag_head *h, int node, uint16_t type, const json_t *body,
                      struct pd_err *err) {
    switch (type) {
    case WIRE_HD_EXITED:
        return take_exit(h, node, body, err);
    case WIRE_HD_READY:
        h->node[node].ready = 1;
        head_check(h);
        return 0;
    case WIRE_HD_FAIL:
        return take_fail(h, node, body, err);
    case WIRE_HD_PASS:
        return head_take_pass(h, node, body, err);
    case WIRE_HD_STOP_JOB:
        return take_stop(h, body, err);
    default:
        return 1;
    }
}

void head_message(struct ag_head *h, int node, uint16_t type, uint64_t req, const json_t *body,
                  const struct pd_err *refused) {
    struct head_node *n = &h->node[node];
    struct pd_err err = {0};
    if (h->state == HEAD_OVER || h->gone[node])
        return;
    if (take_event(h, node, type, body, &err) == 1) {
        if (!n->asked || n->answered || req != n->req)
            return; /* an answer to a request of an earlier state */
        n->answered = 1;
        head_pace(h, node);
        if (refused)
            err = *refused;
        else
            take_answer(h, node, type, body, &err);
        if (!err.code)
            head_check(h);
    }
    if (err.code)
        fail_node(h, node, &err);
}

void head_joined(struct ag_head *h, int node, const json_t *body) {
    struct head_node *n = &h->node[node];
    struct hd_join join;
    struct pd_err err = {0};
    const json_t *v;
    size_t i;
    uint16_t type;
    if (h->left || head_is_gone(h, node)) /* gone: its roles have moved to other nodes */
        return;
    if (wire_get(&wire_hd_join, &join, body, &err)) {
        fail_node(h, node, &err);
        return;
    }
    if (n->ever_joined && join.incarnation != n->incarnation) {
        head_fail(h, node, "its agent was started again in the middle of the job");
        return;
    }
    /* A restart of one trainer is known to its node only. */
    if (h->took_over && h->state == HEAD_RESTARTING && !n->ever_joined &&
        join.restarts >= h->restarts && join.restarts < INT32_MAX)
        h->attempt = h->restarts = (int)join.restarts + 1;
    n->joined = n->ever_joined = 1;
    n->lost_ns = 0;
    n->incarnation = join.incarnation;
    snprintf(n->net_id, sizeof n->net_id, "%s", join.net_id);
    snprintf(n->machine, sizeof n->machine, "%s", join.machine);
    if (json_array_size(join.ready))
        n->ready = 1;
    json_array_foreach (join.passes, i, v)
        if (head_take_pass(h, node, v, &err)) {
            fail_node(h, node, &err);
            break;
        }
    json_array_foreach (join.exited, i, v)
        if (take_exit(h, node, v, &err)) {
            fail_node(h, node, &err);
            break;
        }
    if (*join.failed)
        take_reason(h, node, join.failed, join.failed_role);
    if (h->state == HEAD_OVER) /* it was away when the head sent HD_END */
        h->io.send(h->arg, node, WIRE_HD_END, ++h->next_req, head_ask_end(h, node, &type));
    head_asks_too(h, node);
}
