/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_split.c - separately sent data files. A pattern matches names of a list like glob
 * matches files on disk. Also tests which files are sent separately and to which trainer, the parts
 * of a package and their manifests, and a file that only the package has. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/hash.h"
#include "launcher/dispatch/split.h"
#include "tests/support/c/append.h"

static char dir[64];

static int setup(void **state) {
    (void)state;
    pd_fmt(dir, sizeof dir, "/tmp/split-test-XXXXXX");
    return !mkdtemp(dir) || chdir(dir);
}

static int teardown(void **state) {
    (void)state;
    return chdir("/") || pd_rm_tree(dir, NULL);
}

static void put(const char *path, const char *text) {
    char folder[300];
    struct pd_err err = {0};
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) {
        *slash = 0;
        assert_int_equal(pd_mkdirs(folder, 0755, NULL), 0);
    }
    if (pd_write_file_atomic(path, text, strlen(text), 0644, &err))
        fail_msg("%s", err.msg);
}

static uint64_t seed;
static unsigned draw(unsigned n) { return (unsigned)(pd_mix64(++seed) % n); }

enum { TEXT_MAX = 200 };

static void draw_text(char *out, const char *const *words, unsigned n_words, unsigned most) {
    *out = 0;
    for (unsigned n = 1 + draw(most); n; n--)
        append(out, TEXT_MAX, words[draw(n_words)]);
}

/* Every pattern over all names: the list gives the same files as glob on disk. */
static void patterns_match_as_on_disk(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", ".", "-", "x/", "y/", "é", "\n"};
    static const char *const patterns[] = {"a",  "b",  "*", "?", "[ab]", "[!a]",
                                           "x/", "./", "/", ".", "*/",   "\\a"};
    struct pd_buf list;
    char text[TEXT_MAX];
    int n_found = 0;
    pd_buf_init(&list);
    for (int i = 0; i < 150; i++) {
        struct stat st;
        draw_text(text, names, 8, 6);
        if (text[strlen(text) - 1] == '/' || strstr(text, "./") || !strcmp(text, ".") ||
            !strcmp(text, "..") || strstr(text, "/..") ||
            (strlen(text) > 1 && !strcmp(text + strlen(text) - 2, "/.")) || !stat(text, &st))
            continue;
        char top[200];
        snprintf(top, sizeof top, "%.*s", (int)strcspn(text, "/"), text);
        if (!stat(top, &st) && strchr(text, '/') && !S_ISDIR(st.st_mode))
            continue;
        char *slash = strrchr(text, '/');
        if (slash) {
            *slash = 0;
            int bad = pd_mkdirs(text, 0755, NULL);
            *slash = '/';
            if (bad)
                continue;
        }
        put(text, "x");
        pd_put(&list, text, strlen(text) + 1);
    }
    for (int i = 0; i < 3000; i++) {
        struct data_files a = {0}, b = {0};
        draw_text(text, patterns, 12, 5);
        if (*text == '/' || strstr(text, ".."))
            continue;
        int ra = data_files_expand(&a, ".", text, NULL),
            rb = data_files_expand_list(&b, (char *)list.data, list.len, text, NULL);
        if (ra != PD_EIO &&
            !(ra == rb && a.n == b.n)) /* EIO: a file where the pattern has a folder */
            fail_msg("pattern '%s': %d, %zu on disk; %d, %zu of the list", text, ra, a.n, rb, b.n);
        n_found += a.n > 0;
        for (size_t k = 0; k < a.n && k < b.n; k++)
            assert_true(strlen(a.path[k]) >=
                        strlen(b.path[k])); /* "./a" on disk, "a" in the list */
        data_files_release(&a);
        data_files_release(&b);
    }
    assert_true(n_found > 300);
    assert_false(data_files_match("/a", "a", 0));
    assert_false(data_files_inside("x/* ../a"));
    assert_false(data_files_inside("/x"));
    assert_true(data_files_inside("x/*, ./y"));
    assert_true(data_files_match("a/*/c", "a/b", 1) && data_files_match("a/*/c", "a", 1) &&
                !data_files_match("a/*/c", "a/b/c", 1));
    pd_buf_release(&list);
}

struct pair {
    struct split s;
    struct scan *scan;
    struct pd_options o;
};

static int on_listed(void *arg, struct scan *scan, struct pd_err *err) {
    struct pair *p = arg;
    int rc = split_find(&p->s, scan, &p->o, err);
    return rc || !p->s.apart.n ? rc
                               : scan_add_file(scan, DATA_LIST, p->s.list.data, p->s.list.len, err);
}

