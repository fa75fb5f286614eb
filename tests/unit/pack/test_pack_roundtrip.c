/* test_pack_roundtrip.c - what goes into a package comes out of it: names, modes, times, links; the
 * same tree gives the same bytes; refusals; damaged streams and failing memory leave nothing
 * behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault_point.h"
#include "base/fs.h"
#include "math/hash.h"
#include "base/str.h"
#include "pack/pack.h"
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
    setlocale(LC_ALL, "C");
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

static int to_buf(void *arg, const void *p, size_t n, struct pd_err *err) {
    pd_put(arg, p, n);
    return ((struct pd_buf *)arg)->failed ? pd_fail(err, PD_ENOMEM, "sink: out of memory") : 0;
}

static int unpack(struct env *e, const struct pd_buf *b, struct pack_result *res,
                  struct pd_err *err) {
    struct pack_spool *s;
    struct pack_result r = *res;
    int rc = pack_spool_new(&s, e->dir, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < b->len && !rc; i += 1000) /* odd pieces, as frames would bring them */
        rc = pack_spool_write(s, b->data + i, b->len - i < 1000 ? b->len - i : 1000, err);
    if (!rc)
        rc = pack_spool_verify(s, r.sha256, r.packed, err);
    if (!rc)
        rc = pack_spool_extract(s, e->dst, NULL, res, err);
    pack_spool_free(s);
    return rc;
}

/* No "*.part-*", no spool file: only these names are in the folder. */
static void only_there(const char *dir, const char *a, const char *b) {
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, a) &&
            (!b || strcmp(e->d_name, b)))
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

/* Names, types, modes, mtimes (ns), link targets and contents, by find and diff. */
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

/* sshd gives the C locale, in which libarchive by itself stumbles over names that are not ASCII. */
static void any_name_survives_in_any_locale(void **state) {
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (size_t i = 0; i < 2; i++) {
        struct env *e = *state;
        if (!setlocale(LC_ALL, locales[i])) {
            print_message("skipped: no locale %s\n", locales[i]);
            continue;
        }
        if (!i)
            make_tree(e->src);
        struct pd_buf b;
        pd_buf_init(&b);
        struct pack_result res;
        struct pd_err err = {0};
        if (pack_tree(e->src, 0, to_buf, &b, &res, &err) || unpack(e, &b, &res, &err))
            fail_msg("%s: %s", locales[i], err.msg);
        assert_int_equal(res.packed, b.len);
        assert_same_tree(e->src, e->dst);
        only_there(e->dir, "src", "dst");
        run("chmod -R u+rwx %s; rm -rf %s", e->dst, e->dst);
        pd_buf_release(&b);
    }
}

static void same_tree_same_bytes(void **state) {
    struct env *e = *state;
    make_tree(e->src);
    struct pack_result a, b, c;
    struct pd_buf x;
    struct pd_err err = {0};
    char copy[200];
    snprintf(copy, sizeof copy, "%s/copy", e->dir);
    assert_int_equal(run("cp -a %s %s", e->src, copy),
                     0); /* other inodes, other order in the folder */
    pd_buf_init(&x);
    assert_int_equal(pack_tree(e->src, 0, to_buf, &x, &a, &err), 0);
    assert_int_equal(pack_tree(copy, 0, to_buf, &x, &b, &err), 0);
    assert_string_equal(a.sha256, b.sha256);
    put(copy, "plain", "hellp\n", 0644);
    assert_int_equal(pack_tree(copy, 0, to_buf, &x, &c, &err), 0);
    assert_string_not_equal(a.sha256, c.sha256);
    pd_buf_release(&x);
    run("chmod -R u+rwx %s", copy);
}

