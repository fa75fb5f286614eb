/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_view.c - the thread that writes the output, the format of log lines, and the merging
 * of outputs. */
#include <setjmp.h>
#include <cmocka.h>
#include <locale.h>

#include "launcher/dispatch/package.h"
#include "launcher/view/progress.h"
#include "launcher/view/repeat.h"
#include "launcher/view/show.h"
#include "launcher/view/show_text.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"

static void check_lines(int fd, const char *want) {
    char got[1000] = "";
    assert_true(read(fd, got, sizeof got - 1) > 0);
    assert_string_equal(got, want);
}

/* Lines go through the writer's thread into a pipe. A full pipe without a reader must not block the
 * caller. */
static void test_output(void **state) {
    (void)state;
    int fd[2];
    struct view *v;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
    view_put(v, "h/trainer | one\n", 16);
    view_printf(v, "%d nodes", 3);
    view_live(v, "not a terminal", 14);
    view_free(v, 5000);
    check_lines(fd[0], "h/trainer | one\npaddlectl | 3 nodes\n");
    assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
    static char big[300000];
    memset(big, 'x', sizeof big);
    view_put(v, big, sizeof big);
    assert_true(view_backlog(v) >= sizeof big);
    view_free(v, 50); /* returns; the thread continues until the bytes are read */
    for (size_t n = 0, k; n < sizeof big; n += k) {
        static char sink[65536];
        k = (size_t)read(fd[0], sink, sizeof sink);
        assert_true(k > 0 && k <= sizeof sink);
    }
    close(fd[0]);
    close(fd[1]);
}

/* The reader is gone: the writer does not wait for room. */
static void on_room(void *arg) { ++*(int *)arg; }
static void test_broken_output(void **state) {
    (void)state;
    int fd[2], rooms = 0;
    struct view *v;
    assert_int_equal(pipe(fd), 0);
    close(fd[0]);
    assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
    view_on_room(v, on_room, &rooms);
    view_put(v, "x\n", 2);
    for (int i = 0; i < 1000 && !view_is_broken(v); i++)
        usleep(10000);
    assert_true(view_is_broken(v));
    view_put(v, "x\n", 2);
    assert_int_equal(view_backlog(v), 0);
    view_free(v, 5000);
    assert_int_equal(rooms, 1);
    close(fd[1]);
}

/* --- the format of lines --- */

static const struct show_source sources[] = {
    {0, "gpu-01", "trainer", "train.log"},
    {1, "gpu-02", "trainer", "train.log"},
    {2, "gpu-03", "trainer", "train.log"},
    {2, "gpu-03", "pserver", "server.log"},
};

struct said {
    unsigned source;
    uint64_t us;
    const char *text;
};

