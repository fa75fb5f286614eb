/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.c - see ignore.h. The list of rules; glob.c matches a pattern. */
#include "pack/scan/ignore.h"

#include "pack/scan/glob.h"

enum { IGNORE_MAX_BYTES = 1 << 20 };

struct pack_rule {
    char *base, *pattern;     /* one allocation; base: folder of the .paddleignore */
    size_t base_len, literal; /* literal: number of bytes before the first glob character */
    int negated, dirs_only, any_depth;
};

int pack_ignore_init(struct pack_ignore *ig, struct pd_err *err) {
    *ig = (struct pack_ignore){0};
    static const char *const first[] = {".git", "/output/"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (pack_ignore_add(ig, "", first[i], strlen(first[i])))
            return pd_oom(err, "the rules of .paddleignore");
    return 0;
}

void pack_ignore_leave(struct pack_ignore *ig, size_t n) {
    while (ig->n > n)
        free(ig->rules[--ig->n].base);
}

void pack_ignore_release(struct pack_ignore *ig) {
    pack_ignore_leave(ig, 0);
    free(ig->rules);
    *ig = (struct pack_ignore){0};
}

/* The length without trailing blanks, except those escaped by a backslash. */
static size_t without_trailing_blanks(const char *s, size_t n) {
    size_t keep = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\') {
            i++;
            if (i >= n) /* a trailing backslash: cut nothing */
                return n;
            keep = i + 1;
        } else if (s[i] != ' ') {
            keep = i + 1;
        }
    }
    return keep;
}

int pack_ignore_add(struct pack_ignore *ig, const char *rel, const char *line, size_t n) {
    struct pack_rule r = {.base_len = strlen(rel)};
    if (n && line[n - 1] == '\r')
        n--;
    if (!n || *line == '#')
        return 0;
    const char *nul = memchr(line, 0, n);
    if (nul)
        n = (size_t)(nul - line);
    n = without_trailing_blanks(line, n);
    if (n && *line == '!') {
        r.negated = 1;
        line++;
        n--;
    }
    if (n && line[n - 1] == '/') {
        r.dirs_only = 1;
        n--;
    }
    r.any_depth = !memchr(line, '/', n);
    if (n && *line == '/') {
        line++;
        n--;
    }
    if (pd_grow(ig->rules, ig->cap, ig->n + 1))
        return PD_ENOMEM;
    if (!(r.base = pd_malloc(r.base_len + n + 2)))
        return PD_ENOMEM;
    memcpy(r.base, rel, r.base_len + 1);
    r.pattern = r.base + r.base_len + 1;
    memcpy(r.pattern, line, n);
    r.pattern[n] = 0;
    r.literal = strcspn(r.pattern, "*?[\\");
    ig->rules[ig->n++] = r;
    return 0;
}

/* A file that can't be opened counts as missing. A symbolic link does, too: git does not follow
 * links. */
static int read_rules(int dirfd, const char *label, struct pd_buf *text, struct pd_err *err) {
    struct stat st;
    int fd = openat(dirfd, PACK_IGNORE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK),
        rc = 0;
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP
                   ? 0
                   : pd_fail_errno(err, PD_EIO, errno, "cannot open %s/" PACK_IGNORE_FILE, label);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return 0;
    }
    if (st.st_size > IGNORE_MAX_BYTES)
        rc = pd_fail(err, PD_EDATA, "%s/" PACK_IGNORE_FILE " is longer than %d bytes", label,
                     IGNORE_MAX_BYTES);
    else if (pd_buf_reserve(text, (size_t)st.st_size + 1))
        rc = pd_oom(err, "the rules of .paddleignore");
    ssize_t k = rc ? 0 : pd_read_full(fd, text->data, (size_t)st.st_size);
    if (k < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s/" PACK_IGNORE_FILE, label);
    text->len = k > 0 ? (size_t)k : 0;
    close(fd);
    return rc;
}

int pack_ignore_enter(struct pack_ignore *ig, int dirfd, const char *rel, const char *label,
                      struct pd_err *err) {
    struct pd_buf text = {0};
    int rc = read_rules(dirfd, label, &text, err);
    const char *s = (const char *)text.data, *end = s + text.len;
    if (!rc && text.len >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) /* byte order mark */
        s += 3;
    while (!rc && s < end) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        if (pack_ignore_add(ig, rel, s, (size_t)((nl ? nl : end) - s)))
            rc = pd_oom(err, "the rules of .paddleignore");
        s = nl ? nl + 1 : end;
    }
    pd_buf_release(&text);
    return rc;
}

static int rule_matches(const struct pack_rule *r, const char *path, const char *base_name,
                        int is_dir) {
    if (r->dirs_only && !is_dir)
        return 0;
    if (r->any_depth)
        return (!r->base_len ||
                (!strncmp(path, r->base, r->base_len) && path[r->base_len] == '/')) &&
               pack_glob(r->pattern, base_name, 0);
    if (r->base_len) {
        if (strncmp(path, r->base, r->base_len) || path[r->base_len] != '/')
            return 0;
        path += r->base_len + 1;
    }
    /* As git does: compare the literal part first; a "**" behind it begins a new pattern. */
    if (strncmp(path, r->pattern, r->literal))
        return 0;
    return pack_glob(r->pattern + r->literal, path + r->literal, 1);
}

int pack_ignore_match(const struct pack_ignore *ig, const char *path, int is_dir) {
    const char *slash = strrchr(path, '/'), *base_name = slash ? slash + 1 : path;
    for (size_t i = ig->n; i-- > 0;)
        if (rule_matches(&ig->rules[i], path, base_name, is_dir))
            return !ig->rules[i].negated;
    return 0;
}
