/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf.c - INI files with line numbers, and the table of options from all its sources. */
#include <setjmp.h>

#include <cmocka.h>

#include "conf/ini_file.h"
#include "conf/options.h"

static char path[] = "/tmp/test-conf-XXXXXX";

static void write_conf(const char *text) {
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static int note(void *arg, const char *section, const char *name, const char *value, int line,
                struct pd_err *err) {
    (void)err;
    pd_put_fmt(arg, "%s.%s=%s@%d\n", section, name, value, line);
    return 0;
}

static void pairs_come_with_their_lines(void **state) {
    (void)state;
    char big[3000] = "", text[8000];
    for (int i = 0; i < 180; i++)
        snprintf(big + strlen(big), 20, "host-%03d, ", i);
    big[strlen(big) - 2] = 0;
    snprintf(text, sizeof text,
             "; %s\n[a]\nx = 1 ; one\n   ; %s\n  y = 2\n\nz = p,\n   q = r?, s\n  t\nlong = "
             "%s\n[b]\nx=a;b\n",
             big, big, big);
    static const char *const want_tail = "b.x=a;b@12\n";
    struct pd_buf got;
    struct pd_err err = {0};
    pd_buf_init(&got);
    write_conf(text);
    int rc = pd_ini_read(path, NULL, note, &got, &err);
    if (rc)
        fail_msg("%s", err.msg);
    pd_put_u8(&got, 0);
    char want[4000];
    /* "q = r?, s" looks like a pair, so it is a pair; "t" continues it. */
    snprintf(want, sizeof want, "a.x=1@3\na.y=2@5\na.z=p,@7\na.q=r?, s t@8\na.long=%s@10\n%s", big,
             want_tail);
    assert_string_equal((char *)got.data, want);
    pd_buf_release(&got);
}

static void broken_files_name_the_line(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"no equals sign", "[train]\n\nnum_passes 3\n", ":3: neither"},
        {"unknown section", "[trian]\nnum_passes = 3\n",
         ":1: unknown section [trian], did you mean [train]?"},
        {"unknown section without a pair", "[train]\n[flavours]\n",
         ":2: unknown section [flavours] (known: cluster, groups,"},
        {"a section that is not closed", "[train]\n\n[job ; x\n",
         ":3: a section is written [name], not '[job'"},
        {"text behind a section", "[job] x = 1\n", ":1: a section is written [name]"},
        {"a pair above all sections", "x = 1\n[job]\n", ":1: 'x' stands above the first [section]"},
        {"no pattern", "[host]\n", ":1: which host? write [host node3]"},
        {"unknown key of a host", "[host a[1-3]]\nusr = x\n",
         ":2: unknown key 'usr' in [host a[1-3]], did you mean 'user'?"},
        {"an option that hosts share", "[host a]\nseed = 3\n",
         ":2: 'seed' is the same for all hosts and belongs to [train]"},
        {"key twice in a section", "[host a]\nuser = a\nuser = b\n",
         ":3: user is set twice, first at "},
        {"port of a host", "[host a]\nport = 0\n", ":2: port is 1..65535, not '0'"},
        {"user of a host", "[host a]\nuser = -oProxyCommand=x\n",
         ":2: not a user name: '-oProxyCommand=x'"},
        {"address of a host", "[host a]\naddress = a b\n",
         ":2: not a host's name or address: 'a b'"},
        {"empty key of a host", "[host a]\nroot_dir =\n", ":2: root_dir is empty"},
        {"variable of a host", "[host a]\nenv.1A = x\n",
         ":2: '1A' is no name of an environment variable"},
        {"variable that is no text", "[env]\nA = \xff\n", ":2: the value of A is not UTF-8 text"},
        {"name of a group", "[groups]\na/b = x\n", ":2: 'a/b' is no name of a group"},
        {"group twice", "[groups]\na = x\na = y\n", ":3: group a is there twice, first at "},
        {"unknown key with a neighbour", "[train]\nnum_pases = 3\n",
         ":2: unknown option 'num_pases', did you mean 'num_passes'?"},
        {"port out of range", "[cluster]\n; x\nport = 70000\n",
         ":3: port is 0..65535, not '70000'"},
        {"not a number", "[cluster]\nport = 7a\n", ":2: port is 0..65535, not '7a'"},
        {"twice", "[train]\nseed = 1\nseed = 2\n", ":3: seed is set twice, first in line 2"},
        {"wrong section", "[job]\nhosts = a\n",
         ":2: 'hosts' does not belong to [job] but to [cluster]"},
        {"enum", "[ssh]\nhost_key_policy = never\n",
         ":2: host_key_policy is one of strict|accept-new, not 'never'"},
        {"gpu", "[train]\nuse_gpu = 1\n", ":2: use_gpu can only be 0, not '1'"},
        {"refused by name", "[train]\nrdma_tcp = tcp\n", ":2: 'rdma_tcp' has no meaning here"},
        {"bad variable", "[env]\nA B = 1\n", ":2: 'A B' is no name"},
        {"variable twice", "[env]\nA = 1\nA = 2\n", ":3: A is set twice"},
        {"worker's option", "[train]\ntrainer_id = 2\n", ":2: unknown option 'trainer_id'"},
        {"negative", "[train]\nbatch_size = -1\n",
         ":2: batch_size is 1..16777216 samples, not '-1'"},
        {"section twice, and a key of it", "[train]\nseed = 1\n[job]\n[train]\nseed = 2\n",
         ":5: seed is set twice, first in line 2"},
        {"CRLF", "[cluster]\r\nport = 7x\r\n", ":2: port is 0..65535, not '7x'"},
        {"byte order mark", "\xef\xbb\xbf[cluster]\nport = 7x\n", ":2: port is 0..65535, not '7x'"},
        {"tabs", "[cluster]\n\tport\t=\t7x\n", ":2: port is 0..65535, not '7x'"},
        {"a name that is no text", "[cluster]\np\xffrt = 1\n",
         ":2: unknown option 'p?rt', did you mean 'port'?"},
        {"quotes", "[cluster]\nroot_dir = \"/home/me\"\n",
         ":2: root_dir is written without quotes, not \"/home/me\""},
        {"a quote that is not closed", "[job]\njob_dispatch_package = 'ws\n",
         ":2: job_dispatch_package is written without quotes, not 'ws"},
        {"unit of a time", "[job]\nattach_lease = 5min\n",
         ":2: attach_lease is 1..86400 s, not '5min'"},
        {"unit of a size", "[job]\nlog_max_size = 5Q\n", " bytes (suffixes K, M, G), not '5Q'"},
        {"too large for any number", "[train]\nnum_passes = 99999999999999999999999\n",
         ":2: num_passes is 1..1000000 passes, not '99999999999999999999999'"},
        {"shorter than a heartbeat", "[train]\nheartbeat_timeout = 1.9\n",
         ":2: heartbeat_timeout is 2..86400 s, or 0, not '1.9'"},
        {"too large for a double", "[train]\nreconnect_timeout = 1e400\n",
         ":2: reconnect_timeout is 0.1..86400 s, not '1e400'"},
        {"section in capitals", "[Cluster]\nport = 1\n",
         ":1: unknown section [Cluster], did you mean [cluster]?"},
        {"infinite", "[job]\nattach_lease = inf\n", ":2: attach_lease is 1..86400 s, not 'inf'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_options o;
        struct pd_err err = {0};
        write_conf(rows[i].text);
        assert_int_equal(pd_options_init(&o, NULL), 0);
        int rc = pd_options_read_conf(&o, path, &err);
        if (rc != PD_ECONF || !strstr(err.msg, rows[i].want))
            fail_msg("%s: %d '%s'", rows[i].name, rc, err.msg);
        pd_options_release(&o);
    }
}

