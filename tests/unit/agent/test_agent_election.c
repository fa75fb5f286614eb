/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_election.c - the election of a head in a detached job (agent/head/election.h): who
 * gets a vote, what a majority is, and many random networks in which two heads must never act. The
 * whole agents do the same in test_agent_sim. */
#include <setjmp.h>

#include <cmocka.h>

#include "agent/head/election.h"
#include "math/rng.h"

enum { DETACH_MS = 20000, LEASE_MS = 10000, VOTE_MS = 12500 };

static struct election member(int self, int n) {
    struct election e;
    election_init(&e, self, n, DETACH_MS, 0);
    election_heard(&e, 1000);
    return e;
}

static struct election first_head(int n) {
    struct election e = member(0, n);
    e.leads = 1;
    return e;
}

static void times(void **state) {
    (void)state;
    const struct election e = member(1, 3);
    assert_int_equal(e.lease_ms, LEASE_MS);
    assert_int_equal(e.vote_ms, VOTE_MS);
    assert_int_equal(election_lease_ms(100), 3000); /* a head pings once a second */
    assert_true(election_wait_ms(DETACH_MS, 0) > VOTE_MS);
    assert_int_equal(election_wait_ms(600000, 0), 600000);
    /* a head that is still attached may live for attach_lease */
    assert_true(election_wait_ms(DETACH_MS, 50000) > 50000 + 30000);
}

static void a_head_needs_a_majority(void **state) {
    (void)state;
    struct election e = first_head(5);
    assert_false(election_holds(&e, 2000));
    election_acked(&e, 1, 2000);
    assert_false(election_holds(&e, 2001));
    election_acked(&e, 3, 2500);
    election_acked(&e, 3, 2400); /* an older answer changes nothing */
    election_acked(&e, 9, 9000); /* no voter */
    assert_true(election_holds(&e, 2000 + LEASE_MS - 1));
    assert_false(election_holds(&e, 2000 + LEASE_MS));
}

static void two_nodes_elect_nobody(void **state) {
    (void)state;
    struct election head = first_head(2), other = member(1, 2);
    assert_true(election_holds(&head, 999999));
    assert_false(election_stand(&other, 999999));
    assert_int_equal(member(0, 9).voters.n, ELECTION_VOTERS);
    assert_false(election_has(&(struct election){.voters = {.n = 1}}, 7));
}

static void a_vote_needs_silence(void **state) {
    (void)state;
    struct election e = member(2, 3);
    assert_false(election_vote(&e, 1, 0, 0, 0, 1000 + VOTE_MS - 1));
    assert_true(election_vote(&e, 1, 0, 0, 1, 1000 + VOTE_MS));
    assert_int_equal(e.followed, 0); /* that was a trial */
    election_heard(&e, 5000);
    assert_false(election_vote(&e, 1, 0, 0, 0, 1000 + VOTE_MS));
    assert_true(election_vote(&e, 1, 0, 0, 0, 5000 + VOTE_MS));
    assert_int_equal(e.followed, 1);
}

static void one_vote_at_a_time(void **state) {
    (void)state;
    struct election e = member(4, 5);
    const uint64_t t = 1000 + VOTE_MS;
    assert_true(election_vote(&e, 2, 0, 0, 0, t));
    assert_true(election_vote(&e, 2, 0, 0, 0, t + 1)); /* it asks again */
    assert_false(election_vote(&e, 1, 0, 0, 0, t + 999999));
    assert_false(election_vote(&e, 3, 0, 0, 0, t + VOTE_MS));
    assert_true(election_vote(&e, 3, 0, 0, 0, t + 1 + VOTE_MS));
    assert_false(election_vote(&e, 2, 0, 0, 0, t + 999999));
    assert_false(election_vote(&e, 0, 0, 0, 0, t + 999999)); /* no head gets its part back */
}

static void a_head_votes_for_nobody(void **state) {
    (void)state;
    struct election e = first_head(3);
    assert_false(election_vote(&e, 1, 9, 9, 0, 999999));
}

