/* SPDX-License-Identifier: Apache-2.0 */
/* Tables whose rows come and go, without whole jobs: models saved with and without counts, bounds,
 * values, errors. test_ps_row_policy.c has whole jobs. */
#include <setjmp.h>

#include <cmocka.h>

#include "ps/client/client.h"
#include "ps/plan/declaration.h"
#include "ps/table/row_policy.h"
#include "tests/support/c/ps_frames.h"
#include "tests/support/c/ps_row_policy.h"

enum { DIM = 2, SEED = 42 };
static const double RATE = 0.5;

/* --- models saved with counts, and without --- */

static struct ps_client *alone(const struct pd_row_life *life) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {
        .local = 1, .n_trainers = 1, .seed = SEED, .optimizer = {"adagrad", RATE, 0}, .job = "J"};
    struct ps_table_spec t = {
        .name = "emb", .dim = DIM, .init_std = 1, .lr_factor = 1, .l2 = 0.01f, .life = life};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(ps_declare_table(c, &t), 0);
    assert_int_equal(ps_start(c), 0);
    return c;
}

static void train_alone(struct ps_client *c) {
    static const uint64_t keys[3] = {1, 5, 9};
    static const float g[3 * DIM] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ps_push_rows(c, 0, (size_t)(3 - i), keys, g), 0);
        assert_int_equal(ps_step_end(c, 4, NULL, 0), 0);
        assert_int_equal(ps_wait(c), 0);
    }
    assert_int_equal(ps_pass_end(c), 0);
}

static void read_alone(struct ps_client *c, float rows[3 * DIM]) {
    static const uint64_t keys[3] = {1, 5, 9};
    assert_int_equal(ps_pull_rows(c, 0, 3, keys, rows, PS_NO_CREATE), 0);
    assert_int_equal(ps_wait(c), 0);
}

static void test_models_of_both_kinds_load_into_both(void **state) {
    (void)state;
    char dir[] = "/tmp/test_ps_row_policy.XXXXXX", folder[64];
    struct pd_row_life lives[2] = {life_conf(0, 0, 0), life_conf(1, 0, 1)};
    lives[1].delete_days = 3;
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    for (int from = 0; from < 2; from++)
        for (int state_too = 0; state_too < 2; state_too++)
            for (int to = 0; to < 2; to++) {
                float a[3 * DIM], b[3 * DIM];
                struct ps_progress at = {.pass = 1};
                struct ps_save_opts o = {.dir = dir, .name = "m", .resume = state_too ? &at : NULL};
                struct ps_client *c = alone(&lives[from]);
                train_alone(c);
                read_alone(c, a);
                assert_int_equal(ps_save(c, &o), 0);
                assert_int_equal(ps_bye(c), 0);
                ps_client_free(c);
                c = alone(&lives[to]);
                uint64_t step, pass;
                struct ps_day day;
                if (state_too ? ps_resume(c, folder, PS_MISSING_FAIL, &step, &pass)
                              : ps_load(c, folder, PS_MISSING_FAIL))
                    fail_msg("%s", ps_client_err(c)->msg);
                if (state_too)
                    assert_int_equal(ps_continue(c, step, pass), 0);
                read_alone(c, b);
                assert_memory_equal(a, b, sizeof a);
                assert_int_equal(ps_day_end(c, &day), 0);
                /* Three shows have a score of 0.3; a model without counts has no score. */
                assert_int_equal(day.removed, to && from ? 3 : 0);
                for (int i = 0; to && !from && i < 3; i++)
                    assert_int_equal(ps_day_end(c, &day), 0);
                assert_int_equal(day.removed, to ? 3 : 0); /* not seen for delete_days */
                assert_int_equal(ps_bye(c), 0);
                ps_client_free(c);
            }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

/* --- single tables: bounds, values, errors --- */

static void test_candidates_are_bounded(void **state) {
    (void)state;
    struct pd_row_life c = life_conf(10, 0, 0);
    struct ps_row_policy l;
    int admitted = 0;
    c.admit_candidates = 1024;
    assert_int_equal(ps_row_policy_init(&l, &c, 1, "t"), 0);
    for (uint64_t i = 0; i < 200000; i++) {
        assert_int_equal(ps_row_policy_show(&l, 1000000 + i, 1), 0); /* shown only once */
        if (i % 40 == 0) {
            /* Three keys that are shown again. */
            assert_int_equal(ps_row_policy_show(&l, i % 3, 1), 0);
            admitted |= ps_row_policy_admit(&l, i % 3, i) << i % 3;
        }
        assert_true(ps_row_policy_candidates(&l) <= 1024);
    }
    assert_int_equal(admitted, 7);
    assert_true(l.n_forgotten > 190000);
    assert_true(ps_index_bytes(l.candidates) < 1024 * 64);
    ps_row_policy_release(&l);
}

static void test_chance_is_the_probability(void **state) {
    (void)state;
    struct pd_row_life c = life_conf(0, 0.05, 0);
    struct ps_row_policy l;
    uint64_t n = 0;
    assert_int_equal(ps_row_policy_init(&l, &c, 7, "t"), 0);
    /* Three shows: expect 20000 * (1 - 0.95^3) = 2853 +- 49. */
    for (uint64_t key = 0; key < 20000; key++) {
        assert_int_equal(ps_row_policy_show(&l, key, 2), 0);
        assert_int_equal(ps_row_policy_show(&l, key, 1), 0);
        n += (uint64_t)ps_row_policy_admit(&l, key, 3);
        assert_int_equal(ps_row_policy_candidates(&l), 0);
    }
    assert_in_range(n, 2853 - 5 * 49, 2853 + 5 * 49);
    ps_row_policy_release(&l);
}

static void test_who_has_no_row_reads_what_was_asked_for(void **state) {
    (void)state;
    for (int zero = 0; zero < 2; zero++) {
        struct pd_row_life c = life_conf(3, 0, 0);
        c.admit_zero = zero;
        struct ps_client *cl = alone(&c), *plain = alone(NULL);
        const uint64_t key = 77;
        float a[DIM], b[DIM], nothing[DIM] = {0}, g[DIM] = {1, 1};
        uint32_t seen[2] = {1, 0};
        assert_int_equal(ps_pull_rows(plain, 0, 1, &key, b, PS_NO_CREATE), 0);
        assert_int_equal(ps_wait(plain), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ps_pull_rows(cl, 0, 1, &key, a, PS_CREATE), 0);
            assert_int_equal(ps_wait(cl), 0);
            if (!i || zero) /* l2 also changes rows that no step touches */
                assert_memory_equal(a, zero ? nothing : b, sizeof a);
            assert_int_equal(ps_push_seen_rows(cl, 0, 1, &key, g, seen), 0);
            assert_int_equal(ps_step_end(cl, 1, NULL, 0), 0);
            assert_int_equal(ps_wait(cl), 0);
        }
        assert_int_equal(ps_pull_rows(cl, 0, 1, &key, a, PS_CREATE), 0);
        assert_int_equal(ps_wait(cl), 0);
        assert_true(a[0] < b[0] - 0.4f); /* the third show admitted the row with its gradient */
        ps_client_free(cl);
        ps_client_free(plain);
    }
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    struct pd_row_life c = life_conf(3, 0.5, 0);
    struct pd_err err = {0};
    assert_int_equal(pd_row_life_check(&c, &err), PD_ECONF);
    assert_non_null(strstr(err.msg, "one of them"));
    c = life_conf(2.5, 0, 0);
    assert_int_equal(pd_row_life_check(&c, &err), PD_ECONF);
    c = life_conf(0, 0, 1);
    c.show_decay = NAN;
    assert_int_equal(pd_row_life_check(&c, &err), PD_ECONF);
    struct ps_declaration job; /* under geo the trainers create the rows */
    struct pd_row_life good = life_conf(3, 0, 1);
    struct ps_table_spec t = {.name = "emb", .dim = DIM, .lr_factor = 1, .life = &good};
    ps_declaration_init(&job);
    job.n_trainers = job.n_streams = job.n_servers = job.n_dense_threads = job.n_sparse_threads = 1;
    pd_err_clear(&err);
    assert_int_equal(ps_optim_conf_init(&job.optim, "sgd", &err), 0);
    job.optim.learning_rate = 0.1;
    assert_int_equal(ps_declaration_add_table(&job, &t, &err), 0);
    struct pd_row_life bad = life_conf(3, 0.5, 0); /* a string is no number format */
    struct ps_table_spec odd = {.name = "100%s%s%n", .dim = DIM, .lr_factor = 1, .life = &bad};
    assert_int_equal(ps_declaration_add_table(&job, &odd, &err), PD_ECONF);
    assert_non_null(strstr(err.msg, "table '100%s%s%n': admit_count and"));
    pd_err_clear(&err);
    pd_fmt(job.update, sizeof job.update, "async");
    assert_int_equal(ps_declaration_check(&job, &err), 0);
    pd_fmt(job.update, sizeof job.update, "geo");
    assert_int_equal(ps_declaration_check(&job, &err), PD_ECONF);
    assert_non_null(strstr(err.msg, "update = geo"));
    ps_declaration_release(&job);
}

