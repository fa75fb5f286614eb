/* SPDX-License-Identifier: Apache-2.0 */
/* job_vote.c - the election of a head in a detached job: messages and connections. The rules are in
 * head/election.h.
 *
 *     head ── HD_KEEP, HD_HEARD ──▶ voters      while all is well: what a next head needs
 *     candidate ── HD_VOTE ──▶ other voters     the head is silent (a connection of role VOTE each)
 *     next head ── HD_HEAD ──▶ other nodes      until they have joined it
 *
 * The head also sends HD_KEEP in an attached job, which may be detached later. */
#include "agent/job_internal.h"
#include "agent/core/msg.h"
#include "wire/msg.h"

enum {
    CALLS_MAX = 64, /* at a time; a head may have thousands of nodes to call */
    CALL_MS = 2000,
    HEARD_BYTES = 2 << 20
};

struct vote_call {
    struct ag_job *j;
    struct net_conn *conn;
    int node, is_open;
    int asks; /* HD_VOTE; 0: HD_HEAD */
    struct vote_call *next;
};

static uint64_t now_ms(void) { return pd_mono_ns() / 1000000u; }

static int is_lost(const json_t *lost, int node) {
    const json_t *v;
    struct lost_node l;
    size_t i;
    json_array_foreach (lost, i, v)
        if (!wire_get(&wire_lost_node, &l, v, NULL) && l.node == node)
            return 1;
    return 0;
}

void ag_vote_init(struct ag_job *j) {
    const struct job_spec *s = &j->spec.job;
    election_init(&j->election, j->spec.node, j->spec.n_nodes, s->detach_lease_ms,
                  j->spec.began_attached ? s->attach_lease_ms : 0);
    if (!j->spec.node)
        j->election.leads = 1;
}

static int may_vote(const struct ag_job *j) {
    return head_may_be_chosen(&j->spec) && !j->spec.job.attached && ag_job_is_live(j) &&
           !j->result && !j->ending && !j->stopping && (!*j->end_status || j->restarting);
}

/* --- reports of passes: each node that may become the head has the newest ones --- */

static void drop_oldest(struct ag_job *j, size_t most) {
    for (; j->heard_bytes > most && json_array_size(j->heard); json_array_remove(j->heard, 0))
        j->heard_bytes -= json_dumpb(json_array_get(j->heard, 0), NULL, 0, JSON_COMPACT);
}

/* The numbers of a node ascend. */
static int is_known(const struct ag_job *j, const struct heard_pass *p) {
    struct hd_pass of, at;
    struct heard_pass h;
    if (wire_get(&wire_hd_pass, &of, p->pass, NULL))
        return 1;
    for (size_t i = json_array_size(j->heard); i-- > 0;)
        if (!wire_get(&wire_heard_pass, &h, json_array_get(j->heard, i), NULL) && h.node == p->node)
            return wire_get(&wire_hd_pass, &at, h.pass, NULL) || at.number >= of.number;
    return 0;
}

/* Takes `body` over, a body of HD_HEARD. 1: it is new. */
static int keep_heard(struct ag_job *j, json_t *body) {
    struct heard_pass p;
    if (!j->heard)
        j->heard = json_array();
    if (wire_get(&wire_heard_pass, &p, body, NULL) || p.node >= j->spec.n_nodes ||
        is_known(j, &p) || json_array_append(j->heard, body)) {
        json_decref(body);
        return 0;
    }
    j->heard_bytes += json_dumpb(body, NULL, 0, JSON_COMPACT);
    drop_oldest(j, HEARD_BYTES);
    json_decref(body);
    return 1;
}

void ag_vote_heard(struct ag_job *j, int node, const json_t *pass) {
    const struct voters *v = &j->election.voters;
    if (!head_may_be_chosen(&j->spec))
        return;
    json_t *body = wire_put(&wire_heard_pass,
                            &(struct heard_pass){.node = node, .pass = (json_t *)(uintptr_t)pass});
    const int is_new = keep_heard(j, json_incref(body));
    for (int i = 0; i < v->n && is_new; i++)
        if (v->node[i] != j->spec.node)
            peer_link_send(j->link, v->node[i], WIRE_HD_HEARD, 0, json_incref(body));
    json_decref(body);
}

/* --- the head: what the voters keep --- */

