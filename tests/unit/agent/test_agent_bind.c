/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_bind.c - divides the CPUs of simulated machines, which are folders like sysfs, and of
 * this machine. */
#include <setjmp.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/wait.h>

#include "agent/host/bind.h"
#include "tests/support/c/skip.h"

static char sys[] = "/tmp/agent-bind-XXXXXX";

static void put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *fmt, ...) {
    char name[200], path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", sys, name), 0);
    *strrchr(path, '/') = 0;
    assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
    path[strlen(path)] = '/';
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void new_machine(void) {
    pd_rm_tree(sys, NULL);
    pd_fmt(sys, sizeof sys, "/tmp/agent-bind-XXXXXX");
    assert_non_null(mkdtemp(sys));
}

/* 2 sockets x 4 cores x 2 threads, numbered like Linux does: socket 0 has CPUs 0-3 and 8-11, and
 * CPUs i and i + 8 are one core. NUMA node 2 has memory but no CPUs, like that of an expansion
 * card. */
static void two_sockets(void) {
    new_machine();
    for (int i = 0; i < 16; i++) {
        char pair[20];
        snprintf(pair, sizeof pair, "%d,%d\n", i % 8, i % 8 + 8);
        put(pair, "cpu/cpu%d/topology/%s", i,
            i < 8 ? "thread_siblings_list" : "core_cpus_list"); /* the old and the new name */
        if (i)
            put("1\n", "cpu/cpu%d/online", i);
    }
    put("0-3,8-11\n", "node/node0/cpulist");
    put("4-7,12-15\n", "node/node1/cpulist");
    put("\n", "node/node2/cpulist");
    put("0-2\n", "node/has_memory");
    put("junk", "node/online");
}

static struct pd_cpuset set(const char *list) {
    struct pd_cpuset s;
    assert_int_equal(pd_cpuset_parse(&s, list), 0);
    return s;
}

static void lists(void **state) {
    static const struct {
        const char *text, *back;
        int n;
    } good[] = {{"", "", 0},           {"\n", "", 0},       {"0", "0", 1},  {"0-3,8\n", "0-3,8", 5},
                {"1,0,3,2", "0-3", 4}, {"4095", "4095", 1}, {"7-7", "7", 1}};
    static const char *const bad[] = {"x",    "1-",   "-1",     "3-1",
                                      "1,,2", "4096", "0-4096", "99999999999999999999",
                                      "1,",   "1 2",  "1;"};
    char text[100];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct pd_cpuset s = set(good[i].text);
        pd_cpuset_text(&s, text, sizeof text);
        if (strcmp(text, good[i].back) || pd_cpuset_count(&s) != good[i].n)
            fail_msg("'%s' became '%s', %d CPUs", good[i].text, text, pd_cpuset_count(&s));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pd_cpuset s;
        if (!pd_cpuset_parse(&s, bad[i]))
            fail_msg("'%s' was taken", bad[i]);
    }
    struct pd_cpuset odd = set("1,3,5,7,9,11,13");
    pd_cpuset_text(&odd, text, 12);
    assert_string_equal(text, "1,3,5,7...");
}

struct row {
    const char *name, *may;
    enum bind_how how;
    int index, count, n;
    unsigned weight[3];
    const char *cpus[3], *memory;
    int shared;
};

static void deal(const struct row *r) {
    struct pd_cpuset may = set(r->may), all = {{0}};
    struct pd_cpus c;
    struct pd_err err = {0};
    struct bind_set out[BIND_MAX];
    char text[200], memory[200];
    int sum = 0;
    assert_int_equal(pd_cpus_read(&c, sys, &may, &err), 0);
    bind_deal(&c, r->how, r->index, r->count, r->weight, r->n, out);
    for (int i = 0; i < r->n; i++) {
        pd_cpuset_text(&out[i].cpus, text, sizeof text);
        pd_cpuset_text(&out[i].memory, memory, sizeof memory);
        if (strcmp(text, r->cpus[i]) || out[i].shared != r->shared || out[i].on != (*text != 0) ||
            (i == 0 && strcmp(memory, r->memory ? r->memory : "")))
            fail_msg("%s: process %d has %s, not %s; memory '%s', shared %d", r->name, i, text,
                     r->cpus[i], memory, out[i].shared);
        sum += pd_cpuset_count(&out[i].cpus);
        for (int k = 0; k < PD_CPU_WORDS; k++)
            all.w[k] |= out[i].cpus.w[k];
    }
    if (!r->shared && r->how != BIND_AUTO && sum != pd_cpuset_count(&all))
        fail_msg("%s: the sets are not disjoint", r->name);
    pd_cpus_release(&c);
}

