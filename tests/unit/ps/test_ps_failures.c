/* SPDX-License-Identifier: Apache-2.0 */
/* Every failure in a job ends with a reason that names the process and the step, on both sides, and
 * never with a hang. test_ps_peers.c has peers that are invalid or silent. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/socket.h>

#include "ps/client/client_beat.h"
#include "tests/support/c/ps_client.h"

static const struct toy base = {.n_trainers = 3,
                                .n_servers = 2,
                                .n_dense = 1,
                                .n_sparse = 1,
                                .n_streams = 3,
                                .n_passes = 1,
                                .steps = 5,
                                .optimizer = "sgd",
                                .lr = 0.1};

/* --- members that fail --- */

struct outcome {
    struct toy_trainer me[8];
    struct pd_err server;
    int server_rc;
};

/* Runs the job with one trainer that behaves differently; every trainer must return. */
static void run_with(const struct toy *t, int odd,
                     int (*behave)(struct toy_trainer *, struct ps_client *, uint64_t),
                     struct outcome *o) {
    static struct toy_result sink[8];
    struct cluster c;
    memset(o, 0, sizeof *o);
    cluster_start(&c, t->n_servers, t->n_dense, t->n_sparse, t->n_trainers, 0, -1);
    for (int i = 0; i < t->n_trainers; i++) {
        o->me[i] = (struct toy_trainer){.t = t, .id = i, .servers = c.list, .result = &sink[i]};
        if (i == odd)
            o->me[i].before_step = behave;
        pthread_create(&o->me[i].thread, NULL, toy_main, &o->me[i]);
    }
    for (int i = 0; i < t->n_trainers; i++)
        pthread_join(o->me[i].thread, NULL);
    o->server_rc = cluster_join(&c, &o->server);
}

static int dies_at_2(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    (void)me;
    (void)c;
    return step == 2 ? PD_ECANCELED : 0;
}

static void test_trainer_that_dies_is_named_everywhere(void **state) {
    (void)state;
    struct outcome o;
    run_with(&base, 1, dies_at_2, &o);
    assert_int_equal(o.me[1].rc, PD_ECANCELED);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(o.me[i].rc, PD_EFAIL);
        assert_contains(o.me[i].err.msg, "trainer 1 (127.0.0.1:");
        assert_contains(o.me[i].err.msg, ") has failed: it has left without ps_bye in step 2");
    }
    assert_int_equal(o.server_rc, PD_EFAIL);
    assert_contains(o.server.msg, "trainer 1 (127.0.0.1:");
}

/* The folder cannot be made, as on a disk that is full or read-only. */
static int cannot_save_at_2(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    const struct ps_save_opts o = {.dir = "/dev/null", .name = "m"};
    (void)me;
    return step == 2 ? ps_save(c, &o) : 0;
}

/* The trainer that asked for the save is not at fault: the job does not continue without it. */
static void test_a_server_that_cannot_save_is_named(void **state) {
    (void)state;
    struct outcome o;
    cluster_on_lost = PS_LOST_CONTINUE;
    run_with(&base, 0, cannot_save_at_2, &o);
    cluster_on_lost = PS_LOST_FAIL;
    for (int i = 0; i < 3; i++) {
        assert_true(o.me[i].rc < 0);
        assert_contains(o.me[i].err.from, "pserver");
    }
    assert_true(o.server_rc < 0);
    assert_contains(o.server.msg, "/dev/null");
    assert_null(strstr(o.server.from, "trainer"));
}

/* --- connections that break; test_ps_cuts.c has connections that come back --- */

static int repeats_at_1(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    static const uint64_t keys[] = {7};
    static float grad[TOY_DIM];
    (void)me;
    if (step != 1)
        return 0;
    int rc = ps_push_rows(c, 0, 1, keys, grad);
    return rc ? rc : ps_push_rows(c, 0, 1, keys, grad);
}

/* A second push of the same (trainer, step, table) is recognised and dropped, and the job continues
 * unchanged. */