static json_t *all_peers(const struct ag_job *j) {
    json_t *a = json_array();
    struct job_peer p;
    for (int i = 0; i < j->spec.n_nodes; i++) {
        if (wire_get(&wire_job_peer, &p, json_array_get(j->peers, (size_t)i), NULL))
            break;
        p.addrs = head_addrs(j->head, i);
        json_array_append_new(a, wire_put(&wire_job_peer, &p));
        json_decref(p.addrs);
    }
    return a;
}

static json_t *keep_body(const struct ag_job *j) {
    const struct voters *v = &j->election.voters;
    struct hd_keep m = {.number = v->number,
                        .voters = json_array(),
                        .nodes = all_peers(j),
                        .lost = (json_t *)(uintptr_t)head_lost_nodes(j->head)};
    for (int i = 0; i < v->n; i++)
        json_array_append_new(m.voters, json_integer(v->node[i]));
    json_t *body = wire_put(&wire_hd_keep, &m);
    json_decref(m.voters);
    json_decref(m.nodes);
    if (body && json_dumpb(body, NULL, 0, JSON_COMPACT) < WIRE_JSON_MAX)
        return body;
    pd_warn(ag_job_log(j), "the list of the job's nodes is too long for a next head");
    json_decref(body);
    return NULL;
}

static void send_keep(struct ag_job *j, int node, const json_t *body) {
    if (body)
        peer_link_send(j->link, node, WIRE_HD_KEEP, 0, json_incref((json_t *)(uintptr_t)body));
}

void ag_vote_joined(struct ag_job *j, int node) {
    const json_t *v;
    size_t i;
    if (!head_may_be_chosen(&j->spec) || !election_has(&j->election, node) || !j->started)
        return;
    json_t *body = keep_body(j);
    send_keep(j, node, body);
    json_decref(body);
    json_array_foreach (j->heard, i, v)
        peer_link_send(j->link, node, WIRE_HD_HEARD, 0, json_incref((json_t *)(uintptr_t)v));
}

/* paddlectl has decided which nodes are lost, and leaves. They do not vote: they are attached. */
void ag_vote_detached(struct ag_job *j) {
    struct election *e = &j->election;
    for (int i = e->voters.n; j->head && i-- > 0;)
        if (is_lost(head_lost_nodes(j->head), e->voters.node[i]) &&
            election_drop(e, e->voters.node[i], 1))
            j->keep_due = 1;
}

static void update_voters(struct ag_job *j) {
    struct election *e = &j->election;
    const json_t *lost = head_lost_nodes(j->head);
    if (json_array_size(lost) != j->n_lost) {
        j->n_lost = json_array_size(lost);
        election_changed(e);
        j->keep_due = 1;
        ag_job_save_state(j); /* ps shows them */
    }
    for (int i = 0; i < e->voters.n && !j->spec.job.attached; i++)
        if (is_lost(lost, e->voters.node[i]) && election_drop(e, e->voters.node[i], 0)) {
            j->keep_due = 1;
            break; /* the next one when a majority has stored this list */
        }
    if (!j->keep_due)
        return;
    j->keep_due = 0;
    json_t *body = keep_body(j);
    for (int i = 0; i < e->voters.n; i++)
        if (e->voters.node[i] != j->spec.node)
            send_keep(j, e->voters.node[i], body);
    json_decref(body);
}

int ag_vote_waits(struct ag_job *j) {
    const struct election *e = &j->election;
    const uint64_t wait_ms = election_wait_ms(
        j->spec.job.detach_lease_ms, j->spec.began_attached ? j->spec.job.attach_lease_ms : 0);
    if (!may_vote(j) || j->head || peer_link_silent_ms(j->link) >= wait_ms ||
        (election_has(e, j->spec.node) && !election_open(e)))
        return 0;
    if (!j->waits) {
        j->waits = 1;
        pd_warn(ag_job_log(j),
                "node %d is silent: this node ends its processes, and follows "
                "another head",
                j->head_node);
        peer_link_part(j->link);
        node_end(j->node, NODE_RESTART, ag_job_lease_grace_ms(j), NULL);
    }
    return 1;
}

int ag_vote_goes_on(const struct ag_job *j) {
    const struct voters *v = &j->election.voters;
    int n = 0;
    if (!may_vote(j) || !election_open(&j->election))
        return 0;
    for (int i = 0; i < v->n; i++)
        n += v->node[i] != j->spec.node && peer_link_has(j->link, v->node[i]);
    return j->fenced || n >= v->n / 2 + 1;
}

