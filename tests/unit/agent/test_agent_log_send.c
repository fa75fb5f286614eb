/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_log_send.c - a client's log subscription: its start (offset, since, tail), its window,
 * and the times of the bytes in a frame. The client uses a socket pair and reads the logs of a
 * finished job. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/socket.h>

#include "agent/client/log_send.h"
#include "wire/msg.h"

enum { TIMES = 4000 };

struct env {
    struct agent_core core;
    struct clients *clients;
    struct client_use uses[1];
    struct logs logs;
    struct log_source source;
    struct net_conn *client;
    uv_timer_t deadline;
    char dir[64];
    /* received */
    struct pd_buf got;
    uint64_t start, expect, when[TIMES], at[TIMES];
    size_t n_times;
    int n_frames, ended, closed, late;
    json_t *answer;
    /* the client acknowledges every `ack_step` bytes; 0: never */
    uint64_t ack_step, acked, most_ahead;
};

static void note_time(struct env *e, uint64_t at, uint64_t when) {
    assert_true(e->n_times < TIMES);
    e->at[e->n_times] = at;
    e->when[e->n_times++] = when;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct env *e = arg;
    if (f->type == WIRE_AG_LOG) {
        struct pd_reader r;
        pd_reader_init(&r, f->sec[0], f->len[0]);
        pd_get_u32(&r);
        assert_int_equal(pd_get_u32(&r), LOG_TRAIN);
        uint64_t at = pd_get_u64(&r);
        note_time(e, at, pd_get_u64(&r));
        if (!e->n_frames++)
            e->start = e->expect = at;
        assert_int_equal(at, e->expect);
        pd_put(&e->got, f->sec[1], f->len[1]);
        e->expect += f->len[1];
        pd_reader_init(&r, f->n_sec > 2 ? f->sec[2] : NULL, f->n_sec > 2 ? f->len[2] : 0);
        while (!pd_reader_done(&r) && !r.failed) {
            uint64_t from = pd_get_u64(&r);
            note_time(e, from, pd_get_u64(&r));
        }
        if (e->expect - e->acked > e->most_ahead)
            e->most_ahead = e->expect - e->acked;
        if (e->ack_step && e->expect - e->acked >= e->ack_step) {
            e->acked = e->expect;
            msg_send(c, WIRE_AG_LOG_ACK, 0,
                     json_pack("{s:{s:I}}", "streams", "train.log", (json_int_t)e->acked));
        }
    } else if (f->type == WIRE_AG_LOG_END) {
        e->ended = 1;
        uv_stop(&e->core.loop);
    } else if (f->type == WIRE_AG_LOG_SUBSCRIBE) {
        struct pd_err err = {0};
        assert_int_equal(f->req, 77);
        assert_int_equal(msg_body(f, &e->answer, &err), 0);
        assert_int_equal(e->n_frames, 0); /* the answer comes first */
    }
    wire_frame_free(f);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct env *e = arg;
    (void)c;
    (void)why;
    e->closed = 1;
}

static void on_deadline(uv_timer_t *t) {
    struct env *e = t->data;
    e->late = 1;
    uv_stop(&e->core.loop);
}

static uv_stream_t *stream_of(uv_loop_t *loop, int fd) {
    uv_pipe_t *p = malloc(sizeof *p);
    uv_pipe_init(loop, p, 0);
    assert_int_equal(uv_pipe_open(p, fd), 0);
    return (uv_stream_t *)p;
}

static void add(struct env *e, uint64_t when, const char *text) {
    assert_int_equal(logs_append(&e->logs, LOG_TRAIN, when, text, strlen(text), NULL), 0);
}

static void on_client_open(struct client *c, void *arg) { (void)c, (void)arg; }
static void on_client_close(void *arg) { (void)arg; }

