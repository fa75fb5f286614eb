/* SPDX-License-Identifier: Apache-2.0 */
/* Single parts of a server thread: layout, tree, table, declarations. */
#include <setjmp.h>
#include <cmocka.h>

#include "math/hash.h"
#include "math/rng.h"
#include "ps/client/client.h"
#include "ps/plan/declaration.h"
#include "ps/plan/layout.h"
#include "ps/plan/optim.h"
#include "ps/plan/sum_tree.h"
#include "ps/table/table.h"

/* --- layout --- */

enum { MAX_THREADS = 64, MAX_PARAMS = 40 };

static void test_layout_covers_and_balances(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t servers, threads, n;
        uint64_t size[8];
        double within; /* relative to the mean load; 0: too small to balance */
    } row[] = {
        {"one value", 1, 1, 1, {1}, 0},
        {"one value, many threads", 4, 8, 1, {1}, 0},
        {"the demo", 3, 3, 4, {128 * 256, 256, 256 * 3192, 3192}, 0.10},
        {"the demo, two threads each", 3, 6, 4, {128 * 256, 256, 256 * 3192, 3192}, 0.10},
        {"small ones fill up after a large one", 2, 4, 5, {1000000, 900, 900, 900, 900}, 0.10},
        {"a large one fills up after small ones", 2, 4, 5, {900, 900, 900, 1000000, 77}, 0.10},
        {"not a multiple of anything", 3, 9, 3, {1000003, 65537, 300007}, 0.10},
        {"twenty servers", 20, 20, 2, {4096 * 1024, 1000 * 1024}, 0.10},
        {"many threads a server", 2, 16, 1, {50000000}, 0.10},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        static struct ps_seg seg[MAX_PARAMS * MAX_THREADS];
        uint32_t T = row[i].threads;
        uint64_t load[MAX_THREADS] = {0}, total = 0;
        assert_int_equal(ps_layout_dense(row[i].n, row[i].size, row[i].servers, T, seg), 0);
        for (uint32_t p = 0; p < row[i].n; p++) {
            uint64_t at = 0;
            for (uint32_t t = 0; t < T; t++) {
                const struct ps_seg *s = &seg[p * T + t];
                if (s->first != at || s->off != load[t] || s->off % PS_SEG_ALIGN)
                    fail_msg("%s: parameter %u has a hole at thread %u", row[i].name, p, t);
                if (s->count && s->count < PS_BLOCK_MIN && s->count != row[i].size[p] &&
                    at + s->count != row[i].size[p])
                    fail_msg("%s: a block of %llu values", row[i].name,
                             (unsigned long long)s->count);
                at += s->count;
                load[t] += ps_seg_padded(s->count);
                total += s->count;
            }
            if (at != row[i].size[p])
                fail_msg("%s: parameter %u: %llu of %llu values", row[i].name, p,
                         (unsigned long long)at, (unsigned long long)row[i].size[p]);
        }
        double mean = (double)total / T;
        for (uint32_t t = 0; t < T && row[i].within > 0; t++)
            if (fabs((double)load[t] - mean) > row[i].within * mean)
                fail_msg("%s: thread %u has %llu values, the mean is %.0f", row[i].name, t,
                         (unsigned long long)load[t], mean);
    }
}

static void test_rows_spread_evenly(void **state) {
    (void)state;
    enum { KEYS = 100000, THREADS = 7 };
    uint64_t n[THREADS] = {0};
    for (uint64_t k = 0; k < KEYS; k++) {
        uint32_t t = ps_row_thread(k, THREADS);
        assert_true(t < THREADS);
        n[t]++;
    }
    for (int t = 0; t < THREADS; t++)
        assert_true(fabs((double)n[t] - (double)KEYS / THREADS) < 0.03 * KEYS / THREADS);
}

/* --- tree --- */

