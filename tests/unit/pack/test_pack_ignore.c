/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_ignore.c - .paddleignore has the meaning of .gitignore. Cases by hand, then random
 * patterns on random trees, compared with `git check-ignore`. A failure prints the seed, the
 * patterns and the path; IGNORE_SEED repeats it. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/hash.h"
#include "pack/scan/glob.h"
#include "pack/scan/ignore.h"
#include "tests/support/c/append.h"
#include "tests/support/c/skip.h"

/* Adds the rules of `text` for the folder `rel`. */
static void add_lines(struct pack_ignore *ig, const char *rel, const char *text) {
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        assert_int_equal(pack_ignore_add(ig, rel, s, n), 0);
        s += n + (s[n] == '\n');
    }
}

/* As in the walk: a path below an ignored folder is ignored, too. */
static int is_left_out(const struct pack_ignore *ig, const char *path, int is_dir) {
    char part[300];
    for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(s - path), path);
        if (pack_ignore_match(ig, part, 1))
            return 1;
    }
    return pack_ignore_match(ig, path, is_dir);
}

static void rules_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *lines, *path;
        int dir, want;
    } rows[] = {
        {"*.tmp", "a.tmp", 0, 1},
        {"*.tmp", "d/a.tmp", 0, 1},
        {"*.tmp", "a.tmp.x", 0, 0},
        {"/a", "a", 0, 1},
        {"/a", "d/a", 0, 0},
        {"d/*.o", "d/x.o", 0, 1},
        {"d/*.o", "e/d/x.o", 0, 0},
        {"d/*.o", "d/e/x.o", 0, 0},
        {"build/", "build", 1, 1},
        {"build/", "build", 0, 0},
        {"build/", "x/build", 1, 1},
        {"# c", "# c", 0, 0},
        {"\\#c", "#c", 0, 1},
        {"a?c", "abc", 0, 1},
        {"[a-c]x", "bx", 0, 1},
        {"[!a-c]x", "bx", 0, 0},
        {"*", ".hidden", 0, 1},
        {"x  ", "x", 0, 1},
        {"x\\ ", "x ", 0, 1},
        {"x\r", "x", 0, 1},
        {"*.o\n!keep.o", "keep.o", 0, 0},
        {"*.o\n!keep.o", "d/keep.o", 0, 0},
        {"!keep.o\n*.o", "keep.o", 0, 1},
        {"d\n!d/keep", "d/keep", 0, 1},
        {"d/*\n!d/keep", "d/keep", 0, 0},
        {"\\!a", "!a", 0, 1},
        {"a/**/b", "a/b", 0, 1},
        {"a/**/b", "a/x/y/b", 0, 1},
        {"a/**/b", "ab", 0, 0},
        {"**/b", "x/y/b", 0, 1},
        {"**/b", "b", 0, 1},
        {"a/**", "a", 1, 0},
        {"a/**", "a/x/y", 0, 1},
        {"a**b", "axb", 0, 1},
        {"/", "a", 1, 0},
        {"", "a", 0, 0},
        {"!", "a", 0, 0},
        {"[[:digit:]]", "7", 0, 1},
        {"[[:digit:]]", "x", 0, 0},
        {"[", "[", 0, 0},
        {"[]]", "]", 0, 1},
        {"a\\", "a\\", 0, 0},
        {"x", ".git", 1, 1},
        {"!.git", ".git", 1, 0},
        {"x", "sub/.git", 1, 1},
        {"x", "output", 1, 1},
        {"x", "output", 0, 0},
        {"x", "d/output", 1, 0},
        {"!/output", "output", 1, 0},
        {"x", "output/m", 0, 1},
        {"!output/", "output/m", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pack_ignore ig;
        assert_int_equal(pack_ignore_init(&ig, NULL), 0);
        add_lines(&ig, "", rows[i].lines);
        if (is_left_out(&ig, rows[i].path, rows[i].dir) != rows[i].want)
            fail_msg("'%s' on %s", rows[i].lines, rows[i].path);
        pack_ignore_release(&ig);
    }
}

/* A pattern for which a backtracking matcher tries 2^30 ways. */
static void time_is_bounded(void **state) {
    (void)state;
    char pattern[200] = "", path[400] = "";
    for (int i = 0; i < 30; i++)
        append(pattern, sizeof pattern, "**/a*");
    for (int i = 0; i < 90; i++)
        append(path, sizeof path, "aa/");
    append(pattern, sizeof pattern, "/x");
    append(path, sizeof path, "y");
    assert_int_equal(pack_glob(pattern, path, 1), 0);
    path[strlen(path) - 1] = 'x';
    assert_int_equal(pack_glob(pattern, path, 1), 1);
}

/* --- against git --- */

