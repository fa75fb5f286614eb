/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_plan.c - the sources of a package's takers. The nodes form a chain, which changes
 * when nodes leave, are slow or can't be reached. After any sequence of events no node takes in a
 * circle, from a node that is gone, or from no source. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/hash.h"
#include "launcher/link/relay_plan.h"

static int n_told(struct relay_plan *p) {
    int node, source, n = 0;
    while (relay_plan_next(p, &node, &source)) {
        assert_int_equal(relay_plan_source(p, node), source);
        n++;
    }
    return n;
}

static struct relay_plan *chain(int n) {
    struct relay_plan *p = relay_plan_new(n, 1);
    for (int i = 0; i < n; i++)
        relay_plan_join(p, i, 0, 1, 0);
    assert_int_equal(n_told(p), n);
    return p;
}

static void a_chain_in_the_order_of_arrival(void **state) {
    (void)state;
    struct relay_plan *p = chain(5);
    for (int i = 0; i < 5; i++)
        /* The first node takes from the launcher, -1. */
        assert_int_equal(relay_plan_source(p, i), i - 1);
    relay_plan_free(p);
    p = relay_plan_new(4, 0);
    for (int i = 0; i < 4; i++)
        relay_plan_join(p, i, 0, 1, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(relay_plan_source(p, i), PLAN_LAUNCHER);
    relay_plan_free(p);
}

/* A node that has the whole package is a better source than the launcher. */
static void from_who_has_it(void **state) {
    (void)state;
    struct relay_plan *p = relay_plan_new(3, 1);
    relay_plan_join(p, 2, 1, 1, 0);
    relay_plan_join(p, 0, 0, 1, 0);
    relay_plan_join(p, 1, 0, 1, 0);
    assert_int_equal(relay_plan_source(p, 0), 2);
    assert_int_equal(relay_plan_source(p, 1), 0);
    relay_plan_free(p);
    p = relay_plan_new(3, 1); /* it joins last, and still replaces the launcher as the source */
    relay_plan_join(p, 0, 0, 1, 0);
    relay_plan_join(p, 1, 0, 1, 0);
    assert_int_equal(relay_plan_source(p, 0), PLAN_LAUNCHER);
    relay_plan_join(p, 2, 1, 1, 0);
    assert_int_equal(relay_plan_source(p, 0), 2);
    assert_int_equal(relay_plan_source(p, 1), 0);
    assert_int_equal(n_told(p), 2);
    relay_plan_free(p);
}

static void a_node_that_goes_is_passed_by(void **state) {
    (void)state;
    struct relay_plan *p = chain(5);
    relay_plan_leave(p, 2, 0);
    assert_int_equal(relay_plan_source(p, 3), 1);
    assert_int_equal(relay_plan_source(p, 4), 3);
    assert_int_equal(n_told(p), 1);
    assert_int_equal(relay_plan_n_bypassed(p), 1);
    relay_plan_leave(p, 0, 0);
    assert_int_equal(relay_plan_source(p, 1), PLAN_LAUNCHER);
    relay_plan_join(p, 2, 0, 1, 0); /* it is back, at the end of the chain */
    assert_int_equal(relay_plan_source(p, 2), 4);
    relay_plan_free(p);
}

static void a_slow_node_is_a_leaf(void **state) {
    (void)state;
    struct relay_plan *p = chain(4);
    const struct relay_plan_report fast = {
        .have = 8 << 20, .rate = 12 << 20, .asks = 1, .reached = 1};
    const struct relay_plan_report slow = {
        .have = 1 << 20, .rate = 1 << 20, .asks = 1, .reached = 1};
    relay_plan_status(p, 1, &fast, 100);
    for (uint64_t t = 100; t <= 200; t += 100) {
        relay_plan_status(p, 2, &slow, t);
        assert_false(relay_plan_is_leaf(p, 2)); /* too early for a verdict */
    }
    relay_plan_status(p, 1, &fast, 300);
    relay_plan_status(p, 2, &slow, 300);
    assert_true(relay_plan_is_leaf(p, 2));
    assert_int_equal(relay_plan_source(p, 3), 1);
    assert_int_equal(relay_plan_source(p, 2), 3); /* there it delays no other node */
    /* a node that is as slow as its source is not the cause */
    relay_plan_status(p, 3, &slow, 5000);
    assert_false(relay_plan_is_leaf(p, 3));
    relay_plan_free(p);
}

static void says(struct relay_plan *p, int node, uint64_t have, uint64_t rate, uint64_t now_ms) {
    const struct relay_plan_report r = {
        .have = have, .of = 64 << 20, .rate = rate, .asks = 1, .reached = 1};
    relay_plan_status(p, node, &r, now_ms);
}

/* The first node of the chain has no node before it for comparison. Another node shows the speed of
 * the launcher's link. */
static void a_slow_node_at_the_start_of_the_chain_is_a_leaf(void **state) {
    (void)state;
    struct relay_plan *p = chain(4);
    for (uint64_t t = 500; t <= 1500; t += 500)
        for (int i = 0; i < 4; i++)
            says(p, i, 1250 * t, 1250000, t);
    assert_int_equal(relay_plan_source(p, 1), PLAN_LAUNCHER); /* a trial */
    assert_int_equal(relay_plan_source(p, 2), 1);
    for (uint64_t t = 2000; t <= 3500; t += 500)
        for (int i = 0; i < 4; i++)
            says(p, i, i ? 1875000 + 11000 * (t - 1500) : 1250 * t, i ? 11000000 : 1250000, t);
    assert_true(relay_plan_is_leaf(p, 0));
    assert_int_equal(relay_plan_source(p, 0), 3);
    assert_int_equal(relay_plan_source(p, 1), PLAN_LAUNCHER);
    assert_int_equal(relay_plan_source(p, 2), 1);
    relay_plan_free(p);
}

/* The launcher's link itself is slow: both nodes get half of its rate, and the chain stays as
 * before. */
static void a_slow_link_of_the_launcher_is_nobodys_fault(void **state) {
    (void)state;
    struct relay_plan *p = chain(3);
    for (uint64_t t = 500; t <= 1500; t += 500)
        for (int i = 0; i < 3; i++)
            says(p, i, 1250 * t, 1250000, t);
    assert_int_equal(relay_plan_source(p, 1), PLAN_LAUNCHER);
    for (uint64_t t = 2000; t <= 3000; t += 500)
        for (int i = 0; i < 3; i++)
            says(p, i, 1875000 + 625 * (t - 1500), 625000, t);
    assert_int_equal(relay_plan_source(p, 1), 0);
    assert_false(relay_plan_is_leaf(p, 0));
    for (uint64_t t = 3500; t < 60000;
         t += 500) /* each other node is tried once, and then no more */
        for (int i = 0; i < 3; i++)
            says(p, i, 2500000 + 100 * t, 100000, t);
    assert_int_equal(relay_plan_source(p, 0), PLAN_LAUNCHER);
    assert_int_equal(relay_plan_source(p, 1), 0);
    assert_int_equal(relay_plan_source(p, 2), 1);
    assert_int_equal(relay_plan_n_bypassed(p), 0);
    relay_plan_free(p);
}

/* No byte is sent before all hosts are ready: the rate of the first report includes a wait. */
static void a_wait_before_the_first_byte_is_no_slow_link(void **state) {
    (void)state;
    struct relay_plan *p = chain(3);
    for (uint64_t t = 700; t < 2000; t += 100)
        for (int i = 0; i < 3; i++)
            says(p, i, 9000 * (t - 700), t == 700 ? 49155 : 9000000, t);
    assert_int_equal(relay_plan_source(p, 0), PLAN_LAUNCHER);
    assert_int_equal(relay_plan_source(p, 1), 0);
    assert_int_equal(relay_plan_source(p, 2), 1);
    relay_plan_free(p);
}

/* A package that is almost complete is not disturbed. */
static void no_trial_near_the_end(void **state) {
    (void)state;
    struct relay_plan *p = chain(3);
    for (uint64_t t = 500; t < 3000; t += 500)
        for (int i = 0; i < 3; i++)
            says(p, i, 11000 * t, 11000000, t);
    assert_int_equal(relay_plan_source(p, 1), 0);
    relay_plan_free(p);
}

static void who_cannot_reach_takes_from_the_launcher(void **state) {
    (void)state;
    struct relay_plan *p = chain(6);
    relay_plan_unreached(p, 5, 4, 0);
    assert_int_not_equal(relay_plan_source(p, 5), 4);
    relay_plan_unreached(p, 5, relay_plan_source(p, 5), 0);
    assert_int_equal(relay_plan_source(p, 5), PLAN_LAUNCHER);
    relay_plan_unreached(p, 4, 2, 0); /* no longer its source: ignored */
    assert_int_equal(relay_plan_source(p, 4), 3);
    relay_plan_unreached(p, 4, 3, 0); /* a third failure, and no source was ever reached */
    assert_int_equal(relay_plan_source(p, 4), PLAN_LAUNCHER);
    relay_plan_free(p);
}

static void any_sequence(void **state) {
    (void)state;
    enum { N = 12 };
    for (uint64_t seed = 1; seed < 400; seed++) {
        struct relay_plan *p = relay_plan_new(N, 1);
        int there[N] = {0}, done[N] = {0};
        for (uint64_t i = 0; i < 120; i++) {
            uint64_t r = pd_mix64(seed * 1000 + i);
            int n = (int)(r % N), what = (int)(r >> 8) % 6;
            if (!there[n] && what < 3) {
                done[n] = what == 0;
                relay_plan_join(p, n, done[n], (r >> 20 & 7) != 0, i);
                there[n] = 1;
            } else if (there[n] && what == 3) {
                relay_plan_leave(p, n, i);
                there[n] = done[n] = 0;
            } else if (there[n] && !done[n] && what == 4) {
                relay_plan_unreached(p, n, relay_plan_source(p, n), i);
            } else if (there[n]) {
                const struct relay_plan_report x = {.have = r >> 30 & 0xffffff,
                                                    .of = 64 << 20,
                                                    .rate = r >> 44,
                                                    .asks = 1,
                                                    .reached = (int)(r >> 9 & 1)};
                relay_plan_status(p, n, &x, i * 1000);
            }
            n_told(p);
            for (int k = 0; k < N; k++) {
                int steps = 0, at = k;
                if (!there[k] || done[k])
                    continue;
                assert_int_not_equal(relay_plan_source(p, k), PLAN_NOBODY);
                for (; at >= 0 && !done[at] && steps <= N; steps++) {
                    int next = relay_plan_source(p, at);
                    assert_true(next < 0 || there[next]);
                    at = next;
                }
                assert_true(steps <= N); /* otherwise there is a circle */
            }
        }
        relay_plan_free(p);
    }
}

/* Ctrl-C: thousands of links end one after the other, and each successor gets another source.
 * Finding a source must be at most linear in the number of nodes; otherwise this test takes hours.
 */
static void thousands_go_in_any_order(void **state) {
    (void)state;
    enum { N = 5000 };
    struct relay_plan *p = relay_plan_new(N, 1);
    for (int i = 0; i < N; i++)
        relay_plan_join(p, (int)((long)i * 1789 % N), 0, 1, 0); /* prime to N: each node once */
    assert_int_equal(n_told(p), N);
    for (int i = 0; i < N - 1; i++)
        relay_plan_leave(p, (int)((long)i * 3 % N), 0); /* not in the order of the chain */
    assert_int_equal(relay_plan_source(p, (int)((long)(N - 1) * 3 % N)), PLAN_LAUNCHER);
    relay_plan_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_go_in_any_order),
        cmocka_unit_test(a_chain_in_the_order_of_arrival),
        cmocka_unit_test(from_who_has_it),
        cmocka_unit_test(a_node_that_goes_is_passed_by),
        cmocka_unit_test(a_slow_node_is_a_leaf),
        cmocka_unit_test(a_slow_node_at_the_start_of_the_chain_is_a_leaf),
        cmocka_unit_test(a_slow_link_of_the_launcher_is_nobodys_fault),
        cmocka_unit_test(a_wait_before_the_first_byte_is_no_slow_link),
        cmocka_unit_test(no_trial_near_the_end),
        cmocka_unit_test(who_cannot_reach_takes_from_the_launcher),
        cmocka_unit_test(any_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
