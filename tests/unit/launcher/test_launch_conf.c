/* test_launch_conf.c - every file in conf/ can be read, and names valid hosts and a workspace. */
#include <setjmp.h>
#include <cmocka.h>
#include <glob.h>

#include "conf/options.h"
#include "launcher/engine/engine.h"
#include "launcher/hosts/hosts.h"

static void test_files(void **state) {
    (void)state;
    glob_t g;
    assert_int_equal(glob("conf/*.ini", 0, NULL, &g), 0);
    assert_true(g.gl_pathc >= 4);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        struct pd_options o;
        struct pd_err err = {0};
        struct hosts h = {0};
        int *ids = NULL;
        size_t n;
        assert_int_equal(pd_options_init(&o, &err), 0);
        if (pd_options_read_conf(&o, g.gl_pathv[i], &err) || engine_options(&o, &err) ||
            hosts_load(&h, &o, &err) ||
            hosts_parse_roles(&ids, &n, o.pservers, h.n, "pservers", g.gl_pathv[i], &err))
            fail_msg("%s", err.msg);
        free(ids);
        if (hosts_parse_roles(&ids, &n, o.trainers, h.n, "trainers", g.gl_pathv[i], &err))
            fail_msg("%s", err.msg);
        free(ids);
        if (!*o.job_dispatch_package == !*o.job_workspace)
            fail_msg("%s: one of job_dispatch_package and job_workspace", g.gl_pathv[i]);
        hosts_release(&h);
        pd_options_release(&o);
    }
    globfree(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
