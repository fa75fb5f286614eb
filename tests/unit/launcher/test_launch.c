/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch.c - callbacks enrol with paddlectl, and run commands: who is refused, and a stream
 * from its beginning to its end. The callbacks are connections of this process; the command only
 * sleeps. */
#include <setjmp.h>

#include <cmocka.h>
#include <sodium.h>

#include "launcher/launch/launch_internal.h"

enum { LIMIT_MS = 30000 };

struct fixture {
    uv_loop_t loop;
    struct launch *l;
    struct wire_hs_opts hs;
};

/* A callback that says what it is told, and notes what it hears. */
struct caller {
    struct net_conn *c;
    int node, n, opened, closed, bye;
    char token[65]; /* what it calls with, then its own */
    char key[65], line[100], refused[1000];
    int port, waits; /* waits: its connection stays behind a command */
};

static void on_open(struct net_conn *c, void *arg) {
    struct caller *k = arg;
    const struct cb_call call = {
        .node = k->node, .n = k->n, .host = k->node ? "a host" : "local", .token = k->token};
    k->opened = 1;
    launch_send(c, WIRE_CB_CALL, wire_put(&wire_cb_call, &call));
}

static void answer_open(struct caller *k) {
    const struct net_sec out = {"out\n", 4}, err = {"err\n", 4};
    const struct cb_end end = {.status = 3, .waits = k->waits};
    net_send(k->c, WIRE_CB_OUT, 0, 0, &out, 1, NULL, NULL);
    net_send(k->c, WIRE_CB_ERR, 0, 0, &err, 1, NULL, NULL);
    launch_send(k->c, WIRE_CB_END, wire_put(&wire_cb_end, &end));
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct caller *k = arg;
    struct pd_err err = {0};
    const struct cb_bye bye = {0};
    struct cb_enrolled e;
    struct cb_open o;
    json_t *body =
        f->n_sec ? json_loadb((const char *)f->sec[0], f->len[0], JSON_REJECT_DUPLICATES, NULL)
                 : NULL;
    if (f->flags & WIRE_F_ERROR) {
        wire_error_get(f, &err);
        snprintf(k->refused, sizeof k->refused, "%s", err.msg);
    } else if (f->type == WIRE_CB_ENROLLED) {
        assert_int_equal(wire_get(&wire_cb_enrolled, &e, body, &err), 0);
        snprintf(k->token, sizeof k->token, "%s", e.token);
        snprintf(k->key, sizeof k->key, "%s", e.key);
        k->port = (int)e.port;
    } else if (f->type == WIRE_CB_OPEN) {
        assert_int_equal(wire_get(&wire_cb_open, &o, body, &err), 0);
        snprintf(k->line, sizeof k->line, "%s", o.line);
        answer_open(k);
    } else if (f->type == WIRE_CB_BYE) {
        k->bye = 1;
        launch_send(c, WIRE_CB_BYE, wire_put(&wire_cb_bye, &bye));
        net_close_after_flush(c);
    }
    json_decref(body);
    wire_frame_free(f);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct caller *k = arg;
    (void)c;
    (void)why;
    k->closed = 1;
    k->c = NULL;
}

static const struct net_events events = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close};

static void dial(struct fixture *f, struct caller *k, int port, const uint8_t key[LAUNCH_KEY]) {
    const struct net_opts opts = {.max_frame = 1 << 20};
    struct pd_err err = {0};
    struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_AGENT, .job = "launch"}};
    memcpy(hs.key, key, sizeof hs.key);
    assert_int_equal(
        net_connect(&k->c, &f->loop, "127.0.0.1", port, LIMIT_MS, &hs, &opts, &events, k, &err), 0);
}

