/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_average.c - running means that the servers keep. Under every update rule and every
 * optimizer, w += average * (sum / samples - w). */
#include <setjmp.h>

#include <cmocka.h>

#include "ps/client/client.h"
#include "ps/plan/update_rule.h"

enum { N = 5000, STEPS = 11 };

static uint64_t samples_of(int step) { return 1 + (uint64_t)step % 4; }
static float sum_of(int step, int i) { return (float)(((step * 31 + i * 7) % 23 - 11) * 100); }

static void follow(const char *update) {
    static float w[N], kept[3], sum[N];
    static double want[N];
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    const struct ps_client_opts o = {
        .local = 1,
        .n_trainers = 1,
        .seed = 1,
        .update = update,
        .geo_sgd_need_push_nums = 3,
        .optimizer = {.name = "momentum",
                      .learning_rate = 0.3,
                      .settings = "momentum=0.9 clip_value=0.001 warmup_steps=5"}};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s: %s", update, err.msg);
    struct ps_dense_spec mean = {.name = "mean",
                                 .n_dims = 1,
                                 .shape = {N},
                                 .init_mean = 2,
                                 .lr_factor = 1,
                                 .l1 = 1,
                                 .l2 = 0.5f,
                                 .average = 0.25f};
    struct ps_dense_spec fixed = {.name = "fixed",
                                  .n_dims = 1,
                                  .shape = {3},
                                  .init_mean = 2,
                                  .lr_factor = 0,
                                  .average = 0.25f};
    int m = ps_declare_dense(c, &mean), f = ps_declare_dense(c, &fixed);
    assert_int_equal(ps_start(c), 0);
    for (int i = 0; i < N; i++)
        want[i] = 2;
    for (int k = 0; k < STEPS; k++) {
        assert_int_equal(ps_pull_dense(c, m, w, N), 0);
        assert_int_equal(ps_wait(c), 0);
        for (int i = 0; i < N; i++) {
            sum[i] = sum_of(k, i);
            want[i] += 0.25 * ((double)sum[i] / (double)samples_of(k) - want[i]);
        }
        assert_int_equal(ps_push_dense(c, m, sum, N), 0);
        assert_int_equal(ps_push_dense(c, f, sum, 3), 0);
        assert_int_equal(ps_step_end(c, samples_of(k), NULL, 0), 0);
    }
    assert_int_equal(ps_pass_end(c), 0);
    assert_int_equal(ps_pull_dense(c, m, w, N), 0);
    assert_int_equal(ps_pull_dense(c, f, kept, 3), 0);
    assert_int_equal(ps_wait(c), 0);
    for (int i = 0; i < N; i++)
        if (!(fabs((double)w[i] - want[i]) <= 1e-3)) /* for values of some hundred */
            fail_msg("%s: value %d is %.9g, not %.9g", update, i, (double)w[i], want[i]);
    assert_true(kept[0] == 2 && kept[2] == 2);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
}

static void test_it_follows_what_is_pushed_under_every_rule(void **state) {
    (void)state;
    for (size_t i = 0; ps_update_rule_at(i); i++)
        follow(ps_update_rule_at(i)->name);
}

static void test_a_share_above_1_is_refused(void **state) {
    (void)state;
    struct ps_client *c = NULL;
    const struct ps_client_opts o = {
        .local = 1, .n_trainers = 1, .optimizer = {.name = "sgd", .learning_rate = 1}};
    assert_int_equal(ps_client_new(&c, &o, NULL), 0);
    const struct ps_dense_spec mean = {
        .name = "mean", .n_dims = 1, .shape = {N}, .lr_factor = 1, .average = 1.5f};
    assert_int_equal(ps_declare_dense(c, &mean), PD_ECONF);
    assert_string_equal(ps_client_err(c)->msg, "parameter 'mean': a running mean's share is 1.5");
    ps_client_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_follows_what_is_pushed_under_every_rule),
        cmocka_unit_test(test_a_share_above_1_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
