/* ignore.c - see ignore.h. */
#include "pack/ignore.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"

enum { IGNORE_MAX_BYTES = 1 << 20 };

struct pack_rule {
    char *pattern;
    int anchored, dirs_only;
};

/* git drops blanks at the end of a line unless a backslash holds them. */
static void drop_trailing_blanks(char *s) {
    size_t n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\r') && !(n > 1 && s[n - 2] == '\\'))
        s[--n] = 0;
}

static int add_rule(struct pack_ignore *ig, char *s, const char *file, unsigned line, struct pd_err *err) {
    drop_trailing_blanks(s);
    if (!*s || *s == '#')
        return 0;
    if (*s == '!')
        return pd_fail(err, PD_ECONF, "%s:%u: a pattern that takes back another one (%s) is not supported", file, line,
                       s);
    if (strstr(s, "**"))
        return pd_fail(err, PD_ECONF, "%s:%u: '**' is not supported (%s); a pattern without a slash matches in every "
                       "folder", file, line, s);
    size_t n = strlen(s);
    int dirs_only = s[n - 1] == '/';
    if (dirs_only)
        s[n - 1] = 0;
    int anchored = strchr(s, '/') != NULL;
    if (*s == '/')
        s++;
    if (!*s)
        return pd_fail(err, PD_ECONF, "%s:%u: the pattern names nothing", file, line);
    struct pack_rule *r = pd_realloc(ig->rules, (ig->n + 1) * sizeof *r);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", file);
    ig->rules = r;
    char *copy = pd_strdup(s);
    if (!copy)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", file);
    r[ig->n++] = (struct pack_rule){copy, anchored, dirs_only};
    return 0;
}

int pack_ignore_load(struct pack_ignore *ig, const char *dir, struct pd_err *err) {
    *ig = (struct pack_ignore){0};
    char file[PATH_MAX];
    if (pd_fmt(file, sizeof file, "%s/.paddleignore", dir))
        return pd_fail(err, PD_EIO, "path too long: %s", dir);
    struct pd_buf text;
    struct pd_err e = {0};
    pd_buf_init(&text);
    int rc = pd_read_file(file, IGNORE_MAX_BYTES, &text, &e);
    if (rc == PD_ENOENT) {
        rc = 0;
        goto out;
    }
    if (rc) {
        pd_fail(err, rc, "%s", e.msg);
        goto out;
    }
    unsigned line = 1;
    for (char *s = (char *)text.data, *end = s + text.len; s < end && !rc; line++) {
        char *nl = memchr(s, '\n', (size_t)(end - s));
        if (nl)
            *nl = 0;
        char *next = nl ? nl + 1 : end;
        rc = add_rule(ig, s, file, line, err);
        s = next;
    }
out:
    pd_buf_release(&text);
    if (rc)
        pack_ignore_release(ig);
    return rc;
}

void pack_ignore_release(struct pack_ignore *ig) {
    for (size_t i = 0; i < ig->n; i++)
        free(ig->rules[i].pattern);
    free(ig->rules);
    *ig = (struct pack_ignore){0};
}

int pack_ignore_match(const struct pack_ignore *ig, const char *path, int is_dir) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    for (size_t i = 0; i < ig->n; i++) {
        const struct pack_rule *r = &ig->rules[i];
        if (r->dirs_only && !is_dir)
            continue;
        if (!fnmatch(r->pattern, r->anchored ? path : base, FNM_PATHNAME))
            return 1;
    }
    return 0;
}
