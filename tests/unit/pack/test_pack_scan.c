/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_scan.c - a tree becomes a package. The manifest names every entry, and the objects give
 * every byte. The same tree has the same root as a folder and as an archive. Also tests entries
 * that can't be sent, archives of all kinds, and failed allocations. */
#include <setjmp.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "math/hash.h"
#include "pack/scan/scan.h"
#include "tests/support/c/scan_env.h"

/* --- reading a package like a node --- */

struct reading {
    const struct scan *s;
    const struct env *e; /* NULL: read without comparing */
    char file[PATH_MAX];
    uint64_t size, next;
    int fd;
    size_t n_entries, n_extents;
    const uint8_t *raw;
};

static void end_file(struct reading *r) {
    if (r->fd < 0)
        return;
    char b[4096];
    for (uint64_t at = r->next; at < r->size; at += sizeof b) { /* a hole at the end */
        ssize_t k = pread(r->fd, b, sizeof b, (off_t)at);
        assert_true(k > 0);
        for (ssize_t i = 0; i < k; i++)
            assert_int_equal(b[i], 0);
    }
    close(r->fd);
    r->fd = -1;
}

static int on_entry(void *arg, const struct manifest_entry *m, struct pd_err *err) {
    struct reading *r = arg;
    struct stat st;
    char path[PATH_MAX], target[PATH_MAX];
    (void)err;
    end_file(r);
    r->n_entries++;
    if (!r->e)
        return 0;
    snprintf(path, sizeof path, "%s/%s", r->e->src, m->path);
    if (lstat(path, &st))
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(m->mtime_ns, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec);
    if (m->type == MANIFEST_LINK) {
        ssize_t n = readlink(path, target, sizeof target - 1);
        assert_true(S_ISLNK(st.st_mode) && n >= 0);
        target[n] = 0;
        assert_string_equal(m->target, target);
        return 0;
    }
    assert_int_equal(m->mode, st.st_mode & 01777);
    if (m->type == MANIFEST_FOLDER) {
        assert_true(S_ISDIR(st.st_mode));
        return 0;
    }
    assert_int_equal(m->size, st.st_size);
    r->size = m->size;
    r->next = 0;
    r->fd = open(path, O_RDONLY);
    assert_true(r->fd >= 0);
    return 0;
}

static int on_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct reading *r = arg;
    static uint8_t buf[OBJECT_MAX], file[OBJECT_MAX];
    uint32_t n;
    long o = scan_find(r->s, &x->id);
    r->n_extents++;
    assert_true(o >= 0);
    assert_int_equal(scan_raw_len(r->s, o), x->raw_len);
    if (scan_read(r->s, o, buf, &n, err))
        fail_msg("%s", err->msg);
    assert_int_equal(n, x->raw_len);
    if (!r->e)
        return 0;
    for (; r->next < x->file_off; r->next++) { /* a hole */
        char c;
        assert_int_equal(pread(r->fd, &c, 1, (off_t)r->next), 1);
        assert_int_equal(c, 0);
    }
    assert_int_equal(pread(r->fd, file, x->len, (off_t)x->file_off), x->len);
    assert_memory_equal(file, buf + x->obj_off, x->len);
    r->next = x->file_off + x->len;
    return 0;
}

static void read_node(struct reading *r, struct manifest_reader *reader,
                      const struct manifest_node *node) {
    static const struct manifest_events ev = {on_entry, on_extent};
    struct pd_err err = {0};
    uint8_t *raw = malloc(OBJECT_MAX);
    struct manifest_node *child = malloc(sizeof *child);
    for (unsigned i = 0; i < node->n; i++) {
        uint32_t n;
        long o = scan_find(r->s, &node->child[i].id);
        assert_true(o >= 0);
        if (scan_read(r->s, o, raw, &n, &err))
            fail_msg("%s", err.msg);
        if (node->level == 1) {
            if (manifest_read_leaf(reader, raw, n, &ev, r, &err))
                fail_msg("%s", err.msg);
        } else {
            assert_int_equal(manifest_read_index(child, node->level - 1, raw, n, &err), 0);
            read_node(r, reader, child);
        }
    }
    free(raw);
    free(child);
}

