/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_cache.c - files that did not change since the last scan are not hashed again. No
 * changed file is taken for an unchanged one. */
#include <setjmp.h>

#include <cmocka.h>

#include "pack/scan/scan.h"
#include "tests/support/c/scan_env.h"

/* The root of e->src, scanned with this cache (NULL: none). *reused: the bytes that were not read.
 */
static struct object_id root_with(const struct env *e, const char *cache, uint64_t *reused) {
    struct scan *s;
    struct pd_err err = {0};
    struct object_id id;
    struct scan_totals t;
    size_t n;
    assert_int_equal(scan_new(&s, e->src, 0, &err), 0);
    if (cache)
        scan_set_cache(s, cache);
    if (scan_run(s, &err))
        fail_msg("%s", err.msg);
    scan_root(s, &id, &n);
    scan_get_totals(s, &t);
    if (reused)
        *reused = t.reused;
    for (long o = 0; o < (long)t.objects; o++) { /* the cache agrees with the files */
        uint8_t raw[OBJECT_MAX];
        uint32_t len;
        if (scan_read(s, o, raw, &len, &err))
            fail_msg("%s", err.msg);
    }
    scan_free(s);
    return id;
}

static void same_with_and_without(const struct env *e, const char *cache, uint64_t *reused) {
    struct object_id with = root_with(e, cache, reused), without = root_with(e, NULL, NULL);
    assert_true(object_same(&with, &without));
}

static void a_settled_tree_is_not_read_again(void **state) {
    struct env *e = *state;
    char cache[200], text[60];
    uint64_t reused, all = 0, rng = 20261122;
    uint64_t began_us = pd_wall_us();
    snprintf(cache, sizeof cache, "%s/cache", e->dir);
    for (int i = 0; i < 300; i++) {
        size_t n = i % 40 ? 8 + (size_t)(i * 37 % 3000) / 8 * 8 : 50000 + (size_t)i * 800;
        snprintf(text, sizeof text, "%03d", i);
        put_bytes(e, text, (uint64_t)i, n);
        all += n;
    }
    run("mkdir %s/sub && : >%s/sub/empty && truncate -s 3000000 %s/sparse && echo x | dd "
        "of=%s/sparse conv=notrunc seek=3000 2>/dev/null",
        e->src, e->src, e->src, e->src);
    all += 3000000;
    same_with_and_without(e, cache, &reused);
    assert_int_equal(reused, 0);
    int young = pd_wall_us() - began_us < 2400000;
    sleep(3);
    same_with_and_without(e, cache, &reused);
    assert_true(!young || !reused); /* the hash of a very new file is not trusted */
    same_with_and_without(e, cache, &reused);
    assert_true(reused == all);
    /* a change in place with the same size and mtime: the inode's ctime shows it */
    run("cd %s && touch -r 040 ../ref && printf XX | dd of=040 bs=1 seek=100 conv=notrunc "
        "2>/dev/null && touch -r ../ref 040",
        e->src);
    same_with_and_without(e, cache, &reused);
    assert_true(reused < all && reused > all / 2);
    for (int k = 0; k < 25; k++) { /* random edits */
        unsigned i = (unsigned)(pd_mix64(rng++) % 300), j = (unsigned)(pd_mix64(rng++) % 300);
        snprintf(text, sizeof text, "%03u", i);
        switch (k % 5) {
        case 0:
            put_bytes(e, text, rng, 8 + pd_mix64(rng) % 500 * 8);
            break;
        case 1:
            run("cd %s && rm -f %03u", e->src, i);
            break;
        case 2:
            run("cd %s && mv %03u %03u-moved 2>/dev/null", e->src, i, i);
            break;
        case 3:
            run("cd %s && [ ! -e %03u ] || mv %03u %03u", e->src, i, i, j);
            break;
        default:
            run("cd %s && [ ! -e %03u ] || truncate -s 20000 %03u", e->src, i, i);
            break;
        }
        same_with_and_without(e, cache, &reused);
    }
    assert_true(reused > all / 4);
    for (int k = 0; k < 20; k++) { /* a damaged or truncated cache is ignored */
        run("cp %s %s.bad", cache, cache);
        char bad[220];
        snprintf(bad, sizeof bad, "%s.bad", cache);
        struct stat st;
        assert_int_equal(stat(bad, &st), 0);
        unsigned at = (unsigned)(pd_mix64(rng++) % (uint64_t)st.st_size);
        run(k % 2 ? "truncate -s %u %s"
                  : "printf '\\377\\001' | dd bs=1 conv=notrunc 2>/dev/null seek=%u of=%s",
            at, bad);
        same_with_and_without(e, bad, &reused);
        assert_true(!reused || !run("cmp -s %s %s", cache, bad));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_settled_tree_is_not_read_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
