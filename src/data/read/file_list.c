/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c - see file_list.h. */
#include "data/read/file_list.h"

#include <fnmatch.h>

static const char separators[] = " \t,";

/* Copies the next pattern of a list to `out`. 1; 0: no more; PD_ECONF: too long. */
static int next_pattern(const char **at, char out[PATH_MAX], struct pd_err *err) {
    const char *p = *at + strspn(*at, separators);
    size_t n = strcspn(p, separators);
    if (n >= PATH_MAX)
        return pd_fail(err, PD_ECONF, "path too long: %.100s...", p);
    memcpy(out, p, n);
    out[n] = 0;
    *at = p + n;
    return n > 0;
}

/* Cleans a pattern: "./a//b" becomes "a/b". Returns 0 if the pattern leads out of the folder, may
 * lead out (glob expands ".*" to ".." too), or ends with a slash. */
static int clean(char *pattern) {
    char *to = pattern;
    if (*pattern == '/')
        return 0;
    for (char *p = pattern; *p;) {
        size_t n = strcspn(p, "/");
        char end = p[n];
        p[n] = 0;
        if (*p == '.' && p[1] && (!fnmatch(p, "..", FNM_PERIOD) || !fnmatch(p, ".", FNM_PERIOD)))
            return 0;
        if (n && strcmp(p, ".")) {
            memmove(to, p, n);
            to += n;
            if (end)
                *to++ = '/';
        }
        p += n + (end == '/');
    }
    *to = 0;
    return to > pattern && to[-1] != '/';
}

static unsigned n_slashes(const char *s) {
    unsigned n = 0;
    for (; *s; s++)
        n += *s == '/';
    return n;
}

static int match_one(char *pattern, const char *path, int folders) {
    if (!clean(pattern))
        return 0;
    if (folders) { /* cut the pattern to as many names as the path has, if it has more */
        unsigned k = n_slashes(path) + 1;
        char *p = pattern;
        for (; k && (p = strchr(p, '/')); p++)
            if (!--k)
                break;
        if (!p)
            return 0;
        *p = 0;
    }
    return !fnmatch(pattern, path, FNM_PATHNAME | FNM_PERIOD);
}

int data_files_match(const char *patterns, const char *path, int folders) {
    char one[PATH_MAX];
    while (next_pattern(&patterns, one, NULL) == 1)
        if (match_one(one, path, folders))
            return 1;
    return 0;
}

int data_files_inside(const char *patterns) {
    char one[PATH_MAX];
    int rc;
    while ((rc = next_pattern(&patterns, one, NULL)) == 1)
        if (!clean(one))
            return 0;
    return !rc;
}

int data_files_in_folders(const char *pattern) {
    const char *file = strrchr(pattern, '/'), *minute = NULL;
    for (const char *s = pattern; file && s < file; s++)
        if (*s == '/')
            minute = s;
    return minute && file[1] && file != minute + 1 && minute != pattern &&
           !strpbrk(pattern, separators) && strlen(file + 1) <= NAME_MAX;
}

static int expand_listed(struct data_files *f, const char *list, size_t n, const char *pattern,
                         struct pd_err *err) {
    char one[PATH_MAX];
    int found = 0;
    for (const char *p = list; p < list + n; p += strlen(p) + 1) {
        pd_fmt(one, sizeof one, "%s", pattern);
        if (!match_one(one, p, 0))
            continue;
        found = 1;
        if (data_files_add(f, p))
            return pd_oom(err, "a list of data files");
    }
    return found
               ? 0
               : pd_fail(err, PD_ENOENT, "no file matches %s in the dispatched workspace", pattern);
}

int data_files_expand_list(struct data_files *f, const char *list, size_t n, const char *pattern,
                           struct pd_err *err) {
    char one[PATH_MAX], copy[PATH_MAX];
    int rc, any = 0;
    while ((rc = next_pattern(&pattern, one, err)) == 1) {
        any = 1;
        pd_fmt(copy, sizeof copy, "%s", one);
        rc =
            clean(copy) ? expand_listed(f, list, n, one, err) : data_files_expand(f, ".", one, err);
        if (rc)
            return rc;
    }
    if (!rc && !any)
        rc = pd_fail(err, PD_ECONF, "the pattern of data files is empty");
    data_files_sort(f);
    return rc;
}

int data_files_read_list(struct pd_buf *out, struct pd_err *err) {
    if (access(DATA_LIST, F_OK))
        return 0;
    int rc = pd_read_file(DATA_LIST, DATA_LIST_MAX, out, err);
    if (!rc && out->len && out->data[out->len - 1])
        rc = pd_fail(err, PD_EDATA, "%s is damaged", DATA_LIST);
    return rc ? rc : 1;
}
