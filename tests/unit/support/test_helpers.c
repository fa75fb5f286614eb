/* SPDX-License-Identifier: Apache-2.0 */
/* test_helpers.c - the checks of tests/support in C: each must be able to pass and to fail.
 * tests/integration/source/test_helpers.sh does the same for the checks in shell and Python. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/wait.h>

#include "tests/support/c/near.h"
#include "tests/support/c/pack_deploy.h"
#include "tests/support/c/ps_client.h"

static const char *text, *want;

static void contains(void **state) {
    (void)state;
    assert_contains(text, want);
}

/* Runs a test in a child without output. 0: passed, 1: failed. */
static int verdict(CMUnitTestFunction test) {
    pid_t pid = fork();
    if (!pid) {
        const struct CMUnitTest tests[] = {{"made up", test, NULL, NULL, NULL}};
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        _exit(cmocka_run_group_tests(tests, NULL, NULL));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_contains_can_fail(void **state) {
    (void)state;
    text = "trainer 2 is gone", want = "trainer 2";
    assert_int_equal(verdict(contains), 0);
    want = "trainer 3";
    assert_int_equal(verdict(contains), 1);
    text = "";
    assert_int_equal(verdict(contains), 1);
}

static float got;
static double wanted, may_differ;

static void within(void **state) {
    (void)state;
    assert_within("it", &got, &wanted, &may_differ, 1);
}

static void near(void **state) {
    (void)state;
    assert_near("it", (double)got, wanted, may_differ);
}

/* Two additions to a sum of magnitude 1. */
static void near_sums(void **state) {
    const double magnitude = 1;
    (void)state;
    assert_near_sums("it", &got, &wanted, &magnitude, 1, 2);
}

static void bounds_can_fail(void **state) {
    static const struct {
        float got;
        double want, may_differ;
        int verdict, of_sums;
    } rows[] = {{1, 1, 0, 0, 0},         {1.5f, 1, 0.5, 0, 1},      {1.5f, 1, 0.4, 1, 1},
                {-1, 1, 1, 1, 1},        {NAN, 1, 10, 1, 1},        {1, NAN, 10, 1, 1},
                {INFINITY, 1, 10, 1, 1}, {1, 1 + 2e-7, 1e-6, 0, 0}, {1, 1 + 3e-7, 1e-6, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        got = rows[i].got, wanted = rows[i].want, may_differ = rows[i].may_differ;
        if (verdict(within) != rows[i].verdict || verdict(near) != rows[i].verdict ||
            verdict(near_sums) != rows[i].of_sums)
            fail_msg("row %zu", i);
    }
}

enum { MORE, SIZE, BYTES, MODE, TIME, GONE, N_EDITS };

/* Every kind of difference between a folder and its deployed tree is found. */
static void edit(const char *path, int how) {
    struct timespec at[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    char more[PATH_MAX];
    struct stat st;
    int fd;
    assert_int_equal(stat(path, &st), 0);
    switch (how) {
    case MORE:
        assert_int_equal(pd_fmt(more, sizeof more, "%s.more", path), 0);
        assert_int_equal(mkdir(more, 0755), 0);
        break;
    case SIZE:
        assert_int_equal(truncate(path, st.st_size + 1), 0);
        break;
    case BYTES:
        fd = open(path, O_RDWR);
        uint8_t b;
        assert_int_equal(pread(fd, &b, 1, st.st_size / 2), 1);
        b ^= 1;
        assert_int_equal(pwrite(fd, &b, 1, st.st_size / 2), 1);
        close(fd);
        break;
    case MODE:
        assert_int_equal(chmod(path, st.st_mode ^ 0100), 0);
        break;
    case TIME:
        assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
        return;
    default:
        assert_int_equal(unlink(path), 0);
        return;
    }
    at[1] = st.st_mtim; /* only this difference remains */
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static void rt_differs_finds_each_difference(void **state) {
    (void)state;
    for (int how = 0; how < N_EDITS; how++) {
        struct rt t = {.rng = 7};
        struct pd_err err = {0};
        char root[PATH_MAX], target[PATH_MAX], path[PATH_MAX];
        size_t i = 0;
        assert_int_equal(pd_fmt(root, sizeof root, "%s/root%d", top, how), 0);
        assert_int_equal(pd_fmt(target, sizeof target, "%s/tree", root), 0);
        assert_int_equal(pd_mkdirs(root, 0755, &err), 0);
        rt_grow(&t, 60);
        assert_int_equal(rt_pack(&t, &err), 0);
        if (deploy(&t, root, target, 0, NULL, &err))
            fail_msg("%s", err.msg);
        assert_null(rt_differs(&t, target));
        while (t.v[i].type != MANIFEST_FILE || !t.v[i].size || !(t.v[i].mode & 0200))
            assert_true(++i < t.n);
        assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", target, t.v[i].path), 0);
        edit(path, how);
        if (!rt_differs(&t, target))
            fail_msg("difference %d of %s was not found", how, path);
        rt_release(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assert_contains_can_fail),
        cmocka_unit_test(bounds_can_fail),
        cmocka_unit_test(rt_differs_finds_each_difference),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