static void a_candidate_wins(void **state) {
    (void)state;
    struct election e = member(1, 5);
    uint64_t t = 1000 + VOTE_MS;
    assert_false(election_stand(&e, t - 1));
    assert_true(election_stand(&e, t));
    assert_false(election_stand(&e, t));
    assert_int_equal(election_grant(&e, 3, 1, t), ELECTION_WAIT);
    assert_int_equal(election_grant(&e, 3, 1, t), ELECTION_WAIT); /* the same voter */
    assert_int_equal(election_grant(&e, 9, 1, t), ELECTION_WAIT);
    assert_int_equal(election_grant(&e, 4, 1, t), ELECTION_ASK);
    assert_int_equal(election_grant(&e, 2, 1, t), ELECTION_WAIT); /* of the trial */
    assert_int_equal(election_grant(&e, 3, 0, t), ELECTION_WAIT);
    assert_int_equal(election_grant(&e, 4, 0, t), ELECTION_WON);
    election_lead(&e);
    assert_int_equal(e.voters.term, 1);
    assert_true(election_holds(&e, t + LEASE_MS - 1)); /* by the votes */
    assert_false(election_holds(&e, t + LEASE_MS));
}

static void a_candidate_that_hears_the_head_gives_up(void **state) {
    (void)state;
    struct election e = member(1, 3);
    const uint64_t t = 1000 + VOTE_MS;
    assert_true(election_stand(&e, t));
    assert_false(election_gives_up(&e, t + ELECTION_ROUND_MS - 1));
    election_heard(&e, t);
    assert_int_equal(election_grant(&e, 2, 1, t), ELECTION_WAIT);
    assert_true(election_gives_up(&e, t + 1));
    assert_false(e.standing);
    assert_false(election_stand(&e, t + 1));
}

static void a_candidate_that_votes_stands_no_more(void **state) {
    (void)state;
    struct election e = member(1, 3);
    const uint64_t t = 1000 + VOTE_MS;
    assert_true(election_stand(&e, t));
    assert_true(election_vote(&e, 2, 0, 0, 0, t));
    assert_int_equal(election_grant(&e, 2, 1, t), ELECTION_WAIT);
    assert_false(election_stand(&e, t + 999999)); /* its term is over */
}

static void lower_ids_begin(void **state) {
    (void)state;
    struct election a = member(1, 4), b = member(3, 4);
    const uint64_t t = 1000 + VOTE_MS;
    assert_true(election_stand(&a, t));
    assert_false(election_stand(&b, t + 2 * ELECTION_ROUND_MS - 1));
    assert_true(election_stand(&b, t + 2 * ELECTION_ROUND_MS));
}

/* The list of voters shrinks by one node at a time, when a majority has the present list. */
static void lost_nodes_vote_no_more(void **state) {
    (void)state;
    struct election head = first_head(5), m = member(1, 5), old = member(4, 5);
    assert_true(election_drop(&head, 4, 0));
    assert_false(election_drop(&head, 3, 0));
    assert_false(election_drop(&head, 4, 0));
    assert_int_equal(election_keep(&m, &head.voters), 0);
    election_stored(&head, 1, head.voters.number);
    election_stored(&head, 2, head.voters.number + 1); /* there is no such list */
    assert_false(election_drop(&head, 3, 0));
    election_stored(&head, 2, head.voters.number);
    assert_true(election_drop(&head, 3, 0));
    assert_int_equal(head.voters.n, 3);
    /* the lost node has an older list */
    assert_false(election_vote(&m, 4, old.voters.term, old.voters.number, 0, 999999));
    assert_true(election_vote(&m, 2, head.voters.term, head.voters.number, 1, 999999));
    assert_int_equal(election_keep(&m, &head.voters), 0);
    assert_int_equal(m.voters.n, 3);
    /* two are left: the head acts without a majority when the other one knows it */
    election_stored(&head, 1, head.voters.number);
    assert_true(election_drop(&head, 2, 0));
    assert_false(election_holds(&head, 999999));
    assert_int_equal(election_keep(&m, &head.voters), 0);
    election_stored(&head, 1, head.voters.number);
    assert_true(election_holds(&head, 999999));
    assert_false(election_stand(&m, 999999));
}

