/* SPDX-License-Identifier: Apache-2.0 */
/* test_net.c - connections over loopback TCP and over socket pairs, driven by one loop. */
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/conn.h"
#include "wire/msg.h"
#include "tests/support/c/skip.h"

struct side {
    struct net_conn *conn;
    int opened, closed, released;
    int released_before; /* on_close */
    uint64_t frames, bytes, next_req;
    struct pd_err why;
    int echo;
    uint64_t last; /* close after this many frames; 0: never */
    int abrupt;    /* without waiting for the send queue */
};

struct world {
    uv_loop_t loop;
    struct net_listener *listener;
    struct side a, s; /* connector, acceptor */
    int want_frames;
};

static void on_open(struct net_conn *c, void *arg) {
    struct side *x = arg;
    x->conn = c;
    x->opened++;
}

static void count_release(void *arg) { ((struct side *)arg)->released++; }

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct side *x = arg;
    assert_int_equal(f->req, x->next_req++);
    x->frames++;
    for (uint32_t i = 0; i < f->n_sec; i++) {
        x->bytes += f->len[i];
        for (size_t k = 0; k < f->len[i]; k += 4097)
            if (f->sec[i][k] != (uint8_t)(f->req + i))
                fail_msg("frame %llu section %u byte %zu", (unsigned long long)f->req, i, k);
    }
    if (x->echo) {
        struct net_sec sec[WIRE_SECTIONS];
        for (uint32_t i = 0; i < f->n_sec; i++)
            sec[i] = (struct net_sec){f->sec[i], f->len[i]};
        net_send(c, f->type, 0, f->req, sec, f->n_sec, NULL, NULL);
    }
    wire_frame_free(f);
    if (x->frames == x->last)
        (x->abrupt ? net_close : net_close_after_flush)(c);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    (void)c;
    struct side *x = arg;
    x->closed++;
    x->released_before = x->released;
    x->why = *why;
    x->conn = NULL;
}

static const struct net_events events = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
static const struct net_opts opts = {.max_frame = 64 << 20, .handshake_timeout_ms = 3000};

static int cork; /* the listener's */

static void start_at(struct world *w, const char *server_job, uint8_t server_key,
                     const char *listen_ip, const char *ip) {
    memset(w, 0, sizeof *w);
    uv_loop_init(&w->loop);
    struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, ""},
                              .key = {server_key},
                              .greeting = "hi",
                              .greeting_len = 2};
    snprintf(hs.self.job, sizeof hs.self.job, "%s", server_job);
    struct net_opts mine = opts;
    mine.cork = cork;
    assert_int_equal(net_listen_fd(&w->listener, &w->loop,
                                   net_bind_first_free(listen_ip, 0, 1, &(int){0}, NULL), &hs,
                                   &mine, &events, &w->s, NULL),
                     0);
    struct wire_hs_opts me = {.self = {WIRE_ROLE_TRAINER, 1, 6, "J"}, .key = {1}};
    struct pd_err err = {0};
    assert_int_equal(net_connect(&w->a.conn, &w->loop, ip, net_listener_port(w->listener), 3000,
                                 &me, &opts, &events, &w->a, &err),
                     0);
}

static void start(struct world *w, const char *server_job, uint8_t server_key) {
    start_at(w, server_job, server_key, "127.0.0.1", "127.0.0.1");
}

static void finish(struct world *w) {
    if (w->a.conn)
        net_close(w->a.conn);
    net_listener_close(w->listener, NULL, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0); /* every handle was closed */
}

static void run_until(struct world *w, const int *counter, int n) {
    for (int i = 0; *counter < n && i < 1000000; i++)
        uv_run(&w->loop, UV_RUN_ONCE);
    assert_true(*counter >= n);
}

/* Large and small frames, both directions, more than the kernel's buffers hold, released or copied.
 */
