/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_serving.c - what a server says once a second: bytes, requests that wait, rows. */
#include <setjmp.h>
#include <cmocka.h>

#include "tests/support/c/ps_client.h"

enum { ROWS = 50, DIM = 4, LIMIT_MS = 60000 };

struct last { /* what the server has said last */
    pthread_mutex_t lock;
    struct ps_serving s;
    char name[40];
    unsigned n;
};

static void on_serving(void *arg, const struct ps_serving *s, const char *const *name) {
    struct last *l = arg;
    pthread_mutex_lock(&l->lock);
    l->s = *s;
    l->n++;
    snprintf(l->name, sizeof l->name, "%s", s->n_tables ? name[0] : "");
    pthread_mutex_unlock(&l->lock);
}

/* Waits until the server has said twice more what it does: thread 0 may have older figures of the
 * other threads. */
static struct last next(struct last *l) {
    struct last now = {.n = 0};
    unsigned from = UINT_MAX;
    for (int ms = 0; ms < LIMIT_MS; ms += 20) {
        pthread_mutex_lock(&l->lock);
        now = *l;
        pthread_mutex_unlock(&l->lock);
        from = from == UINT_MAX ? now.n : from;
        if (now.n - from >= 3)
            return now;
        usleep(20000);
    }
    fail_msg("the server says nothing");
    return now;
}

static struct ps_client *start(const char *list, uint32_t id) {
    struct ps_client *c = new_client(list, id, 2, cluster_key, LIMIT_MS);
    const struct ps_table_spec table = {.name = "emb.w", .dim = DIM, .lr_factor = 1};
    declare_w(c, 8, 0);
    assert_int_equal(ps_declare_table(c, &table), 0);
    if (ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
    return c;
}

static void push(struct ps_client *c, const uint64_t *keys, float *rows) {
    assert_int_equal(ps_pull_rows(c, 0, ROWS, keys, rows, PS_CREATE), 0);
    assert_int_equal(ps_wait(c), 0);
    assert_int_equal(ps_push_rows(c, 0, ROWS, keys, rows), 0);
    assert_int_equal(ps_step_end(c, 1, NULL, 0), 0);
}

static void *leave(void *c) {
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    return NULL;
}

static void a_server_says_what_it_does(void **state) {
    struct pd_err err = {0};
    struct one_server s = {.rc = 0};
    struct last last = {.lock = PTHREAD_MUTEX_INITIALIZER}, now;
    int fds[3], port;
    char list[64];
    uint64_t keys[ROWS];
    float rows[ROWS * DIM], more[ROWS * DIM], dense[16];
    pthread_t other;
    (void)state;
    for (uint64_t i = 0; i < ROWS; i++)
        keys[i] = 7 * i;
    for (int i = 0; i < 3; i++)
        fds[i] = net_bind_first_free("127.0.0.1", 0, 1, i ? &port : &s.port, &err);
    snprintf(list, sizeof list, "127.0.0.1:%d", s.port);
    struct ps_server_opts o = {.fds = fds,
                               .n_dense = 1,
                               .n_sparse = 2,
                               .n_trainers = 2,
                               .job = "J",
                               .key = cluster_key,
                               .on_serving = on_serving,
                               .on_serving_arg = &last};
    assert_int_equal(ps_server_new(&s.server, &o, &err), 0);
    pthread_create(&s.thread, NULL, server_main, &s);
    now = next(&last);
    assert_int_equal(now.s.n_tables, 0); /* nobody has declared */
    assert_int_equal(now.s.received, 0);

    struct ps_client *a = start(list, 0), *b = start(list, 1);
    push(a, keys, rows);
    assert_int_equal(ps_pull_dense(a, 0, dense, 16), 0); /* waits for trainer 1 */
    assert_int_equal(ps_flush(a), 0);
    now = next(&last);
    assert_int_equal(now.s.n_tables, 1);
    assert_string_equal(now.name, "emb.w");
    assert_int_equal(now.s.rows[0], ROWS); /* of both sparse threads */
    assert_int_equal(now.s.waiting, 1);
    struct ps_client_stats st;
    ps_client_stats(a, &st);
    assert_true(now.s.received >= st.sent_bytes);
    assert_true(now.s.sent >= st.received_bytes && now.s.sent > sizeof rows);
    const uint64_t sent = now.s.sent;

    push(b, keys, more);
    assert_int_equal(ps_flush(b), 0);
    assert_int_equal(ps_wait(a), 0);
    now = next(&last);
    assert_int_equal(now.s.waiting, 0);
    assert_int_equal(now.s.queued, 0);
    assert_true(now.s.sent > sent);
    pthread_create(&other, NULL, leave, a);
    leave(b);
    pthread_join(other, NULL);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.rc, 0);
    ps_server_free(s.server);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_server_says_what_it_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