/* A push to such a table has shows and clicks of each key, with no more clicks than shows. */
static void test_pushes_that_do_not_say_what_was_seen_are_refused(void **state) {
    (void)state;
    static const uint64_t key = 3;
    static const float g[FR_DIM] = {1};
    static const uint32_t good[2] = {2, 2}, more[2] = {1, 2}, seven[14] = {0};
    static const struct {
        const char *name;
        int life;
        const void *seen;
        size_t bytes;
        int rc;
    } rows[] = {{"none", 1, NULL, 0, PD_EPROTO},
                {"more clicks than shows", 1, more, 8, PD_EPROTO},
                {"too long", 1, seven, 56, PD_EPROTO},
                {"right", 1, good, 8, 0},
                {"of a table that does not count", 0, good, 8, PD_EPROTO},
                {"right without", 0, NULL, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct recorder r;
        struct pd_err err = {0};
        struct pd_row_life life = life_conf(1, 0, 1);
        fr_life = rows[i].life ? &life : NULL;
        struct ps_shard *s = rec_shard(&r, 1);
        assert_int_equal(ps_shard_frame(s, 0, "a", f_declare(1, 0), &err), 0);
        struct wire_frame *f = f_push_rows(0, 0, 0, 0, &key, 1, g);
        if (ps_shard_frame(s, 0, "a", with_seen(f, rows[i].seen, rows[i].bytes), &err) !=
            rows[i].rc)
            fail_msg("%s: %s", rows[i].name, err.msg);
        ps_shard_free(s);
    }
    fr_life = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_of_both_kinds_load_into_both),
        cmocka_unit_test(test_candidates_are_bounded),
        cmocka_unit_test(test_chance_is_the_probability),
        cmocka_unit_test(test_who_has_no_row_reads_what_was_asked_for),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_pushes_that_do_not_say_what_was_seen_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