/* GNU tar's own formats go in, and GNU tar reads what comes out. */
static void agrees_with_tar(void **state) {
    struct env *e = *state;
    make_tree(e->src);
    char file[200];
    snprintf(file, sizeof file, "%s/t.tar", e->dir);
    if (system("command -v zstd >/dev/null")) {
        print_message("skipped: reading our package with tar: no zstd program here\n");
        return;
    }
    struct pd_buf b;
    pd_buf_init(&b);
    struct pack_result res;
    struct pd_err err = {0};
    assert_int_equal(pack_tree(e->src, 0, to_buf, &b, &res, &err), 0);
    assert_int_equal(pd_write_file_atomic(file, b.data, b.len, 0644, &err), 0);
    assert_int_equal(mkdir(e->dst, 0755), 0);
    assert_int_equal(
        run("zstd -dc %s | tar --warning=no-unknown-keyword --delay-directory-restore -C %s -xpf -",
            file, e->dst),
        0);
    assert_same_tree(e->src, e->dst);
    pd_buf_release(&b);
}

static void pack_refuses_what_cannot_travel(void **state) {
    struct env *e = *state;
    static const struct {
        const char *name, *make, *says;
    } rows[] = {
        {"fifo", "mkfifo x", "not a regular file"},
        {"absolute link", "ln -s /etc/passwd x", "leads out of the tree"},
        {"link above", "ln -s ../../x x", "leads out of the tree"},
        {"dotdot behind a name", "ln -s a/../../x x", "'..' behind a name"},
        {"set-uid", "cp /bin/true x && chmod 4755 x", "set-id bit"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pd_buf b;
        pd_buf_init(&b);
        struct pack_result res;
        struct pd_err err = {0};
        assert_int_equal(run("cd %s && %s", e->src, rows[i].make), 0);
        int rc = pack_tree(e->src, 0, to_buf, &b, &res, &err);
        if (!rc || !strstr(err.msg, rows[i].says) || !strstr(err.msg, "/src/"))
            fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
        struct pd_err none = {0};
        rc = pack_tree(e->src, PACK_OUTPUTS, to_buf, &b, &res, &none);
        if (rc || res.skipped != 1)
            fail_msg("%s: outputs: %d %u %s", rows[i].name, rc, res.skipped, none.msg);
        pd_buf_release(&b);
        run("rm -rf %s/x %s/d", e->src, e->src);
    }
    struct pd_err err = {0};
    struct pack_result res;
    assert_int_equal(pack_tree("/nonexistent/ws", 0, to_buf, NULL, &res, &err), PD_ENOENT);
    assert_non_null(strstr(err.msg, "/nonexistent/ws"));
}

enum { LOG_BYTES = 6 << 20 };

struct shrinks {
    struct pd_buf b;
    char file[200];
    int done;
};

/* While the first bytes of the package leave, the job cuts its file. */
static int shrink(void *arg, const void *p, size_t n, struct pd_err *err) {
    struct shrinks *s = arg;
    if (!s->done && s->b.len > LOG_BYTES / 4) {
        s->done = 1;
        assert_int_equal(truncate(s->file, 0), 0);
    }
    return to_buf(&s->b, p, n, err);
}

/* The outputs of a job that still runs: what changes or may not be read is named, and all else
 * travels. */
static void outputs_that_move_are_fetched(void **state) {
    struct env *e = *state;
    struct shrinks s = {0};
    struct pack_result res;
    struct pd_err err = {0};
    char dst[400];
    uint8_t *random = malloc(LOG_BYTES);
    struct stat st;
    pd_buf_init(&s.b);
    snprintf(s.file, sizeof s.file, "%s/log", e->src);
    for (uint64_t i = 0; i < LOG_BYTES;
         i++) /* not to be compressed: then there is no pause to cut it in */
        random[i] = (uint8_t)pd_mix64(i);
    assert_int_equal(pd_write_file_atomic(s.file, random, LOG_BYTES, 0644, NULL), 0);
    free(random);
    put(e->src, "model/secret/part", "x", 0600);
    put(e->src, "model/whole", "model", 0644);
    put(e->src, "zz", "last", 0000);
    assert_int_equal(run("chmod 0 %s/model/secret", e->src), 0);
    int may_read = geteuid() == 0; /* root reads all */
    if (pack_tree(e->src, PACK_OUTPUTS, shrink, &s, &res, &err))
        fail_msg("%s", err.msg);
    assert_true(s.done);
    assert_int_equal(res.skipped, may_read ? 1 : 3);
    assert_non_null(strstr(res.first_skipped, "log: it became shorter"));
    if (unpack(e, &s.b, &res, &err))
        fail_msg("%s", err.msg);
    snprintf(dst, sizeof dst, "%s/log", e->dst);
    assert_int_equal(stat(dst, &st), 0);
    assert_int_equal(st.st_size, LOG_BYTES);
    snprintf(dst, sizeof dst, "%s/model/whole", e->dst);
    assert_int_equal(stat(dst, &st), 0);
    pd_buf_release(&s.b);
}

/* Cut anywhere, or with any bit flipped: an error, and nothing left. (The hash would have caught
 * both before.) */
static void damaged_streams_leave_nothing(void **state) {
    struct env *e = *state;
    make_tree(e->src);
    struct pd_buf b;
    pd_buf_init(&b);
    struct pack_result res;
    struct pd_err err = {0};
    assert_int_equal(pack_tree(e->src, 0, to_buf, &b, &res, &err), 0);
    char file[200];
    snprintf(file, sizeof file, "%s/cut", e->dir);
    for (size_t n = 0; n < b.len + 200; n += 7) {
        int flip = n >= b.len;
        int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
        size_t at = flip ? (n - b.len) * 13 % b.len : 0;
        b.data[at] ^= flip ? 0x10 : 0;
        assert_int_equal(pd_write_all(fd, b.data, flip ? b.len : n), 0);
        b.data[at] ^= flip ? 0x10 : 0;
        lseek(fd, 0, SEEK_SET);
        struct pd_err why = {0};
        int rc = pack_extract(fd, e->dst, NULL, NULL, &why);
        close(fd);
        /* what is cut off behind the last entry's data may be nothing but the end mark */
        if (rc == 0)
            run("chmod -R u+rwx %s; rm -rf %s", e->dst, e->dst);
        else if (!why.msg[0])
            fail_msg("no message at %zu", n);
        only_there(e->dir, "src", "cut");
    }
    struct pack_spool *s;
    assert_int_equal(pack_spool_new(&s, e->dir, &err), 0);
    assert_int_equal(pack_spool_write(s, b.data, b.len - 1, &err), 0);
    assert_int_equal(pack_spool_verify(s, res.sha256, b.len - 1, &err), PD_EDATA);
    assert_int_equal(pack_spool_extract(s, e->dst, NULL, NULL, NULL), PD_EDATA);
    pack_spool_free(s);
    pd_buf_release(&b);
}

static void every_allocation_fails_once(void **state) {
    struct env *e = *state;
    put(e->src, "a/b/c", "x", 0644);
    int n, passed = 0;
    for (n = 1; n < 200 && !passed; n++) {
        struct pd_buf b;
        pd_buf_init(&b);
        struct pack_result res = {0};
        struct pd_err err = {0};
        char spec[32];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = pack_tree(e->src, 0, to_buf, &b, &res, &err);
        if (!rc)
            rc = unpack(e, &b, &res, &err);
        pd_fault_arm(NULL);
        if (rc && (rc != PD_ENOMEM || !err.msg[0]))
            fail_msg("allocation %d: %d %s", n, rc, err.msg);
        passed = !rc;
        only_there(e->dir, "src", rc ? NULL : "dst");
        pd_buf_release(&b);
    }
    assert_true(n > 5 && passed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_name_survives_in_any_locale, setup, teardown),
        cmocka_unit_test_setup_teardown(same_tree_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(agrees_with_tar, setup, teardown),
        cmocka_unit_test_setup_teardown(pack_refuses_what_cannot_travel, setup, teardown),
        cmocka_unit_test_setup_teardown(outputs_that_move_are_fetched, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_streams_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_fails_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
