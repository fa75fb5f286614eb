/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - see path.h. */
#include "pack/object/path.h"

static int is_dotdot(const char *s, size_t n) { return n == 2 && s[0] == '.' && s[1] == '.'; }

int pack_clean_path(const char *name, char out[PATH_MAX], struct pd_err *err) {
    size_t len = 0;
    out[0] = 0;
    if (*name == '/')
        return pd_fail(err, PD_EDATA, "the package has an absolute path: %.200s", name);
    for (const char *s = name; *s;) {
        size_t n = strcspn(s, "/");
        if (is_dotdot(s, n))
            return pd_fail(err, PD_EDATA, "the package has a path that leaves the tree: %.200s",
                           name);
        if (n && !(n == 1 && s[0] == '.')) {
            if (len + n + 2 > PATH_MAX || n > NAME_MAX)
                return pd_fail(err, PD_EDATA, "the package has a path that is too long: %.100s...",
                               name);
            if (len)
                out[len++] = '/';
            memcpy(out + len, s, n);
            len += n;
            out[len] = 0;
        }
        s += n;
        s += *s == '/';
    }
    return 0;
}

int pack_check_link(const char *path, const char *target, struct pd_err *err) {
    size_t depth = 0;
    for (const char *s = path; *s; s++)
        depth += *s == '/';
    if (!*target || strlen(target) >= PATH_MAX)
        return pd_fail(err, PD_EDATA, "%.200s is a link with an empty or too long target", path);
    if (*target == '/')
        return pd_fail(err, PD_EDATA,
                       "%.200s is a link to the absolute path %.200s, which leads out of the tree",
                       path, target);
    int named = 0;
    for (const char *s = target; *s;) {
        size_t n = strcspn(s, "/");
        if (is_dotdot(s, n)) {
            if (named)
                return pd_fail(err, PD_EDATA,
                               "%.200s is a link to %.200s: '..' behind a name is not allowed",
                               path, target);
            if (!depth)
                return pd_fail(err, PD_EDATA,
                               "%.200s is a link to %.200s, which leads out of the tree", path,
                               target);
            depth--;
        } else if (n && !(n == 1 && s[0] == '.')) {
            named = 1;
        }
        s += n;
        s += *s == '/';
    }
    return 0;
}