/* Reads the whole package; with `e`, compares it with the folder. Returns the number of entries. */
static size_t read_package(const struct scan *s, const struct env *e) {
    struct reading r = {.s = s, .e = e, .fd = -1};
    struct object_id id, real;
    struct manifest_reader *reader;
    struct manifest_node *root = malloc(sizeof *root);
    struct pd_err err = {0};
    size_t n;
    const uint8_t *raw = scan_root(s, &id, &n);
    object_id_of(&real, raw, n);
    assert_true(object_same(&id, &real));
    if (manifest_read_root(root, raw, n, &err) || manifest_reader_new(&reader, root, &err))
        fail_msg("%s", err.msg);
    read_node(&r, reader, root);
    end_file(&r);
    if (manifest_reader_end(reader, &err))
        fail_msg("%s", err.msg);
    manifest_reader_free(reader);
    struct scan_totals t;
    scan_get_totals(s, &t);
    assert_int_equal(t.entries, r.n_entries);
    free(root);
    return r.n_entries;
}

static struct object_id root_of(const char *path) {
    struct scan *s = scanned(path);
    struct object_id id;
    size_t n;
    scan_root(s, &id, &n);
    scan_free(s);
    return id;
}

/* --- tests --- */

static void make_tree(const struct env *e) {
    assert_int_equal(run("cd %s && mkdir -p a/b/empty 'd x' && printf hello >a/b/f && : >zero && "
                         "ln -s b/f a/link && printf x >\"$(printf 'new\\nline')\" && "
                         "printf y >\"$(printf '\\377\\376')\" && printf q >\"d x/'q\\\"\" && "
                         "chmod 700 a/b && chmod 444 a/b/f && "
                         "touch -d '2001-02-03 04:05:06.123456789' a/b/f a && truncate -s 5M "
                         "sparse && printf end >>sparse && "
                         "printf mid | dd of=sparse bs=1 seek=1000000 conv=notrunc status=none",
                         e->src),
                     0);
    put_bytes(e, "large", 1, 3 << 20);
    put_bytes(e, "medium", 2, 40000);
    for (unsigned i = 0; i < 300; i++) {
        char name[30];
        snprintf(name, sizeof name, "d x/s%03u", i);
        put_bytes(e, name, 100 + i, i * 37 % 9000);
    }
}

static void package_is_the_tree(void **state) {
    struct env *e = *state;
    make_tree(e);
    struct scan *s = scanned(e->src);
    assert_int_equal(read_package(s, e), 313);
    struct scan_totals t;
    scan_get_totals(s, &t);
    assert_true(t.objects < 600 && t.object_bytes < 6 << 20); /* bundles; a hole is no bytes */
    scan_free(s);
}

/* A copy has other inodes and another order on disk; an archive has what the folder has. */
static void same_tree_same_root(void **state) {
    struct env *e = *state;
    make_tree(e);
    assert_int_equal(run("chmod 755 %s/a/b && cp -a --sparse=always %s %s/copy && cd %s && rm "
                         "copy/large && cp -p src/large copy/large && "
                         "touch -r src copy",
                         e->src, e->src, e->dir, e->dir),
                     0);
    char copy[200], tar[200];
    snprintf(copy, sizeof copy, "%s/copy", e->dir);
    struct object_id a = root_of(e->src), b = root_of(copy);
    assert_true(object_same(&a, &b));
    static const char *const how[] = {"--format=pax -cSf", "--format=pax -zcSf",
                                      "--format=pax --sort=none -cSf"};
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        snprintf(tar, sizeof tar, "%s/t%zu.tar", e->dir, i);
        assert_int_equal(run("cd %s && LC_ALL=C tar %s %s .", e->src, how[i], tar), 0);
        b = root_of(tar);
        if (!object_same(&a, &b))
            fail_msg("tar %s", how[i]);
    }
    assert_int_equal(run("printf z >>%s/medium", e->src), 0);
    b = root_of(e->src);
    assert_false(object_same(&a, &b));
}

static size_t n_new_objects(const struct scan *before, const struct scan *after, uint64_t *bytes) {
    struct scan_totals t;
    size_t n = 0;
    scan_get_totals(after, &t);
    *bytes = 0;
    for (long o = 0; o < (long)t.objects; o++)
        if (scan_find(before, scan_object_id(after, o)) < 0) {
            n++;
            *bytes += scan_raw_len(after, o);
        }
    return n;
}

