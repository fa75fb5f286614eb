/* SPDX-License-Identifier: Apache-2.0 */
/* One server thread without sockets: the barrier, arrival orders, dropped pushes. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "tests/support/c/ps_joined.h"

static const uint64_t keys_a[] = {1, 5, 9}, keys_b[] = {5, 6};
static float grad_w[4][FR_VALUES], grad_rows[4][3 * FR_DIM];

static int setup(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        pd_rng_normal(pd_rng_key(1, 1, i, 0), 0, grad_w[i], FR_VALUES);
        pd_rng_normal(pd_rng_key(1, 1, i, 1), 0, grad_rows[i], 3 * FR_DIM);
    }
    return 0;
}

/* --- arrival order --- */

/* Message k of trainer t in step 0; NULL: no more. */
static struct wire_frame *message(uint32_t t, int k) {
    switch (k) {
    case 0:
        return f_push_dense(0, t, 0, grad_w[t], FR_VALUES);
    case 1:
        return f_push_rows(0, t, 0, 0, t % 2 ? keys_b : keys_a, t % 2 ? 2 : 3, grad_rows[t]);
    case 2:
        return f_step_end(0, t, 3 + t, NULL, 0);
    default:
        return NULL;
    }
}

static void values_after(const uint32_t *order, int by_message, float *out) {
    struct recorder r;
    struct ps_shard *s = joined(&r, 4);
    if (by_message)
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 4; i++)
                ok(s, order[i], message(order[i], k));
    else
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 3; k++)
                ok(s, order[i], message(order[i], k));
    static const uint64_t all[] = {1, 5, 6, 9};
    uint32_t w = 0;
    ok(s, 0, f_pull_dense(1, 1, &w));
    memcpy(out, last_answer(&r)->values, FR_VALUES * sizeof *out);
    ok(s, 0, f_pull_rows(1, 0, 0, 0, all, 4));
    memcpy(out + FR_VALUES, last_answer(&r)->values, 4 * FR_DIM * sizeof *out);
    ps_shard_free(s);
}

static void test_arrival_order_does_not_matter(void **state) {
    (void)state;
    float want[FR_VALUES + 4 * FR_DIM], got[FR_VALUES + 4 * FR_DIM];
    uint32_t p[4] = {0, 1, 2, 3};
    values_after(p, 0, want);
    for (int i = 0; i < 24; i++) { /* all permutations of four */
        uint32_t q[4], left[4] = {0, 1, 2, 3};
        for (int k = 0, n = i; k < 4; k++) {
            int at = n % (4 - k);
            n /= 4 - k;
            q[k] = left[at];
            memmove(left + at, left + at + 1, (size_t)(3 - at) * sizeof *left);
        }
        for (int by_message = 0; by_message < 2; by_message++) {
            values_after(q, by_message, got);
            if (memcmp(want, got, sizeof want))
                fail_msg("order %u %u %u %u gives other bits", q[0], q[1], q[2], q[3]);
        }
    }
}

static void test_a_gradient_that_is_no_number_is_named(void **state) {
    (void)state;
    for (int where = 0; where < 3; where++) {
        struct recorder r;
        struct ps_shard *s = joined(&r, 2);
        float bad[FR_VALUES];
        memcpy(bad, grad_w[0], sizeof bad);
        bad[FR_VALUES - 1] = where == 0 ? (float)INFINITY : (float)NAN;
        if (where < 2)
            ok(s, 0, f_push_dense(0, 0, 0, bad, FR_VALUES));
        else
            ok(s, 0, f_push_rows(0, 0, 0, 0, keys_a, 3, bad + FR_VALUES - 3 * FR_DIM));
        ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
        assert_int_equal(give(s, 1, f_step_end(0, 1, 1, NULL, 0)), PD_ENUM);
        if (!strstr(last.msg, where < 2 ? "the gradient of parameter 'w' is not a finite number in "
                                          "step 0; it came from streams 0-0"
                                        : "the gradient of table 't' is not a finite number in "
                                          "step 0; it came from streams 0-0"))
            fail_msg("%s", last.msg);
        ps_shard_free(s);
    }
}

