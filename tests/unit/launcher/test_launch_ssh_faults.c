/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_ssh_faults.c - servers that drop or reset connections, fall silent, or are
 * overloaded. Every session ends in time, the message names the step, and other sessions are not
 * affected. */
#include "tests/support/c/ssh_run.h"
#include "tests/support/c/cut_proxy.h"
#include "tests/support/c/skip.h"

#include <netdb.h>

static struct cut_proxy hammer, fixed[5];
static uint64_t seed;

static const struct {
    const char *name;
    struct cut cut;
    const char *say;
    int code;
} fixed_rows[] = {
    {"accepts and says nothing",
     {CUT_SILENCE, 0},
     "timed out after 2 s while exchanging keys",
     PD_ETIMEOUT},
    {"stops in the middle of the key exchange",
     {CUT_SILENCE, 700},
     "timed out after 2 s while exchanging keys",
     PD_ETIMEOUT},
    {"resets in the key exchange", {CUT_RESET, 700}, "ssh: Socket error: ", PD_EHOST},
    {"ends in the key exchange",
     {CUT_END, 700},
     "ssh: Socket error: ",
     PD_EHOST}, /* or a reset, if we were writing */
    {"always ends before its greeting",
     {CUT_END, 0},
     "ssh: the server closed the connection before its greeting",
     PD_EHOST},
};

static int setup_faults(void **state) {
    setenv("SSHD_FIXTURE_CONFIG", "MaxStartups 3:50:10", 1);
    if (setup(state))
        return -1;
    seed = getenv("TEST_SEED") ? strtoull(getenv("TEST_SEED"), NULL, 10) : randombytes_random();
    if (no_sshd[0])
        return 0;
    hammer = cut_proxy_start(fixture.v[0].port, seed, NULL);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        fixed[i] = cut_proxy_start(fixture.v[0].port, 0, &fixed_rows[i].cut);
    return hammer.pid > 0 && fixed[4].pid > 0 ? 0 : -1;
}

static int teardown_faults(void **state) {
    cut_proxy_stop(&hammer);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        cut_proxy_stop(&fixed[i]);
    return teardown(state);
}

static struct ssh_opts accepting(void) {
    static char known[200];
    struct ssh_opts o = options();
    snprintf(known, sizeof known, "%s/known", dir);
    o.known_hosts = known;
    o.accept_new = o.policy_named = 1;
    return o;
}

/* Each bad server runs together with good ones, which must not be delayed. */
static void test_named_steps(void **state) {
    (void)state;
    need_sshd();
    enum { N = 7 };
    struct run runs[N];
    struct host hosts[N];
    struct ssh_opts o = accepting();
    o.connect_timeout_ms = 2000;
    memset(runs, 0, sizeof runs);
    for (int i = 0; i < 5; i++)
        hosts[i] = (struct host){.addr = (char *)(uintptr_t) "127.0.0.1",
                                 .port = fixed[i].port,
                                 .user = fixture.v[0].user};
    hosts[5] = fixture.v[1];
    hosts[6] = fixture.v[2];
    run_many(runs, N, &o, hosts, N, "echo hi", 0);
    for (int i = 0; i < 5; i++)
        if (runs[i].why.code != fixed_rows[i].code || !strstr(runs[i].why.msg, fixed_rows[i].say))
            fail_msg("%s: %d '%s'", fixed_rows[i].name, runs[i].why.code, runs[i].why.msg);
    for (int i = 5; i < N; i++) /* a busy machine may need more than 2 s */
        if (strcmp(runs[i].text, "hi\n") && runs[i].why.code != PD_ETIMEOUT)
            fail_msg("a good host: %d '%s'", runs[i].why.code, runs[i].why.msg);
}

/* 60 sessions at an sshd that begins to drop at three: all get in by turns, fewer at a time, and
 * retries. */
static void test_max_startups(void **state) {
    (void)state;
    need_sshd();
    enum { N = 60 };
    static struct run runs[N];
    struct ssh_opts o = options();
    o.connect_timeout_ms = 60000;
    memset(runs, 0, sizeof runs);
    run_many(runs, N, &o, fixture.v, 1, "echo hi", 0);
    for (int i = 0; i < N; i++)
        if (strcmp(runs[i].text, "hi\n"))
            fail_msg("session %d: '%s' %s", i, runs[i].text, runs[i].why.msg);
}

/* Two hundred connections to eight addresses are cut at random steps. We close each within five
 * seconds. */
static void test_hammer(void **state) {
    (void)state;
    need_sshd();
    enum { N = 200 };
    static struct run runs[N];
    static char names[8][20];
    struct host hosts[8];
    struct ssh_opts o = accepting();
    o.connect_timeout_ms = 2000;
    print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
    close_seed = seed;
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "127.0.1.%d", i + 1);
        hosts[i] = (struct host){.addr = names[i], .port = hammer.port, .user = fixture.v[0].user};
    }
    memset(runs, 0, sizeof runs);
    run_many(runs, N, &o, hosts, 8, "head -c 300000 /dev/zero; cat", 5000);
    int named = 0;
    for (int i = 0; i < N; i++) {
        named += runs[i].why.code != 0;
        if (runs[i].why.code && !runs[i].why.msg[0])
            fail_msg("session %d: %d without a word", i, runs[i].why.code);
    }
    assert_true(named > 20);
}

/* All addresses of a name are tried. The fixture's sshd listens on the IPv4 address only. */
static void test_several_addresses(void **state) {
    (void)state;
    need_sshd();
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int families = 0;
    if (!getaddrinfo("localhost", "22", &hints, &all))
        for (struct addrinfo *a = all; a; a = a->ai_next)
            families |= a->ai_family == AF_INET ? 1 : a->ai_family == AF_INET6 ? 2 : 0;
    if (all)
        freeaddrinfo(all);
    if (families != 3)
        SKIP("localhost has one address here");
    struct run r = {0};
    struct ssh_opts o = accepting();
    struct host h = {.addr = (char *)(uintptr_t) "localhost",
                     .port = fixture.v[0].port,
                     .user = fixture.v[0].user};
    run_with(&r, &o, &h, "echo hi");
    if (strcmp(r.text, "hi\n"))
        fail_msg("%s", r.why.msg);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0)
        return 1;
    if (!UNDER_ASAN && not_here("under AddressSanitizer"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_steps),
        cmocka_unit_test(test_max_startups),
        cmocka_unit_test(test_hammer),
        cmocka_unit_test(test_several_addresses),
    };
    return cmocka_run_group_tests(tests, setup_faults, teardown_faults);
}
