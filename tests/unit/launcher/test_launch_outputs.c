/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_outputs.c - the folders of outputs: only one fetch at a time, and the remains of a
 * killed fetch are removed. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/outputs/outputs.h"
#include "model/model.h"

static char root[] = "/tmp/outputs-XXXXXX";

static void put(const char *dir, const char *name) {
    char path[6000];
    assert_int_equal(pd_mkdirs(dir, 0755, NULL), 0);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static int is_there(const char *dir, const char *name) {
    char path[6000];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !access(path, F_OK);
}

static void test_one_at_a_time(void **state) {
    struct outputs a, b;
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(outputs_init(&a, root, NULL, "JOB1", "here", &err), 0);
    assert_int_equal(outputs_init(&b, root, NULL, "JOB1", "here", &err), 0);
    put(a.aside, "left"); /* remains of a killed fetch */
    assert_int_equal(outputs_begin(&a, &err), 0);
    assert_false(is_there(a.aside, "left"));
    put(a.aside, "mine");
    assert_int_equal(outputs_begin(&b, &err), PD_EEXIST);
    assert_non_null(strstr(err.msg, "another paddlectl is fetching the outputs of JOB1"));
    outputs_drop(&b, 0); /* b has created no folder to drop */
    assert_true(is_there(a.aside, "mine"));
    outputs_drop(&a, 1); /* nothing that another fetch can use */
    assert_false(is_there(a.aside, "."));
    pd_err_clear(&err);
    /* Complete folders of an interrupted fetch stay, and what is no fetch's does not. */
    assert_int_equal(outputs_begin(&a, &err), 0);
    char node[5000];
    snprintf(node, sizeof node, "%s/node-0", a.try);
    put(node, "model");
    put(a.aside, "left");
    outputs_drop(&a, 1);
    assert_true(is_there(node, "model"));
    assert_false(is_there(a.aside, "left"));
    assert_int_equal(outputs_begin(&a, &err), 0);
    assert_true(is_there(node, "model"));
    outputs_drop(&a, 0);
    assert_false(is_there(a.aside, "."));
    pd_err_clear(&err);
    assert_int_equal(outputs_begin(&b, &err), 0);
    outputs_drop(&b, 0);
    /* An old interrupted fetch is removed. */
    struct outputs old;
    assert_int_equal(outputs_init(&old, root, NULL, "JOB0", "here", &err), 0);
    put(old.aside, "rest");
    const struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, old.aside, long_ago, 0), 0);
    assert_int_equal(outputs_begin(&b, &err), 0);
    assert_false(is_there(old.aside, "."));
    outputs_drop(&b, 0);
}

/* Write a model whose manifest lists `parts`; only the parts with there[i] exist. */
static void put_model(const char *dir, const char *const parts[], const int there[], size_t n) {
    struct model_part list[3] = {0};
    struct model_manifest m = {.parts = list, .n_parts = n, .config = (char[]){""}};
    struct pd_buf text;
    struct pd_err err = {0};
    char path[6000];
    for (size_t i = 0; i < n; i++) {
        snprintf(list[i].file, sizeof list[i].file, "%s", parts[i]);
        if (there[i])
            put(dir, parts[i]);
    }
    pd_buf_init(&text);
    assert_int_equal(model_manifest_write(&m, &text, &err), 0);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_int_equal(pd_write_file_atomic(path, text.data, text.len, 0644, &err), 0);
    pd_buf_release(&text);
}

enum { TOLD_MAX = 400 };

static void tell(void *arg, const char *model, const char *part, int n_missing) {
    char *out = arg;
    const size_t n = strlen(out);
    pd_fmt(out + n, TOLD_MAX - n, "%s:%s:%d ", model, part, n_missing);
}

static void test_models_that_are_not_whole(void **state) {
    static const char *const parts[] = {"dense-00000-of-00003.bin", "dense-00001-of-00003.bin",
                                        "dense-00002-of-00003.bin"};
    static const int all[] = {1, 1, 1}, first[] = {1, 0, 0};
    struct outputs o;
    struct pd_err err = {0};
    char dir[5000], told[TOLD_MAX] = "";
    (void)state;
    assert_int_equal(outputs_init(&o, root, NULL, "JOB2", "here", &err), 0);
    outputs_incomplete(&o, tell, told); /* the folder is empty */
    snprintf(dir, sizeof dir, "%s/pass-00000", o.dir);
    put_model(dir, parts, all, 3);
    snprintf(dir, sizeof dir, "%s/log", o.dir);
    put(dir, "train.log");
    put(o.dir, "notes");
    outputs_incomplete(&o, tell, told);
    assert_string_equal(told, "");
    snprintf(dir, sizeof dir, "%s/pass-00001", o.dir);
    put_model(dir, parts, first, 3);
    outputs_incomplete(&o, tell, told);
    assert_string_equal(told, "pass-00001:dense-00001-of-00003.bin:2 ");
    assert_int_equal(pd_rm_tree(root, &err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_at_a_time),
                                       cmocka_unit_test(test_models_that_are_not_whole)};
    if (!mkdtemp(root))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
