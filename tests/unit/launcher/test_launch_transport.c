/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_transport.c - the queue of unsent bytes that all transports share; a child process
 * whose output cannot be read, and another whose group outlives it; a socket. */
#include <setjmp.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "launcher/transport/transport.h"

static uint8_t at(size_t i) { return (uint8_t)(i * 31 + i / 256); }

static void push(struct transport *t, size_t from, size_t n) {
    uint8_t *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = at(from + i);
    assert_int_equal(transport_push(t, p, n), 0);
    free(p);
}

static void pop(struct transport *t, size_t from, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(t->queue.data[t->queue_off + i], at(from + i));
    transport_pop(t, n);
}

/* A worker of 600 KB is sent to each of thousands of hosts. Its buffer must not be kept for each
 * host. */
static void a_long_queue_gives_its_memory_back(void **state) {
    struct transport t;
    (void)state;
    transport_init(&t, NULL, NULL);
    for (int round = 0; round < 3; round++) {
        push(&t, 0, 600000);
        pop(&t, 0, 200000);
        push(&t, 600000, 1000);
        pop(&t, 200000, 401000);
        assert_int_equal(transport_queued(&t), 0);
        assert_true(t.queue.cap <= TRANSPORT_KEEP);
        push(&t, 7, 100); /* short queues keep their buffer */
        pop(&t, 7, 100);
        assert_int_equal(transport_queued(&t), 0);
    }
    transport_release(&t);
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    (void)p;
    (void)n;
    (void)arg;
    fail_msg("bytes were read without memory for them");
}
static void on_open(void *arg) { (void)arg; }
static void on_close(const struct pd_err *why, void *arg) { *(struct pd_err *)arg = *why; }

/* The child waits for more input, as an agent does, and nobody sends it: paddlectl hung. */
static void no_memory_for_the_output_ends_the_child(void **state) {
    static const struct transport_events ev = {on_open, on_bytes, NULL, on_close, NULL};
    char sh[] = "/bin/sh", c[] = "-c", line[] = "echo; exec cat >/dev/null";
    char *argv[] = {sh, c, line, NULL};
    struct transport *t;
    struct pd_err err = {0}, why = {0};
    uv_loop_t loop;
    (void)state;
    uv_loop_init(&loop);
    assert_int_equal(transport_local(&t, &loop, argv, &ev, &why, &err), 0);
    pd_fault_arm("alloc:1");
    uv_run(&loop, UV_RUN_DEFAULT);
    pd_fault_arm(NULL);
    assert_int_equal(why.code, PD_ENOMEM);
    assert_non_null(strstr(why.msg, "cannot read its output: out of memory"));
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* The program that the next test starts. It ignores SIGTERM. Its grandchild stays in its group, and
 * nobody waits for the grandchild, so a dead process belongs to the group after the program's end.
 */
static int leave_a_dead_member(void) {
    const pid_t self = getpid();
    signal(SIGTERM, SIG_IGN);
    if (!fork()) {
        if (!fork())
            for (;;)
                pause();
        setpgid(0, 0);
        if (write(STDOUT_FILENO, "r", 1) != 1)
            return 1;
        while (getppid() == self)
            nanosleep(&(struct timespec){0, 10000000}, NULL);
        sleep(4);
        return 0;
    }
    for (;;)
        pause();
}

static struct transport *ready;
static void close_when_ready(const uint8_t *p, size_t n, void *arg) {
    (void)p;
    (void)n;
    (void)arg;
    transport_close(ready);
}

/* srun has a child in its group. Both took longer than the second after SIGTERM, were killed, and
 * srun's end was seen first: paddlectl hung. */
static void a_dead_member_of_the_group_does_not_hold_the_end(void **state) {
    static const struct transport_events ev = {on_open, close_when_ready, NULL, on_close, NULL};
    char self[] = "/proc/self/exe", word[] = "leave a dead member";
    char *argv[] = {self, word, NULL};
    struct pd_err err = {0}, why = {.code = PD_EFAIL};
    uv_loop_t loop;
    (void)state;
    uv_loop_init(&loop);
    assert_int_equal(transport_local(&ready, &loop, argv, &ev, &why, &err), 0);
    transport_local_end_group(ready);
    alarm(120);
    uv_run(&loop, UV_RUN_DEFAULT);
    alarm(0);
    assert_int_equal(why.code, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static int other_end, resets;
static void send_word(void *arg) {
    (void)arg;
    assert_int_equal(transport_write(ready, "question", 8), 0);
}
static void answer_and_end(uv_timer_t *t) {
    char question[9];
    (void)t;
    assert_int_equal(read(other_end, question, sizeof question), resets ? 9 : 8);
    assert_memory_equal(question, "question", 8);
    assert_int_equal(write(other_end, "answer", 6), 6);
    close(other_end);
    uv_close((uv_handle_t *)t, NULL);
}
static void take_answer(const uint8_t *p, size_t n, void *arg) {
    (void)arg;
    assert_int_equal(n, 6);
    assert_memory_equal(p, "answer", 6);
}

/* The socket of an agent on this machine. It ends as a relay does, also when the agent is killed
 * with bytes unread (ECONNRESET): the link to it is then made again. */
static void a_socket_ends_as_a_relay(void **state) {
    static const struct transport_events ev = {send_word, take_answer, NULL, on_close, NULL};
    (void)state;
    for (resets = 0; resets < 2; resets++) {
        struct pd_err err = {0}, why = {0};
        uv_loop_t loop;
        uv_timer_t timer;
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
        other_end = fd[1];
        uv_loop_init(&loop);
        assert_int_equal(transport_socket(&ready, &loop, fd[0], &ev, &why, &err), 0);
        if (resets) /* one byte more than the other end reads */
            assert_int_equal(transport_write(ready, "question, and more", 18), 0);
        uv_timer_init(&loop, &timer);
        uv_timer_start(&timer, answer_and_end, 100, 0);
        alarm(60);
        uv_run(&loop, UV_RUN_DEFAULT);
        alarm(0);
        assert_int_equal(why.code, PD_ECLOSED);
        assert_non_null(strstr(why.msg, "ended with exit status 0"));
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        return leave_a_dead_member();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_queue_gives_its_memory_back),
        cmocka_unit_test(no_memory_for_the_output_ends_the_child),
        cmocka_unit_test(a_dead_member_of_the_group_does_not_hold_the_end),
        cmocka_unit_test(a_socket_ends_as_a_relay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
