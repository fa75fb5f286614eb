/* SPDX-License-Identifier: Apache-2.0 */
/* test_train_watch.c - new folders of data: their order, when a folder is complete, and its files.
 */
#include <setjmp.h>

#include <cmocka.h>

#include "train/input/folder_watch.h"

static char dir[] = "/tmp/test-watch-XXXXXX";

static const char *at(const char *name) {
    static char path[4][300];
    static int k;
    snprintf(path[k = (k + 1) % 4], sizeof path[0], "%s/%s", dir, name);
    return path[k];
}

/* Creates a file and the folders above it. */
static void put(const char *name, const char *text) {
    char folder[300];
    snprintf(folder, sizeof folder, "%s", at(name));
    *strrchr(folder, '/') = 0;
    assert_int_equal(pd_mkdirs(folder, 0755, NULL), 0);
    assert_int_equal(pd_write_file_atomic(at(name), text, strlen(text), 0644, NULL), 0);
}

static struct train_folder_watch *watch(const char *pattern, const char *done_file, double quiet) {
    const struct train_folder_watch_opts o = {
        .dir = dir, .pattern = pattern, .done_file = done_file, .quiet = quiet};
    struct train_folder_watch *w = NULL;
    struct pd_err err = {0};
    if (train_folder_watch_new(&w, &o, &err))
        fail_msg("%s: %s", pattern, err.msg);
    return w;
}

static void expect_next(struct train_folder_watch *w, const char *last, int rc, const char *key) {
    char got[WATCH_KEY_MAX + 1] = "";
    struct pd_err err = {0};
    assert_int_equal(train_folder_watch_next(w, last, got, &err), rc);
    assert_string_equal(rc == PD_ENOENT ? "" : got, key);
    assert_int_equal(err.code, 0);
}

static void a_pattern_has_a_day_and_a_minute(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "part-*",           "0105/part-*", "/0105/part-*", "20261122/0105/",
        "20261122//part-*", "a/b/c d/b/c", "a/b/c,d/b/c",  ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct train_folder_watch_opts o = {.dir = dir, .pattern = wrong[i], .done_file = ""};
        struct train_folder_watch *w = NULL;
        struct pd_err err = {0};
        if (train_folder_watch_new(&w, &o, &err) != PD_ECONF ||
            !strstr(err.msg, "job = online takes one pattern"))
            fail_msg("'%s': %d %s", wrong[i], err.code, err.msg);
    }
    char longer[5000], day[WATCH_KEY_MAX + 1];
    memset(longer, 'x', sizeof longer);
    memcpy(longer + sizeof longer - 10, "/a/b/c", 7);
    struct train_folder_watch *w = NULL;
    struct pd_err err = {0};
    assert_int_equal(
        train_folder_watch_new(
            &w, &(struct train_folder_watch_opts){.dir = dir, .pattern = longer, .done_file = ""},
            &err),
        PD_ECONF);
    pd_fault_arm("alloc:1");
    assert_int_equal(
        train_folder_watch_new(
            &w, &(struct train_folder_watch_opts){.dir = dir, .pattern = "a/b/c", .done_file = ""},
            &err),
        PD_ENOMEM);
    pd_fault_arm(NULL);
    train_folder_watch_day("20261122/0105", day);
    assert_string_equal(day, "20261122");
    train_folder_watch_free(NULL);
}

