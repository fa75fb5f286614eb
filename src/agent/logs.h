/* logs.h - a node's three streams: files that grow, and beside each an index of when which byte came.
 *
 *     ROOT/JOB/log/server.log              the bytes, exactly as the process wrote them
 *     ROOT/JOB/.agent/server.log.idx       records of {u64 offset, u64 microseconds since 1970}
 *
 * Whatever is sent is read back from the files: a client may ask for any offset at any time, nothing is lost or
 * doubled, and a slow client costs no memory.
 */
#ifndef PD_AGENT_LOGS_H
#define PD_AGENT_LOGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum log_stream { LOG_SERVER, LOG_TRAIN, LOG_EVENTS, N_LOG_STREAMS };
extern const char *const log_names[N_LOG_STREAMS]; /* "server.log", "train.log", "events" */

struct log_file {
    int fd, index; /* -1: not there */
    uint64_t size, n_records;
    int complete; /* nothing will be appended any more */
};

struct logs {
    struct log_file f[N_LOG_STREAMS];
};

/* Open for appending, or (read_only) what a finished job left: all complete, a missing file is an empty one. */
int logs_open(struct logs *l, const char *job_dir, int read_only, struct pd_err *err);
void logs_close(struct logs *l);

int logs_append(struct logs *l, enum log_stream s, uint64_t time_us, const void *p, size_t n, struct pd_err *err);

/* Bytes from `offset` on that came at one time: at most `cap`, into `buf`; *n = 0 at the end. `*hint` speeds up
 * reading in order; start it at 0. */
int logs_read(const struct logs *l, enum log_stream s, uint64_t offset, void *buf, size_t cap, size_t *n,
              uint64_t *time_us, uint64_t *hint, struct pd_err *err);

/* The last `lines` lines at or after byte `from`, at most cap-1 bytes of them, NUL-terminated. */
void logs_tail(const struct logs *l, enum log_stream s, uint64_t from, int lines, char *buf, size_t cap);

#endif
