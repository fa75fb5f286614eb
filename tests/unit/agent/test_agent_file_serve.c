/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_file_serve.c - separately sent data files that another node holds. The node delivers
 * them even if its store is emptied, for many requests at once, and for more takers than it serves
 * at a time. test_agent_files.c tests the other sources. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_files.h"

static void files_come_from_their_holder(void **state) {
    (void)state;
    send_list(on_one);
    for (int i = 0; i < N_NAMES; i++)
        must_fetch(names[i]);
    for (int i = 0; i < N_NAMES; i++)
        must_fetch(names[i]); /* the files exist on this node */
    assert_int_equal(n_fed, 0);
}

/* `clean`, or the store_limit of another dispatch, removes the catalogs. The job can still serve
 * its files. */
static void a_store_that_is_emptied_does_no_harm(void **state) {
    uint64_t n = 0, bytes;
    (void)state;
    send_list(on_one);
    must_fetch(names[SMALL]); /* now the holder's store is open */
    assert_int_equal(store_clean(node[1]->core.paths.root, 1, 0, &n, &bytes, NULL), 0);
    assert_int_equal(n, 1);
    for (int i = 0; i < N_NAMES; i++)
        must_fetch(names[i]);
    assert_int_equal(n_fed, 0);
}

static void many_at_once_from_two_trainers(void **state) {
    (void)state;
    enum { TWICE = 2 * N_NAMES };
    struct asking w[TWICE] = {0};
    struct data_fetch *f[2];
    pthread_t t[TWICE];
    int fd[2], left = 1;
    send_list(on_one);
    for (int i = 0; i < 2; i++) {
        fd[i] = file_fetch_channel(node[0]->data, NULL);
        assert_int_equal(data_fetch_new(&f[i], fd[i], NULL), 0);
    }
    for (int i = 0; i < TWICE; i++) {
        w[i].path = names[i % N_NAMES];
        w[i].f = f[i / N_NAMES];
        assert_int_equal(pthread_create(&t[i], NULL, want, &w[i]), 0);
    }
    while (left) {
        spin();
        left = 0;
        for (int i = 0; i < TWICE; i++)
            left += !atomic_load(&w[i].done);
    }
    for (int i = 0; i < TWICE; i++) {
        pthread_join(t[i], NULL);
        must(w[i].err.code, &w[i].err);
        must_have(w[i].path);
    }
    for (int i = 0; i < 2; i++) {
        data_fetch_free(f[i]);
        close(fd[i]);
    }
}

/* More takers than the node serves at a time, and none of them ends. A later taker waits, and is
 * served when they are gone. */
static struct held { struct net_conn *c; } held[40];
static int n_held, n_told;

static void on_held_open(struct net_conn *c, void *arg) {
    (void)arg;
    assert_int_equal(msg_send_payload(c, WIRE_DF_FILE, names[SMALL], strlen(names[SMALL])), 0);
}

static void on_held_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    (void)c, (void)arg;
    n_told += f->type == WIRE_DF_FILE;
    wire_frame_free(f);
}

static void on_held_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct held *h = arg;
    (void)c, (void)why;
    h->c = NULL;
    n_held--;
}

static void hold_all(int port) {
    static const struct net_events ev = {on_held_open, on_held_frame, NULL, on_held_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_TAKER, .id = 2}};
    struct pd_err err = {0};
    memcpy(hs.self.job, node[2]->core.paths.job, sizeof hs.self.job);
    n_told = 0;
    for (n_held = 0; n_held < (int)(sizeof held / sizeof held[0]); n_held++)
        must(net_connect(&held[n_held].c, &node[2]->core.loop, "127.0.0.1", port, 60000, &hs, &opts,
                         &ev, &held[n_held], &err),
             &err);
    while (n_told < 32)
        spin();
}

static void takers_wait_for_their_turn(void **state) {
    struct asking w = {.path = names[BIG]};
    pthread_t t;
    (void)state;
    send_list(on_one);
    offer();
    hold_all(node[1]->port);
    int fd = file_fetch_channel(node[0]->data, NULL);
    assert_int_equal(data_fetch_new(&w.f, fd, NULL), 0);
    assert_int_equal(pthread_create(&t, NULL, want, &w), 0);
    for (uint64_t end = pd_mono_ns() + 300000000u; pd_mono_ns() < end;)
        spin();
    assert_int_equal(n_told, 32);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        if (held[i].c)
            net_close(held[i].c);
    while (n_held || !atomic_load(&w.done))
        spin();
    pthread_join(t, NULL);
    must(w.err.code, &w.err);
    must_have(names[BIG]);
    assert_int_equal(n_fed, 0);
    data_fetch_free(w.f);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_from_their_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_is_emptied_does_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_once_from_two_trainers, setup, teardown),
        cmocka_unit_test_setup_teardown(takers_wait_for_their_turn, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
