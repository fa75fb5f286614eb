/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_changes.c - files that change while they are hashed, or after that, before they are
 * sent. */
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>

#include "pack/object/chunker.h"
#include "pack/scan/scan.h"
#include "tests/support/c/scan_env.h"

struct writer {
    char path[200];
    atomic_int stop;
};

static void *keep_writing(void *arg) {
    struct writer *w = arg;
    int fd = open(w->path, O_WRONLY);
    for (uint64_t i = 0; !atomic_load(&w->stop); i++)
        if (pwrite(fd, &i, sizeof i, (off_t)(i % 100) * 4096) < 0)
            break;
    close(fd);
    return NULL;
}

static void a_file_that_never_rests_is_named(void **state) {
    struct env *e = *state;
    struct writer w = {.stop = 0};
    struct scan *s;
    struct pd_err err = {0};
    pthread_t t;
    put_bytes(e, "restless", 1, 64 << 20);
    snprintf(w.path, sizeof w.path, "%s/restless", e->src);
    assert_int_equal(scan_new(&s, e->src, 0, &err), 0);
    assert_int_equal(pthread_create(&t, NULL, keep_writing, &w), 0);
    int rc = scan_run(s, &err);
    atomic_store(&w.stop, 1);
    pthread_join(t, NULL);
    scan_free(s);
    assert_int_equal(rc, PD_EDATA);
    assert_non_null(strstr(err.msg, "src/restless changes while it is read"));
}

static void a_change_before_sending_is_named(void **state) {
    struct env *e = *state;
    static uint8_t buf[OBJECT_MAX];
    struct scan_totals t;
    int n_bad = 0;
    put_bytes(e, "large", 1, 1 << 20);
    put_bytes(e, "small", 2, 100);
    put_bytes(e, "small2", 3, 100);
    struct scan *s = scanned(e->src);
    put_bytes(e, "large", 4, 1 << 20);
    put_bytes(e, "small2", 5, 100);
    scan_get_totals(s, &t);
    for (long o = 0; o < (long)t.objects; o++) {
        struct pd_err err = {0};
        uint32_t n;
        if (scan_read(s, o, buf, &n, &err)) {
            n_bad++;
            assert_true(strstr(err.msg, "src/large changed") ||
                        strstr(err.msg, "src/small2 changed"));
        }
    }
    assert_true(n_bad >= 5 && n_bad < (int)t.objects);
    scan_free(s);
}

/* An unchanged mtime is no proof, because a program may have restored it. Exactly the changed
 * objects are refused. */
static void a_change_with_the_old_mtime_is_named(void **state) {
    struct env *e = *state;
    static uint8_t buf[OBJECT_MAX];
    char p[400];
    struct stat st;
    struct scan_totals t;
    int n_bad = 0;
    put_bytes(e, "large", 1, 5 << 20);
    usleep(50000); /* some ticks of the file system's clock */
    struct scan *s = scanned(e->src);
    scan_get_totals(s, &t);
    for (int changed = 0; changed < 2; changed++) {
        n_bad = 0;
        for (long o = 0; o < (long)t.objects; o++) {
            struct pd_err err = {0};
            uint32_t n;
            int rc = scan_read(s, o, buf, &n, &err);
            n_bad += rc != 0;
            if (rc && (rc != PD_EDATA || !strstr(err.msg, "src/large changed")))
                fail_msg("%d: %s", rc, err.msg);
        }
        assert_int_equal(n_bad, changed);
        snprintf(p, sizeof p, "%s/large", e->src);
        assert_int_equal(stat(p, &st), 0);
        int fd = open(p, O_WRONLY);
        assert_int_equal(pwrite(fd, "x!", 2, 3 << 20), 2);
        assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
        close(fd);
    }
    scan_free(s);
}

/* A long file is hashed in the background while it is read. Its objects are the same as those of a
 * plain cut from the beginning. */
static void a_long_file_is_cut_as_from_its_beginning(void **state) {
    struct env *e = *state;
    static uint8_t buf[OBJECT_MAX];
    struct pd_buf b = {0};
    struct pd_err err = {0};
    struct chunker c;
    char p[400];
    put_bytes(e, "long", 7, (9 << 20) + 12345);
    struct scan *s = scanned(e->src);
    snprintf(p, sizeof p, "%s/long", e->src);
    assert_int_equal(pd_read_file(p, 10 << 20, &b, &err), 0);
    chunker_init(&c, b.len, b.len);
    size_t n_objects = 0;
    for (size_t at = 0, n; at < b.len; at += n, n_objects++) {
        struct object_id id;
        uint32_t len;
        n = chunker_cut(&c, b.data + at, b.len - at);
        object_id_of(&id, b.data + at, n);
        long o = scan_find(s, &id);
        assert_true(o >= 0);
        assert_int_equal(scan_read(s, o, buf, &len, &err), 0);
        assert_int_equal(len, n);
        assert_memory_equal(buf, b.data + at, n);
    }
    struct scan_totals t;
    scan_get_totals(s, &t);
    /* The objects of the manifest. */
    assert_true(t.objects > n_objects && t.objects < n_objects + 40);
    pd_buf_release(&b);
    scan_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_never_rests_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_before_sending_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_with_the_old_mtime_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_file_is_cut_as_from_its_beginning, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
