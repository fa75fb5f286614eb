/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_assemble.c - packages from their objects to a folder. Random trees and edits; only
 * missing objects are requested. A kill at any point leaves the old or the new tree. Also tests a
 * full disk, hostile packages and bounded memory. test_pack_shared_store.c tests the store. */
#include <setjmp.h>

#include <cmocka.h>

#include <sched.h>
#include <sodium.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/support/c/pack_deploy.h"
#include "tests/support/c/skip.h"

static void any_tree_and_any_edits_arrive(void **state) {
    (void)state;
    uint64_t seed = seed_of("any tree");
    for (int k = 0; k < (PACK_SLOW ? 5 : 10); k++) {
        struct rt t = {.rng = seed + (uint64_t)k * 1000};
        char root[PATH_MAX], target[PATH_MAX];
        struct pd_err err = {0};
        assert_int_equal(pd_fmt(root, sizeof root, "%s/r%d", top, k), 0);
        rt_grow(&t, k ? rt_next(&t) % 120 : 0);
        for (int edit = 0; edit < 6; edit++) {
            struct made m;
            assert_int_equal(pd_fmt(target, sizeof target, "%s/ws-%d", root, edit), 0);
            pd_mkdirs(root, 0755, &err);
            if (rt_pack(&t, &err) || deploy(&t, root, target, k % 3 ? 0 : 100000, &m, &err))
                fail_msg("tree %d, edit %d: %s", k, edit, err.msg);
            must_be(&t, target);
            struct made again;
            char twice[PATH_MAX];
            assert_int_equal(pd_fmt(twice, sizeof twice, "%s/again-%d", root, edit), 0);
            if (deploy(&t, root, twice, 0, &again, &err))
                fail_msg("%s", err.msg);
            if (again.objects)
                fail_msg("tree %d, edit %d: %llu objects travel though nothing has changed", k,
                         edit, (unsigned long long)again.objects);
            must_be(&t, twice);
            rt_edit(&t);
        }
        rt_release(&t);
        pd_rm_tree(root, NULL);
    }
}

/* One of 500 entries is edited: the requested bytes are about the changed bytes. */
static void an_edit_costs_what_it_changes(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("edit")};
    char root[PATH_MAX], target[PATH_MAX];
    struct pd_err err = {0};
    struct made m, all;
    assert_int_equal(pd_fmt(root, sizeof root, "%s/edit", top), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&t, 500);
    assert_int_equal(rt_pack(&t, &err), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/a", root), 0);
    assert_int_equal(deploy(&t, root, target, 0, &all, &err), 0);
    size_t i = 0;
    while (t.v[i].type != MANIFEST_FILE || t.v[i].size < 20000 || t.v[i].size > 100000 ||
           t.v[i].hole)
        i++;
    t.v[i].seed++;
    assert_int_equal(rt_pack(&t, &err), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/b", root), 0);
    assert_int_equal(deploy(&t, root, target, 0, &m, &err), 0);
    must_be(&t, target);
    print_message("edit of %llu bytes: %llu travel, of %llu\n", (unsigned long long)t.v[i].size,
                  (unsigned long long)m.bytes, (unsigned long long)all.bytes);
    assert_true(m.bytes < t.v[i].size + 30000);
    /* changes that the job made in its folder are noticed, and the objects are requested again */
    char path[PATH_MAX];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(pd_fmt(path, sizeof path, "%s/%s/%s", root, k ? "b" : "a", t.v[i].path),
                         0);
        chmod(path, 0600);
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "changed", 7, 3000), 7);
        close(fd);
    }
    assert_int_equal(pd_fmt(target, sizeof target, "%s/c", root), 0);
    assert_int_equal(deploy(&t, root, target, 0, &m, &err), 0);
    assert_true(m.objects >= 1 && m.bytes <= t.v[i].size);
    must_be(&t, target);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* kill -9 or an error at many points. The target is complete or absent, and the earlier package is
 * whole. The next dispatch removes the remains and succeeds. */
