/* fs.h - whole-file reads and writes, folders, and writes that are complete or absent. */
#ifndef PD_BASE_FS_H
#define PD_BASE_FS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

int pd_write_all(int fd, const void *p, size_t n); /* 0 or -1 with errno; goes on after EINTR */
ssize_t pd_read_full(int fd, void *p,
                     size_t n); /* bytes read (less than n only at the end), or -1 */

int pd_mkdirs(const char *path, mode_t mode, struct pd_err *err); /* like mkdir -p */

/* The file's bytes (a NUL follows them, not counted). More than `max` bytes is PD_EDATA. */
int pd_read_file(const char *path, size_t max, struct pd_buf *out, struct pd_err *err);

/* Write aside, fsync, rename: a reader sees the old file or the whole new one. */
int pd_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode,
                         struct pd_err *err);

/* The same without waiting for the disk: after a power cut it may be old, empty or cut off. For
 * caches. */
int pd_write_file_quick(const char *path, const void *p, size_t n, mode_t mode, struct pd_err *err);

/* Delete a tree; symbolic links are removed, never followed; a missing path is no error. */
int pd_rm_tree(const char *path, struct pd_err *err);

/* What is in folder `from` moves into folder `to` on the same file system; folders that both have
 * become one, with the times and mode of the one in `to`; a file replaces one of its name. `from`
 * is gone then. Not atomic. PD_EIO names the path below. */
int pd_merge_tree(const char *from, const char *to, struct pd_err *err);

int pd_fsync_dir(const char *path, struct pd_err *err);

/* A pipe that holds as much as anybody may ask for (1 MiB), so that its writer seldom waits; not
 * every system allows it, and what is no pipe stays as it is. */
void pd_widen_pipe(int fd);

/* The folder of the running executable, without a trailing slash. 0 or -1. */
int pd_self_dir(char *out, size_t cap);

#endif
