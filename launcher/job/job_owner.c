/* SPDX-License-Identifier: Apache-2.0 */
/* job_owner.c - which paddlectl keeps an attached job alive: its owner, at first the one that
 * started it. Only the owner's messages renew the lease, so no other paddlectl keeps a node alive
 * that the owner has given up (job_takeover.c).
 *
 *     owner is heard ── silent for half a lease on all nodes ──▶ attach claims the job (AG_PING)
 *
 * A claim needs all nodes of the job: a node that still hears the owner, or is not connected, may
 * be about to follow it. An owner that comes back later only looks on. */
#include <sodium.h>

#include "launcher/job/job_internal.h"

/* A claim needs half a lease of silence. Answers come five times a lease. */
enum { QUIET_PART = 3 };

void job_owner_begin(struct job *j) {
    uint8_t token[(sizeof j->c.env.owner - 1) / 2];
    randombytes_buf(token, sizeof token);
    sodium_bin2hex(j->c.env.owner, sizeof j->c.env.owner, token, sizeof token);
    j->owns = !j->joined;
}

/* 1: each node that runs the job has this lease, or is already ours. */
static int all_have(const struct job *j, enum node_lease lease) {
    int n = 0;
    for (int i = 0; i < j->n_nodes; i++) {
        const struct job_node *k = j->by_id[i];
        if (k && AT(k->step) & (AT(NODE_LEFT_OUT) | AT(NODE_ENDED)))
            continue;
        if (!k || k->step != NODE_RUNNING || !k->link || !link_is_open(k->link) ||
            (k->lease != lease && k->lease != LEASE_OURS))
            return 0;
        n++;
    }
    return n;
}

static void claim(struct job *j, int claims) {
    const int begins = claims && !j->c.env.claims;
    j->c.env.claims = claims;
    for (int i = 0; i < j->n_nodes && begins; i++)
        if (j->by_id[i] && j->by_id[i]->link)
            link_ping(j->by_id[i]->link);
}

static void look_on(struct job *j) {
    uv_timer_stop(&j->take_over);
    j->next_head = -1;
    j->demoted = 1;
    j->owns = j->c.env.claims = 0;
    watch_print(j, "another paddlectl keeps the job now; this one looks on");
}

static void keep(struct job *j) {
    j->owns = 1;
    j->c.env.claims = 0;
    watch_print(j, "the paddlectl that kept the job is gone: this one keeps it now%s",
                j->joined ? "; when this one leaves, the job goes on detached" : "");
}

/* No node is heard: another paddlectl may claim all of them. */
static void note_quiet(struct job *j, uint64_t now) {
    uint64_t last = 0, lease_ms = 0;
    for (int i = 0; i < j->n_nodes; i++)
        if (j->by_id[i] && j->by_id[i]->ours_ms > last) {
            last = j->by_id[i]->ours_ms;
            lease_ms = j->by_id[i]->lease_ms;
        }
    if (last && now - last > lease_ms / QUIET_PART)
        j->quiet_ms = now;
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
    outputs_clock_ping(&n->clock, a.sent_ns, a.now_ns, (int64_t)pd_mono_ns());
    const enum node_lease before = n->lease;
    n->lease = lease_of(&a);
    note_quiet(j, uv_now(&j->c.loop));
    if (n->lease == LEASE_OURS)
        n->ours_ms = uv_now(&j->c.loop);
    if (n->lease_ms != (uint64_t)a.lease_ms && a.owned)
        link_keep(n->link, n->lease_ms = (uint64_t)a.lease_ms); /* the job's, not conf.ini's */
    if (j->phase != JOB_FOLLOW || n->step != NODE_RUNNING)
        return;
    if (n->lease >= LEASE_OTHERS && before == LEASE_OURS && j->owns)
        look_on(j);
    else if (!j->owns && all_have(j, LEASE_OURS))
        keep(j);
    else if (!j->owns)
        claim(j, all_have(j, LEASE_FREE) != 0);
}