static void run_until(struct fixture *f, const int *flag) {
    for (int i = 0; i < LIMIT_MS && !*flag; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if (!*flag)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_true(*flag);
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    const struct launch_opts o = {.command = "/bin/sh", .timeout_ms = LIMIT_MS, .lease_ms = 1000};
    struct pd_err err = {0};
    assert_true(sodium_init() >= 0);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    if (launch_new(&f->l, &f->loop, &o, &err))
        fail_msg("%s", err.msg);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    launch_free(f->l);
    while (uv_run(&f->loop, UV_RUN_NOWAIT))
        ;
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* Run the command until two ranks have enrolled: they are already calling. */
static void run_two(struct fixture *f, int n_nodes) {
    char flag[] = "-c", text[] = "exec sleep 60", *words[] = {flag, text, NULL};
    const struct launch_words w = {.words = words, .name = "PADDLECTL_TEST", .secret = "none"};
    struct pd_err err = {0};
    if (launch_run(f->l, &w, n_nodes, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(launch_n_nodes(f->l), 2);
    assert_string_equal(launch_host(f->l, 1), "a-host");
}

static void enrol_two(struct fixture *f, struct caller k[2]) {
    for (int i = 0; i < 2; i++) {
        k[i] = (struct caller){.node = i, .n = 2};
        dial(f, &k[i], launch_place(f->l)->port, launch_place(f->l)->secret);
    }
    run_two(f, 0);
    for (int i = 0; i < 2; i++)
        run_until(f, &k[i].port);
    assert_string_equal(launch_host(f->l, 0), "node"); /* local would be this machine */
}

static void a_secret_enrols_each_rank_once(void **state) {
    struct fixture *f = *state;
    struct caller k[2] = {{.node = 0, .n = 2}, {.node = 1, .n = 2}}, again = {.node = 0, .n = 2},
                  wrong = {.node = 1, .n = 2}, late = {.node = 1, .n = 2};
    uint8_t secret[LAUNCH_KEY], other[LAUNCH_KEY] = {1};
    const int port = launch_place(f->l)->port;
    memcpy(secret, launch_place(f->l)->secret, sizeof secret);
    dial(f, &k[0], port, secret);
    run_until(f, &k[0].port);
    /* as a rank that has enrolled */
    dial(f, &again, port, secret);
    run_until(f, &again.closed);
    assert_string_equal(again.refused, "rank 0 has enrolled already");
    assert_int_equal(again.port, 0);
    /* with another secret */
    dial(f, &wrong, port, other);
    run_until(f, &wrong.closed);
    assert_int_equal(wrong.opened, 0);
    /* when all ranks have enrolled, nobody listens there any more */
    dial(f, &k[1], port, secret);
    run_two(f, 0);
    run_until(f, &k[1].port);
    dial(f, &late, port, secret);
    run_until(f, &late.closed);
    assert_int_equal(late.opened, 0);
    assert_string_not_equal(k[0].token, k[1].token);
}

static void only_the_token_of_a_node_opens_its_calls(void **state) {
    struct fixture *f = *state;
    struct caller k[2];
    uint8_t key[LAUNCH_KEY], secret[LAUNCH_KEY];
    memcpy(secret, launch_place(f->l)->secret, sizeof secret);
    enrol_two(f, k);
    assert_int_equal(pd_unhex(key, sizeof key, k[0].key), 0);
    const struct {
        int node;
        const char *token;
    } wrong[] = {{1, k[0].token}, {0, ""}, {0, "00"}, {2, k[0].token}, {65536, k[0].token}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct caller x = {.node = wrong[i].node};
        snprintf(x.token, sizeof x.token, "%s", wrong[i].token);
        dial(f, &x, k[0].port, key);
        run_until(f, &x.closed);
        assert_string_equal(x.refused, "the token is wrong");
    }
    /* the right one replaces the call that waits */
    struct caller right = {.node = 0};
    snprintf(right.token, sizeof right.token, "%s", k[0].token);
    dial(f, &right, k[0].port, key);
    run_until(f, &k[0].closed);
    assert_int_equal(right.closed, 0);
    /* its key is not that of the one-time secret */
    struct caller with_secret = {.node = 0};
    snprintf(with_secret.token, sizeof with_secret.token, "%s", k[0].token);
    dial(f, &with_secret, k[0].port, secret);
    run_until(f, &with_secret.closed);
    assert_int_equal(with_secret.opened, 0);
    launch_free(f->l);
    f->l = NULL;
    assert_true(right.bye && k[1].bye);
}

struct heard {
    char out[100], err[100];
    int opened, closed, status;
    struct pd_err why;
    struct transport *t;
};

static void add(char out[100], const uint8_t *p, size_t n) {
    const size_t used = strlen(out);
    assert_true(used + n < 100);
    memcpy(out + used, p, n);
}

static void heard_open(void *arg) { ((struct heard *)arg)->opened = 1; }
static void heard_bytes(const uint8_t *p, size_t n, void *arg) {
    add(((struct heard *)arg)->out, p, n);
}
static void heard_stderr(const uint8_t *p, size_t n, void *arg) {
    add(((struct heard *)arg)->err, p, n);
}
static void heard_close(const struct pd_err *why, void *arg) {
    struct heard *h = arg;
    h->closed = 1;
    h->why = *why;
    h->status = transport_status(h->t);
}
static const struct transport_events stream_events = {.on_open = heard_open,
                                                      .on_bytes = heard_bytes,
                                                      .on_stderr = heard_stderr,
                                                      .on_close = heard_close};

static void a_stream_has_its_command_for_itself(void **state) {
    struct fixture *f = *state;
    struct caller k[2];
    struct heard h = {0}, second = {0};
    struct pd_err err = {0};
    enrol_two(f, k);
    assert_int_equal(launch_open(&h.t, f->l, 1, "a line", &stream_events, &h, &err), 0);
    run_until(f, &h.closed);
    assert_string_equal(k[1].line, "a line");
    assert_string_equal(h.out, "out\n");
    assert_string_equal(h.err, "err\n");
    assert_int_equal(h.status, 3);
    assert_int_equal(h.why.code, PD_ECLOSED);
    /* the next one waits until the node calls again; the command's death ends the wait */
    assert_int_equal(launch_open(&second.t, f->l, 1, "b", &stream_events, &second, &err), 0);
    kill(transport_local_pid(f->l->command), SIGKILL);
    run_until(f, &second.closed);
    assert_int_equal(second.opened, 0);
    assert_string_equal(second.why.msg, "/bin/sh was ended by signal KILL");
    assert_true(launch_has_ended(f->l));
}

static void a_connection_that_waits_again_has_the_next_command(void **state) {
    struct fixture *f = *state;
    struct caller k[2];
    struct pd_err err = {0};
    enrol_two(f, k);
    k[1].waits = 1;
    /* the second one is in the queue when the first one ends, the third one comes later */
    struct heard h[3] = {0};
    static const char *const lines[] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++) {
        if (i != 1)
            assert_int_equal(launch_open(&h[i].t, f->l, 1, lines[i], &stream_events, &h[i], &err),
                             0);
        if (!i)
            assert_int_equal(launch_open(&h[1].t, f->l, 1, lines[1], &stream_events, &h[1], &err),
                             0);
        run_until(f, &h[i].closed);
        assert_string_equal(h[i].out, "out\n");
        assert_int_equal(h[i].status, 3);
        assert_int_equal(h[i].why.code, PD_ECLOSED);
    }
    assert_string_equal(k[1].line, "three");
    assert_int_equal(k[1].closed, 0);
    launch_free(f->l);
    f->l = NULL;
    assert_true(k[0].bye && k[1].bye);
}

static void a_missing_rank_is_named(void **state) {
    struct fixture *f = *state;
    char flag[] = "-c", text[] = "echo a reason >&2; exec sleep 60", *words[] = {flag, text, NULL};
    const char *labels[] = {"a", "b", "c"};
    const struct launch_words w = {.words = words, .name = "PADDLECTL_TEST", .secret = "none"};
    struct caller k = {.node = 1, .n = 3};
    struct pd_err err = {0};
    f->l->o.timeout_ms = 3000;
    dial(f, &k, launch_place(f->l)->port, launch_place(f->l)->secret);
    assert_int_equal(launch_run(f->l, &w, 3, labels, &err), PD_EHOST);
    assert_string_equal(
        err.msg, "rank 0 (host a), rank 2 (host c) have not called back within 3 s: a reason");
}

static void ranks_have_to_fit(void **state) {
    struct fixture *f = *state;
    char flag[] = "-c", text[] = "exec sleep 60", *words[] = {flag, text, NULL};
    const struct launch_words w = {.words = words, .name = "PADDLECTL_TEST", .secret = "none"};
    struct caller k = {.node = 1, .n = 2};
    struct pd_err err = {0};
    dial(f, &k, launch_place(f->l)->port, launch_place(f->l)->secret);
    assert_int_equal(launch_run(f->l, &w, 3, NULL, &err), PD_EHOST);
    assert_string_equal(err.msg, "the command starts 2 ranks, but there are 3 nodes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_secret_enrols_each_rank_once, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_token_of_a_node_opens_its_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_has_its_command_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_waits_again_has_the_next_command, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_missing_rank_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_have_to_fit, setup, teardown),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
