/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a trainer is cut before, inside and after every message of a small job, in both
 * directions. The job continues, and its result has the same bits as an undisturbed one. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/mman.h>

#define TOY_SMALL
#include "tests/support/c/ps_cluster.h"
#include "tests/support/c/ps_cutter.h"

#if defined(__SANITIZE_THREAD__)
enum { STRIDE = 5 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 2 };
#else
enum { STRIDE = 1 };
#endif

static const struct toy base = {.n_trainers = 2,
                                .n_servers = 1,
                                .n_dense = 1,
                                .n_sparse = 1,
                                .n_streams = 2,
                                .n_passes = 1,
                                .steps = 3,
                                .optimizer = "adagrad",
                                .lr = 0.1};

static char folder[] = "/tmp/test_ps_cuts.XXXXXX";

static int loads = 1;

/* Trainer 0 saves the model between two steps and loads it again, which must change nothing. */
static int saves_at_2(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    char path[200];
    struct ps_save_opts o = {.dir = folder, .name = "m"};
    if (step != 2)
        return 0;
    int rc = ps_barrier(c);
    snprintf(path, sizeof path, "%s/m", folder);
    if (!rc && me->id == 0)
        rc = ps_save(c, &o);
    if (!rc && me->id == 0 && loads)
        rc = ps_load(c, path, PS_MISSING_FAIL);
    return rc ? rc : ps_barrier(c);
}

struct outcome {
    struct toy_result result[2];
    struct toy_trainer me[2];
    struct cutter cutter;
    uint64_t dropped, repeated;
};

/* Reads the counts that the servers log at their end. */
static void read_counts(int fd, struct outcome *o) {
    static char text[1 << 18];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    o->dropped = o->repeated = 0;
    for (const char *p = text; (p = strstr(p, " rows, ")); p++) {
        unsigned long long a, b, c, d;
        if (sscanf(p,
                   " rows, %llu repeated, %llu stale and %llu lagging pushes dropped, %llu "
                   "requests repeated",
                   &a, &b, &c, &d) == 4) {
            o->dropped += a + b + c;
            o->repeated += d;
        }
    }
}

