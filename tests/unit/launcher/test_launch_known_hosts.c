/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_known_hosts.c - verdicts on host keys. ssh-keygen -H wrote the hashed lines. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/ssh/known_hosts.h"
#include "tests/support/c/skip.h"

#define ED1 "AAAAC3NzaC1lZDI1NTE5AAAAIKg6QkTmXDQ4wLjd5Iv+R1rP1xQxgpW5fJ5o6Y9a1111"
#define ED2 "AAAAC3NzaC1lZDI1NTE5AAAAIKg6QkTmXDQ4wLjd5Iv+R1rP1xQxgpW5fJ5o6Y9a2222"
#define EC1 "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFake"

/* Such a pattern must not take exponential time: found by fuzz_known_hosts. */
#define A10 "aaaaaaaaaa"
#define STARS "a*a*a*a*a*a*a*a*a*a*a*a*"

static const char text[] =
    "# a comment\n"
    "\n"
    "plain,10.0.0.1 ssh-ed25519 " ED1 " a comment\n"
    "[ported]:2200 ssh-ed25519 " ED1 "\n"
    "*.example.org,!bad.example.org ssh-ed25519 " ED1 "\n"
    "ecdsa-only ecdsa-sha2-nistp256 " EC1 "\n"
    "@revoked * ssh-ed25519 " ED2 "\n"
    "@cert-authority ca-host ssh-ed25519 " ED1 "\n"
    "two ssh-ed25519 AAAAother\n"
    "two ssh-ed25519 " ED1 "\n"
    "broken-line\n"
    "Upper ssh-ed25519 " ED1 "\n" STARS STARS "b," STARS "c? ssh-ed25519 " ED1 "\n";

