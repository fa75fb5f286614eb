/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_rules.c - rules for entries of a package, checked by writer and reader. */
#include "pack/object/manifest_internal.h"
#include "pack/object/path.h"

int manifest_path_cmp(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    /* order: end of path, '/', all other bytes */
    int x = !*a         ? 0
            : *a == '/' ? 1
                        : (uint8_t)*a + 2,
        y = !*b         ? 0
            : *b == '/' ? 1
                        : (uint8_t)*b + 2;
    return x - y;
}

static int check_path(const struct manifest_entry *e, struct pd_err *err) {
    const char *p = e->path;
    if (!e->path_len || e->path_len >= PATH_MAX || strlen(p) != e->path_len)
        return pd_fail(err, PD_EDATA,
                       "the package has an empty path, or one that is too long: %.100s", p);
    if (*p == '/')
        return pd_fail(err, PD_EDATA, "the package has an absolute path: %.300s", p);
    for (const char *s = p;; s++) {
        size_t n = strcspn(s, "/");
        if (n == 2 && !strncmp(s, "..", 2))
            return pd_fail(err, PD_EDATA, "the package has a path that leaves the tree: %.300s", p);
        if (!n || n > NAME_MAX || (n == 1 && *s == '.'))
            return pd_fail(err, PD_EDATA, "the package has a path that is not clean: %.300s", p);
        s += n;
        if (!*s)
            return 0;
    }
}

/* In depth-first order the folder of an entry is the entry before it, or a folder above that one.
 */
static int check_folder(const struct manifest_path_rules *k, const struct manifest_entry *e,
                        struct pd_err *err) {
    const char *slash = strrchr(e->path, '/');
    if (!slash)
        return 0;
    size_t n = (size_t)(slash - e->path);
    if (k->last_len >= n && !memcmp(k->last, e->path, n) &&
        (k->last_len == n ? k->last_is_folder : k->last[n] == '/'))
        return 0;
    return pd_fail(err, PD_EDATA, "the package has %.300s, but not its folder", e->path);
}

int manifest_check_entry(struct manifest_path_rules *k, const struct manifest_entry *e,
                         struct pd_err *err) {
    int rc = check_path(e, err);
    if (rc)
        return rc;
    if (k->last_len && manifest_path_cmp(k->last, e->path) >= 0)
        return pd_fail(err, PD_EDATA, "the package has %.300s twice, or out of order", e->path);
    if ((rc = check_folder(k, e, err)))
        return rc;
    if (e->type != MANIFEST_FILE && e->type != MANIFEST_FOLDER && e->type != MANIFEST_LINK)
        return pd_fail(err, PD_EDATA, "%.300s is not a file, folder or link", e->path);
    if (e->mode & 06000)
        return pd_fail(err, PD_EDATA, "%.300s has a set-id bit", e->path);
    if (e->mode & ~(e->type == MANIFEST_FOLDER ? 01777u : 0777u))
        return pd_fail(err, PD_EDATA, "%.300s has mode %o", e->path, e->mode);
    if (e->type == MANIFEST_FILE && e->size > MANIFEST_BYTES)
        return pd_fail(err, PD_EDATA, "%.300s says that it has %llu bytes", e->path,
                       (unsigned long long)e->size);
    if (e->type == MANIFEST_LINK && (rc = pack_check_link(e->path, e->target, err)))
        return rc;
    memcpy(k->last, e->path, e->path_len + 1);
    k->last_len = e->path_len;
    k->last_is_folder = e->type == MANIFEST_FOLDER;
    return 0;
}