static void the_higher_source_wins_in_any_order(void **state) {
    (void)state;
    const char *const argv[] = {"--num-passes=7", "rest1", "--seed", "9",
                                "--local",        "--",    "--rest2"};
    const char *const env[] = {"PADDLE_INIT_SEED=8", "PADDLE_INIT_LOG_PERIOD=5",
                               "PADDLE_INIT_SOMETHING=1", "HOME=/", NULL};
    for (int order = 0; order < 2; order++) {
        struct pd_options o;
        const char *rest[7];
        int n_rest;
        assert_int_equal(pd_options_init(&o, NULL), 0);
        if (order) {
            assert_int_equal(pd_options_args(&o, PD_TRAINER, 7, (char **)(uintptr_t)argv, NULL,
                                             rest, &n_rest, NULL),
                             0);
            assert_int_equal(
                pd_options_read_environ(&o, PD_TRAINER, (char *const *)(uintptr_t)env, NULL), 0);
        }
        write_conf("[data]\ntrain = x\n[train]\nseed = 1\nnum_passes = 2\nbatch_size = "
                   "11\nlog_period = 12\n");
        assert_int_equal(pd_options_read_train(&o, path, NULL), 0);
        write_conf(
            "[train]\nseed = 3\nbatch_size = 33\n[env]\nA = x y\n[ssh]\nidentity_file = key\n");
        assert_int_equal(pd_options_read_conf(&o, path, NULL), 0);
        if (!order) {
            assert_int_equal(
                pd_options_read_environ(&o, PD_TRAINER, (char *const *)(uintptr_t)env, NULL), 0);
            assert_int_equal(pd_options_args(&o, PD_TRAINER, 7, (char **)(uintptr_t)argv, NULL,
                                             rest, &n_rest, NULL),
                             0);
        }
        assert_int_equal(o.num_passes, 7);
        assert_int_equal(o.seed, 9);
        assert_int_equal(o.batch_size, 33);
        assert_int_equal(o.log_period, 5);
        assert_int_equal(o.local, 1);
        assert_int_equal(n_rest, 2);
        assert_string_equal(rest[1], "--rest2");
        assert_string_equal(o.env[0].value, "x y");
        assert_string_equal(o.identity_file, "/tmp/key"); /* relative to the file's folder */
        assert_string_equal(o.outputs, "/tmp/output");
        int row = pd_options_find("batch-size", PD_LAUNCHER);
        assert_non_null(strstr(o.origin[row].where, ":3"));
        assert_string_equal(o.origin[pd_options_find("port", PD_LAUNCHER)].where, "default");
        pd_options_release(&o);
    }
}

