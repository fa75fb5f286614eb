/* test_pack_changes.c - files that change while they are hashed, or afterwards, before they are sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pack/scan.h"
#include "tests/support/scan_env.h"

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
            assert_true(strstr(err.msg, "src/large changed") || strstr(err.msg, "src/small2 changed"));
        }
    }
    assert_true(n_bad >= 5 && n_bad < (int)t.objects);
    scan_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_never_rests_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_before_sending_is_named, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