static void folders_come_in_the_order_of_their_names(void **state) {
    (void)state;
    struct train_folder_watch *w = watch("order/20?????[0-9]/???[0-9]/part-*", "_DONE", 0);
    expect_next(w, "", PD_ENOENT, "");
    static const char *const made[] = {
        "order/20261122/0105/_DONE", "order/20261121/2355/_DONE",
        "order/20261122/0100/_DONE", "order/20261122/01000/_DONE" /* does not match the pattern */,
        "order/2026112/0100/_DONE",  "order/20261130/note"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        put(made[i], "");
    put("order/20261123/0000", "a file, not a folder");
    expect_next(w, "", 1, "20261121/2355");
    expect_next(w, "20261121/2355", 1, "20261122/0100");
    expect_next(w, "20261122/0100", 1, "20261122/0105");
    expect_next(w, "20261122/0102", 1,
                "20261122/0105"); /* a folder that was processed and then removed */
    expect_next(w, "20261122/0105", PD_ENOENT, "");
    put("order/20261121/0000/_DONE", ""); /* too late: it is skipped */
    expect_next(w, "20261122/0105", PD_ENOENT, "");
    put("order/20261201/0000/part-0", "not complete");
    expect_next(w, "20261122/0105", 0, "20261201/0000");
    put("order/20261202/0000/_DONE", ""); /* the watch waits for the folder before it */
    expect_next(w, "20261122/0105", 0, "20261201/0000");
    put("order/20261201/0000/_DONE", "");
    expect_next(w, "20261122/0105", 1, "20261201/0000");
    struct pd_err err = {0};
    assert_int_equal(train_folder_watch_complete(w, "20261202/0000", &err), 1);
    assert_int_equal(train_folder_watch_complete(w, "20261203/0000", &err), PD_ENOENT);
    assert_int_equal(err.code, 0);
    train_folder_watch_free(w);
}

static void expect_files(struct train_folder_watch *w, const char *key, const char *want) {
    struct data_files f = {0};
    struct pd_err err = {0};
    char all[2000] = "";
    if (train_folder_watch_files(w, key, &f, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < f.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", f.path[i]);
    assert_string_equal(all, want);
    data_files_release(&f);
}

static void a_folder_has_its_files(void **state) {
    (void)state;
    char pattern[300], want[700];
    static const char *const made[] = {"files/1/2/part-10",    "files/1/2/part-9",
                                       "files/1/2/_DONE",      "files/1/2/other",
                                       "files/1/2/part-dir/x", "files/1/3/_DONE"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        put(made[i], "x");
    struct train_folder_watch *w = watch("files/*/*/part-*", "_DONE", 0);
    expect_files(w, "1/2", "files/1/2/part-10 files/1/2/part-9");
    expect_files(w, "1/3", "");
    struct data_files f = {0};
    struct pd_err err = {0};
    assert_int_equal(train_folder_watch_files(w, "1/4", &f, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "folder 1/4 of"));
    train_folder_watch_free(w);
    /* The done-file matches the pattern, but is not a data file. */
    w = watch("files/*/*/*", "_DONE", 0);
    expect_files(w, "1/2", "files/1/2/other files/1/2/part-10 files/1/2/part-9");
    train_folder_watch_free(w);
    snprintf(pattern, sizeof pattern, "%s/files/*/*/part-*",
             dir); /* an absolute pattern gives absolute paths */
    snprintf(want, sizeof want, "%s/files/1/2/part-10 %s/files/1/2/part-9", dir, dir);
    w = watch(pattern, "_DONE", 0);
    expect_files(w, "1/2", want);
    train_folder_watch_free(w);
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* A look that sees a change restarts the wait and returns 0, on slow machines, too. After a longer
 * pause without a change it returns 1. */
static void without_a_done_file_nothing_may_change_for_a_while(void **state) {
    (void)state;
    enum { QUIET_MS = 100, PAUSE_MS = 150 };
    struct train_folder_watch *w = watch("quiet/*/*/part-*", "", QUIET_MS * 1e-3);
    put("quiet/1/1/part-0", "a");
    expect_next(w, "", 0, "1/1");
    pause_ms(PAUSE_MS);
    expect_next(w, "", 1, "1/1");
    const struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};
    for (int change = 0; change < 6; change++) {
        int fd;
        switch (change) {
        case 0:
            put("quiet/1/1/part-1", "b");
            break;
        case 1:
            put("quiet/1/1/part-1", "longer");
            break;
        case 2:
            assert_int_equal(rename(at("quiet/1/1/part-1"), at("quiet/1/1/part-2")), 0);
            break;
        case 3:
            assert_int_equal(utimensat(AT_FDCWD, at("quiet/1/1/part-2"), then, 0), 0);
            break;
        case 4:
            assert_int_equal(unlink(at("quiet/1/1/part-2")), 0);
            break;
        default:
            fd = open(at("quiet/1/1/part-0"), O_WRONLY | O_APPEND);
            assert_int_equal(write(fd, "more", 4), 4);
            close(fd);
        }
        expect_next(w, "", 0, "1/1");
        put("quiet/1/1/note", "is no file of the data");
        pause_ms(PAUSE_MS);
        expect_next(w, "", 1, "1/1");
    }
    put("quiet/1/2/part-0", "a"); /* each folder has its own wait */
    expect_next(w, "1/1", 0, "1/2");
    pause_ms(PAUSE_MS);
    expect_next(w, "1/1", 1, "1/2");
    train_folder_watch_free(w);
    w = watch("quiet/*/*/part-*", "", 1e6);
    expect_next(w, "", 0, "1/1");
    expect_next(w, "", 0, "1/1");
    train_folder_watch_free(w);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_has_a_day_and_a_minute),
        cmocka_unit_test(folders_come_in_the_order_of_their_names),
        cmocka_unit_test(a_folder_has_its_files),
        cmocka_unit_test(without_a_done_file_nothing_may_change_for_a_while),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