enum { CASES = 250, PATHS = 24, RANDOM_MAX = 100 };

struct rng {
    uint64_t seed, n;
};

static unsigned pick(struct rng *r, unsigned n) {
    return (unsigned)(pd_mix64(r->seed * 1000003 + r->n++) % n);
}

static void random_name(struct rng *r, char *out) {
    static const char *const parts[] = {"a",  "b",   "ab", "a.o", ".x",  "c d", "#a", "!b",
                                        "a*", "[b]", "-",  "7",   "\\a", "aa",  "e "};
    pd_fmt(out, RANDOM_MAX, "%s", parts[pick(r, sizeof parts / sizeof parts[0])]);
}

static void random_path(struct rng *r, char *out) {
    char name[RANDOM_MAX];
    *out = 0;
    for (unsigned i = 0, n = 1 + pick(r, 4); i < n; i++) {
        random_name(r, name);
        if (i)
            append(out, RANDOM_MAX, "/");
        append(out, RANDOM_MAX, name);
    }
}

static void random_pattern(struct rng *r, char *out) {
    static const char *const parts[] = {
        "a",   "b",    "*",          "?",     "**",     "/",           "/",  "**/",
        "/**", "[ab]", "[!a]",       "[^-b]", "[a-c7]", "[[:alpha:]]", "\\", ".o",
        " ",   "\\ ",  "*.o",        ".x",    "[]a]",   "[",           "!",  "#",
        "\\#", "\\!",  "[[:nope:]]", "[\\]]", "7",      "c d",         "ab", "***"};
    *out = 0;
    if (!pick(r, 5))
        append(out, RANDOM_MAX, "!");
    if (!pick(r, 5))
        append(out, RANDOM_MAX, "/");
    for (unsigned i = 0, n = 1 + pick(r, 4); i < n; i++)
        append(out, RANDOM_MAX, parts[pick(r, sizeof parts / sizeof parts[0])]);
    if (!pick(r, 5))
        append(out, RANDOM_MAX, "/");
}

struct property {
    char dir[64];
    struct rng rng;
    struct pd_buf asked; /* NUL-separated, the format that git reads */
};

/* Creates a path. If a file of the name of a folder exists already, it stays a file. */
static void make_path(const char *top, const char *path, int is_dir) {
    char full[400];
    snprintf(full, sizeof full, "%s/%s", top, path);
    for (char *s = full + strlen(top) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(full, 0755);
        *s = '/';
    }
    if (is_dir)
        mkdir(full, 0755);
    else
        close(open(full, O_WRONLY | O_CREAT, 0644));
}

static void put_text(const char *file, const struct pd_buf *text) {
    struct pd_err err = {0};
    if (pd_write_file_atomic(file, text->data, text->len, 0644, &err))
        fail_msg("%s", err.msg);
}

/* Makes the folder cN of the repository, with rules at its top and maybe in a subfolder. */
static void make_case(struct property *p, unsigned c, struct pack_ignore *ig) {
    char top[100], path[200], sub[8], pattern[RANDOM_MAX], line[40], file[300];
    snprintf(top, sizeof top, "%s/c%u", p->dir, c);
    assert_int_equal(mkdir(top, 0755), 0);
    for (int i = 0; i < PATHS; i++) {
        random_path(&p->rng, path);
        make_path(top, path, (int)pick(&p->rng, 3) == 0);
    }
    for (int level = 0; level < 2; level++) {
        struct pd_buf text;
        struct stat st;
        snprintf(sub, sizeof sub, "%s", level ? (pick(&p->rng, 2) ? "a" : "ab") : "");
        snprintf(file, sizeof file, "%s/%s", top, sub);
        if (stat(file, &st) || !S_ISDIR(st.st_mode))
            continue;
        snprintf(line, sizeof line, "c%u%s%s", c, level ? "/" : "", sub);
        pd_buf_init(&text);
        for (unsigned i = 0, n = 1 + pick(&p->rng, 4); i < n; i++) {
            random_pattern(&p->rng, pattern);
            pd_put_fmt(&text, "%s%s", pattern, i + 1 < n || pick(&p->rng, 2) ? "\n" : "");
        }
        append(file, sizeof file, "/.gitignore");
        put_text(file, &text);
        char *copy = strndup((char *)text.data, text.len);
        /* Rules in an ignored folder have no effect: its contents are ignored, too. */
        add_lines(ig, line, copy);
        free(copy);
        pd_buf_release(&text);
    }
}