/* An edit changes the objects around it, one leaf, and one index per level. */
static void an_edit_is_small(void **state) {
    struct env *e = *state;
    uint64_t bytes;
    for (unsigned i = 0; i < 400; i++) {
        char name[30];
        snprintf(name, sizeof name, "f%04u", i);
        put_bytes(e, name, i, 3000);
    }
    put_bytes(e, "large", 77, 4 << 20);
    struct scan *before = scanned(e->src);
    assert_int_equal(
        run("printf edited | dd of=%s/large bs=1 seek=2000000 conv=notrunc status=none", e->src),
        0);
    struct scan *after = scanned(e->src);
    assert_true(n_new_objects(before, after, &bytes) <= 8 && bytes < 160000);
    scan_free(after);
    /* Another length: the cuts after it must become the same again. */
    put_bytes(e, "f0200", 9999, 3100);
    after = scanned(e->src);
    assert_true(n_new_objects(before, after, &bytes) <= 24 && bytes < 700000);
    scan_free(after);
    scan_free(before);
}

static void what_cannot_travel(void **state) {
    struct env *e = *state;
    static const struct {
        const char *make, *says;
    } rows[] = {
        {"mkfifo x", "not a regular file"},
        {"ln -s /etc/passwd x", "leads out of the tree"},
        {"ln -s ../../x x", "leads out of the tree"},
        {"cp /bin/true x && chmod 4755 x", "set-id bit"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scan *s;
        struct pd_err err = {0};
        assert_int_equal(run("cd %s && %s", e->src, rows[i].make), 0);
        assert_int_equal(scan_new(&s, e->src, 0, &err), 0);
        assert_int_not_equal(scan_run(s, &err), 0);
        if (!strstr(err.msg, rows[i].says) || !strstr(err.msg, "/src/x"))
            fail_msg("%s: %s", rows[i].make, err.msg);
        scan_free(s);
        run("rm -f %s/x", e->src);
    }
    struct scan *s;
    struct pd_err err = {0};
    assert_int_equal(scan_new(&s, "/nonexistent/ws", 0, &err), PD_ENOENT);
    pd_err_clear(&err);
    put_bytes(e, "no.tar", 5, 5000);
    char p[200];
    snprintf(p, sizeof p, "%s/no.tar", e->src);
    assert_int_equal(scan_new(&s, p, 0, &err), PD_ENOENT);
}

static void hostile_archives(void **state) {
    struct env *e = *state;
    static const struct {
        const char *make, *says;
    } rows[] = {
        {"tar -P -cf x.tar /etc/hostname", "absolute path"},
        {"mkdir -p in && tar -P -cf x.tar in/../in", "leaves the tree"},
        {"ln -s / in && tar -cf x.tar in", "leads out of the tree"},
        {"mkfifo in && tar -cf x.tar in", "neither a regular file"},
        {"cp /bin/true in && chmod 6755 in && tar -cf x.tar in", "set-id bit"},
        {"head -c 100000 /dev/urandom >in && tar -cf t.tar in && head -c 50000 t.tar >x.tar",
         "damaged"},
    };
    char tar[200];
    snprintf(tar, sizeof tar, "%s/x.tar", e->dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scan *s;
        struct pd_err err = {0};
        run("cd %s && rm -rf in x.tar t.tar", e->dir);
        assert_int_equal(run("cd %s && %s", e->dir, rows[i].make), 0);
        if (scan_new(&s, tar, 0, &err))
            fail_msg("%s: %s", rows[i].make, err.msg);
        assert_int_not_equal(scan_run(s, &err), 0);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("%s: %s", rows[i].make, err.msg);
        scan_free(s);
    }
    /* folders without entries of their own, a repeated name, a hard link */
    run("cd %s && rm -rf in x.tar", e->dir);
    assert_int_equal(run("cd %s && mkdir -p in/deep/er && echo 1 >in/deep/er/f && tar -cf x.tar "
                         "in/deep/er/f && echo 2222 >in/deep/er/f && "
                         "tar -rf x.tar in/deep/er/f && ln in/deep/er/f in/hard && tar -rf x.tar "
                         "in/deep/er/f in/hard",
                         e->dir),
                     0);
    struct scan *s = scanned(tar);
    assert_int_equal(read_package(s, NULL), 5);
    struct scan_totals t;
    scan_get_totals(s, &t);
    assert_int_equal(t.bytes, 10);
    scan_free(s);
}

/* 256 MiB of zeros, which zstd packs into some kB, and a small file before them. */
static void make_bomb(const char *path) {
    static const char zeros[1 << 20];
    struct archive *a = archive_write_new();
    struct stat st;
    assert_int_equal(archive_write_add_filter_zstd(a), ARCHIVE_OK);
    assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    for (int i = 0; i < 2; i++) {
        struct archive_entry *in = archive_entry_new();
        archive_entry_set_pathname(in, i ? "big" : "a");
        archive_entry_set_filetype(in, AE_IFREG);
        archive_entry_set_perm(in, 0644);
        archive_entry_set_size(in, i ? 256 << 20 : 10);
        assert_int_equal(archive_write_header(a, in), ARCHIVE_OK);
        for (int k = 0; k < (i ? 256 : 1); k++)
            assert_true(archive_write_data(a, zeros, i ? sizeof zeros : 10) > 0);
        archive_entry_free(in);
    }
    archive_write_free(a);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 101000);
}

