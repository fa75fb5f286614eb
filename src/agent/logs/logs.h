/* logs.h - a node's three streams. Each is a row of files with an index of when which byte came.
 *
 *     ROOT/JOB/log/server.log              the newest bytes, exactly as the process wrote them
 *     ROOT/JOB/log/server.log.1, .2, ...   older bytes, the newest first; each ends with a line
 *     ROOT/JOB/.agent/server.log.N.idx     index of the file that begins at byte N of the stream:
 *                                          {u64 offset in the stream, u64 microseconds since 1970}
 *
 * Offsets count from the beginning of the stream and go on growing over rotations. Whatever is sent
 * to a client is read back from the files. So a client may ask for any kept offset at any time,
 * nothing is lost or doubled, and a slow client costs no memory.
 */
#ifndef PD_AGENT_LOGS_H
#define PD_AGENT_LOGS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { LOGS_KEEP_MAX = 100 };

enum log_stream { LOG_SERVER, LOG_TRAIN, LOG_EVENTS, N_LOG_STREAMS };
extern const char *const log_names[N_LOG_STREAMS]; /* "server.log", "train.log", "events" */

struct log_old {
    unsigned number;      /* NAME.number */
    uint64_t start, size; /* offsets [start, start + size) of the stream */
};

struct log_file {
    int fd, index;                     /* of NAME, the newest file; -1: not there */
    uint64_t first;                    /* the oldest byte that is kept */
    uint64_t start;                    /* NAME's first byte */
    uint64_t size;                     /* of the stream: the offset behind its last byte */
    uint64_t n_records;                /* in NAME's index */
    int mid_line;                      /* the last byte is no newline */
    int complete;                      /* nothing will be appended any more */
    uint64_t retry_at;                 /* a rotation failed: not again before this size */
    struct log_old old[LOGS_KEEP_MAX]; /* the newest first */
    unsigned n_old;
    /* the rotated file that was read last */
    int old_fd, old_index;
    uint64_t old_start, old_records;
};

struct logs {
    char dir[PATH_MAX];
    uint64_t max_size; /* of a file, about; 0: it grows for ever */
    unsigned keep;     /* rotated files of a stream */
    struct log_file f[N_LOG_STREAMS];
};

/* Open for appending, or (read_only) what a finished job left: all complete, a missing file is an
 * empty one. An agent that was killed in the middle of a rotation left something that is
 * understood. */
int logs_open(struct logs *l, const char *job_dir, int read_only, struct pd_err *err);
void logs_close(struct logs *l);
/* `keep` is at most LOGS_KEEP_MAX. */
void logs_limit(struct logs *l, uint64_t max_size, unsigned keep);

/* Rotates where a line ends; a line that is twice as long as a file may be is cut. */
int logs_append(struct logs *l, enum log_stream s, uint64_t time_us, const void *p, size_t n,
                struct pd_err *err);

/* Bytes from `offset` on that came at one time: at most `cap`, into `buf`; *n = 0 at the end.
 * `*hint` speeds up reading in order; start it at 0. PD_ENOENT: `offset` is before f[s].first,
 * where the stream begins now; it may have moved in this call, when somebody else removed a file.
 */
int logs_read(struct logs *l, enum log_stream s, uint64_t offset, void *buf, size_t cap, size_t *n,
              uint64_t *time_us, uint64_t *hint, struct pd_err *err);

/* The last `lines` lines at or after byte `from`, at most cap-1 bytes of them, NUL-terminated. */
void logs_tail(struct logs *l, enum log_stream s, uint64_t from, int lines, char *buf, size_t cap);

#endif