static void wrong_command_lines_are_usage_errors(void **state) {
    (void)state;
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"--num_pases=3", "unknown option --num_pases, did you mean --num_passes?"},
        {"--dry-rnu", "unknown option --dry_rnu, did you mean --dry-run?"},
        {"--rdma_tcp=1", "--rdma_tcp has no meaning here"},
        {"--fantastic", "unknown option --fantastic"},
        {"--num_passes", "needs a value"},
        {"-n", "unknown option '-n'"},
        {"--dry-run=maybe", "is 0 or 1"},
        {"--xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx=1",
         "unknown option"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_options o;
        struct pd_err err = {0};
        int dry = 0, n_rest;
        const struct pd_extra_option extra[] = {{"dry-run", &dry, NULL, ""},
                                                {NULL, NULL, NULL, NULL}};
        const char *rest[1];
        char *argv[] = {(char *)(uintptr_t)rows[i].word};
        assert_int_equal(pd_options_init(&o, NULL), 0);
        int rc = pd_options_args(&o, PD_LAUNCHER, 1, argv, extra, rest, &n_rest, &err);
        if (rc != PD_EUSAGE || !strstr(err.msg, rows[i].want))
            fail_msg("%s: %d %s", rows[i].word, rc, err.msg);
        pd_options_release(&o);
    }
}

static int section(void *arg, const char *name, int line, struct pd_err *err) {
    (void)err;
    pd_put_fmt(arg, "[%s]@%d\n", name, line);
    return 0;
}

/* inih ends a section's name at the first ]: "[host node[3-5]]" became "host node[3-5", and the
 * rest was dropped silently. */
static void sections_may_hold_brackets(void **state) {
    (void)state;
    struct pd_buf got;
    struct pd_err err = {0};
    pd_buf_init(&got);
    write_conf("[host node[3-5],x[1-2]]  ; see [y]\na = 1\n  b = 2\n[empty]\n[host [fe80::1]] # "
               "z\n c = 3\n   d\n");
    if (pd_ini_read(path, section, note, &got, &err))
        fail_msg("%s", err.msg);
    pd_put_u8(&got, 0);
    assert_string_equal((char *)got.data,
                        "[host node[3-5],x[1-2]]@1\nhost node[3-5],x[1-2].a=1@2\nhost "
                        "node[3-5],x[1-2].b=2@3\n[empty]@4\n"
                        "[host [fe80::1]]@5\nhost [fe80::1].c=3 d@6\n");
    pd_buf_release(&got);
}

