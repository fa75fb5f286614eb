/* SPDX-License-Identifier: Apache-2.0 */
/* test_settings.c - --set SECTION.KEY=VALUE: how it is parsed, which value wins, and the text of
 * train.ini with it. */
#include <setjmp.h>

#include <cmocka.h>

#include "conf/settings.h"

static void begin(struct pd_options *o) { assert_int_equal(pd_options_init(o, NULL), 0); }

static void set(struct pd_options *o, const char *text, enum pd_origin_level level) {
    struct pd_err err = {0};
    if (pd_settings_add(o, PD_LAUNCHER, text, level, &err))
        fail_msg("%s", err.msg);
}

/* The text of train.ini with the settings; the caller frees it. */
static char *with(const struct pd_options *o, const char *ini, int line[PD_MAX_SETTINGS]) {
    struct pd_buf text;
    struct pd_err err = {0};
    pd_buf_init(&text);
    pd_put(&text, ini, strlen(ini));
    if (pd_settings_apply(o, "t.ini", &text, line, &err))
        fail_msg("%s", err.msg);
    pd_put_u8(&text, 0);
    return (char *)text.data;
}

static void a_pair_replaces_its_line_or_stands_at_the_end(void **state) {
    (void)state;
    static const char *const ini = "[data]\ntrain = a,\n   b,\n  c\n; size = 1\n[layer  a.b]\n"
                                   "size = 8 ; few\n[cost c]\ntype = x";
    struct pd_options o;
    int line[PD_MAX_SETTINGS] = {0};
    begin(&o);
    set(&o, "layer.a.b.size=1", PD_FROM_ARGV);
    set(&o, "data.train=d/*", PD_FROM_ARGV);
    set(&o, "optimizer.learning_rate=0.1", PD_FROM_ARGV);
    set(&o, "layer.a.b.size=512", PD_FROM_ARGV);
    set(&o, "layer.a.b.act=a=b", PD_FROM_ARGV);
    char *got = with(&o, ini, line);
    assert_string_equal(got, "[data]\ntrain = d/* ; --set\n;    b,\n;   c\n; size = 1\n"
                             "[layer  a.b]\nsize = 512 ; --set\n[cost c]\ntype = x\n"
                             "[optimizer] ; --set\nlearning_rate = 0.1 ; --set\n"
                             "[layer a.b] ; --set\nact = a=b ; --set\n");
    assert_int_equal(line[0], 7);
    assert_int_equal(line[2], 11);
    assert_int_equal(line[3], 13);
    char *again = with(&o, got, NULL); /* the same settings twice make the same text */
    assert_string_equal(again, got);
    free(again);
    free(got);
    pd_options_release(&o);
}

/* Found by fuzz_train_ini: the name of a section was compared with one that does not exist. */
static void a_section_with_a_needless_name_is_another_one(void **state) {
    (void)state;
    struct pd_options o;
    begin(&o);
    set(&o, "optimizer.l2=1", PD_FROM_ARGV);
    char *text = with(&o, "[optimizer x]\nl2 = 2\n", NULL);
    assert_string_equal(text, "[optimizer x]\nl2 = 2\n[optimizer] ; --set\nl2 = 1 ; --set\n");
    free(text);
    pd_options_release(&o);
}

static void the_last_and_the_highest_source_win(void **state) {
    (void)state;
    struct pd_options o;
    struct pd_buf text;
    char arg0[] = "--set", arg1[] = "optimizer.l2=1", arg2[] = "--set=optimizer.l2=2",
         arg3[] = "--set=train.seed=3", arg4[] = "--seed=4", arg5[] = "--set=job.keep_jobs=5",
         *argv[] = {arg0, arg1, arg2, arg3, arg4, arg5};
    char env0[] = "PADDLE_INIT_SET=optimizer.l2=9\noptimizer.l1=8\ntrain.num_passes=7\n",
         *env[] = {env0, NULL};
    const char *rest[8];
    int n_rest;
    begin(&o);
    assert_int_equal(pd_options_args(&o, PD_LAUNCHER, 6, argv, NULL, rest, &n_rest, NULL), 0);
    assert_int_equal(n_rest, 0);
    assert_int_equal(o.seed, 4);
    assert_int_equal(o.keep_jobs, 5);
    assert_string_equal(o.origin[pd_options_find("keep_jobs", PD_LAUNCHER)].where,
                        "--set job.keep_jobs");
    assert_int_equal(pd_options_read_environ(&o, PD_TRAINER, env, NULL), 0);
    assert_int_equal(o.num_passes, 7);
    pd_buf_init(&text);
    pd_settings_text(&o, &text); /* the value of an option is its value at last */
    pd_put_u8(&text, 0);
    assert_string_equal((char *)text.data,
                        "optimizer.l2=2\ntrain.seed=4\noptimizer.l1=8\ntrain.num_passes=7\n");
    pd_buf_release(&text);
    pd_options_release(&o);
}

