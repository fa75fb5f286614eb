/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a table's rows, including the removal of keys, and the memory that rows take. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/hash.h"
#include "ps/table/dirty_rows.h"
#include "ps/table/index.h"
#include "ps/table/table.h"

static void test_index_against_an_array(void **state) {
    (void)state;
    enum { KEYS = 60000, OPS = 400000 };
    static uint32_t ref[KEYS];
    struct ps_index *x;
    uint64_t n = 0, rnd = 1;
    memset(ref, 0xff, sizeof ref);
    assert_int_equal(ps_index_new(&x), 0);
    for (int i = 0; i < OPS; i++) {
        rnd = pd_mix64(rnd + (uint64_t)i);
        /* Many keys first, then the same few again. */
        uint32_t k = (uint32_t)(rnd % (i < OPS / 2 ? KEYS : KEYS / 16));
        uint64_t key = (uint64_t)k * 977;
        uint32_t *at = ps_index_at(x, key);
        assert_int_equal(at ? *at : PS_ROW_NONE, ref[k]);
        if (!at) {
            assert_int_equal(ps_index_put(x, key, (uint32_t)i), 0);
            ref[k] = (uint32_t)i;
            n++;
        } else if (rnd >> 40 & 3) {
            ps_index_remove(x, key);
            ref[k] = PS_ROW_NONE;
            n--;
        } else {
            *at = ref[k] = (uint32_t)i + 1;
        }
        assert_int_equal(ps_index_count(x), n);
    }
    for (uint32_t k = 0; k < KEYS; k++) {
        const uint32_t *at = ps_index_at(x, (uint64_t)k * 977);
        assert_int_equal(at ? *at : PS_ROW_NONE, ref[k]);
    }
    ps_index_free(x);
}

/* Expects that every third row's key is removed and every fifth row has changed. */
static void expect_listed(const struct ps_index *x, const struct ps_dirty_rows *only,
                          const char *name, uint64_t (*key_of)(uint32_t), uint32_t n) {
    static struct ps_index_heaps heaps;
    uint64_t want = 0, from, to, before = 0;
    for (uint32_t i = 0; i < n; i++)
        want += i % 3 && (!only || i % 5 == 0);
    struct ps_index_entry *e = malloc((want + 1) * sizeof *e);
    e[want] = (struct ps_index_entry){77, 77};
    /* Too little room: the list must not be written. */
    assert_int_equal(ps_index_list_heaps(x, only, e, want ? want - 1 : 0, &heaps), want);
    assert_int_equal(ps_index_list_heaps(x, only, e, want, &heaps), want);
    assert_int_equal(heaps.end[PS_INDEX_HEAPS - 1], want);
    for (uint32_t h = 0; h < PS_INDEX_HEAPS; h++) {
        ps_index_sort_heap(e, &heaps, h, &from, &to);
        assert_int_equal(from, before);
        before = to;
    }
    for (uint64_t i = 0; i < want; i++) {
        const uint32_t row = e[i].row;
        if (row >= n || row % 3 == 0 || (only && row % 5) || e[i].key != key_of(row) ||
            (i && e[i - 1].key >= e[i].key))
            fail_msg("%s: entry %llu is row %u with key %llu", name, (unsigned long long)i, row,
                     (unsigned long long)e[i].key);
    }
    assert_int_equal(e[want].row, 77);
    free(e);
}

static uint64_t hashed(uint32_t i) { return pd_mix64(i + 1); }
static uint64_t small(uint32_t i) { return i; }
static uint64_t apart(uint32_t i) { return i == 1 ? UINT64_MAX : (uint64_t)i * 16; }
static uint64_t clustered(uint32_t i) { return pd_mix64(i / 1000) << 20 | i % 1000; }

static void test_listed_in_order(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t (*key_of)(uint32_t);
    } kinds[] = {{"hashed", hashed}, {"small", small}, {"apart", apart}, {"clustered", clustered}};
    static const uint32_t sizes[] = {0, 1, 2, 60, 3000, 300000};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++) {
            const uint32_t n = sizes[z];
            struct ps_index *x;
            struct ps_dirty_rows changed = {0};
            assert_int_equal(ps_index_new(&x), 0);
            assert_int_equal(ps_dirty_rows_begin(&changed, n), 0);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(ps_index_put(x, kinds[k].key_of(i), i), 0);
                if (i % 5 == 0)
                    ps_dirty_rows_mark(&changed, i);
            }
            for (uint32_t i = 0; i < n; i += 3)
                ps_index_remove(x, kinds[k].key_of(i));
            expect_listed(x, NULL, kinds[k].name, kinds[k].key_of, n);
            expect_listed(x, &changed, kinds[k].name, kinds[k].key_of, n);
            ps_dirty_rows_release(&changed);
            ps_index_free(x);
        }
}

static void test_memory_of_a_row_that_ages(void **state) {
    (void)state;
    enum { N = 200000, WIDE = 16 };
    struct ps_table *t;
    struct ps_table_opts o = {.name = "t", .dim = WIDE, .state = 1, .std = 1, .ageing = 1};
    uint32_t row;
    assert_int_equal(ps_table_new(&t, &o), 0);
    for (uint64_t key = 0; key < N; key++)
        assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
    double each = (double)ps_table_bytes(t) / N, bound = WIDE * 8 + sizeof(struct ps_row_seen) + 48;
    if (each > bound)
        fail_msg("a row takes %.1f bytes, the bound is %.0f", each, bound);
    uint64_t before = ps_table_bytes(t);
    for (uint64_t key = 0; key < N; key++) { /* other keys take the places */
        ps_table_remove(t, key);
        uint64_t other = key + N;
        assert_int_equal(ps_table_find(t, &other, 1, 1, &row), 0);
        assert_int_equal(ps_table_note(t, row)->step, 0);
    }
    assert_int_equal(ps_table_rows(t), N);
    assert_true(ps_table_bytes(t) <= before + before / 8);
    ps_table_free(t);
}

/* Checks that each row is visited once, with any empty places, and that the notes of empty places
 * are unchanged afterwards. */
static struct ps_table *visited;

static void visit(void *arg, uint32_t row) {
    ps_table_note(visited, row)->step++;
    ++*(uint64_t *)arg;
}

static void test_every_row_is_visited_once(void **state) {
    (void)state;
    enum { N = 5000 };
    struct ps_table *t;
    struct ps_table_opts o = {.name = "t", .dim = 3, .state = 1};
    uint64_t visits = 0;
    uint32_t row;
    assert_int_equal(ps_table_new(&t, &o), 0);
    for (uint64_t key = 0; key < N; key++)
        assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
    for (uint64_t key = 0; key < N; key += 3)
        ps_table_remove(t, key);
    visited = t;
    for (int round = 1; round < 3; round++) {
        ps_table_each(t, visit, &visits);
        assert_int_equal(visits, (uint64_t)round * ps_table_rows(t));
    }
    for (uint64_t key = 0; key < N; key++) { /* in the places of the removed rows */
        assert_int_equal(ps_table_find(t, &key, 1, 1, &row), 0);
        assert_int_equal(ps_table_note(t, row)->step, key % 3 ? 2 : 0);
        assert_int_equal(ps_table_note(t, row)->mark, 0);
    }
    assert_int_equal(ps_table_places(t), N);
    ps_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_against_an_array),
        cmocka_unit_test(test_listed_in_order),
        cmocka_unit_test(test_memory_of_a_row_that_ages),
        cmocka_unit_test(test_every_row_is_visited_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
