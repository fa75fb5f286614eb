/* SPDX-License-Identifier: Apache-2.0 */
/* job_takeover.c - the node of the head is lost: another node takes the head's part.
 *
 *     node 0 is lost ─▶ its processes have ended for certain ─▶ AG_DATA_LIST, AG_JOB_HEAD to the
 *     lowest remaining node ─▶ its AG_STATE names it as the head ─▶ AG_JOB_HEAD to the others
 *
 * paddlectl decides this alone. A node that does not hear paddlectl for attach_lease ends its
 * processes, and paddlectl closes its connection and waits for that long. docs/folders/head.md has
 * the case in which an old head lives longer. If no connection of paddlectl remains (a
 * detached job), no node takes over. */
#include "launcher/job/job_internal.h"

enum {
    ASK_MS = 5000, /* AG_JOB_HEAD: the agent answers at once */
    ASKS = 3,      /* of a node that does not answer; it may repeat what was done */
    TURN_MS = 200,
    REFUSED_MS = 2000, /* then the next node is asked, unless the job has ended */
    GIVE_UP_MS = 3000, /* no node can be asked: the last results may still come */
    FENCE_MS =
        2500, /* to end the processes after the lease: LEASE_GRACE_MS of the agent, and more */
    PASSES_BYTES = 2 << 20, /* the newest reports of passes that are kept, as JSON */
};

/* --- the reports of passes, which the head keeps --- */

static size_t json_bytes(const json_t *o) { return json_dumpb(o, NULL, 0, JSON_COMPACT) + 1; }

static void drop_oldest_passes(struct job *j, size_t most) {
    for (; j->passes_bytes > most && json_array_size(j->passes); json_array_remove(j->passes, 0))
        j->passes_bytes -= json_bytes(json_array_get(j->passes, 0));
}

/* As the agent counts its HD_PASS (src/agent/process/node.c). */
void job_hear_pass(struct job_node *n, const char *json, size_t len) {
    struct job *j = n->job;
    if (!job_may_restart(j) ||
        (!memmem(json, len, "\"saved\"", 7) && !memmem(json, len, "\"test\"", 6)))
        return;
    json_t *o = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
    const char *ev = json_string_value(json_object_get(o, "ev"));
    if (ev && (!strcmp(ev, "saved") || !strcmp(ev, "test"))) {
        json_t *pass =
            wire_put(&wire_hd_pass, &(struct hd_pass){.number = ++n->n_passes, .event = o});
        json_t *heard =
            wire_put(&wire_heard_pass, &(struct heard_pass){.node = n->id, .pass = pass});
        if (!j->passes)
            j->passes = json_array();
        if (!json_array_append(j->passes, heard))
            j->passes_bytes += json_bytes(heard);
        drop_oldest_passes(j, PASSES_BYTES);
        json_decref(heard);
        json_decref(pass);
    }
    json_decref(o);
}

/* --- may another node take over? --- */

int job_may_restart(const struct job *j) {
    return j->opts->on_failure == PD_FAILURE_RESTART && j->opts->max_restarts > 0;
}

/* The job must be attached and in a state from which the head would restart it (head_fail.c). */
static int may_take_over(const struct job *j) {
    return job_may_restart(j) && j->phase == JOB_FOLLOW && !j->joined && !j->demoted && !j->left &&
           !j->flags.detach && j->began && !pd_starts_with(j->state, "saving") &&
           !pd_starts_with(j->state, "ending");
}

/* The lowest node that runs the job and has not refused; NULL: there is none, or the job has ended
 * on one. */
static struct job_node *successor(const struct job *j) {
    struct job_node *first = NULL;
    for (int i = j->n_nodes; i-- > 0;) {
        struct job_node *n = j->by_id[i];
        if (n->id > j->head && n->step == NODE_RUNNING && !n->refused)
            first = n;
        if (n->id != j->head && n->step == NODE_ENDED)
            return NULL;
    }
    return first;
}

/* --- the requests --- */

static void on_turn(uv_timer_t *t);

static json_t *peer_of(const struct job_node *n) {
    return wire_put(&wire_job_peer,
                    &(struct job_peer){.name = n->host->label, .addrs = n->addrs, .port = n->port});
}

static const char *why_lost(const struct job_node *n) {
    const json_t *f = json_object_get(n->result, "first_failure");
    const char *reason = json_string_value(json_object_get(f, "reason"));
    if (n->err.code == PD_ECLOSED) /* the long text was printed */
        return "paddlectl's connection to it was lost and did not come back";
    return n->err.code ? n->err.msg : reason && *reason ? reason : "its agent is gone";
}

/* 0, or -1: out of memory. */
static int add_lost(json_t *list, const struct job_node *n) {
    return json_array_append_new(
        list, wire_put(&wire_lost_node, &(struct lost_node){.node = n->id,
                                                            .host = n->host->label,
                                                            .reason = why_lost(n)}));
}

/* The nodes that the head had lost, in its order, and those that are lost with it. NULL: out of
 * memory. */
