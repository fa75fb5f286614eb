/* SPDX-License-Identifier: Apache-2.0 */
/* node_paths.c - see node_paths.h. */
#include "agent/core/node_paths.h"

#include <jansson.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CONNECT_S = 5, JSON_MAX = 16 << 20 /* state.json names the lost nodes */ };

int node_paths_name_ok(const char *s) {
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n && n < 64 && !s[n] && *s != '.';
}

int node_paths_init(struct node_paths *p, const char *root, const char *job, struct pd_err *err) {
    const char *home = getenv("HOME");
    *p = (struct node_paths){{0}, {0}, {0}};
    if (job && !node_paths_name_ok(job))
        return pd_fail(err, PD_EUSAGE, "'%.80s' is not a job's id", job);
    int tilde = root[0] == '~' && (!root[1] || root[1] == '/');
    if (tilde && (!home || *home != '/'))
        return pd_fail(err, PD_EUSAGE, "root_dir is %s, but HOME is not set here", root);
    if (!tilde && *root != '/')
        return pd_fail(err, PD_EUSAGE, "root_dir must be absolute or begin with ~/, not '%.200s'",
                       root);
    if (pd_fmt(p->root, sizeof p->root, "%s%s", tilde ? home : "", root + tilde))
        return pd_fail(err, PD_EUSAGE, "root_dir is too long: %.200s", root);
    for (size_t n = strlen(p->root); n > 1 && p->root[n - 1] == '/';)
        p->root[--n] = 0;
    if (job && (pd_fmt(p->job, sizeof p->job, "%s", job) ||
                pd_fmt(p->dir, sizeof p->dir, "%s/%s", p->root, job)))
        return pd_fail(err, PD_EUSAGE, "root_dir is too long: %.200s", root);
    return 0;
}

int node_paths_join(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err) {
    return pd_fmt(out, PATH_MAX, "%s/%s", dir, name)
               ? pd_fail(err, PD_EIO, "path too long: %s/%s", dir, name)
               : 0;
}

int node_paths_write_node(const struct node_paths *p, int node, struct pd_err *err) {
    char path[PATH_MAX], text[24];
    int n = snprintf(text, sizeof text, "%d\n", node);
    int rc = node_paths_join(p->dir, "nodefile", path, err);
    return rc ? rc : pd_write_file_atomic(path, text, (size_t)n, 0644, err);
}

static int read_number(const struct node_paths *p, const char *name, int64_t min, int64_t max,
                       int absent) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    int64_t v = absent;
    if (!node_paths_join(p->dir, name, path, NULL) && !pd_read_regular(path, 64, &b, NULL) &&
        b.len) {
        b.data[strcspn((char *)b.data, "\n")] = 0;
        if (pd_parse_i64((char *)b.data, min, max, &v))
            v = absent;
    }
    pd_buf_release(&b);
    return (int)v;
}

int node_paths_read_node(const struct node_paths *p) {
    return read_number(p, "nodefile", 0, 1 << 20, -1);
}
int node_paths_read_pid(const struct node_paths *p) {
    return read_number(p, ".agent/pid", 1, 1 << 30, 0);
}

json_t *node_paths_load_json(const struct node_paths *p, const char *name) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    json_t *o = NULL;
    if (!node_paths_join(p->dir, name, path, NULL) && !pd_read_regular(path, JSON_MAX, &b, NULL))
        o = json_loadb((char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    pd_buf_release(&b);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

void node_paths_read_status(const struct node_paths *p, char status[16]) {
    *status = 0;
    json_t *j = node_paths_load_json(p, "result.json");
    const char *s = json_string_value(json_object_get(j, "status"));
    if (s && pd_fmt(status, 16, "%s", s))
        *status = 0;
    json_decref(j);
}

/* The folder exists: names the node that created it. An agent writes its nodefile right after it
 * creates the folder. */
static int taken(const struct node_paths *p, int node, struct pd_err *err) {
    int other = node_paths_read_node(p);
    char mine[32] = "this node", theirs[40] = "another node";
    if (node >= 0)
        snprintf(mine, sizeof mine, "node %d", node);
    if (other >= 0 && other == node)
        return pd_fail(err, PD_EEXIST, "%s exists already", p->dir);
    if (other >= 0)
        snprintf(theirs, sizeof theirs, "node %d", other);
    return pd_fail(err, PD_EEXIST, "%s and %s share root_dir %s: use %%n in root_dir", mine, theirs,
                   p->root);
}

int node_paths_make_job(const struct node_paths *p, int node, struct pd_err *err) {
    static const char *const inside[] = {".agent", "log", "output"};
    char path[PATH_MAX];
    int rc = pd_mkdirs(p->root, 0755, err);
    if (rc)
        return rc;
    if (mkdir(p->dir, 0700))
        return errno == EEXIST ? taken(p, node, err)
                               : pd_fail_errno(err, PD_EIO, errno, "cannot make folder %s", p->dir);
    if (node >= 0)
        rc = node_paths_write_node(p, node, err);
    for (size_t i = 0; i < sizeof inside / sizeof inside[0] && !rc; i++) {
        rc = node_paths_join(p->dir, inside[i], path, err);
        if (!rc && mkdir(path, i ? 0755 : 0700))
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot make folder %s", path);
    }
    if (rc)
        pd_rm_tree(p->dir, NULL);
    return rc;
}

int node_paths_check_private(const char *root, int make, struct pd_err *err) {
    char path[PATH_MAX];
    int rc = node_paths_join(root, ".paddlectl", path, err);
    if (rc || (!make && access(path, F_OK)))
        return rc;
    rc = make ? pd_mkdirs(root, 0755, err) : 0;
    return rc ? rc : pd_private_dir(path, err);
}

/* sun_path holds 108 bytes, and root_dir may be longer. The address is therefore relative to a
 * descriptor. After -1 errno is EAGAIN if an agent listens whose backlog is full. */
static int connect_to(const struct node_paths *p, int flags) {
    char path[PATH_MAX];
    if (node_paths_join(p->dir, ".agent", path, NULL))
        return -1;
    int e = 0, dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = dir < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const struct timeval limit = {CONNECT_S, 0}, none = {0, 0};
    if (fd >= 0) /* a stopped agent with a full backlog would block connect */
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    snprintf(sa.sun_path, sizeof sa.sun_path, "/proc/self/fd/%d/sock", dir);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa)) {
        e = errno;
        close(fd);
        fd = -1;
    }
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    pd_close(dir);
    errno = e;
    return fd;
}

int node_paths_connect(const struct node_paths *p) { return connect_to(p, 0); }

int node_paths_has_listener(const struct node_paths *p) {
    int fd = connect_to(p, SOCK_NONBLOCK);
    const int is_full = fd < 0 && errno == EAGAIN;
    pd_close(fd);
    return fd >= 0 || is_full;
}

int node_paths_connect_own(const struct node_paths *p) {
    struct ucred who;
    socklen_t n = sizeof who;
    int fd = connect_to(p, SOCK_NONBLOCK);
    if (fd >= 0 && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || who.uid != geteuid())) {
        close(fd);
        fd = -1;
    }
    return fd;
}
