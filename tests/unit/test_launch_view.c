/* test_launch_view.c - bytes into whole lines: torn reads, \r, repeats, gaps; and the merging of outputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "launcher/cluster/package.h"
#include "launcher/view/view.h"

static void collect(void *arg, const char *text, size_t n) {
    struct pd_buf *b = arg;
    pd_put(b, text, n);
    pd_put_u8(b, '|');
}

static const struct {
    const char *name, *in, *want;
} lines[] = {
    {"lines", "a\nbc\n", "a|bc|"},
    {"no newline at the end", "a\nbc", "a|bc|"},
    {"empty lines", "\n\na\n", "||a|"},
    {"crlf", "a\r\nb\r\n", "a|b|"},
    {"the last version of a progress bar", "10%\r50%\r100%\ndone\n", "100%|done|"},
    {"cr cr lf", "a\r\r\n", "a|"},
    {"utf-8", "h\xc3\xa4\xe2\x82\xac\n", "h\xc3\xa4\xe2\x82\xac|"},
};

/* Cut into every two and into single bytes: the lines are the same. */
static void test_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t n = strlen(lines[i].in);
        for (size_t cut = 0; cut <= n + 1; cut++) {
            struct view_stream s = {0};
            struct pd_buf got;
            pd_buf_init(&got);
            const uint8_t *p = (const uint8_t *)lines[i].in;
            if (cut <= n) {
                view_stream_feed(&s, 0, p, cut, collect, &got);
                view_stream_feed(&s, cut, p + cut, n - cut, collect, &got);
            } else {
                for (size_t k = 0; k < n; k++)
                    view_stream_feed(&s, k, p + k, 1, collect, &got);
            }
            view_stream_end(&s, collect, &got);
            pd_put_u8(&got, 0);
            if (strcmp((char *)got.data, lines[i].want))
                fail_msg("%s, cut at %zu: '%s'", lines[i].name, cut, (char *)got.data);
            pd_buf_release(&got);
            view_stream_release(&s);
        }
    }
}

static void test_offsets(void **state) {
    (void)state;
    struct view_stream s = {0};
    struct pd_buf got;
    pd_buf_init(&got);
    assert_int_equal(view_stream_feed(&s, 0, (const uint8_t *)"abc\nde", 6, collect, &got), 0);
    assert_int_equal(view_stream_feed(&s, 0, (const uint8_t *)"abc\nde", 6, collect, &got), 0); /* a repeat */
    assert_int_equal(view_stream_feed(&s, 4, (const uint8_t *)"def\n", 4, collect, &got), 0);   /* half of one */
    assert_int_equal(view_stream_feed(&s, 20, (const uint8_t *)"x\n", 2, collect, &got), PD_EDATA);
    pd_put_u8(&got, 0);
    assert_string_equal((char *)got.data, "abc|def|[12 bytes are missing here]|x|");
    pd_buf_release(&got);
    view_stream_release(&s);
}

static void test_long_line(void **state) {
    (void)state;
    size_t n = 3 << 20;
    uint8_t *p = malloc(n);
    struct view_stream s = {0};
    struct pd_buf got;
    pd_buf_init(&got);
    memset(p, 'x', n);
    p[n - 1] = '\n';
    for (size_t at = 0; at < n; at += 65536)
        view_stream_feed(&s, at, p + at, n - at < 65536 ? n - at : 65536, collect, &got);
    assert_int_equal(got.len, n);
    pd_buf_release(&got);
    view_stream_release(&s);
    free(p);
}

/* Lines through the writer's thread into a pipe; and an output that nobody reads does not hold anybody up. */
static void test_output(void **state) {
    (void)state;
    int fd[2];
    char got[400] = "";
    struct view *v;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(view_new(&v, fd[1], NULL), 0);
    view_line(v, "h/trainer", "one", 3);
    view_say(v, "%d nodes", 3);
    view_event(v, "{\"ev\":\"progress\",\"pass\":0,\"num_passes\":2,\"batch\":7,\"cost\":1.5,\"rate\":1000}", 74, 1);
    view_event(v, "{\"ev\":\"progress\",\"pass\":0,\"num_passes\":2,\"batch\":8}", 51, 2); /* too soon for a pipe */
    view_event(v, "not json", 8, 3);
    view_free(v, 5000);
    assert_true(read(fd[0], got, sizeof got - 1) > 0);
    assert_string_equal(got, "h/trainer | one\npaddlectl | 3 nodes\nprogress | pass 1/2, batch 7, cost 1.5, 1000 samples/s\n");
    assert_int_equal(view_new(&v, fd[1], NULL), 0);
    static char big[300000];
    memset(big, 'x', sizeof big);
    view_line(v, "h", big, sizeof big);
    view_free(v, 50); /* comes back; the thread goes on until the bytes are read */
    for (size_t n = 0, k; n < sizeof big + 5; n += k) {
        static char sink[65536];
        k = (size_t)read(fd[0], sink, sizeof sink);
        assert_true(k > 0 && k <= sizeof sink);
    }
    close(fd[0]);
    close(fd[1]);
}

static void put(const char *dir, const char *name, const char *text) {
    char path[300], folder[300];
    pd_fmt(path, sizeof path, "%s/%s", dir, name);
    pd_fmt(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(pd_mkdirs(folder, 0755, NULL), 0);
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void check(const char *dir, const char *name, const char *text) {
    char path[300];
    struct pd_buf b;
    pd_buf_init(&b);
    pd_fmt(path, sizeof path, "%s/%s", dir, name);
    if (pd_read_file(path, 1000, &b, NULL) || strcmp((char *)b.data, text))
        fail_msg("%s is not '%s'", name, text);
    pd_buf_release(&b);
}

static void test_merge(void **state) {
    (void)state;
    char dir[] = "/tmp/test-merge-XXXXXX", aside[200], target[200];
    int renamed = -1;
    struct pd_err err = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(aside, sizeof aside, "%s/aside", dir);
    snprintf(target, sizeof target, "%s/out/JOB1", dir);
    put(aside, "node-0/pass-0/part-0", "zero");
    put(aside, "node-0/same", "same");
    put(aside, "node-0/log.txt", "from 0");
    put(aside, "node-2/pass-0/part-2", "two");
    put(aside, "node-2/same", "same");
    put(aside, "node-2/log.txt", "from 2");
    assert_int_equal(package_merge(aside, 3, target, &renamed, &err), 0);
    check(target, "pass-0/part-0", "zero");
    check(target, "pass-0/part-2", "two");
    check(target, "same", "same");
    check(target, "log.txt", "from 0");
    check(target, "log.txt.node-2", "from 2");
    assert_int_equal(renamed, 1);
    pd_rm_tree(dir, NULL);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as paddlectl does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),  cmocka_unit_test(test_offsets), cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_output), cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
