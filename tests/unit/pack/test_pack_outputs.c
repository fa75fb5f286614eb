/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_outputs.c - a folder is fetched from a node: names, modes, times, links. Contents of an
 * earlier fetch are not sent again. The folder may change meanwhile. Entries that can't be sent are
 * counted. Failed allocations leave no files. */
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>

#include "math/hash.h"
#include "pack/scan/scan.h"
#include "pack/store/assemble.h"
#include "tests/support/c/append.h"

struct env {
    char dir[64], src[128], dst[128];
};

static int setup(void **state) {
    struct env *e = calloc(1, sizeof *e);
    pd_fmt(e->dir, sizeof e->dir, "/tmp/pack-test-XXXXXX");
    assert_non_null(mkdtemp(e->dir));
    snprintf(e->src, sizeof e->src, "%s/src", e->dir);
    snprintf(e->dst, sizeof e->dst, "%s/dst", e->dir);
    assert_int_equal(mkdir(e->src, 0755), 0);
    *state = e;
    return 0;
}

static int teardown(void **state) {
    struct env *e = *state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "chmod -R u+rwx %s", e->dir);
    int rc = system(cmd);
    pd_rm_tree(e->dir, NULL);
    free(e);
    pd_fault_arm(NULL);
    return rc;
}

static void put(const char *dir, const char *name, const char *text, mode_t mode) {
    char p[4200];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    for (char *s = p + strlen(dir) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(p, 0755);
        *s = '/';
    }
    int fd = open(p, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void put_link(const char *dir, const char *name, const char *target) {
    char p[300];
    snprintf(p, sizeof p, "%s/%s", dir, name);
    assert_int_equal(symlink(target, p), 0);
}

/* The folder has only these names and names with a dot, so no "*.part-*". */
static void only_there(const char *dir, const char *a, const char *b) {
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)))
        if (*e->d_name != '.' && strcmp(e->d_name, a) && (!b || strcmp(e->d_name, b)))
            fail_msg("left behind: %s/%s", dir, e->d_name);
    closedir(d);
}

__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...) {
    char cmd[600];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(cmd, sizeof cmd, fmt, ap);
    va_end(ap);
    assert_true(n > 0 && (size_t)n < sizeof cmd);
    return system(cmd);
}

/* Compares names, types, modes, mtimes (ns), link targets and contents, by find and diff. */
static void assert_same_tree(const char *a, const char *b) {
    assert_int_equal(run("diff -r --no-dereference %s %s", a, b), 0);
    for (int i = 0; i < 2; i++) {
        const char *dir = i ? b : a;
        assert_int_equal(run("cd %s && find . -mindepth 1 -printf '%%y %%m %%T@ %%P -> %%l\\0' | "
                             "LC_ALL=C sort -z > %s.list",
                             dir, dir),
                         0);
    }
    assert_int_equal(run("cmp %s.list %s.list", a, b), 0);
    run("rm -f %s.list %s.list", a, b);
}

static void make_tree(const char *d) {
    char deep[600] = "deep";
    for (int i = 0; i < 20; i++)
        append(deep, sizeof deep, "/twenty-characters-xx");
    append(deep, sizeof deep, "/f");
    char longname[220];
    memset(longname, 'n', 200);
    longname[200] = 0;
    put(d, "plain", "hello\n", 0644);
    put(d, "exec.sh", "#!/bin/sh\n", 0755);
    put(d, "secret", "x", 0400);
    put(d, "empty", "", 0644);
    put(d, "sub/b", "b", 0600);
    put(d, "readonly/inside", "r", 0444);
    put(d, deep, "deep", 0644);
    put(d, longname, "long", 0644);
    put(d,
        "gr\xc3\xbc\xc3\x9f"
        "e",
        "utf-8", 0644);
    put(d,
        "bad\xff\xfe"
        "name",
        "not utf-8", 0644);
    put(d, "new\nline and blank", "n", 0644);
    put(d, "-dash", "d", 0644);
    char p[300];
    snprintf(p, sizeof p, "%s/emptydir", d);
    mkdir(p, 0711);
    chmod(p, 0711);
    put_link(d, "link", "plain");
    put_link(d, "sub/up", "../sub/b");
    put_link(d, "dangling", "not/there");
    put_link(d, "l\xff",
             "bad\xff\xfe"
             "name");
    snprintf(p, sizeof p, "%s/readonly", d);
    chmod(p, 0555);
    const struct timespec t[2] = {{1500000000, 5}, {1500000000, 123456789}};
    snprintf(p, sizeof p, "%s/plain", d);
    assert_int_equal(utimensat(AT_FDCWD, p, t, 0), 0);
    snprintf(p, sizeof p, "%s/link", d);
    assert_int_equal(utimensat(AT_FDCWD, p, t, AT_SYMLINK_NOFOLLOW), 0);
}

