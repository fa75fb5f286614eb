/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_check.c - the verdicts of `paddlectl check` on simulated answers. */
#include <setjmp.h>
#include <cmocka.h>

#include "agent/report/check.h"
#include "launcher/check/check.h"

static json_t *facts(const char *arch, const char *blas, const char *boot, const char *device,
                     double free_mib, const char *why) {
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:I, s:I, s:{s:s, s:s, s:I, s:I, s:I, "
                     "s:s}, s:[i,i], s:s}",
                     "arch", arch, "blas", blas, "boot", boot, "net_id", boot, "cores", 4, "load",
                     0.5, "mem_bytes", (json_int_t)8 << 30, "mem_available", (json_int_t)4 << 30,
                     "open_files", (json_int_t)4096, "root_dir", "path", "/root_dir", "device",
                     device, "free", (json_int_t)(free_mib * 1048576), "inodes",
                     (json_int_t)1000000, "inodes_free", (json_int_t)900000, "error", why, "ports",
                     7164, 7165, "nic_error", "");
}

/* Four good hosts on four machines that reach each other. */
static void good(struct check_node v[4]) {
    static const char *const boots[] = {"a", "b", "c", "d"}, *const names[] = {"n0", "n1", "n2",
                                                                               "n3"};
    memset(v, 0, 4 * sizeof v[0]);
    for (int i = 0; i < 4; i++) {
        v[i] = (struct check_node){
            .name = names[i], .node = i, .needed = 2, .port = 7164, .n_clocks = 5, .rtt_ms = 1};
        v[i].facts = facts("x86_64", "Haswell", boots[i], "1:2", 50000, "");
        v[i].shared = json_array();
        v[i].reached =
            json_pack("[{s:i, s:s, s:s}, {s:i, s:s, s:s}]", "node", (i + 1) % 4, "addr", "10.0.0.1",
                      "why", "", "node", (i + 2) % 4, "addr", "10.0.0.2", "why", "");
    }
}

static void expect_worst(const struct check_node *v, int level, const char *text) {
    assert_int_equal(v->worst, level);
    if (!text) {
        assert_int_equal(v->n_findings, 0);
        return;
    }
    if (!v->n_findings || !strstr(v->findings[0].text, text))
        fail_msg("%s: no '%s' but '%s'", v->name, text, v->n_findings ? v->findings[0].text : "");
}

static void judge(struct check_node v[4]) { check_findings(v, 4, "x86_64"); }

static void replace(struct check_node *v, json_t *f) {
    json_decref(v->facts);
    v->facts = f;
}

static void test_good(void **state) {
    (void)state;
    struct check_node v[4];
    good(v);
    judge(v);
    for (int i = 0; i < 4; i++)
        expect_worst(&v[i], CHECK_NOTE, NULL);
    check_release(v, 4);
}

static void test_one_host(void **state) {
    (void)state;
    struct check_node v[4];
    good(v);
    replace(&v[0], facts("aarch64", "Haswell", "a", "1:2", 50000, ""));
    replace(&v[1], facts("x86_64", "Haswell", "b", "1:2", 10, ""));
    replace(&v[2], facts("x86_64", "Haswell", "c", "1:2", 500, ""));
    replace(&v[3], facts("x86_64", "Zen", "d", "1:2", 50000, ""));
    judge(v);
    expect_worst(&v[0], CHECK_BAD,
                 "its architecture is aarch64, but these programs are for x86_64");
    expect_worst(&v[1], CHECK_BAD, "only 10 MiB are free");
    expect_worst(&v[2], CHECK_WARNING, "only 500 MiB are free");
    expect_worst(&v[3], CHECK_NOTE, "OpenBLAS uses Zen kernels here, Haswell on most hosts");
    replace(&v[0], facts("x86_64", "Haswell", "a", "1:2", 50000,
                         "cannot write in /root_dir: Permission denied"));
    v[1].login_printed = 17;
    v[2].login_ms = 2500;
    v[3].needed = 3;
    replace(&v[1], facts("x86_64", "Haswell", "b", "1:2", 50000, ""));
    replace(&v[2], facts("x86_64", "Haswell", "c", "1:2", 50000, ""));
    judge(v);
    expect_worst(&v[0], CHECK_BAD, "Permission denied");
    expect_worst(&v[1], CHECK_WARNING, "start-up files print 17 bytes");
    expect_worst(&v[2], CHECK_WARNING, "start-up files take 2.5 s");
    expect_worst(&v[3], CHECK_BAD, "only 2 of the 3 ports");
    check_release(v, 4);
}

/* Clocks are compared to within half of the round trip: a slow link is no wrong clock. */
static void test_clocks(void **state) {
    (void)state;
    struct check_node v[4];
    good(v);
    v[0].offset_ms = 1400;
    v[0].rtt_ms = 1000;
    v[1].offset_ms = 1400;
    v[2].offset_ms = -86400e3;
    judge(v);
    expect_worst(&v[0], CHECK_NOTE, NULL);
    expect_worst(&v[1], CHECK_WARNING, "its clock is 1.4 s ahead");
    expect_worst(&v[2], CHECK_WARNING, "its clock is 86400.0 s behind");
    assert_true(strstr(v[2].findings[0].hint, "chrony") != NULL);
    check_release(v, 4);
}