static void a_list_is_checked(void **state) {
    (void)state;
    struct election e = member(1, 3);
    const struct voters good = {.number = 3, .n = 3, .node = {0, 1, 2}};
    struct voters v = good;
    assert_int_equal(election_keep(&e, &v), 0);
    v.number = 2;
    assert_int_equal(election_keep(&e, &v), -1);
    v = good;
    v.term = 2;
    assert_int_equal(election_keep(&e, &v), -1);
    v = good;
    v.n = 0;
    assert_int_equal(election_keep(&e, &v), -1);
    v.n = ELECTION_VOTERS + 1;
    assert_int_equal(election_keep(&e, &v), -1);
    v = (struct voters){.number = 4, .n = 3, .node = {0, 2, 2}};
    assert_int_equal(election_keep(&e, &v), -1);
    assert_true(election_vote(&e, 2, 0, 3, 0, 999999));
    assert_int_equal(election_keep(&e, &good), -1); /* of a head that this node has left */
}

/* --- random networks --- */

enum { N = 5, TURN_MS = 100, DELAY_MS = 4000 };

struct net {
    struct pd_rng_key key;
    uint64_t n_drawn;
    struct election e[N];
    int alive[N], down[N][N];
    int64_t n_heads;
    struct letter {
        uint64_t at, stamp;
        int from, to, kind, trial;
        int64_t term, number;
        struct voters list;
    } box[4096];
    int n;
};

enum { PING, PONG, LIST, STORED, ASK, GRANT, HEAD };

static uint64_t below(struct net *w, uint64_t n) {
    return pd_rng_below(w->key, 0, w->n_drawn++, n);
}

static void post(struct net *w, struct letter l, uint64_t now) {
    l.at = now + below(w, below(w, 10) ? 100 : DELAY_MS);
    if (!w->down[l.from][l.to] && w->n < (int)(sizeof w->box / sizeof w->box[0]))
        w->box[w->n++] = l;
}

static void take(struct net *w, struct letter l, uint64_t now) {
    struct election *e = &w->e[l.to];
    struct letter back = {.from = l.to, .to = l.from, .stamp = l.stamp, .trial = l.trial};
    enum election_step step;
    if (!w->alive[l.to])
        return;
    switch (l.kind) {
    case PING: /* a node answers the head that it follows */
        if (e->leads || e->followed != l.from || e->voted >= 0)
            return;
        election_heard(e, now);
        back.kind = PONG;
        post(w, back, now);
        break;
    case PONG:
        election_acked(e, l.from, l.stamp);
        break;
    case LIST:
        if (e->leads || election_keep(e, &l.list))
            return;
        back.kind = STORED;
        back.number = l.list.number;
        post(w, back, now);
        break;
    case STORED:
        if (e->leads)
            election_stored(e, l.from, l.number);
        break;
    case ASK:
        back.kind = GRANT;
        if (election_vote(e, l.from, l.term, l.number, l.trial, now))
            post(w, back, now);
        break;
    case GRANT:
        if (e->asked_ms > l.stamp) /* of an earlier round */
            return;
        step = election_grant(e, l.from, l.trial, now);
        for (int i = 0; step == ELECTION_ASK && i < N; i++)
            if (i != l.to)
                post(w,
                     (struct letter){.kind = ASK,
                                     .from = l.to,
                                     .to = i,
                                     .stamp = now,
                                     .term = e->voters.term,
                                     .number = e->voters.number},
                     now);
        if (step == ELECTION_WON) {
            election_lead(e);
            w->n_heads++;
        }
        break;
    case HEAD:
        if (!e->leads && l.from >= e->followed && (l.from != e->followed || e->voted >= 0))
            election_follow(e, l.from, now);
        break;
    default:
        break;
    }
}

