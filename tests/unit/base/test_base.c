/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - errors, buffers, parsing of numbers, files, random numbers. */
#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cksum.h"
#include "math/hash.h"
#include "math/rng.h"

static void the_first_error_wins(void **state) {
    (void)state;
    struct pd_err err = {0};
    assert_int_equal(pd_fail_errno(&err, PD_EIO, ENOSPC, "cannot write %s", "x"), PD_ENOSPC);
    assert_int_equal(pd_fail(&err, PD_EDATA, "second"), PD_EDATA);
    pd_err_prefix(&err, "node %d", 3);
    assert_string_equal(err.msg, "node 3: cannot write x: No space left on device");
    assert_int_equal(pd_code_exit_status(err.code), 3);
    char big[3000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    pd_err_clear(&err);
    pd_fail(&err, PD_EIO, "%s", big);
    pd_err_prefix(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(pd_code_name(-9999), "?");
    assert_int_equal(pd_oom(&err, "rows"), PD_ENOMEM);
    assert_int_equal(err.code, PD_EIO);
    pd_err_clear(&err);
    assert_int_equal(pd_oom(&err, "rows"), PD_ENOMEM);
    assert_int_equal(err.code, PD_ENOMEM);
    assert_string_equal(err.msg, "no memory for rows");
}

static void errors_keep_their_origin(void **state) {
    (void)state;
    struct pd_err err = {0}, other = {0};
    pd_err_from(&err, "trainer %d", 2); /* there is no error yet */
    assert_string_equal(err.from, "");
    pd_fail(&err, PD_EDATA, "bad line");
    pd_err_from(&err, "trainer %d on %s", 2, "10.0.0.3");
    pd_err_from(&err, "pserver 1");
    pd_err_prefix(&err, "step 7");
    assert_int_equal(pd_err_copy(&other, &err), PD_EDATA);
    assert_string_equal(other.from, "trainer 2 on 10.0.0.3");
    assert_string_equal(other.msg, "step 7: bad line");
    pd_err_clear(&err);
    assert_string_equal(err.from, "");
    pd_fail(&err, PD_EIO, "later");
    assert_int_equal(pd_err_copy(&other, &err), PD_EIO);
    assert_int_equal(other.code, PD_EDATA); /* the first error wins */
    assert_int_equal(pd_err_copy(NULL, &err), PD_EIO);
}

static void numbers_are_whole_and_bounded(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int ok;
        int64_t value;
    } rows[] = {{"0", 1, 0},
                {"-5", 1, -5},
                {"100", 1, 100},
                {"101", 0, 0},
                {"-6", 0, 0},
                {"", 0, 0},
                {" 1", 0, 0},
                {"1 ", 0, 0},
                {"1e1", 0, 0},
                {"0x10", 0, 0},
                {"99999999999999999999", 0, 0},
                {"+1", 0, 0},
                {"-", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t v = 0;
        int rc = pd_parse_i64(rows[i].text, -5, 100, &v);
        if ((rc == 0) != rows[i].ok || v != rows[i].value)
            fail_msg("'%s': %d %lld", rows[i].text, rc, (long long)v);
    }
    double d;
    assert_int_equal(pd_parse_f64("1e-3", 0, 1, &d), 0);
    assert_int_equal(pd_parse_f64("nan", -9, 9, &d), -1);
    assert_int_equal(pd_parse_f64("1,5", 0, 9, &d), -1);
    uint64_t u;
    assert_int_equal(pd_parse_u64("18446744073709551615", UINT64_MAX, &u), 0);
    assert_int_equal(pd_parse_u64("-1", UINT64_MAX, &u), -1);
}

static void utf8_is_told_from_other_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n, valid;
    } rows[] = {{"abc", 3, 3},
                {"", 0, 0},
                {"gr\xc3\xbcn", 5, 5},
                {"gr\xfcn", 4, 2},
                {"\xe2\x82\xac", 3, 3},
                {"\xe2\x82", 2, 0},
                {"\xf0\x9f\x98\x80", 4, 4},
                {"\xc0\x80", 2, 0},
                {"\xed\xa0\x80", 3, 0},
                {"\xf4\x90\x80\x80", 4, 0},
                {"a\0b", 3, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (pd_utf8_valid(rows[i].text, rows[i].n) != rows[i].valid)
            fail_msg("row %zu: %zu", i, pd_utf8_valid(rows[i].text, rows[i].n));
}

static void what_a_terminal_must_not_get_is_replaced(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain \t\n text", "plain \t\n text"},
        {"gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\033[2J\033]0;t\a", " [2J ]0;t "}, /* C0 */
        {"a\rb\bc\x7f", "a b c "},           /* C0 and DEL */
        {"\xc2\x9b"
         "2J\xc2\x80\xc2\xa0",
         " 2J \xc2\xa0"}, /* C1 as UTF-8; U+00A0 is text */
        {"\x9b"
         "2J\xff\xc3",
         "?2J??"},                                                  /* C1 as a byte; no UTF-8 */
        {"\xe2\x80\xaex\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f", " x   "}, /* direction of text */
        {"\xe2\x80\x93\xe2\x81\xb0", "\xe2\x80\x93\xe2\x81\xb0"},   /* their neighbours */
        {"", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char s[64];
        snprintf(s, sizeof s, "%s", rows[i].text);
        if (strcmp(pd_make_printable(s), rows[i].want))
            fail_msg("row %zu: '%s'", i, s);
        struct pd_err err = {0};
        pd_fail(&err, PD_EFAIL, "%s", rows[i].text);
        assert_string_equal(err.msg, rows[i].want);
    }
}

static void a_reader_never_leaves_its_span(void **state) {
    (void)state;
    struct pd_buf b;
    pd_buf_init(&b);
    pd_put_u8(&b, 1);
    pd_put_u16(&b, 2);
    pd_put_u32(&b, 3);
    pd_put_u64(&b, 4);
    pd_put_f32(&b, 5.5f);
    pd_put_f64(&b, 6.5);
    pd_put_str(&b, "seven");
    for (size_t n = 0; n <= b.len; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* exact size, so that ASan detects an access outside */
        memcpy(copy, b.data, n);
        struct pd_reader r;
        char s[6];
        pd_reader_init(&r, copy, n);
        int good = pd_get_u8(&r) == 1 && pd_get_u16(&r) == 2 && pd_get_u32(&r) == 3 &&
                   pd_get_u64(&r) == 4 && pd_get_f32(&r) == 5.5f && pd_get_f64(&r) == 6.5;
        pd_get_str(&r, s, sizeof s);
        assert_int_equal(good && pd_reader_done(&r) && !strcmp(s, "seven"), n == b.len);
        free(copy);
    }
    struct pd_reader r;
    char small[5];
    pd_reader_init(&r, b.data + b.len - 9, 9);
    pd_get_str(&r, small, sizeof small); /* five bytes and a NUL do not fit */
    assert_int_equal(r.failed, 1);
    assert_string_equal(small, "");
    pd_buf_release(&b);
}

static void atomic_files_and_trees(void **state) {
    (void)state;
    char dir[] = "/tmp/test-base-XXXXXX", path[200], link[200];
    struct pd_err err = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b/c", dir);
    assert_int_equal(pd_mkdirs(path, 0755, &err), 0);
    assert_int_equal(pd_mkdirs(path, 0755, &err), 0);
    snprintf(path, sizeof path, "%s/a/file", dir);
    assert_int_equal(pd_write_file_atomic(path, "12345", 5, 0600, &err), 0);
    assert_int_equal(pd_write_file_atomic(path, "678", 3, 0640, &err), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    struct pd_buf b;
    pd_buf_init(&b);
    assert_int_equal(pd_read_file(path, 3, &b, &err), 0);
    assert_string_equal((char *)b.data, "678");
    assert_int_equal(pd_read_file(path, 2, &b, &err), PD_EDATA);
    pd_buf_release(&b);
    assert_int_equal(pd_mkdirs(path, 0755, NULL), PD_EIO); /* the path is a file */
    /* Removal of a tree does not follow links out of the tree. */
    char outside[] = "/tmp/test-base-XXXXXX";
    assert_non_null(mkdtemp(outside));
    snprintf(path, sizeof path, "%s/keep", outside);
    assert_int_equal(pd_write_file_atomic(path, "k", 1, 0600, NULL), 0);
    snprintf(link, sizeof link, "%s/a/link", dir);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(pd_rm_tree(dir, &err), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(pd_rm_tree(outside, NULL), 0);
    assert_int_equal(pd_rm_tree(outside, NULL), 0);
    /* Of the remains of killed writers, only names of the exact form are removed. */
    static const char *const names[] = {".pass-1.tmp-00000000000000aa", ".pass-1.tmp-aa",
                                        ".pass-1.TMP-00000000000000aa", "pass-1",
                                        ".mine.tmp-00000000000000aa"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s/inner", dir, names[i]);
        assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
    }
    pd_rm_stale(dir, ".pass-");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(access(path, F_OK), i ? 0 : -1);
    }
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
    char locked[100];
    snprintf(locked, sizeof locked, "%s/x/y", dir);
    assert_int_equal(pd_mkdirs(locked, 0755, NULL),
                     0); /* folders without write permission, or without any */
    assert_int_equal(chmod(locked, 0), 0);
    *strrchr(locked, '/') = 0;
    assert_int_equal(chmod(locked, 0555), 0);
    assert_int_equal(pd_rm_tree(dir, NULL), 0);
    assert_int_equal(access(dir, F_OK), -1);
}

static void random_numbers_are_pure_functions(void **state) {
    (void)state;
    struct pd_rng_key k = pd_rng_key(7, PD_RNG_INIT, 1, 2), k2 = pd_rng_key(7, PD_RNG_INIT, 2, 1);
    static float a[100000], part[10];
    pd_rng_normal(k, 5, a, 100000);
    for (uint64_t first = 0; first < 9; first++) {
        pd_rng_normal_range(k, 5, first, part, 10);
        assert_memory_equal(part, a + first, sizeof part);
    }
    pd_rng_normal(k2, 5, part, 10);
    assert_memory_not_equal(part, a, sizeof part);
    /* The reference: the direct computation with the C library. */
    for (uint64_t b = 0; b < 25000; b++) {
        uint32_t v[4];
        pd_rng_u32x4(k, 5, b, v);
        for (int i = 0; i < 4; i += 2) {
            double r = sqrt(-2 * log((v[i] + 1.0) / 4294967296.0)),
                   t = 6.283185307179586476925 * ((v[i + 1] + 1.0) / 4294967296.0);
            double want[2] = {r * cos(t), r * sin(t)};
            for (int j = 0; j < 2; j++)
                if (fabs((double)a[4 * b + (uint64_t)(i + j)] - want[j]) >
                    1e-7 * fabs(want[j]) + 1e-15)
                    fail_msg("number %d of block %llu: %.9g instead of %.9g", i + j,
                             (unsigned long long)b, (double)a[4 * b + (uint64_t)(i + j)], want[j]);
        }
    }
    double mean = 0, var = 0, tail = 0;
    for (int i = 0; i < 100000; i++) {
        mean += (double)a[i] / 100000;
        var += (double)a[i] * (double)a[i] / 100000;
        tail += fabs((double)a[i]) > 1.959964;
    }
    assert_true(fabs(mean) < 0.02 && fabs(var - 1) < 0.03 && fabs(tail / 100000 - 0.05) < 0.005);
    /* Known answer: Random123's own vector for philox4x32-10, all zero. */
    uint32_t u[4];
    struct pd_rng_key zero = {{0, 0}};
    pd_rng_u32x4(zero, 0, 0, u);
    assert_int_equal(u[0], 0x6627e8d5);
    assert_int_equal(u[3], 0x9b00dbd8);
    unsigned seen = 0;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t v = pd_rng_below(k, 1, i, 7);
        assert_true(v < 7);
        seen |= 1u << v;
    }
    assert_int_equal(seen, 127);
}

static void mixing_spreads_consecutive_ids(void **state) {
    (void)state;
    int bucket[64] = {0};
    for (uint64_t i = 0; i < 64000; i++)
        bucket[pd_mix64(i) >> 58]++;
    for (int i = 0; i < 64; i++)
        assert_in_range(bucket[i], 850, 1150);
}

static void faults_hit_the_nth_time(void **state) {
    (void)state;
    pd_fault_arm("alloc:3,save:1");
    void *a = pd_malloc(1), *b = pd_calloc(1, 1);
    assert_true(a && b);
    assert_null(pd_strdup("x"));
    assert_int_equal(pd_fault("save"), 1);
    assert_int_equal(pd_fault("save"), 0);
    pd_fault_arm(NULL);
    free(a);
    free(b);
}

static void *ask_for_faults(void *stop) {
    while (!atomic_load((atomic_int *)stop))
        pd_fault("b");
    return NULL;
}

/* A server saves in a child of fork. A test of it waited for ever: another thread had the lock of
 * the points at the moment of the fork. */
static void a_child_of_fork_asks_for_faults(void **state) {
    atomic_int stop = 0;
    pthread_t t;
    (void)state;
    pd_fault_arm("a:1");
    assert_int_equal(pthread_create(&t, NULL, ask_for_faults, &stop), 0);
    for (int i = 0; i < 1000; i++) {
        int status = -1;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            alarm(60);
            _exit(pd_fault("a") ? 7 : 8);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 7 << 8);
    }
    atomic_store(&stop, 1);
    assert_int_equal(pthread_join(t, NULL), 0);
    pd_fault_arm(NULL);
}

/* An array that can't grow stays unchanged. A growing array keeps its elements and is seldom
 * copied. */
static void arrays_grow_by_doubling(void **state) {
    (void)state;
    uint64_t *v = NULL;
    size_t cap = 0, n_moves = 0;
    for (size_t n = 0; n < 100000; n++) {
        const size_t before = cap;
        assert_int_equal(pd_grow(v, cap, n + 1), 0);
        assert_true(cap > n);
        n_moves += cap != before;
        v[n] = n;
    }
    assert_in_range(n_moves, 10, 17);
    assert_int_equal(v[99999], 99999);
    uint64_t *const same = v;
    const size_t same_cap = cap;
    pd_fault_arm("alloc:1");
    assert_int_equal(pd_grow(v, cap, cap), 0); /* there is room */
    assert_int_equal(pd_grow(v, cap, cap + 1), PD_ENOMEM);
    pd_fault_arm(NULL);
    assert_int_equal(pd_grow(v, cap, SIZE_MAX / 8), PD_ENOMEM); /* its bytes would overflow */
    assert_int_equal(pd_grow(v, cap, SIZE_MAX), PD_ENOMEM);
    assert_true(v == same && cap == same_cap);
    assert_int_equal(pd_grow(v, cap, 5 * cap), 0); /* many at once */
    assert_in_range(cap, 5 * same_cap, 10 * same_cap);
    free(v);
}

static void log_records_are_single_lines(void **state) {
    (void)state;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    struct pd_log log;
    pd_log_init(&log, fd[1], -1, PD_INFO);
    pd_debug(&log, "not this");
    char big[5000];
    memset(big, 'z', sizeof big - 1);
    big[sizeof big - 1] = 0;
    pd_warn(&log, "hello %s", big);
    close(fd[1]);
    char text[8192];
    ssize_t n = pd_read_full(fd[0], text, sizeof text);
    close(fd[0]);
    assert_true(n > 1000 && n < 3000 && text[0] == 'W' && text[n - 1] == '\n');
    assert_null(memchr(text, '\n', (size_t)n - 1));
    assert_non_null(strstr(text, "test_base.c:"));
}

/* The output of `cksum` for known texts, and the value by definition for all lengths around eight
 * bytes. */
static void cksum_is_that_of_posix(void **state) {
    (void)state;
    uint8_t p[600];
    assert_int_equal(pd_cksum("", 0), 4294967295u);
    assert_int_equal(pd_cksum("123456789", 9), 930766865u);
    for (size_t i = 0; i < sizeof p; i++)
        p[i] = (uint8_t)(pd_mix64(i) >> 40);
    for (size_t n = 0; n < sizeof p; n += n < 40 ? 1 : 37) {
        uint32_t c = 0;
        for (size_t i = 0, rest = n; i < n || rest; i++) {
            c ^= (uint32_t)(i < n ? p[i] : rest & 255) << 24;
            for (int k = 0; k < 8; k++)
                c = c << 1 ^ (c >> 31 ? 0x04c11db7u : 0);
            rest >>= i < n ? 0 : 8;
        }
        assert_int_equal(pd_cksum(p, n), ~c);
    }
}

static void suggestions_are_near(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"rnu", ", did you mean 'run'?"},    {"ru", " (known: run, logs, status)"},
        {"logs2", ", did you mean 'logs'?"}, {"abc", " (known: run, logs, status)"},
        {"", " (known: run, logs, status)"}, {"sta", " (known: run, logs, status)"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[64];
        assert_string_equal(pd_suggest(out, sizeof out, rows[i][0], "run, logs, status"),
                            rows[i][1]);
    }
    assert_int_equal(pd_edit_distance("csv", "cvs"), 1);
    assert_int_equal(pd_edit_distance("ab", "cd"), 2);
}

