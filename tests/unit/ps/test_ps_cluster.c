/* SPDX-License-Identifier: Apache-2.0 */
/* Server threads and clients over loopback: the result depends neither on how the job is divided
 * nor on timing. */
#include <setjmp.h>
#include <cmocka.h>
#include <sched.h>

#include "math/rng.h"
#include "model/model.h"
#include "ps/table/table.h"
#include "tests/support/c/ps_cluster.h"

static const struct toy base = {.n_trainers = 1,
                                .n_servers = 1,
                                .n_dense = 1,
                                .n_sparse = 1,
                                .n_streams = 4,
                                .n_passes = 2,
                                .steps = 3,
                                .optimizer = "adagrad",
                                .lr = 0.05,
                                .l2 = 0.001f};

static struct toy_result *run(const struct toy *t) {
    struct toy_result *r = calloc(1, sizeof *r);
    struct pd_err err = {0};
    if (toy_run(t, r, &err))
        fail_msg("%s", err.msg);
    return r;
}

/* The whole job in doubles, stream by stream. It shares only initial values and formulas with the
 * system. */
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
    int longest = t->steps + (t->n_streams > 2 ? 2 : t->n_streams - 1),
        ada = !strcmp(t->optimizer, "adagrad");
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
                for (int d = 0; !any && d < TOY_DIM; d++)
                    rows[i * TOY_DIM + d] -= 2 * t->lr * (double)t->l2 * rows[i * TOY_DIM + d];
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
            fail_msg("%s: dense[%zu] is %.9g instead of %.9g", name, i, (double)b->dense[i],
                     (double)a->dense[i]);
    for (size_t i = 0; i < TOY_ROWS * TOY_DIM; i++)
        if (memcmp(&a->rows[i], &b->rows[i], 4))
            fail_msg("%s: rows[%zu] is %.9g instead of %.9g", name, i, (double)b->rows[i],
                     (double)a->rows[i]);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->samples, b->samples);
    assert_true(a->cost_sum == b->cost_sum);
    if (memcmp(&a->noise, &b->noise, sizeof a->noise))
        fail_msg("%s: the numbers' sum is %.17g instead of %.17g", name, b->noise, a->noise);
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

/* 12 streams: three trainers' ranges, and those of 5, 7 and 8, cross the middles of the tree. */
static void test_nodes_as_parts_give_the_same_bits_for_any_number_of_trainers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int trainers, servers, dense, sparse, jitter;
    } row[] = {
        {"1 trainer, 2 servers, 1+2 threads", 1, 2, 1, 2, 0},
        {"2 trainers", 2, 1, 1, 1, 0},
        {"3 trainers, 2 servers, other timing", 3, 2, 1, 1, 1},
        {"3 trainers, 2+2 threads", 3, 1, 2, 2, 0},
        {"4 trainers, 2 servers, 2+1 threads", 4, 2, 2, 1, 0},
        {"5 trainers, other timing", 5, 1, 1, 1, 2},
        {"7 trainers", 7, 1, 1, 1, 0},
        {"8 trainers, 3 servers", 8, 3, 1, 1, 0},
    };
    struct toy t = base;
    t.local = 1;
    t.parts = 1;
    t.n_streams = 12;
    struct toy_result *want = run(&t);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        t.local = 0;
        t.n_trainers = row[i].trainers;
        t.n_servers = row[i].servers;
        t.n_dense = row[i].dense;
        t.n_sparse = row[i].sparse;
        t.jitter = row[i].jitter;
        struct toy_result *got = run(&t);
        assert_same(row[i].name, want, got);
        free(got);
    }
    t.parts = 0; /* one contribution per trainer is summed in another order, so the test must see a
                    difference */
    t.n_trainers = 5;
    struct toy_result *other = run(&t);
    assert_memory_not_equal(want->dense, other->dense, sizeof want->dense);
    assert_true(want->noise != other->noise);
    free(other);
    free(want);
}

/* --- save and load --- */

enum { SAVED_ROWS = 50 };

static struct ps_client *open_client(const struct cluster *cl, const char *optimizer) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {.local = !cl,
                               .pservers = cl ? cl->list : NULL,
                               .n_trainers = 1,
                               .seed = 42,
                               .optimizer = {optimizer, 0.1, 1e-6},
                               .job = "J",
                               .key = cluster_key};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    return c;
}

