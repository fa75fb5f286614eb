/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_relay.c - the relay between a client's pipes and the agent's socket. All bytes arrive
 * in order, both ways. The end of either side loses no earlier bytes. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/relay.h"

struct world {
    int to, from, sock; /* the client's ends, the agent's end */
    pid_t pid;
};

static struct world begin(void) {
    int in[2], out[2], s[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    pid_t pid = fork();
    if (!pid) {
        signal(SIGPIPE, SIG_DFL);
        close(in[1]);
        close(out[0]);
        close(s[1]);
        _exit(relay_run(in[0], out[1], s[0], 2000) ? 1 : 0);
    }
    close(in[0]);
    close(out[1]);
    close(s[0]);
    return (struct world){in[1], out[0], s[1], pid};
}

static void assert_ends(struct world *w, const char *said) {
    char buf[4096];
    ssize_t n = pd_read_full(w->from, buf, sizeof buf);
    assert_int_equal(n, strlen(said));
    assert_memory_equal(buf, said, strlen(said));
    int st;
    waitpid(w->pid, &st, 0);
    assert_int_equal(st, 0); /* the process exited and was not killed */
    close(w->from);
}

static void bytes_both_ways(void **state) {
    (void)state;
    struct world w = begin();
    pid_t echo = fork(); /* an agent that echoes its input */
    if (!echo) {
        char b[5000];
        close(w.to);
        close(w.from);
        for (ssize_t k; (k = read(w.sock, b, sizeof b)) > 0;)
            (void)pd_write_all(w.sock, b, (size_t)k);
        _exit(0);
    }
    close(w.sock);
    enum { N = 3 << 20 };
    uint8_t *a = malloc(N), *b = malloc(N);
    for (size_t i = 0; i < N; i++)
        a[i] = (uint8_t)(i * 2654435761u >> 24);
    pid_t writer = fork();
    if (!writer)
        _exit(pd_write_all(w.to, a, N) ? 1 : 0);
    assert_int_equal(pd_read_full(w.from, b, N), N);
    assert_memory_equal(a, b, N);
    waitpid(writer, NULL, 0);
    close(w.to); /* the client ends, and the others follow */
    assert_ends(&w, "");
    waitpid(echo, NULL, 0);
    free(a);
    free(b);
}

static void last_words_of_an_agent_that_is_gone(void **state) {
    (void)state;
    struct world w = begin();
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pd_write_all(w.sock, "last words", 10), 0);
    shutdown(w.sock, SHUT_RD); /* the relay's writes fail from here on */
    char junk[65536] = {0};
    for (int i = 0; i < 4; i++)
        (void)!write(w.to, junk, 4096);
    char c;
    assert_int_equal(read(w.from, &c, 1), 1);
    assert_int_equal(c, 'l');
    assert_int_equal(pd_write_all(w.sock, "!", 1), 0);
    close(w.sock);
    assert_ends(&w, "ast words!");
    close(w.to);
}

static void last_words_of_a_client(void **state) {
    (void)state;
    struct world w = begin();
    assert_int_equal(pd_write_all(w.to, "bye", 3), 0);
    close(w.to);
    char b[8];
    assert_int_equal(pd_read_full(w.sock, b, sizeof b), 3); /* then end of file */
    assert_int_equal(pd_write_all(w.sock, "answer", 6), 0);
    close(w.sock);
    assert_ends(&w, "answer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_both_ways),
        cmocka_unit_test(last_words_of_an_agent_that_is_gone),
        cmocka_unit_test(last_words_of_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
