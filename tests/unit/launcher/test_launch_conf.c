/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_conf.c - every file in conf/, and each example of docs/engines.md, can be read, and
 * names valid hosts and a workspace. */
#include <setjmp.h>
#include <cmocka.h>
#include <glob.h>

#include "conf/options.h"
#include "launcher/engine/engine.h"
#include "launcher/hosts/hosts.h"

static void check_file(const char *path, struct pd_options *o) {
    struct pd_err err = {0};
    struct hosts h = {0};
    int *ids = NULL;
    size_t n;
    assert_int_equal(pd_options_init(o, &err), 0);
    if (pd_options_read_conf(o, path, &err) || engine_options(o, &err) || hosts_load(&h, o, &err) ||
        hosts_parse_roles(&ids, &n, o->pservers, h.n, "pservers", path, &err))
        fail_msg("%s", err.msg);
    free(ids);
    if (hosts_parse_roles(&ids, &n, o->trainers, h.n, "trainers", path, &err))
        fail_msg("%s", err.msg);
    free(ids);
    if (!*o->job_dispatch_package == !*o->job_workspace)
        fail_msg("%s: one of job_dispatch_package and job_workspace", path);
    hosts_release(&h);
}

static void test_files(void **state) {
    struct pd_options o;
    glob_t g;
    (void)state;
    assert_int_equal(glob("conf/*.ini", 0, NULL, &g), 0);
    assert_true(g.gl_pathc >= 4);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        check_file(g.gl_pathv[i], &o);
        pd_options_release(&o);
    }
    globfree(&g);
}

/* docs/engines.md: each block that begins with [cluster] is a whole conf.ini, of at most five lines
 * but those of sections. Each engine has one; `local` is hosts = local*2 there. */
static void test_page(void **state) {
    static const char first[] = "    [cluster]\n";
    char line[200], path[] = "/tmp/test_launch_conf-XXXXXX";
    int found[PD_N_ENGINES] = {0}, n_blocks = 0, n_lines = 0, n_local = 0;
    struct pd_options o;
    FILE *page = fopen("docs/engines.md", "r"), *conf = NULL;
    (void)state;
    assert_non_null(page);
    close(mkstemp(path));
    for (int more = 1; more;) {
        more = fgets(line, sizeof line, page) != NULL;
        const int inside = more && pd_starts_with(line, "    ");
        if (!conf && inside && !strcmp(line, first))
            conf = fopen(path, "w");
        if (conf && inside) {
            fputs(line + 4, conf);
            n_lines += line[4] != '[';
        } else if (conf) {
            fclose(conf);
            conf = NULL;
            check_file(path, &o);
            assert_in_range(n_lines, 1, 5);
            found[o.engine]++;
            n_local += pd_starts_with(o.hosts, "local");
            pd_options_release(&o);
            n_lines = 0;
            n_blocks++;
        }
    }
    fclose(page);
    unlink(path);
    assert_int_equal(n_blocks, 7);
    assert_int_equal(n_local, 1);
    for (int i = 0; i < PD_N_ENGINES; i++)
        assert_true(found[i] || i == PD_ENGINE_LOCAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
