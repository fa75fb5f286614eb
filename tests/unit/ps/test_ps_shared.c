/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_shared.c - a peer on this machine that writes into the shared memory after it has sent a
 * frame. A thread plays the peer with mappings of its own, while jobs run. A job may fail, or have
 * wrong values. With AddressSanitizer no memory outside is touched. This is a race:
 * test_net_share.c shows that what is checked is a copy. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "tests/support/c/ps_cluster.h"

enum { KEYS = 4000, DIM = 4, DENSE = 20000, STEPS = 8, LEAST = 12, MOST = 60, REACH = 1 << 20 };

struct peer {
    atomic_int stop;
    atomic_uint turns; /* each has changed something */
    uint64_t rng;
};

/* Some garbage in the first megabyte of each memory that this process shares, behind the head. */
static void write_once(struct peer *p, DIR *d) {
    char path[300], to[100];
    struct stat st;
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        const ssize_t k = readlink(path, to, sizeof to - 1);
        to[k > 0 ? k : 0] = 0;
        const int fd = strstr(to, "memfd:paddlectl-frames") ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        const size_t n = fstat(fd, &st) ? 0 : st.st_size < REACH ? (size_t)st.st_size : REACH;
        uint64_t *m =
            n > 4096 ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        close(fd);
        for (int i = 0; m != MAP_FAILED && i < 300; i++) {
            const uint64_t v = pd_mix64(p->rng++);
            m[512 + v % (n / 8 - 512)] = v >> (v % 3 * 24);
        }
        if (m != MAP_FAILED) {
            munmap(m, n);
            atomic_fetch_add(&p->turns, 1);
        }
    }
}

static void *write_on(void *arg) {
    struct peer *p = arg;
    DIR *d = opendir("/proc/self/fd");
    while (!atomic_load(&p->stop)) {
        write_once(p, d);
        usleep((useconds_t)(pd_mix64(p->rng++) % 400));
    }
    closedir(d);
    return NULL;
}

/* A job of one trainer. *wrong counts the values that no gradient made. */
static int train(const char *servers, uint64_t *wrong) {
    static uint64_t keys[KEYS];
    static float rows[KEYS * DIM], dense[DENSE];
    const struct ps_client_opts o = {.pservers = servers,
                                     .n_trainers = 1,
                                     .n_streams = 1,
                                     .stream_hi = 1,
                                     .seed = 1,
                                     .optimizer = {"sgd", 0.1, 0},
                                     .job = "J",
                                     .key = cluster_key,
                                     .connect_timeout_ms = 20000,
                                     .reconnect_ms = 500};
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    const struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {DENSE}, .init_mean = 1, .lr_factor = 1};
    const struct ps_table_spec t = {.name = "t", .dim = DIM, .init_mean = 1, .lr_factor = 1};
    int rc = ps_client_new(&c, &o, &err), id = -1, table = -1;
    for (int i = 0; i < KEYS; i++)
        keys[i] = (uint64_t)i * 3 + 1;
    if (!rc && ((id = ps_declare_dense(c, &w)) < 0 || (table = ps_declare_table(c, &t)) < 0))
        rc = PD_EFAIL;
    rc = rc ? rc : ps_start(c);
    for (int k = 0; k < STEPS && !rc; k++) {
        rc = ps_pull_rows(c, table, KEYS, keys, rows, PS_CREATE);
        rc = rc ? rc : ps_pull_dense(c, id, dense, DENSE);
        rc = rc ? rc : ps_wait(c);
        for (int i = 0; i < KEYS * DIM && !rc; i++) {
            *wrong += rows[i] != 1;
            rows[i] = 0;
        }
        memset(dense, 0, sizeof dense);
        rc = rc ? rc : ps_push_rows(c, table, KEYS, keys, rows);
        rc = rc ? rc : ps_push_dense(c, id, dense, DENSE);
        rc = rc ? rc : ps_step_end(c, 1, NULL, 0);
    }
    rc = rc ? rc : ps_bye(c);
    ps_client_free(c);
    return rc;
}

static void a_peer_that_changes_what_it_has_sent_breaks_only_its_job(void **state) {
    (void)state;
    struct peer p = {.rng = 7};
    unsigned done = 0, failed = 0;
    uint64_t wrong = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &p), 0);
    cluster_reconnect_ms = 500;
    for (unsigned i = 0; i < LEAST || (i < MOST && !(failed && wrong)); i++) {
        struct cluster c;
        cluster_start(&c, 1, 1, 1, 1, 0, -1);
        const int rc = train(c.list, &wrong);
        const int end = cluster_join(&c, NULL);
        done += !rc && !end;
        failed += rc || end;
    }
    atomic_store(&p.stop, 1);
    pthread_join(thread, NULL);
    print_message("%u jobs ended, %u failed, %llu values were not the job's; %u changes\n", done,
                  failed, (unsigned long long)wrong, atomic_load(&p.turns));
    assert_true(failed + wrong > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_changes_what_it_has_sent_breaks_only_its_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