static int setup(void **state) {
    static const struct client_events client_ev = {on_client_open, on_client_close};
    static const struct net_events ev = {NULL, on_frame, NULL, on_close};
    struct env *e = calloc(1, sizeof *e);
    char p[100];
    int fd[2];
    struct pd_err err = {0};
    pd_fmt(e->dir, sizeof e->dir, "/tmp/agent-subs-XXXXXX");
    assert_non_null(mkdtemp(e->dir));
    snprintf(p, sizeof p, "%s/log", e->dir);
    mkdir(p, 0755);
    snprintf(p, sizeof p, "%s/.agent", e->dir);
    mkdir(p, 0755);
    struct node_paths place = {.job = ""};
    snprintf(place.root, sizeof place.root, "%s", e->dir);
    assert_int_equal(agent_core_init(&e->core, &place, AGENT_OVER, "", &err), 0);
    assert_int_equal(logs_open(&e->logs, e->dir, 0, &err), 0);
    e->source = (struct log_source){&e->logs, 0};
    e->uses[0] = (struct client_use){&log_send_service, &e->source};
    assert_int_equal(clients_new(&e->clients, &e->core, &client_ev, e, &err), 0);
    clients_serve(e->clients, e->uses, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    uv_stream_t *a = stream_of(&e->core.loop, fd[0]), *b = stream_of(&e->core.loop, fd[1]);
    assert_int_equal(client_open(e->clients, a, a, &err), 0);
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    assert_int_equal(net_conn_on_streams(&e->client, b, b, &opts, &ev, e, &err), 0);
    uv_timer_init(&e->core.loop, &e->deadline);
    e->deadline.data = e;
    *state = e;
    return 0;
}

static int teardown(void **state) {
    struct env *e = *state;
    uv_close((uv_handle_t *)&e->deadline, NULL);
    if (!e->closed)
        net_close(e->client);
    uv_run(&e->core.loop, UV_RUN_DEFAULT);
    clients_free(e->clients);
    assert_int_equal(uv_loop_close(&e->core.loop), 0);
    logs_close(&e->logs);
    pd_buf_release(&e->got);
    json_decref(e->answer);
    pd_rm_tree(e->dir, NULL);
    free(e);
    return 0;
}

/* Runs the loop until AG_LOG_END, or for `ms` without one. */
static void run(struct env *e, uint64_t ms) {
    uv_timer_start(&e->deadline, on_deadline, ms, 0);
    uv_run(&e->core.loop, UV_RUN_DEFAULT);
    uv_timer_stop(&e->deadline);
}

/* Runs until `bytes` bytes and the answer have come, and then 100 ms longer, in which no other
 * frame should come. */
static void run_to(struct env *e, size_t bytes) {
    for (int i = 0; i < 3000 && (e->got.len < bytes || !e->answer); i++)
        run(e, 10);
    run(e, 100);
}

static void subscribe(struct env *e, json_t *body) {
    assert_non_null(body);
    assert_false(e->closed); /* the connection is freed */
    msg_send(e->client, WIRE_AG_LOG_SUBSCRIBE, 77, body);
}

/* 1000 lines of 10 bytes. Line i comes at 5000 + i / 3, so three lines share a time. The last line
 * comes in two pieces. */
static void thousand_lines(struct env *e) {
    char line[24];
    for (int i = 0; i < 999; i++) {
        snprintf(line, sizeof line, "line %04d\n", i);
        add(e, 5000 + (uint64_t)i / 3, line);
    }
    add(e, 5333, "line ");
    add(e, 5400, "0999\n");
}

static void check_bytes(const struct env *e) {
    for (size_t i = 0; i < e->got.len; i++) {
        char want[24];
        snprintf(want, sizeof want, "line %04d\n", (int)((e->start + i) / 10));
        if (e->got.data[i] != (uint8_t)want[(e->start + i) % 10])
            fail_msg("byte %zu is '%c'", (size_t)e->start + i, e->got.data[i]);
    }
}

static json_int_t said(const struct env *e, const char *key) {
    return json_integer_value(
        json_object_get(json_object_get(json_object_get(e->answer, "streams"), "train.log"), key));
}

/* The bytes came at 335 times but are sent in few frames. The frames still give the time of each
 * byte. */
static void frames_carry_times(void **state) {
    struct env *e = *state;
    thousand_lines(e);
    e->logs.f[LOG_TRAIN].complete = 1;
    subscribe(e, json_pack("{s:{s:i}}", "streams", "train.log", 0));
    run(e, 30000);
    assert_int_equal(e->late, 0);
    assert_int_equal(e->got.len, 10000);
    check_bytes(e);
    assert_true(e->n_frames <= 3);
    size_t k = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t want = i < 9990 ? 5000 + i / 30 : i < 9995 ? 5333 : 5400;
        while (k + 1 < e->n_times && e->at[k + 1] <= i)
            k++;
        if (e->when[k] != want)
            fail_msg("byte %llu came at %llu, not %llu", (unsigned long long)i,
                     (unsigned long long)e->when[k], (unsigned long long)want);
    }
    assert_int_equal(said(e, "start"), 0);
    assert_int_equal(said(e, "size"), 10000);
    assert_true(json_integer_value(json_object_get(e->answer, "now_us")) > 1700000000000000);
}