static void mistakes_name_the_setting(void **state) {
    (void)state;
    static const struct {
        const char *set, *text;
    } rows[] = {
        {"layer.hiden.size=512",
         "--set layer.hiden.size=512: there is no layer 'hiden'; did you mean 'hidden'?"},
        {"layer.other.size=512", "--set layer.other.size=512: there is no layer 'other' in t.ini"},
        {"evaluator.x.type=auc", "there is no evaluator 'x' in t.ini"},
        {"field.agee.size=3", NULL}, /* the schema knows the fields of its format */
        {"optimiser.l2=1", "there is no section 'optimiser'; did you mean 'optimizer'?"},
        {"nothing.l2=1", "there is no section 'nothing' (of conf.ini: cluster,"},
        {"seed=1", "a setting is written SECTION.KEY=VALUE"},
        {"seed", "a setting is written SECTION.KEY=VALUE"},
        {"layer.size=1", "of this section is written layer.NAME.KEY=VALUE"},
        {"layer.hid den.size=1", "of this section is written layer.NAME.KEY=VALUE"},
        {"data.=1", "of this section is written data.KEY=VALUE"},
        {"train.sed=1", "--set train.sed: unknown option 'sed', did you mean 'seed'?"},
        {"job.seed=1", "'seed' does not belong to [job] but to [train]"},
        {"train.seed=x", "--set train.seed: seed is 0..9007199254740992, not 'x'"},
        {"data.train=a ; b", "a value has neither control characters nor a semicolon"},
        {"data.train=a\nb", "a value has neither control characters nor a semicolon"},
        {"data.train=\xff", "the value is not UTF-8 text"},
        {"env.1=2", "'1' is no name of an environment variable"},
        {"host.a.b.usr=x", "unknown key 'usr' in [host a.b], did you mean 'user'?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_options o;
        struct pd_err err = {0};
        struct pd_buf text;
        pd_buf_init(&text);
        pd_put_fmt(&text, "[layer hidden]\nsize = 8\n");
        begin(&o);
        int rc = pd_settings_add(&o, PD_LAUNCHER, rows[i].set, PD_FROM_ARGV, &err);
        if (!rc)
            rc = pd_settings_to_sections(&o, &err);
        if (!rc)
            rc = pd_settings_apply(&o, "t.ini", &text, NULL, &err);
        if ((rc != 0) != (rows[i].text != NULL) || (rc && !strstr(err.msg, rows[i].text)))
            fail_msg("%s: %d '%s'", rows[i].set, rc, err.msg);
        if (rc && pd_code_exit_status(rc) != 2)
            fail_msg("%s: status %d", rows[i].set, pd_code_exit_status(rc));
        pd_buf_release(&text);
        pd_options_release(&o);
    }
}

static void sections_of_conf_ini_are_overridden(void **state) {
    (void)state;
    struct pd_options o;
    begin(&o);
    o.env = calloc(1, sizeof *o.env);
    o.env[0] = (struct pd_env_var){.name = strdup("A"), .value = strdup("file")};
    o.n_env = 1;
    set(&o, "env.A=x=y", PD_FROM_ARGV);
    set(&o, "groups.g=a,b", PD_FROM_ARGV);
    set(&o, "host.10.0.0.1.user=root", PD_FROM_ARGV);
    set(&o, "host.node[1-3].env.OMP=4", PD_FROM_ARGV);
    assert_int_equal(pd_settings_to_sections(&o, NULL), 0);
    assert_int_equal(o.n_env, 1);
    assert_string_equal(o.env[0].value, "x=y");
    assert_string_equal(o.env[0].where, "--set env.A");
    assert_int_equal(o.n_groups, 1);
    assert_string_equal(o.groups[0].hosts, "a,b");
    assert_int_equal(o.n_host_sections, 2);
    assert_string_equal(o.host_sections[0].pattern, "10.0.0.1");
    assert_string_equal(o.host_sections[0].value[PD_HOST_USER].text, "root");
    assert_string_equal(o.host_sections[1].pattern, "node[1-3]");
    assert_string_equal(o.host_sections[1].env[0].name, "OMP");
    pd_options_release(&o);
}

static void an_error_of_the_line_is_one_of_the_setting(void **state) {
    (void)state;
    struct pd_options o;
    struct pd_err err = {0};
    int line[PD_MAX_SETTINGS] = {0};
    begin(&o);
    set(&o, "layer.h.size=eight", PD_FROM_ARGV);
    free(with(&o, "[layer h]\ntype = fc\nsize = 3\n", line));
    pd_fail(&err, PD_ECONF, "t.ini:3: size is a number");
    pd_settings_blame(&o, "t.ini", line, &err);
    assert_string_equal(err.msg, "--set layer.h.size=eight: size is a number");
    assert_int_equal(err.code, PD_ECONF);
    pd_err_clear(&err);
    pd_fail(&err, PD_ECONF, "t.ini:2: unknown type");
    pd_settings_blame(&o, "t.ini", line, &err);
    assert_string_equal(err.msg, "t.ini:2: unknown type");
    pd_options_release(&o);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    int failed = 0, ok = 0;
    for (int k = 1; k < 200 && !ok; k++) {
        struct pd_options o;
        struct pd_buf text, lines;
        char spec[32];
        begin(&o);
        pd_buf_init(&text);
        pd_buf_init(&lines);
        pd_put_fmt(&text, "[layer h]\nsize = 3\n");
        snprintf(spec, sizeof spec, "alloc:%d", k);
        pd_fault_arm(spec);
        int rc = pd_settings_add(&o, PD_LAUNCHER, "layer.h.size=4", PD_FROM_ARGV, NULL);
        rc = rc ? rc : pd_settings_add(&o, PD_LAUNCHER, "optimizer.l2=4", PD_FROM_ARGV, NULL);
        rc = rc ? rc : pd_settings_apply(&o, "t.ini", &text, NULL, NULL);
        pd_settings_text(&o, &lines);
        ok = !rc && !lines.failed;
        failed += !ok;
        pd_fault_arm(NULL);
        pd_buf_release(&text);
        pd_buf_release(&lines);
        pd_options_release(&o);
    }
    assert_true(failed > 4 && ok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_replaces_its_line_or_stands_at_the_end),
        cmocka_unit_test(a_section_with_a_needless_name_is_another_one),
        cmocka_unit_test(the_last_and_the_highest_source_win),
        cmocka_unit_test(mistakes_name_the_setting),
        cmocka_unit_test(sections_of_conf_ini_are_overridden),
        cmocka_unit_test(an_error_of_the_line_is_one_of_the_setting),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