static const struct {
    const char *name, *host;
    int port;
    const char *type, *key;
    enum kh_verdict want;
    int line;
} rows[] = {
    {"listed", "plain", 22, "ssh-ed25519", ED1, KH_OK, 3},
    {"second name of a line", "10.0.0.1", 22, "ssh-ed25519", ED1, KH_OK, 3},
    {"case of the host does not matter", "PLAIN", 22, "ssh-ed25519", ED1, KH_OK, 3},
    {"case of the file does not matter", "upper", 22, "ssh-ed25519", ED1, KH_OK, 12},
    {"with port", "ported", 2200, "ssh-ed25519", ED1, KH_OK, 4},
    {"listed for another port only", "ported", 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
    {"listed without a port counts for any", "plain", 2200, "ssh-ed25519", ED1, KH_OK, 3},
    {"pattern", "a.example.org", 22, "ssh-ed25519", ED1, KH_OK, 5},
    {"negated pattern", "bad.example.org", 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
    {"unknown", "other", 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
    {"changed", "plain", 22, "ssh-ed25519", "AAAAnew", KH_CHANGED, 3},
    {"changed on the port", "ported", 2200, "ssh-ed25519", "AAAAnew", KH_CHANGED, 4},
    {"other type", "ecdsa-only", 22, "ssh-ed25519", ED1, KH_OTHER_TYPES, 6},
    {"revoked everywhere", "plain", 22, "ssh-ed25519", ED2, KH_REVOKED, 7},
    {"certificate authorities are not host keys", "ca-host", 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
    {"second line of a host", "two", 22, "ssh-ed25519", ED1, KH_OK, 10},
    {"stars", A10 A10 "cx", 22, "ssh-ed25519", ED1, KH_OK, 13},
    {"stars that fit nothing", A10 A10 A10 A10, 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
    {"a broken line lists nothing", "broken-line", 22, "ssh-ed25519", ED1, KH_UNKNOWN, 0},
};

static char dir[64], file[128];

static int setup(void **state) {
    (void)state;
    pd_fmt(dir, sizeof dir, "/tmp/test-known-hosts-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof file, "%s/sub/known_hosts", dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return pd_rm_tree(dir, NULL);
}

static struct known_hosts *load(const char *path) {
    struct known_hosts *kh;
    struct pd_err err = {0};
    if (known_hosts_load(&kh, &path, 1, &err))
        fail_msg("%s", err.msg);
    return kh;
}

static void test_rows(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/rows", dir);
    assert_int_equal(pd_write_file_atomic(path, text, sizeof text - 1, 0600, NULL), 0);
    struct known_hosts *kh = load(path);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kh_answer a;
        char where[200] = "";
        known_hosts_check(kh, rows[i].host, rows[i].port, rows[i].type, rows[i].key, &a);
        if (rows[i].line)
            snprintf(where, sizeof where, "%s:%d", path, rows[i].line);
        if (a.verdict != rows[i].want || strcmp(a.where, where))
            fail_msg("%s: verdict %d at '%s', want %d at '%s'", rows[i].name, a.verdict, a.where,
                     rows[i].want, where);
    }
    struct kh_answer a;
    known_hosts_check(kh, "ecdsa-only", 22, "ssh-ed25519", ED1, &a);
    assert_string_equal(a.types, "ecdsa-sha2-nistp256");
    known_hosts_free(kh);
}

/* Lines hashed by OpenSSH itself. Skipped if ssh-keygen is missing. */
static void test_hashed(void **state) {
    (void)state;
    char path[128], cmd[600], key[200] = "";
    snprintf(path, sizeof path, "%s/hashed", dir);
    snprintf(cmd, sizeof cmd,
             "cd %s && ssh-keygen -q -t ed25519 -N '' -f k && "
             "{ printf '[h.org]:2200 '; cut -d' ' -f1,2 k.pub; printf 'h.org '; cut -d' ' -f1,2 "
             "k.pub; } > hashed && "
             "ssh-keygen -q -H -f hashed >/dev/null 2>&1 && cut -d' ' -f2 k.pub",
             dir);
    FILE *f = popen(cmd, "r");
    if (!f || !fgets(key, sizeof key, f)) {
        if (f)
            pclose(f);
        SKIP("no ssh-keygen here");
    }
    pclose(f);
    key[strcspn(key, "\n")] = 0;
    struct known_hosts *kh = load(path);
    static const struct {
        const char *host;
        int port, own_key;
        enum kh_verdict want;
    } want[] = {
        {"h.org", 22, 1, KH_OK},      {"H.org", 2200, 1, KH_OK}, {"h.org", 2200, 0, KH_CHANGED},
        {"i.org", 22, 1, KH_UNKNOWN}, {"h.org", 2300, 1, KH_OK}, {"h.org", 2300, 0, KH_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct kh_answer a;
        known_hosts_check(kh, want[i].host, want[i].port, "ssh-ed25519",
                          want[i].own_key ? key : "AAAAnew", &a);
        if (a.verdict != want[i].want)
            fail_msg("%s:%d %d: verdict %d, want %d", want[i].host, want[i].port, want[i].own_key,
                     a.verdict, want[i].want);
    }
    known_hosts_free(kh);
}

static void test_add(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct kh_answer a;
    struct known_hosts *kh = load(file); /* does not exist: empty */
    known_hosts_check(kh, "new", 2200, "ssh-ed25519", ED1, &a);
    assert_int_equal(a.verdict, KH_UNKNOWN);
    for (int i = 0; i < 100; i++) { /* beyond the initial size of the index */
        char host[16];
        snprintf(host, sizeof host, "h%d", i);
        assert_int_equal(known_hosts_add(kh, file, host, 22, "ssh-ed25519", ED1, &err), 0);
    }
    assert_int_equal(known_hosts_add(kh, file, "new", 2200, "ssh-ed25519", ED1, &err), 0);
    known_hosts_check(kh, "new", 2200, "ssh-ed25519", ED1, &a);
    assert_int_equal(a.verdict, KH_OK);
    known_hosts_free(kh);
    kh = load(file);
    known_hosts_check(kh, "new", 2200, "ssh-ed25519", ED1, &a);
    assert_int_equal(a.verdict, KH_OK);
    known_hosts_check(kh, "h77", 22, "ssh-ed25519", "AAAAx", &a);
    assert_int_equal(a.verdict, KH_CHANGED);
    known_hosts_free(kh);
}

/* An editor or a script left the last line without a newline. This line must stay unchanged, and
 * our line must be separate. */
static void test_add_after_an_unfinished_line(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct kh_answer a;
    char path[128];
    static const char old[] = "old ssh-ed25519 " ED1;
    snprintf(path, sizeof path, "%s/unfinished", dir);
    assert_int_equal(pd_write_file_atomic(path, old, sizeof old - 1, 0600, NULL), 0);
    struct known_hosts *kh = load(path);
    assert_int_equal(known_hosts_add(kh, path, "new", 22, "ssh-ed25519", ED2, &err), 0);
    known_hosts_free(kh);
    kh = load(path);
    known_hosts_check(kh, "old", 22, "ssh-ed25519", ED1, &a);
    assert_int_equal(a.verdict, KH_OK);
    known_hosts_check(kh, "new", 22, "ssh-ed25519", ED2, &a);
    assert_int_equal(a.verdict, KH_OK);
    known_hosts_free(kh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_after_an_unfinished_line),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_hashed),
        cmocka_unit_test(test_add),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
