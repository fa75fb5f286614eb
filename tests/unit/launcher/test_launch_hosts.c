/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_hosts.c - host list expansion and role lists. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/hosts/hosts.h"

/* Prints "user|addr|port|label" per node, separated by blanks, or "E message" for a refused list.
 */
static void render(char *out, size_t cap, const char *text) {
    struct hosts h;
    struct pd_err err = {0};
    out[0] = 0;
    if (hosts_parse(&h, text, "conf.ini:3", &err)) {
        snprintf(out, cap, "E %s", err.msg);
        assert_int_equal(err.code, PD_ECONF);
        return;
    }
    for (size_t i = 0; i < h.n; i++)
        snprintf(out + strlen(out), cap - strlen(out), "%s%s|%s|%d|%s", i ? " " : "",
                 h.v[i].user ? h.v[i].user : "", h.v[i].local ? "LOCAL" : h.v[i].addr, h.v[i].port,
                 h.v[i].label);
    hosts_release(&h);
}

#define NOT_A_HOST "; hosts are written [user@]host[:port], with commas between them"

static const struct {
    const char *name, *text, *want;
} lists[] = {
    {"plain", "gpu", "|gpu|0|gpu"},
    {"user and port", "root@10.0.0.1:22", "root|10.0.0.1|22|10.0.0.1"},
    {"range", "root@192.168.1.[9-11]:22",
     "root|192.168.1.9|22|192.168.1.9 root|192.168.1.10|22|192.168.1.10 "
     "root|192.168.1.11|22|192.168.1.11"},
    {"padding", "g-[08-10]", "|g-08|0|g-08 |g-09|0|g-09 |g-10|0|g-10"},
    {"list in brackets", "g[1,3-4]", "|g1|0|g1 |g3|0|g3 |g4|0|g4"},
    {"two brackets multiply", "r[1-2]n[1-2]",
     "|r1n1|0|r1n1 |r1n2|0|r1n2 |r2n1|0|r2n1 |r2n2|0|r2n2"},
    {"order is node id", "b, a", "|b|0|b |a|0|a"},
    {"ipv6", "[fe80::1]:2200", "|fe80::1|2200|fe80::1"},
    {"local", "local*2", "|LOCAL|0|local.0 |LOCAL|0|local.1"},
    {"local beside others", "a, local", "|a|0|a |LOCAL|0|local.1"},
    {"a host that starts with local", "localhost", "|localhost|0|localhost"},
    {"same address, other ports", "127.0.0.1:1, 127.0.0.1:2",
     "|127.0.0.1|1|127.0.0.1:1 |127.0.0.1|2|127.0.0.1:2"},
    {"ports in a range", "h:[21-22]", "|h|21|h:21 |h|22|h:22"},
    {"twice", "a, b, a",
     "E conf.ini:3: host a is given twice, as entries 1 and 3 of the list: remove one"},
    {"twice by a range", "g[1-3], g2",
     "E conf.ini:3: host g2 is given twice: by 'g[1-3]' (conf.ini:3) and by 'g2' (conf.ini:3)"},
    {"twice by the default port", "a:22, a",
     "E conf.ini:3: host a is given twice: by 'a:22' (conf.ini:3) and by 'a' (conf.ini:3)"},
    {"twice in other case", "GPU, gpu",
     "E conf.ini:3: host gpu is given twice: by 'GPU' (conf.ini:3) and by 'gpu' (conf.ini:3)"},
    {"blanks separate too", "a b,c\td\n", "|a|0|a |b|0|b |c|0|c |d|0|d"},
    {"ipv6 with a user", "root@[::1]", "root|::1|0|::1"},
    {"ipv6 range", "[fe80::[1-2]%eth0]:22",
     "|fe80::1%eth0|22|fe80::1%eth0 |fe80::2%eth0|22|fe80::2%eth0"},
    {"ipv6 without brackets", "fe80::1",
     "E conf.ini:3: write an IPv6 address in brackets: '[fe80::1]', not 'fe80::1'"},
    {"ipv6 open", "[fe80::1", "E conf.ini:3: ']' is missing in '[fe80::1'"},
    {"text behind a bracket", "[::1]x", "E conf.ini:3: not a host: '[::1]x'" NOT_A_HOST},
    {"a step", "g[01-16/5]", "|g01|0|g01 |g06|0|g06 |g11|0|g11 |g16|0|g16"},
    {"exclusion", "g[1-3], !g2", "|g1|0|g1 |g3|0|g3"},
    {"exclusion without a comma", "g[1-3]!g[1-2]", "|g3|0|g3"},
    {"exclusion by address only", "root@a:22, b, !a", "|b|0|b"},
    {"exclusion with a user", "root@a, me@a, !me@a", "root|a|0|a"},
    {"exclusion of a port", "a:1, a:2, !a:1", "|a|2|a"},
    {"what is not there", "g[1-3], !g4",
     "E conf.ini:3: !g4 removes g4, which is not in the list before it: write it behind its host"},
    {"part of it is not there", "g[1-3], !g[3-5]",
     "E conf.ini:3: !g[3-5] removes g4, which is not in the list before it: write it behind its "
     "host"},
    {"what comes later is not there yet", "!a, a",
     "E conf.ini:3: !a removes a, which is not in the list before it: write it behind its host"},
    {"nothing is left", "a !a", "E conf.ini:3: no host is left of 'a !a'"},
    {"added again after it was removed", "a b !a a", "|b|0|b |a|0|a"},
    {"lone mark", "a, !", "E conf.ini:3: '!' has no host behind it: write !host"},
    {"two marks", "a, !!a", "E conf.ini:3: not a host: '!a'" NOT_A_HOST},
    {"local cannot be removed", "local*2, !local",
     "E conf.ini:3: local cannot be removed; write local*N with fewer"},
    {"padding that differs", "g[8-010]",
     "E conf.ini:3: both ends of a padded range have the same number of digits, as in [01-12], not "
     "'g[8-010]'"},
    {"padding that differs, the other way", "g[01-100]",
     "E conf.ini:3: both ends of a padded range have the same number of digits, as in [01-12], not "
     "'g[01-100]'"},
    {"step 0", "g[1-3/0]", "E conf.ini:3: the step in 'g[1-3/0]' is 0"},
    {"five brackets", "a[1]b[1]c[1]d[1]e[1]",
     "E conf.ini:3: too many ranges in 'a[1]b[1]c[1]d[1]e[1]'"},
    {"no such group or file", "@nope",
     "E conf.ini:3: @nope is neither a group of [groups] nor a file (nope)"},
    {"empty name", "@", "E conf.ini:3: a group's or file's name is missing behind @"},
    {"a folder", "@/", "E conf.ini:3: @/: / is not a file"},
    {"local twice", "local, local",
     "E conf.ini:3: local is given twice; write local*N for N nodes here"},
    {"empty", "  ", "E conf.ini:3: no hosts"},
    {"empty place", "a,,b", "E conf.ini:3: the host list has an empty item"},
    {"comma at the end", "a,", "E conf.ini:3: the host list has an empty item"},
    {"backwards", "g[3-1]",
     "E conf.ini:3: the range in 'g[3-1]' runs backwards: write the smaller number first"},
    {"not a range", "g[a-b]",
     "E conf.ini:3: not a range in 'g[a-b]' (write [1-3,7], [01-12] or [0-30/10])"},
    {"open bracket", "g[1-3", "E conf.ini:3: ']' is missing in 'g[1-3'"},
    {"bracket too many", "g1]", "E conf.ini:3: 'g1]' has a ']' without '['"},
    {"huge range", "g[0-999999999]", "E conf.ini:3: more than 16384 hosts"},
    {"port 0", "a:0", "E conf.ini:3: port of a:0 is 1..65535, not '0': as in host:22"},
    {"port too large", "a:70000",
     "E conf.ini:3: port of a:70000 is 1..65535, not '70000': as in host:22"},
    {"an option in disguise", "-oProxyCommand=x",
     "E conf.ini:3: not a host: '-oProxyCommand=x'" NOT_A_HOST},
    {"shell characters", "a;reboot", "E conf.ini:3: not a host: 'a;reboot'" NOT_A_HOST},
    {"a group, not an empty user", "@a",
     "E conf.ini:3: @a is neither a group of [groups] nor a file (a)"},
    {"local*0", "local*0", "E conf.ini:3: write local*N with N from 1 to 16384, not 'local*0'"},
};

