/* SPDX-License-Identifier: Apache-2.0 */
/* file_here.c - data files in the job's workspace. Links are never followed, so no file outside the
 * workspace is read or written. */
#include "agent/files/file_fetch.h"

int file_path_ok(const char *path) {
    if (!*path || strlen(path) >= PATH_MAX / 2)
        return 0;
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (!n || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        if (!p[n])
            return 1;
        p += n + 1;
    }
}

const char *file_shown_path(const char *path, char out[300]) {
    size_t n = strlen(path), k = 0;
    for (size_t i = 0; i < n && k < 290; i++)
        out[k++] = (unsigned char)path[i] < 32 || (unsigned char)path[i] > 126 ? '?' : path[i];
    pd_fmt(out + k, 300 - k, "%s", k < n ? "..." : "");
    return out;
}

/* Opens the folder that contains `path`, and sets *name to the last component. -1 with errno. */
static int open_folder(const char *job_dir, const char *path, int make, const char **name) {
    char ws[PATH_MAX];
    const char *p = path;
    if (!file_path_ok(path) || pd_fmt(ws, sizeof ws, "%s/workspace", job_dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(ws, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (const char *slash; fd >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
        char one[256];
        memcpy(one, p, (size_t)(slash - p));
        one[slash - p] = 0;
        int below = make && mkdirat(fd, one, 0755) && errno != EEXIST
                        ? -1
                        : openat(fd, one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int e = errno;
        close(fd);
        errno = e;
        fd = below;
    }
    *name = p;
    return fd;
}

int file_is_here(const char *job_dir, const char *path) {
    const char *name;
    struct stat st;
    int dir = open_folder(job_dir, path, 0, &name);
    int here = dir >= 0 && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
    pd_close(dir);
    return here;
}

int file_open_here(const char *job_dir, const char *path, struct pd_err *err) {
    const char *name;
    struct stat st;
    int dir = open_folder(job_dir, path, 0, &name);
    int fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK),
        e = errno;
    pd_close(dir);
    if (fd < 0)
        return pd_fail_errno(err, e == ENOENT ? PD_ENOENT : PD_EIO, e, "it cannot open it");
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return pd_fail(err, PD_EIO, "it is no regular file there");
    }
    return fd;
}

int file_put_here(const char *job_dir, const char *aside, const char *path, struct pd_err *err) {
    const char *name;
    char text[300];
    int dir = open_folder(job_dir, path, 1, &name), rc = 0;
    if (dir < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot make the folders of %s",
                             file_shown_path(path, text));
    if (renameat(AT_FDCWD, aside, dir, name))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot rename a file to %s",
                           file_shown_path(path, text));
    else if (fsync(dir))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write the folder of %s",
                           file_shown_path(path, text));
    close(dir);
    return rc;
}