static void test_repeated_push_is_dropped(void **state) {
    (void)state;
    struct outcome o;
    run_with(&base, 2, repeats_at_1, &o);
    for (int i = 0; i < 3; i++)
        if (o.me[i].rc)
            fail_msg("trainer %d: %s", i, o.me[i].err.msg);
    assert_int_equal(o.server_rc, 0);
}

static void test_server_that_stops_is_named(void **state) {
    (void)state;
    static struct toy_result sink[2];
    struct toy t = base;
    struct cluster c;
    struct toy_trainer me[2];
    t.n_trainers = 2;
    t.n_streams = 2;
    t.steps = 100000;
    cluster_start(&c, 2, 1, 1, 2, 0, -1);
    for (int i = 0; i < 2; i++) {
        me[i] = (struct toy_trainer){.t = &t, .id = i, .servers = c.list, .result = &sink[i]};
        pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
    }
    usleep(300000); /* some time within the job */
    ps_server_stop(c.s[1].server);
    for (int i = 0; i < 2; i++)
        pthread_join(me[i].thread, NULL);
    struct pd_err err = {0};
    assert_int_equal(cluster_join(&c, &err), PD_EFAIL); /* the other server's trainers are gone */
    char want[64];
    snprintf(want, sizeof want, "the pserver with port %d of ", c.s[1].port);
    for (int i = 0; i < 2; i++) {
        assert_true(me[i].rc < 0);
        assert_contains(me[i].err.msg, want);
    }
}

/* --- start --- */

static void test_declarations_must_agree(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t n;
        float l2;
        const char *want;
    } row[] = {
        {"shape", 9, 0, "parameter 'hidden.w': shape is 2x9 here but was declared first as 2x8"},
        {"l2", 8, 0.5f, "parameter 'hidden.w': l2 is 0.5 here but was declared first as 0"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct cluster cl;
        cluster_start(&cl, 1, 1, 1, 2, 0, -1);
        struct ps_client *a = new_client(cl.list, 0, 2, cluster_key, 5000),
                         *b = new_client(cl.list, 1, 2, cluster_key, 5000);
        assert_int_equal(declare_w(a, 8, 0), 0);
        assert_int_equal(declare_w(b, row[i].n, row[i].l2), 0);
        assert_int_equal(ps_start(a), 0);
        assert_int_equal(ps_start(b), PD_ECONF);
        assert_contains(ps_client_err(b)->msg, row[i].want);
        ps_client_free(b);
        ps_client_free(a);
        assert_int_equal(cluster_join(&cl, NULL), PD_EFAIL); /* a left without PS_BYE */
    }
}

static void test_absent_server_is_named(void **state) {
    (void)state;
    struct pd_err err = {0};
    /* Bound but not listening, so it refuses connections. */
    int port, fd = net_bind_first_free("127.0.0.1", 0, 1, &port, &err);
    char list[64];
    snprintf(list, sizeof list, "127.0.0.1:%d", port);
    struct ps_client *c = new_client(list, 0, 1, cluster_key, 400);
    declare_w(c, 8, 0);
    assert_int_equal(ps_start(c), PD_ETIMEOUT);
    assert_contains(ps_client_err(c)->msg, list);
    assert_contains(ps_client_err(c)->msg, "could not be reached in 0.4 s");
    ps_client_free(c);
    close(fd);
}

static void *start_late(void *arg) {
    usleep(400000);
    struct one_server *s = arg;
    s->rc = ps_server_run(s->server, &s->err);
    return NULL;
}

/* The socket is bound, and the server starts while the trainer is already connecting. */
static void test_server_may_come_later(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct one_server s = {0};
    int fds[2], port;
    fds[0] = net_bind_first_free("127.0.0.1", 0, 1, &s.port, &err);
    fds[1] = net_bind_first_free("127.0.0.1", 0, 1, &port, &err);
    char list[64];
    snprintf(list, sizeof list, "127.0.0.1:%d", s.port);
    struct ps_server_opts o = {
        .fds = fds, .n_dense = 1, .n_sparse = 1, .n_trainers = 1, .job = "J", .key = cluster_key};
    assert_int_equal(ps_server_new(&s.server, &o, &err), 0);
    pthread_create(&s.thread, NULL, start_late, &s);
    struct ps_client *c = new_client(list, 0, 1, cluster_key, 20000);
    declare_w(c, 8, 0);
    assert_int_equal(ps_start(c), 0);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.rc, 0);
    ps_server_free(s.server);
}