static void a_bomb_is_refused_before_it_is_unpacked(void **state) {
    struct env *e = *state;
    char path[200], tmp[200];
    snprintf(path, sizeof path, "%s/bomb.tar.zst", e->dir);
    snprintf(tmp, sizeof tmp, "%s/tmp", e->dir);
    make_bomb(path);
    assert_int_equal(mkdir(tmp, 0700), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        struct scan *s;
        struct pd_err err = {0};
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("small", tmp, "tmpfs", 0, "size=4m"))
            pd_fault_arm("disk.room:2"); /* not allowed here: the disk is full at the second file */
        setenv("TMPDIR", tmp, 1);
        if (scan_new(&s, path, 0, &err) || scan_run(s, &err) != PD_ENOSPC ||
            !strstr(err.msg, "big in archive ") || !strstr(err.msg, " has 268435456 bytes, ")) {
            fprintf(stderr, "%d %s\n", err.code, err.msg);
            _exit(1);
        }
        scan_free(s);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void ignored_is_listed(void **state) {
    struct env *e = *state;
    uint64_t bytes;
    assert_int_equal(run("cd %s && mkdir .git big && echo x >.git/config && echo '*.o' "
                         ">.paddleignore && echo /big >>.paddleignore && echo 12345 >a.o && "
                         "echo 1 >keep",
                         e->src),
                     0);
    put_bytes(e, "big/data", 1, 100000);
    struct scan *s = scanned(e->src);
    assert_int_equal(read_package(s, e), 2); /* .paddleignore and keep */
    assert_string_equal(scan_ignored(s, 0, &bytes), ".git");
    assert_string_equal(scan_ignored(s, 1, &bytes), "a.o");
    assert_int_equal(bytes, 6);
    assert_string_equal(scan_ignored(s, 2, &bytes), "big");
    assert_int_equal(bytes, 100000);
    assert_null(scan_ignored(s, 3, &bytes));
    scan_free(s);
}

/* Several packages of one scan: a trainer's own files, and the files of all. */
static int keeps(void *arg, const char *path, int is_folder) {
    (void)is_folder;
    return strncmp(path, "data/", 5) || strstr(path, arg) != NULL;
}

static void some_of_a_tree(void **state) {
    struct env *e = *state;
    struct object_id all, one, again;
    struct pd_err err = {0};
    size_t n;
    assert_int_equal(run("mkdir %s/data", e->src), 0);
    put_bytes(e, "code", 1, 500);
    for (int i = 0; i < 8; i++) {
        char name[30];
        snprintf(name, sizeof name, "data/part-%d", i);
        put_bytes(e, name, (uint64_t)i, i % 2 ? 1000 : 100000);
    }
    struct scan *s = scanned(e->src);
    assert_int_equal(read_package(s, e), 10);
    scan_root(s, &all, &n);
    for (int i = 0; i < 8; i++) {
        char name[12];
        snprintf(name, sizeof name, "part-%d", i);
        scan_keep(s, keeps, name);
        assert_int_equal(scan_run(s, &err), 0);
        assert_int_equal(read_package(s, e), 3);
        scan_root(s, &one, &n);
        assert_false(object_same(&all, &one));
    }
    scan_keep(s, NULL, NULL);
    assert_int_equal(scan_run(s, &err), 0);
    scan_root(s, &again, &n);
    assert_true(object_same(&all, &again));
    scan_free(s);
}

/* A node still asks for a bundle of an earlier run, whose last file has become shorter. That file
 * counts as changed, and no byte after its end is read. */
static void a_bundle_of_before_that_has_become_short(void **state) {
    struct env *e = *state;
    struct scan_totals t;
    uint8_t *raw = malloc(OBJECT_MAX);
    uint32_t n;
    int n_bad = 0;
    assert_non_null(raw);
    put_bytes(e, "a", 1, 10);
    put_bytes(e, "b", 2, 3000);
    struct scan *s = scanned(e->src);
    put_bytes(e, "b", 3, 1);
    assert_int_equal(scan_run(s, NULL), 0);
    scan_get_totals(s, &t);
    for (long i = 0; i < (long)t.objects; i++) {
        struct pd_err err = {0};
        const int rc = scan_read(s, i, raw, &n, &err);
        assert_true(!rc || rc == PD_EDATA);
        n_bad += rc != 0;
    }
    assert_int_equal(n_bad, 1);
    scan_free(s);
    free(raw);
}

static void one_file(void **state) {
    struct env *e = *state;
    struct scan *s;
    struct pd_err err = {0};
    char p[200];
    put_bytes(e, "program", 1, 200000);
    snprintf(p, sizeof p, "%s/program", e->src);
    assert_int_equal(scan_new_file(&s, p, "paddle_worker", &err), 0);
    assert_int_equal(scan_run(s, &err), 0);
    struct object_id a, b;
    size_t n;
    scan_root(s, &a, &n);
    assert_int_equal(read_package(s, NULL), 1);
    scan_free(s);
    /* Its name is the hash of its contents. */
    assert_int_equal(run("touch -d 2001-01-01 %s", p), 0);
    assert_int_equal(scan_new_file(&s, p, "paddle_worker", &err), 0);
    assert_int_equal(scan_run(s, &err), 0);
    scan_root(s, &b, &n);
    assert_true(object_same(&a, &b));
    scan_free(s);
}

static void largest_first(void **state) {
    struct env *e = *state;
    size_t v[3];
    struct scan_item item;
    put_bytes(e, "a", 1, 10);
    put_bytes(e, "b", 1, 30000);
    put_bytes(e, "c", 1, 20);
    put_bytes(e, "d", 1, 70000);
    struct scan *s = scanned(e->src);
    assert_int_equal(scan_largest(s, v, 3), 3);
    static const char *const want[] = {"d", "b", "c"};
    for (int i = 0; i < 3; i++) {
        scan_item(s, v[i], &item);
        assert_string_equal(item.path, want[i]);
    }
    scan_free(s);
}

static void cancelled(void **state) {
    struct env *e = *state;
    struct scan *s;
    struct pd_err err = {0};
    put_bytes(e, "a", 1, 10);
    assert_int_equal(scan_new(&s, e->src, 0, &err), 0);
    scan_cancel(s);
    assert_int_equal(scan_run(s, &err), PD_ECANCELED);
    scan_free(s);
}

static void failing_memory(void **state) {
    struct env *e = *state;
    assert_int_equal(
        run("cd %s && mkdir d && ln -s f d/l && echo '*.o' >.paddleignore && echo 1 >d/f", e->src),
        0);
    put_bytes(e, "m", 1, 100000);
    for (int n = 1;; n++) {
        struct scan *s = NULL;
        struct pd_err err = {0};
        char spec[20];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = scan_new(&s, e->src, SCAN_IGNORED, &err);
        if (!rc && (rc = scan_run(s, &err)))
            assert_non_null(s);
        pd_fault_arm(NULL);
        if (!rc) {
            print_message("%d allocations\n", n);
            assert_true(n > 15);
            read_package(s, e);
            scan_free(s);
            return;
        }
        assert_int_equal(rc, PD_ENOMEM);
        if (s)
            scan_free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(package_is_the_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(same_tree_same_root, setup, teardown),
        cmocka_unit_test_setup_teardown(an_edit_is_small, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_travel, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_archives, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bomb_is_refused_before_it_is_unpacked, setup, teardown),
        cmocka_unit_test_setup_teardown(ignored_is_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(some_of_a_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bundle_of_before_that_has_become_short, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file, setup, teardown),
        cmocka_unit_test_setup_teardown(largest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