static void dealing_two_sockets(void **state) {
    static const struct row rows[] = {
        {"one process has all", "0-15", BIND_CORES, 0, 1, 1, {1}, {"0-15"}, NULL, 0},
        {"equal weights, a socket each",
         "0-15",
         BIND_CORES,
         0,
         1,
         2,
         {3, 3},
         {"0-3,8-11", "4-7,12-15"},
         NULL,
         0},
        {"by weight, siblings together",
         "0-15",
         BIND_CORES,
         0,
         1,
         2,
         {2, 6},
         {"0-1,8-9", "2-7,10-15"},
         NULL,
         0},
        {"everybody has one at least",
         "0-15",
         BIND_CORES,
         0,
         1,
         2,
         {1, 1000},
         {"0,8", "1-7,9-15"},
         NULL,
         0},
        {"second of two agents",
         "0-15",
         BIND_CORES,
         1,
         2,
         2,
         {1, 1},
         {"4-5,12-13", "6-7,14-15"},
         NULL,
         0},
        {"third of three agents", "0-15", BIND_CORES, 2, 3, 1, {1}, {"5-7,13-15"}, NULL, 0},
        {"only some may be used",
         "1,2,9,13",
         BIND_CORES,
         0,
         1,
         3,
         {1, 1, 1},
         {"1,9", "2", "13"},
         NULL,
         0},
        {"fewer cores than processes",
         "3,11",
         BIND_CORES,
         0,
         1,
         2,
         {1, 1},
         {"3,11", "3,11"},
         NULL,
         1},
        {"fewer cores than agents: the first", "0-1", BIND_CORES, 0, 4, 1, {1}, {"0"}, NULL, 1},
        {"fewer cores than agents: the last", "0-1", BIND_CORES, 3, 4, 1, {1}, {"1"}, NULL, 1},
        {"auto: alone on the machine", "0-15", BIND_AUTO, 0, 1, 2, {1, 1}, {"", ""}, NULL, 0},
        {"auto: the first of two agents",
         "0-15",
         BIND_AUTO,
         0,
         2,
         2,
         {1, 7},
         {"0-3,8-11", "0-3,8-11"},
         NULL,
         0},
        {"auto: the last of four agents", "0-15", BIND_AUTO, 3, 4, 1, {1}, {"6-7,14-15"}, NULL, 0},
        {"auto: cores that can't be divided evenly",
         "0-15",
         BIND_AUTO,
         0,
         3,
         2,
         {1, 1},
         {"", ""},
         NULL,
         0},
        {"auto: fewer cores than agents", "0-1", BIND_AUTO, 0, 4, 1, {1}, {""}, NULL, 0},
        {"NUMA: a node each",
         "0-15",
         BIND_NUMA,
         0,
         1,
         2,
         {1, 7},
         {"0-3,8-11", "4-7,12-15"},
         "0",
         0},
        {"NUMA: one process", "0-15", BIND_NUMA, 0, 1, 1, {1}, {"0-15"}, "0-1", 0},
        {"NUMA: second agent", "0-15", BIND_NUMA, 1, 2, 1, {1}, {"4-7,12-15"}, "1", 0},
        {"NUMA: more processes than nodes",
         "4-7",
         BIND_NUMA,
         0,
         1,
         2,
         {1, 1},
         {"4-7", "4-7"},
         "1",
         1},
        {"NUMA: more agents than nodes", "0-15", BIND_NUMA, 2, 3, 1, {1}, {"4-7,12-15"}, "1", 1},
    };
    (void)state;
    two_sockets();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        deal(&rows[i]);
}

static void machines_that_tell_little(void **state) {
    static const struct row rows[] = {
        {"no sysfs: each CPU a core", "0-3", BIND_CORES, 0, 1, 2, {1, 1}, {"0-1", "2-3"}, NULL, 0},
        {"no sysfs: one NUMA node, no policy", "0-3", BIND_NUMA, 0, 1, 1, {1}, {"0-3"}, NULL, 0},
    };
    static const struct row offline = {
        "offline CPUs are left out", "0-15", BIND_CORES, 0, 1, 2, {1, 1},
        {"0-3,8-10", "4-7,13-15"},   NULL,   0};
    static const struct row lies = {
        "files that make no sense", "0-15", BIND_CORES, 0, 1, 1, {1}, {"0-15"}, NULL, 0};
    struct pd_cpuset may = set("11-12");
    struct pd_cpus c;
    struct pd_err err = {0};
    (void)state;
    new_machine();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        deal(&rows[i]);
    two_sockets();
    put("0\n", "cpu/cpu11/online");
    put("0\n", "cpu/cpu12/online");
    deal(&offline);
    assert_int_equal(pd_cpus_read(&c, sys, &may, &err), PD_EHOST);
    two_sockets();
    put("6-2,,", "cpu/cpu3/topology/thread_siblings_list");
    put("4", "cpu/cpu5/topology/thread_siblings_list"); /* the CPU does not list itself */
    put("0-99999", "node/node1/cpulist");
    deal(&lies);
}

