/* SPDX-License-Identifier: Apache-2.0 */
/* l1 and l2 of rows that no update touches, compared with values that every update changes. */
#include <setjmp.h>

#include <cmocka.h>

#include "ps/plan/optim.h"
#include "ps/table/lazy_decay.h"
#include "tests/support/c/ps_cluster.h"

/* A row that some updates touch, compared with a value that every update changes, with its gradient
 * or with none. */
static void lazy_against_dense(double l1, double l2, double decay) {
    const struct ps_optim *o = ps_optim_find("sgd");
    struct ps_optim_conf c;
    struct pd_err err = {0};
    struct ps_lazy_decay d;
    assert_int_equal(ps_optim_conf_init(&c, "sgd", &err), 0);
    assert_int_equal(ps_lazy_decay_init(&d, (float)l1, (float)l2), 0);
    float w[2] = {0.7f, -0.011f};
    double dense[2] = {(double)w[0], (double)w[1]};
    uint32_t at = 0;
    for (uint32_t t = 0; t < 5000; t++) {
        double lr = 0.05 * pow(1 + decay * t, -0.5);
        int touched = t % 977 == 500;
        float g[2] = {0.1f, 0.02f};
        if (touched) {
            struct ps_optim_args a;
            ps_optim_args_init(&a, &c, lr, t + 1);
            a.l1 = (float)l1;
            a.l2 = (float)l2;
            ps_lazy_decay_catch_up(&d, at, w, 2);
            ps_optim_apply(o, &a, w, NULL, 2, g, 2);
            at = t + 1;
        }
        assert_int_equal(ps_lazy_decay_update(&d, lr), 0);
        for (int i = 0; i < 2; i++) {
            dense[i] -= lr * ((touched ? (double)g[i] : 0) + l2 * dense[i]);
            dense[i] = copysign(fmax(fabs(dense[i]) - lr * l1, 0), dense[i]);
        }
    }
    ps_lazy_decay_catch_up(&d, at, w, 2);
    for (int i = 0; i < 2; i++)
        if (!(fabs((double)w[i] - dense[i]) <= 1e-4 * fabs(dense[i]) + 1e-7))
            fail_msg("l1 %g, l2 %g: the row is %.9g, the dense value %.9g", l1, l2, (double)w[i],
                     dense[i]);
    ps_lazy_decay_release(&d);
}

static void test_rows_that_nobody_touches_decay_as_dense_values_do(void **state) {
    (void)state;
    lazy_against_dense(0, 1e-2, 0);
    lazy_against_dense(1e-4, 0, 0);
    lazy_against_dense(1e-4, 1e-2, 0);
    lazy_against_dense(1e-4, 1e-2, 1e-3); /* with a schedule */
    lazy_against_dense(1e-3, 15, 0);      /* the value becomes 0, and no number overflows */
    for (int n = 1; n < 3; n++) {
        struct ps_lazy_decay d;
        char spec[16];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = ps_lazy_decay_init(&d, 1, 1);
        for (int i = 0; i < 1100 && !rc; i++)
            rc = ps_lazy_decay_update(&d, 0.1);
        pd_fault_arm(NULL);
        assert_int_equal(rc, PD_ENOMEM);
        ps_lazy_decay_release(&d);
    }
}

/* The list of updates begins anew now and then. Three rows must keep the same values as without
 * this: a row never touched, a row touched long ago and a row touched just before. */
static void decay_for_long(double l1, double l2, double lr, uint32_t updates) {
    struct ps_lazy_decay d;
    float w[3] = {0.7f, 0.7f, 0.7f};
    uint32_t at[3] = {0}, again = 0;
    double dense[3] = {w[0], w[1], w[2]};
    assert_int_equal(ps_lazy_decay_init(&d, (float)l1, (float)l2), 0);
    for (uint32_t t = 0; t < updates; t++) {
        const double a = 1 - lr * (double)(float)l2, c = lr * (double)(float)l1;
        assert_int_equal(ps_lazy_decay_update(&d, lr), 0);
        for (int i = 0; i < 3; i++)
            dense[i] = fmax(dense[i] * a - c, 0);
        if (ps_lazy_decay_is_long(&d)) {
            again++;
            for (int i = 1; i < 3; i++) {
                ps_lazy_decay_catch_up(&d, at[i], &w[i], 1);
                at[i] = 1;
            }
            ps_lazy_decay_begin_anew(&d);
        }
        for (int i = 1; i < 3; i++)
            if (t == updates / 2 || (i == 2 && t + 5 == updates)) {
                w[i] = 3;
                dense[i] = 3;
                at[i] = d.n;
            }
    }
    assert_true(again > 0 && d.cap <= 4u << 20);
    for (int i = 0; i < 3; i++) {
        ps_lazy_decay_catch_up(&d, at[i], &w[i], 1);
        if (!(fabs((double)w[i] - dense[i]) <= 1e-4 * dense[i] + 1e-7))
            fail_msg("l1 %g, l2 %g: row %d is %.9g after %u updates, the dense value %.9g", l1, l2,
                     i, (double)w[i], updates, dense[i]);
    }
    ps_lazy_decay_release(&d);
}