static void test_lists(void **state) {
    (void)state;
    char got[2000];
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        render(got, sizeof got, lists[i].text);
        if (strcmp(got, lists[i].want))
            fail_msg("%s: got '%s', want '%s'", lists[i].name, got, lists[i].want);
    }
}

static const struct {
    const char *name, *text;
    size_t n_nodes;
    const char *want;
} roles[] = {
    {"all", "all", 3, "0 1 2"},
    {"count", "2", 3, "0 1"},
    {"nodes", "nodes 0-1,3", 4, "0 1 3"},
    {"rank is the order written", "nodes 2,0", 3, "2 0"},
    {"zero", "0", 3, ""},
    {"none", "none", 3, ""},
    {"too many", "4", 3,
     "E conf.ini:4: trainers: 4 nodes wanted, the list has 3 hosts: add hosts, or write trainers = "
     "all"},
    {"no such node", "nodes 3", 3,
     "E conf.ini:4: trainers: there is no node 3, the 3 hosts are nodes 0 to 2"},
    {"too many for one", "2", 1,
     "E conf.ini:4: trainers: 2 nodes wanted, the list has 1 host: add hosts, or write trainers = "
     "all"},
    {"no such node beside one", "nodes 0-9", 1,
     "E conf.ini:4: trainers: there is no node 9, the only host is node 0"},
    {"twice", "nodes 0-1,1", 3, "E conf.ini:4: trainers: node 1 is given twice"},
    {"no nodes", "nodes", 3, "E conf.ini:4: trainers: no nodes"},
    {"word", "some", 3,
     "E conf.ini:4: trainers: write all, none, a number, or nodes 0-3,7, not 'some'"},
    {"nodes with a word", "nodes x", 3,
     "E conf.ini:4: trainers: write all, none, a number, or nodes 0-3,7"},
};

static void test_roles(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        char got[1100] = "";
        int *ids;
        size_t n;
        struct pd_err err = {0};
        if (hosts_parse_roles(&ids, &n, roles[i].text, roles[i].n_nodes, "trainers", "conf.ini:4",
                              &err)) {
            snprintf(got, sizeof got, "E %s", err.msg);
        } else {
            for (size_t k = 0; k < n; k++)
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", k ? " " : "", ids[k]);
            free(ids);
        }
        if (strcmp(got, roles[i].want))
            fail_msg("%s: got '%s', want '%s'", roles[i].name, got, roles[i].want);
    }
}

/* Every allocation fails in turn. Each run must fail without a leak (the sanitizer checks); the
 * last one succeeds. */
static void test_alloc_failures(void **state) {
    (void)state;
    for (int n = 1; n < 200; n++) {
        char spec[32];
        struct hosts h;
        struct pd_err err = {0};
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = hosts_parse(&h, "root@g[01-09]:22, local*3", "conf.ini:3", &err);
        pd_fault_arm(NULL);
        if (!rc) {
            assert_int_equal(h.n, 12);
            hosts_release(&h);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(rc, PD_ENOMEM);
    }
    fail_msg("never succeeded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_alloc_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