static void step_down(struct ag_job *j) {
    char reason[sizeof j->failed];
    j->fenced = 1;
    snprintf(reason, sizeof reason,
             "no majority of the %d nodes that vote has answered node %d, the head, for %llu ms: "
             "they may choose another head",
             j->election.voters.n, j->spec.node, (unsigned long long)j->election.lease_ms);
    ag_job_end(j, ag_job_lease_grace_ms(j), "agent", reason);
}

/* --- a voter --- */

static int take_keep(struct ag_job *j, const json_t *body, struct pd_err *err) {
    struct hd_keep m;
    struct job_peer peer;
    struct lost_node lost;
    struct voters v = {.term = j->head_node};
    const json_t *o;
    size_t i;
    if (wire_get(&wire_hd_keep, &m, body, err))
        return err->code;
    v.number = m.number;
    json_array_foreach (m.voters, i, o)
        if (v.n < ELECTION_VOTERS && json_is_integer(o) && json_integer_value(o) >= 0 &&
            json_integer_value(o) < j->spec.n_nodes)
            v.node[v.n++] = (int)json_integer_value(o);
    if ((size_t)v.n != json_array_size(m.voters) ||
        json_array_size(m.nodes) != (size_t)j->spec.n_nodes)
        return pd_fail(err, PD_EPROTO, "HD_KEEP: %zu voters, %zu nodes", json_array_size(m.voters),
                       json_array_size(m.nodes));
    json_array_foreach (m.nodes, i, o)
        if (wire_get(&wire_job_peer, &peer, o, err))
            return err->code;
    json_array_foreach (m.lost, i, o)
        if (wire_get(&wire_lost_node, &lost, o, err))
            return err->code;
    json_t *nodes = json_deep_copy(m.nodes);
    json_t *gone = m.lost ? json_deep_copy(m.lost) : json_array();
    if (!nodes || !gone || election_keep(&j->election, &v)) {
        json_decref(nodes);
        json_decref(gone);
        return pd_fail(err, PD_EPROTO, "HD_KEEP: list %lld of node %d is not taken",
                       (long long)m.number, j->head_node);
    }
    json_decref(j->kept_nodes);
    json_decref(j->kept_lost);
    j->kept_nodes = nodes;
    j->kept_lost = gone;
    return 0;
}

int ag_vote_message(struct ag_job *j, int node, const struct wire_frame *f, const json_t *body,
                    const struct pd_err *refused) {
    struct pd_err err = {0};
    struct hd_keep_answer a;
    if (f->type != WIRE_HD_KEEP && f->type != WIRE_HD_HEARD)
        return 0;
    if (refused || !head_may_be_chosen(&j->spec))
        return 1;
    if (f->type == WIRE_HD_HEARD) {
        if (node == PEER_HEAD)
            keep_heard(j, json_deep_copy(body));
    } else if (node != PEER_HEAD) {
        if (j->head && !wire_get(&wire_hd_keep_answer, &a, body, NULL))
            election_stored(&j->election, node, a.number);
    } else if (take_keep(j, body, &err)) {
        pd_warn(ag_job_log(j), "%s", err.msg);
    } else {
        peer_link_send(j->link, PEER_HEAD, WIRE_HD_KEEP, 0,
                       wire_put(&wire_hd_keep_answer,
                                &(struct hd_keep_answer){.number = j->election.voters.number}));
    }
    return 1;
}

static int is_granted(struct ag_job *j, int candidate, const struct hd_vote *m) {
    struct election *e = &j->election;
    const uint64_t now = now_ms();
    if (!may_vote(j) || j->head)
        return 0;
    election_heard(e, now - peer_link_silent_ms(j->link));
    if (!election_vote(e, candidate, m->term, m->number, (int)m->trial, now))
        return 0;
    if (!m->trial) {
        pd_warn(ag_job_log(j), "node %d gets the vote of this node", candidate);
        peer_link_part(j->link);
    }
    return 1;
}

/* A head that was chosen. */
static int take_head(struct ag_job *j, int sender, const json_t *body, struct pd_err *err) {
    struct ag_job_head m;
    if (wire_get(&wire_ag_job_head, &m, body, err))
        return err->code;
    if (m.head != sender || !may_vote(j) || j->head || m.head == j->spec.node ||
        m.head < j->election.followed || m.head < j->head_node)
        return pd_fail(err, PD_EHOST, "node %d is no head of node %d", sender, j->spec.node);
    if (m.head == j->head_node && j->election.voted < 0)
        return 0; /* it is on its way */
    if (!ag_job_has_entries(j, &m, err))
        return err->code;
    json_t *peers = json_deep_copy(m.nodes);
    if (!peers)
        return pd_oom(err, "a new head");
    ag_job_follow_head(j, (int)m.head, peers);
    return 0;
}

