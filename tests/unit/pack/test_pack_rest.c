/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_rest.c - what came before an interruption does not come again: a maker that stops, one
 * that is killed at any place, damage, and the bounds of what is kept. */
#include <setjmp.h>

#include <cmocka.h>

#include <sodium.h>

#include "tests/support/c/pack_deploy.h"

static char root[PATH_MAX], chunks[PATH_MAX];

static const char *in_root(const char *name) {
    static char path[4][PATH_MAX];
    static int k;
    k = (k + 1) % 4;
    assert_int_equal(pd_fmt(path[k], PATH_MAX, "%s/%s", root, name), 0);
    return path[k];
}

static void new_root(const char *name) {
    struct pd_err err = {0};
    assert_int_equal(pd_fmt(root, sizeof root, "%s/%s", top, name), 0);
    assert_int_equal(pd_fmt(chunks, sizeof chunks, "%s/.paddlectl/chunks", root), 0);
    assert_int_equal(pd_mkdirs(root, 0755, &err), 0);
    deploy_rest.keeps_rest = 1;
    deploy_rest.stop_after = 0;
}

static size_t n_in_store(const char *suffix) {
    DIR *d = opendir(chunks);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += pd_ends_with(e->d_name, suffix) != 0;
    if (d)
        closedir(d);
    return n;
}

static void make_package(struct rt *t, unsigned n) {
    struct pd_err err = {0};
    rt_grow(t, n);
    assert_int_equal(rt_pack(t, &err), 0);
}

/* Deploys and stops after `objects`. Returns the bytes that came. */
static uint64_t stop_after(struct rt *t, uint64_t objects, const char *target) {
    struct pd_err err = {0};
    struct made m;
    deploy_rest.stop_after = objects;
    assert_int_equal(deploy(t, root, in_root(target), 300000, &m, &err), PD_ECANCELED);
    deploy_rest.stop_after = 0;
    return m.bytes;
}

static struct made complete(struct rt *t, const char *target) {
    struct pd_err err = {0};
    struct made m;
    if (deploy(t, root, in_root(target), 300000, &m, &err))
        fail_msg("%s", err.msg);
    must_be(t, in_root(target));
    return m;
}

static void a_stopped_package_goes_on(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("stopped")};
    new_root("stopped");
    make_package(&t, 120);
    const uint64_t all = complete(&t, "all").bytes;
    pd_rm_tree(in_root("all"), NULL); /* its catalog names nothing any more */
    const uint64_t first = stop_after(&t, t.n_o / 2, "a");
    assert_true(access(in_root("a"), F_OK));
    assert_int_equal(left_over(root), 0);
    assert_int_equal(n_in_store(".tree"), 1);
    struct made m = complete(&t, "b");
    print_message("   %llu bytes: %llu came, then %llu; %llu were counted as present\n",
                  (unsigned long long)all, (unsigned long long)first, (unsigned long long)m.bytes,
                  (unsigned long long)m.t.rest);
    assert_true(m.bytes <= all - first);
    assert_true(m.t.rest && m.t.rest == m.t.here && m.t.here_left == 0);
    assert_true(m.t.rest <= m.t.bytes && m.t.rest > first / 2);
    assert_int_equal(n_in_store(".tree"), 0); /* it is part of the package now */
    assert_int_equal(n_in_store(".part"), 0);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* A killed maker wrote down what it had: the notes of each step outlive it. */
static void a_killed_package_goes_on(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("killed")};
    char fault[64];
    new_root("killed");
    make_package(&t, 120);
    for (unsigned k = 1; k < 8; k++) {
        snprintf(fault, sizeof fault, "kill.assemble.put:%zu", t.n_o * k / 8);
        int status = in_a_child(&t, root, in_root("a"), fault);
        assert_true(WIFSIGNALED(status));
        struct made m = complete(&t, "b");
        /* The notes since the last step are lost: at most a batch of 64 requests. */
        print_message("   killed after %u of 8: %llu of %zu objects came again\n", k,
                      (unsigned long long)m.objects, t.n_o);
        assert_true(m.objects <= t.n_o - t.n_o * k / 8 + 64);
        assert_int_equal(left_over(root), 0);
        assert_int_equal(n_in_store(".part"), 0);
        pd_rm_tree(in_root("b"), NULL);
        pd_rm_tree(chunks, NULL);
    }
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* A kill while the rest is made, and .part files that end anywhere. */
static void a_rest_that_is_half_made_is_no_harm(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("half")};
    struct pd_err err = {0};
    struct store *st;
    char path[PATH_MAX];
    new_root("half");
    make_package(&t, 60);
    for (int k = 0; k < 40; k++) {
        struct stat s;
        char fault[64];
        snprintf(fault, sizeof fault, "kill.assemble.put:%zu", t.n_o * 3 / 4);
        assert_true(WIFSIGNALED(in_a_child(&t, root, in_root("a"), fault)));
        DIR *d = opendir(chunks);
        for (struct dirent *e; (e = readdir(d));)
            if (pd_ends_with(e->d_name, ".part")) {
                assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", chunks, e->d_name), 0);
                assert_int_equal(stat(path, &s), 0);
                if (k % 2)
                    assert_int_equal(truncate(path, PATH_MAX + (s.st_size - PATH_MAX) * k / 40), 0);
            }
        closedir(d);
        if (k % 2 == 0) { /* killed between the new name of the tree and the catalog */
            fflush(NULL);
            pid_t pid = fork();
            int status;
            if (!pid) {
                pd_fault_arm("kill.store.rest:1");
                store_open(&st, root, &err);
                _exit(0);
            }
            waitpid(pid, &status, 0);
            assert_true(WIFSIGNALED(status));
            if (k % 4) /* and the .part is lost: the tree has no catalog */
                unlink(path);
        }
        complete(&t, "b");
        assert_int_equal(left_over(root), 0);
        assert_int_equal(n_in_store(".tree"), 0);
        assert_int_equal(n_in_store(".part"), 0);
        pd_rm_tree(in_root("b"), NULL);
        pd_rm_tree(chunks, NULL);
    }
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

