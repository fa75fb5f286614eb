/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_snapshot.c - a table's rows as they were at a snapshot, whatever happens to them later;
 * and sorting of entries with any distribution of keys. */
#include <setjmp.h>
#include <pthread.h>

#include <cmocka.h>

#include "math/hash.h"
#include "ps/table/snapshot.h"

enum { ROWS = 40000, STATE = 2 };

static uint64_t key_of(uint64_t i) { return pd_mix64(i + 1); }

/* Value k of row number `row` after `version` changes. */
static float value(uint32_t row, uint32_t k, uint32_t version) {
    return (float)(pd_mix64((uint64_t)row << 32 | version << 8 | k) >> 40);
}

static uint32_t width_of(const struct ps_table *t) { return ps_table_dim(t) * (1 + STATE); }

static void change(struct ps_table *t, uint32_t row, uint32_t version, int ageing) {
    float *w = ps_table_change(t, row);
    for (uint32_t k = 0; k < width_of(t); k++)
        w[k] = value(row, k, version);
    ps_table_note(t, row)->step = version;
    if (ageing)
        *ps_table_seen(t, row) = (struct ps_row_seen){(float)version, 1, version, version, row};
}

static struct ps_table *new_table(uint32_t dim, int ageing, uint32_t n) {
    const struct ps_table_opts o = {
        .name = "t", .dim = dim, .state = STATE, .seed = 3, .std = 1, .ageing = ageing};
    struct ps_table *t;
    assert_int_equal(ps_table_new(&t, &o), 0);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t key = key_of(i);
        uint32_t row;
        assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
        assert_int_equal(row, i);
        change(t, row, 0, ageing);
    }
    return t;
}

/* Checks that all rows have the values of `version`. They are read in another order than that of
 * memory. */
static void expect_rows(const struct ps_snapshot *c, uint32_t dim, uint32_t n, uint32_t version,
                        int ageing, const char *name) {
    enum { BLOCK = 100 };
    const uint32_t width = dim * (1 + STATE);
    struct ps_index_entry *e = malloc(n * sizeof *e);
    float *v = malloc(BLOCK * width * sizeof *v);
    for (uint32_t i = 0; i < n; i++)
        e[i] = (struct ps_index_entry){key_of(i), i};
    ps_index_sort_entries(e, n);
    for (uint32_t first = 0; first < width;
         first += dim) /* the weights, then each number of the state */
        for (uint32_t i = 0; i < n; i += BLOCK) {
            const uint32_t k = n - i < BLOCK ? n - i : BLOCK;
            ps_snapshot_read(c, e + i, k, n - i, first, dim, v);
            for (uint32_t r = 0; r < k; r++)
                for (uint32_t d = 0; d < dim; d++)
                    if (v[r * dim + d] != value(e[i + r].row, first + d, version))
                        fail_msg("%s: number %u of row %u is %g, not %g", name, first + d,
                                 e[i + r].row, (double)v[r * dim + d],
                                 (double)value(e[i + r].row, first + d, version));
        }
    for (uint32_t i = 0; i < n; i++) {
        struct ps_row_seen seen, want = {(float)version, 1, version, version, i};
        ps_snapshot_seen(c, i, &seen);
        memset(&want, 0, ageing ? 0 : sizeof want);
        if (memcmp(&seen, &want, sizeof seen) || ps_snapshot_step(c, i) != version)
            fail_msg("%s: beside row %u: step %u, %u shows", name, i, ps_snapshot_step(c, i),
                     seen.shows);
    }
    assert_true(ps_snapshot_whole(c));
    free(e);
    free(v);
}

static void test_rows_stay_as_they_were(void **state) {
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 50};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (int ageing = 0; ageing < 2; ageing++) {
            enum { N = 3000 };
            const uint32_t dim = dims[i];
            struct ps_table *t = new_table(dim, ageing, N);
            struct ps_snapshot *first, *second;
            assert_int_equal(ps_snapshot_begin(&first, t), 0);
            expect_rows(first, dim, N, 0, ageing, "nothing has changed");
            for (uint32_t r = 0; r < N; r++)
                change(t, r, 1, ageing);
            assert_int_equal(ps_snapshot_begin(&second, t), 0);
            for (uint32_t r = 0; r < N; r++) {
                change(t, r, 2, ageing);
                change(t, r, 3, ageing);
            }
            expect_rows(first, dim, N, 0, ageing, "the first cut");
            expect_rows(second, dim, N, 1, ageing, "the second");
            ps_snapshot_end(first);
            for (uint32_t r = 0; r < N; r += 2) { /* other rows take these places */
                uint64_t key = key_of(r);
                uint32_t row;
                ps_table_remove(t, key);
                key = key_of(N + r);
                assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
                assert_int_equal(row, r);
            }
            for (uint32_t r = 0; r < N; r++) { /* and new slabs are added */
                const uint64_t key = key_of(10 * N + r);
                uint32_t row;
                assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
                change(t, row, 9, ageing);
            }
            expect_rows(second, dim, N, 1, ageing, "with other rows");
            ps_table_free(t); /* as a load does */
            expect_rows(second, dim, N, 1, ageing, "without the table");
            ps_snapshot_end(second);
        }
    ps_snapshot_end(NULL);
}