static void test_decay_of_a_long_training(void **state) {
    (void)state;
    decay_for_long(0, 1e-5, 0.01, 2500000);
    decay_for_long(1e-6, 0, 0.05, 2500000);
    decay_for_long(1e-5, 1e-4, 0.1, 2500000);
    /* Almost nothing is left of values from 3000 updates ago. */
    decay_for_long(1e-3, 0.2, 0.5, 20000);
    decay_for_long(0, 15, 0.05, 20000);
}

/* The same in a server: rows decay correctly after any number of updates. */
static void test_rows_of_a_server_decay_after_many_updates(void **state) {
    (void)state;
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {
        .local = 1, .n_trainers = 1, .optimizer = {"sgd", 0.5, 0}, .job = "J"};
    struct ps_table_spec t = {.name = "t", .dim = 1, .init_mean = 1, .lr_factor = 1, .l2 = 0.2f};
    static const uint64_t often = 1, seldom = 2, never = 3;
    float g = 0, w[3];
    double want[2] = {1, 1};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(ps_declare_table(c, &t), 0);
    assert_int_equal(ps_start(c), 0);
    for (int i = 0; i < 9000; i++) {
        const int last = i == 8980;
        g = last ? -2 : 0; /* the step adds 1 */
        assert_int_equal(ps_push_rows(c, 0, 1, last ? &seldom : &often, &g), 0);
        assert_int_equal(ps_step_end(c, 1, NULL, 0), 0);
        for (int k = 0; k < 2; k++)
            want[k] *= 0.9;
        want[0] += last;
    }
    assert_int_equal(
        ps_pull_rows(c, 0, 3, (const uint64_t[]){often, seldom, never}, w, PS_NO_CREATE), 0);
    assert_int_equal(ps_wait(c), 0);
    assert_true(fabs((double)w[1] - want[0]) <= 1e-5 && fabsf(w[0]) <= 1e-30f &&
                fabsf(w[2]) <= 1e-30f);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
}

/* --- a checkpoint from threads with different numbers of updates --- */

static struct ps_client *async_trainer(const char *servers, uint32_t id, uint32_t n) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {.local = !servers,
                               .pservers = servers,
                               .trainer_id = id,
                               .n_trainers = n,
                               .optimizer = {"sgd", 0.5, 0},
                               .update = "async",
                               .async_lagged_grad_discard_ratio = 0.4,
                               .job = "J",
                               .key = cluster_key,
                               .connect_timeout_ms = 60000};
    struct ps_table_spec t = {.name = "t", .dim = 1, .init_mean = 1, .lr_factor = 1, .l2 = 0.2f};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(ps_declare_table(c, &t), 0);
    if (ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
    return c;
}

static void must(struct ps_client *c, int rc) {
    if (rc < 0)
        fail_msg("%s", ps_client_err(c)->msg);
}

static void read_row(struct ps_client *c, uint64_t key, float *w) {
    must(c, ps_pull_rows(c, 0, 1, &key, w, PS_NO_CREATE));
    must(c, ps_wait(c));
}

/* A contribution is too old for one thread, from which its trainer has pulled, but not for the
 * other. So the threads have made one update and two. */
static void test_threads_that_differ_go_on_as_one(void **state) {
    (void)state;
    char dir[] = "/tmp/test_ps_lazy_decay.XXXXXX", folder[64];
    struct cluster cl;
    const float g = 1;
    float w[2], again[2];
    uint64_t key[2] = {1, 1}, step, pass;
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    for (uint32_t t = 0; t < 2; t++)
        while (ps_row_thread(key[t], 2) != t)
            key[t]++;
    cluster_start(&cl, 1, 1, 2, 2, 0, -1);
    struct ps_client *a = async_trainer(cl.list, 0, 2), *b = async_trainer(cl.list, 1, 2);
    read_row(b, key[0], w);
    const uint64_t both[2] = {key[key[0] > key[1]], key[key[0] < key[1]]};
    const float gg[2] = {1, 1};
    must(a, ps_push_rows(a, 0, 2, both, gg));
    must(a, ps_step_end(a, 1, NULL, 0));
    for (int t = 0; t < 2; t++)
        read_row(a, key[t], &w[t]); /* afterwards the push is applied */
    must(b, ps_push_rows(b, 0, 1, &key[1], &g));
    must(b, ps_step_end(b, 1, NULL, 0));
    read_row(b, key[1], w);
    for (int t = 0; t < 2; t++)
        read_row(a, key[t], &w[t]);
    struct ps_progress at = {.pass = 0};
    must(a, ps_save(a, &(struct ps_save_opts){.dir = dir, .name = "m", .resume = &at}));
    for (int i = 0; i < 2; i++) {
        struct ps_client *c = i ? b : a;
        must(c, ps_bye(c));
        ps_client_free(c);
    }
    assert_int_equal(cluster_join(&cl, NULL), 0);
    a = async_trainer(NULL, 0, 1);
    must(a, ps_resume(a, folder, PS_MISSING_FAIL, &step, &pass));
    must(a, ps_continue(a, step, pass));
    for (int t = 0; t < 2; t++)
        read_row(a, key[t], &again[t]);
    assert_memory_equal(w, again, sizeof w);
    must(a, ps_bye(a));
    ps_client_free(a);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_that_nobody_touches_decay_as_dense_values_do),
        cmocka_unit_test(test_decay_of_a_long_training),
        cmocka_unit_test(test_rows_of_a_server_decay_after_many_updates),
        cmocka_unit_test(test_threads_that_differ_go_on_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