static void a_kill_or_an_error_anywhere_leaves_old_or_new(void **state) {
    (void)state;
    static const char *const points[] = {
        "assemble.write",   "assemble.put", "assemble.step", "assemble.rename",
        "assemble.catalog", "store.write",  "alloc"};
    struct rt t = {.rng = seed_of("kills")}, old = {.rng = 7};
    char root[PATH_MAX], target[PATH_MAX], first[PATH_MAX];
    struct pd_err err = {0};
    assert_int_equal(pd_fmt(root, sizeof root, "%s/kill", top), 0);
    assert_int_equal(pd_fmt(first, sizeof first, "%s/first", root), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/ws", root), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&old, 60);
    assert_int_equal(rt_pack(&old, &err), 0);
    assert_int_equal(deploy(&old, root, first, 0, NULL, &err), 0);
    rt_grow(&t, 60);
    assert_int_equal(rt_pack(&t, &err), 0);
    for (int k = 0; k < (PACK_SLOW ? 25 : 80); k++) {
        char fault[64];
        const char *point = points[rt_next(&t) % 7];
        int nth = strstr(point, "rename") || strstr(point, "catalog")
                      ? 1
                      : (int)(1 + rt_next(&t) % (strcmp(point, "store.write") ? 60 : 4));
        snprintf(fault, sizeof fault, "%s%s:%d", k % 2 ? "kill." : "", point, nth);
        size_t before = left_over(
            root); /* left by a killed deploy; the next deploy that reaches the store removes it */
        int status = in_a_child(&t, root, target, fault);
        if (!WIFEXITED(status) && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
            fail_msg("%s: status %x", fault, status);
        must_be(&old, first);
        struct stat st;
        int there = !lstat(target, &st);
        if (WIFEXITED(status) && there != !WEXITSTATUS(status))
            fail_msg("%s: exit status %d and the target is %s", fault, WEXITSTATUS(status),
                     there ? "there" : "not there");
        if (there)
            must_be(&t, target);
        else if (WIFEXITED(status) && left_over(root) > before)
            fail_msg("%s: something is left", fault);
        if (there)
            assert_int_equal(pd_rm_tree(target, &err), 0);
    }
    if (deploy(&t, root, target, 0, NULL, &err))
        fail_msg("%s", err.msg);
    must_be(&t, target);
    assert_int_equal(left_over(root), 0);
    rt_release(&t);
    rt_release(&old);
    pd_rm_tree(root, NULL);
}

/* Runs in a mount namespace of its own, on a tmpfs that is too small. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("full")};
    struct pd_err err = {0};
    char root[PATH_MAX];
    assert_int_equal(pd_fmt(root, sizeof root, "%s/full", top), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&t, 60);
    assert_int_equal(rt_pack(&t, &err), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("full", root, "tmpfs", 0, "size=2m,nr_inodes=200"))
            _exit(77);
        char target[PATH_MAX];
        struct store *st = NULL;
        if (pd_fmt(target, sizeof target, "%s/ws", root) ||
            deploy(&t, root, target, 0, NULL, &err) != PD_ENOSPC || !access(target, F_OK) ||
            left_over(root) || !strstr(err.msg, "space left"))
            _exit(1);
        /* and when the disk fills up during the deploy: the check of the free space before it is
         * disabled */
        struct rt small = {.rng = 3};
        rt_grow(&small, 12);
        memset(&err, 0, sizeof err);
        for (size_t i = 0; i < small.n; i++)
            small.v[i].size = small.v[i].size > 60000 ? 60000 : small.v[i].size;
        pd_fault_arm("assemble.write:3");
        for (size_t i = 0; i < small.n; i++)
            if (small.v[i].hole)
                small.v[i].hole = 0;
        if (rt_pack(&small, &err) || deploy(&small, root, target, 0, NULL, &err) != PD_ENOSPC ||
            !access(target, F_OK) || left_over(root))
            _exit(2);
        pd_fault_arm(NULL);
        memset(&err, 0, sizeof err);
        if (deploy(&small, root, target, 0, NULL, &err) || rt_differs(&small, target) ||
            store_open(&st, root, &err))
            _exit(3);
        store_close(st);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    rt_release(&t);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no mount namespace here");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Packages with false claims. `says` is part of the message; no file may be left. */
static void hostile_packages_leave_nothing(void **state) {
    (void)state;
    struct pd_err err = {0};
    char root[PATH_MAX], target[PATH_MAX];
    assert_int_equal(pd_fmt(root, sizeof root, "%s/hostile", top), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/ws", root), 0);
    pd_mkdirs(root, 0755, &err);
    static const char *const says[] = {"says that it has",
                                       "bytes, not",
                                       "larger than it says",
                                       "two lengths",
                                       "space left",
                                       "index is damaged",
                                       "list of files has more than 73",
                                       "list of files has more",
                                       "objects have more bytes than its files (300)"};
    for (int k = 0; k < 9; k++) {
        struct rt t = {.rng = 1};
        struct manifest_writer *w;
        uint8_t raw[100] = {9};
        err = (struct pd_err){0};
        assert_int_equal(manifest_writer_new(&w, rt_keep, &t, &err), 0);
        struct manifest_entry e = {.type = MANIFEST_FILE,
                                   .path = "f",
                                   .path_len = 1,
                                   .mode = 0644,
                                   .size = 10000,
                                   .target = ""};
        manifest_add(w, &e, &err);
        struct manifest_extent x = {.id = rt_object_of(&t, raw, 100), .raw_len = 100, .len = 100};
        manifest_add_extent(w, &x, &err);
        x.file_off = 200;
        for (int i = 0; k == 3 && i < 700; i++) {
            struct manifest_extent y = {.id = {{(uint8_t)i, (uint8_t)(i >> 8), 1}},
                                        .raw_len = 1,
                                        .len = 1,
                                        .file_off = 200 + (uint64_t)i};
            assert_int_equal(manifest_add_extent(w, &y, &err), 0);
        }
        if (k == 3) { /* a separate leaf gives the same object another length */
            x.raw_len = 101;
            x.file_off = 9000;
        }
        for (uint8_t i = 0; k == 8 && i < 100; i++) { /* a byte of each of 100 large objects */
            static uint8_t large[OBJECT_MAX];
            large[1] = i;
            struct manifest_extent y = {.id = rt_object_of(&t, large, sizeof large),
                                        .raw_len = sizeof large,
                                        .len = 1,
                                        .file_off = 100 + i};
            assert_int_equal(manifest_add_extent(w, &y, &err), 0);
        }
        manifest_add_extent(w, &x, &err);
        assert_int_equal(manifest_finish(w, &t.root_id, t.root, &t.root_n, &err), 0);
        manifest_writer_free(w);
        uint64_t v;
        if (k == 0) {
            v = MANIFEST_ENTRIES + UINT64_C(1);
            memcpy(t.root + 8, &v, 8);
        } else if (k == 1 || k == 2 ||
                   k == 4) { /* data_bytes: too many, too few, more than any disk has */
            v = k == 1 ? 300 : k == 2 ? 150 : MANIFEST_BYTES;
            memcpy(t.root + 16, &v, 8);
        } else if (k == 5) {
            t.root[2] = 3;   /* declares its leaves as indexes */
        } else if (k == 7) { /* leaves that are longer than any list of one file */
            memcpy(t.root + 56, &(uint32_t){OBJECT_MAX}, 4);
        } else if (k == 6) { /* an index whose children are all one index whose children ... */
            struct object_id below = {{0}};
            memcpy(below.b, t.root + 24, OBJECT_ID);
            uint32_t len;
            memcpy(&len, t.root + 56, 4);
            for (uint16_t level = 1; level < MANIFEST_LEVELS; level++) {
                struct pd_buf b = {0};
                pd_put_u8(&b, 2), pd_put_u8(&b, 1), pd_put_u16(&b, level),
                    pd_put_u32(&b, MANIFEST_FANOUT);
                for (int i = 0; i < MANIFEST_FANOUT; i++)
                    pd_put(&b, below.b, OBJECT_ID), pd_put_u32(&b, len);
                below = rt_object_of(&t, b.data, b.len);
                len = (uint32_t)b.len;
                pd_buf_release(&b);
            }
            uint16_t level = MANIFEST_LEVELS;
            memcpy(t.root + 2, &level, 2);
            memcpy(t.root + 24, below.b, OBJECT_ID);
            memcpy(t.root + 56, &len, 4);
        }
        if (t.n_o)
            qsort(t.o, t.n_o, sizeof *t.o, rt_object_cmp);
        int rc = deploy(&t, root, target, 0, NULL, &err);
        if ((rc != PD_EDATA && rc != PD_ENOSPC) || !strstr(err.msg, says[k]))
            fail_msg("%d: %d %s", k, rc, err.msg);
        assert_int_equal(access(target, F_OK), -1);
        assert_int_equal(left_over(root), 0);
        rt_release(&t);
    }
    pd_rm_tree(root, NULL);
}

/* An object that was not requested is refused. All announced bytes, also those of other packages,
 * must fit into the free space of the disk. */
static void nothing_comes_that_was_not_requested(void **state) {
    (void)state;
    struct rt t = {.rng = 11};
    struct pd_err err = {0};
    char root[PATH_MAX], target[PATH_MAX];
    struct store *st = NULL;
    struct assemble *a = NULL;
    struct object_id ids[4];
    assert_int_equal(pd_fmt(root, sizeof root, "%s/more", top), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/ws", root), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&t, 30);
    assert_int_equal(rt_pack(&t, &err), 0);
    assert_int_equal(store_open(&st, root, &err), 0);
    struct assemble_opts o = {.root = root, .target = target, .due = UINT64_MAX / 2};
    assert_int_equal(assemble_new(&a, st, &o, t.root, t.root_n, &err), PD_ENOSPC);
    if (!strstr(err.msg, "others that are on their way have 9223372036854775807"))
        fail_msg("%s", err.msg);
    assert_int_equal(left_over(root), 0);
    pd_err_clear(&err);
    o.due = 0;
    assert_int_equal(assemble_new(&a, st, &o, t.root, t.root_n, &err), 0);
    assert_true(assemble_step(a, 1000, &err) >= 0);
    size_t n = assemble_need(a, ids, 4);
    const struct rt_object *ob = rt_find(&t, &ids[0]);
    assert_true(n > 0 && ob);
    assemble_ask_again(a); /* of another source: the object comes from both */
    assert_int_equal(assemble_need(a, ids, 4), n);
    assert_int_equal(assemble_put(a, &ids[0], ob->raw, ob->n, &err), 0);
    assert_int_equal(assemble_put(a, &ids[0], ob->raw, ob->n, &err), 0);
    int rc = 0;
    for (int i = 0; i < 1000 && !rc; i++) /* and a third time, and again */
        rc = assemble_put(a, &ids[0], ob->raw, ob->n, &err);
    assert_int_equal(rc, PD_EPROTO);
    assert_non_null(strstr(err.msg, "more objects came than were requested"));
    assemble_free(a);
    store_close(st);
    assert_int_equal(left_over(root), 0);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* A source that makes objects on request, so the test needs no memory for large trees. */
static size_t rss_peak_kb(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (size_t)u.ru_maxrss;
}

static void hundred_thousand_files_need_little_memory(void **state) {
    (void)state;
    const int n = PACK_SLOW ? 10000 : 100000;
    if (strncmp(top, "/dev/shm", 8))
        SKIP("/dev/shm cannot be written");
    struct rt t = {.rng = 5};
    struct pd_err err = {0};
    struct manifest_writer *w;
    char root[PATH_MAX], target[PATH_MAX], path[64];
    uint8_t bundle[100 * 64];
    assert_int_equal(pd_fmt(root, sizeof root, "%s/many", top), 0);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/ws", root), 0);
    pd_mkdirs(root, 0755, &err);
    manifest_writer_new(&w, rt_keep, &t, &err);
    for (int i = 0; i < n; i++) {
        struct manifest_entry e = {
            .path = path, .mode = 0755, .target = "", .type = MANIFEST_FOLDER, .mtime_ns = 5};
        if (i % 100 == 0) {
            e.path_len = (size_t)snprintf(path, sizeof path, "d%05d", i / 100);
            assert_int_equal(manifest_add(w, &e, &err), 0);
            for (size_t k = 0; k < sizeof bundle; k++)
                bundle[k] = (uint8_t)rt_next(&t);
            rt_object_of(&t, bundle, sizeof bundle);
        }
        struct manifest_extent x = {
            .raw_len = sizeof bundle, .obj_off = (uint32_t)(i % 100) * 64, .len = 64};
        object_id_of(&x.id, bundle, sizeof bundle);
        e.path_len = (size_t)snprintf(path, sizeof path, "d%05d/file-%02d", i / 100, i % 100);
        e.type = MANIFEST_FILE;
        e.mode = 0644;
        e.size = 64;
        if (manifest_add(w, &e, &err) || manifest_add_extent(w, &x, &err))
            fail_msg("%s", err.msg);
    }
    assert_int_equal(manifest_finish(w, &t.root_id, t.root, &t.root_n, &err), 0);
    manifest_writer_free(w);
    qsort(t.o, t.n_o, sizeof *t.o, rt_object_cmp);
    size_t before = rss_peak_kb();
    struct made m;
    if (deploy(&t, root, target, 0, &m, &err))
        fail_msg("%s", err.msg);
    print_message("%d files: %llu objects; peak memory of the test %zu MB, %zu MB of them while it "
                  "was assembled\n",
                  n, (unsigned long long)m.objects, rss_peak_kb() >> 10,
                  (rss_peak_kb() - before) >> 10);
    assert_int_equal(rt_count(target), n + (n + 99) / 100);
    assert_true(m.objects < (unsigned)n / 20);
    assert_true(PACK_SLOW || rss_peak_kb() >> 10 < 256); /* a sanitizer keeps freed memory */
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

int main(void) {
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_tree_and_any_edits_arrive),
        cmocka_unit_test(an_edit_costs_what_it_changes),
        cmocka_unit_test(a_kill_or_an_error_anywhere_leaves_old_or_new),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(hostile_packages_leave_nothing),
        cmocka_unit_test(nothing_comes_that_was_not_requested),
        cmocka_unit_test(hundred_thousand_files_need_little_memory),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
