/* SPDX-License-Identifier: Apache-2.0 */
/* shard_folder.c - which folders of this machine the trainers may name.
 *
 * A trainer names the folders of saved models. Without a limit it could read and write any file of
 * the account, so a name is accepted only if it lies below one of the folders of struct ps_folders,
 * after symbolic links are followed. The check needs no openat2: a trainer can't create links
 * through a server, and who can create them otherwise has the account's rights already. */
#include "ps/shard/shard_internal.h"

/* In the name of a folder, "output" is the job's output folder, whose place the agent has chosen. A
 * workspace that is used in place has no link to it. */
static int path_on_node(const struct ps_shard *s, const char *name, char out[PATH_MAX],
                        struct pd_err *err) {
    const char *base = s->opts.output_dir, *in = name;
    while (in[0] == '.' && in[1] == '/') /* "./output", ".//output" */
        in += 1 + strspn(in + 1, "/");
    const int output = base && *base && !strncmp(in, "output", 6) && (!in[6] || in[6] == '/');
    return pd_fmt(out, PATH_MAX, "%s%s", output ? base : "", output ? in + 6 : name)
               ? pd_fail(err, PD_EIO, "path too long: %s", name)
               : 0;
}

static int goes_up(const char *path) {
    for (const char *p = path; (p = strstr(p, "..")); p += 2)
        if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
            return 1;
    return 0;
}

/* The path without symbolic links and "..". Its last folders need not exist. 0 or -1. */
static int resolve(const char *path, char out[PATH_MAX]) {
    char here[PATH_MAX];
    size_t n = strlen(path);
    for (;;) { /* the first n bytes exist? */
        if (pd_fmt(here, sizeof here, "%.*s", (int)n, path) ||
            (!n && pd_fmt(here, sizeof here, ".")))
            return -1;
        if (realpath(here, out))
            break;
        if (errno != ENOENT || !n)
            return -1;
        while (n && path[n - 1] == '/')
            n--;
        while (n && path[n - 1] != '/')
            n--;
    }
    const char *rest = path + n + strspn(path + n, "/");
    const size_t len = strlen(out);
    if (goes_up(rest))
        return -1;
    return *rest && pd_fmt(out + len, PATH_MAX - len, "%s%s", len > 1 ? "/" : "", rest) ? -1 : 0;
}

static int is_below(const char *path, const char *root) {
    const size_t n = strcmp(root, "/") ? strlen(root) : 0;
    return !strncmp(path, root, n) && (!path[n] || path[n] == '/');
}

static int allows(const struct ps_shard *s, const char *const *list, const char *path) {
    char root[PATH_MAX], real[PATH_MAX];
    for (; *list; list++)
        if (!path_on_node(s, *list, root, NULL) && !resolve(root, real) && is_below(path, real))
            return 1;
    return 0;
}

int shard_folder(const struct ps_shard *s, enum shard_access access, const char *name,
                 char out[PATH_MAX], struct pd_err *err) {
    const struct ps_folders *f = s->opts.folders;
    const int reads = access == SHARD_READS;
    char real[PATH_MAX];
    struct pd_buf names = {0};
    int rc = path_on_node(s, name, out, err);
    if (rc || !f)
        return rc;
    if (!resolve(out, real) && (allows(s, f->write, real) || (reads && allows(s, f->read, real))))
        return 0;
    for (const char *const *w = f->write; *w; w++)
        pd_put_fmt(&names, "%s%s", w == f->write ? "" : ", ", *w);
    for (const char *const *r = f->read; reads && *r; r++)
        pd_put_fmt(&names, ", %s", strcmp(*r, ".") ? *r : "the workspace");
    pd_fail(err, PD_ECONF,
            "the server may not %s '%s': its folders are %.*s; start it with the %s of the "
            "trainers",
            reads ? "read" : "write in", out, (int)(names.failed ? 0 : names.len),
            (const char *)names.data, reads ? "save_dir, init_model_path and resume" : "save_dir");
    pd_buf_release(&names);
    return PD_ECONF;
}