static void groups_and_hosts_are_kept(void **state) {
    (void)state;
    struct pd_options o;
    struct pd_err err = {0};
    write_conf("[groups]\nweb = a[1-2],\n  b\n[host a1]\nport = 22\nidentity_file = k\nenv.X = "
               "1\n[host a1]\nenv.X = 2\n");
    assert_int_equal(pd_options_init(&o, NULL), 0);
    if (pd_options_read_conf(&o, path, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(o.conf_dir, "/tmp");
    assert_string_equal(o.groups[0].hosts, "a[1-2], b");
    assert_int_equal(o.n_host_sections, 2);
    assert_string_equal(o.host_sections[0].value[PD_HOST_PORT].text, "22");
    assert_string_equal(o.host_sections[0].value[PD_HOST_IDENTITY_FILE].text, "/tmp/k");
    assert_string_equal(o.host_sections[1].env[0].value, "2");
    assert_non_null(strstr(o.host_sections[1].where, ":8"));
    pd_options_release(&o);
}

static void a_command_keeps_its_own_options(void **state) {
    (void)state;
    static const struct {
        const char *argv[5], *want;
    } rows[] = {
        {{"--seed", "9", "ls", "--seed=1", "-l"}, "ls --seed=1 -l"},
        {{"--seed=9", "--", "ls", "--", "-h"}, "ls -- -h"},
        {{"--seed=9", "ls", "--", "--", "-h"}, "ls -- -- -h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_options o;
        const char *rest[5];
        char got[100] = "";
        int n_rest;
        assert_int_equal(pd_options_init(&o, NULL), 0);
        assert_int_equal(pd_options_command(&o, PD_LAUNCHER, 5, (char **)(uintptr_t)rows[i].argv,
                                            NULL, rest, &n_rest, NULL),
                         0);
        for (int k = 0; k < n_rest; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? " " : "", rest[k]);
        assert_string_equal(got, rows[i].want);
        assert_int_equal(o.seed, 9);
        pd_options_release(&o);
    }
}

/* The texts of --help are valid input: every default passes its own bounds, every name is found,
 * every option has a text. */
static void the_table_is_consistent(void **state) {
    (void)state;
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    struct pd_options o;
    struct pd_buf b;
    pd_buf_init(&b);
    assert_int_equal(pd_options_init(&o, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(t[i].text) > 5 && strlen(t[i].name) < 49);
        pd_buf_clear(&b);
        pd_options_text(&o, i, &b);
        pd_put_u8(&b, 0);
        if (pd_options_set(&o, t[i].who, t[i].section, t[i].name, (char *)b.data, PD_FROM_ARGV,
                           "test", NULL, NULL))
            fail_msg("the default of %s ('%s') is refused", t[i].name, (char *)b.data);
        char full[128];
        snprintf(full, sizeof full, "%s.%s", t[i].section, t[i].name);
        assert_int_equal(pd_options_find(full, t[i].who), i);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(t[i].name, t[j].name) && t[i].who & t[j].who &&
                !strcmp(t[i].section, t[j].section))
                fail_msg("%s is there twice", t[i].name);
    }
    pd_buf_clear(&b);
    pd_options_help(PD_LAUNCHER, NULL, NULL, 80, &b);
    pd_put_u8(&b, 0);
    assert_non_null(strstr((char *)b.data, "  --batch_size=N              samples of one update"));
    assert_non_null(strstr((char *)b.data, "(samples, at"));
    assert_non_null(strstr((char *)b.data, "  --ssh.config=FILE "));
    assert_non_null(strstr(
        (char *)b.data,
        "  --load_missing_parameter_strategy=fail|rand|zero\n                              for "));
    assert_null(strstr((char *)b.data, "trainer_id"));
    char *save = NULL;
    for (char *s = strtok_r((char *)b.data, "\n", &save); s; s = strtok_r(NULL, "\n", &save))
        assert_true(strlen(s) <= 80);
    pd_buf_clear(&b);
    pd_options_help(PD_LAUNCHER, "ssh job", NULL, 80, &b);
    pd_put_u8(&b, 0);
    assert_non_null(strstr((char *)b.data, "[ssh]"));
    assert_non_null(strstr((char *)b.data, "[job]"));
    assert_null(strstr((char *)b.data, "[cluster]"));
    pd_buf_release(&b);
    pd_options_release(&o);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    write_conf("[cluster]\nhosts = a\n[groups]\ng = a\n[host a]\nuser = b\nenv.B = 2\n[env]\nA = "
               "1\n[train]\nconfig = x.ini\n");
    int failed = 0, ok = 0;
    for (int k = 1; k < 200 && !ok; k++) {
        char spec[32];
        struct pd_options o;
        snprintf(spec, sizeof spec, "alloc:%d", k);
        pd_fault_arm(spec);
        int rc = pd_options_init(&o, NULL);
        if (!rc) {
            rc = pd_options_read_conf(&o, path, NULL);
            pd_options_release(&o);
            ok = rc == 0;
        }
        pd_fault_arm(NULL);
        failed += rc != 0;
    }
    assert_true(failed > 10 && ok);
}

int main(void) {
    int fd = mkstemp(path);
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_come_with_their_lines),
        cmocka_unit_test(broken_files_name_the_line),
        cmocka_unit_test(the_higher_source_wins_in_any_order),
        cmocka_unit_test(sections_may_hold_brackets),
        cmocka_unit_test(groups_and_hosts_are_kept),
        cmocka_unit_test(a_command_keeps_its_own_options),
        cmocka_unit_test(wrong_command_lines_are_usage_errors),
        cmocka_unit_test(the_table_is_consistent),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    int rc = cmocka_run_group_tests_name("conf", tests, NULL, NULL);
    unlink(path);
    return rc;
}
