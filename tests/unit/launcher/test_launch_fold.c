/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_fold.c - folds names into ranges. The expected texts are those of `nodeset -f`
 * (clustershell). If nodeset is installed, it is run, too, and its expansion of random folds must
 * give the names back. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/text/fold.h"
#include "launcher/text/fold_lines.h"
#include "tests/support/c/skip.h"

enum { NAMES_MAX = 64, TEXT_MAX = 4000 };

static const struct {
    const char *names, *want;
    int not_nodeset; /* 1: nodeset prints this case differently */
} rows[] = {
    {"", "", 1},
    {"a", "a", 0},
    {"a a1", "a,a1", 0},
    {"node3 node1 node2 node7", "node[1-3,7]", 0},
    {"gpu-01 gpu-02 gpu-03 gpu-04 node1", "gpu-[01-04],node1", 0},
    {"n1 n1 n2 n2 n2", "n[1-2]", 0},
    {"a9 a10 a11", "a[9-11]", 0},
    {"a09 a10", "a[09-10]", 0},
    {"a08 a99 a100", "a[08,99,100]", 0},
    {"a99 a100 a098", "a[99,098,100]", 0},
    {"x00 x0 x000", "x[0,00,000]", 0},
    {"node2.x.org node3.x.org node10.x.org", "node[2-3,10].x.org", 0},
    {"10.0.0.1 10.0.0.2 10.0.1.1 10.0.1.2", "10.0.[0-1].[1-2]", 0},
    {"10.0.0.1 10.0.0.2 10.0.1.1", "10.0.0.[1-2],10.0.1.1", 0},
    {"c1n1 c1n2 c2n1 c2n2 c3n1", "c[1-2]n[1-2],c3n1", 0},
    {"local local.2 local.3", "local,local.[2-3]", 0},
    {"root@h1 root@h2", "root@h[1-2]", 0},
    {"fe80::1 fe80::2", "fe80::1,fe80::2", 1},
    {"h1:22 h2:22 h2:23", "h[1-2]:22,h2:23", 1},
    {"a[1] a[2]", "a[1],a[2]", 1},
    {"n123456789012345678901 n123456789012345678902",
     "n123456789012345678901,n123456789012345678902", 1},
    {"1.2.3.4.5.6.7.8.9 1.2.3.4.5.6.7.8.10", "1.2.3.4.5.6.7.8.10,1.2.3.4.5.6.7.8.9", 1},
};

static size_t words(char *text, const char **out) {
    size_t n = 0;
    char *save = NULL;
    for (char *p = strtok_r(text, " \n", &save); p && n < NAMES_MAX;
         p = strtok_r(NULL, " \n", &save))
        out[n++] = p;
    return n;
}

/* Equal lines about several hosts are one line. */
static void add_line(void *arg, const char *before, const char *who, const char *text, size_t n) {
    FILE *f = arg;
    fprintf(f, "%zu %s%s%s\n", n, before, who, text);
}

static const struct {
    const char *name;
    struct fold_line v[6];
    const char *want;
} lines[] = {
    {"none", {{0}}, ""},
    {"equal and different",
     {{.name = "n1", .text = ": a"},
      {.name = "n2", .text = ": b"},
      {.name = "n3", .text = ": a"},
      {.name = "n4"},
      {.before = "warning: ", .name = "n5", .text = ": a"}},
     "2 n[1,3]: a\n1 n2: b\n1 warning: n5: a\n"},
    {"the number of a single host",
     {{.name = "n1", .more = " (node 4)", .text = " is lost"},
      {.name = "n2", .more = " (node 5)", .text = " is lost"},
      {.name = "n3", .more = " (node 6)", .text = " is gone"}},
     "2 n[1-2] is lost\n1 n3 (node 6) is gone\n"},
    {"texts with the host's own name",
     {{.name = "n1", .text = ": no n1.key for n1"},
      {.name = "n10", .text = ": no n10.key for n10"},
      {.name = "n2", .text = ": no n1.key for n2"}},
     "2 n[1,10]: no n[1,10].key for n[1,10]\n1 n2: no n1.key for n2\n"},
    {"an equal text, and one that differs by the host's name",
     {{.name = "n1", .text = ": x n1"},
      {.name = "n2", .text = ": x n1"},
      {.name = "n3", .text = ": x n3"},
      {.name = "n4", .text = ": x n1"},
      {.name = "n5", .text = ": y n1"}},
     "4 n[1-4]: x n1\n1 n5: y n1\n"},
    {"a name within a word",
     {{.name = "a", .text = ": a cat"}, {.name = "b", .text = ": a cat"}},
     "2 a,b: a cat\n"},
};

static void test_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char *text;
        size_t size, n = 0;
        FILE *f = open_memstream(&text, &size);
        while (n < 6 && lines[i].v[n].name)
            n++;
        fold_lines(lines[i].v, n, add_line, f);
        fclose(f);
        if (strcmp(text, lines[i].want))
            fail_msg("%s:\n%s--- not\n%s", lines[i].name, text, lines[i].want);
        free(text);
    }
}

static int have_nodeset(void) { return system("command -v nodeset >/dev/null 2>&1") == 0; }

/* The output of `nodeset OPTION names`. The names come from a file, so that no shell interprets
 * them. */
static void nodeset(const char *option, const char *names, char *out) {
    char path[] = "/tmp/test-fold-XXXXXX", command[100];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, names, strlen(names)) == (ssize_t)strlen(names) &&
                write(fd, "\n", 1) == 1);
    close(fd);
    snprintf(command, sizeof command, "nodeset %s <%s", option, path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(out, 1, TEXT_MAX - 1, p);
    while (n && out[n - 1] == '\n')
        n--;
    out[n] = 0;
    assert_int_equal(pclose(p), 0);
    unlink(path);
}

