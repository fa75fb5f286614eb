/* SPDX-License-Identifier: Apache-2.0 */
/* test_capi.c - libpaddle_ps: ids in any order and repeated, gradients of equal ids added in their
 * order, errors that stay. */
#include <setjmp.h>

#include <cmocka.h>

#include "capi/paddle_ps.h"

#define SETTINGS "optimizer=sgd optimizer.learning_rate=1 local=1 seed=3"

static paddle_ps *join(void) {
    char why[300] = "";
    paddle_ps *ps = paddle_ps_join(SETTINGS, why, sizeof why);
    if (!ps)
        fail_msg("%s", why);
    return ps;
}

static void test_rows_come_back_in_the_order_of_the_ids(void **state) {
    (void)state;
    enum { N = 7, DIM = 3 };
    const uint64_t ids[N] = {900000000000000007u, 5, 1, 5, 0, UINT64_MAX, 5};
    float rows[N][DIM], again[N][DIM], grad[N][DIM];
    paddle_ps *ps = join();
    int t = paddle_ps_table(ps, "t", DIM, 0, "std=1");
    assert_int_equal(t, 0);
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(paddle_ps_pull_rows(ps, t, N, ids, &rows[0][0], 1), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            assert_int_equal(memcmp(rows[i], rows[k], sizeof rows[i]) == 0, ids[i] == ids[k]);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++)
            grad[i][d] = (float)(i + 1) * 0.25f + (float)d;
    assert_int_equal(paddle_ps_push_rows(ps, t, N, ids, &grad[0][0]), 0);
    assert_int_equal(paddle_ps_step_end(ps, 1, NULL, 0), 0);
    assert_int_equal(paddle_ps_pull_rows(ps, t, N, ids, &again[0][0], 1), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++) {
            float sum = 0;
            for (int k = 0; k < N; k++)
                if (ids[k] == ids[i])
                    sum += grad[k][d];
            assert_float_equal(again[i][d], rows[i][d] - sum, 1e-5);
        }
    assert_int_equal(paddle_ps_leave(ps), 0);
    paddle_ps_free(ps);
}

static void test_many_ids_against_one_pull_of_each(void **state) {
    (void)state;
    enum { N = 5000, DIM = 4, ROWS = 700 };
    uint64_t *ids = malloc(N * sizeof *ids), all[ROWS];
    float *rows = malloc(N * DIM * sizeof *rows), *each = malloc(ROWS * DIM * sizeof *each);
    paddle_ps *ps = join();
    int t = paddle_ps_table(ps, "t", DIM, ROWS, "std=0.5 mean=1");
    assert_int_equal(paddle_ps_start(ps), 0);
    uint64_t x = 12345;
    for (int i = 0; i < N; i++)
        ids[i] = ((x = x * 6364136223846793005u + 1442695040888963407u) >> 33) % ROWS;
    for (int i = 0; i < ROWS; i++)
        all[i] = (uint64_t)(ROWS - 1 - i);
    assert_int_equal(paddle_ps_pull_rows(ps, t, ROWS, all, each, 0), 0);
    assert_int_equal(paddle_ps_pull_rows(ps, t, N, ids, rows, 1),
                     0); /* two pulls at the same time */
    assert_int_equal(paddle_ps_wait(ps), 0);
    for (int i = 0; i < N; i++)
        assert_memory_equal(rows + i * DIM, each + (ROWS - 1 - ids[i]) * DIM, DIM * sizeof *rows);
    paddle_ps_free(ps);
    free(ids);
    free(rows);
    free(each);
}

