/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer and its server in one process. The caller's memory is treated as with servers
 * elsewhere, and calls keep the same promises about it. */
#include <setjmp.h>

#include <cmocka.h>

#include "base/row_life.h"
#include "ps/client/client.h"

enum { KEYS = 40, DIM = 4 };

static struct ps_client *client(void) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {
        .local = 1, .n_trainers = 1, .seed = 3, .optimizer = {"sgd", 1, 0}, .job = "J"};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    return c;
}

static void ok(struct ps_client *c, int rc) {
    if (rc < 0)
        fail_msg("%s", ps_client_err(c)->msg);
}

static void end(struct ps_client *c) {
    ok(c, ps_bye(c));
    ps_client_free(c);
}

/* The shows of a table must not be mixed with those of a table pushed later, whether the memory is
 * reused, as the trainer does, or larger. */
static void test_what_was_seen_is_of_its_own_table(void **state) {
    (void)state;
    struct pd_row_life life;
    pd_row_life_init(&life);
    life.admit_count = 3;
    for (int sizes = 0; sizes < 2; sizes++) {
        struct ps_client *c = client();
        uint64_t keys[KEYS];
        uint32_t seen[2 * KEYS];
        float grad[KEYS], rows[KEYS];
        const size_t n[3] = {KEYS / 4, sizes ? KEYS : KEYS / 4, 2};
        for (int t = 0; t < 3; t++) {
            char name[8];
            snprintf(name, sizeof name, "t%d", t);
            struct ps_table_spec spec = {.name = name, .dim = 1, .lr_factor = 1, .life = &life};
            assert_int_equal(ps_declare_table(c, &spec), t);
        }
        ok(c, ps_start(c));
        for (int i = 0; i < KEYS; i++) {
            keys[i] = (uint64_t)i;
            grad[i] = -1;
        }
        for (int t = 0; t < 3; t++) {
            for (size_t i = 0; i < n[t]; i++) {
                seen[2 * i] = t ? 1 : 3; /* only the first table's ids have enough shows */
                seen[2 * i + 1] = 0;
            }
            ok(c, ps_push_seen_rows(c, t, n[t], keys, grad, seen));
        }
        ok(c, ps_step_end(c, 1, NULL, 0));
        for (int t = 0; t < 3; t++) {
            ok(c, ps_pull_rows(c, t, n[t], keys, rows, PS_NO_CREATE));
            ok(c, ps_wait(c));
            for (size_t i = 0; i < n[t]; i++)
                if (rows[i] != (t ? 0 : 1))
                    fail_msg("table %d, key %zu of %zu: %g", t, i, n[t], (double)rows[i]);
        }
        end(c);
    }
}

/* After ps_wait the caller may reuse pushed memory, also before the step ends. */
static void test_pushed_memory_after_a_wait(void **state) {
    (void)state;
    struct ps_client *c = client();
    struct ps_dense_spec w = {.name = "w", .n_dims = 1, .shape = {100}, .lr_factor = 1},
                         v = {.name = "v", .n_dims = 1, .shape = {100}, .lr_factor = 1};
    struct ps_table_spec t = {.name = "t", .dim = DIM, .lr_factor = 1};
    assert_int_equal(ps_declare_dense(c, &w), 0);
    assert_int_equal(ps_declare_dense(c, &v), 1);
    assert_int_equal(ps_declare_table(c, &t), 0);
    ok(c, ps_start(c));
    const uint64_t keys[2] = {3, 9};
    float *grad = malloc(100 * sizeof *grad), got[100], rows[2 * DIM];
    for (int i = 0; i < 100; i++)
        grad[i] = (float)-i;
    ok(c, ps_push_dense(c, 0, grad, 100));
    ok(c, ps_push_rows(c, 0, 2, keys, grad));
    ok(c, ps_wait(c));
    for (int i = 0; i < 100; i++)
        grad[i] = -1000;
    ok(c, ps_push_dense(c, 1, grad, 100));
    ok(c, ps_wait(c));
    memset(grad, 0, 100 * sizeof *grad);
    free(grad);
    ok(c, ps_step_end(c, 1, NULL, 0));
    for (int k = 0; k < 2; k++) {
        ok(c, ps_pull_dense(c, k, got, 100));
        ok(c, ps_wait(c));
        for (int i = 0; i < 100; i++)
            assert_true(got[i] == (k ? 1000 : (float)i));
    }
    ok(c, ps_pull_rows(c, 0, 2, keys, rows, PS_NO_CREATE));
    ok(c, ps_wait(c));
    for (int i = 0; i < 2 * DIM; i++)
        assert_true(rows[i] == (float)i);
    end(c);
}

/* "rand": initial values, independent of earlier training. */
static void test_loading_what_the_model_lacks(void **state) {
    (void)state;
    char dir[] = "/tmp/test_ps_local.XXXXXX", folder[64];
    struct ps_dense_spec w = {.name = "w",
                              .n_dims = 1,
                              .shape = {10},
                              .init_std = 1,
                              .lr_factor = 1},
                         v = {.name = "v", .n_dims = 1, .shape = {5}, .lr_factor = 1};
    float first[10], got[10], grad[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    struct ps_client *c = client();
    assert_int_equal(ps_declare_dense(c, &v), 0);
    ok(c, ps_start(c));
    ok(c, ps_save(c, &(struct ps_save_opts){.dir = dir, .name = "m"}));
    end(c);
    for (enum ps_missing missing = PS_MISSING_RAND; missing <= PS_MISSING_ZERO; missing++) {
        c = client();
        assert_int_equal(ps_declare_dense(c, &w), 0);
        assert_int_equal(ps_declare_dense(c, &v), 1);
        ok(c, ps_start(c));
        ok(c, ps_pull_dense(c, 0, first, 10));
        ok(c, ps_wait(c));
        ok(c, ps_push_dense(c, 0, grad, 10));
        ok(c, ps_step_end(c, 1, NULL, 0));
        ok(c, ps_load(c, folder, missing));
        ok(c, ps_pull_dense(c, 0, got, 10));
        ok(c, ps_wait(c));
        for (int i = 0; i < 10; i++)
            assert_true(got[i] == (missing == PS_MISSING_RAND ? first[i] : 0));
        end(c);
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_seen_is_of_its_own_table),
        cmocka_unit_test(test_pushed_memory_after_a_wait),
        cmocka_unit_test(test_loading_what_the_model_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
