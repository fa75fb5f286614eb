/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_chunker.c - the cuts of contents: an edit moves few cuts, and piece sizes grow with the
 * tree. */
#include <setjmp.h>

#include <cmocka.h>

#include "pack/object/chunker.h"
#include "pack/object/chunker_gear.h"
#include "pack/object/object.h"
#include "tests/support/c/random_bytes.h"

static void the_gear_table_is_what_it_says(void **state) {
    (void)state;
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(gear[i], pd_mix64(i + 1));
}

static size_t cut_all(const struct chunker *c, const uint8_t *p, size_t n, size_t *at, size_t cap) {
    size_t k = 0;
    for (size_t from = 0; from < n; k++) {
        assert_true(k < cap);
        size_t len = chunker_cut(c, p + from, n - from);
        assert_true(len >= 1 && len <= c->max && len <= n - from &&
                    (len >= c->min || from + len == n));
        from += len;
        at[k] = from;
    }
    return k;
}

static void an_edit_moves_few_cuts(void **state) {
    (void)state;
    uint64_t rng = seed_of("cuts");
    enum { N = 4 << 20, CAP = 4096, EDIT = 64 << 10 };
    uint8_t *a = malloc(N + 1000), *b = malloc(N + 1000);
    size_t *x = malloc(CAP * sizeof *x), *y = malloc(CAP * sizeof *y);
    struct chunker c;
    chunker_init(&c, N, 0);
    assert_int_equal(c.mean, 16 << 10);
    fill(a, N, &rng);
    size_t n = cut_all(&c, a, N, x, CAP);
    assert_true(n > N / c.mean / 2 && n < 2 * N / c.mean);
    for (int t = 0; t < 20; t++) {
        size_t at = next(&rng) % (N - EDIT), more = t % 2 ? 1 + next(&rng) % 999 : 0, changed = 0;
        memcpy(b, a, at);
        memcpy(b + at + more, a + at, N - at);
        fill(b + at, more ? more : EDIT, &rng);
        size_t m = cut_all(&c, b, N + more, y, CAP);
        for (size_t i = 0, k = 0; i < m;
             i++) { /* pieces of the new content that the old one lacks */
            while (k < n && x[k] + (y[i] > at ? more : 0) < y[i])
                k++;
            size_t from = i ? y[i - 1] : 0, was = k ? x[k - 1] + (from > at ? more : 0) : 0;
            int same = k < n && x[k] + (y[i] > at ? more : 0) == y[i] && was == from &&
                       (y[i] <= at || from >= at + (more ? more : EDIT));
            changed += same ? 0 : y[i] - from;
        }
        if (changed > (more ? more : EDIT) + 6 * c.max)
            fail_msg("edit %d of %zu bytes at %zu changes %zu bytes of objects", t,
                     more ? more : EDIT, at, changed);
    }
    free(a);
    free(b);
    free(x);
    free(y);
}

static void sizes_grow_with_the_tree(void **state) {
    (void)state;
    static const struct {
        uint64_t file, tree;
        uint32_t mean, max;
    } rows[] = {
        {1, 1, 16 << 10, 64 << 10},
        {UINT64_C(64) << 20, 0, 64 << 10, 256 << 10},
        {UINT64_C(8) << 30, 0, 128 << 10, 256 << 10},
        {1000, UINT64_C(20) << 30, 64 << 10, 256 << 10},
        {1000, UINT64_C(1) << 40, 128 << 10, 256 << 10},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct chunker c;
        chunker_init(&c, rows[i].file, rows[i].tree);
        assert_int_equal(c.mean, rows[i].mean);
        assert_int_equal(c.max, rows[i].max);
        assert_true(c.max <= OBJECT_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gear_table_is_what_it_says),
        cmocka_unit_test(an_edit_moves_few_cuts),
        cmocka_unit_test(sizes_grow_with_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
