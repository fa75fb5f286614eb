/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that break the protocol, are silent or do not read. They get a reason, and they do not
 * disturb other peers. */
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <sys/socket.h>

#include "ps/client/client.h"
#include "ps/plan/declaration.h"
#include "tests/support/c/ps_client.h"
#include "wire/msg.h"

struct raw {
    int fd;
    struct wire_decoder *d;
};

static struct wire_frame *raw_read(struct raw *r) { /* NULL: the peer has closed */
    struct wire_frame *f;
    while (!(f = wire_decoder_next(r->d))) {
        uint8_t *p;
        size_t n;
        wire_decoder_space(r->d, &p, &n);
        ssize_t k = read(r->fd, p, n);
        if (k <= 0 || wire_decoder_commit(r->d, (size_t)k, NULL))
            return NULL;
    }
    return f;
}

static void raw_open(struct raw *r, int port, uint32_t trainer, uint16_t role) {
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct wire_hs_opts o = {.self = {.role = role, .id = trainer, .incarnation = 9, .job = "J"},
                             .plain = cluster_plain};
    struct timeval limit = {.tv_sec = 20};
    memcpy(o.key, cluster_key, sizeof o.key);
    r->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(r->fd, (struct sockaddr *)&sa, sizeof sa), 0);
    r->d = wire_decoder_new(8 << 20);
    struct wire_hs *hs = wire_hs_new(&o, 1);
    struct pd_err err = {0};
    for (;;) {
        struct pd_buf b;
        pd_buf_init(&b);
        assert_int_equal(wire_hs_output(hs, &b, &err), 0);
        assert_int_equal(write(r->fd, b.data, b.len), (ssize_t)b.len);
        pd_buf_release(&b);
        if (wire_hs_done(hs))
            break;
        struct wire_frame *f = raw_read(r);
        assert_non_null(f);
        int rc = wire_hs_input(hs, f, &err);
        wire_frame_free(f);
        assert_true(rc >= 0);
        if (rc == 1)
            break;
    }
    wire_hs_free(hs);
}

static void raw_close(struct raw *r) {
    close(r->fd);
    wire_decoder_free(r->d);
}

static size_t raw_frame(uint8_t *out, uint16_t type, const void *p, size_t n) {
    size_t len[1] = {n};
    memset(out, 0, 64 + n + 64);
    size_t total = wire_header(out, type, 0, 77, 1, len);
    memcpy(out + 64, p, n);
    return total;
}

/* Reads all answers. The connection must end, with a reason unless not even a frame was received.
 */
static int raw_must_end(struct raw *r, int *errors) {
    struct wire_frame *f;
    while ((f = raw_read(r))) {
        *errors += (f->flags & WIRE_F_ERROR) != 0;
        wire_frame_free(f);
    }
    return 1;
}

static atomic_int strangers_left;

/* Keeps the job running while invalid peers connect. */
static int waits_for_strangers(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    (void)me;
    (void)c;
    while (step == 50 && !atomic_load(&strangers_left))
        usleep(1000);
    return 0;
}

