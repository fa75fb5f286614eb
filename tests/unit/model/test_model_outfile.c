/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_outfile.c - every way of writing, and every writing process, gives the same bytes. */
#include <setjmp.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "math/hash.h"
#include "model/outfile.h"

static char dir[] = "/tmp/test-outfile-XXXXXX", path[64];

static void fill(uint8_t *p, uint64_t at, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(pd_mix64((at + i) / 8) >> (at + i) % 8 * 8);
}

/* Writes from o->written to `end`. */
static int write_on(struct outfile *o, uint64_t end, struct pd_err *err) {
    int rc = 0;
    while (!rc && o->written < end) {
        const size_t n =
            end - o->written < OUTFILE_BUFFER ? (size_t)(end - o->written) : OUTFILE_BUFFER;
        fill(outfile_room(o), o->written, n);
        rc = outfile_write(o, n, err);
    }
    return rc;
}

static void expect_file(const char *name, uint64_t n) {
    struct pd_buf got;
    struct pd_err err = {0};
    uint8_t *want = malloc(n ? n : 1);
    pd_buf_init(&got);
    if (pd_read_file(path, 64 << 20, &got, &err))
        fail_msg("%s: %s", name, err.msg);
    fill(want, 0, n);
    if (got.len != n || memcmp(got.data, want, n))
        fail_msg("%s: %zu bytes, not the %llu that were written", name, got.len,
                 (unsigned long long)n);
    pd_buf_release(&got);
    free(want);
}

static const struct {
    const char *name, *fault;
} ways[] = {{"as the system lets us", NULL},
            {"cached", "outfile.cached:1"},
            {"direct", "outfile.direct:1"}};

static void test_the_same_bytes_every_way(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0,
                                     1,
                                     OUTFILE_BUFFER - 1,
                                     OUTFILE_BUFFER,
                                     4 * OUTFILE_BUFFER,
                                     4 * OUTFILE_BUFFER + 64,
                                     7 * OUTFILE_BUFFER - 4096,
                                     11 * OUTFILE_BUFFER + 4097};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct outfile o;
            struct pd_err err = {0};
            pd_fault_arm(ways[w].fault);
            assert_int_equal(outfile_open(&o, path, &err), 0);
            o.total = sizes[i];
            if (write_on(&o, sizes[i], &err) || outfile_sync(&o, &err))
                fail_msg("%s: %s", ways[w].name, err.msg);
            assert_int_equal(o.fd, -1);
            outfile_release(&o);
            pd_fault_arm(NULL);
            expect_file(ways[w].name, sizes[i]);
        }
}

static void test_a_child_goes_on(void **state) {
    (void)state;
    enum { FIRST = 6 * OUTFILE_BUFFER, ALL = 12 * OUTFILE_BUFFER + 100 };
    for (int begun = 0; begun < 2; begun++) {
        struct outfile o;
        struct pd_err err = {0};
        int status = 0;
        assert_int_equal(outfile_open(&o, path, &err), 0);
        o.total = ALL;
        assert_int_equal(begun ? write_on(&o, FIRST, &err) : 0, 0);
        assert_int_equal(outfile_settle(&o, &err), 0);
        pid_t pid = fork();
        if (!pid)
            _exit(write_on(&o, ALL, &err) || outfile_sync(&o, &err) ? 1 : 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        outfile_release(&o);
        expect_file(begun ? "in the middle" : "from the beginning", ALL);
    }
}

static void test_what_goes_wrong_is_said(void **state) {
    (void)state;
    struct outfile o;
    for (int n = 1; n < 3; n++) {
        struct pd_err err = {0};
        char spec[20];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        assert_int_equal(outfile_open(&o, path, &err), PD_ENOMEM);
        pd_fault_arm(NULL);
    }
    struct pd_err err = {0};
    assert_int_equal(outfile_open(&o, "/tmp/no-such-folder/x/y", &err), PD_EIO);
    assert_non_null(strstr(err.msg, "cannot create /tmp/no-such-folder/x/y"));
    for (int n = 1; n < 7; n++) { /* at each piece, while another is being written */
        char spec[40];
        pd_err_clear(&err);
        snprintf(spec, sizeof spec, "model.write:%d", n);
        assert_int_equal(outfile_open(&o, path, &err), 0);
        o.total = 6 * OUTFILE_BUFFER;
        pd_fault_arm(spec);
        assert_true(write_on(&o, o.total, &err) < 0);
        pd_fault_arm(NULL);
        assert_non_null(strstr(err.msg, "cannot write"));
        outfile_release(&o);
    }
    outfile_release(&o); /* a second call has no effect */
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_bytes_every_way),
        cmocka_unit_test(test_a_child_goes_on),
        cmocka_unit_test(test_what_goes_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
