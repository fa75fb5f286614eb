/* The index of a table's rows, from which keys can be removed, and the memory that rows take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ps/index.h"
#include "ps/table.h"

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
        uint32_t k = (uint32_t)(rnd % (i < OPS / 2 ? KEYS : KEYS / 16)); /* many first, then the same few again and again */
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
    for (uint64_t key = 0; key < N; key++) { /* others in their places */
        ps_table_remove(t, key);
        uint64_t other = key + N;
        assert_int_equal(ps_table_find(t, &other, 1, 1, &row), 0);
        assert_int_equal(ps_table_note(t, row)->step, 0);
    }
    assert_int_equal(ps_table_rows(t), N);
    assert_true(ps_table_bytes(t) <= before + before / 8);
    ps_table_free(t);
}

/* Each row once, whatever places are empty; those are no other than before afterwards. */
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
    for (uint64_t key = 0; key < N; key++) { /* in the places of those that went */
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
        cmocka_unit_test(test_memory_of_a_row_that_ages),
        cmocka_unit_test(test_every_row_is_visited_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
