/* Server threads and clients over loopback: the result does not depend on how the job is cut, nor on timing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "base/rng.h"
#include "ps/table.h"
#include "tests/support/ps_cluster.h"

static const struct toy base = {.n_trainers = 1, .n_servers = 1, .n_dense = 1, .n_sparse = 1, .n_streams = 4, .n_passes = 2,
                                .steps = 3, .optimizer = "adagrad", .lr = 0.05, .l2 = 0.001f};

static struct toy_result *run(const struct toy *t) {
    struct toy_result *r = calloc(1, sizeof *r);
    struct pd_err err = {0};
    if (toy_run(t, r, &err))
        fail_msg("%s", err.msg);
    return r;
}

/* The whole job in doubles, stream by stream, with nothing of the system but its initial values and formulas. */
static void reference(const struct toy *t, double *dense, double *rows) {
    static double G[TOY_VALUES], Gr[TOY_ROWS * TOY_DIM];
    memset(G, 0, sizeof G);
    memset(Gr, 0, sizeof Gr);
    double *w = dense;
    for (int p = 0; p < TOY_DENSE; w += toy_sizes[p++]) {
        char name[16];
        static float x[40000];
        snprintf(name, sizeof name, "w%d", p);
        pd_rng_normal(pd_rng_key(42, PD_RNG_INIT, ps_name_hash(name), 0), 1, x, toy_sizes[p]);
        for (uint64_t i = 0; i < toy_sizes[p]; i++)
            w[i] = 0.25 + (double)(0.1f * (float)p) * (double)x[i];
    }
    for (int i = 0; i < TOY_ROWS; i++) {
        float x[TOY_DIM];
        pd_rng_normal(pd_rng_key(42, PD_RNG_INIT, ps_name_hash("emb"), toy_key(i)), 0, x, TOY_DIM);
        for (int d = 0; d < TOY_DIM; d++)
            rows[i * TOY_DIM + d] = 0.5 * (double)x[d];
    }
    uint64_t step = 0;
    int longest = t->steps + (t->n_streams > 2 ? 2 : t->n_streams - 1), ada = !strcmp(t->optimizer, "adagrad");
    for (int pass = 0; pass < t->n_passes; pass++)
        for (int k = 0; k < longest; k++, step++) {
            struct ps_range r[16];
            int n = toy_streams(t, 0, t->n_streams, k, r);
            double samples = 0;
            for (int j = 0; j < n; j++)
                samples += (double)toy_samples(r[j].lo, step);
            uint64_t at = 0;
            for (int p = 0; p < TOY_DENSE; p++)
                for (uint64_t i = 0; i < toy_sizes[p]; i++, at++) {
                    double g = 0;
                    for (int j = 0; j < n; j++)
                        g += (double)toy_grad(r[j].lo, step, (uint64_t)p, i);
                    g = g / samples + (double)t->l2 * dense[at];
                    G[at] += g * g;
                    dense[at] -= t->lr * g / (ada ? sqrt(G[at]) + 1e-6 : 1);
                }
            for (int i = 0; i < TOY_ROWS; i++) {
                int any = 0;
                for (int j = 0; j < n; j++)
                    any |= toy_has_row(r[j].lo, step, toy_key(i));
                for (int d = 0; any && d < TOY_DIM; d++) {
                    double g = 0, *x = &rows[i * TOY_DIM + d];
                    for (int j = 0; j < n; j++)
                        if (toy_has_row(r[j].lo, step, toy_key(i)))
                            g += (double)toy_grad(r[j].lo, step, 1000 + toy_key(i), (uint64_t)d);
                    g = g / samples + (double)t->l2 * *x;
                    Gr[i * TOY_DIM + d] += g * g;
                    *x -= 2 * t->lr * g / (ada ? sqrt(Gr[i * TOY_DIM + d]) + 1e-6 : 1);
                }
            }
        }
}

static void assert_near(const char *what, const float *a, const double *b, size_t n) {
    size_t worst = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]) / (1e-3 + fabs(b[i]));
        if (!(d <= most)) {
            most = d;
            worst = i;
        }
    }
    if (!(most < 2e-4))
        fail_msg("%s[%zu] is %.9g, reference %.9g", what, worst, (double)a[worst], b[worst]);
}

static void test_reference(void **state) {
    (void)state;
    static double dense[TOY_VALUES], rows[TOY_ROWS * TOY_DIM];
    static const char *const names[] = {"sgd", "adagrad"};
    for (int i = 0; i < 2; i++) {
        struct toy t = base;
        t.local = 1;
        t.optimizer = names[i];
        struct toy_result *r = run(&t);
        reference(&t, dense, rows);
        assert_near("dense", r->dense, dense, TOY_VALUES);
        assert_near("rows", r->rows, rows, TOY_ROWS * TOY_DIM);
        assert_int_equal(r->steps, 2 * 5);
        free(r);
    }
}

static void assert_same(const char *name, const struct toy_result *a, const struct toy_result *b) {
    for (size_t i = 0; i < TOY_VALUES; i++)
        if (memcmp(&a->dense[i], &b->dense[i], 4))
            fail_msg("%s: dense[%zu] is %.9g instead of %.9g", name, i, (double)b->dense[i], (double)a->dense[i]);
    for (size_t i = 0; i < TOY_ROWS * TOY_DIM; i++)
        if (memcmp(&a->rows[i], &b->rows[i], 4))
            fail_msg("%s: rows[%zu] is %.9g instead of %.9g", name, i, (double)b->rows[i], (double)a->rows[i]);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->samples, b->samples);
    assert_true(a->cost_sum == b->cost_sum);
}

static void test_any_cut_gives_the_same_bits(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int trainers, servers, dense, sparse, jitter;
    } row[] = {
        {"1 trainer, 1 server", 1, 1, 1, 1, 0},
        {"2 trainers, 1 server", 2, 1, 1, 1, 0},
        {"4 trainers, 1 server", 4, 1, 1, 1, 0},
        {"4 trainers, 3 servers", 4, 3, 1, 1, 0},
        {"2 trainers, 2 servers, 2+2 threads", 2, 2, 2, 2, 0},
        {"4 trainers, 3 servers, 2+1 threads, other timing", 4, 3, 2, 1, 1},
        {"4 trainers, 2 servers, 1+2 threads, other timing", 4, 2, 1, 2, 2},
    };
    struct toy t = base;
    t.local = 1;
    struct toy_result *want = run(&t);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        t = base;
        t.n_trainers = row[i].trainers;
        t.n_servers = row[i].servers;
        t.n_dense = row[i].dense;
        t.n_sparse = row[i].sparse;
        t.jitter = row[i].jitter;
        struct toy_result *got = run(&t);
        assert_same(row[i].name, want, got);
        free(got);
    }
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_any_cut_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