static void test_strangers_do_not_disturb(void **state) {
    (void)state;
    static struct toy_result sink[2];
    struct toy t = {
        .n_servers = 1, .n_dense = 1, .n_sparse = 1, .n_passes = 1, .optimizer = "sgd", .lr = 0.1};
    struct cluster c;
    struct toy_trainer me[2];
    t.n_trainers = 2;
    t.n_streams = 2;
    t.jitter = 1;
    t.steps = 60;
    cluster_start(&c, 1, 1, 1, 2, 0, -1);
    for (int i = 0; i < 2; i++) {
        me[i] = (struct toy_trainer){.t = &t,
                                     .id = i,
                                     .servers = c.list,
                                     .result = &sink[i],
                                     .before_step = waits_for_strangers};
        pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
    }
    uint8_t junk[48] = {0}, frame[256];
    int errors = 0, n = 0;
    static const uint16_t types[] = {WIRE_PS_PUSH_DENSE, WIRE_PS_PUSH_ROWS, WIRE_PS_STEP_END,
                                     WIRE_PS_PULL_DENSE, WIRE_PS_BYE,       WIRE_PS_SAVE,
                                     WIRE_PS_DECLARE,    WIRE_AG_HELLO,     0x7777};
    /* Frames of a peer that has not declared. */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct raw r;
        raw_open(&r, c.s[0].port, (uint32_t)i % 2, WIRE_ROLE_TRAINER);
        size_t total = raw_frame(frame, types[i], junk, sizeof junk);
        assert_int_equal(write(r.fd, frame, total), (ssize_t)total);
        n += raw_must_end(&r, &errors);
        raw_close(&r);
    }
    assert_int_equal(errors, n);
    for (size_t bit = 0; bit < 64 * 8; bit += 7) { /* a header with one wrong bit */
        struct raw r;
        raw_open(&r, c.s[0].port, 1, WIRE_ROLE_TRAINER);
        size_t total = raw_frame(frame, WIRE_PS_PUSH_ROWS, junk, sizeof junk);
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(write(r.fd, frame, total), (ssize_t)total);
        shutdown(r.fd, SHUT_WR);
        raw_must_end(&r, &errors);
        raw_close(&r);
    }
    for (size_t cut = 1; cut < 112; cut += 5) { /* a frame that is cut short */
        struct raw r;
        raw_open(&r, c.s[0].port, 0, WIRE_ROLE_TRAINER);
        size_t total = raw_frame(frame, WIRE_PS_PUSH_ROWS, junk, sizeof junk);
        assert_int_equal(write(r.fd, frame, cut < total ? cut : total),
                         (ssize_t)(cut < total ? cut : total));
        shutdown(r.fd, SHUT_WR);
        raw_must_end(&r, &errors);
        raw_close(&r);
    }
    struct raw r; /* a probe of the port is closed without an error */
    raw_open(&r, c.s[0].port, 0, WIRE_ROLE_PROBE);
    raw_must_end(&r, &errors);
    raw_close(&r);
    atomic_store(&strangers_left, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(me[i].thread, NULL);
        if (me[i].rc)
            fail_msg("trainer %d: %s", i, me[i].err.msg);
    }
    assert_int_equal(cluster_join(&c, NULL), 0);
}

static uint64_t raw_cols = 8; /* columns of the parameter that raw_declare declares */

static void raw_declare(struct raw *r, uint32_t trainer, uint64_t incarnation, uint64_t epoch,
                        struct wire_frame **answer) {
    struct ps_declaration job;
    struct pd_err err = {0};
    struct pd_buf b;
    struct ps_declare_sender d = {.kind = PS_KIND_DENSE,
                                  .stream_lo = trainer,
                                  .stream_hi = trainer + 1,
                                  .incarnation = incarnation,
                                  .epoch = epoch};
    struct ps_dense_spec s = {
        .name = "hidden.w", .n_dims = 2, .shape = {2, raw_cols}, .lr_factor = 1};
    static uint8_t frame[4096];
    ps_declaration_init(&job);
    pd_buf_init(&b);
    job.n_trainers = job.n_streams = 2;
    job.n_servers = job.n_dense_threads = job.n_sparse_threads = 1;
    pd_fmt(job.update, sizeof job.update, "sync");
    assert_int_equal(ps_optim_conf_init(&job.optim, "sgd", &err), 0);
    job.optim.learning_rate = 0.1;
    assert_int_equal(ps_declaration_add_dense(&job, &s, &err), 0);
    ps_declaration_put(&b, &d, &job);
    size_t total = raw_frame(frame, WIRE_PS_DECLARE, b.data, b.len);
    assert_int_equal(write(r->fd, frame, total), (ssize_t)total);
    pd_buf_release(&b);
    ps_declaration_release(&job);
    *answer = raw_read(r);
    assert_non_null(*answer);
}

