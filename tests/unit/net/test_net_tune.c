/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_tune.c - socket options of a connection: no connection within a machine is paced. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/conn_internal.h"

/* a congestion control other than "reno", if the machine has one */
static int other_control(int fd) {
    static const char *const names[] = {"bbr", "cubic"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i], (socklen_t)strlen(names[i])))
            return 1;
    return 0;
}

/* Checks a connection to that address; skipped if the machine has no such address. */
static void tuned(const char *ip) {
    struct sockaddr_storage sa, at;
    socklen_t n = sizeof at, n_name = 16, n_on = sizeof(int);
    char name[16] = "";
    int on = 0;
    uv_loop_t loop;
    uv_tcp_t tcp;
    assert_int_equal(net_ip_addr(ip, 0, &sa), 0);
    const int l = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l < 0 ||
        bind(l, (struct sockaddr *)&sa,
             sa.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6))) {
        print_message("skipped: this machine has no address %s\n", ip);
        if (l >= 0)
            close(l);
        return;
    }
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&at, &n), 0);
    const int c = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(c, (struct sockaddr *)&at, n), 0);
    if (!other_control(c))
        print_message("no congestion control but reno: nothing to choose\n");
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_tcp_init(&loop, &tcp), 0);
    assert_int_equal(uv_tcp_open(&tcp, c), 0);
    net_tune(&tcp);
    assert_int_equal(getsockopt(c, IPPROTO_TCP, TCP_CONGESTION, name, &n_name), 0);
    assert_string_equal(name, "reno");
    assert_int_equal(getsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, &n_on), 0);
    assert_true(on);
    uv_close((uv_handle_t *)&tcp, NULL);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    close(l);
}

static void a_connection_within_the_machine_is_not_paced(void **state) {
    (void)state;
    tuned("127.0.0.1");
    tuned("127.0.0.2"); /* connected from 127.0.0.1 */
    tuned("::1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_within_the_machine_is_not_paced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
