/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_crew.c - several threads update a local server's large parameters: the same bits as with
 * one thread, under every optimizer. */
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>

#include "ps/client/client.h"
#include "ps/plan/optim.h"

enum { N = 100003, MORE = 40000, SMALL = 100, STEPS = 4, THREADS = 3 };

static int runs;

struct call {
    pd_workers_job job;
    void *arg;
    uint32_t index;
};

static void *call(void *arg) {
    const struct call *c = arg;
    c->job(c->arg, c->index, THREADS);
    return NULL;
}

static void crew_run(void *crew, pd_workers_job job, void *arg) {
    pthread_t thread[THREADS];
    struct call c[THREADS];
    assert_ptr_equal(crew, &runs);
    runs++;
    for (uint32_t i = 0; i < THREADS; i++) {
        c[i] = (struct call){job, arg, i};
        assert_int_equal(pthread_create(&thread[i], NULL, call, &c[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

/* Trains and writes the two large parameters to out. bad 1: the last gradient of each has a NaN.
 * Returns the client's code. */
static int train(const char *optimizer, int with_crew, float average, int bad, float *out,
                 struct pd_err *why) {
    static float grad[N];
    struct ps_client *c = NULL;
    const struct ps_client_opts o = {.local = 1,
                                     .n_trainers = 1,
                                     .seed = 5,
                                     .stop_on_nan = 1,
                                     .crew = {with_crew ? crew_run : NULL, &runs},
                                     .optimizer = {.name = optimizer, .learning_rate = 0.05}};
    const struct ps_dense_spec large = {.name = "large",
                                        .n_dims = 1,
                                        .shape = {N},
                                        .init_std = 1,
                                        .lr_factor = 1,
                                        .l1 = 1e-3f,
                                        .l2 = 1e-2f,
                                        .average = average};
    const struct ps_dense_spec small = {
        .name = "small", .n_dims = 1, .shape = {SMALL}, .init_std = 1, .lr_factor = 1};
    const struct ps_dense_spec more = {
        .name = "more", .n_dims = 1, .shape = {MORE}, .init_std = 1, .lr_factor = 0.5f};
    assert_int_equal(ps_client_new(&c, &o, NULL), 0);
    int a = ps_declare_dense(c, &large), b = ps_declare_dense(c, &small),
        m = ps_declare_dense(c, &more), rc = 0;
    assert_int_equal(ps_start(c), 0);
    for (int k = 0; k < STEPS && !rc; k++) {
        for (int i = 0; i < N; i++)
            grad[i] = (float)((k * 31 + i * 7) % 23 - 11) * 0.3f;
        if (bad && k == STEPS - 1)
            grad[0] = grad[N - 1] =
                NAN; /* `more`: in the first thread's slice; `large`: also in the last one's */
        assert_int_equal(ps_push_dense(c, a, grad, N), 0);
        assert_int_equal(ps_push_dense(c, b, grad + 1, SMALL), 0);
        assert_int_equal(ps_push_dense(c, m, grad, MORE), 0);
        rc = ps_step_end(c, 2, NULL, 0);
    }
    if (!rc) {
        assert_int_equal(ps_pull_dense(c, a, out, N), 0);
        assert_int_equal(ps_pull_dense(c, m, out + N, MORE), 0);
        rc = ps_wait(c);
    }
    *why = *ps_client_err(c);
    ps_client_free(c);
    return rc;
}

static void test_threads_change_no_bit(void **state) {
    (void)state;
    static float one[N + MORE], several[N + MORE];
    struct pd_err err;
    for (size_t i = 0; ps_optim_at(i); i++)
        for (int average = 0; average < 2; average++) {
            const char *name = ps_optim_at(i)->name;
            runs = 0;
            assert_int_equal(train(name, 0, average ? 0.25f : 0, 0, one, &err), 0);
            assert_int_equal(runs, 0);
            assert_int_equal(train(name, 1, average ? 0.25f : 0, 0, several, &err), 0);
            /* One run per step for both large parameters; none for the small one. */
            assert_int_equal(runs, STEPS);
            if (memcmp(one, several, sizeof one))
                fail_msg("%s: the values differ", name);
        }
}

static void test_a_number_that_is_none_is_found_by_any_thread(void **state) {
    (void)state;
    static float out[N + MORE];
    struct pd_err err;
    assert_int_equal(train("adam", 1, 0, 1, out, &err), PD_ENUM);
    assert_non_null(
        strstr(err.msg, "the gradient of parameter 'large' is not a finite number in step 3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_a_number_that_is_none_is_found_by_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
