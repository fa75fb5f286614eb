/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_expand.c - host expressions compared with clustershell, groups, files, and the effect
 * of [host ...] sections. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/hosts/hosts.h"
#include "tests/support/c/skip.h"

static char dir[] = "/tmp/test-expand-XXXXXX";

static void write_file(const char *name, const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), 0600, NULL), 0);
}

/* --- against clustershell --- */

static const char *const table[] = {
    "node",
    "node1,node2",
    "node[1-3]",
    "node[01-16/2]",
    "node[001-016]",
    "node[9-11]",
    "node[1,3,5-7]",
    "node[1,01,001]",
    "node[08-12/2,20]",
    "r[1-2]n[1-2]",
    "r[1-2]n[01-03/2]x",
    "n[0-10/3]",
    "n[00-10/5]",
    "n[5-5]",
    "n[1-3/9]",
    "n[ 1 , 3 ]",
    "a.b-c[1-2].example.org",
    "10.0.[0-1].[1-2]",
    "n[1-9]!n[3-5]",
    "n[1-9]!n[1-9/2]",
    "a1,b[1-2]!b2,c",
    "r[1-3]n[1-3]!r[2]n[1-3]",
    "n[10-1]",
    "n[1-010]",
    "n[01-100]",
    "n[1-9/0]",
    "n[a-b]",
    "n[1-3",
    "n[]",
};

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The hosts of `text`, sorted and separated by blanks; "error" if the expression is refused. */
static char *ours(const char *text) {
    struct hosts h;
    struct pd_buf b;
    pd_buf_init(&b);
    if (hosts_parse(&h, text, "x:1", NULL)) {
        pd_put_fmt(&b, "error");
    } else {
        char **names = calloc(h.n, sizeof *names);
        for (size_t i = 0; i < h.n; i++)
            names[i] = h.v[i].spec;
        qsort(names, h.n, sizeof *names, by_text);
        for (size_t i = 0; i < h.n; i++)
            pd_put_fmt(&b, "%s%s", i ? " " : "", names[i]);
        free(names);
        hosts_release(&h);
    }
    pd_put_u8(&b, 0);
    return (char *)b.data;
}

/* Passes the lines of dir/in to `command`, which prints one expansion or "error" per line, and
 * compares. */
static void compare(char *const *exprs, size_t n, const char *command) {
    char line[65536], shell[400];
    snprintf(shell, sizeof shell, "cd %s && %s", dir, command);
    FILE *f = popen(shell, "r");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        if (!fgets(line, sizeof line, f))
            fail_msg("clustershell said nothing of '%s'", exprs[i]);
        line[strcspn(line, "\n")] = 0;
        char *got = ours(exprs[i]);
        if (strcmp(got, line))
            fail_msg("'%s': got '%s', clustershell says '%s'", exprs[i], got, line);
        free(got);
    }
    assert_int_equal(pclose(f), 0);
}

static void as_nodeset_does(void **state) {
    (void)state;
    if (system("nodeset --version >/dev/null 2>&1"))
        SKIP("no nodeset here (package clustershell)");
    struct pd_buf in;
    pd_buf_init(&in);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        pd_put_fmt(&in, "%s\n", table[i]);
    pd_put_u8(&in, 0);
    write_file("in", (char *)in.data);
    pd_buf_release(&in);
    compare((char **)(uintptr_t)table, sizeof table / sizeof table[0],
            "while IFS= read -r e; do nodeset -e -S '\\n' \"$e\" >out 2>/dev/null && LC_ALL=C sort "
            "out | paste -sd ' ' || echo error; done <in");
}

static unsigned below(unsigned *seed, unsigned n) { return (unsigned)rand_r(seed) % n; }

