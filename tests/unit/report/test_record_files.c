/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_files.c - the kept files of a record: contents that the run did not have are not
 * kept, since the user may write the next version while they are copied. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/record/record_files.h"

static char top[PATH_MAX];

static void put(const char *name, const char *text) {
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", top, name), 0);
    assert_int_equal(pd_write_file_quick(path, text, strlen(text), 0644, NULL), 0);
}

static void a_file_that_is_written_meanwhile_is_only_listed(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct scan *s;
    struct record_files f = {0};
    char path[PATH_MAX], ws[PATH_MAX];
    snprintf(top, sizeof top, "/tmp/test_record_files-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(pd_fmt(ws, sizeof ws, "%s/ws", top), 0);
    assert_int_equal(pd_mkdirs(ws, 0755, &err), 0);
    put("ws/same", "contents");
    put("ws/written", "version 1");
    put("ws/cut", "a long version");
    put("ws/gone", "for a while");
    assert_int_equal(scan_new(&s, ws, 0, &err), 0);
    assert_int_equal(scan_run(s, &err), 0);
    put("ws/written", "version 2"); /* as long as the first */
    put("ws/cut", "short");
    assert_int_equal(pd_fmt(path, sizeof path, "%s/ws/gone", top), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pd_fmt(path, sizeof path, "%s/JOB", top), 0);
    assert_int_equal(pd_mkdirs(path, 0755, &err), 0);
    if (record_files_keep(top, path, s, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(record_files_read(&f, path, &err), 0);
    static const char *const names[] = {"same", "written", "cut", "gone"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct record_file *file = record_files_find(&f, names[i]);
        assert_non_null(file);
        if (i == 0)
            assert_string_not_equal(file->id, "");
        else
            assert_string_equal(file->id, "");
    }
    record_files_release(&f);
    scan_free(s);
    assert_int_equal(pd_rm_tree(top, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_written_meanwhile_is_only_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
