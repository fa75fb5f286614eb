/* SPDX-License-Identifier: Apache-2.0 */
/* job_owner.c - which paddlectl keeps an attached job alive: its owner, at first the one that
 * started it. Only the owner's messages renew the lease, so no other paddlectl keeps a node alive
 * that the owner has given up (job_takeover.c).
 *
 *     the owner is silent for half a lease on all nodes ─▶ claim node A ─ ours ─▶ claim the others
 *
 * A claim (AG_PING) needs all nodes of the job: a node that still hears the owner, or is not
 * connected, may be about to follow it. Of several paddlectls that claim at once one wins: node A,
 * the lowest node that runs the job, takes one claim, and only the winner claims the others. A
 * paddlectl that has lost node A shows its token to no node, so that each node it holds is free
 * after half a lease. An owner that comes back later only looks on. */
#include <sodium.h>

#include "launcher/job/job_internal.h"

/* A claim needs half a lease of silence. Answers come five times a lease. */
enum { QUIET_PART = 3 };

void job_owner_begin(struct job *j) {
    uint8_t token[(sizeof j->c.env.owner - 1) / 2];
    char host[200];
    size_t n = sizeof host;
    randombytes_buf(token, sizeof token);
    sodium_bin2hex(j->c.env.owner, sizeof j->c.env.owner, token, sizeof token);
    if (!uv_os_gethostname(host, &n))
        pd_fmt(j->c.env.holder, sizeof j->c.env.holder, "%s (process %d)", host, (int)getpid());
    j->c.env.shows = j->owns = !j->joined;
}

static int is_out(const struct job_node *k) {
    return k && AT(k->step) & (AT(NODE_LEFT_OUT) | AT(NODE_ENDED));
}

static int is_heard(const struct job_node *k) {
    return k && k->step == NODE_RUNNING && k->link && link_is_open(k->link);
}

/* 1: each node that runs the job has this lease, or is already ours. */
static int all_have(const struct job *j, enum node_lease lease) {
    int n = 0;
    for (int i = 0; i < j->n_nodes; i++) {
        const struct job_node *k = j->by_id[i];
        if (is_out(k))
            continue;
        if (!is_heard(k) || (k->lease != lease && k->lease != LEASE_OURS))
            return 0;
        n++;
    }
    return n != 0;
}

/* The node that decides between claims. NULL: it is not connected. */
static const struct job_node *first_node(const struct job *j) {
    int i = 0;
    while (i < j->n_nodes && is_out(j->by_id[i]))
        i++;
    return i < j->n_nodes && is_heard(j->by_id[i]) ? j->by_id[i] : NULL;
}

/* This paddlectl shows its token to some nodes, and claims some of these. */
static void show(struct job *j) {
    const struct job_node *first = first_node(j);
    const int has_won = first && first->lease == LEASE_OURS, may_claim = all_have(j, LEASE_FREE);
    j->c.env.shows = j->owns || has_won || may_claim;
    for (int i = 0; i < j->n_nodes; i++)
        if (j->by_id[i] && j->by_id[i]->link)
            link_claim(j->by_id[i]->link,
                       !j->owns && (has_won || (may_claim && j->by_id[i] == first)));
}

static void look_on(struct job *j) {
    uv_timer_stop(&j->take_over);
    j->next_head = -1;
    j->demoted = 1;
    j->owns = 0;
}

static void keep(struct job *j) {
    j->owns = 1;
    *j->holder = 0;
    watch_print(j, "the paddlectl that kept the job is gone: this one keeps it now%s",
                j->joined ? "; when this one leaves, the job goes on detached" : "");
}

/* Another paddlectl keeps the node, or has until it fell silent. */
static void note_holder(struct job *j, const struct job_node *n, const char *holder, int is_lost) {
    const int is_new = *j->holder && *holder && n == first_node(j) && strcmp(j->holder, holder);
    if (is_lost || is_new)
        watch_print(j, "another paddlectl%s%s keeps the job now; this one looks on",
                    *holder ? " on " : "", holder);
    if (is_lost || n == first_node(j))
        pd_fmt(j->holder, sizeof j->holder, "%s", holder);
}

static void on_look(uv_timer_t *t) {
    struct job *j = t->data;
    for (int i = 0; i < j->n_nodes; i++)
        if (is_heard(j->by_id[i]) && j->by_id[i]->lease != LEASE_OURS)
            link_ping(j->by_id[i]->link);
}

/* The owner misses a ping, which it sends five times a lease: ask again when it can be claimed. The
 * nodes' leases leave little time for the claims. */
static void look_soon(struct job *j, const struct ag_ping_answer *a) {
    if (a->silent_ms > a->lease_ms / 10 * 3 && !uv_is_active((uv_handle_t *)&j->look))
        uv_timer_start(&j->look, on_look, (uint64_t)(a->lease_ms / 2 - a->silent_ms + 1), 0);
}

/* No node is heard: another paddlectl may claim all of them. */
static void note_quiet(struct job *j, uint64_t now) {
    if (j->ours_ms && now - j->ours_ms > j->ours_lease_ms / QUIET_PART)
        j->quiet_ms = now;
}

void job_is_ours(struct job_node *n) {
    n->lease = LEASE_OURS;
    n->ours_ms = n->job->ours_ms = uv_now(&n->job->c.loop);
    n->job->ours_lease_ms = n->lease_ms;
}

int job_is_fenced(const struct job_node *n) {
    note_quiet(n->job, uv_now(&n->job->c.loop));
    return n->ours_ms > n->job->quiet_ms;
}

static enum node_lease lease_of(const struct ag_ping_answer *a) {
    return !a->owned                         ? LEASE_NONE
           : a->owner                        ? LEASE_OURS
           : a->silent_ms >= a->lease_ms / 2 ? LEASE_FREE
                                             : LEASE_OTHERS;
}

void job_pinged(struct job_node *n, const json_t *body) {
    struct job *j = n->job;
    struct ag_ping_answer a;
    if (wire_get(&wire_ag_ping_answer, &a, body, NULL))
        return;
    outputs_clock_ping(&n->clock, a.sent_ns, a.now_ns, (int64_t)pd_mono_ns(), a.boot);
    const enum node_lease before = n->lease;
    n->lease = lease_of(&a);
    note_quiet(j, uv_now(&j->c.loop));
    if (n->lease == LEASE_OURS)
        job_is_ours(n);
    if (n->lease_ms != (uint64_t)a.lease_ms && a.owned)
        link_keep(n->link, n->lease_ms = (uint64_t)a.lease_ms); /* the job's, not conf.ini's */
    if (j->phase != JOB_FOLLOW || n->step != NODE_RUNNING)
        return;
    if (j->owns && j->c.env.shows && before == LEASE_OURS && n->lease == LEASE_OURS)
        return; /* nothing has changed, and what follows looks at all nodes */
    if (n->lease >= LEASE_OTHERS) {
        const int is_lost = before == LEASE_OURS && j->owns;
        if (is_lost)
            look_on(j);
        if (!j->owns)
            note_holder(j, n, a.holder, is_lost);
        if (n->lease == LEASE_OTHERS)
            look_soon(j, &a);
    }
    if (!j->owns && all_have(j, LEASE_OURS))
        keep(j);
    show(j);
}