static void frames_of_all_sizes_arrive_in_order(void **state) {
    (void)state;
    struct world w;
    start(&w, "J", 1);
    w.s.echo = 1;
    run_until(&w, &w.a.opened, 1);
    size_t n;
    assert_memory_equal(net_greeting(w.a.conn, &n), "hi", 2);
    assert_int_equal(net_peer(w.a.conn)->id, 2);
    static const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 70000, 3 << 20, 17 << 20, 9};
    uint8_t *big = malloc(17 << 20);
    size_t total = 0;
    const int rounds = (int)(sizeof sizes / sizeof sizes[0]);
    for (int i = 0; i < rounds; i++) {
        uint8_t *two = malloc(sizes[i] + 1);
        memset(two, i, sizes[i] + 1);
        memset(big, i + 1, sizes[i]);
        struct net_sec sec[2] = {{two, sizes[i]}, {big, sizes[i]}};
        /* copied: the memory belongs to the caller again after net_send */
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, (uint64_t)i, sec, 2, NULL, NULL), 0);
        free(two);
        total += 2 * sizes[i];
    }
    for (int i = 0; w.a.frames < (uint64_t)rounds && i < 1000000; i++)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(w.a.frames, rounds);
    assert_int_equal(w.a.bytes, total);
    assert_int_equal(net_queued_bytes(w.a.conn), 0);
    memset(big, rounds, 17 << 20);
    struct net_sec sec = {big, 17 << 20};
    assert_int_equal(
        net_send(w.a.conn, WIRE_PS_REDUCE, 0, (uint64_t)rounds, &sec, 1, count_release, &w.a), 0);
    run_until(&w, &w.a.released, 1);
    for (int i = 0; w.a.frames < (uint64_t)rounds + 1 && i < 1000000; i++)
        uv_run(&w.loop, UV_RUN_ONCE);
    free(big);
    finish(&w);
    assert_int_equal(w.a.closed, 1);
    assert_int_equal(w.a.why.code, 0);
    assert_int_equal(w.s.closed, 1);
    assert_int_equal(w.s.why.code, PD_ECLOSED);
}

/* Many answers at once, some too large to be collected; the last answer must be sent before the
 * end. */
static void answers_that_leave_together_keep_their_order(void **state) {
    (void)state;
    enum { N = 3000, LARGE = 100000 };
    static uint8_t body[LARGE];
    for (cork = 0; cork < 2; cork++) {
        struct world w;
        start(&w, "J", 1);
        w.s.echo = 1;
        w.s.last = N;
        run_until(&w, &w.a.opened, 1);
        size_t total = 0;
        for (int i = 0; i < N; i++) {
            size_t n = i % 500 == 499 ? LARGE : (size_t)(i % 97) * 3;
            memset(body, i, n);
            struct net_sec sec = {body, n};
            assert_int_equal(
                net_send(w.a.conn, WIRE_PS_REDUCE, 0, (uint64_t)i, &sec, 1, NULL, NULL), 0);
            total += n;
        }
        run_until(&w, &w.a.closed, 1);
        assert_int_equal(w.a.frames, N);
        assert_int_equal(w.a.bytes, total);
        assert_int_equal(w.a.why.code, PD_ECLOSED);
        assert_int_equal(w.s.why.code, 0);
        finish(&w);
    }
    cork = 0;
}

/* Closing at once loses queued frames, but not those that the kernel would have taken when they
 * were sent. */
static void a_last_answer_leaves_before_an_abrupt_end(void **state) {
    (void)state;
    for (cork = 0; cork < 2; cork++) {
        struct world w;
        start(&w, "J", 1);
        w.s.echo = w.s.abrupt = 1;
        w.s.last = 3;
        run_until(&w, &w.a.opened, 1);
        for (uint64_t i = 0; i < 3; i++)
            assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, i, NULL, 0, NULL, NULL), 0);
        run_until(&w, &w.a.closed, 1);
        assert_int_equal(w.a.frames, 3);
        finish(&w);
    }
    cork = 0;
}

static void a_wrong_key_or_job_closes_without_opening(void **state) {
    (void)state;
    static const struct {
        const char *job;
        uint8_t key;
    } rows[] = {{"J", 2}, {"OTHER", 1}};
    for (size_t i = 0; i < 2; i++) {
        struct world w;
        start(&w, rows[i].job, rows[i].key);
        run_until(&w, &w.a.closed, 1);
        assert_int_equal(w.a.opened, 0);
        assert_int_not_equal(w.a.why.code, 0);
        /* the acceptor's callbacks are never called */
        assert_int_equal(w.s.opened + w.s.closed, 0);
        finish(&w);
    }
}

/* Frames that wait when the connection is closed are released, and on_close comes after that. */
static void on_close_comes_after_the_last_release(void **state) {
    (void)state;
    enum { WAITING = 4, BYTES = 8 << 20 };
    struct world w;
    start(&w, "J", 1);
    run_until(&w, &w.a.opened, 1);
    uint8_t *big = calloc(1, BYTES);
    const struct net_sec sec = {big, BYTES};
    for (uint64_t i = 0; i < WAITING; i++)
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, i, &sec, 1, count_release, &w.a), 0);
    assert_true(net_queued_bytes(w.a.conn) > 0);
    assert_true(w.a.released < WAITING);
    net_close(w.a.conn);
    run_until(&w, &w.a.closed, 1);
    assert_int_equal(w.a.released_before, WAITING);
    finish(&w);
    free(big);
}

