/* SPDX-License-Identifier: Apache-2.0 */
/* test_sweep.c - the trials of a sweep: the grid, random draws, the median rule, halving. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/runs/sweep.h"

static void the_grid(void **state) {
    (void)state;
    struct sweep_keys k = {0};
    struct pd_err err = {0};
    size_t combination[6];
    char got[400] = "", one[100];
    assert_int_equal(cmd_sweep_key(&k, "optimizer.learning_rate=0.1,0.03", &err), 0);
    assert_int_equal(cmd_sweep_key(&k, "layer.h.size=1,2,3", &err), 0);
    assert_int_equal(cmd_sweep_size(&k), 6);
    cmd_sweep_draw(&k, 5, 6, combination);
    for (size_t c = 0; c < 6; c++)
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(cmd_sweep_setting(&k, combination[c], i, one, sizeof one), 0);
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", strchr(one, '=') + 1,
                     i ? "; " : " ");
        }
    assert_string_equal(got, "0.1 1; 0.1 2; 0.1 3; 0.03 1; 0.03 2; 0.03 3; ");
    assert_int_equal(cmd_sweep_setting(&k, 0, 0, one, sizeof one), 0);
    assert_string_equal(one, "optimizer.learning_rate=0.1");
    assert_int_equal(cmd_sweep_setting(&k, 0, 0, one, 5), -1);
    assert_int_equal(cmd_sweep_key(&k, "a.b=,", &err), PD_EUSAGE);
    cmd_sweep_release(&k);
}

static void random_draws(void **state) {
    (void)state;
    struct sweep_keys k = {0};
    struct pd_err err = {0};
    size_t a[20], b[20], first[100] = {0};
    assert_int_equal(cmd_sweep_key(&k, "a.b=0,1,2,3,4,5,6,7,8,9", &err), 0);
    assert_int_equal(cmd_sweep_key(&k, "c.d=0,1,2,3,4,5,6,7,8,9", &err), 0);
    int differ = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        cmd_sweep_draw(&k, seed, 20, a);
        cmd_sweep_draw(&k, seed, 20, b);
        assert_memory_equal(a, b, sizeof a); /* --resume draws the same */
        for (int i = 0; i < 20; i++) {
            assert_true(a[i] < 100);
            for (int j = 0; j < i; j++)
                assert_int_not_equal(a[i], a[j]);
            first[a[i]]++;
        }
        cmd_sweep_draw(&k, seed + 1, 20, b);
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_int_equal(differ, 200);
    for (int c = 0; c < 100; c++) /* 40 expected, standard deviation 5.7 */
        assert_in_range(first[c], 10, 70);
    cmd_sweep_release(&k);
}

static void the_median_rule(void **state) {
    (void)state;
    double two[] = {1, 2}, three[] = {3, 1, 2}, four[] = {4, 1, 3, 2};
    assert_false(cmd_sweep_hopeless(9, two, 2, 0)); /* too few to judge */
    assert_true(cmd_sweep_hopeless(2.1, three, 3, 0));
    assert_false(cmd_sweep_hopeless(2, three, 3, 0));
    assert_true(cmd_sweep_hopeless(1.9, three, 3, 1));
    assert_false(cmd_sweep_hopeless(2, three, 3, 1));
    assert_true(cmd_sweep_hopeless(2.6, four, 4, 0));
    assert_false(cmd_sweep_hopeless(2.5, four, 4, 0));
}

static void rounds_of_halving(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t n_trials;
        int64_t passes, of_round[6]; /* 0: no such round */
    } rows[] = {
        {"the passes allow all rounds", 8, 8, {1, 2, 4, 8}},
        {"one trial is left before the last pass", 4, 16, {4, 8, 16}},
        {"one pass cannot be halved", 64, 3, {2, 3}},
        {"no power of two", 13, 10, {2, 3, 5, 10}},
        {"one trial", 1, 9, {9}},
        {"one pass", 9, 1, {1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n = cmd_sweep_rounds(rows[i].n_trials, rows[i].passes);
        for (size_t k = 0; k < 6; k++) {
            const int64_t passes = k < n ? cmd_sweep_round_passes(k, n, rows[i].passes) : 0;
            if (passes != rows[i].of_round[k])
                fail_msg("%s: round %zu ends at %lld", rows[i].name, k, (long long)passes);
        }
    }
}

static void ranks(void **state) {
    (void)state;
    const double value[] = {3, NAN, 1, 3, 2, 1};
    const size_t least[] = {2, 5, 4, 0, 3}, most[] = {0, 3, 4, 2, 5};
    size_t order[6], n;
    cmd_sweep_rank(value, 6, 0, order, &n);
    assert_int_equal(n, 5);
    assert_memory_equal(order, least, sizeof least);
    cmd_sweep_rank(value, 6, 1, order, &n);
    assert_int_equal(n, 5);
    assert_memory_equal(order, most, sizeof most);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grid),        cmocka_unit_test(random_draws),
        cmocka_unit_test(the_median_rule), cmocka_unit_test(rounds_of_halving),
        cmocka_unit_test(ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
