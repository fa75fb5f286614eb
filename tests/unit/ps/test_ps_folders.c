/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_folders.c - a trainer names folders and files of a server's machine. The server reads and
 * writes only below the job's folders, and only regular files. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/ps_frames.h"

static char home[64], secret[128]; /* the working folder of the server; a file beside it */
static struct pd_err last;

static const char secret_text[] = "root:secret";

/* home/run: output -> home/place, models, base, escape -> home/other. home/other: secret */
static int set_up(void **state) {
    static const char *const folders[] = {"run/models/pass-00001", "run/base/m", "run/basement",
                                          "place/pass-00001", "other/pass-00001"};
    char path[PATH_MAX];
    (void)state;
    pd_fmt(home, sizeof home, "/tmp/test_ps_folders.XXXXXX");
    assert_non_null(mkdtemp(home));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        pd_fmt(path, sizeof path, "%s/%s", home, folders[i]);
        assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
        pd_fmt(path, sizeof path, "%s/%s/file", home, folders[i]);
        assert_int_equal(pd_write_file_quick(path, "inside", 6, 0644, NULL), 0);
    }
    pd_fmt(secret, sizeof secret, "%s/other/secret", home);
    assert_int_equal(pd_write_file_quick(secret, secret_text, strlen(secret_text), 0600, NULL), 0);
    pd_fmt(path, sizeof path, "%s/run", home);
    assert_int_equal(chdir(path), 0);
    assert_int_equal(symlink("../../other", "models/escape"), 0);
    assert_int_equal(symlink(secret, "models/pass-00001/link"), 0);
    assert_int_equal(mkfifo("models/pass-00001/fifo", 0600), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return chdir("/") || pd_rm_tree(home, NULL);
}

/* As pserver_main does for save_dir = models and init_model_path = base. */
static struct ps_shard *server(struct recorder *r) {
    static const char *const write[] = {"output", "models", NULL}, *const read[] = {"base", NULL};
    static const struct ps_folders folders = {write, read};
    static char place[128];
    pd_fmt(place, sizeof place, "%s/place", home);
    fr_output = place;
    fr_folders = &folders;
    struct ps_shard *s = rec_shard(r, 1);
    assert_int_equal(ps_shard_frame(s, 0, "10.0.0.9:1", f_declare(1, 0), &last), 0);
    return s;
}

static int ask(struct wire_frame *f) {
    struct recorder r;
    struct ps_shard *s = server(&r);
    pd_err_clear(&last);
    const int rc = ps_shard_frame(s, 0, "10.0.0.9:1", f, &last);
    ps_shard_free(s);
    return rc;
}

static int reads(const char *folder, const char *file) {
    return ask(FRAME(PS_READ, read, .folder = folder, .file = file, .n = 4));
}

static int writes(const char *folder, const char *file) {
    return ask(FRAME(PS_STORE, store, .folder = folder, .file = file, .size = 4,
                     .data = (const uint8_t *)"text", .n_data = 4));
}

static void outside(const char *what, const char *folder, int rc, int want) {
    if (rc != want)
        fail_msg("%s '%s': %d %s, not %d", what, folder, rc, last.msg, want);
}

static void folders_outside_are_refused(void **state) {
    char absolute[128], above[160];
    (void)state;
    pd_fmt(absolute, sizeof absolute, "%s/other", home);
    pd_fmt(above, sizeof above, "%s/run/models/../../other", home);
    const char *const wrong[] = {"/etc",
                                 absolute,
                                 above,
                                 "..",
                                 "../other",
                                 "models/../../other",
                                 "models/..",
                                 "models/escape",
                                 "models/escape/new",
                                 ".",
                                 "",
                                 "basement",
                                 "modelsx",
                                 "output/../other",
                                 "/",
                                 "new"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const d = wrong[i];
        outside("PS_READ", d, reads(d, "secret"), PD_ECONF);
        outside("PS_STORE", d, writes(d, "secret"), PD_ECONF);
        outside("PS_MODELS", d, ask(FRAME(PS_MODELS, models, .dir = d, .name = "")), PD_ECONF);
        outside("PS_VERIFY", d, ask(FRAME(PS_VERIFY, verify, .folder = d, .file = "")), PD_ECONF);
        outside("PS_LOAD", d, ask(FRAME(PS_LOAD, load, .folder = d)), PD_ECONF);
        outside("PS_SAVE", d, ask(FRAME(PS_SAVE, save, .tag = 1, .dir = d, .name = "m")), PD_ECONF);
        outside("PS_COMMIT", d, ask(FRAME(PS_COMMIT, commit, .tag = 1, .dir = d, .name = "m")),
                PD_ECONF);
        outside("PS_REMOVE", d, ask(FRAME(PS_REMOVE, remove, .dir = d, .name = "pass-00001")),
                PD_ECONF);
        outside("PS_LINK", d,
                ask(FRAME(PS_LINK, link, .folder = d, .older = "models/pass-00001", .file = "file",
                          .size = 6)),
                PD_ECONF);
        outside("PS_LINK from", d,
                ask(FRAME(PS_LINK, link, .folder = "models/pass-00002", .older = d, .file = "file",
                          .size = 6)),
                PD_ECONF);
        assert_non_null(strstr(last.msg, "models"));
    }
    struct pd_buf b;
    pd_buf_init(&b);
    assert_int_equal(pd_read_file(secret, 100, &b, NULL), 0);
    assert_string_equal((const char *)b.data, secret_text);
    pd_buf_release(&b);
    assert_int_equal(access("../other/pass-00001/file", F_OK), 0);
    assert_int_not_equal(access("models/escape/new", F_OK), 0);
    assert_int_not_equal(access("new", F_OK), 0);
}

static void the_folder_to_start_from_is_not_written(void **state) {
    (void)state;
    outside("PS_READ", "base/m", reads("base/m", "file"), 0);
    outside("PS_STORE", "base/m", writes("base/m", "file"), PD_ECONF);
    outside("PS_REMOVE", "base", ask(FRAME(PS_REMOVE, remove, .dir = "base", .name = "pass-m")),
            PD_ECONF);
}

static void folders_of_the_job_are_allowed(void **state) {
    char absolute[160];
    (void)state;
    pd_fmt(absolute, sizeof absolute, "%s/run/models/pass-00001", home);
    const char *const right[] = {"output/pass-00001",         "./output/pass-00001",
                                 "models/pass-00001",         "./models//pass-00001/",
                                 "base/../models/pass-00001", absolute};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        outside("PS_READ", right[i], reads(right[i], "file"), 0);
        outside("PS_STORE", right[i], writes(right[i], "new"), 0);
        outside("PS_STORE", "a new folder", writes("models/new/folder", "x"), 0);
    }
    assert_int_equal(access("../place/pass-00001/new", F_OK), 0);
    assert_int_equal(access("models/new/folder/x", F_OK), 0);
}

/* No answer may wait for a FIFO either. */
static void only_regular_files(void **state) {
    (void)state;
    static const char *const files[] = {"link", "fifo"};
    for (size_t i = 0; i < 2; i++) {
        assert_true(reads("models/pass-00001", files[i]) < 0);
        assert_null(strstr(last.msg, "secret_text"));
    }
    assert_true(reads("models", "pass-00001") < 0);
    assert_true(reads("models/pass-00001", "../pass-00001/file") < 0);
    assert_true(writes("models/pass-00001", ".hidden") < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_outside_are_refused),
        cmocka_unit_test(the_folder_to_start_from_is_not_written),
        cmocka_unit_test(folders_of_the_job_are_allowed),
        cmocka_unit_test(only_regular_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