static const struct {
    const char *name;
    struct show_opts o;
    struct said said[8];
    const char *want;
} looks[] = {
    {"plain",
     {0},
     {{0, 1, "a"}, {3, 2, "\xc3\xa4\xff\033[2Jb"}},
     "gpu-01/trainer | a\ngpu-03/pserver | \xc3\xa4\xff\033[2Jb\n"},
    {"grep",
     {.grep = "^a+$|x"},
     {{0, 1, "aa"}, {0, 2, "ab"}, {1, 3, "a x b"}},
     "gpu-01/trainer | aa\ngpu-02/trainer | a x b\n"},
    {"since and until",
     {.since_us = 5, .until_us = 7},
     {{0, 4, "a"}, {0, 5, "b"}, {0, 7, "c"}, {0, 8, "d"}},
     "gpu-01/trainer | b\ngpu-01/trainer | c\n"},
    {"timestamps",
     {.timestamps = 1},
     {{0, 1, "a"}, {0, 1000002, "b"}, {0, 1700000000123456, "c"}},
     "1970-01-01T05:30:00.000001+05:30 gpu-01/trainer | a\n1970-01-01T05:30:01.000002+05:30 "
     "gpu-01/trainer | b\n"
     "2023-11-15T03:43:20.123456+05:30 gpu-01/trainer | c\n"},
    {"json",
     {.json = 1},
     {{2, 1700000000123456, "\xc3\xa4\xff\"\\\t\033b"}, {3, 1, ""}},
     "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"node\":2,\"host\":\"gpu-03\",\"role\":"
     "\"trainer\",\"stream\":\"train.log\","
     "\"offset\":7,\"text\":\"\xc3\xa4\xef\xbf\xbd\\\"\\\\\\u0009\\u001bb\"}\n"
     "{\"time\":\"1970-01-01T00:00:00.000001Z\",\"node\":2,\"host\":\"gpu-03\",\"role\":"
     "\"pserver\",\"stream\":\"server.log\","
     "\"offset\":7,\"text\":\"\"}\n"},
    {"fold",
     {.fold = 1},
     {{0, 1, "a"}, {1, 2, "b"}, {1, 3, "a"}, {2, 4, "a"}, {3, 5, "a"}, {0, 6, "a"}, {2, 7, "c"}},
     "gpu-[01-03]/trainer | a\ngpu-02/trainer | b\ngpu-03/pserver | a\ngpu-01/trainer | "
     "a\ngpu-03/trainer | c\n"},
    {"the nodes of a failed job stop",
     {0},
     {{0, 1, "--- stopping: trainer 2 on gpu-03 failed ---"},
      {3, 2, "--- stopping: trainer 2 on gpu-03 failed ---"},
      {1, 3, "b"},
      {2, 4, "--- stopping: trainer 2 on gpu-03 failed ---"}},
     "gpu-02/trainer | b\ngpu-[01,03] | --- stopping: trainer 2 on gpu-03 failed ---\n"},
    {"fold within half a second",
     {.fold = 1},
     {{0, 1, "a"}, {1, 400000, "a"}, {2, 600002, "a"}},
     "gpu-[01-02]/trainer | a\ngpu-03/trainer | a\n"},
    {"fold, said again and again",
     {.fold = 1},
     {{0, 1, "a"}, {0, 2, "a"}, {1, 3, "a"}, {0, 4, "a"}, {1, 5, "a"}, {2, 6, "a"}},
     "gpu-[01-03]/trainer | a\ngpu-[01-02]/trainer | a\ngpu-01/trainer | a\n"},
    {"a worker's prefix stays in a pipe",
     {0},
     {{0, 1, "W1124 18:39:15.123456  4711 shard.c:12] a"}},
     "gpu-01/trainer | W1124 18:39:15.123456  4711 shard.c:12] a\n"},
    {"fold: a worker's prefix is left out; levels stay apart",
     {.fold = 1},
     {{0, 1, "I1124 18:39:15.123456  4711 shard.c:12] a"},
      {1, 2, "I1124 18:39:15.223456 14712 shard.c:12] a"},
      {2, 3, "W1124 18:39:15.223456 14712 shard.c:12] a"},
      {0, 4, "I1124 18:39:15.12345  4711 shard.c:12] a"},
      {0, 5, "I1124 18:39:15.123456  4711 a name.c:1] a"}},
     "gpu-[01-02]/trainer | a\ngpu-03/trainer | a\n"
     "gpu-01/trainer | I1124 18:39:15.12345  4711 shard.c:12] a\n"
     "gpu-01/trainer | I1124 18:39:15.123456  4711 a name.c:1] a\n"},
    {"fold and verbose",
     {.fold = 1, .verbose = 1},
     {{0, 1, "I1124 18:39:15.123456  4711 shard.c:12] a"}},
     "gpu-01/trainer | I1124 18:39:15.123456  4711 shard.c:12] a\n"},
    {"tail",
     {.tail = 2},
     {{0, 1, "a"}, {1, 2, "b"}, {2, 3, "c"}},
     "gpu-02/trainer | b\ngpu-03/trainer | c\n"},
    {"tail of what matches",
     {.tail = 2, .grep = "x"},
     {{0, 1, "x1"}, {0, 2, "x2"}, {0, 3, "x3"}, {0, 4, "y"}},
     "gpu-01/trainer | x2\ngpu-01/trainer | x3\n"},
    {"tail, folded",
     {.tail = 3, .fold = 1},
     {{0, 1, "a"}, {1, 2, "a"}, {2, 3, "a"}, {0, 4, "b"}},
     "gpu-[02-03]/trainer | a\ngpu-01/trainer | b\n"},
};

static void test_looks(void **state) {
    (void)state;
    setenv("TZ", "XXX-5:30", 1);
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        int fd[2];
        struct view *v;
        struct show *s;
        struct show_opts o = looks[i].o;
        char got[2000];
        o.sources = sources;
        o.n_sources = sizeof sources / sizeof sources[0];
        assert_int_equal(pipe(fd), 0);
        assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
        assert_int_equal(show_new(&s, v, &o, NULL), 0);
        for (const struct said *w = looks[i].said; w->text; w++) {
            const struct merge_line l = {.source = w->source,
                                         .time_us = w->us,
                                         .offset = 7,
                                         .text = w->text,
                                         .n = strlen(w->text)};
            assert_int_equal(show_line(s, &l, 0), 0);
        }
        show_history_over(s, 0);
        show_flush(s, 1, 0);
        show_free(s);
        view_free(v, 5000);
        close(fd[1]);
        size_t n = 0;
        for (ssize_t k; (k = read(fd[0], got + n, sizeof got - 1 - n)) > 0; n += (size_t)k)
            ;
        close(fd[0]);
        got[n] = 0;
        if (strcmp(got, looks[i].want))
            fail_msg("%s:\n%s--- not\n%s", looks[i].name, got, looks[i].want);
    }
}