/* A server that needs longer for the first declaration than the time limit for reconnecting, for
 * example under high load or with large tables. */
static void test_a_slow_answer_to_the_declaration_is_no_loss(void **state) {
    (void)state;
    struct cluster cl;
    cluster_reconnect_ms = 200;
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {.pservers = cl.list,
                               .n_trainers = 1,
                               .optimizer = {"sgd", 0.1, 0},
                               .job = "J",
                               .key = cluster_key,
                               .reconnect_ms = cluster_reconnect_ms};
    assert_int_equal(ps_client_new(&c, &o, &err), 0);
    declare_w(c, 8, 0);
    pd_fault_arm("slow.ps.declare:1500");
    if (ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
    pd_fault_arm(NULL);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    assert_int_equal(cluster_join(&cl, NULL), 0);
    cluster_reconnect_ms = 0;
}

static void test_wrong_key_gets_nothing(void **state) {
    (void)state;
    struct cluster cl;
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    static const uint8_t wrong[32] = "not the key";
    struct ps_client *c = new_client(cl.list, 0, 1, wrong, 700);
    declare_w(c, 8, 0);
    assert_true(ps_start(c) < 0);
    ps_client_free(c);
    c = new_client(cl.list, 0, 1, cluster_key, 5000); /* the server continues */
    declare_w(c, 8, 0);
    assert_int_equal(ps_start(c), 0);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void test_second_of_the_same_id_is_refused(void **state) {
    (void)state;
    struct cluster cl;
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    struct ps_client *a = new_client(cl.list, 0, 1, cluster_key, 5000),
                     *b = new_client(cl.list, 0, 1, cluster_key, 5000);
    declare_w(a, 8, 0);
    declare_w(b, 8, 0);
    assert_int_equal(ps_start(a), 0);
    assert_int_equal(ps_start(b), PD_EEXIST);
    assert_contains(ps_client_err(b)->msg, "trainer 0 is already here (127.0.0.1:");
    ps_client_free(b);
    assert_int_equal(ps_barrier(a), 0);
    assert_int_equal(ps_bye(a), 0);
    ps_client_free(a);
    assert_int_equal(cluster_join(&cl, NULL), 0);
}

static void test_trainer_count_must_agree(void **state) {
    (void)state;
    struct cluster cl;
    cluster_start(&cl, 1, 1, 1, 1, 0, -1);
    struct ps_client *c = new_client(cl.list, 0, 2, cluster_key, 5000);
    declare_w(c, 8, 0);
    assert_int_equal(ps_start(c), PD_ECONF);
    assert_contains(ps_client_err(c)->msg,
                    "the trainer counts 2 trainers, this server was started for 1");
    ps_client_free(c);
    ps_server_stop(cl.s[0].server);
    assert_int_equal(cluster_join(&cl, NULL), 0);
}

/* --- a long wait --- */

static int sleeps_at_1(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    (void)me;
    (void)c;
    if (step == 1)
        usleep(2600000);
    return 0;
}

static void test_long_wait_names_who_is_missing(void **state) {
    (void)state;
    static struct toy_result sink[2];
    char path[] = "/tmp/test_ps_wait.XXXXXX";
    int fd = mkstemp(path);
    struct toy t = base;
    struct cluster c;
    struct toy_trainer me[2];
    t.n_trainers = 2;
    t.n_streams = 4;
    cluster_start(&c, 1, 1, 1, 2, 1000, fd);
    for (int i = 0; i < 2; i++) {
        me[i] = (struct toy_trainer){.t = &t,
                                     .id = i,
                                     .servers = c.list,
                                     .result = &sink[i],
                                     .before_step = i == 1 ? sleeps_at_1 : NULL};
        pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(me[i].thread, NULL);
    assert_int_equal(cluster_join(&c, NULL), 0);
    static char text[1 << 16];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    close(fd);
    unlink(path);
    assert_contains(text, "waiting for trainer 1 (streams 2-3) in step 1, for ");
}

/* A trainer failed before it connected: the server and the connected trainers end with a message
 * that names it. */
static void test_one_that_never_connects_is_named(void **state) {
    (void)state;
    struct cluster cl;
    struct pd_err err = {0};
    cluster_start_ms = 2000;
    cluster_start(&cl, 1, 1, 1, 3, 0, -1);
    cluster_start_ms = 0;
    struct ps_client *c = new_client(cl.list, 1, 3, cluster_key, 20000);
    declare_w(c, 8, 0);
    assert_int_equal(ps_start(c), 0);
    assert_int_equal(ps_barrier(c), PD_ETIMEOUT);
    assert_contains(ps_client_err(c)->msg,
                    "trainer 0, 2 of 3 never connected: no new trainer for 2 s (start_timeout)");
    ps_client_free(c);
    assert_int_equal(cluster_join(&cl, &err), PD_ETIMEOUT);
    assert_contains(err.msg, "trainer 0, 2 of 3 never connected");
}

/* The limit is for trainers that never connected. A connected trainer may take any time. */
static void test_the_limit_of_the_start_is_not_one_of_a_step(void **state) {
    (void)state;
    struct outcome o;
    cluster_start_ms = 3000; /* trainers connect within this time, and the step takes longer */
    run_with(&base, 1, toy_takes_long_at_1, &o);
    cluster_start_ms = 0;
    for (int i = 0; i < 3; i++)
        if (o.me[i].rc)
            fail_msg("trainer %d: %s", i, o.me[i].err.msg);
    assert_int_equal(o.server_rc, 0);
}

/* A server that was stopped before its first answer: its kernel accepts connections, but no answer
 * arrives. */
static void test_a_server_that_never_answers_a_beat_is_lost(void **state) {
    (void)state;
    struct pd_err err = {0};
    int port, fd = net_bind_first_free("127.0.0.1", 0, 1, &port, &err);
    assert_true(fd >= 0);
    assert_int_equal(listen(fd, 16), 0);
    const struct ps_beat_server server = {"127.0.0.1", port};
    const struct ps_beat_opts opts = {.servers = &server,
                                      .n_servers = 1,
                                      .hs = {.self = {.role = WIRE_ROLE_TRAINER}},
                                      .limit_ms = 1, /* below the minimum, so the minimum counts */
                                      .first_ms = 3000};
    struct ps_beat *b = NULL;
    assert_int_equal(ps_beat_start(&b, &opts, &err), 0);
    const uint64_t began = pd_mono_ns(), most = 60000000000u;
    uint64_t limit = 0;
    while (ps_beat_silent(b, &limit) < 0 && pd_mono_ns() - began < most)
        usleep(50000);
    const uint64_t took_ms = (pd_mono_ns() - began) / 1000000u;
    assert_int_equal(ps_beat_silent(b, &limit), 0);
    assert_int_equal(limit, 3000);
    assert_true(took_ms >= 2900);
    ps_beat_stop(b);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_that_dies_is_named_everywhere),
        cmocka_unit_test(test_a_server_that_cannot_save_is_named),
        cmocka_unit_test(test_repeated_push_is_dropped),
        cmocka_unit_test(test_server_that_stops_is_named),
        cmocka_unit_test(test_declarations_must_agree),
        cmocka_unit_test(test_absent_server_is_named),
        cmocka_unit_test(test_server_may_come_later),
        cmocka_unit_test(test_a_slow_answer_to_the_declaration_is_no_loss),
        cmocka_unit_test(test_wrong_key_gets_nothing),
        cmocka_unit_test(test_second_of_the_same_id_is_refused),
        cmocka_unit_test(test_trainer_count_must_agree),
        cmocka_unit_test(test_long_wait_names_who_is_missing),
        cmocka_unit_test(test_one_that_never_connects_is_named),
        cmocka_unit_test(test_a_server_that_never_answers_a_beat_is_lost),
        cmocka_unit_test(test_the_limit_of_the_start_is_not_one_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