/* Steps on a tree DIR/a/b/p: chmod or chown of one folder, then the check of p. */
static void a_private_folder_is_private(void **state) {
    static const struct {
        const char *name, *of; /* "": p itself */
        mode_t mode;
        uid_t owner;
        const char *refused; /* a part of the message; NULL: accepted, and p gets mode 0700 */
    } rows[] = {
        {"as it was made", "", 0700, 0, NULL},
        {"others may read p", "", 0755, 0, NULL},
        {"others may write p", "", 0777, 0, NULL},
        {"a sticky p", "", 01777, 0, NULL},
        {"a group may write above", "a", 0775, 0, "/a belongs to user"},
        {"all may write above", "a/b", 0777, 0, "/a/b belongs to user"},
        {"a sticky folder above", "a", 01777, 0, NULL},
        {"a sticky folder of a group above", "a", 01775, 0, NULL},
        {"readable above", "a", 0755, 0, NULL},
        {"another's folder above", "a", 0755, 12345, "belongs to user 12345 and has mode 0755"},
        {"another's sticky folder", "a", 01777, 12345, "belongs to user 12345"},
        {"another's p", "", 0700, 12345, "belongs to user 12345"},
    };
    (void)state;
    const mode_t old = umask(022);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dir[] = "/tmp/paddle-private-XXXXXX", p[60], path[80];
        struct pd_err err = {0};
        struct stat st;
        assert_non_null(mkdtemp(dir));
        pd_fmt(p, sizeof p, "%s/a/b", dir);
        assert_int_equal(pd_mkdirs(p, 0755, NULL), 0);
        pd_fmt(p, sizeof p, "%s/a/b/p", dir);
        assert_int_equal(pd_private_dir(p, &err), 0);
        pd_fmt(path, sizeof path, "%s/%s", dir, *rows[i].of ? rows[i].of : "a/b/p");
        assert_int_equal(chmod(path, rows[i].mode), 0);
        if (rows[i].owner && geteuid())
            print_message("skipped: %s: only root can give a folder away\n", rows[i].name);
        else {
            assert_int_equal(rows[i].owner ? chown(path, rows[i].owner, (gid_t)-1) : 0, 0);
            int rc = pd_private_dir(p, &err);
            /* the user's own group, which has the user's number, may write */
            const int own = rows[i].mode == 0775 && geteuid() && geteuid() == getegid();
            if (rc != (rows[i].refused && !own ? PD_EHOST : 0) ||
                (rc && (!strstr(err.msg, rows[i].refused) || !strstr(err.msg, "mend it with: "))))
                fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
            assert_int_equal(stat(p, &st), 0);
            if (!rc)
                assert_int_equal(st.st_mode & 07077, 0);
        }
        pd_rm_tree(dir, NULL);
    }
    umask(old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggestions_are_near),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(errors_keep_their_origin),
        cmocka_unit_test(numbers_are_whole_and_bounded),
        cmocka_unit_test(a_reader_never_leaves_its_span),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(what_a_terminal_must_not_get_is_replaced),
        cmocka_unit_test(atomic_files_and_trees),
        cmocka_unit_test(a_private_folder_is_private),
        cmocka_unit_test(random_numbers_are_pure_functions),
        cmocka_unit_test(mixing_spreads_consecutive_ids),
        cmocka_unit_test(faults_hit_the_nth_time),
        cmocka_unit_test(a_child_of_fork_asks_for_faults),
        cmocka_unit_test(arrays_grow_by_doubling),
        cmocka_unit_test(log_records_are_single_lines),
        cmocka_unit_test(cksum_is_that_of_posix),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
