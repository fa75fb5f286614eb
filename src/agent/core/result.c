/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - see result.h. */
#include "agent/core/result.h"

#include <sys/statvfs.h>

#include "agent/core/msg.h"
#include "wire/bodies.h"

#define RESERVED ".agent/result"
enum { RESERVE_BYTES = 16384, FULL_BYTES = 1 << 20 };

json_t *result_reason(int node, const char *host, const char *reason) {
    return wire_put(&wire_failure, &(struct failure){.node = node,
                                                     .host = host,
                                                     .role = "agent",
                                                     .rank = node,
                                                     .exit_code = -1,
                                                     .reason = reason});
}

json_t *result_make(const struct node_paths *p, int node, const char *status,
                    const json_t *first_failure, int later) {
    json_t *f = first_failure ? json_deep_copy(first_failure) : json_null();
    return json_pack("{s:s, s:i, s:s, s:o, s:i}", "job", p->job, "node", node, "status", status,
                     "first_failure", f, "later_failures", later);
}

int result_reserve(const struct node_paths *p, struct pd_err *err) {
    static const char zeros[RESERVE_BYTES];
    char path[PATH_MAX];
    int rc = node_paths_join(p->dir, RESERVED, path, err);
    return rc ? rc : pd_write_file_atomic(path, zeros, sizeof zeros, 0644, err);
}

/* 0: `path` has the text. */
static int write_reserved(const struct node_paths *p, const char *path, const char *text) {
    char from[PATH_MAX];
    const size_t n = strlen(text);
    const int fd = node_paths_join(p->dir, RESERVED, from, NULL)
                       ? -1
                       : open(from, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const int bad = fd < 0 || pd_write_all(fd, text, n) || ftruncate(fd, (off_t)n) || fsync(fd);
    pd_close(fd);
    return bad || rename(from, path) || pd_fsync_dir(p->dir, NULL) ? -1 : 0;
}

int result_write(const struct node_paths *p, const json_t *result, struct pd_err *err) {
    char path[PATH_MAX];
    if (!node_paths_join(p->dir, "output", path, NULL))
        pd_rm_stale(path, ".pass-");
    char *text = result ? json_dumps(result, JSON_INDENT(2)) : NULL;
    if (!text)
        return pd_oom(err, "the job's result");
    int rc = node_paths_join(p->dir, "result.json", path, err);
    if (!rc && write_reserved(p, path, text))
        rc = pd_write_file_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

json_t *result_read(const struct node_paths *p) {
    char path[PATH_MAX];
    if (node_paths_join(p->dir, "result.json", path, NULL))
        return NULL;
    json_t *o = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

const char *result_why_missing(const struct node_paths *p) {
    struct statvfs fs;
    if (statvfs(p->dir, &fs))
        return "";
    if (fs.f_flag & ST_RDONLY)
        return ": its disk is read-only";
    const int full = fs.f_bavail * fs.f_frsize < FULL_BYTES || (fs.f_files && !fs.f_favail);
    return full ? ": its disk is full" : "";
}

void result_write_if_missing(const struct node_paths *p, const char *reason) {
    char path[PATH_MAX];
    if (node_paths_join(p->dir, "result.json", path, NULL) || !access(path, F_OK))
        return;
    int node = node_paths_read_node(p);
    json_t *f = result_reason(node, "", reason);
    json_t *r = result_make(p, node, "failed", f, 0);
    json_object_set_new(r, "left", json_true()); /* the job may go on without this node */
    result_write(p, r, NULL);
    json_decref(f);
    json_decref(r);
}