/* Writes one bracket with numbers below 1000. */
static void range(unsigned *seed, char *out, size_t cap) {
    unsigned n = 1 + below(seed, 3), lo = below(seed, 20), width = below(seed, 3) ? 1 : 3;
    snprintf(out, cap, "[");
    for (unsigned i = 0; i < n; i++) { /* ascending, so that no number comes twice */
        unsigned hi = lo + below(seed, 12), step = 1 + below(seed, 4);
        size_t k = strlen(out);
        switch (below(seed, 3)) {
        case 0:
            snprintf(out + k, cap - k, "%s%0*u", i ? "," : "", width, lo);
            hi = lo;
            break;
        case 1:
            snprintf(out + k, cap - k, "%s%0*u-%0*u", i ? "," : "", width, lo, width, hi);
            break;
        case 2:
            snprintf(out + k, cap - k, "%s%0*u-%0*u/%u", i ? "," : "", width, lo, width, hi, step);
            break;
        }
        lo = hi + 1 + below(seed, 5);
    }
    snprintf(out + strlen(out), cap - strlen(out), "]");
}

/* Random items, each with different letters. Some are followed by an exclusion of the whole item or
 * of one host. `theirs` has no comma before an exclusion, because clustershell does not accept it.
 */
static void generate(unsigned *seed, char *out, char *theirs, size_t cap) {
    unsigned n = 1 + below(seed, 4);
    *out = *theirs = 0;
    for (unsigned i = 0; i < n; i++) {
        char a[200], b[200] = "", item[500], gone[500] = "";
        range(seed, a, sizeof a);
        if (!below(seed, 3))
            range(seed, b, sizeof b);
        snprintf(item, sizeof item, "%c-%s%s%s%s", 'a' + i, a, *b ? "x" : "", b,
                 below(seed, 2) ? "" : ".dom");
        if ((i || n > 1) && !below(seed, 3)) { /* the first number of each bracket exists */
            for (char *s = item, *g = gone; *s;) {
                if (*s != '[') {
                    *g++ = *s++;
                    continue;
                }
                for (s++; *s >= '0' && *s <= '9';)
                    *g++ = *s++;
                s = strchr(s, ']') + 1;
                *g = 0;
            }
        }
        size_t k = strlen(out), t = strlen(theirs);
        snprintf(out + k, cap - k, "%s%s%s%s", i ? (below(seed, 2) ? ", " : " ") : "", item,
                 *gone ? ", !" : "", gone);
        snprintf(theirs + t, cap - t, "%s%s%s%s", i ? "," : "", item, *gone ? "!" : "", gone);
    }
}

static void as_clustershell_does_on_random_ones(void **state) {
    (void)state;
    enum { N = 400 };
    static char *exprs[N];
    const char *given = getenv("TEST_SEED");
    unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL),
             seed = first, n = 0;
    if (system("/usr/bin/python3 -c 'import ClusterShell' 2>/dev/null"))
        SKIP("no clustershell here");
    print_message("seed %u (TEST_SEED=%u repeats it)\n", first, first);
    struct pd_buf in;
    pd_buf_init(&in);
    while (n < N) {
        char a[3000], b[3000];
        generate(&seed, a, b, sizeof a);
        char *got = ours(a);
        int empty =
            !strcmp(got, "error"); /* our expressions refuse an exclusion that leaves no host */
        free(got);
        if (empty && strchr(a, '!'))
            continue;
        exprs[n++] = strdup(a);
        pd_put_fmt(&in, "%s\n", b);
    }
    pd_put_u8(&in, 0);
    write_file("in", (char *)in.data);
    pd_buf_release(&in);
    compare(exprs, N,
            "/usr/bin/python3 -c 'from ClusterShell.NodeSet import NodeSet\n"
            "for e in open(\"in\"): print(\" \".join(sorted(NodeSet(e.strip()))))'");
    for (n = 0; n < N; n++)
        free(exprs[n]);
}

/* --- groups, files, sections --- */

/* Prints "[user@]address[:port]/root_dir{env}" per node, or "E message" without the scratch
 * folder's name. */