static void damage(const char *dir) {
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command,
             "find %s -type f -size +1k -exec sh -c 'for f; do m=$(stat -c %%a \"$f\"); "
             "chmod u+w \"$f\"; printf x | dd of=\"$f\" bs=1 seek=700 conv=notrunc 2>/dev/null; "
             "chmod $m \"$f\"; done' sh {} +",
             dir);
    assert_int_equal(system(command), 0);
}

static void a_damaged_rest_is_not_believed(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("damaged")};
    new_root("damaged");
    make_package(&t, 60);
    stop_after(&t, t.n_o * 3 / 4, "a");
    damage(chunks);
    complete(&t, "b");
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

static void few_rests_are_kept(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct store *st;
    uint64_t n, bytes, more;
    new_root("few");
    for (int k = 0; k < STORE_RESTS + 3; k++) { /* of different packages */
        struct rt t = {.rng = seed_of("few") + (uint64_t)k};
        make_package(&t, 60);
        stop_after(&t, t.n_o / 2, "a");
        rt_release(&t);
    }
    assert_int_equal(store_open(&st, root, &err), 0);
    store_close(st);
    assert_int_equal(n_in_store(".tree"), STORE_RESTS);
    assert_int_equal(n_in_store(".cat"), STORE_RESTS);
    /* Their trees count for the limit. */
    assert_int_equal(store_clean(root, 0, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(store_clean(root, 1, 1, &n, &bytes, &err), 0);
    assert_int_equal(n, STORE_RESTS);
    assert_int_equal(store_clean(root, bytes - 1, 0, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(n_in_store(".tree"), STORE_RESTS - 1);
    assert_int_equal(store_clean(root, 1, 0, &n, &more, &err), 0);
    assert_int_equal(n, STORE_RESTS - 1);
    assert_int_equal(n_in_store(".tree") + n_in_store(".cat"), 0);
    /* Nobody came back for it. */
    struct rt t = {.rng = seed_of("old")};
    make_package(&t, 60);
    stop_after(&t, t.n_o / 2, "a");
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "touch -d '%d days ago' %s/*.cat", STORE_REST_DAYS + 1,
             chunks);
    assert_int_equal(system(command), 0);
    assert_int_equal(store_clean(root, 0, 0, &n, &bytes, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(n_in_store(".tree"), 0);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

/* Stopped again and again, the rests do not add up: a rest replaces the one that it was read from.
 */
static void the_last_rest_has_it_all(void **state) {
    (void)state;
    struct rt t = {.rng = seed_of("again")};
    uint64_t came = 0;
    new_root("again");
    make_package(&t, 150);
    for (int k = 0; k < 4; k++)
        came += stop_after(&t, t.n_o / 6, "a");
    assert_true(n_in_store(".tree") <= 2);
    came += complete(&t, "b").bytes;
    uint64_t all = 0;
    for (size_t i = 0; i < t.n_o; i++)
        all += t.o[i].n;
    print_message("   %llu bytes came in 5 parts, of %llu\n", (unsigned long long)came,
                  (unsigned long long)all);
    assert_true(came <= all);
    rt_release(&t);
    pd_rm_tree(root, NULL);
}

int main(void) {
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_package_goes_on),
        cmocka_unit_test(a_killed_package_goes_on),
        cmocka_unit_test(a_rest_that_is_half_made_is_no_harm),
        cmocka_unit_test(a_damaged_rest_is_not_believed),
        cmocka_unit_test(few_rests_are_kept),
        cmocka_unit_test(the_last_rest_has_it_all),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