static void test_rows(void **state) {
    (void)state;
    int ask = have_nodeset();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[400], said[TEXT_MAX];
        const char *names[NAMES_MAX];
        snprintf(text, sizeof text, "%s", rows[i].names);
        size_t n = words(text, names);
        char *got = fold_hosts(names, n);
        assert_non_null(got);
        if (strcmp(got, rows[i].want))
            fail_msg("%s: '%s', not '%s'", rows[i].names, got, rows[i].want);
        if (ask && !rows[i].not_nodeset) {
            nodeset("-f", rows[i].names, said);
            if (strcmp(got, said))
                fail_msg("%s: '%s', nodeset says '%s'", rows[i].names, got, said);
        }
        free(got);
    }
}

static int cmp(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names, removes repetitions, and separates them by blanks. */
static void canonical(char *text, char *out) {
    const char *v[NAMES_MAX];
    size_t n = words(text, v);
    qsort(v, n, sizeof *v, cmp);
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(v[i], v[i - 1]))
            snprintf(out + strlen(out), TEXT_MAX - strlen(out), "%s ", v[i]);
}

static void test_random(void **state) {
    (void)state;
    if (!have_nodeset())
        SKIP("no nodeset here (package clustershell)");
    uint64_t seed = 20;
    for (int round = 0; round < 12; round++) {
        char names[NAMES_MAX][24], all[TEXT_MAX] = "", back[TEXT_MAX], a[TEXT_MAX], b[TEXT_MAX];
        const char *v[NAMES_MAX];
        size_t n = 1 + (size_t)round * 4;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned r = (unsigned)(seed >> 33);
            if (r & 1)
                snprintf(names[i], sizeof names[i], "n%0*u", (int)(r >> 1 & 3), r >> 8 & 15);
            else
                snprintf(names[i], sizeof names[i], "r%ux%0*u", r >> 3 & 3, (int)(r >> 1 & 1) * 2,
                         r >> 8 & 3);
            v[i] = names[i];
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", names[i]);
        }
        char *got = fold_hosts(v, n);
        assert_non_null(got);
        nodeset("-e", got, back);
        canonical(all, a);
        canonical(back, b);
        if (strcmp(a, b))
            fail_msg("'%s' folded is %s, which is '%s'", a, got, b);
        free(got);
    }
}

/* Sizes of real clusters: no step may be quadratic in them. */
static void test_many(void **state) {
    (void)state;
    enum { N = 16384 };
    char(*names)[16] = malloc(N * sizeof *names);
    const char **v = malloc(N * sizeof *v);
    for (unsigned i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "10.1.%u.%u", i / 256 * 2, (i * 7 + 3) % 256);
        v[i] = names[i];
    }
    char *got = fold_hosts(v, N);
    assert_non_null(got);
    assert_int_equal(strncmp(got, "10.1.[0,2,4,6,", 14), 0);
    assert_non_null(strstr(got, "126].[0-255]"));
    free(got);
    free(v);
    free(names);
}

struct passed {
    size_t n_lines, n_hosts;
};

static void count_line(void *arg, const char *before, const char *who, const char *text, size_t n) {
    struct passed *p = arg;
    (void)before;
    (void)who;
    (void)text;
    p->n_lines++;
    p->n_hosts += n;
}

/* Long lines that differ only at their ends, so that a comparison of each with each would exceed
 * this test's limit of time: 12 million pairs of 8,000 bytes. */
static void test_many_lines(void **state) {
    (void)state;
    enum { N = 5000, LENGTH = 8000, SIZE = LENGTH + 32 };
    char *texts = malloc((size_t)N * SIZE), names[N][16];
    struct fold_line *v = calloc(N, sizeof *v);
    assert_true(texts && v);
    memset(texts, 'x', (size_t)N * SIZE);
    for (int k = 0; k < 3; k++) { /* other ends, other ends with the host's name, equal ends */
        struct passed p = {0, 0};
        for (unsigned i = 0; i < N; i++) {
            char *text = texts + (size_t)i * SIZE;
            snprintf(names[i], sizeof names[i], "n%u", i);
            if (k == 0)
                snprintf(text + LENGTH, SIZE - LENGTH, " %u", i);
            else if (k == 1)
                snprintf(text + LENGTH, SIZE - LENGTH, " n%u is %u", i, i * 7);
            else
                snprintf(text + LENGTH, SIZE - LENGTH, " n%u is lost", i);
            v[i] = (struct fold_line){.name = names[i], .text = text};
        }
        fold_lines(v, N, count_line, &p);
        assert_int_equal(p.n_lines, k == 2 ? 1 : N);
        assert_int_equal(p.n_hosts, N);
    }
    free(v);
    free(texts);
}

static void test_no_memory(void **state) {
    (void)state;
    static const char *const names[] = {"c1n1", "c1n2", "c2n1", "c2n2"};
    for (int i = 1; i < 40; i++) {
        char arm[20];
        snprintf(arm, sizeof arm, "alloc:%d", i);
        pd_fault_arm(arm);
        char *got = fold_hosts(names, 4);
        pd_fault_arm(NULL);
        if (got) {
            assert_string_equal(got, "c[1-2]n[1-2]");
            assert_true(i > 5);
            free(got);
            return;
        }
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_lines),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_many_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
