/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_client.c - clients of an agent: greeting, dispatch of messages to services, refused
 * messages, state and context, leases, the limit of clients, and the end of a client. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "agent/client/client.h"
#include "tests/support/c/append.h"
#include "wire/msg.h"

enum { MANY = 33, HEARD = 16 };

/* The other end of a connection. */
struct far_end {
    struct net_conn *conn;
    uint16_t types[HEARD]; /* of the frames that came, in order */
    size_t n;
    struct pd_err err; /* of the last frame with an error */
    json_t *body;      /* of the last frame without an error */
};

struct env {
    struct agent_core core;
    struct clients *all;
    struct client_use uses[2];
    struct far_end far[MANY];
    struct client *last; /* the last client that was greeted */
    int n_closed, context;
    char order[4 * MANY]; /* calls of on_close: "ab" for each client */
    uint64_t failed_req;
};

struct counter {
    int calls;
};

static struct env *env; /* the only way of a service to a test's variables */

/* --- two services --- */

static const struct client_service counts, fails;

static int on_count(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct counter *its = client_state(c, &counts);
    assert_ptr_equal(client_context(c, &counts), &env->context);
    its->calls += (int)msg_int(body, "add", 1, 9, 1);
    return client_answer(c, f, json_pack("{s:i}", "calls", its->calls), err);
}

static int on_fail(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    (void)c, (void)f;
    assert_null(body);
    return pd_fail(err, PD_EHOST, "it cannot");
}

static void on_error(struct client *c, uint64_t req, const struct pd_err *e) {
    (void)c;
    assert_int_equal(e->code, PD_EDATA);
    env->failed_req = req;
}

static void closed_a(struct client *c) {
    assert_false(client_is_open(c));
    append(env->order, sizeof env->order, "a");
}

static void closed_b(struct client *c) {
    (void)c;
    append(env->order, sizeof env->order, "b");
}

static const struct client_request count_requests[] = {{WIRE_AG_LIST, 0, 1, on_count, NULL}, {0}};
static const struct client_request fail_requests[] = {
    {WIRE_AG_STATUS, 1, 0, on_fail, NULL},
    {WIRE_AG_JOB_RUN, 0, 0, on_fail, on_error},
    {0},
};
static const struct client_service counts = {.name = "counts",
                                             .requests = count_requests,
                                             .state_size = sizeof(struct counter),
                                             .on_close = closed_a};
static const struct client_service fails = {
    .name = "fails", .requests = fail_requests, .state_size = 1, .on_close = closed_b};

/* --- both ends --- */

static void on_open(struct client *c, void *arg) {
    struct env *e = arg;
    e->last = c;
    client_send(c, WIRE_AG_HELLO, 0, json_object());
}

static void on_close(void *arg) { ((struct env *)arg)->n_closed++; }

static void on_far_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct far_end *far = arg;
    (void)c;
    assert_true(far->n < HEARD);
    far->types[far->n++] = f->type;
    pd_err_clear(&far->err);
    json_decref(far->body);
    far->body = NULL;
    if (f->flags & WIRE_F_ERROR)
        wire_error_get(f, &far->err);
    else
        assert_int_equal(msg_body(f, &far->body, NULL), 0);
    wire_frame_free(f);
}

static void on_far_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    (void)c, (void)why;
    ((struct far_end *)arg)->conn = NULL;
}

static uv_stream_t *stream_of(int fd) {
    uv_pipe_t *p = malloc(sizeof *p);
    uv_pipe_init(&env->core.loop, p, 0);
    assert_int_equal(uv_pipe_open(p, fd), 0);
    return (uv_stream_t *)p;
}

static void free_handle(uv_handle_t *h) { free(h); }

static void spin(void) {
    for (int i = 0; i < 20; i++)
        uv_run(&env->core.loop, UV_RUN_NOWAIT);
}