static json_t *all_lost(const struct job *j) {
    json_t *list = j->lost ? json_copy(j->lost) : json_array();
    int rc = 0;
    for (int i = 0; i < j->n_nodes; i++) {
        const struct job_node *n = j->by_id[i];
        if (n->id != j->head && AT(n->step) & LOST)
            rc |= add_lost(list, n);
    }
    rc |= add_lost(list, j->by_id[j->head]);
    if (rc) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* A node that does not answer may have done what it was asked. The request has no effect then, so
 * it is sent again. If the next head never answers, it counts as lost, and its lease must end
 * before another node is asked. A node that refuses is no head. */
static int on_told(struct link *l, const struct wire_frame *f, json_t *body,
                   const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    struct job *j = n->job;
    const int is_next = n->id == j->next_head && n->id != j->head;
    (void)f;
    (void)body;
    if (!err || !link_is_open(l)) /* closed: job_tell_head again, or the node is lost */
        return 1;
    if (err->code == PD_ETIMEOUT && ++n->n_asked < ASKS) {
        job_tell_head(n);
    } else if (err->code == PD_ETIMEOUT && is_next) {
        node_fail(n, err);
    } else {
        watch_node(n, "", 1, ": %s", err->msg);
        n->refused = 1;
        if (is_next) {
            j->next_head = -1;
            uv_timer_start(&j->take_over, on_turn, REFUSED_MS, 0);
        }
    }
    return 1;
}

json_t *job_head_body(struct job *j, int head, json_t *nodes, json_t *lost) {
    struct ag_job_head m = {.head = head, .nodes = nodes, .lost = lost};
    if (lost) { /* the message to the head itself */
        const size_t n = json_bytes(nodes) + json_bytes(lost) + 200;
        drop_oldest_passes(j, n < WIRE_JSON_MAX ? WIRE_JSON_MAX - n : 0);
        m.passes = j->passes;
    }
    return nodes ? wire_put(&wire_ag_job_head, &m) : NULL;
}

static void tell(struct job_node *n, int head, json_t *nodes, json_t *lost) {
    json_t *body = job_head_body(n->job, head, nodes, lost);
    if (!body || link_request(n->link, WIRE_AG_JOB_HEAD, body, NULL, 0, ASK_MS,
                              "naming the new head", on_told, n))
        node_fail_memory(n);
    json_decref(nodes);
    json_decref(lost);
}

static void make_head(struct job_node *n) {
    struct job *j = n->job;
    json_t *nodes = json_array();
    json_t *lost = all_lost(j);
    int rc = lost ? 0 : -1;
    for (int i = 0; i < j->n_nodes; i++)
        rc |= json_array_append_new(nodes, peer_of(j->by_id[i]));
    if (!rc) {
        tell(n, n->id, nodes, lost);
        return;
    }
    json_decref(nodes);
    json_decref(lost);
    node_fail_memory(n);
}

void job_tell_head(struct job_node *n) {
    struct job *j = n->job;
    if (n->step != NODE_RUNNING || !n->link || !link_is_open(n->link))
        return;
    if (n->id == j->next_head && j->head != n->id)
        send_data_list(n, 0, make_head);
    else if (j->took_over && n->id != j->head)
        tell(n, j->head, json_pack("[o]", peer_of(j->by_id[j->head])), NULL);
}

/* --- the course --- */

static void on_turn(uv_timer_t *t) {
    struct job *j = t->data;
    struct job_node *n = successor(j);
    if (!may_take_over(j) || !n) {
        job_limit_wait(j, GIVE_UP_MS);
    } else if (!n->link || !link_is_open(n->link)) { /* it comes back, or is lost, too */
        uv_timer_start(t, on_turn, TURN_MS, 0);
    } else {
        j->next_head = n->id;
        n->n_asked = 0;
        job_tell_head(n);
    }
}

int job_head_lost(struct job_node *n, int has_ended) {
    struct job *j = n->job;
    const int is_head = n->id == j->head;
    const struct job_node *next = successor(j);
    uint64_t now = uv_now(&j->c.loop), wait = 0;
    if ((!is_head && n->id != j->next_head) || !may_take_over(j) || !next)
        return 0;
    if (!has_ended && !job_is_fenced(n)) {
        watch_node(n, "", 1, ": another paddlectl may keep it alive, so no node takes over");
        return 0;
    }
    if (is_head && job_takes_over(j))
        return 1;
    /* Its lease begins when it hears paddlectl no more. */
    if (!has_ended && n->link)
        link_close(n->link);
    if (!has_ended)
        wait =
            (n->lost_ms ? n->lost_ms : now) + (uint64_t)(j->opts->attach_lease * 1000) + FENCE_MS;
    wait = wait > now ? wait - now : 0;
    j->next_head = -1;
    if (wait)
        watch_node(next, "", 1,
                   " takes over as the head in %.1f s: until then %s may have processes",
                   (double)wait / 1000, n->host->label);
    uv_timer_start(&j->take_over, on_turn, wait, 0);
    return 1;
}

int job_takes_over(const struct job *j) {
    return j->next_head >= 0 || uv_is_active((const uv_handle_t *)&j->take_over);
}

void job_head_is(struct job *j, int head) {
    if (head <= j->head || head >= j->n_nodes)
        return;
    j->head = head;
    j->next_head = -1;
    j->took_over = j->ran;
    if (j->joined && job_node_by_id(j, head)) /* attach; `run` shows what the head says */
        watch_node(job_node_by_id(j, head), "", 1, " is the head now");
    for (int i = 0; i < j->n_nodes && j->took_over; i++) {
        j->by_id[i]->n_asked = j->by_id[i]->refused = 0;
        job_tell_head(j->by_id[i]);
    }
    watch_sum_up(j);
}
