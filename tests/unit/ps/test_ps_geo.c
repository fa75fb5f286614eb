/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_geo.c - geo: the sums of adagrad are exchanged, and windows grow. */
#include <setjmp.h>

#include <cmocka.h>

#include "ps/client/client_internal.h"
#include "tests/support/c/ps_cluster.h"

struct values {
    float dense, rows[2]; /* of keys 5 and 6 */
};

static struct ps_client *geo_trainer(const char *servers, uint32_t id) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {.pservers = servers,
                               .trainer_id = id,
                               .n_trainers = 2,
                               .optimizer = {"adagrad", 1, 0},
                               .update = "geo",
                               .geo_sgd_need_push_nums = 100,
                               .job = "J",
                               .key = cluster_key,
                               .connect_timeout_ms = 20000};
    struct ps_dense_spec d = {.name = "w", .n_dims = 1, .shape = {1}, .lr_factor = 1};
    struct ps_table_spec t = {.name = "t", .dim = 1, .lr_factor = 1};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    if (ps_declare_dense(c, &d) || ps_declare_table(c, &t) || ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
    return c;
}

static void geo_pull(struct ps_client *c, struct values *v) {
    static const uint64_t keys[2] = {5, 6};
    if (ps_pull_dense(c, 0, &v->dense, 1) || ps_pull_rows(c, 0, 2, keys, v->rows, PS_CREATE) ||
        ps_wait(c))
        fail_msg("%s", ps_client_err(c)->msg);
}

/* Does a step, which in these first windows is also an exchange. g is the gradient of the dense
 * value and of the n keys. */
static void geo_step(struct ps_client *c, float g, const uint64_t *keys, size_t n) {
    const float of_rows[2] = {g, g};
    if (ps_push_dense(c, 0, &g, 1) || ps_push_rows(c, 0, n, keys, of_rows) ||
        ps_step_end(c, 1, NULL, 0))
        fail_msg("%s", ps_client_err(c)->msg);
}

static void near(float x, double y) {
    if (!(fabs((double)x - y) < 1e-5))
        fail_msg("%.9g, not %.9g", (double)x, y);
}

static void *say_bye(void *c) {
    (void)ps_bye(c);
    return NULL;
}

static void test_geo_trainers_step_from_common_sums_of_squares(void **state) {
    (void)state;
    static const uint64_t keys[2] = {5, 6};
    struct cluster cl;
    struct values v;
    pthread_t thread;
    cluster_start(&cl, 1, 1, 1, 2, 0, -1);
    struct ps_client *a = geo_trainer(cl.list, 0), *b = geo_trainer(cl.list, 1);
    geo_pull(a, &v);
    geo_pull(b, &v);
    geo_step(a, 3, keys, 1); /* local G = 9, value -1; the servers get half: 4.5 and -0.5 */
    geo_pull(a, &v);
    near(v.dense, -0.5);
    near(v.rows[0], -0.5);
    geo_step(b, 4, keys, 1); /* from zeros: G = 16, value -1 */
    geo_pull(b, &v);
    near(v.dense, -1);
    near(v.rows[0], -1);
    geo_step(a, 2, keys, 2); /* from G = 4.5; key 6 from zeros, with its full difference: a trainer
                                that touches a row once in two steps is probably alone */
    geo_pull(a, &v);
    near(v.dense, -1 - 1 / sqrt(8.5));
    near(v.rows[0], -1 - 1 / sqrt(8.5));
    near(v.rows[1], -1);
    geo_step(b, 3, keys + 1, 1); /* from G = 12.5; key 6 from the values when it was pulled */
    geo_pull(b, &v);
    near(v.dense, -1 - 1 / sqrt(8.5) - 1.5 / sqrt(21.5));
    near(v.rows[1], -2);
    geo_step(b, 3, keys + 1, 1); /* now from the squares of both; it was touched in two of three
                                    steps: the share assumes half of the other trainer's steps */
    geo_pull(b, &v);
    near(v.rows[1], -2 - 3 / sqrt(4 + 9 + 9) / 1.5);
    pthread_create(&thread, NULL, say_bye, a);
    (void)ps_bye(b);
    pthread_join(thread, NULL);
    ps_client_free(a);
    ps_client_free(b);
    assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void test_geo_windows_grow(void **state) {
    (void)state;
    struct ps_client c = {.geo = geo_new(5)};
    assert_non_null(c.geo);
    assert_int_equal(geo_steps_in(&c, 0, 8), 8);
    assert_int_equal(geo_steps_in(&c, 7, 9), 3);
    assert_int_equal(geo_steps_in(&c, 8, 24), 16 + 32);
    assert_int_equal(geo_steps_in(&c, 0, 30), 8 + 16 + 32 + 6 * 5);
    free(c.geo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geo_trainers_step_from_common_sums_of_squares),
        cmocka_unit_test(test_geo_windows_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
