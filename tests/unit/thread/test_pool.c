/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c - pooled buffers: aligned, reused, and bounded by the recent use. */
#include <setjmp.h>
#include <cmocka.h>

#include "thread/pool.h"

static void sizes_come_back_aligned_and_large_enough(void **state) {
    (void)state;
    static const size_t size[] = {0,     1,      1984,           1985,    4032,   4033,
                                  65536, 100000, (2 << 20) - 64, 2 << 20, 5000001};
    struct pd_pool *p = pd_pool_new();
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
            uint8_t *a = pd_pool_get(p, size[i]), *b = pd_pool_get(p, size[i]);
            assert_non_null(a);
            assert_non_null(b);
            assert_int_equal((uintptr_t)a % 64, 0);
            memset(a, 0x55, size[i]); /* a sanitizer detects an access outside */
            memset(b, 0xaa, size[i]);
            for (size_t k = 0; k < size[i]; k += 997)
                assert_int_equal(a[k], 0x55);
            pd_pool_put(p, a);
            pd_pool_put(p, b);
        }
    pd_pool_free(p);
}

static void a_buffer_is_used_again(void **state) {
    (void)state;
    struct pd_pool *p = pd_pool_new();
    void *a = pd_pool_get(p, 100000);
    pd_pool_put(p, a);
    assert_true(pd_pool_kept(p) >= 100000 && pd_pool_kept(p) < 125000 + 64);
    assert_ptr_equal(pd_pool_get(p, 101000), a); /* of the same size class */
    assert_int_equal(pd_pool_kept(p), 0);
    pd_pool_put(p, a);
    pd_pool_free(p);
}

static void what_is_kept_follows_what_was_in_use(void **state) {
    (void)state;
    enum { N = 8, BIG = 1 << 20 };
    struct pd_pool *p = pd_pool_new();
    void *m[N];
    for (int i = 0; i < N; i++)
        m[i] = pd_pool_get(p, BIG);
    for (int i = 0; i < N; i++)
        pd_pool_put(p, m[i]);
    size_t most = pd_pool_kept(p);
    assert_true(most >= (size_t)N * BIG && most <= (size_t)N * BIG * 5 / 4);
    for (int i = 0; i < 5000; i++) { /* from here on one at a time, of changing sizes */
        void *a = pd_pool_get(p, (size_t)10000 + (size_t)(i % 7) * 10000);
        pd_pool_put(p, a);
        assert_true(pd_pool_kept(p) <= most);
    }
    assert_true(pd_pool_kept(p) < BIG);
    pd_pool_free(p);
}

static void without_a_pool_or_memory(void **state) {
    (void)state;
    void *a = pd_pool_get(NULL, 1 << 20);
    assert_non_null(a);
    memset(a, 1, 1 << 20);
    pd_pool_put(NULL, a);
    pd_pool_put(NULL, NULL);
    struct pd_pool *p = pd_pool_new();
    static const size_t size[] = {10, 100000, 4 << 20};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        pd_fault_arm("alloc:1");
        assert_null(pd_pool_get(p, size[i]));
        pd_fault_arm(NULL);
    }
    assert_null(pd_pool_get(p, SIZE_MAX));
    pd_pool_free(p);
    pd_pool_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_come_back_aligned_and_large_enough),
        cmocka_unit_test(a_buffer_is_used_again),
        cmocka_unit_test(what_is_kept_follows_what_was_in_use),
        cmocka_unit_test(without_a_pool_or_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