static void open_pair(struct pair *p, const char *where) {
    struct pd_err err = {0};
    split_init(&p->s);
    assert_int_equal(pd_options_init(&p->o, NULL), 0);
    assert_int_equal(scan_new(&p->scan, where, 0, &err), 0);
    scan_on_listed(p->scan, on_listed, p);
    if (scan_run(p->scan, &err))
        fail_msg("%s", err.msg);
}

static void close_pair(struct pair *p) {
    scan_free(p->scan);
    split_release(&p->s);
    pd_options_release(&p->o);
}

static int pick_of_rank(void *arg, size_t item) {
    struct pair *p = ((void **)arg)[0];
    int rank = *(int *)((void **)arg)[1], r[2];
    struct scan_item it;
    scan_item(p->scan, item, &it);
    if (it.type != MANIFEST_FILE || !split_is_apart(&p->s, it.path))
        return 0;
    split_readers(&p->s, it.path, 3, r);
    return r[0] == rank || r[1] == rank;
}

static void files_go_to_the_trainers_of_their_streams(void **state) {
    (void)state;
    struct pair p;
    char name[40];
    assert_int_equal(mkdir("ws", 0755), 0);
    assert_int_equal(chdir("ws"), 0);
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "d/p%02d", i);
        put(name, name);
    }
    put("t/one", "1"), put("t/two", "2"), put("t/three", "3"), put("other/file", "x");
    put("d/p03", "a file that train.ini also names otherwise");
    put("train.ini", "[data]\ntrain = d/* train.ini\ntest = t/*\nvocabulary_file = "
                     "d/p03\n[train]\nn_streams = 5\n");
    for (int archive = 0; archive < 2; archive++) {
        if (archive)
            assert_int_equal(system("tar --format=pax -cf ../ws.tar ."), 0);
        open_pair(&p, archive ? "../ws.tar" : ".");
        assert_int_equal(p.s.train.n, 12);
        assert_int_equal(p.s.apart.n, 10 + 3); /* not p03, not train.ini */
        assert_int_equal(p.s.n_streams, 5);
        assert_int_equal(p.s.list.len, 11 * 6 + strlen("t/one.t/three.t/two.train.ini."));
        for (size_t i = 0; i < p.s.train.n; i++) { /* the owner of stream i mod 5; three trainers
                                                      own the five streams: 0 | 1 2 | 3 4 */
            static const int owner[] = {0, 1, 1, 2, 2};
            int r[2];
            split_readers(&p.s, p.s.train.path[i], 3, r);
            assert_int_equal(r[0], owner[i % 5]);
            assert_int_equal(r[1], -1);
        }
        uint64_t n_files = 0;
        for (int rank = 0; rank < 3; rank++) {
            void *arg[] = {&p, &rank};
            struct scan_root root;
            struct pd_err err = {0};
            if (scan_pick(p.scan, pick_of_rank, arg, &root, &err))
                fail_msg("%s", err.msg);
            struct manifest_node node;
            assert_int_equal(manifest_read_root(&node, root.raw, root.n, &err), 0);
            assert_int_equal(node.n_entries, root.entries);
            n_files += root.entries -
                       (rank == 2 ? 1 : 2); /* without the folders d and t: it has no file of t */
            assert_true(scan_find(p.scan, &node.child[0].id) >= 0); /* the object can be sent */
        }
        assert_int_equal(n_files, 13);
        close_pair(&p);
    }
}

/* Cases in which a node would list other files than the package's entries. */
static void nothing_is_split_where_it_can_not_be_known(void **state) {
    (void)state;
    static const char *const inis[] = {"[data]\ntrain = d/* /elsewhere/x\n",
                                       "[data]\ntrain = ../x\n",
                                       "[data]\ntrain = l/*\n",
                                       "[data]\ntrain = d/*\n",
                                       "[layer x]\ntype = fc\n",
                                       "[data\n"};
    struct pair p;
    put("d/a", "1"), put("real/b", "2");
    assert_int_equal(symlink("real", "l"), 0);
    assert_int_equal(symlink("a", "d/link"), 0);
    for (size_t i = 0; i < sizeof inis / sizeof inis[0]; i++) {
        put("train.ini", inis[i]);
        open_pair(&p, ".");
        if (p.s.apart.n)
            fail_msg("%zu files are sent apart with %s", p.s.apart.n, inis[i]);
        close_pair(&p);
    }
    assert_int_equal(unlink("d/link"), 0);
    put("train.ini", "[data]\ntrain = d/*\n"); /* the other link is not part of the data */
    open_pair(&p, ".");
    assert_int_equal(p.s.apart.n, 1);
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(patterns_match_as_on_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(files_go_to_the_trainers_of_their_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_split_where_it_can_not_be_known, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
