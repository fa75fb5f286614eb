/* SPDX-License-Identifier: Apache-2.0 */
/* fs.h - whole-file reads and writes, folders, and writes that are complete or absent. */
#pragma once

int pd_write_all(int fd, const void *p, size_t n); /* 0 or -1 with errno; goes on after EINTR */
/* Bytes read, fewer than n only at the end of the file; or -1 with errno. */
ssize_t pd_read_full(int fd, void *p, size_t n);

/* close() and closedir() of what was opened; -1 and NULL are allowed. */
static inline void pd_close(int fd) {
    if (fd >= 0)
        close(fd);
}
static inline void pd_closedir(DIR *d) {
    if (d)
        closedir(d);
}

int pd_mkdirs(const char *path, mode_t mode, struct pd_err *err); /* like mkdir -p */

/* Makes the folder with mode 0700, or sets that mode, and checks that only this user and root can
 * change it or replace it: the folders above it belong to this user, root or the owner of "/", and
 * nobody else may write to them, unless they are sticky as /tmp. PD_EHOST names folder, owner and
 * mode, and the command that mends it. */
int pd_private_dir(const char *path, struct pd_err *err);

/* Appends the bytes of the file to `out`, and a NUL that is not counted. PD_EDATA: the file has
 * more than `max` bytes. */
int pd_read_file(const char *path, size_t max, struct pd_buf *out, struct pd_err *err);
/* The same for a regular file only: it never waits as for a FIFO. */
int pd_read_regular(const char *path, size_t max, struct pd_buf *out, struct pd_err *err);
/* Opens a regular file. -1 and errno; EINVAL: it is none. */
int pd_open_regular(const char *path, int flags, mode_t mode, struct stat *st);

/* Write a temporary file, fsync, rename: a reader sees the old file or the whole new file. */
int pd_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode,
                         struct pd_err *err);

/* The same without fsync: after a power cut the file may be old, empty or truncated. For caches. */
int pd_write_file_quick(const char *path, const void *p, size_t n, mode_t mode, struct pd_err *err);

/* Delete a tree; symbolic links are removed, never followed; a missing path is no error. */
int pd_rm_tree(const char *path, struct pd_err *err);

/* Removes what killed writers have left in `dir`: names that begin with `prefix` and end with
 * ".tmp-" and 16 digits. Best effort. */
void pd_rm_stale(const char *dir, const char *prefix);

/* Move the contents of folder `from` into folder `to` on the same file system, and remove `from`.
 * Folders that exist in both are merged; the folder in `to` keeps its times and mode. A file
 * replaces the file of the same name. Not atomic. PD_EIO names the path below `from`. */
int pd_merge_tree(const char *from, const char *to, struct pd_err *err);

int pd_fsync_dir(const char *path, struct pd_err *err);

/* May `bytes` be written to the disk of `fd`, or of the folder `dir` if fd is -1? `due`: bytes that
 * others have announced for this disk and not written. PD_ENOSPC has the figures: "WHAT has ...".
 */
int pd_disk_room(int fd, const char *dir, const char *what, uint64_t bytes, uint64_t due,
                 struct pd_err *err);

/* Enlarge a pipe's buffer to 1 MiB, the most that an unprivileged process may have, so that its
 * writer seldom waits. Not every system allows it. Best effort; other descriptors stay unchanged.
 */
void pd_widen_pipe(int fd);

/* The folder of the running executable, without a trailing slash. 0 or -1. */
int pd_self_dir(char *out, size_t cap);