static void render(char *out, size_t cap, const char *conf, const char *argv_hosts) {
    struct pd_options o;
    struct hosts h;
    struct pd_err err = {0};
    char path[100], *at;
    write_file("conf.ini", conf);
    snprintf(path, sizeof path, "%s/conf.ini", dir);
    assert_int_equal(pd_options_init(&o, NULL), 0);
    int rc = argv_hosts ? pd_options_set(&o, PD_LAUNCHER, "cluster", "hosts", argv_hosts,
                                         PD_FROM_ARGV, "--hosts", NULL, &err)
                        : 0;
    if (!rc)
        rc = pd_options_read_conf(&o, path, &err);
    if (!rc)
        rc = hosts_load(&h, &o, &err);
    out[0] = 0;
    if (rc) {
        snprintf(out, cap, "E %s", err.msg);
        while ((at = strstr(out, dir)))
            memmove(at, at + strlen(dir) + 1, strlen(at + strlen(dir) + 1) + 1);
    } else {
        for (size_t i = 0; i < h.n; i++) {
            const struct host *v = &h.v[i];
            size_t k = strlen(out);
            snprintf(out + k, cap - k, "%s%s%s%s", i ? " " : "", v->user ? v->user : "",
                     v->user ? "@" : "",
                     v->local     ? "LOCAL"
                     : v->address ? v->address
                                  : v->addr);
            k = strlen(out);
            if (v->port)
                snprintf(out + k, cap - k, ":%d", v->port);
            k = strlen(out);
            if (strcmp(v->root_dir, "~/paddle"))
                snprintf(out + k, cap - k, "/%s", v->root_dir);
            for (size_t e = 0; e < v->n_env; e++) {
                k = strlen(out);
                snprintf(out + k, cap - k, "{%s=%s}", v->env[e]->name, v->env[e]->value);
            }
        }
        hosts_release(&h);
    }
    pd_options_release(&o);
}