void ag_vote_asked(void *job, struct net_conn *c, const struct wire_frame *f) {
    struct ag_job *j = job;
    struct pd_err err = {0};
    struct hd_vote m;
    json_t *body = NULL;
    const int sender = (int)net_peer(c)->id;
    if (!msg_body(f, &body, &err)) {
        if (f->type == WIRE_HD_VOTE && !wire_get(&wire_hd_vote, &m, body, &err))
            msg_send(c, WIRE_HD_VOTE, f->req,
                     wire_put(&wire_hd_vote_answer,
                              &(struct hd_vote_answer){.granted = is_granted(j, sender, &m)}));
        else if (f->type == WIRE_HD_HEAD && !take_head(j, sender, body, &err))
            msg_send(c, WIRE_HD_HEAD, f->req, json_object());
        else if (!err.code)
            pd_fail(&err, PD_EPROTO, "%s is no message about a head", wire_msg_name(f->type));
    }
    json_decref(body);
    if (err.code) {
        pd_info(ag_job_log(j), "node %d: %s", sender, err.msg);
        net_close(c);
    }
}

/* --- calls: a candidate's, and a new head's --- */

static void ask_vote(const struct vote_call *k) {
    const struct election *e = &k->j->election;
    msg_send(k->conn, WIRE_HD_VOTE, k->j->round * UINT64_C(2) + (uint64_t)e->trial,
             wire_put(&wire_hd_vote, &(struct hd_vote){.term = e->voters.term,
                                                       .number = e->voters.number,
                                                       .trial = e->trial}));
}

static void tell_head(const struct vote_call *k) {
    struct ag_job *j = k->j;
    const json_t *own = json_array_get(j->peers, (size_t)j->spec.node);
    json_t *nodes = json_pack("[O]", own);
    msg_send(
        k->conn, WIRE_HD_HEAD, 1,
        wire_put(&wire_ag_job_head, &(struct ag_job_head){.head = j->spec.node, .nodes = nodes}));
    json_decref(nodes);
}

static void on_call_open(struct net_conn *c, void *arg) {
    struct vote_call *k = arg;
    const struct wire_hello *h = net_peer(c);
    k->is_open = 1;
    if (h->role != WIRE_ROLE_AGENT || h->id != (uint32_t)k->node || k->j->quitting)
        net_close(c);
    else if (!k->asks)
        tell_head(k);
    else if (k->j->election.standing)
        ask_vote(k);
}

static void end_calls(struct ag_job *j) {
    for (struct vote_call *k = j->calls; k; k = k->next)
        net_close(k->conn);
}

static void win(struct ag_job *j);

static void take_answer(const struct vote_call *k, const struct wire_frame *f, const json_t *body) {
    struct ag_job *j = k->j;
    struct hd_vote_answer a;
    if (f->req / 2 != j->round || wire_get(&wire_hd_vote_answer, &a, body, NULL) || !a.granted)
        return;
    election_heard(&j->election, now_ms() - peer_link_silent_ms(j->link));
    switch (election_grant(&j->election, k->node, (int)(f->req % 2), now_ms())) {
    case ELECTION_ASK:
        for (k = j->calls; k; k = k->next)
            if (k->asks && k->is_open)
                ask_vote(k);
        break;
    case ELECTION_WON:
        win(j);
        break;
    case ELECTION_WAIT:
        break;
    }
}

static void on_call_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    const struct vote_call *k = arg;
    json_t *body = NULL;
    if (!k->asks)
        net_close(c); /* HD_HEAD is answered */
    else if (f->type == WIRE_HD_VOTE && !(f->flags & WIRE_F_ERROR) && !msg_body(f, &body, NULL))
        take_answer(k, f, body);
    json_decref(body);
    wire_frame_free(f);
}

static void on_call_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct vote_call *k = arg, **at = &k->j->calls;
    (void)c;
    if (why->code)
        pd_debug(ag_job_log(k->j), "a call to node %d: %s", k->node, why->msg);
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    k->j->n_calls--;
    free(k);
}