static void declare_saved(struct ps_client *c, int extra) {
    struct ps_dense_spec w = {
        .name = "w", .n_dims = 2, .shape = {40, 100}, .init_std = 1, .lr_factor = 1};
    struct ps_dense_spec v = {
        .name = "v", .n_dims = 1, .shape = {7}, .init_mean = 3, .lr_factor = 1};
    struct ps_table_spec t = {
        .name = "emb", .dim = 4, .n_rows = SAVED_ROWS, .init_std = 1, .lr_factor = 1};
    struct ps_table_spec u = {.name = "more", .dim = 2, .init_mean = 1, .lr_factor = 1};
    assert_int_equal(ps_declare_dense(c, &w), 0);
    if (extra)
        assert_int_equal(ps_declare_dense(c, &v), 1);
    assert_int_equal(ps_declare_table(c, &t), 0);
    if (extra)
        assert_int_equal(ps_declare_table(c, &u), 1);
    if (ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
}

static void read_saved(struct ps_client *c, float *w, float *rows) {
    uint64_t keys[SAVED_ROWS];
    for (uint64_t i = 0; i < SAVED_ROWS; i++)
        keys[i] = i;
    assert_int_equal(ps_pull_dense(c, 0, w, 4000), 0);
    assert_int_equal(ps_pull_rows(c, 0, SAVED_ROWS, keys, rows, PS_NO_CREATE), 0);
    assert_int_equal(ps_wait(c), 0);
}

/* Trains a little on n servers and saves; w and rows are the saved values. */
static void train_and_save(const char *dir, const char *name, int n_servers, int threads, float *w,
                           float *rows) {
    struct cluster cl;
    if (n_servers)
        cluster_start(&cl, n_servers, threads, threads, 1, 0, -1);
    struct ps_client *c = open_client(n_servers ? &cl : NULL, "adagrad");
    struct ps_save_opts o = {
        .dir = dir, .name = name, .pass = 1, .config = "[data]\n", .create_rows = 1};
    declare_saved(c, 0);
    for (uint64_t step = 0; step < 3; step++) {
        static float g[4000];
        uint64_t keys[2] = {step, 30 + step};
        for (int i = 0; i < 4000; i++)
            g[i] = (float)(i % 11) - (float)step;
        assert_int_equal(ps_push_dense(c, 0, g, 4000), 0);
        assert_int_equal(ps_push_rows(c, 0, 2, keys, g), 0);
        assert_int_equal(ps_step_end(c, 10, NULL, 0), 0);
        assert_int_equal(ps_wait(c), 0);
    }
    assert_int_equal(ps_pass_end(c), 0);
    read_saved(c, w, rows);
    if (ps_save(c, &o))
        fail_msg("%s", ps_client_err(c)->msg);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    if (n_servers)
        assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void load_and_compare(const char *folder, int n_servers, int threads, const float *w,
                             const float *rows) {
    static float w2[4000], rows2[SAVED_ROWS * 4];
    struct cluster cl;
    if (n_servers)
        cluster_start(&cl, n_servers, threads, threads, 1, 0, -1);
    struct ps_client *c = open_client(n_servers ? &cl : NULL, "sgd");
    declare_saved(c, 0);
    if (ps_load(c, folder, PS_MISSING_FAIL))
        fail_msg("%s", ps_client_err(c)->msg);
    assert_int_equal(ps_barrier(c), 0);
    read_saved(c, w2, rows2);
    assert_memory_equal(w, w2, sizeof w2);
    assert_memory_equal(rows, rows2, sizeof rows2);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    if (n_servers)
        assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void test_saved_by_some_loaded_by_others(void **state) {
    (void)state;
    static float w[4000], rows[SAVED_ROWS * 4], w2[4000], rows2[SAVED_ROWS * 4];
    static const struct { int servers, threads; } row[] = {{0, 0}, {1, 1}, {3, 1}, {2, 2}};
    char dir[] = "/tmp/test_ps_save.XXXXXX", folder[64];
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/pass-00000", dir);
    for (int i = 0; i < 4; i++) {
        train_and_save(dir, "pass-00000", row[i].servers, row[i].threads, i ? w2 : w,
                       i ? rows2 : rows);
        if (i) { /* the same job with other servers and threads */
            assert_memory_equal(w, w2, sizeof w);
            assert_memory_equal(rows, rows2, sizeof rows);
        }
        struct model *m = NULL;
        struct pd_err err = {0};
        assert_int_equal(model_open(&m, folder, &err), 0);
        assert_int_equal(model_verify(m, &err), 0);
        assert_int_equal(model_info(m)->n_parts,
                         row[i].servers ? 2 * row[i].servers * row[i].threads : 1);
        assert_int_equal(model_info(m)->step, 3);
        assert_int_equal(model_find_param(m, "emb")->rows, SAVED_ROWS);
        model_close(m);
        for (int k = 0; k < 4; k++)
            load_and_compare(folder, row[k].servers, row[k].threads, w, rows);
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

static void test_missing_parameters(void **state) {
    (void)state;
    static float w[4000], rows[SAVED_ROWS * 4];
    char dir[] = "/tmp/test_ps_miss.XXXXXX", folder[64];
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    train_and_save(dir, "m", 0, 0, w, rows);
    for (int how = PS_MISSING_FAIL; how <= PS_MISSING_ZERO; how++) {
        struct ps_client *c = open_client(NULL, "sgd");
        float v[7], x[2];
        uint64_t key = 3;
        declare_saved(c, 1);
        int rc = ps_load(c, folder, (enum ps_missing)how);
        if (how == PS_MISSING_FAIL) {
            assert_int_equal(rc, PD_ENOENT);
            assert_non_null(strstr(ps_client_err(c)->msg, "no parameter 'v'"));
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(ps_pull_dense(c, 1, v, 7), 0);
            assert_int_equal(ps_pull_rows(c, 1, 1, &key, x, PS_CREATE), 0);
            assert_int_equal(ps_wait(c), 0);
            assert_true(v[6] == (how == PS_MISSING_RAND ? 3 : 0));
            assert_true(x[1] == (how == PS_MISSING_RAND ? 1 : 0));
        }
        ps_client_free(c);
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

/* The dense values are in memory that trainers map and that a forked child shares. Steps made
 * before the child has written the values must not appear in the saved model. */
static void test_what_is_saved_while_steps_go_on(void **state) {
    (void)state;
    enum { N = 40000 };
    static float was[N], now[N], saved[N];
    char dir[] = "/tmp/test_ps_save.XXXXXX", folder[64];
    struct cluster cl;
    struct model *m = NULL;
    struct pd_err err = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/m", dir);
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    struct ps_client *c = open_client(&cl, "adagrad");
    struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {N}, .init_std = 1, .lr_factor = 1};
    assert_int_equal(ps_declare_dense(c, &w), 0);
    assert_int_equal(ps_start(c), 0);
    float *g = ps_lend(c, N);
    assert_non_null(g);
    for (int step = 0; step < 6; step++) {
        assert_int_equal(ps_pull_dense(c, 0, now, N), 0);
        assert_int_equal(ps_wait(c), 0);
        if (step)
            assert_memory_not_equal(now, was, sizeof now);
        if (step == 2) {
            memcpy(saved, now, sizeof now);
            pd_fault_arm("slow.ps.save:300");
            assert_int_equal(ps_save_start(c, &(struct ps_save_opts){.dir = dir, .name = "m"}), 0);
        }
        memcpy(was, now, sizeof now);
        for (int i = 0; i < N; i++)
            g[i] = (float)(i % 11 + 1) - (float)step;
        assert_int_equal(ps_push_dense(c, 0, g, N), 0);
        assert_int_equal(ps_step_end(c, 10, NULL, 0), 0);
    }
    assert_int_equal(ps_save_wait(c), 0);
    pd_fault_arm(NULL);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    assert_int_equal(cluster_join(&cl, NULL), 0);
    assert_int_equal(model_open(&m, folder, &err), 0);
    assert_int_equal(model_read_dense(m, "w", 0, N, now, &err), 0);
    assert_memory_equal(now, saved, sizeof saved);
    model_close(m);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
}

/* The scheduling policy of this program's thread with that name; -1: no such thread. */
static int policy_of(const char *name) {
    DIR *d = opendir("/proc/self/task");
    int policy = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], comm[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(comm, sizeof comm, f) &&
            (comm[strcspn(comm, "\n")] = 0, !strcmp(comm, name)))
            policy = sched_getscheduler((pid_t)strtol(e->d_name, NULL, 10));
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return policy;
}

/* SCHED_BATCH for server threads would save a trainer on the same machine a few preemptions. But it
 * would halve the rate of sparse pushes: a woken thread would wait until the trainer's time slice
 * ends. */
static void test_server_threads_have_the_policy_of_their_process(void **state) {
    (void)state;
    struct cluster cl;
    const int own = sched_getscheduler(0);
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    struct ps_client *c = open_client(&cl, "sgd");
    const struct ps_dense_spec w = {.name = "w", .n_dims = 1, .shape = {7}, .lr_factor = 1};
    assert_int_equal(ps_declare_dense(c, &w), 0);
    assert_int_equal(ps_start(c), 0); /* afterwards all threads have answered */
    assert_int_equal(policy_of("ps_dense0"), own);
    assert_int_equal(policy_of("ps_sparse1"), own);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    assert_int_equal(cluster_join(&cl, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_any_cut_gives_the_same_bits),
        cmocka_unit_test(test_nodes_as_parts_give_the_same_bits_for_any_number_of_trainers),
        cmocka_unit_test(test_saved_by_some_loaded_by_others),
        cmocka_unit_test(test_what_is_saved_while_steps_go_on),
        cmocka_unit_test(test_missing_parameters),
        cmocka_unit_test(test_server_threads_have_the_policy_of_their_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