static void assert_refused(struct wire_frame *f, const char *want) {
    char msg[900];
    struct pd_reader r;
    assert_true(f->flags & WIRE_F_ERROR);
    pd_reader_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u32(&r);
    pd_get_str(&r, msg, sizeof msg);
    assert_contains(msg, want);
    wire_frame_free(f);
}

/* A process was killed, so its connections are closed without PS_BYE. No process takes its place,
 * and it is given up after the limit. */
static void test_trainer_that_does_not_come_back(void **state) {
    (void)state;
    struct cluster cl;
    struct wire_frame *f;
    struct raw r;
    cluster_reconnect_ms = 700;
    cluster_start(&cl, 1, 1, 1, 2, 0, -1);
    cluster_reconnect_ms = 0;
    struct ps_client *a = new_client(cl.list, 0, 2, cluster_key, 5000);
    declare_w(a, 8, 0);
    assert_int_equal(ps_start(a), 0);
    raw_open(&r, cl.s[0].port, 1, WIRE_ROLE_TRAINER);
    raw_declare(&r, 1, 9, 0, &f);
    assert_int_equal(f->flags, 0);
    uint64_t epoch;
    memcpy(&epoch, f->sec[0], 8);
    wire_frame_free(f);
    raw_close(&r);
    raw_open(&r, cl.s[0].port, 1, WIRE_ROLE_TRAINER);
    raw_declare(&r, 1, 10, 0, &f); /* another process with the same id */
    assert_refused(f, "trainer 1 is already here");
    raw_close(&r);
    raw_open(&r, cl.s[0].port, 1, WIRE_ROLE_TRAINER);
    raw_declare(&r, 1, 9, epoch + 1, &f); /* the same process with the epoch of another server */
    assert_refused(f, "was started again and no longer has the parameters");
    raw_close(&r);
    raw_open(&r, cl.s[0].port, 1, WIRE_ROLE_TRAINER);
    raw_declare(&r, 1, 9, epoch, &f); /* it comes back and is lost again */
    assert_int_equal(f->flags, 0);
    wire_frame_free(f);
    raw_close(&r);
    assert_int_equal(ps_barrier(a), PD_EFAIL);
    assert_contains(ps_client_err(a)->msg, "trainer 1 (127.0.0.1:");
    assert_contains(ps_client_err(a)->msg, "is gone in step 0");
    assert_contains(ps_client_err(a)->msg, "it did not come back in 0.7 s");
    ps_client_free(a);
    assert_int_equal(cluster_join(&cl, NULL), PD_EFAIL);
}

