/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_engine.c - engines: the table has the option's words, and a row sets only options
 * that the user did not set. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/engine/engine.h"

static struct pd_options with(const char *engine) {
    struct pd_options o;
    assert_int_equal(pd_options_init(&o, NULL), 0);
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "engine", engine, PD_FROM_CONF_INI,
                                    "conf.ini:2", NULL, NULL),
                     0);
    return o;
}

static const char *origin(const struct pd_options *o, const char *name) {
    return o->origin[pd_options_find(name, PD_LAUNCHER)].where;
}

static void each_word_is_a_row(void **state) {
    (void)state;
    struct pd_buf words = {0};
    size_t n;
    for (int i = 0; i < PD_N_ENGINES; i++)
        pd_put_fmt(&words, "%s%s", i ? "|" : "", engine_table[i]->name);
    pd_put_u8(&words, 0);
    int row = pd_options_find("engine", PD_LAUNCHER);
    assert_string_equal(pd_option_table(&n)[row].choices, (char *)words.data);
    pd_buf_release(&words);
}

static void only_what_the_user_did_not_set(void **state) {
    (void)state;
    struct pd_options o = with("slurm");
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "connect", "my-srun %h",
                                    PD_FROM_CONF_INI, "conf.ini:3", NULL, NULL),
                     0);
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(o.hosts, "slurm");
    assert_string_equal(origin(&o, "hosts"), "engine = slurm");
    assert_string_equal(o.connect, "my-srun %h");
    assert_string_equal(origin(&o, "connect"), "conf.ini:3");
    pd_options_release(&o);

    o = with("local");
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(o.hosts, "local");
    assert_string_equal(o.connect, "");
    pd_options_release(&o);

    o = with("mpi");
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(o.hosts, "mpi");
    assert_ptr_equal(strstr(o.launch, "mpirun --bind-to none --map-by ppr:1:node"), o.launch);
    assert_null(strstr(o.launch, "%H"));
    assert_string_equal(origin(&o, "launch"), "engine = mpi");
    pd_options_release(&o);

    o = with("mpi");
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "hosts", "a,b", PD_FROM_CONF_INI,
                                    "conf.ini:3", NULL, NULL),
                     0);
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(o.hosts, "a,b");
    assert_non_null(strstr(o.launch, " --host %H"));
    pd_options_release(&o);

    o = with("ssh");
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(origin(&o, "hosts"), "default");
    pd_options_release(&o);
}

/* The conf.ini of paddlectl init, with another engine. */
static void lines_without_a_value_do_not_count(void **state) {
    (void)state;
    struct pd_options o = with("mpi");
    struct pd_err err = {0};
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "launch", "", PD_FROM_CONF_INI,
                                    "conf.ini:3", NULL, NULL),
                     0);
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "hosts", "", PD_FROM_CONF_INI,
                                    "conf.ini:4", NULL, NULL),
                     0);
    assert_int_equal(engine_options(&o, NULL), 0);
    assert_string_equal(o.hosts, "mpi");
    assert_ptr_equal(strstr(o.launch, "mpirun --bind-to none --map-by ppr:1:node"), o.launch);
    assert_null(strstr(o.launch, "%H"));
    assert_int_equal(pd_options_set(&o, PD_LAUNCHER, "cluster", "hosts", "local*2",
                                    PD_FROM_CONF_INI, "conf.ini:4", NULL, NULL),
                     0);
    assert_int_equal(engine_options(&o, &err), PD_ECONF);
    assert_string_equal(err.msg, "conf.ini:4: hosts = local*2 is this machine, but engine = mpi: "
                                 "remove hosts, or use engine = local");
    pd_options_release(&o);
}

/* The message names the option's line, the engine and the program; SLURM variables for tasks are
 * gone. */
static void a_missing_program_is_named(void **state) {
    (void)state;
    struct pd_options o = with("slurm");
    struct engine_run run;
    struct pd_err err = {0};
    char *path = strdup(getenv("PATH"));
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    setenv("PATH", "/nowhere::/nor/here:", 1);
    assert_int_equal(engine_prepare(&run, &o, 0, &err), PD_ENOENT);
    setenv("PATH", path, 1);
    free(path);
    assert_string_equal(err.msg,
                        "conf.ini:2: engine = slurm needs srun, which is not installed here");
    assert_null(run.engine);
    engine_release(&run);
    assert_null(getenv("SLURM_CPUS_PER_TASK"));
    pd_options_release(&o);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    for (int k = 1; k < 20; k++) {
        struct pd_options o = with("slurm");
        struct pd_err err = {0};
        char spec[32];
        snprintf(spec, sizeof spec, "alloc:%d", k);
        pd_fault_arm(spec);
        int rc = engine_options(&o, &err);
        pd_fault_arm(NULL);
        pd_options_release(&o);
        if (!rc) {
            assert_true(k > 2);
            return;
        }
        assert_int_equal(rc, PD_ENOMEM);
    }
    fail_msg("never succeeded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_is_a_row),
        cmocka_unit_test(only_what_the_user_did_not_set),
        cmocka_unit_test(lines_without_a_value_do_not_count),
        cmocka_unit_test(a_missing_program_is_named),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