/* Each of two times 100,000 lines is shown, half of them as a repeat of the other source's line.
 * This must take a second, not minutes. */
static uint64_t n_said;
static void count_said(void *arg, const struct repeat_line *l) {
    (void)arg;
    n_said += l->n_sources;
}

static void test_fold_of_many_equal_lines(void **state) {
    (void)state;
    enum { LINES = 100000 };
    struct repeat *r = repeat_new(count_said, NULL);
    assert_non_null(r);
    for (unsigned who = 0; who < 2; who++)
        for (unsigned i = 0; i < LINES; i++) {
            const struct repeat_line l = {.sources = &who,
                                          .n_sources = 1,
                                          .time_us = 1,
                                          .source = who,
                                          .text = i % 2 ? "warning" : "x",
                                          .n = i % 2 ? 7 : 1};
            assert_int_equal(repeat_add(r, &l, 0), 0);
        }
    repeat_flush(r, 1, 0);
    repeat_free(r);
    assert_int_equal(n_said, 2 * LINES);
}

/* 5,000 pservers start within four seconds: one line. */
static void test_fold_of_starts(void **state) {
    (void)state;
    enum { HOSTS = 5000 };
    static const char text[] = "pserver listens, ports (dense; sparse): 7164; 7165";
    static struct show_source of[HOSTS];
    static char name[HOSTS][12], got[2000];
    struct show_opts o = {.sources = of, .n_sources = HOSTS, .fold = 1};
    struct show *s;
    struct view *v;
    int fd[2];
    for (unsigned i = 0; i < HOSTS; i++) {
        snprintf(name[i], sizeof name[i], "gpu-%04u", i);
        of[i] = (struct show_source){i, name[i], "pserver", "server.log"};
    }
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
    assert_int_equal(show_new(&s, v, &o, NULL), 0);
    show_starting(s, 1, 0);
    for (unsigned i = 0; i < HOSTS; i++) {
        const struct merge_line l = {
            .source = i, .time_us = 800 * i, .text = text, .n = sizeof text - 1};
        assert_int_equal(show_line(s, &l, i * 4 / 5), 0);
        show_flush(s, 0, i * 4 / 5);
    }
    show_starting(s, 0, 4000);
    show_free(s);
    view_free(v, 5000);
    close(fd[1]);
    assert_true(read(fd[0], got, sizeof got - 1) > 0);
    close(fd[0]);
    assert_string_equal(got, "gpu-[0000-4999]/pserver | pserver listens, ports (dense; sparse): "
                             "7164; 7165\n");
}

static void test_bad_grep(void **state) {
    (void)state;
    int fd[2];
    struct view *v;
    struct show *s;
    struct pd_err err = {0};
    const struct show_opts o = {.grep = "a[b"};
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(view_new(&v, fd[1], VIEW_COLOUR_AUTO, NULL), 0);
    assert_int_equal(show_new(&s, v, &o, &err), PD_EUSAGE);
    assert_non_null(strstr(err.msg, "a[b"));
    view_free(v, 0);
    close(fd[0]);
    close(fd[1]);
}

/* --- tables and progress --- */

static void test_widths(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t columns, fit5; /* bytes that fit into five columns */
    } v[] = {
        {"", 0, 0},
        {"abc", 3, 3},
        {"abcdefg", 7, 5},
        {"\xe8\xae\xad\xe7\xbb\x83\xe4\xb8\xad", 6, 6}, /* three wide characters */
        {"e\xcc\x81xxxx", 5, 7},                        /* a combining accent */
        {"\xff\xc3z", 3, 3},                            /* no UTF-8 */
        {"\033[1;31mabcdef\033[m", 6, 12},
    };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        assert_int_equal(term_columns(v[i].text, strlen(v[i].text)), v[i].columns);
        assert_int_equal(term_fit(v[i].text, strlen(v[i].text), 5), v[i].fit5);
    }
}

/* Found by fuzz_view: a terminal answers some of these as if the user had typed. */
static void test_only_colours_reach_a_terminal(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"a\033[1;38:5:3mb\n", "a\033[1;38:5:3mb\n\033[m"},
        {"a\033[?4mb", "ab"},
        {"a\033[>4;2mb", "ab"},
        {"a\033[1;<mb", "ab"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_buf b = {0};
        show_put_text(&b, rows[i][0], strlen(rows[i][0]), SHOW_PLAIN, 1);
        pd_put_u8(&b, 0);
        assert_string_equal((char *)b.data, rows[i][1]);
        pd_buf_release(&b);
    }
}