/* --- the barrier --- */

static void test_pull_waits_for_the_step(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 2);
    uint32_t w = 0;
    char text[200];
    assert_int_equal(ps_shard_waiting(s, text, sizeof text), 0);
    ok(s, 0, f_push_dense(0, 0, 0, grad_w[0], FR_VALUES));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(s, 0, f_pull_dense(1, 1, &w));
    assert_int_equal(r.n_answers, 2);
    assert_int_equal(ps_shard_waiting(s, text, sizeof text), 1);
    assert_string_equal(text, "waiting for trainer 1 (streams 1-1) in step 0");
    ok(s, 1, f_step_end(0, 1, 0, NULL, 0));
    assert_int_equal(r.n_answers, 3);
    assert_int_equal(last_answer(&r)->trainer, 0);
    assert_int_equal(ps_shard_waiting(s, text, sizeof text), 0);
    ps_shard_free(s);
}

static void test_nothing_happens_before_all_have_come(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = rec_shard(&r, 2);
    char text[200];
    uint32_t w = 0;
    ok(s, 1, f_declare(2, 1));
    ok(s, 1, f_step_end(0, 1, 1, NULL, 0));
    ok(s, 1, f_pull_dense(1, 1, &w));
    assert_int_equal(r.n_answers, 1);
    assert_int_equal(ps_shard_waiting(s, text, sizeof text), 1);
    assert_string_equal(text, "waiting for trainer 0 (not here yet) in step 0");
    ok(s, 0, f_declare(2, 0));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    assert_int_equal(r.n_answers, 3);
    ps_shard_free(s);
}

static void test_pass_ends_for_all_together(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 2);
    uint64_t v;
    ok(s, 0, f_pass_end(0, 0)); /* trainer 0 has no data */
    for (uint64_t k = 0; k < 3; k++)
        ok(s, 1, f_step_end(k, 1, 1, NULL, 0)); /* trainer 1 continues alone */
    assert_int_equal(r.n_answers, 2);
    ok(s, 1, f_pass_end(3, 0));
    assert_int_equal(r.n_answers, 4);
    memcpy(&v, last_answer(&r)->head, 8);
    assert_int_equal(v, 3);
    ok(s, 0, f_step_end(3, 0, 1, NULL, 0)); /* both are in the next pass, at the same step */
    struct ps_shard_stats st;
    ps_shard_stats(s, &st);
    assert_int_equal(st.steps, 3);
    ok(s, 1, f_step_end(3, 1, 1, NULL, 0));
    ps_shard_stats(s, &st);
    assert_int_equal(st.steps, 4);
    ps_shard_free(s);
}

static void test_stats_and_reduction_are_summed(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 3);
    double v[2] = {1, 10}, got[4];
    for (uint32_t i = 0; i < 3; i++)
        ok(s, i,
           f_step_end(0, i, 5, v, i == 1 ? 0 : 2)); /* trainer 1 sends no numbers and gets none */
    assert_int_equal(r.n_answers, 5);
    memcpy(got, last_answer(&r)->head, sizeof got);
    assert_true(got[2] == 2 && got[3] == 20);
    uint64_t samples;
    memcpy(&samples, last_answer(&r)->head + 8, 8);
    assert_int_equal(samples, 15);
    for (uint32_t i = 0; i < 3; i++)
        ok(s, i, f_reduce(2, v));
    assert_int_equal(r.n_answers, 8);
    memcpy(got, last_answer(&r)->head, 16);
    assert_true(got[0] == 3 && got[1] == 30);
    ps_shard_free(s);
}