/* Writes `n` bytes that can't be compressed. */
static void put_random(const char *dir, const char *name, uint64_t seed, size_t n) {
    char p[300];
    uint64_t *b = malloc(n + 8);
    for (size_t i = 0; i <= n / 8; i++)
        b[i] = pd_mix64(seed * 1000003 + i);
    snprintf(p, sizeof p, "%s/%s", dir, name);
    assert_int_equal(pd_write_file_atomic(p, b, n, 0644, NULL), 0);
    free(b);
}

static int scan_outputs(struct scan **s, const char *dir, struct pd_err *err) {
    int rc = scan_new_folder(s, dir, SCAN_OUTPUTS | SCAN_ALONE, err);
    if (rc)
        return rc;
    if ((rc = scan_run(*s, err))) {
        scan_free(*s);
        *s = NULL;
    }
    return rc;
}

/* The state of a fetch. */
struct bring {
    const char *old;
    struct assemble *a; /* of the previous round, which was stopped */
    struct store *st;
    uint64_t stop_after; /* stop after so many bytes; 0: never */
    uint64_t bytes;      /* bytes of sent contents */
};

/* One round: fetches the scanned folder to e->dst. */
static int bring(const struct env *e, struct bring *b, struct scan *s, struct pd_err *err) {
    const struct assemble_opts o = {
        .root = e->dir, .target = e->dst, .old = b->old, .old_suffix = ".node-1", .before = b->a};
    static uint8_t buf[OBJECT_MAX];
    struct object_id id, need[64];
    size_t n;
    const uint8_t *root = scan_root(s, &id, &n);
    b->a = NULL;
    int rc = b->st ? 0 : store_open(&b->st, e->dir, err);
    if (rc)
        assemble_free(o.before);
    else
        rc = assemble_new(&b->a, b->st, &o, root, n, err);
    while (!rc && !assemble_complete(b->a)) {
        rc = assemble_step(b->a, 100, err);
        rc = rc > 0 ? 0 : rc;
        n = rc ? 0 : assemble_need(b->a, need, 64);
        for (size_t i = 0; i < n && !rc; i++) {
            uint32_t len;
            long k = scan_find(s, &need[i]);
            assert_true(k >= 0);
            rc = scan_read(s, k, buf, &len, err);
            if (!rc)
                rc = assemble_put(b->a, &need[i], buf, len, err);
            b->bytes += len;
        }
        if (!rc && b->stop_after && b->bytes >= b->stop_after)
            return 0;
    }
    if (!rc)
        rc = assemble_finish(b->a, err);
    assemble_free(b->a);
    store_close(b->st);
    b->a = NULL;
    b->st = NULL;
    return rc;
}

static uint64_t must_bring(const struct env *e, const char *old) {
    struct bring b = {.old = old};
    struct scan *s = NULL;
    struct pd_err err = {0};
    if (scan_outputs(&s, e->src, &err) || bring(e, &b, s, &err))
        fail_msg("%s", err.msg);
    scan_free(s);
    only_there(e->dir, "src", "dst");
    return b.bytes;
}