static size_t resident_bytes(void) {
    unsigned long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A client that requests 1.6 GB and does not read costs the server 64 MiB and one answer, and costs
 * the other trainers nothing. When it reads after all, it gets everything. */
static void test_client_that_does_not_read(void **state) {
    (void)state;
    enum { PULLS = 400, COLS = 524288, ANSWER = 2 * COLS * 4 };
    struct cluster cl;
    struct wire_frame *f;
    struct raw r;
    static float out[2 * COLS];
    cluster_start(&cl, 1, 1, 1, 2, 0, -1);
    struct ps_client *a = new_client(cl.list, 0, 2, cluster_key, 20000);
    declare_w(a, COLS, 0);
    assert_int_equal(ps_start(a), 0);
    raw_cols = COLS;
    raw_open(&r, cl.s[0].port, 1, WIRE_ROLE_TRAINER);
    raw_declare(&r, 1, 9, 0, &f);
    raw_cols = 8;
    assert_int_equal(f->flags, 0);
    wire_frame_free(f);
    size_t before = resident_bytes();
    for (uint64_t i = 0; i < PULLS; i++) {
        static uint8_t pull[256];
        uint8_t body[20] = {0};
        body[8] = 1; /* after step 0, one parameter: the first */
        size_t total = raw_frame(pull, WIRE_PS_PULL_DENSE, body, sizeof body);
        uint64_t req = 100 + i;
        memcpy(pull + 8, &req, 8);
        assert_int_equal(write(r.fd, pull, total), (ssize_t)total);
    }
    for (int i = 0; i < 20; i++) { /* the other trainer is served all this time */
        assert_int_equal(ps_pull_dense(a, 0, out, 2 * COLS), 0);
        assert_int_equal(ps_wait(a), 0);
    }
    size_t grown = resident_bytes() - before;
    printf("%zu MiB more for %d MiB that were asked for\n", grown >> 20, PULLS * (ANSWER >> 20));
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    assert_true(
        grown <
        (size_t)1200 << 20); /* the sanitizers need several bytes of shadow memory per byte */
#else
    assert_true(grown < (size_t)320 << 20);
#endif
    for (int i = 0; i < PULLS; i++) {
        f = raw_read(&r);
        assert_non_null(f);
        assert_int_equal(f->flags, 0);
        assert_int_equal(f->len[2], ANSWER);
        wire_frame_free(f);
    }
    raw_close(&r);
    ps_client_free(a);
    assert_int_equal(cluster_join(&cl, NULL), PD_EFAIL); /* both left without PS_BYE */
}

static void *reduce_one(void *client) {
    double v = 1;
    return (void *)(intptr_t)ps_reduce(client, &v, 1);
}

/* An invalid member gets the reason, and the job ends with it: without that member the job could
 * only hang. */
static void test_lying_member_ends_the_job_with_a_reason(void **state) {
    (void)state;
    struct cluster cl;
    cluster_start(&cl, 1, 1, 1, 2, 0, -1);
    struct ps_client *a = new_client(cl.list, 0, 2, cluster_key, 5000),
                     *b = new_client(cl.list, 1, 2, cluster_key, 5000);
    struct ps_table_spec spec = {.name = "t", .dim = 2, .lr_factor = 1};
    ps_declare_table(a, &spec);
    ps_declare_table(b, &spec);
    assert_int_equal(ps_start(a), 0);
    assert_int_equal(ps_start(b), 0);
    uint64_t key = 3;
    float grad[2] = {1, 2}, out[2];
    /* A request is under way when it happens. */
    assert_int_equal(ps_push_rows(b, 0, 1, &key, grad), 0);
    assert_int_equal(ps_step_end(b, 1, NULL, 0), 0);
    assert_int_equal(ps_pull_rows(b, 0, 1, &key, out, PS_CREATE), 0);
    double two[2] = {0};
    pthread_t thread;
    void *rc_b;
    /* The two reductions differ: the second one is refused. */
    assert_int_equal(pthread_create(&thread, NULL, reduce_one, b), 0);
    int rc_a = ps_reduce(a, two, 2);
    assert_int_equal(pthread_join(thread, &rc_b), 0);
    assert_true(rc_a < 0 && (intptr_t)rc_b < 0);
    /* Any of them may be the second one. Both trainers get the reason, and may also get who is
     * gone: trainer 0 in its step 0, trainer 1 in its step 1. */
    const char *const text[] = {ps_client_err(a)->msg, ps_client_err(b)->msg};
    for (int i = 0; i < 2; i++) {
        assert_true(strstr(text[i], "reduces 1 numbers where trainer 0 reduces 2") ||
                    strstr(text[i], "reduces 2 numbers where trainer 1 reduces 1"));
        if (strstr(text[i], "is gone"))
            assert_contains(text[i], strstr(text[i], ": trainer 1 (") ? "is gone in step 1"
                                                                      : "is gone in step 0");
    }
    ps_client_free(a);
    ps_client_free(b);
    /* PD_EPROTO of the refused message, or PD_EFAIL: a trainer is gone */
    const int rc = cluster_join(&cl, NULL);
    assert_true(rc == PD_EPROTO || rc == PD_EFAIL);
}

int main(void) {
    cluster_plain = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_do_not_disturb),
        cmocka_unit_test(test_trainer_that_does_not_come_back),
        cmocka_unit_test(test_client_that_does_not_read),
        cmocka_unit_test(test_lying_member_ends_the_job_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