/* A peer without the key can hold connections but cannot keep other peers out. */
static void silent_connections_make_way(void **state) {
    (void)state;
    enum { SILENT = 64 };
    struct world w;
    uv_loop_init(&w.loop);
    memset(&w.a, 0, sizeof w.a);
    memset(&w.s, 0, sizeof w.s);
    struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, "J"}, .key = {1}},
                        me = {.self = {WIRE_ROLE_TRAINER, 1, 6, "J"}, .key = {1}};
    struct net_opts slow = opts;
    slow.handshake_timeout_ms = 600000;
    assert_int_equal(net_listen_fd(&w.listener, &w.loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs,
                                   &slow, &events, &w.s, NULL),
                     0);
    struct sockaddr_storage sa;
    assert_int_equal(net_ip_addr("127.0.0.1", net_listener_port(w.listener), &sa), 0);
    int fd[SILENT];
    for (int i = 0; i < SILENT; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)&sa, sizeof(struct sockaddr_in)), 0);
    }
    for (int tries = 0; !w.a.opened && tries < 300; tries++) { /* like clients: again and again */
        const int closed = w.a.closed;
        assert_int_equal(net_connect(&w.a.conn, &w.loop, "127.0.0.1", net_listener_port(w.listener),
                                     60000, &me, &opts, &events, &w.a, NULL),
                         0);
        while (!w.a.opened && w.a.closed == closed)
            uv_run(&w.loop, UV_RUN_ONCE);
        if (!w.a.opened)
            usleep(200000);
    }
    run_until(&w, &w.a.opened, 1);
    run_until(&w, &w.s.opened, 1);
    assert_int_equal(w.s.closed, 0);
    finish(&w);
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
}

static long locked_kb(void) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[200];
    long kb = -1;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmLck: %ld kB", &kb) != 1)
        ;
    if (f)
        fclose(f);
    assert_true(kb >= 0);
    return kb;
}

/* HELLO needs no key, and the answer needs keys: the number of those who wait is limited. */
static void strangers_take_little_locked_memory(void **state) {
    (void)state;
    enum { STRANGERS = 100, LEAST = 8 };
    struct world w;
    struct rlimit before, low;
    uv_loop_init(&w.loop);
    memset(&w.a, 0, sizeof w.a);
    memset(&w.s, 0, sizeof w.s);
    struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, "J"}, .key = {1}},
                        me = {.self = {WIRE_ROLE_TRAINER, 1, 6, "J"}, .key = {1}};
    struct net_opts slow = opts;
    struct sockaddr_storage sa;
    struct pd_buf hello = {0};
    int fd[STRANGERS], n_open = 0;
    slow.handshake_timeout_ms = 600000;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    low = (struct rlimit){before.rlim_max < 1 << 20 ? before.rlim_max : 1 << 20, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    assert_int_equal(net_listen_fd(&w.listener, &w.loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs,
                                   &slow, &events, &w.s, NULL),
                     0);
    assert_int_equal(net_ip_addr("127.0.0.1", net_listener_port(w.listener), &sa), 0);
    struct wire_hs *stranger = wire_hs_new(&me, 1);
    assert_int_equal(wire_hs_output(stranger, &hello, NULL), 0);
    wire_hs_free(stranger);
    const long kb = locked_kb();
    for (int i = 0; i < STRANGERS; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fd[i], (struct sockaddr *)&sa, sizeof(struct sockaddr_in));
        uv_run(&w.loop, UV_RUN_NOWAIT);
        (void)!send(fd[i], hello.data, hello.len, MSG_NOSIGNAL);
        for (int k = 0; k < 3; k++)
            uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    const long more = locked_kb() - kb, page = sysconf(_SC_PAGESIZE) / 1024;
    for (int i = 0; i < STRANGERS; i++) {
        char c[4096];
        ssize_t n = 1, got = 0;
        for (int k = 0; k < 20 && n; k++) { /* CHALLENGE, or the end */
            uv_run(&w.loop, UV_RUN_NOWAIT);
            n = recv(fd[i], c, sizeof c, 0);
            got += n > 0 ? n : 0;
            if (n < 0 && errno != EAGAIN)
                n = 0;
        }
        n_open += n && got;
    }
    print_message("%d of %d strangers wait, with %ld kB of locked memory\n", n_open, STRANGERS,
                  more);
    assert_true(n_open > 0 && n_open <= LEAST);
    assert_true(more <= LEAST * page);
    usleep(1200000); /* now they are old, and a peer with the key gets in */
    assert_int_equal(net_connect(&w.a.conn, &w.loop, "127.0.0.1", net_listener_port(w.listener),
                                 60000, &me, &opts, &events, &w.a, NULL),
                     0);
    run_until(&w, &w.a.opened, 1);
    run_until(&w, &w.s.opened, 1);
    finish(&w);
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
    pd_buf_release(&hello);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

/* Strangers cannot fill the disk with records: one in 10 s, and the number of the others. */
static void refused_connections_are_counted(void **state) {
    (void)state;
    enum { STRANGERS = 300 };
    static const char hello[WIRE_HEADER] = "GET / HTTP/1.1\r\n\r\n";
    struct world w;
    uv_loop_init(&w.loop);
    memset(&w.s, 0, sizeof w.s);
    FILE *f = tmpfile();
    assert_non_null(f);
    struct pd_log log;
    pd_log_init(&log, fileno(f), -1, PD_DEBUG);
    struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, "J"}, .key = {1}};
    struct net_opts logged = opts;
    logged.log = &log;
    assert_int_equal(net_listen_fd(&w.listener, &w.loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs,
                                   &logged, &events, &w.s, NULL),
                     0);
    struct sockaddr_storage sa;
    assert_int_equal(net_ip_addr("127.0.0.1", net_listener_port(w.listener), &sa), 0);
    for (int i = 0; i < STRANGERS; i++) {
        char c[200];
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fd, (struct sockaddr *)&sa, sizeof(struct sockaddr_in));
        uv_run(&w.loop, UV_RUN_NOWAIT);
        assert_int_equal(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        ssize_t n = -1;
        while (n < 0 && errno != ECONNRESET) { /* until the listener has closed it */
            uv_run(&w.loop, UV_RUN_NOWAIT);
            errno = 0;
            n = recv(fd, c, sizeof c, 0);
        }
        close(fd);
    }
    net_listener_close(w.listener, NULL, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    char line[400], last[400] = "";
    int lines = 0;
    for (rewind(f); fgets(line, sizeof line, f); lines++)
        snprintf(last, sizeof last, "%s", line);
    fclose(f);
    /* On a slow machine several intervals pass. */
    if (lines < 2 || lines > 30 || !strstr(last, "more connections were refused"))
        fail_msg("%d lines, the last one: %s", lines, last);
}