static void test_only_what_changes_is_kept(void **state) {
    (void)state;
    struct ps_table *t = new_table(16, 0, ROWS);
    struct ps_snapshot *c;
    assert_int_equal(ps_snapshot_begin(&c, t), 0);
    assert_int_equal(ps_snapshot_bytes(c), 0);
    for (uint32_t version = 1; version < 50; version++)
        for (uint32_t r = 0; r < 1000; r++)
            change(t, 7 * r, version, 0);
    assert_true(ps_snapshot_bytes(c) >= 1000 * 48 * sizeof(float) &&
                ps_snapshot_bytes(c) <= 2 << 20);
    assert_true(ps_snapshot_whole(c));
    pd_fault_arm("alloc:1"); /* a further chunk, which is mapped, fails */
    for (uint32_t r = 0; r < ROWS; r++)
        change(t, r, 50, 0);
    pd_fault_arm(NULL);
    assert_false(ps_snapshot_whole(c));
    ps_snapshot_end(c);
    change(t, 1, 1, 0); /* no snapshot exists */
    ps_table_free(t);
}

static void test_no_memory_for_a_copy_is_said(void **state) {
    (void)state;
    struct ps_table *t = new_table(4, 0, 100);
    struct ps_snapshot *c;
    for (int n = 1; n <= 5; n++) {
        char spec[20];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        assert_int_equal(ps_snapshot_begin(&c, t), PD_ENOMEM);
        pd_fault_arm(NULL);
    }
    assert_int_equal(ps_snapshot_begin(&c, t), 0);
    pd_fault_arm("alloc:1");
    change(t, 5, 1, 0);
    pd_fault_arm(NULL);
    assert_false(ps_snapshot_whole(c));
    change(t, 6, 1, 0);
    assert_false(ps_snapshot_whole(c));
    ps_snapshot_end(c);
    assert_int_equal(ps_snapshot_begin(&c, t), 0);
    assert_true(ps_snapshot_whole(c));
    ps_snapshot_end(c);
    ps_table_free(t);
}

struct reader {
    const struct ps_snapshot *c;
    atomic_int over;
};

static void *read_all(void *arg) {
    struct reader *r = arg;
    for (int i = 0; i < 3; i++)
        expect_rows(r->c, 6, ROWS, 1, 1, "beside the owner");
    atomic_store(&r->over, 1);
    return NULL;
}

static void test_a_reader_beside_the_owner(void **state) {
    (void)state;
    struct ps_table *t = new_table(6, 1, ROWS);
    struct reader r = {0};
    struct ps_snapshot *c;
    pthread_t thread;
    uint64_t random = 1, n_new = ROWS;
    for (uint32_t i = 0; i < ROWS; i++)
        change(t, i, 1, 1);
    assert_int_equal(ps_snapshot_begin(&c, t), 0);
    r.c = c;
    assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
    for (uint32_t version = 2; !atomic_load(&r.over); version++)
        for (int i = 0; i < 200; i++) {
            change(t, (uint32_t)((random = pd_mix64(random)) % ROWS), version, 1);
            if (i % 20 == 0 && n_new < 4 * ROWS) {
                const uint64_t key = key_of(n_new++);
                uint32_t row;
                assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
            }
        }
    pthread_join(thread, NULL);
    ps_snapshot_end(c);
    ps_table_free(t);
}

static void test_entries_are_sorted(void **state) {
    (void)state;
    enum { N = 100000 };
    struct ps_index_entry *e = malloc(N * sizeof *e);
    static const char *const names[] = {
        "few",         "hashed",          "small numbers",     "the lowest bytes differ",
        "the highest", "two bytes apart", "all but one alike", "descending"};
    for (size_t kind = 0; kind < sizeof names / sizeof names[0]; kind++)
        for (uint32_t n = kind ? N : 0; n <= (kind ? N : 200); n++) {
            uint64_t sum = 0;
            for (uint64_t i = 0; i < n; i++) {
                const uint64_t at = i * 77773 % N,
                               key[] = {pd_mix64(i),
                                        pd_mix64(i),
                                        at,
                                        UINT64_C(0x1234567800000000) + at,
                                        at << 47,
                                        at << 50 | at % 7,
                                        i ? i % 300 << 8 | i / 300 % 256 | i / 76800 << 40
                                          : UINT64_MAX,
                                        N - i};
                e[i] = (struct ps_index_entry){key[kind], (uint32_t)i};
                sum += key[kind] * (i + 1);
            }
            ps_index_sort_entries(e, n);
            for (uint32_t i = 0; i < n; i++) {
                sum -= e[i].key * ((uint64_t)e[i].row + 1);
                if (i && e[i - 1].key >= e[i].key)
                    fail_msg("%s, %u: key %llu stands before %llu", names[kind], n,
                             (unsigned long long)e[i - 1].key, (unsigned long long)e[i].key);
            }
            if (sum)
                fail_msg("%s, %u: other entries", names[kind], n);
        }
    free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_stay_as_they_were),
        cmocka_unit_test(test_only_what_changes_is_kept),
        cmocka_unit_test(test_no_memory_for_a_copy_is_said),
        cmocka_unit_test(test_a_reader_beside_the_owner),
        cmocka_unit_test(test_entries_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