static void test_leaving_and_dying(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 3);
    ok(s, 0, f_bye());
    ok(s, 1, f_step_end(0, 1, 1, NULL, 0)); /* the step does not wait for a trainer that has left */
    ok(s, 2, f_step_end(0, 2, 1, NULL, 0));
    struct ps_shard_stats st;
    ps_shard_stats(s, &st);
    assert_int_equal(st.steps, 1);
    struct pd_err err = {0};
    assert_int_equal(ps_shard_gone(s, 0, NULL, &err), 0);
    uint32_t w = 0;
    ok(s, 1, f_step_end(1, 1, 1, NULL, 0));
    ok(s, 1, f_pull_dense(2, 1, &w));
    assert_int_equal(ps_shard_gone(s, 2, NULL, &err), PD_EFAIL);
    assert_string_equal(err.msg, "trainer 2 (10.0.0.9:1) is gone in step 1");
    assert_int_equal(r.n_fails, 1);
    assert_string_equal(r.last_fail.msg, err.msg);
    assert_int_equal(give(s, 1, f_bye()), PD_EFAIL); /* later requests get the same reason */
    assert_string_equal(last.msg, err.msg);
    ps_shard_free(s);
}

/* --- dropped --- */

static void test_repeated_and_stale_pushes_are_dropped(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = joined(&r, 1);
    struct ps_shard_stats st;
    uint32_t w = 0;
    ok(s, 0, f_push_dense(0, 0, 0, grad_w[0], FR_VALUES));
    ok(s, 0, f_push_dense(0, 0, 0, grad_w[1], FR_VALUES));
    ok(s, 0, f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0]));
    ok(s, 0, f_push_rows(0, 0, 0, 0, keys_b, 2, grad_rows[1]));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(s, 0, f_push_dense(0, 0, 0, grad_w[1], FR_VALUES));
    ok(s, 0, f_push_rows(0, 0, 0, 0, keys_b, 2, grad_rows[1]));
    ps_shard_stats(s, &st);
    assert_int_equal(st.duplicates, 2);
    assert_int_equal(st.stale, 3);
    assert_int_equal(st.steps, 1);
    ok(s, 0, f_pull_dense(1, 1, &w));
    float once[FR_VALUES];
    memcpy(once, last_answer(&r)->values, sizeof once);
    ps_shard_free(s);
    s = joined(&r, 1);
    ok(s, 0, f_push_dense(0, 0, 0, grad_w[0], FR_VALUES));
    ok(s, 0, f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0]));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(s, 0, f_pull_dense(1, 1, &w));
    assert_memory_equal(once, last_answer(&r)->values, sizeof once);
    ps_shard_free(s);
}

/* Several contributions of one trainer. A repeated push has the same streams, overlapping streams
 * are refused, and one message ends the step. */
