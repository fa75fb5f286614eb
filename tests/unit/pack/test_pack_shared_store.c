/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_shared_store.c - the chunk store below a root while packages are assembled: several
 * processes at once, the limit, cleaning, deleted trees. test_pack_assemble.c tests assembling
 * itself. */
#include <setjmp.h>

#include <cmocka.h>

#include <sodium.h>

#include "tests/support/c/pack_deploy.h"

static void two_at_once_share_a_store(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("two")};
    char root[PATH_MAX], target[PATH_MAX];
    struct pd_err err = {0};
    assert_int_equal(pd_fmt(root, sizeof root, "%s/two", top), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&t, 80);
    assert_int_equal(rt_pack(&t, &err), 0);
    for (int round = 0; round < 5; round++) {
        pid_t pid[4];
        for (int k = 0; k < 4; k++) { /* two of them want the same target */
            assert_int_equal(pd_fmt(target, sizeof target, "%s/ws-%d-%d", root, round, k / 2 * k),
                             0);
            fflush(NULL);
            if (!(pid[k] = fork())) {
                struct pd_err e = {0};
                t.rng += (uint64_t)k;
                int rc = deploy(&t, root, target, 200000, NULL, &e);
                if (rc && rc != PD_EEXIST)
                    fprintf(stderr, "%s\n", e.msg);
                _exit(rc == 0 ? 0 : rc == PD_EEXIST ? 2 : 1);
            }
        }
        int done = 0;
        for (int k = 0; k < 4; k++) {
            int status;
            waitpid(pid[k], &status, 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
            done += WEXITSTATUS(status) == 0;
        }
        assert_true(done >= 3);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(pd_fmt(target, sizeof target, "%s/ws-%d-%d", root, round, k / 2 * k),
                             0);
            must_be(&t, target);
        }
        for (int i = 0; i < 3; i++)
            rt_edit(&t);
        assert_int_equal(rt_pack(&t, &err), 0);
    }
    assert_int_equal(left_over(root), 0);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

static void the_store_is_bounded_and_cleaned(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("clean")};
    char root[PATH_MAX], target[PATH_MAX];
    struct pd_err err = {0};
    uint64_t n, bytes;
    struct made m;
    assert_int_equal(pd_fmt(root, sizeof root, "%s/clean", top), 0);
    pd_mkdirs(root, 0755, &err);
    rt_grow(&t, 40);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(rt_pack(&t, &err), 0);
        assert_int_equal(pd_fmt(target, sizeof target, "%s/ws-%d", root, k), 0);
        assert_int_equal(deploy(&t, root, target, 0, NULL, &err), 0);
        rt_edit(&t);
    }
    assert_int_equal(store_clean(root, 0, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 0); /* all catalogs are in use */
    for (int k = 0; k < 2; k++) {
        assert_int_equal(pd_fmt(target, sizeof target, "%s/ws-%d", root, k), 0);
        pd_rm_tree(target, NULL);
    }
    assert_int_equal(store_clean(root, 0, 1, &n, &bytes, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(store_clean(root, 0, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 2);
    assert_true(bytes > 0);
    /* A limit lower than the size of any catalog. */
    assert_int_equal(store_clean(root, 1, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 4);
    /* files of a running dispatch stay for every limit, although there is no tree yet */
    struct store *held;
    struct store_part *part;
    struct object_id id = {{7}};
    assert_int_equal(pd_fmt(target, sizeof target, "%s/held.part-1", root), 0);
    assert_int_equal(store_open(&held, root, &err), 0);
    assert_int_equal(store_part_new(&part, held, target, &err), 0);
    assert_int_equal(store_part_seal(part, "held", NULL, 0, 0, &err), 0);
    assert_int_equal(store_part_publish(part, &id, &err), 0);
    assert_int_equal(store_clean(root, 1, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 0);
    const int hold = store_part_hold(part);
    assert_true(hold > 2);
    store_part_free(part);
    assert_int_equal(store_clean(root, 1, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 0);
    close(hold);
    store_close(held);
    assert_int_equal(store_clean(root, 1, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/last", root), 0);
    assert_int_equal(rt_pack(&t, &err), 0);
    assert_int_equal(deploy(&t, root, target, 0, &m, &err), 0);
    assert_true(m.objects > 0);
    must_be(&t, target);
    /* a damaged catalog is ignored */
    char dir[PATH_MAX], path[PATH_MAX];
    assert_int_equal(pd_fmt(dir, sizeof dir, "%s/.paddlectl/chunks", root), 0);
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (pd_ends_with(e->d_name, ".cat")) {
            assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", dir, e->d_name), 0);
            struct stat st;
            assert_int_equal(stat(path, &st), 0);
            int fd = open(path, O_WRONLY);
            assert_int_equal(pwrite(fd, "x", 1, st.st_size - 100), 1);
            close(fd);
        }
    closedir(d);
    assert_int_equal(pd_fmt(target, sizeof target, "%s/after", root), 0);
    assert_int_equal(deploy(&t, root, target, 0, &m, &err), 0);
    assert_true(m.objects > 0);
    must_be(&t, target);
    assert_int_equal(store_clean(root, 0, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 1);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* Regression test: each bundle of a deleted tree was searched file by file to the end of the tree.
 * An edit of 10,000 files took 85 s instead of 3.4 s if an earlier deploy had been removed. A child
 * that opens more files than `limit` in search of objects is killed. */
static void stale_trees_cost_little(void **state) {
    (void)state;
    enum { FILES = 4000 };
    static const char *const names[] = {"ws-0", "ws-1", "ws-2", "ws-3"};
    static const char *const harm[] = {":", "rm -r ws-0", "rm ws-1/*",
                                       "for f in ws-2/*; do : >$f; done"};
    struct rt t = {.rng = seed_of("stale"), .v = calloc(FILES, sizeof *t.v), .n = FILES};
    struct pd_err err = {0};
    char root[PATH_MAX], target[PATH_MAX], command[2 * PATH_MAX], fault[64];
    assert_int_equal(pd_fmt(root, sizeof root, "%s/stale", top), 0);
    assert_int_equal(pd_mkdirs(root, 0755, &err), 0);
    for (int i = 0; i < FILES; i++) {
        t.v[i] = (struct rt_entry){.type = MANIFEST_FILE,
                                   .mode = 0644,
                                   .seed = rt_next(&t),
                                   .size = 200 + rt_next(&t) % 200};
        snprintf(t.v[i].path, sizeof t.v[i].path, "f%05d", i);
    }
    for (int k = 0; k < 4; k++) {
        t.v[0].seed++;
        assert_int_equal(rt_pack(&t, &err), 0);
        /* Each file once, and the searches for objects that do not exist. */
        int limit = 2 * FILES + (k < 3 ? 0 : (int)t.n_o * STORE_BUNDLE_EMPTY);
        snprintf(command, sizeof command, "cd %s && { %s; }", root, harm[k]);
        assert_int_equal(system(command), 0);
        assert_int_equal(pd_fmt(target, sizeof target, "%s/%s", root, names[k]), 0);
        snprintf(fault, sizeof fault, "kill.store.open:%d", limit);
        int status = in_a_child(&t, root, target, fault);
        if (status)
            fail_msg("%s: %s %d", names[k],
                     WIFSIGNALED(status) ? "killed by signal" : "exit status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        must_be(&t, target);
    }
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

int main(void) {
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_at_once_share_a_store),
        cmocka_unit_test(the_store_is_bounded_and_cleaned),
        cmocka_unit_test(stale_trees_cost_little),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