static void call(struct ag_job *j, int node, int asks) {
    static const struct net_events ev = {on_call_open, on_call_frame, NULL, on_call_close};
    const json_t *nodes = asks ? j->kept_nodes : j->peers;
    struct vote_call *k = j->n_calls < CALLS_MAX ? pd_calloc(1, sizeof *k) : NULL;
    if (!k)
        return;
    *k = (struct vote_call){.j = j, .node = node, .asks = asks, .next = j->calls};
    if (peer_link_connect(j->link, &k->conn, json_array_get(nodes, (size_t)node), j->round,
                          WIRE_ROLE_VOTE, CALL_MS, &ev, k)) {
        free(k);
        return;
    }
    j->calls = k;
    j->n_calls++;
}

static void stand(struct ag_job *j) {
    const struct voters *v = &j->election.voters;
    j->round++;
    pd_info(ag_job_log(j), "node %d asks the other %d voters whether it may be the head",
            j->spec.node, v->n - 1);
    for (int i = 0; i < v->n; i++)
        if (v->node[i] != j->spec.node)
            call(j, v->node[i], 1);
}

/* The election is won: what HD_KEEP and HD_HEARD have brought is what paddlectl says in
 * AG_JOB_HEAD. */
static void win(struct ag_job *j) {
    struct pd_err err = {0};
    struct job_peer old = {.name = ""};
    char reason[200];
    json_t *nodes = json_deep_copy(j->kept_nodes);
    json_t *lost = j->kept_lost ? json_copy(j->kept_lost) : NULL;
    snprintf(reason, sizeof reason, "it was silent for %llu ms, and a majority has chosen node %d",
             (unsigned long long)(now_ms() - j->election.heard_ms), j->spec.node);
    (void)wire_get(&wire_job_peer, &old, json_array_get(nodes, (size_t)j->head_node), NULL);
    int rc = !nodes || !lost;
    if (!rc && !is_lost(lost, j->head_node))
        rc = json_array_append_new(
            lost, wire_put(&wire_lost_node, &(struct lost_node){.node = j->head_node,
                                                                .host = old.name,
                                                                .reason = reason}));
    end_calls(j);
    pd_warn(ag_job_log(j), "node %d is the head now: %d nodes vote", j->spec.node,
            j->election.voters.n);
    const struct ag_job_head m = {.head = j->spec.node, .lost = lost, .passes = j->heard};
    if (rc || ag_job_become_head(j, &m, nodes, &err))
        ag_job_end(j, ag_job_lease_grace_ms(j), "agent", rc ? "out of memory" : err.msg);
    if (rc)
        json_decref(nodes);
    json_decref(lost);
}

/* Until all nodes have joined the new head, or are lost. Each round begins behind the nodes of the
 * last one: CALLS_MAX silent nodes do not keep the others waiting. */
static void announce(struct ag_job *j) {
    const json_t *lost = head_lost_nodes(j->head);
    const int n = j->spec.n_nodes, first = j->called_next;
    if (!j->head_node || now_ms() - j->called_ms < CALL_MS)
        return;
    j->called_ms = now_ms();
    j->round++;
    for (int i = 0; i < n && j->n_calls < CALLS_MAX; i++) {
        const int node = (first + i) % n;
        if (node == j->spec.node || peer_link_has(j->link, node) || is_lost(lost, node))
            continue;
        call(j, node, 0);
        j->called_next = (node + 1) % n;
    }
}

/* --- the course --- */

void ag_vote_tick(struct ag_job *j) {
    struct election *e = &j->election;
    const uint64_t now = now_ms();
    if (!head_may_be_chosen(&j->spec) || !j->link || j->result || j->ending)
        return;
    if (j->head && j->started)
        update_voters(j);
    if (!may_vote(j))
        return;
    if (j->head) {
        if (j->started && !election_holds(e, now))
            step_down(j);
        else
            announce(j);
        return;
    }
    election_heard(e, now - peer_link_silent_ms(j->link));
    if (e->standing && election_gives_up(e, now))
        end_calls(j);
    if (!j->calls && j->kept_nodes && (!j->spec.data_apart || file_has_list(j->data)) &&
        election_stand(e, now))
        stand(j);
}

void ag_vote_close(struct ag_job *j) { end_calls(j); }

void ag_vote_release(struct ag_job *j) {
    json_decref(j->kept_nodes);
    json_decref(j->kept_lost);
    json_decref(j->heard);
}