static void test_tree_plans(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t n_streams, n;
        struct ps_range r[8];
        const char *want;
    } row[] = {
        {"one", 1, 1, {{0, 1}}, ""},
        {"two", 2, 2, {{0, 1}, {1, 2}}, "0+1 "},
        {"three: split at 1", 3, 3, {{0, 1}, {1, 2}, {2, 3}}, "1+2 0+1 "},
        {"four", 4, 4, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, "0+1 2+3 0+2 "},
        {"four, one has two streams: a node", 4, 3, {{0, 1}, {1, 2}, {2, 4}}, "0+1 0+2 "},
        {"four, the second is absent", 4, 3, {{0, 1}, {2, 3}, {3, 4}}, "1+2 0+1 "},
        {"four, the first half is absent", 4, 2, {{2, 3}, {3, 4}}, "0+1 "},
        {"crosses the middle: halved by index", 3, 2, {{0, 2}, {2, 3}}, "0+1 "},
        {"crosses below", 8, 4, {{0, 3}, {3, 4}, {4, 7}, {7, 8}}, "0+1 2+3 0+2 "},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct ps_add plan[8];
        char got[80] = "";
        ps_sum_tree_plan(row[i].r, row[i].n, row[i].n_streams, plan);
        for (uint32_t k = 0; k + 1 < row[i].n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%u+%u ", plan[k].into,
                     plan[k].from);
        if (strcmp(got, row[i].want))
            fail_msg("%s: %s instead of %s", row[i].name, got, row[i].want);
    }
}