static const struct {
    const char *name, *conf, *want, *hosts;
} rows[] = {
    {"a group", "[cluster]\nhosts = x, @web\n[groups]\nweb = w[1-2]\n", "x w1 w2", NULL},
    {"groups of groups, and what they leave out",
     "[cluster]\nhosts = @all !@db\n[groups]\nall = @web @db\nweb = w[1-3] !w2\ndb = d1\n", "w1 w3",
     NULL},
    {"a range of groups", "[cluster]\nhosts = @r[1-2]\n[groups]\nr1 = a\nr2 = b\n", "a b", NULL},
    {"a group has its user and port", "[cluster]\nhosts = @a\n[groups]\na = me@h[1-2]:2200\n",
     "me@h1:2200 me@h2:2200", NULL},
    {"a file, relative to conf.ini", "[cluster]\nhosts = @list\n", "f1 f2 f3 sub1", NULL},
    {"a group wins over a file", "[cluster]\nhosts = @list\n[groups]\nlist = g\n", "g", NULL},
    {"a long list", "[cluster]\nhosts = a,\n   b,\n   c[1-2]\n     d\n", "a b c1 c2 d", NULL},
    {"a loop of groups", "[cluster]\nhosts = @a\n[groups]\na = @b\nb = x, @a\n",
     "E conf.ini:5: @a leads back to itself: @a -> @b -> @a", NULL},
    {"a group of itself", "[cluster]\nhosts = @a\n[groups]\na = @a\n",
     "E conf.ini:4: @a leads back to itself: @a -> @a", NULL},
    {"a loop of files", "[cluster]\nhosts = @loop1\n",
     "E loop2:2: @loop1 leads back to itself: @loop1 -> @loop2 -> @loop1", NULL},
    {"a file that is a mistake", "[cluster]\nhosts = @bad\n",
     "E bad:3: the range in 'x[3-1]' runs backwards: write the smaller number first", NULL},
    {"a file with no host", "[cluster]\nhosts = @none\n",
     "E conf.ini:2: @none: none lists no hosts", NULL},
    {"neither group nor file", "[cluster]\nhosts = @wbe\n[groups]\nweb = w\n",
     "E conf.ini:2: @wbe is neither a group of [groups] nor a file (wbe); did you mean @web?",
     NULL},
    {"an empty group", "[cluster]\nhosts = @a\n[groups]\na =\n",
     "E conf.ini:4: group a has no hosts", NULL},
    {"a mistake in a group", "[cluster]\nhosts = @a\n[groups]\na = x:0\n",
     "E conf.ini:4: port of x:0 is 1..65535, not '0': as in host:22", NULL},
    {"twice, by a group and a file", "[cluster]\nhosts = @a, @list\n[groups]\na = f[2-3]\n",
     "E conf.ini:2: host f2 is given twice: by 'f[2-3]' (conf.ini:4) and by 'f[1-3]' (list:2)",
     NULL},
    {"a host's section",
     "[cluster]\nhosts = n[1-3]\n[host n2]\nuser = u\nport = 7\naddress = 10.0.0.9\nroot_dir = "
     "/d/%n\nenv.A = 1\n",
     "n1 u@10.0.0.9:7//d/%n{A=1} n3", NULL},
    {"later sections win, key by key",
     "[cluster]\nhosts = n[1-3]\n[host n*]\nuser = u\nport = 7\nenv.A = 1\nenv.B = 2\n[host "
     "n[2-3]]\nport = 8\nenv.A = 3\n",
     "u@n1:7{A=1}{B=2} u@n2:8{A=3}{B=2} u@n3:8{A=3}{B=2}", NULL},
    {"a section wins over the list of conf.ini",
     "[cluster]\nhosts = root@n[1-2]:22\n[host n2]\nuser = u\nport = 7\n", "root@n1:22 u@n2:7",
     NULL},
    {"the command line wins over a section",
     "[cluster]\nhosts = n[1-2]\n[host n2]\nuser = u\nport = 7\n", "me@n2:7", "me@n2"},
    {"sections for hosts that the command line left out",
     "[cluster]\nhosts = n[1-2]\n[host n2]\nuser = u\n", "n1", "n1"},
    {"by entry", "[cluster]\nhosts = h:1, h:2\n[host h:2]\nuser = u\n", "h:1 u@h:2", NULL},
    {"by address, both", "[cluster]\nhosts = h:1, h:2\n[host H]\nuser = u\n", "u@h:1 u@h:2", NULL},
    {"ipv6", "[cluster]\nhosts = [fe80::1]:5, [fe80::2]\n[host [fe80::1]]\nuser = u\n",
     "u@fe80::1:5 fe80::2", NULL},
    {"by group", "[cluster]\nhosts = a, b\n[groups]\ng = b\n[host @g]\nuser = u\n", "a u@b", NULL},
    {"glob over addresses",
     "[cluster]\nhosts = 10.0.0.[1-2], 10.0.1.1\n[host 10.0.0.*]\nport = 5\n",
     "10.0.0.1:5 10.0.0.2:5 10.0.1.1", NULL},
    {"a local node", "[cluster]\nhosts = local*2\n[host local.1]\nroot_dir = /x\nenv.A = 1\n",
     "LOCAL LOCAL//x{A=1}", NULL},
    {"ssh's keys for a local node", "[cluster]\nhosts = local\n[host local]\nport = 5\n",
     "E conf.ini:4: port means nothing for local.0, which is reached without ssh", NULL},
    {"no such host", "[cluster]\nhosts = a\n\n[host b[1-2]]\nuser = u\n",
     "E conf.ini:4: [host b[1-2]]: there is no such host in the list of conf.ini:2", NULL},
    {"no such host, an empty section", "[cluster]\nhosts = a\n[host b*]\n",
     "E conf.ini:3: [host b*]: there is no such host in the list of conf.ini:2", NULL},
    {"a pattern that is a mistake", "[cluster]\nhosts = a\n[host a[3-1]]\n",
     "E conf.ini:3: the range in 'a[3-1]' runs backwards: write the smaller number first", NULL},
};

static void groups_files_and_sections(void **state) {
    (void)state;
    char got[3000], sub[100];
    snprintf(sub, sizeof sub, "%s/sub", dir);
    mkdir(sub, 0700);
    write_file("list", "# hosts\nf[1-3]  # three\n\n@sub/more\n");
    write_file("sub/more", "@here\n");
    write_file("sub/here", "sub1\r\n");
    write_file("loop1", "a\n@loop2\n");
    write_file("loop2", "b\n@loop1\n");
    write_file("bad", "a\n\nx[3-1]\n");
    write_file("none", "# nothing\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        render(got, sizeof got, rows[i].conf, rows[i].hosts);
        if (strcmp(got, rows[i].want))
            fail_msg("%s: got '%s', want '%s'", rows[i].name, got, rows[i].want);
    }
}

/* Sixteen groups, each with two references to the next, would be 65536 hosts. They must be refused
 * quickly. */
