/* SPDX-License-Identifier: Apache-2.0 */
/* election.c - see election.h. */
#include "agent/head/election.h"

enum {
    LEASE_LEAST_MS = 3000, /* a head pings once a second */
    FENCE_MS =
        2500, /* after its lease the head ends its processes: grace, and one turn of its loop */
    ELECT_MS = 30000 /* for rounds of all candidates */
};

uint64_t election_lease_ms(uint64_t detach_ms) {
    return detach_ms / 2 > LEASE_LEAST_MS ? detach_ms / 2 : LEASE_LEAST_MS;
}

/* A head that is still attached ends without paddlectl after attach_ms. */
static uint64_t vote_ms(uint64_t detach_ms, uint64_t attach_ms) {
    const uint64_t lease = election_lease_ms(detach_ms);
    return (lease > attach_ms ? lease : attach_ms) + FENCE_MS;
}

uint64_t election_wait_ms(uint64_t detach_ms, uint64_t attach_ms) {
    const uint64_t ms = vote_ms(detach_ms, attach_ms) + ELECT_MS;
    return ms > detach_ms ? ms : detach_ms;
}

void election_init(struct election *e, int self, int n_nodes, uint64_t detach_ms,
                   uint64_t attach_ms) {
    *e = (struct election){.self = self,
                           .lease_ms = election_lease_ms(detach_ms),
                           .vote_ms = vote_ms(detach_ms, attach_ms),
                           .voted = -1};
    e->voters.n = n_nodes < ELECTION_VOTERS ? n_nodes : ELECTION_VOTERS;
    for (int i = 0; i < e->voters.n; i++)
        e->voters.node[i] = i;
}

static int place_of(const struct election *e, int node) {
    for (int i = 0; i < e->voters.n; i++)
        if (e->voters.node[i] == node)
            return i;
    return -1;
}

static int majority(const struct election *e) { return e->voters.n / 2 + 1; }

int election_open(const struct election *e) { return e->voters.n >= ELECTION_LEAST; }
int election_has(const struct election *e, int node) { return place_of(e, node) >= 0; }

/* --- the head --- */

void election_lead(struct election *e) {
    for (int i = 0; i < e->voters.n; i++) {
        e->acked_ms[i] = e->standing && e->granted[i] ? e->asked_ms : 0;
        e->stored[i] = 0;
    }
    e->voters.term = e->followed = e->self;
    e->voters.number = 1;
    e->voted = -1;
    e->standing = 0;
    e->leads = 1;
}

void election_acked(struct election *e, int node, uint64_t sent_ms) {
    const int i = place_of(e, node);
    if (i >= 0 && sent_ms > e->acked_ms[i])
        e->acked_ms[i] = sent_ms;
}

void election_stored(struct election *e, int node, int64_t number) {
    const int i = place_of(e, node);
    if (i >= 0 && number > e->stored[i] && number <= e->voters.number)
        e->stored[i] = number;
}

void election_changed(struct election *e) { e->voters.number++; }

static int is_stored(const struct election *e) {
    int n = 0;
    for (int i = 0; i < e->voters.n; i++)
        n += e->voters.node[i] == e->self || e->stored[i] == e->voters.number;
    return n >= majority(e);
}

int election_drop(struct election *e, int node, int decided) {
    const int at = place_of(e, node);
    if (at < 0 || node == e->self || (!decided && (!election_open(e) || !is_stored(e))))
        return 0;
    e->voters.n--;
    for (int i = at; i < e->voters.n; i++) {
        e->voters.node[i] = e->voters.node[i + 1];
        e->acked_ms[i] = e->acked_ms[i + 1];
        e->stored[i] = e->stored[i + 1];
    }
    election_changed(e);
    return 1;
}

int election_holds(const struct election *e, uint64_t now) {
    int n = 0;
    if (!election_open(e) && is_stored(e))
        return 1; /* no other voter can get a majority */
    for (int i = 0; i < e->voters.n; i++)
        n += e->voters.node[i] == e->self || (e->acked_ms[i] && e->acked_ms[i] + e->lease_ms > now);
    return n >= majority(e);
}

/* --- a member --- */

void election_heard(struct election *e, uint64_t when) {
    if (when > e->heard_ms)
        e->heard_ms = when;
}

void election_follow(struct election *e, int head, uint64_t now) {
    e->followed = head;
    e->voted = -1;
    e->standing = 0;
    election_heard(e, now);
}

int election_keep(struct election *e, const struct voters *v) {
    if (v->term != e->followed || e->voted >= 0 || v->n < 1 || v->n > ELECTION_VOTERS ||
        (v->term == e->voters.term && v->number < e->voters.number))
        return -1;
    for (int i = 1; i < v->n; i++)
        if (v->node[i] <= v->node[i - 1])
            return -1;
    e->voters = *v;
    e->standing = 0;
    return 0;
}

/* A candidate that lacks a later list might count a majority of too few nodes. */
static int is_current(const struct election *e, int64_t term, int64_t number) {
    return term > e->voters.term || (term == e->voters.term && number >= e->voters.number);
}

int election_vote(struct election *e, int candidate, int64_t term, int64_t number, int trial,
                  uint64_t now) {
    const int again = candidate == e->voted;
    if (e->leads || candidate == e->self || candidate < e->followed || !is_current(e, term, number))
        return 0;
    if (!again && (candidate == e->followed || now - e->heard_ms < e->vote_ms))
        return 0;
    if (!trial) {
        e->followed = e->voted = candidate;
        e->standing = 0;
        e->heard_ms = now;
    }
    return 1;
}

/* --- a candidate --- */

/* Lower ids begin earlier, so that candidates rarely meet. */
static uint64_t delay_ms(const struct election *e) {
    int before = 0;
    for (int i = 0; i < e->voters.n; i++)
        before += e->voters.node[i] > e->followed && e->voters.node[i] < e->self;
    return (uint64_t)before * ELECTION_ROUND_MS;
}

int election_stand(struct election *e, uint64_t now) {
    if (e->standing || !election_open(e) || !election_has(e, e->self) || e->self <= e->followed ||
        now < e->next_ms || now - e->heard_ms < e->vote_ms + delay_ms(e))
        return 0;
    e->standing = e->trial = 1;
    e->asked_ms = now;
    memset(e->granted, 0, sizeof e->granted);
    return 1;
}

enum election_step election_grant(struct election *e, int node, int trial, uint64_t now) {
    const int at = place_of(e, node);
    int n = 1; /* its own vote is the last one */
    if (!e->standing || trial != e->trial || at < 0 || now - e->heard_ms < e->vote_ms)
        return ELECTION_WAIT;
    e->granted[at] = 1;
    for (int i = 0; i < e->voters.n; i++)
        n += e->granted[i];
    if (n < majority(e))
        return ELECTION_WAIT;
    if (!e->trial)
        return ELECTION_WON;
    e->trial = 0;
    e->asked_ms = now;
    memset(e->granted, 0, sizeof e->granted);
    return ELECTION_ASK;
}

int election_gives_up(struct election *e, uint64_t now) {
    if (e->standing && now - e->heard_ms >= e->vote_ms && now - e->asked_ms < ELECTION_ROUND_MS)
        return 0;
    if (e->standing)
        e->next_ms = now + ELECTION_ROUND_MS / 3;
    e->standing = 0;
    return 1;
}
