/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_objects.c - objects and their records: they are decoded correctly, damage is noticed,
 * and a record that unpacks to more than it declares is refused. */
#include <setjmp.h>

#include <cmocka.h>

#include <sodium.h>

#include "pack/object/object.h"
#include "pack/object/object_ids.h"
#include "tests/support/c/random_bytes.h"

/* Many objects that are hashed together have the same ids as alone. Their lengths are around a
 * block's, or very different. */
static void ids_side_by_side_are_ids(void **state) {
    (void)state;
    enum { BYTES = 70000, N = 40 };
    uint64_t rng = seed_of("ids");
    uint8_t *p = malloc(BYTES);
    struct object_bytes v[N];
    struct object_id many[N], one;
    fill(p, BYTES, &rng);
    for (int round = 0; round < 200; round++) {
        size_t n = next(&rng) % (N + 1);
        for (size_t i = 0; i < n; i++) {
            size_t len = 1 + next(&rng) % (round % 3 ? 700 : 60000);
            len = next(&rng) % 3 ? len : (len / 128 + 1) * 128;
            v[i] = (struct object_bytes){p + next(&rng) % 5000, len};
        }
        object_ids_of(many, v, n);
        for (size_t i = 0; i < n; i++) {
            object_id_of(&one, v[i].p, v[i].n);
            if (!object_same(&one, &many[i]))
                fail_msg("round %d: object %zu of %zu, %zu bytes", round, i, n, v[i].n);
        }
    }
    free(p);
}

static void a_record_comes_back_and_damage_is_noticed(void **state) {
    (void)state;
    uint64_t rng = seed_of("records");
    static const size_t sizes[] = {1, 63, 64, 5000, 70000, OBJECT_MAX};
    struct object_codec *c = object_codec_new();
    uint8_t *raw = malloc(OBJECT_MAX);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int text = 0; text < 2; text++) {
            size_t n = sizes[i];
            struct pd_buf b = {0};
            struct object_id id;
            struct object_record r;
            struct pd_err err = {0};
            const uint8_t *back;
            fill(raw, n, &rng);
            for (size_t k = 0; text && k < n; k++)
                raw[k] = "words and "[k % 10];
            object_id_of(&id, raw, n);
            assert_int_equal(object_encode(c, &id, raw, n, &b), 0);
            assert_int_equal(object_encode(c, &id, raw, n, &b), 0);
            const uint8_t *p = b.data, *end = b.data + b.len;
            if (text && n >= 5000)
                assert_true(b.len < n / 2);
            else
                assert_true(b.len <= 2 * (n + OBJECT_HEADER));
            for (int k = 0; k < 2; k++) {
                assert_int_equal(object_next(&p, end, &r, &err), 1);
                assert_int_equal(object_decode(c, &r, &back, &err), 0);
                assert_int_equal(r.raw_len, n);
                assert_memory_equal(back, raw, n);
            }
            assert_int_equal(object_next(&p, end, &r, &err), 0);
            for (int k = 0; k < 60; k++) { /* one bit is flipped, or the end is missing */
                size_t at = next(&rng) % (b.len / 2), bit = next(&rng) % 8;
                struct pd_err why = {0};
                b.data[at] ^= (uint8_t)(1 << bit);
                p = b.data;
                int rc = object_next(&p, b.data + b.len / 2, &r, &why);
                int decoded = rc == 1 ? object_decode(c, &r, &back, &why) : rc;
                if (!decoded) /* zstd has bits without a meaning; the bytes are then right */
                    assert_true(r.raw_len == n && !memcmp(back, raw, n));
                else
                    assert_true(decoded == PD_EPROTO || decoded == PD_EDATA);
                b.data[at] ^= (uint8_t)(1 << bit);
                p = b.data;
                size_t cut = 1 + next(&rng) % (b.len / 2 - 1);
                assert_int_equal(object_next(&p, b.data + cut, &r, &why), PD_EPROTO);
            }
            pd_buf_release(&b);
        }
    free(raw);
    object_codec_free(c);
}

static void a_record_that_unpacks_to_more_is_refused(void **state) {
    (void)state;
    struct object_codec *c = object_codec_new();
    uint8_t *zeros = calloc(1, OBJECT_MAX);
    struct pd_buf b = {0};
    struct object_id id;
    object_id_of(&id, zeros, OBJECT_MAX);
    object_encode(c, &id, zeros, OBJECT_MAX, &b);
    assert_true(b.len < 1000);
    const uint32_t claims = 64 << 10; /* raw_len is less than the unpacked length */
    memcpy(b.data + 32, &claims, 4);
    struct object_record r;
    struct pd_err err = {0};
    const uint8_t *p = b.data, *raw;
    assert_int_equal(object_next(&p, b.data + b.len, &r, &err), 1);
    assert_int_equal(object_decode(c, &r, &raw, &err), PD_EDATA);
    const uint32_t too_many = OBJECT_MAX + 1;
    memcpy(b.data + 32, &too_many, 4);
    p = b.data;
    assert_int_equal(object_next(&p, b.data + b.len, &r, &err), PD_EPROTO);
    pd_buf_release(&b);
    free(zeros);
    object_codec_free(c);
}

int main(void) {
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_side_by_side_are_ids),
        cmocka_unit_test(a_record_comes_back_and_damage_is_noticed),
        cmocka_unit_test(a_record_that_unpacks_to_more_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
