/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_trainers.c - rates, slow trainers and stalls, from made-up events at made-up times.
 */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/view/trainers.h"

enum { N = 4, T0 = 100000 };

static struct trainers *all;
static struct trainers_summary sum;

static int setup(void **state) {
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(trainers_new(&all, N, &err), 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    trainers_free(all);
    return 0;
}

static void progress(unsigned node, uint64_t ms, double own_rate, double wait) {
    char e[300];
    int n = snprintf(e, sizeof e,
                     "{\"ev\":\"progress\",\"rank\":%u,\"pass\":1,\"num_passes\":4,\"batch\":7,"
                     "\"fraction\":0.5,\"own_rate\":%.1f,\"wait\":%.3f,\"unit\":\"words\"}",
                     node, own_rate, wait);
    assert_int_equal(trainers_event(all, node, e, (size_t)n, ms), 1);
}

static void doing(unsigned node, uint64_t ms, const char *what, double waited,
                  const char *servers) {
    char e[300];
    int n = snprintf(e, sizeof e,
                     "{\"ev\":\"doing\",\"rank\":%u,\"doing\":\"%s\",\"waited\":%.1f,\"servers\":"
                     "\"%s\"}",
                     node, what, waited, servers);
    assert_int_equal(trainers_event(all, node, e, (size_t)n, ms), 1);
}

/* Events of all trainers once a second, for `s` seconds from T0. */
static void train(unsigned s, const double *rate, const double *wait) {
    for (unsigned k = 0; k <= s; k++)
        for (unsigned i = 0; i < N; i++)
            progress(i, T0 + 1000 * k, rate[i], wait[i]);
}

static void look(uint64_t ms) { assert_int_equal(trainers_look(all, ms, &sum), 1); }

static const double even[N] = {100, 100, 100, 100}, little[N] = {0.1, 0.1, 0.1, 0.1};

static void nothing_is_shown_before_the_first_progress(void **state) {
    (void)state;
    assert_int_equal(trainers_look(all, T0, &sum), 0);
    assert_int_equal(trainers_event(all, 0, "{\"ev\":\"doing\",\"doing\":\"loading\"}", 31, T0), 0);
    assert_int_equal(trainers_event(all, 0, "nonsense", 8, T0), 0);
    assert_int_equal(trainers_event(all, N, "{}", 2, T0), 0);
    assert_int_equal(trainers_look(all, T0, &sum), 0);
}

static void an_even_job_has_no_slow_trainer(void **state) {
    (void)state;
    train(12, even, little);
    look(T0 + 12500);
    assert_int_equal(sum.n_marked, 0);
    assert_int_equal(sum.stalled_ms, 0);
    assert_float_equal(sum.p.rate, 400, 1);
    assert_float_equal(sum.done, 1.5 / 4, 1e-9);
}

static void one_bad_second_makes_no_trainer_slow(void **state) {
    (void)state;
    train(12, even, little);
    progress(1, T0 + 13000, 60, 0);
    look(T0 + 13100);
    assert_int_equal(sum.n_marked, 0);
}

static void the_trainer_that_the_others_wait_for_is_named_with_their_share_of_waiting(
    void **state) {
    const double wait[N] = {0.45, 0.04, 0.45, 0.47};
    (void)state;
    train(12, even, wait);
    look(T0 + 12500);
    assert_int_equal(sum.n_marked, 1);
    assert_int_equal(trainers_at(all, 1)->mark, TRAINER_SLOW);
    assert_float_equal(trainers_at(all, 1)->others_wait, 0.41, 0.001);
}

static void the_fastest_trainer_is_not_slow_though_it_waits_least(void **state) {
    const double rate[N] = {100, 180, 100, 100}, wait[N] = {0.5, 0.1, 0.5, 0.5};
    (void)state;
    train(12, rate, wait);
    look(T0 + 12500);
    assert_int_equal(sum.n_marked, 0);
}

static void of_two_trainers_at_most_one_is_slow(void **state) {
    const double wait[2] = {0.4, 0.05};
    (void)state;
    for (unsigned k = 0; k <= 12; k++)
        for (unsigned i = 0; i < 2; i++)
            progress(i, T0 + 1000 * k, 100, wait[i]);
    look(T0 + 12500);
    assert_int_equal(sum.n_known, 2);
    assert_int_equal(sum.n_marked, 1);
    assert_float_equal(trainers_at(all, 1)->others_wait, 0.35, 0.001);
}

static void without_waiting_a_low_rate_is_slow(void **state) {
    const double rate[N] = {100, 100, 50, 100};
    (void)state;
    train(12, rate, little);
    look(T0 + 12500);
    assert_int_equal(sum.n_marked, 1);
    assert_float_equal(trainers_at(all, 2)->relative_rate, 0.5, 0.01);
}

static void a_stopped_trainer_is_named_and_no_rate_is_shown(void **state) {
    (void)state;
    train(12, even, little);
    for (unsigned s = 1; s <= 12; s++)
        for (unsigned i = 0; i < N; i++)
            if (i != 2)
                doing(i, T0 + 12000 + 1000 * s, "training", s, "");
    look(T0 + 24500);
    assert_in_range(sum.stalled_ms, 12000, 13000);
    assert_int_equal(sum.n_waits_for, 1);
    assert_int_equal(sum.waits_for[0], 2);
    assert_string_equal(sum.servers, "");
    assert_float_equal(sum.p.rate, 0, 0);
    for (unsigned i = 0; i < N; i++)
        assert_float_equal(trainers_at(all, i)->rate, 0, 0);
    assert_int_equal(trainers_at(all, 2)->mark, TRAINER_STALLED);
    assert_int_equal(sum.n_marked, 1);
    /* It goes on: nothing of the stall remains. */
    for (unsigned i = 0; i < N; i++)
        progress(i, T0 + 25000, 8, 0.9);
    look(T0 + 25100);
    assert_int_equal(sum.stalled_ms, 0);
    assert_int_equal(trainers_at(all, 2)->mark, TRAINER_WELL);
}

static void a_stopped_server_is_named_if_all_trainers_wait(void **state) {
    (void)state;
    train(12, even, little);
    for (unsigned s = 1; s <= 8; s++)
        for (unsigned i = 0; i < N; i++)
            doing(i, T0 + 12000 + 1000 * s, "training", s,
                  i ? "pserver 1 on 10.0.0.3" : "pserver 0 on 10.0.0.2, pserver 1 on 10.0.0.3");
    look(T0 + 20500);
    assert_in_range(sum.stalled_ms, 8000, 9000);
    assert_int_equal(sum.n_waits_for, 0);
    assert_string_equal(sum.servers, "pserver 1 on 10.0.0.3");
}

static void tests_and_saves_are_no_stalls(void **state) {
    (void)state;
    train(12, even, little);
    for (unsigned s = 1; s <= 30; s++)
        for (unsigned i = 0; i < N; i++)
            doing(i, T0 + 12000 + 1000 * s, "testing", i == 3 ? 0 : s, "");
    look(T0 + 42500);
    assert_int_equal(sum.stalled_ms, 0);
    assert_string_equal(sum.doing, "testing");
    for (unsigned s = 31; s <= 60; s++)
        for (unsigned i = 0; i < N; i++)
            doing(i, T0 + 12000 + 1000 * s, i ? "training" : "saving", s - 30, "");
    look(T0 + 72500);
    assert_int_equal(sum.stalled_ms, 0);
    assert_string_equal(sum.doing, "saving");
    /* A trainer that is stopped in a test is a stall since then. */
    for (unsigned s = 61; s <= 62; s++)
        doing(3, T0 + 12000 + 1000 * s, "testing", 0, "");
    for (unsigned s = 61; s <= 80; s++)
        for (unsigned i = 0; i < 3; i++)
            doing(i, T0 + 12000 + 1000 * s, "testing", s - 60, "");
    look(T0 + 92500);
    assert_in_range(sum.stalled_ms, 18000, 19000);
    assert_int_equal(sum.waits_for[0], 3);
}

static void long_steps_are_no_stalls(void **state) {
    (void)state;
    for (unsigned k = 0; k < 6; k++)
        for (unsigned i = 0; i < N; i++)
            progress(i, T0 + 8000 * k, 10, 0.1);
    look(T0 + 40000 + 20000);
    assert_int_equal(sum.stalled_ms, 0);
    look(T0 + 40000 + 33000);
    assert_int_equal(sum.stalled_ms, 33000);
}

static void a_removed_trainer_is_not_waited_for(void **state) {
    (void)state;
    train(12, even, little);
    trainers_remove(all, 1);
    look(T0 + 12500);
    assert_int_equal(sum.n_known, 3);
    assert_int_equal(trainers_at(all, 1)->known, 0);
    assert_float_equal(sum.p.rate, 300, 1);
}

static void a_silent_trainer_is_marked_while_others_have_events(void **state) {
    (void)state;
    train(12, even, little);
    for (unsigned s = 1; s <= 11; s++)
        for (unsigned i = 0; i < 3; i++)
            progress(i, T0 + 12000 + 1000 * s, 100, 0.1);
    look(T0 + 23500);
    assert_int_equal(sum.stalled_ms, 0);
    assert_int_equal(trainers_at(all, 3)->mark, TRAINER_SILENT);
    assert_int_equal(trainers_at(all, 3)->silent_ms, 11500);
    assert_in_range((uint64_t)trainers_at(all, 3)->rate, 0, 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_shown_before_the_first_progress),
        TEST(an_even_job_has_no_slow_trainer),
        TEST(one_bad_second_makes_no_trainer_slow),
        TEST(the_trainer_that_the_others_wait_for_is_named_with_their_share_of_waiting),
        TEST(the_fastest_trainer_is_not_slow_though_it_waits_least),
        TEST(of_two_trainers_at_most_one_is_slow),
        TEST(without_waiting_a_low_rate_is_slow),
        TEST(a_stopped_trainer_is_named_and_no_rate_is_shown),
        TEST(a_stopped_server_is_named_if_all_trainers_wait),
        TEST(tests_and_saves_are_no_stalls),
        TEST(long_steps_are_no_stalls),
        TEST(a_removed_trainer_is_not_waited_for),
        TEST(a_silent_trainer_is_marked_while_others_have_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
