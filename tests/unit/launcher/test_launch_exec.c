/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_exec.c - the output of `paddlectl exec`: texts in memory and in a file, equal texts
 * shown once, JSON of any bytes. */
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>

#include "launcher/view/blocks.h"

static void put(struct spool *s, const void *p, size_t n) {
    struct pd_err err = {0};
    assert_int_equal(spool_put(s, p, n, &err), 0);
}

/* The bytes are the same for every memory limit and every size of pieces; so is the digest. */
static void test_spool(void **state) {
    (void)state;
    static const size_t memory[] = {0, 1, 1000, 4096, 1 << 20};
    uint8_t digest[2][SPOOL_DIGEST], got[5000], want[5000];
    for (size_t i = 0; i < sizeof want; i++)
        want[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t m = 0; m < sizeof memory / sizeof memory[0]; m++) {
        struct spool s;
        spool_init(&s, memory[m]);
        for (int again = 0; again < 2; again++) {
            for (size_t at = 0, n = 1; at < sizeof want; at += n, n = n * 3 % 701 + 1) {
                if (n > sizeof want - at)
                    n = sizeof want - at;
                put(&s, want + at, n);
            }
            assert_int_equal(s.size, sizeof want);
            assert_int_equal(spool_read(&s, 0, got, sizeof got), sizeof got);
            assert_memory_equal(got, want, sizeof want);
            assert_int_equal(spool_read(&s, 4990, got, sizeof got), 10);
            assert_memory_equal(got, want + 4990, 10);
            assert_int_equal(spool_read(&s, 5000, got, 1), 0);
            assert_int_equal(spool_digest(&s, digest[m > 0]), 0);
            assert_memory_equal(digest[0], digest[m > 0], SPOOL_DIGEST);
            spool_restart(&s);
            assert_int_equal(s.size, 0);
        }
        spool_release(&s);
    }
}

static void test_spool_without_a_place(void **state) {
    (void)state;
    struct spool s;
    struct pd_err err = {0};
    char *old = getenv("TMPDIR") ? pd_strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", "/nonexistent", 1);
    spool_init(&s, 4);
    put(&s, "abc", 3);
    assert_int_equal(spool_put(&s, "de", 2, &err), PD_EIO);
    assert_string_equal(err.msg, "cannot keep it in /nonexistent: No such file or directory");
    assert_int_equal(spool_put(&s, "f", 1, &err), 0); /* the error is reported once */
    assert_int_equal(s.size, 3);
    spool_release(&s);
    if (old)
        setenv("TMPDIR", old, 1);
    else
        unsetenv("TMPDIR");
    free(old);
}

static char *shown(const char *const (*in)[2], size_t n) {
    struct spool s[8];
    struct block b[8];
    struct pd_err err = {0};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (size_t i = 0; i < n; i++) {
        spool_init(&s[i], i % 2 ? 1 : 1000);
        put(&s[i], in[i][1], strlen(in[i][1]));
        b[i] = (struct block){.name = in[i][0], .text = &s[i]};
    }
    assert_int_equal(blocks_show(b, n, f, &err), 0);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        spool_release(&s[i]);
    return text;
}

static void test_blocks(void **state) {
    (void)state;
    static const char *const in[][2] = {
        {"node1", "two\nlines\n"}, {"node2", "other\n"}, {"node3", ""},   {"node4", "two\nlines\n"},
        {"node5", "other\n"},      {"node6", "other"},   {"node7", "\n"}, {"node8", "two\nlines"}};
    char *text = shown(in, 8);
    assert_string_equal(text, "---------------\nnode[1,4] (2)\n---------------\ntwo\nlines\n"
                              "node[2,5]: other\n"
                              "node6: other\n"
                              "node7: \n"
                              "---------------\nnode8\n---------------\ntwo\nlines\n");
    free(text);
}

static void json_is(const char *in, size_t n, const char *want) {
    struct spool s;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    spool_init(&s, 1000);
    put(&s, in, n);
    assert_int_equal(blocks_json(&s, f), 0);
    fclose(f);
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(v);
    if (want)
        assert_string_equal(json_string_value(v), want);
    else
        assert_int_equal(json_string_length(v), n);
    json_decref(v);
    free(text);
    spool_release(&s);
}

static void test_json(void **state) {
    (void)state;
    char controls[33] = {0};
    json_is("", 0, "");
    json_is("a\"b\\c\n\t\x7f", 8, "a\"b\\c\n\t\x7f");
    json_is("\xc3\xa4\xff\xe2\x82", 5, "\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    for (int i = 0; i < 32; i++)
        controls[i] = (char)i;
    json_is(controls, 32, NULL);
    /* a character of three bytes crosses the end of every piece */
    for (size_t shift = 0; shift < 4; shift++) {
        size_t n = 0;
        char *big = pd_malloc(200000);
        memset(big, 'x', shift);
        for (n = shift; n + 3 < 200000; n += 3)
            memcpy(big + n, "\xe2\x82\xac", 3);
        json_is(big, n, NULL);
        free(big);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spool),
        cmocka_unit_test(test_spool_without_a_place),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