static void everything_comes_back(void **state) {
    struct env *e = *state;
    make_tree(e->src);
    /* Has no effect here: its rules are for workspaces. */
    put(e->src, ".paddleignore", "plain\n", 0644);
    put(e->src, ".git/HEAD", "x", 0644);
    put(e->src, "output/f", "x", 0644);
    must_bring(e, NULL);
    assert_same_tree(e->src, e->dst);
}

static void what_cannot_travel_is_counted(void **state) {
    struct env *e = *state;
    static const struct {
        const char *make, *says;
    } rows[] = {
        {"mkfifo x", "x: not a regular file"},
        {"ln -s /etc/passwd x", "leads out of the tree"},
        {"ln -s ../../x x", "leads out of the tree"},
        {"ln -s a/../../x x", "'..' behind a name"},
        {"cp /bin/true x && chmod 4755 x", "set-id bit"},
        {"echo >x; chmod 0 x", "may not be read"},
        {"mkdir x; echo >x/y; chmod 0 x", "may not be read"},
    };
    put(e->src, "a", "a", 0644);
    put(e->src, "z", "z", 0644);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scan_totals t;
        struct scan *s = NULL;
        struct pd_err err = {0};
        assert_int_equal(run("cd %s && %s", e->src, rows[i].make), 0);
        if (scan_outputs(&s, e->src, &err))
            fail_msg("%s: %s", rows[i].make, err.msg);
        scan_get_totals(s, &t);
        int all = geteuid() == 0 && strstr(rows[i].says, "be read"); /* root can read every file */
        if (t.skipped != !all || (!all && !strstr(scan_first_skipped(s), rows[i].says)))
            fail_msg("%s: %d %s", rows[i].make, (int)t.skipped, scan_first_skipped(s));
        struct bring b = {.old = NULL};
        if (bring(e, &b, s, &err))
            fail_msg("%s: %s", rows[i].make, err.msg);
        assert_int_equal(run("cd %s && cmp a ../src/a && cmp z ../src/z", e->dst), 0);
        scan_free(s);
        run("chmod -R u+rwx %s %s; rm -rf %s %s/x", e->src, e->dst, e->dst, e->src);
    }
    struct pd_err err = {0};
    struct scan *s = NULL;
    assert_int_equal(scan_new_folder(&s, "/nonexistent/out", SCAN_OUTPUTS, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/out"));
}

/* Contents of an earlier fetch are not requested again if they are at the same place in the same
 * file. The file has its own name, or that name with its node's suffix. */
static void only_what_has_changed_travels_again(void **state) {
    struct env *e = *state;
    char old[200];
    snprintf(old, sizeof old, "%s/.old", e->dir);
    for (uint64_t i = 0; i < 40; i++) {
        char name[20];
        snprintf(name, sizeof name, "f%d", (int)i);
        put_random(e->src, name, i, 5000 + 100 * i);
    }
    put_random(e->src, "log", 100, 3000000);
    put_random(e->src, "both", 101, 70000);
    assert_true(must_bring(e, NULL) > 3000000);
    assert_int_equal(
        run("mv %s %s && cd %s && mv both both.node-1 && echo another >both", e->dst, old, old), 0);
    uint64_t same = must_bring(e, old);
    assert_true(same < 40000); /* only the manifest */
    assert_same_tree(e->src, e->dst);
    run("rm -rf %s", e->dst);
    assert_int_equal(run("cd %s && echo more >>log && rm f1", e->src), 0);
    put_random(e->src, "f2", 1002, 6000);
    /* Entries that are no files, or can't be read, are not used. */
    assert_int_equal(run("cd %s && rm f3 f4 f5 && mkdir f3 && mkfifo f4 && ln -s f6 f5", old), 0);
    uint64_t some = must_bring(e, old);
    assert_true(some > 6000 && some - same < 200000);
    assert_same_tree(e->src, e->dst);
}

/* A file that changes between the scan and the reading is noticed. The next round fetches it, and
 * contents of earlier rounds are not sent again. */
static void a_folder_that_changes_needs_another_round(void **state) {
    struct env *e = *state;
    struct bring b = {.stop_after = 1500000};
    struct scan *s = NULL;
    struct pd_err err = {0};
    put_random(e->src, "a", 1, 1000000);
    put_random(e->src, "b", 2, 1000000);
    put_random(e->src, "c", 3, 1000000);
    put_random(e->src, "d", 4, 3000);
    assert_int_equal(scan_outputs(&s, e->src, &err), 0);
    if (bring(e, &b, s, &err))
        fail_msg("%s", err.msg);
    put_random(e->src, "c", 33, 1100000);
    put(e->src, "d", "d", 0644);
    b.stop_after = 0;
    struct bring rest = b;
    rest.a = NULL;
    rest.st = NULL;
    assert_int_equal(bring(e, &rest, s, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "/c changed while it was sent"));
    pd_err_clear(&err);
    scan_free(s);
    for (int round = 2; round < 4; round++) { /* stopped once more, then run to its end */
        assert_int_equal(scan_outputs(&s, e->src, &err), 0);
        b.stop_after = round == 2 ? b.bytes + 600000 : 0;
        if (bring(e, &b, s, &err))
            fail_msg("round %d: %s", round, err.msg);
        scan_free(s);
    }
    assert_same_tree(e->src, e->dst);
    only_there(e->dir, "src", "dst");
    assert_true(b.bytes > 3100000 && b.bytes < 3800000);
}

struct writer {
    char file[200];
    atomic_int stop;
};

static void *append_on(void *arg) {
    struct writer *w = arg;
    int fd = open(w->file, O_WRONLY | O_APPEND);
    while (!atomic_load(&w->stop) && write(fd, "a line\n", 7) == 7)
        ;
    close(fd);
    return NULL;
}

/* As for the logs of a running job. */
static void a_file_that_grows_is_taken_as_it_was(void **state) {
    struct env *e = *state;
    struct writer w = {.stop = 0};
    struct scan_totals t;
    struct scan *s = NULL;
    struct pd_err err = {0};
    struct bring b = {.old = NULL};
    pthread_t thread;
    put_random(e->src, "log", 1, 4000000);
    snprintf(w.file, sizeof w.file, "%s/log", e->src);
    assert_int_equal(pthread_create(&thread, NULL, append_on, &w), 0);
    int rc = scan_outputs(&s, e->src, &err);
    rc = rc ? rc : bring(e, &b, s, &err);
    atomic_store(&w.stop, 1);
    pthread_join(thread, NULL);
    if (rc)
        fail_msg("%s", err.msg);
    scan_get_totals(s, &t);
    assert_int_equal(t.skipped, 0);
    scan_free(s);
    assert_int_equal(run("n=$(stat -c %%s %s/log) && [ $n -ge 4000000 ] && cmp -n $n %s/log %s/log",
                         e->dst, e->dst, e->src),
                     0);
}

static void every_allocation_fails_once(void **state) {
    struct env *e = *state;
    put(e->src, "a/b/c", "x", 0644);
    int n, passed = 0;
    for (n = 1; n < 200 && !passed; n++) {
        struct bring b = {.old = e->src};
        struct scan *s = NULL;
        struct pd_err err = {0};
        char spec[32];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = scan_outputs(&s, e->src, &err);
        if (!rc)
            rc = bring(e, &b, s, &err);
        pd_fault_arm(NULL);
        scan_free(s);
        if (rc && (rc != PD_ENOMEM || !err.msg[0]))
            fail_msg("allocation %d: %d %s", n, rc, err.msg);
        passed = !rc;
        only_there(e->dir, "src", rc ? NULL : "dst");
    }
    assert_true(n > 5 && passed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_travel_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_has_changed_travels_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_changes_needs_another_round, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_grows_is_taken_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_fails_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