static void test_tree_nodes_of_a_range(void **state) {
    (void)state;
    static const struct {
        uint32_t n_streams, lo, hi;
        const char *want;
    } row[] = {
        {12, 0, 12, "0-12 "},   {12, 0, 6, "0-6 "},
        {12, 6, 12, "6-12 "},   {12, 0, 4, "0-4 "},
        {12, 4, 8, "4-6 6-8 "}, {12, 8, 12, "8-12 "},
        {12, 0, 3, "0-3 "},     {12, 3, 6, "3-4 4-6 "},
        {12, 6, 9, "6-8 8-9 "}, {12, 9, 12, "9-12 "},
        {12, 2, 4, "2-3 3-4 "}, {12, 7, 9, "7-8 8-9 "},
        {1, 0, 1, "0-1 "},      {7, 1, 6, "1-2 2-3 3-4 4-5 5-6 "},
        {7, 2, 2, ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct ps_range r[PS_NODES_MAX];
        char got[200] = "";
        uint32_t n = ps_sum_tree_nodes(row[i].n_streams, row[i].lo, row[i].hi, r);
        for (uint32_t k = 0; k < n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%u-%u ", r[k].lo, r[k].hi);
        if (strcmp(got, row[i].want))
            fail_msg("[%u, %u) of %u: %s instead of %s", row[i].lo, row[i].hi, row[i].n_streams,
                     got, row[i].want);
    }
    struct ps_range most[PS_NODES_MAX];
    for (uint32_t n = UINT32_MAX; n > 1000; n = n / 3 * 2 + 1)
        assert_in_range(ps_sum_tree_nodes(n, 1, n - 1, most), 1, PS_NODES_MAX);
}

/* A trainer that owns the streams of a node and adds them in the tree contributes the same bits as
 * one trainer per stream. */
static void test_tree_is_the_same_for_nodes(void **state) {
    (void)state;
    enum { S = 16, HALF = S / 2 };
    float x[S];
    struct ps_range all[S];
    struct ps_add plan[S];
    pd_rng_normal(pd_rng_key(1, 1, 1, 1), 0, x, S);
    for (uint32_t i = 0; i < S; i++)
        all[i] = (struct ps_range){i, i + 1};
    const float *val[S];
    float tmp[S], part[2], one;
    for (uint32_t i = 0; i < S; i++)
        val[i] = &x[i];
    ps_sum_tree_plan(all, S, S, plan);
    one = *ps_sum_tree_sum_f32(plan, S, val, tmp, 1);
    struct ps_range half[2];
    for (uint32_t q = 0; q < 2; q++) {
        for (uint32_t i = 0; i < HALF; i++)
            val[i] = &x[HALF * q + i];
        ps_sum_tree_plan(all + HALF * q, HALF, S, plan);
        part[q] = *ps_sum_tree_sum_f32(plan, HALF, val, tmp, 1);
        half[q] = (struct ps_range){HALF * q, HALF * q + HALF};
    }
    for (uint32_t q = 0; q < 2; q++)
        val[q] = &part[q];
    ps_sum_tree_plan(half, 2, S, plan);
    float two = *ps_sum_tree_sum_f32(plan, 2, val, tmp, 1);
    assert_memory_equal(&one, &two, 4);
}

/* --- table --- */

static struct ps_table *new_table(uint32_t dim) {
    struct ps_table *t = NULL;
    struct ps_table_opts o = {
        .name = "t", .dim = dim, .state = 1, .seed = 5, .mean = 0.5f, .std = 2};
    assert_int_equal(ps_table_new(&t, &o), 0);
    return t;
}

/* Each of T trainers adds its own streams, node by node; then the results are added. The bits are
 * the same for every T. */
static void test_tree_sums_do_not_depend_on_the_trainers(void **state) {
    (void)state;
    enum { MOST = 40 };
    float x[MOST], first = 0;
    pd_rng_normal(pd_rng_key(1, 2, 1, 1), 0, x, MOST);
    for (uint32_t S = 1; S <= MOST; S++)
        for (uint32_t T = 1; T <= S; T++) {
            struct ps_range node[MOST], leaf[MOST];
            struct ps_add plan[MOST];
            const float *val[MOST];
            float sum[MOST], tmp[MOST];
            uint32_t n = 0;
            for (uint32_t t = 0; t < T; t++)
                n += ps_sum_tree_nodes(S, t * S / T, (t + 1) * S / T, node + n);
            for (uint32_t k = 0; k < n; k++) {
                for (uint32_t i = node[k].lo; i < node[k].hi; i++) {
                    leaf[i - node[k].lo] = (struct ps_range){i, i + 1};
                    val[i - node[k].lo] = &x[i];
                }
                ps_sum_tree_plan(leaf, node[k].hi - node[k].lo, S, plan);
                sum[k] = *ps_sum_tree_sum_f32(plan, node[k].hi - node[k].lo, val, tmp, 1);
            }
            for (uint32_t k = 0; k < n; k++)
                val[k] = &sum[k];
            ps_sum_tree_plan(node, n, S, plan);
            float all = *ps_sum_tree_sum_f32(plan, n, val, tmp, 1);
            if (T == 1)
                first = all;
            else if (memcmp(&all, &first, sizeof all))
                fail_msg("%u streams, %u trainers: %a instead of %a", S, T, (double)all,
                         (double)first);
        }
}

static void test_table_rows_are_functions_of_their_key(void **state) {
    (void)state;
    enum { N = 50000, DIM = 5 };
    struct ps_table *a = new_table(DIM), *b = new_table(DIM);
    uint64_t *keys = malloc(N * sizeof *keys), *back = malloc(N * sizeof *back);
    uint32_t *rows = malloc(N * sizeof *rows);
    float *x = malloc(N * DIM * sizeof *x), *y = malloc(N * DIM * sizeof *y),
          *z = malloc(N * DIM * sizeof *z);
    for (uint64_t i = 0; i < N; i++) {
        keys[i] = i % 3 ? i : ~i * 977; /* small and large keys, with 0 and UINT64_MAX */
        back[N - 1 - i] = keys[i];
    }
    keys[1] = UINT64_MAX;
    back[N - 2] = UINT64_MAX;
    /* Not created: they read as initial values. */
    assert_int_equal(ps_table_find(a, keys, N, 0, rows), 0);
    assert_int_equal(rows[7], PS_ROW_NONE);
    ps_table_gather(a, keys, rows, N, x);
    assert_int_equal(ps_table_rows(a), 0);
    assert_int_equal(ps_table_find(a, keys, N, 1, rows), 0);
    const float *first = ps_table_row(a, rows[0]);
    ps_table_gather(a, keys, rows, N, y);
    assert_memory_equal(x, y, N * DIM * sizeof *x);
    assert_int_equal(ps_table_find(b, back, N, 1, rows), 0); /* created in another order */
    assert_int_equal(ps_table_find(b, keys, N, 0, rows), 0);
    ps_table_gather(b, keys, rows, N, z);
    assert_memory_equal(x, z, N * DIM * sizeof *x);
    assert_int_equal(ps_table_rows(a), ps_table_rows(b));
    uint32_t again;
    assert_int_equal(ps_table_find(a, keys, 1, 1, &again), 0);
    assert_ptr_equal(ps_table_row(a, again), first); /* rows do not move */
    assert_int_equal((uintptr_t)first % 16, 0);
    for (int d = 0; d < DIM; d++)
        assert_true(first[DIM + d] == 0); /* state begins at zero */
    double mean = 0, var = 0;
    for (int i = 0; i < N * DIM; i++)
        mean += (double)x[i] / (N * DIM);
    for (int i = 0; i < N * DIM; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / (N * DIM);
    assert_true(fabs(mean - 0.5) < 0.03 && fabs(var - 4) < 0.1);
    struct ps_index_entry *sorted = NULL;
    assert_int_equal(ps_table_sorted(a, &sorted), 0);
    for (uint64_t i = 1; i < ps_table_rows(a); i++)
        assert_true(sorted[i - 1].key < sorted[i].key);
    free(sorted);
    free(keys);
    free(back);
    free(rows);
    free(x);
    free(y);
    free(z);
    ps_table_free(a);
    ps_table_free(b);
}

static void test_table_without_memory(void **state) {
    (void)state;
    int done = 0;
    for (int n = 1; n < 100 && !done; n++) {
        uint64_t keys[3000];
        uint32_t rows[3000];
        char spec[32];
        for (uint64_t i = 0; i < 3000; i++)
            keys[i] = i;
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        struct ps_table *t = NULL;
        struct ps_table_opts o = {.name = "t", .dim = 100, .state = 1};
        int rc = ps_table_new(&t, &o);
        if (!rc)
            rc = ps_table_find(t, keys, 3000, 1, rows);
        struct ps_index_entry *sorted = NULL;
        if (!rc)
            rc = ps_table_sorted(t, &sorted);
        pd_fault_arm(NULL);
        if (t && rc) { /* its contents are consistent, and it can be used further */
            assert_int_equal(ps_table_find(t, keys, 3000, 1, rows), 0);
            assert_int_equal(ps_table_rows(t), 3000);
        }
        assert_true(rc == 0 || rc == PD_ENOMEM);
        done = rc == 0;
        free(sorted);
        ps_table_free(t);
    }
    assert_true(done);
}

/* No key is lost while segments double and split. Memory per row stays in bounds at every size. */
static void test_table_grows_without_losing_rows_or_memory(void **state) {
    (void)state;
    enum { N = 3000000, PIECE = 10000, DIM = 4 };
    struct ps_table *t = new_table(DIM); /* std 2: rows differ */
    uint64_t *keys = malloc(PIECE * sizeof *keys);
    uint32_t *rows = malloc(PIECE * sizeof *rows);
    double worst = 0, values = 2 * DIM * sizeof(float);
    for (uint64_t at = 0; at < N; at += PIECE) {
        for (uint64_t i = 0; i < PIECE; i++)
            keys[i] = pd_mix64(at + i + 1);
        assert_int_equal(ps_table_find(t, keys, PIECE, 1, rows), 0);
        for (uint32_t i = 0; i < PIECE; i++)
            assert_int_equal(rows[i], at + i);
        double per_row = (double)ps_table_bytes(t) / (double)ps_table_rows(t);
        if (at >= 1000000 && per_row > worst)
            worst = per_row;
    }
    print_message("at most %.1f bytes a row beside its %.0f of values and state\n", worst - values,
                  values);
    assert_true(worst - values <= 48);
    assert_int_equal(ps_table_rows(t), N);
    for (uint64_t at = 0; at < N; at += PIECE * 7) {
        for (uint64_t i = 0; i < PIECE; i++)
            keys[i] = pd_mix64(at + i + 1);
        assert_int_equal(ps_table_find(t, keys, PIECE, 0, rows), 0);
        for (uint32_t i = 0; i < PIECE; i++)
            assert_int_equal(rows[i], at + i);
    }
    keys[0] = pd_mix64(N + 1); /* this key was never put */
    assert_int_equal(ps_table_find(t, keys, 1, 0, rows), 0);
    assert_int_equal(rows[0], PS_ROW_NONE);
    free(keys);
    free(rows);
    ps_table_free(t);
}

static void test_a_key_twice_in_one_request_is_one_row(void **state) {
    (void)state;
    struct ps_table *t = new_table(3);
    const uint64_t keys[] = {5, 7, 5, 7, 9};
    uint32_t rows[5];
    assert_int_equal(ps_table_find(t, keys, 5, 1, rows), 0);
    assert_int_equal(ps_table_rows(t), 3);
    assert_int_equal(rows[0], rows[2]);
    assert_int_equal(rows[1], rows[3]);
    ps_table_free(t);
}

/* --- declarations --- */

static void make_job(struct ps_declaration *job) {
    struct pd_err err = {0};
    ps_declaration_init(job);
    job->n_trainers = 2;
    job->n_streams = 5;
    job->n_servers = 3;
    job->n_dense_threads = 3;
    job->n_sparse_threads = 6;
    job->seed = UINT64_MAX;
    pd_fmt(job->update, sizeof job->update, "async");
    assert_int_equal(
        ps_optim_conf_parse(&job->optim, "adagrad learning_rate=0.1 epsilon=1e-6", &err), 0);
    struct ps_dense_spec d = {
        .name = "w", .n_dims = 2, .shape = {3, 4}, .init_std = 1, .lr_factor = 1};
    assert_int_equal(ps_declaration_add_dense(job, &d, &err), 0);
    d.name = "b";
    assert_int_equal(ps_declaration_add_dense(job, &d, &err), 0);
    struct ps_table_spec t = {.name = "emb", .dim = 8, .n_rows = 10, .lr_factor = 1};
    assert_int_equal(ps_declaration_add_table(job, &t, &err), 0);
}

static void test_declaration_survives_the_wire(void **state) {
    (void)state;
    struct ps_declaration a, b;
    struct ps_declare_sender d = {PS_KIND_SPARSE, 4, 1, 3, 77, 5}, e;
    struct pd_err err = {0};
    struct pd_buf buf;
    pd_buf_init(&buf);
    make_job(&a);
    ps_declaration_put(&buf, &d, &a);
    assert_int_equal(ps_declaration_get(buf.data, buf.len, &e, &b, &err), 0);
    assert_memory_equal(&d, &e, sizeof d);
    assert_int_equal(ps_declaration_same(&a, &b, &err), 0);
    ps_declaration_release(&b);
    for (size_t n = 0; n < buf.len; n++) { /* cut at any byte: refused, without leaks */
        pd_err_clear(&err);
        assert_true(ps_declaration_get(buf.data, n, &e, &b, &err) < 0);
        assert_null(b.dense);
    }
    /* Any wrong bit: refused, or another valid declaration. */
    for (size_t bit = 0; bit < buf.len * 8; bit++) {
        buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        pd_err_clear(&err);
        if (!ps_declaration_get(buf.data, buf.len, &e, &b, &err))
            assert_int_equal(ps_declaration_check(&b, &err), 0);
        ps_declaration_release(&b);
        buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (int n = 1; n < 20; n++) {
        char spec[32];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        pd_err_clear(&err);
        int rc = ps_declaration_get(buf.data, buf.len, &e, &b, &err);
        pd_fault_arm(NULL);
        assert_true(rc == 0 || rc == PD_ENOMEM);
        ps_declaration_release(&b);
    }
    pd_buf_release(&buf);
    ps_declaration_release(&a);
}

static void test_bad_declarations(void **state) {
    (void)state;
    static const struct {
        const char *name, *want;
        struct ps_dense_spec spec;
    } row[] = {
        {"no name", "1 to 127", {.name = "", .n_dims = 1, .shape = {1}}},
        {"blank", "without blanks", {.name = "a b", .n_dims = 1, .shape = {1}}},
        {"twice", "'w' is declared twice", {.name = "w", .n_dims = 1, .shape = {1}}},
        {"a table's name", "'emb' is declared twice", {.name = "emb", .n_dims = 1, .shape = {1}}},
        {"no dimension", "dimensions", {.name = "x", .n_dims = 0}},
        {"nothing in it", "dimensions", {.name = "x", .n_dims = 2, .shape = {3, 0}}},
        {"overflow",
         "2^40",
         {.name = "x", .n_dims = 4, .shape = {1u << 31, 1u << 31, 1u << 31, 1u << 31}}},
        {"nan", "initial mean", {.name = "x", .n_dims = 1, .shape = {1}, .init_mean = NAN}},
        {"negative", "l2 is -1", {.name = "x", .n_dims = 1, .shape = {1}, .l2 = -1}},
    };
    struct ps_declaration job;
    make_job(&job);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct pd_err err = {0};
        int rc = ps_declaration_add_dense(&job, &row[i].spec, &err);
        if (rc != PD_ECONF || !strstr(err.msg, row[i].want))
            fail_msg("%s: %d %s", row[i].name, rc, err.msg);
    }
    assert_int_equal(job.n_dense, 2);
    ps_declaration_release(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_covers_and_balances),
        cmocka_unit_test(test_rows_spread_evenly),
        cmocka_unit_test(test_tree_plans),
        cmocka_unit_test(test_tree_nodes_of_a_range),
        cmocka_unit_test(test_tree_is_the_same_for_nodes),
        cmocka_unit_test(test_tree_sums_do_not_depend_on_the_trainers),
        cmocka_unit_test(test_table_rows_are_functions_of_their_key),
        cmocka_unit_test(test_table_without_memory),
        cmocka_unit_test(test_table_grows_without_losing_rows_or_memory),
        cmocka_unit_test(test_a_key_twice_in_one_request_is_one_row),
        cmocka_unit_test(test_declaration_survives_the_wire),
        cmocka_unit_test(test_bad_declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
