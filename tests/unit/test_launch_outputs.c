/* test_launch_outputs.c - where outputs are put together: for one fetch at a time, over what a killed one left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "launcher/job/outputs.h"

static char root[] = "/tmp/outputs-XXXXXX";

static void put(const char *dir, const char *name) {
    char path[4600];
    assert_int_equal(pd_mkdirs(dir, 0755, NULL), 0);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static int is_there(const char *dir, const char *name) {
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !access(path, F_OK);
}

static void test_one_at_a_time(void **state) {
    struct outputs a, b;
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(outputs_init(&a, root, "JOB1", "here", &err), 0);
    assert_int_equal(outputs_init(&b, root, "JOB1", "here", &err), 0);
    put(a.aside, "left"); /* by a fetch that was killed */
    assert_int_equal(outputs_begin(&a, &err), 0);
    assert_false(is_there(a.aside, "left"));
    put(a.aside, "mine");
    assert_int_equal(outputs_begin(&b, &err), PD_EEXIST);
    assert_non_null(strstr(err.msg, "another paddlectl is fetching the outputs of JOB1"));
    outputs_drop(&b); /* it has nothing to drop */
    assert_true(is_there(a.aside, "mine"));
    outputs_drop(&a);
    assert_false(is_there(a.aside, "."));
    pd_err_clear(&err);
    assert_int_equal(outputs_begin(&b, &err), 0);
    outputs_drop(&b);
    assert_int_equal(rmdir(root), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_at_a_time)};
    if (!mkdtemp(root))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