static void references_are_bounded(void **state) {
    (void)state;
    struct pd_buf b;
    char got[2000];
    pd_buf_init(&b);
    pd_put_fmt(&b, "[cluster]\nhosts = @g0\n[groups]\n");
    for (int i = 0; i < 40; i++)
        pd_put_fmt(&b, "g%d = @g%d @g%d\n", i, i + 1, i + 1);
    pd_put_fmt(&b, "g40 = x\n");
    pd_put_u8(&b, 0);
    render(got, sizeof got, (char *)b.data, NULL);
    if (!strstr(got, "refer to each other too often or too deep"))
        fail_msg("%s", got);
    pd_buf_clear(&b);
    pd_put_fmt(&b, "[cluster]\nhosts = @g0\n[groups]\n");
    for (int i = 0; i < 14; i++)
        pd_put_fmt(&b, "g%d = @g%d @g%d\n", i, i + 1, i + 1);
    pd_put_fmt(&b, "g14 = x[1-2]\n");
    pd_put_u8(&b, 0);
    render(got, sizeof got, (char *)b.data, NULL);
    if (!strstr(got, "more than 16384 hosts") && !strstr(got, "too often"))
        fail_msg("%s", got);
    pd_buf_release(&b);
}

/* Every input is expanded or refused with a message, under the sanitizers. An expanded host can be
 * split again. */
static void garbage_is_refused_or_right(void **state) {
    (void)state;
    static const char letters[] = "ab1209[[]],,-/!@: *?.local\t%[1-3]";
    const char *given = getenv("TEST_SEED");
    unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL),
             seed = first;
    print_message("seed %u\n", first);
    for (int i = 0; i < 20000; i++) {
        char text[40];
        size_t n = below(&seed, sizeof text - 1);
        for (size_t k = 0; k < n; k++)
            text[k] = letters[below(&seed, sizeof letters - 1)];
        text[n] = 0;
        for (int globs = 0; globs < 2; globs++) {
            struct expanded x;
            struct pd_err err = {0};
            if (expand_hosts(&x, text, "x:1", NULL, dir, globs, &err)) {
                if (!pd_starts_with(err.msg, "x:1: "))
                    fail_msg("'%s': '%s'", text, err.msg);
                continue;
            }
            for (size_t k = 0; k < x.n; k++) {
                struct host_parts p;
                if (host_split(x.v[k].text, &p, globs, "x:1", &err))
                    fail_msg("'%s' gives '%s': %s", text, x.v[k].text, err.msg);
            }
            expanded_release(&x);
        }
    }
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    char path[100];
    write_file("list", "f[1-3]\n");
    write_file("conf.ini", "[cluster]\nhosts = a[1-3], @list, @g !a1\n[groups]\ng = z\n[host "
                           "a*]\nuser = u\nenv.A = 1\n[host a[2-3]]\nuser = v\n");
    snprintf(path, sizeof path, "%s/conf.ini", dir);
    for (int k = 1; k < 400; k++) {
        struct pd_options o;
        struct hosts h;
        char spec[32];
        assert_int_equal(pd_options_init(&o, NULL), 0);
        assert_int_equal(pd_options_read_conf(&o, path, NULL), 0);
        snprintf(spec, sizeof spec, "alloc:%d", k);
        pd_fault_arm(spec);
        int rc = hosts_load(&h, &o, NULL);
        pd_fault_arm(NULL);
        if (!rc) {
            assert_int_equal(h.n, 6);
            hosts_release(&h);
        }
        pd_options_release(&o);
        if (!rc) {
            assert_true(k > 20);
            return;
        }
    }
    fail_msg("never succeeded");
}

int main(void) {
    assert_non_null(mkdtemp(dir));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_nodeset_does),
        cmocka_unit_test(as_clustershell_does_on_random_ones),
        cmocka_unit_test(groups_files_and_sections),
        cmocka_unit_test(references_are_bounded),
        cmocka_unit_test(garbage_is_refused_or_right),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    int rc = cmocka_run_group_tests_name("expand", tests, NULL, NULL);
    pd_rm_tree(dir, NULL);
    return rc;
}