static void how_many_an_agent_has(void **state) {
    struct pd_cpuset may = set("0-15");
    struct pd_cpus c;
    (void)state;
    two_sockets();
    assert_int_equal(pd_cpus_read(&c, sys, &may, NULL), 0);
    assert_int_equal(bind_agent_cpus(&c, BIND_CORES, 0, 1), 16);
    assert_int_equal(bind_agent_cpus(&c, BIND_CORES, 0, 3), 4);
    assert_int_equal(bind_agent_cpus(&c, BIND_CORES, 2, 3), 6);
    pd_cpus_release(&c);
}

/* Each case runs in a child: bind, pin, and read the result from the kernel. */
static void this_machine(void **state) {
    struct pd_cpuset may;
    struct pd_cpus c;
    struct pd_err err = {0};
    (void)state;
    assert_int_equal(pd_cpuset_mine(&may), 0);
    assert_int_equal(pd_cpus_read(&c, PD_SYS_DEVICES, &may, &err), 0);
    assert_int_equal(c.n, pd_cpuset_count(&may));
    for (int how = BIND_CORES; how <= BIND_NUMA; how++) {
        const unsigned weight[2] = {1, 1};
        struct bind_set out[2];
        bind_deal(&c, (enum bind_how)how, 0, 1, weight, 2, out);
        for (int i = 0; i < 2; i++) {
            pid_t pid = fork();
            if (!pid) {
                struct pd_cpuset now;
                struct pd_cpus mine;
                int bad = bind_apply(&out[i]) || pd_cpuset_mine(&now) ||
                          memcmp(&now, &out[i].cpus, sizeof now);
                if (!bad && how == BIND_CORES) {
                    bad = pd_cpus_read(&mine, PD_SYS_DEVICES, &now, NULL) ||
                          pd_pin_thread(&mine, 7) || pd_cpuset_mine(&now) ||
                          pd_cpuset_count(&now) < 1;
                    for (int cpu = 0; !bad && cpu < PD_CPUS_MAX; cpu++)
                        bad = pd_cpuset_has(&now, cpu) && !pd_cpuset_has(&out[i].cpus, cpu);
                }
                _exit(bad);
            }
            int st;
            assert_int_equal(waitpid(pid, &st, 0), pid);
            assert_int_equal(st, 0);
        }
    }
    struct bind_set none = {.on = 1};
    assert_int_equal(bind_apply(&none), -1);
    pd_cpus_release(&c);
}

/* Thread i is pinned to both hyperthreads of core i. */
static void threads_in_turn(void **state) {
    struct pd_cpuset may;
    struct pd_cpus c = {0};
    struct pd_cpu v[3];
    (void)state;
    assert_int_equal(pd_pin_thread(&c, 0), -1);
    assert_int_equal(pd_cpuset_mine(&may), 0);
    int a = -1, b = -1;
    for (int i = 0; i < PD_CPUS_MAX && b < 0; i++)
        if (pd_cpuset_has(&may, i))
            *(a < 0 ? &a : &b) = i;
    if (b < 0)
        SKIP("this machine has one core");
    v[0] = (struct pd_cpu){a, a, 0};
    v[1] = (struct pd_cpu){b, b, 0};
    c.v = v;
    c.n = 2;
    for (unsigned i = 0; i < 4; i++) {
        pid_t pid = fork();
        if (!pid) {
            struct pd_cpuset now;
            _exit(pd_pin_thread(&c, i) || pd_cpuset_mine(&now) || pd_cpuset_count(&now) != 1 ||
                  !pd_cpuset_has(&now, i % 2 ? b : a));
        }
        int st;
        assert_int_equal(waitpid(pid, &st, 0), pid);
        assert_int_equal(st, 0);
    }
}

static int clean(void **state) {
    (void)state;
    return pd_rm_tree(sys, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(dealing_two_sockets),
        cmocka_unit_test(machines_that_tell_little),
        cmocka_unit_test(how_many_an_agent_has),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(threads_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