static void run(const struct toy *t, struct cut_at at, int every, struct outcome *o) {
    struct cluster c;
    struct pd_err err = {0};
    char list[40];
    int log = memfd_create("log", MFD_CLOEXEC);
    memset(o->result, 0, sizeof o->result);
    pd_rm_tree(folder, NULL);
    do {
        cluster_start(&c, 1, 1, 1, 2, 0, log);
        if (!cutter_start(&o->cutter, c.s[0].ports, 2, at, every))
            break;
        ps_server_stop(c.s[0].server);
        cluster_join(&c, NULL);
    } while (1);
    snprintf(list, sizeof list, "127.0.0.2:%d", c.s[0].port);
    for (int i = 0; i < 2; i++) {
        o->me[i] = (struct toy_trainer){.t = t,
                                        .id = i,
                                        .servers = i ? c.list : list,
                                        .result = &o->result[i],
                                        .before_step = t->update ? NULL : saves_at_2};
        pthread_create(&o->me[i].thread, NULL, toy_main, &o->me[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(o->me[i].thread, NULL);
    int rc = cluster_join(&c, &err);
    cutter_stop(&o->cutter);
    read_counts(log, o);

    close(log);
    for (int i = 0; i < 2; i++)
        if (o->me[i].rc || o->me[i].incidents)
            fail_msg("%s port %d %s frame %d place %d: trainer %d, %d incidents: %s",
                     t->update ? t->update : "sync", at.port, at.down ? "down" : "up", at.frame,
                     (int)at.place, i, (int)o->me[i].incidents, o->me[i].err.msg);
    if (rc)
        fail_msg("port %d %s frame %d place %d: the server: %s", at.port, at.down ? "down" : "up",
                 at.frame, (int)at.place, err.msg);
}

/* A trainer's last message confirms the answer to its PS_BYE. If it is lost, the server waits a
 * second for it. */
static int costs_a_second(const struct cutter *calm, int port, int down, int frame, int place) {
    return down ? frame == calm->frames[port][1] - 1 && place == CUT_BEHIND
                : frame == calm->frames[port][0] - 1 && place != CUT_BEHIND;
}

static const struct cut_at nowhere = {.frame = -1};
static struct outcome calm, cut;

static void same_result(const struct toy_result *a, const struct toy_result *b, struct cut_at at) {
    if (memcmp(a, b, sizeof *a))
        fail_msg("port %d %s frame %d place %d: another result", at.port, at.down ? "down" : "up",
                 at.frame, (int)at.place);
}

/* Cuts at every place of the job `t`, or at every `stride`-th place. */
static void cut_everywhere(const struct toy *t, int stride) {
    int n_cuts = 0, n_runs = 0;
    uint64_t repeated = 0, again = 0;
    run(t, nowhere, 0, &calm);
    assert_int_equal(calm.me[0].stats.reconnects, 0);
    assert_int_equal(calm.repeated, 0);
    for (int port = 0; port < 2; port++)
        for (int down = 0; down < 2; down++)
            for (int frame = 0; frame < calm.cutter.frames[port][down]; frame++)
                for (int place = 0; place < CUT_PLACES; place++) {
                    if (n_runs++ % stride ||
                        (port && costs_a_second(&calm.cutter, port, down, frame, place)))
                        continue;
                    struct cut_at at = {port, down, frame, (enum cut_place)place,
                                        (frame + place) % 2};
                    run(t, at, 0, &cut);
                    n_cuts += cut.cutter.cuts;
                    repeated += cut.repeated;
                    again += cut.me[0].stats.sent_again;
                    assert_int_equal(cut.dropped, 0); /* the servers reported correctly how far they
                                                         were: no push arrived twice */
                    for (int i = 0; i < 2; i++)
                        same_result(&calm.result[i], &cut.result[i], at);
                    for (int i = 0; i < 2; i++)
                        assert_true(calm.me[i].seen == cut.me[i].seen);
                }
    printf("%d cuts: %d messages were sent again, %d answered again\n", n_cuts, (int)again,
           (int)repeated);
    assert_true(n_cuts * stride > 150);
    assert_true(repeated > 0 && again > repeated);
}

static void test_cut_at_each_message(void **state) {
    (void)state;
    cut_everywhere(&base, STRIDE);
}

/* The same with prefetched rows: the pulled values and the result are the same. */
static void test_cut_with_rows_asked_for_ahead(void **state) {
    (void)state;
    static struct outcome plain;
    struct toy t = base;
    t.ahead = 1;
    loads = 0; /* a load makes the servers forget earlier key lists */
    run(&base, nowhere, 0, &plain);
    cut_everywhere(&t, 2 * STRIDE + 1);
    for (int i = 0; i < 2; i++) {
        same_result(&plain.result[i], &calm.result[i], nowhere);
        assert_true(plain.me[i].seen == calm.me[i].seen);
    }
    loads = 1;
    run(&base, nowhere, 0, &calm);
}

/* A network that lets only some messages through before the next cut. */
static void test_cut_again_and_again(void **state) {
    (void)state;
    int n_cuts = 0;
    for (int every = 5; every <= 9; every += 2)
        for (int i = 0; i < 4; i++) {
            struct cut_at at = {i % 2, i / 2, 4, (enum cut_place)(every % CUT_PLACES), i % 2};
            run(&base, at, every, &cut);
            n_cuts += cut.cutter.cuts;
            for (int k = 0; k < 2; k++)
                same_result(&calm.result[k], &cut.result[k], at);
        }
    assert_true(n_cuts > 40);
}

/* Without a barrier the result depends on timing, but each push must be applied exactly once. */
static void test_other_rules(void **state) {
    (void)state;
    static const char *const rules[] = {"async", "ssp", "geo"};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        struct toy t = base;
        t.ahead = 1;
        t.update = rules[r];
        t.optimizer = "sgd";
        run(&t, nowhere, 0, &cut);
        int n[2][2];
        for (int i = 0; i < 4; i++)
            n[i / 2][i % 2] = cut.cutter.frames[i / 2][i % 2];
        for (int port = 0; port < 2; port++)
            for (int down = 0; down < 2; down++)
                for (int frame = 0; frame < n[port][down] - 1; frame += 2 * STRIDE + port) {
                    struct cut_at at = {port, down, frame, (enum cut_place)(frame % CUT_PLACES),
                                        frame / 2 % 2};
                    run(&t, at, 0, &cut);
                    assert_int_equal(cut.dropped, 0);
                }
    }
}

int main(void) {
    cluster_plain = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_each_message),
        cmocka_unit_test(test_cut_with_rows_asked_for_ahead),
        cmocka_unit_test(test_cut_again_and_again),
        cmocka_unit_test(test_other_rules),
    };
    if (!mkdtemp(folder))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pd_rm_tree(folder, NULL);
    return rc;
}