static void test_contributions_of_a_trainers_streams(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard_stats st;
    static const struct ps_range two[] = {{0, 3}, {3, 4}}, crossing[] = {{0, 3}, {2, 4}},
                                 foreign[] = {{0, 3}, {3, 5}};
    static const double v[] = {0.1, 0.2};
    const uint32_t w = 0;
    float sum[FR_VALUES], want[FR_VALUES];
    fr_width = 4;
    struct ps_shard *s = joined(&r, 2);
    for (int again = 0; again < 2; again++) { /* the later streams first */
        ok(s, 0, of_streams(f_push_dense(0, 0, 0, grad_w[1], FR_VALUES), 3, 4));
        ok(s, 0, of_streams(f_push_dense(0, 0, 0, grad_w[0], FR_VALUES), 0, 3));
        ok(s, 0, of_streams(f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0]), 0, 3));
        ok(s, 0, of_streams(f_push_rows(0, 0, 0, 0, keys_b, 2, grad_rows[1]), 3, 4));
    }
    assert_true(give(s, 0, of_streams(f_push_dense(0, 0, 1, grad_w[0], 3), 0, 4)) < 0);
    assert_non_null(strstr(last.msg, "streams 0-3 to step 0 overlaps the one of streams 0-2"));
    assert_true(give(s, 0, of_streams(f_push_dense(0, 0, 1, grad_w[0], 3), 2, 3)) < 0);
    assert_true(give(s, 0, of_streams(f_push_dense(0, 0, 1, grad_w[0], 3), 3, 5)) < 0);
    assert_non_null(strstr(last.msg, "streams 3 to 5; here epoch 7, streams 0 to 4"));
    assert_true(give(s, 0, of_streams(f_push_dense(0, 0, 1, grad_w[0], 3), 1, 1)) < 0);
    assert_true(give(s, 0, of_streams(f_step_end(0, 0, 7, NULL, 0), 0, 3)) < 0);
    assert_true(give(s, 0, f_step_end_parts(0, 0, 7, crossing, v, 2)) < 0);
    assert_true(give(s, 0, f_step_end_parts(0, 0, 7, foreign, v, 2)) < 0);
    assert_true(give(s, 0, f_pass_end(0, 0)) < 0);
    ok(s, 0, f_step_end_parts(0, 0, 7, two, v, 2));
    ok(s, 0, of_streams(f_push_dense(0, 0, 0, grad_w[0], FR_VALUES), 0, 3));
    ok(s, 1, f_push_dense(0, 1, 0, grad_w[2], FR_VALUES));
    ok(s, 1, f_step_end(0, 1, 3, &v[0], 1));
    ps_shard_stats(s, &st);
    assert_int_equal(st.duplicates, 4);
    assert_int_equal(st.stale, 1);
    assert_int_equal(st.steps, 1);
    double got[3];
    memcpy(got, last_answer(&r)->head, sizeof got);
    assert_true(got[2] == (0.1 + 0.2) + 0.1);
    ok(s, 0, f_pull_dense(1, 1, &w));
    memcpy(sum, last_answer(&r)->values, sizeof sum);
    ps_shard_free(s);
    fr_width = 1; /* the same sum from one trainer */
    s = joined(&r, 1);
    for (int i = 0; i < FR_VALUES; i++)
        want[i] = (grad_w[0][i] + grad_w[1][i]) + grad_w[2][i];
    ok(s, 0, f_push_dense(0, 0, 0, want, FR_VALUES));
    ok(s, 0, f_step_end(0, 0, 10, NULL, 0));
    ok(s, 0, f_pull_dense(1, 1, &w));
    assert_memory_equal(sum, last_answer(&r)->values, sizeof sum);
    ps_shard_free(s);
}

static void test_more_contributions_than_a_step_may_have(void **state) {
    (void)state;
    struct recorder r;
    uint32_t n = 0;
    fr_width = 1000;
    struct ps_shard *s = joined(&r, 1);
    while (n < 1000 &&
           !give(s, 0, of_streams(f_push_dense(0, 0, 1, grad_w[0], 3), 999 - n, 1000 - n)))
        n++;
    assert_int_equal(n, PS_PARTS_MAX);
    assert_non_null(strstr(last.msg, "more than 64 contributions to step 0"));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ps_shard_free(s);
    fr_width = 1;
}

static void test_key_list_is_sent_once(void **state) {
    (void)state;
    struct recorder r, q;
    struct ps_shard *s = joined(&r, 1), *p = joined(&q, 1);
    ok(s, 0, f_pull_rows(0, 0, 1, 17, keys_a, 3));
    ok(s, 0, f_push_rows(0, 0, 0, 17, NULL, 3, grad_rows[0]));
    ok(p, 0, f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0]));
    ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(p, 0, f_step_end(0, 0, 1, NULL, 0));
    ok(s, 0, f_pull_rows(1, 0, 0, 0, keys_a, 3));
    ok(p, 0, f_pull_rows(1, 0, 0, 0, keys_a, 3));
    assert_memory_equal(last_answer(&r)->values, last_answer(&q)->values,
                        3 * FR_DIM * sizeof(float));
    /* A list is valid for one push only. */
    assert_true(give(s, 0, f_push_rows(1, 0, 0, 17, NULL, 3, grad_rows[0])) < 0);
    ps_shard_free(s);
    ps_shard_free(p);
}

/* The rows of the next step are pulled before the push of this step, which names its list, arrives.
 * The answer equals a pull after the step's end. A pull that is repeated on another connection
 * takes the place of no other list. */
