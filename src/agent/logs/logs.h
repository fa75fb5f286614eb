/* SPDX-License-Identifier: Apache-2.0 */
/* logs.h - a node's three log streams. Each stream is a series of files, with an index of the times
 * at which the bytes came.
 *
 *     ROOT/JOB/log/server.log              the newest bytes, exactly as the process wrote them
 *     ROOT/JOB/log/server.log.1, .2, ...   older bytes, the newest first; each ends with a line
 *     ROOT/JOB/.agent/server.log.N.idx     index of the file that begins at byte N of the stream:
 *                                          {u64 offset in the stream, u64 microseconds since 1970}
 *
 * Offsets count from the beginning of the stream and keep growing across rotations. All bytes for
 * clients are read back from the files. Therefore a client may ask for any kept offset at any time.
 * No byte is lost or sent twice, and a slow client costs no memory. */
#pragma once

enum { LOGS_KEEP_MAX = 100 };

enum log_stream { LOG_SERVER, LOG_TRAIN, LOG_EVENTS, N_LOG_STREAMS };
extern const char *const log_names[N_LOG_STREAMS]; /* "server.log", "train.log", "events" */

struct log_old {
    unsigned number;      /* NAME.number */
    uint64_t start, size; /* offsets [start, start + size) of the stream */
};

struct log_file {
    int fd, index;      /* descriptors of NAME, the newest file, and its index; -1: missing */
    uint64_t first;     /* offset of the oldest kept byte */
    uint64_t start;     /* offset of NAME's first byte */
    uint64_t size;      /* of the stream: the offset after its last byte */
    uint64_t n_records; /* records in NAME's index */
    int mid_line;       /* the last byte is not a newline */
    int complete;       /* no byte will be appended any more */
    uint64_t retry_at;  /* a rotation failed: the next try is at this size */
    struct log_old old[LOGS_KEEP_MAX]; /* the newest first */
    unsigned n_old;
    /* the rotated file that was last read */
    int old_fd, old_index;
    uint64_t old_start, old_records;
};

struct logs {
    char dir[PATH_MAX];
    uint64_t max_size; /* of a file in bytes, approximately; 0: no limit */
    unsigned keep;     /* the number of rotated files that a stream keeps */
    struct log_file f[N_LOG_STREAMS];
};

/* Opens the logs for appending, or (read_only) those of a finished job: all streams are complete,
 * and a missing file counts as empty. The files of an agent that was killed during a rotation can
 * be opened, too. 0 or PD_EIO. */
int logs_open(struct logs *l, const char *job_dir, int read_only, struct pd_err *err);
void logs_close(struct logs *l);
/* Sets the limits for rotation; `keep` is capped at LOGS_KEEP_MAX. */
void logs_limit(struct logs *l, uint64_t max_size, unsigned keep);

/* Appends n bytes that came at time_us (since 1970), and rotates at the end of a line. A file whose
 * line does not end is cut at 2 * max_size. 0 or PD_EIO. */
int logs_append(struct logs *l, enum log_stream s, uint64_t time_us, const void *p, size_t n,
                struct pd_err *err);

/* Reads at most `cap` bytes from `offset` on into `buf`. All of them came at *time_us. *n = 0: end
 * of the stream. `*hint` speeds up sequential reading; it starts at 0. PD_ENOENT: `offset` is
 * before f[s].first, the oldest kept byte. This call may have advanced f[s].first, if another
 * process removed a file. */
int logs_read(struct logs *l, enum log_stream s, uint64_t offset, void *buf, size_t cap, size_t *n,
              uint64_t *time_us, uint64_t *hint, struct pd_err *err);

/* Copies the last `lines` lines at or after offset `from` into buf: at most cap-1 bytes,
 * NUL-terminated. */
void logs_tail(struct logs *l, enum log_stream s, uint64_t from, int lines, char *buf, size_t cap);