static void test_table(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        {"NAME", "N", "NOTE", "EMPTY"}, {"\xe7\xbb\x83\xc3\xa4", "1000", "x"}, {"long", "7", NULL}};
    struct table t;
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    table_init(&t, 4, ".r");
    for (size_t i = 0; i < 3; i++)
        table_row(&t, rows[i]);
    table_print(&t, f);
    table_release(&t);
    fclose(f);
    assert_string_equal(text, "NAME     N  NOTE\n\xe7\xbb\x83\xc3\xa4   1000  x\nlong     7\n");
    free(text);
    char b[16];
    table_bytes(b, sizeof b, 812 * 1024.0);
    assert_string_equal(b, "812K");
    table_bytes(b, sizeof b, 1.25 * 1024 * 1024 * 1024);
    assert_string_equal(b, "1.2G");
}

static const struct {
    const char *event, *want; /* NULL: not a progress event */
} events[] = {
    {"{\"ev\":\"progress\",\"pass\":0,\"num_passes\":2,\"batch\":7,\"cost\":1.5,\"rate\":1000}",
     "pass 1/2, batch 7, cost 1.5, 1000 samples/s"},
    {"{\"ev\":\"progress\",\"pass\":3,\"batch\":8,\"fraction\":0.999,\"unit\":\"words\",\"rate\":5,"
     "\"metrics\":{\"perplexity\":61.5}}",
     "pass 4 99 %, batch 8, perplexity 61.5, 5 words/s"},
    {"{\"ev\":\"progress\",\"pass\":\"x\",\"batch\":-5,\"rate\":null,\"unit\":\"\\u001b[2J\","
     "\"metrics\":[1]}",
     "pass 1, batch 0"},
    {"{\"ev\":\"other\"}", NULL},
    {"[1]", NULL},
    {"7", NULL},
};

/* After a test the line has its values, not those of the test before. */
static void test_progress_after_a_test(void **state) {
    (void)state;
    struct progress p;
    char text[200];
    json_t *e = json_loads("{\"ev\":\"progress\",\"num_passes\":2,\"metrics\":{\"perplexity\":3,"
                           "\"test.auc\":0.5}}",
                           0, NULL),
           *t = json_loads("{\"ev\":\"test\",\"metrics\":{\"perplexity\":2,\"test.auc\":0.75,"
                           "\"test.mae\":1}}",
                           0, NULL);
    assert_int_equal(progress_parse(&p, e), 0);
    assert_int_equal(progress_take_test(&p, e), -1);
    assert_int_equal(progress_take_test(&p, t), 0);
    progress_text(&p, text, sizeof text);
    assert_string_equal(text, "pass 1/2, batch 0, perplexity 3, test.auc 0.75, test.mae 1");
    json_decref(e);
    json_decref(t);
}

static void test_progress(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        struct progress p;
        char text[200];
        json_t *e = json_loads(events[i].event, JSON_DECODE_ANY, NULL);
        int rc = progress_parse(&p, e);
        assert_int_equal(rc, events[i].want ? 0 : -1);
        if (!rc) {
            progress_text(&p, text, sizeof text);
            assert_string_equal(text, events[i].want);
            progress_text(&p, text, 5); /* truncated, without an overrun */
        }
        json_decref(e);
    }
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
    char dir[] = "/tmp/test-merge-XXXXXX", aside[200], target[200], placed[200];
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
    snprintf(placed, sizeof placed, "%s/out/JOB1", dir);
    snprintf(target, sizeof target, "%s/all", dir);
    assert_int_equal(package_merge(aside, 3, target, placed, &renamed, &err), 0);
    check(target, "pass-0/part-0", "zero");
    check(target, "pass-0/part-2", "two");
    check(target, "same", "same");
    check(target, "log.txt", "from 0");
    check(target, "log.txt.node-2", "from 2");
    assert_int_equal(renamed, 1);
    /* Later node 0 is missing: its file stays, and node 2's own files are replaced. */
    assert_int_equal(pd_mkdirs(placed, 0755, &err), 0);
    assert_int_equal(package_overlay(target, placed, &err), 0);
    assert_int_equal(pd_rm_tree(target, NULL), 0);
    put(aside, "node-2/pass-0/part-2", "two, newer");
    put(aside, "node-2/same", "newer");
    put(aside, "node-2/log.txt", "newer from 2");
    assert_int_equal(package_merge(aside, 3, target, placed, &renamed, &err), 0);
    assert_int_equal(renamed, 1);
    assert_int_equal(package_overlay(target, placed, &err), 0);
    check(placed, "pass-0/part-0", "zero");
    check(placed, "pass-0/part-2", "two, newer");
    check(placed, "same", "newer");
    check(placed, "log.txt", "from 0");
    check(placed, "log.txt.node-2", "newer from 2");
    pd_rm_tree(dir, NULL);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* like paddlectl */
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_broken_output),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_fold_of_starts),
        cmocka_unit_test(test_bad_grep),
        cmocka_unit_test(test_fold_of_many_equal_lines),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_only_colours_reach_a_terminal),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_after_a_test),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