static void test_rows_are_asked_for_ahead(void **state) {
    (void)state;
    static const char *const rules[] = {"sync", "async", "ssp"};
    for (size_t i = 0; i < 3; i++)
        for (int again = 0; again < 2; again++) {
            struct recorder r, q;
            struct ps_shard *s = rec_shard(&r, 1), *p = rec_shard(&q, 1);
            ok(s, 0, f_declare_as(1, 0, "adagrad", rules[i]));
            ok(p, 0, f_declare_as(1, 0, "adagrad", rules[i]));
            ok(s, 0, f_pull_rows(0, 0, 1, 17, keys_a, 3));
            struct wire_frame *ahead = f_pull_rows(1, 0, 1, 18, keys_b, 2);
            uint64_t req = ahead->req;
            ok(s, 0, ahead);
            assert_int_equal(r.n_answers, 2); /* not answered yet */
            if (again) {
                assert_int_equal(ps_shard_detach(s, 0), 1);
                struct wire_frame *back = f_declare_as(1, 0, "adagrad", rules[i]);
                ok(s, 0, back);
                ahead = f_pull_rows(1, 0, 1, 18, keys_b, 2);
                ahead->req = req;
                ok(s, 0, ahead);
                assert_int_equal(r.n_answers, 3);
            }
            ok(s, 0, f_push_rows(0, 0, 0, 17, NULL, 3, grad_rows[0]));
            ok(p, 0, f_push_rows(0, 0, 0, 0, keys_a, 3, grad_rows[0]));
            assert_int_equal(r.n_answers, 2 + again);
            ok(s, 0, f_step_end(0, 0, 1, NULL, 0));
            ok(p, 0, f_step_end(0, 0, 1, NULL, 0));
            assert_int_equal(r.n_answers, 3 + again);
            ok(p, 0, f_pull_rows(1, 0, 0, 0, keys_b, 2));
            assert_int_equal(last_answer(&r)->n_values, 2 * FR_DIM);
            assert_memory_equal(last_answer(&r)->values, last_answer(&q)->values,
                                2 * FR_DIM * sizeof(float));
            ok(s, 0, f_push_rows(1, 0, 0, 18, NULL, 2, grad_rows[1]));
            ps_shard_free(s);
            ps_shard_free(p);
        }
}

/* --- requests that had to wait --- */

static void a_load_and_a_days_end_that_had_to_wait(void **state) {
    (void)state;
    struct recorder r;
    struct ps_shard *s = rec_shard(&r, 1);
    ok(s, 0, f_declare(1, 0));
    const int before = r.n_answers;
    fr_congested = 1;
    ok(s, 0, FRAME(PS_DAY_END, day_end, .after = 0));
    ps_shard_drained(s);
    assert_int_equal(r.n_answers + r.n_fails, before);
    fr_congested = 0;
    ps_shard_drained(s);
    if (r.n_fails)
        fail_msg("%s", r.last_fail.msg);
    assert_int_equal(r.n_answers, before + 1);
    fr_congested = 1;
    ok(s, 0, FRAME(PS_LOAD, load, .folder = "/nonexistent"));
    fr_congested = 0;
    ps_shard_drained(s);
    assert_int_equal(r.n_fails, 1);
    assert_int_equal(r.last_fail.code, PD_ENOENT);
    ps_shard_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_and_a_days_end_that_had_to_wait),
        cmocka_unit_test(test_arrival_order_does_not_matter),
        cmocka_unit_test(test_a_gradient_that_is_no_number_is_named),
        cmocka_unit_test(test_pull_waits_for_the_step),
        cmocka_unit_test(test_nothing_happens_before_all_have_come),
        cmocka_unit_test(test_pass_ends_for_all_together),
        cmocka_unit_test(test_stats_and_reduction_are_summed),
        cmocka_unit_test(test_leaving_and_dying),
        cmocka_unit_test(test_repeated_and_stale_pushes_are_dropped),
        cmocka_unit_test(test_contributions_of_a_trainers_streams),
        cmocka_unit_test(test_more_contributions_than_a_step_may_have),
        cmocka_unit_test(test_key_list_is_sent_once),
        cmocka_unit_test(test_rows_are_asked_for_ahead),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