static void turn_head(struct net *w, int h, uint64_t now) {
    struct election *e = &w->e[h];
    if (!election_holds(e, now)) { /* it leaves for good */
        w->alive[h] = 0;
        return;
    }
    for (int i = 0; i < N; i++)
        if (i != h) {
            struct letter l = {.from = h, .to = i, .stamp = now, .list = e->voters, .kind = PING};
            post(w, l, now);
            l.kind = below(w, 2) ? LIST : HEAD;
            post(w, l, now);
            if (!w->alive[i] && !below(w, 50))
                election_drop(e, i, 0);
        }
}

static void turn(struct net *w, int i, uint64_t now) {
    struct election *e = &w->e[i];
    if (e->standing)
        election_gives_up(e, now);
    if (!election_stand(e, now))
        return;
    for (int k = 0; k < N; k++)
        if (k != i)
            post(w,
                 (struct letter){.kind = ASK,
                                 .from = i,
                                 .to = k,
                                 .stamp = now,
                                 .trial = 1,
                                 .term = e->voters.term,
                                 .number = e->voters.number},
                 now);
}

static void disturb(struct net *w) {
    const int a = (int)below(w, N), b = (int)below(w, N);
    if (below(w, 3))
        w->down[a][b] = !w->down[a][b];
    else if (!below(w, 4))
        w->alive[a] = 0;
    else
        memset(w->down, 0, sizeof w->down);
}

static void deliver(struct net *w, uint64_t now) {
    for (int i = 0; i < w->n;)
        if (w->box[i].at <= now) {
            const struct letter l = w->box[i];
            w->box[i] = w->box[--w->n];
            take(w, l, now);
        } else {
            i++;
        }
}

static int64_t run(uint64_t seed) {
    static struct net w;
    memset(&w, 0, sizeof w);
    w.key = pd_rng_key(seed, 0, 0, 0);
    for (int i = 0; i < N; i++) {
        election_init(&w.e[i], i, N, 6000, 0);
        election_heard(&w.e[i], 1);
        w.alive[i] = 1;
        election_acked(&w.e[0], i, 1);
    }
    w.e[0].leads = 1;
    for (uint64_t now = 1; now < 120000; now += TURN_MS) {
        int acting = 0;
        deliver(&w, now);
        if (!below(&w, 60))
            disturb(&w);
        for (int i = 0; i < N; i++) {
            acting += w.alive[i] && w.e[i].leads && election_holds(&w.e[i], now);
            if (w.alive[i] && w.e[i].leads)
                turn_head(&w, i, now);
            else if (w.alive[i])
                turn(&w, i, now);
        }
        if (acting > 1)
            fail_msg("seed %llu: %d heads act at %llu ms", (unsigned long long)seed, acting,
                     (unsigned long long)now);
    }
    return w.n_heads;
}

static void two_heads_never_act(void **state) {
    (void)state;
    int64_t n_heads = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        n_heads += run(seed);
    print_message("%lld heads were elected\n", (long long)n_heads);
    assert_true(n_heads > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times),
        cmocka_unit_test(a_head_needs_a_majority),
        cmocka_unit_test(two_nodes_elect_nobody),
        cmocka_unit_test(a_vote_needs_silence),
        cmocka_unit_test(one_vote_at_a_time),
        cmocka_unit_test(a_head_votes_for_nobody),
        cmocka_unit_test(a_candidate_wins),
        cmocka_unit_test(a_candidate_that_hears_the_head_gives_up),
        cmocka_unit_test(a_candidate_that_votes_stands_no_more),
        cmocka_unit_test(lower_ids_begin),
        cmocka_unit_test(lost_nodes_vote_no_more),
        cmocka_unit_test(a_list_is_checked),
        cmocka_unit_test(two_heads_never_act),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