static const struct {
    const char *name;
    json_int_t offset, since, tail, start;
} begins[] = {
    {"everything", 0, 0, 0, 0},
    {"an offset", 1234, 0, 0, 1234},
    {"since before all", 0, 1, 0, 0},
    {"since the first", 0, 5000, 0, 0},
    {"since one in the middle", 0, 5100, 0, 3000},
    {"since the piece that completes a line: that line whole", 0, 5400, 0, 9990},
    {"since a time between", 0, 5350, 0, 9990},
    {"since the future", 0, 9000, 0, 10000},
    {"the later of two", 7000, 5100, 0, 7000},
    {"one line", 0, 0, 1, 9990},
    {"ten lines", 0, 0, 10, 9900},
    {"more lines than there are", 0, 0, 5000, 0},
    {"tail and since", 0, 5330, 2, 9980},
};

static void where_it_begins(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        void *one;
        setup(&one);
        struct env *e = one;
        thousand_lines(e);
        e->logs.f[LOG_TRAIN].complete = 1;
        subscribe(e, json_pack("{s:{s:I}, s:I, s:I}", "streams", "train.log", begins[i].offset,
                               "since_us", begins[i].since, "tail", begins[i].tail));
        run(e, 30000);
        if (e->late || said(e, "start") != begins[i].start ||
            (e->n_frames && e->start != (uint64_t)begins[i].start) ||
            e->got.len != (size_t)(10000 - begins[i].start))
            fail_msg("%s: begins at %lld, %zu bytes", begins[i].name, (long long)said(e, "start"),
                     e->got.len);
        check_bytes(e);
        teardown(&one);
    }
}

/* An incomplete line counts as a line. An empty stream has no lines. */
static void tail_of_odd_streams(void **state) {
    struct env *e = *state;
    subscribe(
        e, json_pack("{s:{s:i}, s:i, s:i}", "streams", "train.log", 0, "tail", 3, "since_us", 7));
    run_to(e, 0);
    assert_int_equal(said(e, "start"), 0);
    json_decref(e->answer);
    e->answer = NULL;
    add(e, 1, "a\nb\nhalf");
    subscribe(e, json_pack("{s:{s:i}, s:i}", "streams", "train.log", 0, "tail", 2));
    e->logs.f[LOG_TRAIN].complete = 1;
    run(e, 30000);
    assert_int_equal(said(e, "start"), 2);
}

static void window_is_kept(void **state) {
    static char text[300001];
    struct env *e = *state;
    memset(text, 'x', sizeof text - 1);
    add(e, 1, text);
    e->logs.f[LOG_TRAIN].complete = 1;
    subscribe(e, json_pack("{s:{s:i}, s:i}", "streams", "train.log", 0, "window", 100000));
    run_to(e, 100000);
    assert_false(e->closed);
    assert_int_equal(e->got.len, 100000); /* no acknowledgement came: the agent waits */
    e->late = 0;
    e->ack_step = 30000;
    e->acked = 40000;
    msg_send(e->client, WIRE_AG_LOG_ACK, 0, json_pack("{s:{s:i}}", "streams", "train.log", 40000));
    run(e, 30000);
    assert_int_equal(e->late, 0);
    assert_int_equal(e->ended, 1);
    assert_int_equal(e->got.len, 300000);
    assert_true(e->most_ahead <= 100000);
}

/* After a broken connection, bytes that were received but not acknowledged still count against the
 * window. */
static void acked_of_a_second_subscription(void **state) {
    static char text[300001];
    struct env *e = *state;
    memset(text, 'x', sizeof text - 1);
    add(e, 1, text);
    subscribe(e, json_pack("{s:{s:i}, s:{s:i}, s:i}", "streams", "train.log", 150000, "acked",
                           "train.log", 90000, "window", 100000));
    run_to(e, 40000);
    assert_int_equal(e->start, 150000);
    assert_int_equal(e->expect, 190000);
    msg_send(e->client, WIRE_AG_LOG_ACK, 0,
             json_pack("{s:{s:i}}", "streams", "train.log", 1000000000)); /* more than sent */
    run_to(e, 140000);
    assert_int_equal(e->expect, 290000);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as main of the agent: an end may close first */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_carry_times, setup, teardown),
        cmocka_unit_test(where_it_begins),
        cmocka_unit_test_setup_teardown(tail_of_odd_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(window_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(acked_of_a_second_subscription, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