static void test_among(void **state) {
    (void)state;
    struct check_node v[4];
    good(v);
    json_t *miss = json_array_get(v[1].reached, 0); /* node 2 */
    json_object_set_new(miss, "addr", json_string(""));
    json_object_set_new(miss, "why", json_string("10.0.0.1 port 7164: timed out"));
    json_array_append_new(v[3].shared, json_integer(0));
    judge(v);
    expect_worst(&v[2], CHECK_BAD,
                 "1 of 2 nodes that tried could not reach it: n1 (10.0.0.1 port 7164: timed out)");
    expect_worst(&v[3], CHECK_BAD, "it shares root_dir /root_dir with n0");
    expect_worst(&v[0], CHECK_NOTE, NULL);
    /* root_dir does not exist yet: the same device and inode on the same machine */
    replace(&v[1], facts("x86_64", "Haswell", "a", "1:2", 50000, ""));
    judge(v);
    expect_worst(&v[1], CHECK_BAD, "with n0");
    expect_worst(&v[0], CHECK_BAD, "with n1");
    assert_string_equal(v[0].findings[0].hint,
                        "%n in root_dir is the node's id: root_dir = ~/paddle/node%n");
    replace(&v[1], facts("x86_64", "Haswell", "a", "1:3", 50000, ""));
    judge(v);
    expect_worst(&v[1], CHECK_NOTE, NULL);
    check_release(v, 4);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        const char *msg, *hint;
    } rows[] = {
        {"known_hosts:1: HOST KEY CHANGED: a now shows ed25519 X; someone may be listening in. "
         "Connection refused.",
         ""},
        {"cannot connect to port 22: Connection refused", "sshd"},
        {"the host key of node3 (ssh-ed25519 SHA256:x) is not in ~/.ssh/known_hosts",
         "host_key_policy = accept-new"},
        {"authentication failed for user root; tried: nothing", "ssh-copy-id"},
        {"timed out after 60 s while logging in (the shell's start-up files)", "start-up file"},
        {"timed out after 10 s while connecting", "firewall"},
        {"something new", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct check_node v = {.name = "n"};
        pd_fail(&v.err, PD_EHOST, "%s", rows[i].msg);
        check_findings(&v, 1, "x86_64");
        expect_worst(&v, CHECK_BAD, rows[i].msg);
        if (!strstr(v.findings[0].hint, rows[i].hint) || (!*rows[i].hint && *v.findings[0].hint))
            fail_msg("%s: '%s'", rows[i].msg, v.findings[0].hint);
    }
}

static void test_glibc(void **state) {
    (void)state;
    static const char lib[] = "\177ELF\0\0GNU C Library (Debian GLIBC 2.36-9+deb12u4) stable "
                              "release version 2.36.\nCopyright";
    char version[16];
    assert_int_equal(check_glibc_version((const uint8_t *)lib, sizeof lib, version), 0);
    assert_string_equal(version, "2.36");
    /* Truncated at every byte: no read beyond the bounds. */
    for (size_t n = 0; n < sizeof lib; n++) {
        uint8_t *cut = malloc(n + !n);
        memcpy(cut, lib, n);
        (void)check_glibc_version(cut, n, version);
        free(cut);
    }
    assert_int_equal(check_glibc_version((const uint8_t *)"no", 2, version), -1);
}

/* The exact output of start-up files, for every division into reads. */
static void test_login_printed(void **state) {
    (void)state;
    static const struct agent_image img = {.size = 1};
    static const struct {
        const char *before;
        size_t n;
    } rows[] = {{"", 0}, {"hello\n", 6}, {"hello\r\nno newline", 17}, {"\n\n", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t piece = 1; piece < 40; piece++) {
            struct boot b;
            struct pd_buf cmd, in;
            char text[BOOT_LINE];
            size_t used;
            enum boot_event e = BOOT_MORE;
            pd_buf_init(&cmd);
            pd_buf_init(&in);
            assert_int_equal(boot_command(&b, "/r", &img, NULL, -1, 0, &cmd), 0);
            pd_put_fmt(&in, "%s%s more\n%s send plain x86_64\n%s run\n", rows[i].before, b.marker,
                       b.marker, b.marker);
            for (size_t at = 0; at < in.len && e != BOOT_RUN; at += used)
                e = boot_input(&b, in.data + at, in.len - at < piece ? in.len - at : piece, &used,
                               text, sizeof text);
            assert_int_equal(e, BOOT_RUN);
            assert_int_equal(b.printed, rows[i].n);
            pd_buf_release(&cmd);
            pd_buf_release(&in);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),          cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_clocks),        cmocka_unit_test(test_among),
        cmocka_unit_test(test_errors),        cmocka_unit_test(test_glibc),
        cmocka_unit_test(test_login_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
