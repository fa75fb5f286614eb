/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_logs.c - reading from every offset, in pieces of every size, gives the same bytes with
 * their times. */
#include <setjmp.h>

#include <cmocka.h>

#include "agent/logs/logs.h"

struct env {
    char dir[64];
    struct logs logs;
};

static int setup(void **state) {
    struct env *e = calloc(1, sizeof *e);
    char p[100];
    struct pd_err err = {0};
    pd_fmt(e->dir, sizeof e->dir, "/tmp/agent-logs-XXXXXX");
    assert_non_null(mkdtemp(e->dir));
    snprintf(p, sizeof p, "%s/log", e->dir);
    mkdir(p, 0755);
    snprintf(p, sizeof p, "%s/.agent", e->dir);
    mkdir(p, 0755);
    assert_int_equal(logs_open(&e->logs, e->dir, 0, &err), 0);
    *state = e;
    return 0;
}

static int teardown(void **state) {
    struct env *e = *state;
    logs_close(&e->logs);
    pd_rm_tree(e->dir, NULL);
    pd_fault_arm(NULL);
    free(e);
    return 0;
}

static void any_offset_any_piece(void **state) {
    struct env *e = *state;
    char all[5000];
    uint64_t when[5000];
    size_t n = 0;
    struct pd_err err = {0};
    for (unsigned i = 0; n < 4000; i++) { /* pieces of 1 to 97 bytes, at 1000, 1001, ... */
        size_t k = 1 + i * 37 % 97;
        for (size_t j = 0; j < k; j++) {
            all[n + j] = (char)('a' + (n + j) % 26);
            when[n + j] = 1000 + i;
        }
        assert_int_equal(logs_append(&e->logs, LOG_TRAIN, 1000 + i, all + n, k, &err), 0);
        n += k;
    }
    for (size_t from = 0; from <= n; from += from < 300 ? 1 : 61)
        for (size_t cap = 1; cap < 200; cap = cap * 3 + 1) {
            uint64_t hint = from % 3 ? 0 : 7, at = from, t = 0;
            char buf[200];
            for (size_t got = 1; got; at += got) {
                assert_int_equal(
                    logs_read(&e->logs, LOG_TRAIN, at, buf, cap, &got, &t, &hint, &err), 0);
                for (size_t j = 0; j < got; j++)
                    if (buf[j] != all[at + j] || t != when[at + j])
                        fail_msg("from %zu cap %zu: byte %zu is %c at %llu", from, cap,
                                 (size_t)at + j, buf[j], (unsigned long long)t);
            }
            assert_int_equal(at, n);
        }
    struct logs disk; /* the same files, read after the agent's end */
    assert_int_equal(logs_open(&disk, e->dir, 1, &err), 0);
    size_t got;
    uint64_t t, hint = 0;
    char buf[50];
    assert_int_equal(logs_read(&disk, LOG_TRAIN, 777, buf, 1, &got, &t, &hint, &err), 0);
    assert_true(got == 1 && buf[0] == all[777] && t == when[777] && disk.f[LOG_TRAIN].complete);
    assert_int_equal(disk.f[LOG_SERVER].size, 0);
    assert_int_equal(logs_read(&disk, LOG_SERVER, 0, buf, 50, &got, &t, &hint, &err), 0);
    assert_int_equal(got, 0);
    logs_close(&disk);
}

static void last_lines(void **state) {
    static const struct {
        const char *name, *text;
        uint64_t from;
        int lines;
        size_t cap;
        const char *want;
    } rows[] = {
        {"all", "a\nb\n", 0, 5, 100, "a\nb\n"},
        {"two", "a\nb\nc\n", 0, 2, 100, "b\nc\n"},
        {"no newline", "a\nb", 0, 1, 100, "b"},
        {"from", "old\nnew\n", 4, 5, 100, "new\n"},
        {"nothing new", "old\n", 4, 5, 100, ""},
        {"cut line left out", "aaaa\nbb\n", 0, 5, 6, "bb\n"},
        {"one long line", "abcdefgh", 0, 5, 4, "fgh"},
        {"empty lines", "a\n\n\n", 0, 2, 100, "\n\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *one;
        setup(&one);
        struct env *e = one;
        char buf[100];
        assert_int_equal(
            logs_append(&e->logs, LOG_SERVER, 1, rows[i].text, strlen(rows[i].text), NULL), 0);
        logs_tail(&e->logs, LOG_SERVER, rows[i].from, rows[i].lines, buf, rows[i].cap);
        if (strcmp(buf, rows[i].want))
            fail_msg("%s: '%s'", rows[i].name, buf);
        teardown(&one);
    }
    (void)state;
}

static void full_disk_is_reported(void **state) {
    struct env *e = *state;
    struct pd_err err = {0};
    pd_fault_arm("logs.write:2");
    assert_int_equal(logs_append(&e->logs, LOG_SERVER, 1, "ab", 2, &err), 0);
    assert_int_equal(logs_append(&e->logs, LOG_SERVER, 2, "cd", 2, &err), PD_ENOSPC);
    assert_int_equal(logs_append(&e->logs, LOG_SERVER, 3, "ef", 2, NULL), 0);
    char buf[10];
    size_t n;
    uint64_t t, hint = 0;
    assert_int_equal(logs_read(&e->logs, LOG_SERVER, 2, buf, 10, &n, &t, &hint, NULL), 0);
    assert_true(n == 2 && t == 3 && !memcmp(buf, "ef", 2));
}

/* A partial record in the index would shift all later records. */
static void torn_index_record_is_cut_off(void **state) {
    struct env *e = *state;
    struct pd_err err = {0};
    char buf[10];
    size_t n;
    uint64_t t, hint = 0;
    assert_int_equal(logs_append(&e->logs, LOG_SERVER, 1, "ab", 2, &err), 0);
    pd_fault_arm("logs.torn:1");
    assert_int_equal(logs_append(&e->logs, LOG_SERVER, 2, "cd", 2, &err), PD_ENOSPC);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(logs_append(&e->logs, LOG_SERVER, 10 + i, "ef", 2, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(logs_read(&e->logs, LOG_SERVER, 2 + 2 * i, buf, 10, &n, &t, &hint, NULL),
                         0);
        assert_true(n == 2 && t == 10 + i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_offset_any_piece, setup, teardown),
        cmocka_unit_test(last_lines),
        cmocka_unit_test_setup_teardown(full_disk_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(torn_index_record_is_cut_off, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