/* libuv would listen no further: the connection is accepted when there is memory again. */
static void a_connection_waits_for_memory(void **state) {
    (void)state;
    struct world w;
    uv_loop_init(&w.loop);
    memset(&w.a, 0, sizeof w.a);
    memset(&w.s, 0, sizeof w.s);
    const struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, "J"}, .key = {1}};
    struct net_opts quick = opts;
    struct sockaddr_storage sa;
    quick.handshake_timeout_ms = 1; /* a peer that is accepted is soon dropped */
    assert_int_equal(net_listen_fd(&w.listener, &w.loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs,
                                   &quick, &events, &w.s, NULL),
                     0);
    assert_int_equal(net_ip_addr("127.0.0.1", net_listener_port(w.listener), &sa), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(struct sockaddr_in)), 0);
    pd_fault_arm("alloc:1");
    char c[4096];
    const uint64_t end = pd_mono_ns() + 30000000000u;
    ssize_t n = -1;
    while (n && pd_mono_ns() < end) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
        n = recv(fd, c, sizeof c, MSG_DONTWAIT); /* what it says first, then its end */
        if (n < 0 && errno == ECONNRESET)
            n = 0;
    }
    pd_fault_arm(NULL);
    assert_int_equal(n, 0);
    close(fd);
    net_listener_close(w.listener, NULL, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void a_port_where_nobody_listens_is_named(void **state) {
    (void)state;
    uv_loop_t loop;
    uv_loop_init(&loop);
    int port, fd = net_bind_first_free("127.0.0.1", 0, 1, &port, NULL);
    assert_true(fd >= 0);
    struct side a = {0};
    struct wire_hs_opts me = {.self = {WIRE_ROLE_TRAINER, 1, 6, "J"}};
    struct net_conn *c;
    assert_int_equal(net_connect(&c, &loop, "127.0.0.1", port, 3000, &me, &opts, &events, &a, NULL),
                     0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(a.closed, 1);
    assert_int_equal(a.why.code, PD_ECLOSED);
    char want[64];
    snprintf(want, sizeof want, "cannot connect to 127.0.0.1:%d", port);
    assert_non_null(strstr(a.why.msg, want));
    assert_int_equal(uv_loop_close(&loop), 0);
    close(fd);
}

/* A bound port that does not listen yet cannot be taken by another process, and the search skips
 * it. */
static void a_bound_port_is_ours_before_it_listens(void **state) {
    (void)state;
    int p1, p2, fd1 = net_bind_first_free("127.0.0.1", 0, 1, &p1, NULL);
    struct pd_err err = {0};
    assert_true(fd1 >= 0);
    assert_int_equal(net_bind_first_free("127.0.0.1", p1, 1, &p2, &err), PD_EIO);
    int fd2 = net_bind_first_free("127.0.0.1", p1, 100, &p2, NULL);
    assert_true(fd2 >= 0 && p2 > p1);
    close(fd1);
    close(fd2);
}

/* Garbage closes the connection with a reason; so does a frame that the end of the stream cuts. */
static void streams_without_handshake_report_how_they_ended(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t n;
        int code;
    } rows[] = {{"clean end", "", 0, PD_ECLOSED},
                {"cut header", "PDL1\x02", 5, PD_EIO},
                {"garbage",
                 "GET / HTTP/1.1\r\nHost: example\r\nAccept: everything there is.......\r\n", 68,
                 PD_EPROTO}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uv_loop_t loop;
        uv_loop_init(&loop);
        int sv[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        uv_pipe_t *p = malloc(sizeof *p);
        uv_pipe_init(&loop, p, 0);
        assert_int_equal(uv_pipe_open(p, sv[0]), 0);
        struct side a = {0};
        struct net_conn *c;
        assert_int_equal(
            net_conn_on_streams(&c, (uv_stream_t *)p, (uv_stream_t *)p, &opts, &events, &a, NULL),
            0);
        assert_int_equal(write(sv[1], rows[i].bytes, rows[i].n), rows[i].n);
        close(sv[1]);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(a.opened, 1);
        assert_int_equal(a.closed, 1);
        if (a.why.code != rows[i].code)
            fail_msg("%s: %d %s", rows[i].name, a.why.code, a.why.msg);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

/* One socket serves both families where the machine has both; the address of a peer has the peer's
 * family. */
static void ipv4_and_ipv6_reach_one_listener(void **state) {
    static const struct {
        const char *listen, *ip, *peer;
    } rows[] = {
        {"::", "127.0.0.1", "127.0.0.1:"}, {"::", "::1", "[::1]:"}, {"::1", "::1", "[::1]:"}};
    char text[NET_ENDPOINT_MAX];
    int port, fd = net_bind_first_free("::1", 0, 1, &port, NULL);
    (void)state;
    assert_string_equal(net_endpoint("10.0.0.1", 7164, text), "10.0.0.1:7164");
    assert_string_equal(net_endpoint("2001:db8::1", 7164, text), "[2001:db8::1]:7164");
    assert_true(net_is_ip("10.0.0.1") && net_is_ip("::1") && !net_is_ip("10.0.0") &&
                !net_is_ip("[::1]") && !net_is_ip("a") && !net_is_ip(""));
    if (fd < 0)
        SKIP("this machine has no ::1");
    close(fd);
    assert_string_equal(net_any_ip(), "::");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        start_at(&w, "J", 1, rows[i].listen, rows[i].ip);
        run_until(&w, &w.s.opened, 1);
        assert_memory_equal(net_peer_addr(w.s.conn), rows[i].peer, strlen(rows[i].peer));
        run_until(&w, &w.a.opened, 1);
        finish(&w);
    }
    /* the port is taken in both families */
    int both = net_bind_first_free("::", 0, 1, &port, NULL);
    assert_true(both >= 0);
    assert_true(net_bind_first_free("127.0.0.1", port, 1, &port, NULL) < 0);
    close(both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_all_sizes_arrive_in_order),
        cmocka_unit_test(answers_that_leave_together_keep_their_order),
        cmocka_unit_test(a_last_answer_leaves_before_an_abrupt_end),
        cmocka_unit_test(a_wrong_key_or_job_closes_without_opening),
        cmocka_unit_test(on_close_comes_after_the_last_release),
        cmocka_unit_test(silent_connections_make_way),
        cmocka_unit_test(strangers_take_little_locked_memory),
        cmocka_unit_test(refused_connections_are_counted),
        cmocka_unit_test(a_connection_waits_for_memory),
        cmocka_unit_test(a_port_where_nobody_listens_is_named),
        cmocka_unit_test(a_bound_port_is_ours_before_it_listens),
        cmocka_unit_test(streams_without_handshake_report_how_they_ended),
        cmocka_unit_test(ipv4_and_ipv6_reach_one_listener),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