/* As spin. A connection that has failed ends the test, because its client is freed. */
static void spin_open(const struct far_end *far) {
    spin();
    assert_non_null(far->conn);
}

static void wait_ms(unsigned ms) {
    for (uint64_t end = pd_mono_ns() + ms * UINT64_C(1000000); pd_mono_ns() < end; spin())
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* 0, or PD_E* if there was no room. */
static int try_open(struct far_end *far) {
    static const struct net_events ev = {NULL, on_far_frame, NULL, on_far_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    int fd[2];
    struct pd_err err = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    uv_stream_t *ours = stream_of(fd[0]), *theirs = stream_of(fd[1]);
    int rc = client_open(env->all, ours, ours, &err);
    if (rc) {
        uv_close((uv_handle_t *)ours, free_handle);
        uv_close((uv_handle_t *)theirs, free_handle);
        spin();
        return rc;
    }
    assert_int_equal(net_conn_on_streams(&far->conn, theirs, theirs, &opts, &ev, far, &err), 0);
    return 0;
}

static void ask(struct far_end *far, uint16_t type, uint16_t flags, uint64_t req,
                const char *body) {
    const struct net_sec sec = {body, strlen(body)};
    far->n = 0;
    assert_int_equal(net_send(far->conn, type, flags, req, &sec, *body ? 1 : 0, NULL, NULL), 0);
    spin_open(far);
}

static void begin(enum agent_mode mode) {
    static const struct client_events ev = {on_open, on_close};
    struct node_paths p = {.root = "/nowhere"};
    struct pd_err err = {0};
    env = calloc(1, sizeof *env);
    assert_int_equal(agent_core_init(&env->core, &p, mode, "build", &err), 0);
    assert_int_equal(clients_new(&env->all, &env->core, &ev, env, &err), 0);
    env->uses[0] = (struct client_use){&counts, &env->context};
    env->uses[1] = (struct client_use){&fails, NULL};
    clients_serve(env->all, env->uses, 2);
}

static void end(void) {
    clients_close(env->all, 1);
    spin();
    assert_int_equal(clients_count(env->all), 0);
    for (int i = 0; i < MANY; i++) {
        assert_null(env->far[i].conn);
        json_decref(env->far[i].body);
    }
    clients_free(env->all);
    assert_int_equal(uv_loop_close(&env->core.loop), 0);
    free(env);
}

/* --- tests --- */

static void send_state(struct client *c, void *arg) {
    (void)arg;
    client_send(c, WIRE_AG_STATE, 0, json_object());
}

static void nothing_goes_before_the_greeting(void **state) {
    (void)state;
    begin(AGENT_JOB);
    assert_int_equal(try_open(&env->far[0]), 0);
    clients_each(env->all, send_state, NULL);
    spin();
    assert_int_equal(env->far[0].n, 1);
    assert_int_equal(env->far[0].types[0], WIRE_AG_HELLO);
    clients_each(env->all, send_state, NULL);
    spin();
    assert_int_equal(env->far[0].types[1], WIRE_AG_STATE);
    end();
}

static void each_message_goes_to_its_service(void **state) {
    struct far_end *far;
    (void)state;
    begin(AGENT_TOOL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(try_open(&env->far[i]), 0);
    far = env->far;
    spin();
    ask(&far[0], WIRE_AG_LIST, 0, 1, "{\"add\":3}");
    ask(&far[1], WIRE_AG_LIST, 0, 1, "{}"); /* each client's state is its own, zero at first */
    assert_int_equal(msg_int(far[1].body, "calls", 0, 99, 0), 1);
    ask(&far[0], WIRE_AG_LIST, 0, 2, "{}");
    assert_int_equal(msg_int(far[0].body, "calls", 0, 99, 0), 4);
    ask(far, WIRE_AG_LIST, 0, 3, "[1]");
    assert_int_equal(far->err.code, PD_EPROTO);
    ask(far, WIRE_AG_STATUS, 0, 4, "{}");
    assert_non_null(strstr(far->err.msg, "this agent has no job"));
    ask(far, WIRE_AG_JOB_RUN, 0, 5, "");
    assert_string_equal(far->err.msg, "it cannot");
    ask(far, WIRE_AG_CLEAN, 0, 6, "{}");
    assert_non_null(strstr(far->err.msg, "a client does not send AG_CLEAN"));
    end();
}

static void errors_of_a_client_reach_the_service(void **state) {
    const struct pd_err e = {.code = PD_EDATA, .msg = "a file changed"};
    (void)state;
    begin(AGENT_JOB);
    assert_int_equal(try_open(&env->far[0]), 0);
    spin();
    net_send_error(env->far[0].conn, WIRE_AG_JOB_RUN, 77, &e);
    net_send_error(env->far[0].conn, WIRE_AG_LIST, 78, &e); /* no service handles this error */
    spin();
    assert_int_equal(env->failed_req, 77);
    assert_int_equal(env->far[0].n, 1); /* the greeting: an error has no answer */
    end();
}

static void a_lease_is_renewed_by_those_who_do_not_only_look(void **state) {
    (void)state;
    begin(AGENT_JOB);
    for (int i = 0; i < 2; i++)
        assert_int_equal(try_open(&env->far[i]), 0);
    wait_ms(300);
    ask(&env->far[0], WIRE_AG_STATUS, 0, 1, ""); /* a first frame AG_STATUS makes an onlooker */
    assert_true(clients_silent_ms(env->all) >= 250);
    ask(&env->far[0], WIRE_AG_LIST, 0, 2, "{}");
    assert_true(clients_silent_ms(env->all) >= 250);
    ask(&env->far[1], WIRE_AG_LIST, 0, 2, "{}");
    assert_true(clients_silent_ms(env->all) < 250);
    client_work_begin(env->last);
    assert_true(clients_at_work(env->all));
    wait_ms(300);
    client_work_end(env->last);
    assert_false(clients_at_work(env->all));
    assert_true(clients_silent_ms(env->all) < 250);
    end();
}

static struct client *client_at(int i) {
    assert_int_equal(try_open(&env->far[i]), 0);
    spin_open(&env->far[i]);
    return env->last;
}

/* The job has an owner: its messages renew the lease, those of other clients do not. */
static void only_the_owner_renews(void **state) {
    (void)state;
    begin(AGENT_JOB);
    clients_set_lease(env->all, 60000);
    struct client *run = client_at(0), *attach = client_at(1);
    client_show_token(run, "a", 0, ""); /* no owner yet */
    assert_true(client_renews(run) && client_renews(attach));
    clients_set_owner(env->all, "a");
    assert_false(client_renews(run) || client_renews(attach));
    client_show_token(run, "a", 0, "");
    client_show_token(attach, "b", 0, "");
    client_set_onlooker(run); /* has no effect on an owner */
    assert_true(client_renews(run));
    ask(&env->far[0], WIRE_AG_LIST, 0, 1, "{}");
    clients_silent_ms(env->all); /* counts the bytes, as each tick of the agent does */
    wait_ms(300);
    ask(&env->far[1], WIRE_AG_LIST, 0, 1, "{}");
    assert_true(clients_silent_ms(env->all) >= 250);

    client_show_token(attach, "b", 1, ""); /* too early */
    assert_true(client_renews(run) && !client_renews(attach));
    clients_set_lease(env->all, 100);     /* half of it has passed */
    client_show_token(attach, "", 1, ""); /* no token */
    assert_true(client_renews(run));
    client_show_token(attach, "b", 1, "");
    assert_true(!client_renews(run) && client_renews(attach));
    ask(&env->far[1], WIRE_AG_LIST, 0, 1, "{}");
    client_show_token(run, "a", 0, ""); /* comes back */
    assert_false(client_renews(run));
    client_show_token(run, "a", 1, "");
    assert_false(client_renews(run));
    client_show_token(client_at(2), "b", 0, ""); /* another connection of the owner */
    assert_true(client_renews(env->last) && client_renews(attach));
    clients_set_owner(env->all, ""); /* the job is over */
    assert_true(!client_renews(run) && client_renews(attach));
    end();
}

static void the_silent_make_room(void **state) {
    (void)state;
    begin(AGENT_JOB);
    clients_set_lease(env->all, 2000);
    for (int i = 0; i < MANY - 1; i++)
        assert_int_equal(try_open(&env->far[i]), 0);
    /* Every client was heard a moment ago. */
    assert_int_not_equal(try_open(&env->far[MANY - 1]), 0);
    wait_ms(1100);
    for (int i = 0; i < MANY - 1; i++)
        if (i != 7)
            ask(&env->far[i], WIRE_AG_LIST, 0, 1, "{}");
    clients_silent_ms(env->all);
    assert_int_equal(try_open(&env->far[MANY - 1]), 0);
    spin();
    assert_null(env->far[7].conn);
    assert_int_equal(env->n_closed, 1);
    end();
}

/* No memory for an answer: the client hears it. A message without a request ends the connection.
 * The answers were dropped, and paddlectl waited for them. */
static void no_memory_for_a_message(void **state) {
    (void)state;
    begin(AGENT_JOB);
    assert_int_equal(try_open(&env->far[0]), 0);
    spin_open(&env->far[0]);
    env->far[0].n = 0;
    client_send(env->last, WIRE_AG_STOP, 5, NULL); /* json_pack without memory */
    spin_open(&env->far[0]);
    assert_int_equal(env->far[0].n, 1);
    assert_int_equal(env->far[0].types[0], WIRE_AG_STOP);
    assert_int_equal(env->far[0].err.code, PD_ENOMEM);
    client_send(env->last, WIRE_AG_STATE, 0, NULL);
    spin();
    assert_null(env->far[0].conn);
    end();
}

static void a_client_that_leaves(void **state) {
    struct client *c;
    (void)state;
    begin(AGENT_JOB);
    for (int i = 0; i < 2; i++)
        assert_int_equal(try_open(&env->far[i]), 0);
    spin_open(&env->far[0]);
    assert_non_null(env->far[1].conn);
    c = env->last;
    assert_int_equal(client_others(c), 1);
    client_ref(c);
    net_close(env->far[1].conn);
    spin();
    assert_string_equal(env->order, "ab"); /* in the order of the table */
    assert_int_equal(env->n_closed, 1);
    assert_int_equal(client_send(c, WIRE_AG_STATE, 0, json_object()), 0);
    assert_int_equal(clients_count(env->all), 2);
    client_unref(c);
    assert_int_equal(clients_count(env->all), 1);
    end();
}

static void a_job_that_is_over_says_why(void **state) {
    struct pd_err err = {0};
    (void)state;
    begin(AGENT_OVER);
    assert_int_equal(try_open(&env->far[0]), 0);
    spin_open(&env->far[0]);
    assert_int_equal(client_over(env->last, &err), 0);
    clients_set_over(env->all, "trainer 2 failed");
    assert_int_equal(client_over(env->last, &err), PD_EHOST);
    assert_string_equal(err.msg, "trainer 2 failed");
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_before_the_greeting),
        cmocka_unit_test(each_message_goes_to_its_service),
        cmocka_unit_test(errors_of_a_client_reach_the_service),
        cmocka_unit_test(a_lease_is_renewed_by_those_who_do_not_only_look),
        cmocka_unit_test(only_the_owner_renews),
        cmocka_unit_test(no_memory_for_a_message),
        cmocka_unit_test(the_silent_make_room),
        cmocka_unit_test(a_client_that_leaves),
        cmocka_unit_test(a_job_that_is_over_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