static void test_dense_sums_and_saving(void **state) {
    (void)state;
    char dir[] = "/tmp/test-capi-XXXXXX";
    const uint64_t shape[2] = {2, 3};
    float w[6], grad[6] = {2, 4, 6, 8, 10, 12}, after[6];
    double sums[2] = {7.5, -1}, got[2] = {0};
    uint64_t step = 99, n = 0;
    assert_non_null(mkdtemp(dir));
    paddle_ps *ps = join();
    int id = paddle_ps_dense(ps, "w", 2, shape, "std=0.1");
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(paddle_ps_pull_dense(ps, id, w), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    assert_int_equal(paddle_ps_push_dense(ps, id, grad), 0);
    assert_int_equal(paddle_ps_step_end(ps, 2, sums, 2), 0);
    assert_int_equal(paddle_ps_pull_dense(ps, id, after), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    for (int i = 0; i < 6; i++)
        assert_float_equal(after[i], w[i] - grad[i] / 2, 1e-6);
    assert_int_equal(paddle_ps_step_sums(ps, &step, &n, got, 2), 1);
    assert_int_equal(step, 0);
    assert_int_equal(n, 2);
    assert_true(got[0] == 7.5 && got[1] == -1);
    assert_int_equal(paddle_ps_step_sums(ps, NULL, NULL, got, 2), 0);
    assert_int_equal(paddle_ps_pass_end(ps), 0);
    assert_int_equal(paddle_ps_save(ps, dir, "m"), 0);
    assert_int_equal(paddle_ps_leave(ps), 0);
    paddle_ps_free(ps);

    char folder[64], command[96];
    snprintf(folder, sizeof folder, "%s/m", dir);
    ps = join();
    id = paddle_ps_dense(ps, "w", 2, shape, NULL);
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(paddle_ps_load(ps, folder, "fail"), 0);
    assert_int_equal(paddle_ps_pull_dense(ps, id, w), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    assert_memory_equal(w, after, sizeof w);
    paddle_ps_free(ps);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

/* In one step, pushes one show of each id (or `seen`) with gradient 1. */
static void show(paddle_ps *ps, int t, size_t n, const uint64_t *ids, const uint32_t *seen) {
    const float grad[4] = {1, 1, 1, 1};
    assert_true(n <= 4);
    assert_int_equal(seen ? paddle_ps_push_seen_rows(ps, t, n, ids, grad, seen)
                          : paddle_ps_push_rows(ps, t, n, ids, grad),
                     0);
    assert_int_equal(paddle_ps_step_end(ps, 1, NULL, 0), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
}

static void expect_values(paddle_ps *ps, int t, size_t n, const uint64_t *ids, const float *want) {
    float got[4];
    assert_int_equal(paddle_ps_pull_rows(ps, t, n, ids, got, 1), 0);
    assert_int_equal(paddle_ps_wait(ps), 0);
    for (size_t i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 1e-6);
}

static void test_rows_are_admitted_and_go(void **state) {
    (void)state;
    const uint64_t ids[4] = {9, 4, 9, 9}, each[2] = {4, 9};
    const uint32_t seen[4] = {5, 5, 1, 0};
    uint64_t removed = 99, rows = 99, waiting = 99;
    paddle_ps *ps = join();
    /* score = 0.1 * shows without a click + clicks, halved at the end of a day; rows below 1 are
     * removed */
    int t = paddle_ps_table(
        ps, "t", 1, 0, "admit_count=3 admit_zero=1 mean=10 ageing=1 show_decay=0.5 delete_score=1");
    int other = paddle_ps_table(ps, "other", 1, 0, NULL);
    assert_int_equal(paddle_ps_start(ps), 0);
    show(ps, t, 2, ids, NULL);
    expect_values(ps, t, 2, each, (float[]){0, 0}); /* each was shown once */
    show(ps, t, 3, ids, NULL); /* 9 is shown twice more: it gets a row, and both gradients apply */
    expect_values(ps, t, 2, each, (float[]){0, 8});
    show(ps, t, 2, each, seen); /* 4 is shown five times and clicked each time */
    expect_values(ps, t, 2, each, (float[]){9, 7});
    assert_int_equal(paddle_ps_pass_end(ps), 0);
    assert_int_equal(paddle_ps_day_end(ps, &removed, &rows, &waiting), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(rows, 1);
    assert_int_equal(waiting, 0);
    expect_values(ps, t, 2, each, (float[]){9, 0});
    assert_int_equal(paddle_ps_day_end(ps, NULL, NULL, NULL), 0);

    assert_int_equal(paddle_ps_push_seen_rows(ps, other, 2, each, (float[]){1, 1}, seen),
                     PADDLE_PS_EUSAGE);
    assert_non_null(strstr(paddle_ps_error(ps), "table 1 has no admission and ageing of rows"));
    paddle_ps_free(ps);

    static const struct {
        const char *attributes, *says;
    } wrong[] = {
        {"admit_count=1.5", "admit_count is a whole number"},
        {"admit_probability=2", "admit_probability is a number from 0 to 1"},
        {"admit_count=2 admit_probability=0.5", "one of them"},
        {"admit_cuont=2", "unknown attribute 'admit_cuont'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ps = join();
        assert_int_equal(paddle_ps_table(ps, "t", 1, 0, wrong[i].attributes), PADDLE_PS_ECONFIG);
        if (!strstr(paddle_ps_error(ps), wrong[i].says))
            fail_msg("'%s' says '%s', not '%s'", wrong[i].attributes, paddle_ps_error(ps),
                     wrong[i].says);
        paddle_ps_free(ps);
    }
    ps = join();
    t = paddle_ps_table(ps, "t", 1, 0, "ageing=1");
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(
        paddle_ps_push_seen_rows(ps, t, 2, each, (float[]){1, 1}, (const uint32_t[]){1, 0, 1, 2}),
        PADDLE_PS_EUSAGE);
    assert_non_null(strstr(paddle_ps_error(ps), "id 9 was clicked 2 times of 1 shows"));
    paddle_ps_free(ps);
    ps = join();
    assert_int_equal(paddle_ps_dense(ps, "w", 1, (const uint64_t[]){2}, "ageing=1"),
                     PADDLE_PS_ECONFIG); /* an attribute of tables only */
    paddle_ps_free(ps);
}

static void test_settings_that_are_wrong(void **state) {
    (void)state;
    static const struct {
        const char *settings, *says;
    } rows[] = {
        {"local=1", "no optimizer"},
        {"optimizer=sdg local=1", "sdg"},
        {"optimizer=sgd optimizer.learning_rat=1 local=1", "learning_rat"},
        {"optimizer=sgd local=1 sed=4", "unknown setting 'sed'"},
        {"optimizer=sgd local=1 seed", "'seed' is not NAME=VALUE"},
        {"optimizer=sgd local=1 seed=x", "seed"},
        {"optimizer=sgd", "no pservers"},
        {"optimizer=sgd pservers=127.0.0.1:1 trainer_id=2 num_gradient_servers=2",
         "trainer_id 2 of 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char why[400] = "";
        assert_null(paddle_ps_join(rows[i].settings, why, sizeof why));
        if (!strstr(why, rows[i].says))
            fail_msg("'%s' says '%s', not '%s'", rows[i].settings, why, rows[i].says);
        assert_null(paddle_ps_join(rows[i].settings, NULL, 0));
    }
}

static void test_the_first_error_stays(void **state) {
    (void)state;
    const uint64_t shape[1] = {4}, id0 = 0;
    float v[4] = {0};
    paddle_ps *ps = join();
    assert_int_equal(paddle_ps_dense(ps, "w", 1, shape, "stdd=1"), PADDLE_PS_ECONFIG);
    assert_non_null(strstr(paddle_ps_error(ps), "unknown attribute 'stdd'"));
    assert_int_equal(paddle_ps_start(ps), PADDLE_PS_ECONFIG);
    paddle_ps_free(ps);

    ps = join();
    int t = paddle_ps_table(ps, "t", 2, 10, NULL);
    assert_int_equal(paddle_ps_pull_rows(ps, t, 1, &id0, v, 1), PADDLE_PS_EUSAGE);
    assert_non_null(strstr(paddle_ps_error(ps), "before paddle_ps_start"));
    paddle_ps_free(ps);

    ps = join();
    t = paddle_ps_table(ps, "t", 2, 10, NULL);
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(paddle_ps_push_rows(ps, t + 1, 1, &id0, v), PADDLE_PS_EUSAGE);
    assert_non_null(strstr(paddle_ps_error(ps), "there is no table 1"));
    assert_int_equal(paddle_ps_wait(ps), PADDLE_PS_EUSAGE);
    paddle_ps_free(ps);

    const uint64_t ids[2] = {10, 3};
    ps = join();
    t = paddle_ps_table(ps, "t", 2, 10, NULL);
    assert_int_equal(paddle_ps_start(ps), 0);
    assert_int_equal(paddle_ps_pull_rows(ps, t, 2, ids, v, 1), PADDLE_PS_EUSAGE);
    assert_string_equal(paddle_ps_error(ps), "id 10 of table 0, which was declared with 10 rows");
    paddle_ps_free(ps);
    paddle_ps_free(NULL);
}

/* The servers would ignore the second one: gradients were lost in silence. */
static void test_a_step_has_one_push_of_each(void **state) {
    (void)state;
    const uint64_t shape[1] = {2}, ids[2] = {3, 5};
    float v[4] = {1, 2, 3, 4}, got[4];
    for (int twice = 0; twice < 3; twice++) {
        paddle_ps *ps = join();
        int w = paddle_ps_dense(ps, "w", 1, shape, NULL), t = paddle_ps_table(ps, "t", 2, 0, NULL);
        assert_int_equal(paddle_ps_start(ps), 0);
        for (int step = 0; step < 2; step++) {
            assert_int_equal(paddle_ps_pull_rows(ps, t, 2, ids, got, 1), 0);
            assert_int_equal(paddle_ps_wait(ps), 0);
            assert_int_equal(paddle_ps_push_dense(ps, w, v), 0);
            assert_int_equal(paddle_ps_push_rows(ps, t, 2, ids, v), 0);
            if (step && twice) {
                assert_int_equal(twice == 1 ? paddle_ps_push_dense(ps, w, v)
                                            : paddle_ps_push_rows(ps, t, 1, ids + 1, v),
                                 PADDLE_PS_EUSAGE);
                assert_non_null(strstr(paddle_ps_error(ps), "was pushed twice in step 1"));
                break;
            }
            assert_int_equal(paddle_ps_step_end(ps, 1, NULL, 0), 0);
        }
        paddle_ps_free(ps);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_back_in_the_order_of_the_ids),
        cmocka_unit_test(test_many_ids_against_one_pull_of_each),
        cmocka_unit_test(test_dense_sums_and_saving),
        cmocka_unit_test(test_rows_are_admitted_and_go),
        cmocka_unit_test(test_a_step_has_one_push_of_each),
        cmocka_unit_test(test_settings_that_are_wrong),
        cmocka_unit_test(test_the_first_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