static void ask_all(struct property *p, const char *rel) {
    char full[400];
    snprintf(full, sizeof full, "%s/%s", p->dir, rel);
    struct stat st;
    assert_int_equal(lstat(full, &st), 0);
    if (strchr(rel, '/')) {
        pd_put(&p->asked, rel, strlen(rel) + 1);
    }
    if (!S_ISDIR(st.st_mode))
        return;
    char cmd[500];
    snprintf(cmd, sizeof cmd, "cd '%s' && find . -mindepth 1 ! -name .gitignore -printf '%%P\\0'",
             full);
    FILE *f = popen(cmd, "r");
    int c;
    for (int first = 1; (c = getc(f)) != EOF; first = c == 0) {
        if (first)
            pd_put_fmt(&p->asked, "%s/", rel);
        pd_put_u8(&p->asked, (uint8_t)c);
    }
    assert_int_equal(pclose(f), 0);
}

static int is_folder(const struct property *p, const char *rel) {
    char full[400];
    struct stat st;
    snprintf(full, sizeof full, "%s/%s", p->dir, rel);
    return !lstat(full, &st) && S_ISDIR(st.st_mode);
}

static void compare(struct property *p, const struct pack_ignore *ig, const struct pd_buf *git) {
    size_t n = 0, n_out = 0, g = 0;
    for (size_t i = 0; i < p->asked.len; n++) {
        const char *path = (char *)p->asked.data + i;
        int ours = is_left_out(ig, path, is_folder(p, path));
        int theirs = g < git->len && !strcmp((char *)git->data + g,
                                             path); /* git answers in the order of the paths */
        if (ours != theirs) {
            char cmd[400];
            snprintf(cmd, sizeof cmd,
                     "cd %s/%.*s && for f in .gitignore */.gitignore; do echo \"== $f\"; cat -A "
                     "\"$f\"; done 2>/dev/null",
                     p->dir, (int)strcspn(path, "/"), path);
            if (system(cmd))
                puts("(no rules)");
            fail_msg("seed %llu: '%s' is %sleft out, by git it is %s",
                     (unsigned long long)p->rng.seed, path, ours ? "" : "not ",
                     theirs ? "ignored" : "not");
        }
        if (theirs)
            g += strlen(path) + 1;
        n_out += (size_t)ours;
        i += strlen(path) + 1;
    }
    assert_int_equal(g, git->len);
    /* The test has covered both results. */
    assert_true(n > 1500 && n_out > 200 && n_out < n - 200);
}

static void equals_git(void **state) {
    (void)state;
    struct property p = {
        .dir = "/tmp/ignore-test-XXXXXX",
        .rng = {getenv("IGNORE_SEED") ? strtoull(getenv("IGNORE_SEED"), NULL, 10) : 1, 0}};
    char cmd[400], file[100];
    struct pack_ignore ig;
    struct pd_err err = {0};
    struct pd_buf git;
    assert_non_null(mkdtemp(p.dir));
    snprintf(cmd, sizeof cmd, "git --version >/dev/null 2>&1 && git init -q %s 2>/dev/null", p.dir);
    if (system(cmd)) {
        pd_rm_tree(p.dir, NULL);
        SKIP("no git");
    }
    pd_buf_init(&p.asked);
    pd_buf_init(&git);
    assert_int_equal(pack_ignore_init(&ig, NULL), 0);
    for (unsigned c = 0; c < CASES; c++) {
        char rel[16];
        make_case(&p, c, &ig);
        snprintf(rel, sizeof rel, "c%u", c);
        ask_all(&p, rel);
    }
    snprintf(file, sizeof file, "%s/.git/asked", p.dir);
    put_text(file, &p.asked);
    snprintf(cmd, sizeof cmd,
             "cd %s && GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -c "
             "core.excludesFile=/dev/null check-ignore --no-index -z --stdin "
             "<.git/asked >.git/answer; [ $? -le 1 ]",
             p.dir);
    assert_int_equal(system(cmd), 0);
    snprintf(file, sizeof file, "%s/.git/answer", p.dir);
    if (pd_read_file(file, 64 << 20, &git, &err))
        fail_msg("%s", err.msg);
    compare(&p, &ig, &git);
    pack_ignore_release(&ig);
    pd_buf_release(&git);
    pd_buf_release(&p.asked);
    pd_rm_tree(p.dir, NULL);
}

static void failing_memory(void **state) {
    (void)state;
    for (int n = 1; n < 10; n++) {
        struct pack_ignore ig;
        struct pd_err err = {0};
        char spec[20];
        snprintf(spec, sizeof spec, "alloc:%d", n);
        pd_fault_arm(spec);
        int rc = pack_ignore_init(&ig, &err);
        for (int i = 0; i < 40 && !rc; i++)
            rc = pack_ignore_add(&ig, "a", "x", 1);
        pd_fault_arm(NULL);
        assert_int_equal(rc, PD_ENOMEM);
        pack_ignore_release(&ig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_by_hand),
        cmocka_unit_test(time_is_bounded),
        cmocka_unit_test(equals_git),
        cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
