/* file_fetch.h - a data file that a trainer opens and that is not in its workspace comes from a
 * node that has it, or from the launcher. For jobs whose data files came apart from the workspace.
 *
 *     trainer ──PADDLE_DATA_FD──▶ file_asks.c ──▶ file_want.c
 *     file_want.c ──HD_FILE──▶ node 0: file_known.c, file_index.c   the file's id, and who has it
 *     file_want.c ──▶ file_pull.c ──DF_*──▶ file_serve.c of a holder, of the next one, the launcher
 *     file_pull.c ──▶ .agent/data-N, each object compared with its id ──▶ workspace/PATH
 *
 * The launcher tells node 0 the file ids (pack/store/file_pieces.h), so no other node has to be
 * trusted. The loop's thread never waits for a disk: files are read, checked and written on threads
 * of the pool.
 */
#ifndef PD_AGENT_FILE_FETCH_H
#define PD_AGENT_FILE_FETCH_H

#include "agent/client/client.h"
#include "agent/core/kept_data.h"
#include "agent/core/peer_id.h"
#include "agent/core/seal.h"
#include "agent/core/spec.h"
#include "pack/store/file_pieces.h"

enum {
    FILE_WINDOW = 4 << 20,        /* bytes of a file that a node was asked for and has not sent */
    FILE_CLIENT_WINDOW = 1 << 20, /* the same of a client, who may have many nodes */
    FILE_NEED_MAX = 512,          /* ids in one DF_NEED */
    FILE_FRAME = 1 << 20,         /* bytes of records, or of pieces, in one frame */
    FILE_IDLE_MS = 20000,         /* a source that is silent for so long is given up */
};

struct file_fetch;

/* --- file_fetch.c: the whole --- */

/* Upwards. */
struct file_fetch_io {
    /* Member: HD_FILE or HD_FILE_HERE with these bytes, to node 0; dropped while not joined. */
    void (*ask_head)(void *arg, uint16_t type, uint64_t req, const void *p, size_t n);
    int (*is_joined)(void *arg);
    /* Node 0: what it knows of a node: {node, name, addrs, port, lost}. A new reference; NULL:
     * nothing. */
    json_t *(*peer)(void *arg, int node);
};

struct file_fetch_opts {
    struct agent_core *core;
    const struct spec *spec;
    const struct peer_id *self;
    struct kept_data *kept; /* which package of data files came here */
    const struct file_fetch_io *io;
    void *arg;
};

/* From a client: AG_DATA_LIST, AG_DATA_FEED, DF_FILE, DF_DATA. The context is a struct file_fetch
 * *const *, which is NULL while there is none. */
extern const struct client_service file_fetch_service;

/* What the options point to outlives it. */
int file_fetch_new(struct file_fetch **out, const struct file_fetch_opts *o, struct pd_err *err);
void file_fetch_close(struct file_fetch *d); /* NULL is fine, for both */
void file_fetch_free(struct file_fetch *d);  /* once the loop has ended */
/* A descriptor for a trainer's process, whose other end is read here; -1 with err. */
int file_fetch_channel(struct file_fetch *d, struct pd_err *err);
/* On node 0: a node's HD_FILE_HERE, or its HD_FILE. The answer to that is *body with the file's id,
 * or PD_E*; 1: there is no answer. */
int file_on_asked(struct file_fetch *d, int node, const struct wire_frame *f, json_t **body,
                  struct object_id *id, struct pd_err *err);
struct file_serve *file_fetch_server(const struct file_fetch *d);

/* --- file_known.c --- */

/* The file's pieces, when it came here after the job began; else NULL. */
const struct file_pieces *file_came(const struct file_fetch *d, const char *path);
const struct file_fetch_opts *file_fetch_opts(const struct file_fetch *d);

/* A path as messages show it: what is no printable text becomes '?'. */
const char *file_shown_path(const char *path, char out[300]);

/* --- file_want.c: what is wanted here --- */

/* A trainer wants this file; id 0: it will need it soon. */
struct file_channel;
void file_want(struct file_fetch *d, struct file_channel *c, uint32_t id, const char *path);
/* The channel's process is gone. */
void file_forget_channel(struct file_fetch *d, const struct file_channel *c);
/* Node 0's answer to HD_FILE; `refused` instead of a body when it is an error. */
void file_on_holders(struct file_fetch *d, const struct wire_frame *f, const json_t *body,
                     const struct pd_err *refused);

/* --- file_asks.c: trainers' sockets --- */

struct file_asks;
/* `want` and `gone` are as file_want and file_forget_channel. */
int file_asks_new(struct file_asks **out, struct file_fetch *d,
                  void (*want)(struct file_fetch *d, struct file_channel *c, uint32_t id,
                               const char *path),
                  void (*gone)(struct file_fetch *d, const struct file_channel *c),
                  struct pd_err *err);
int file_asks_open(struct file_asks *a, struct pd_err *err); /* file_fetch_channel */
void file_asks_close(struct file_asks *a);
void file_asks_free(struct file_asks *a); /* once the loop has ended; NULL is fine */
/* Answers a trainer; err NULL: the file is in the workspace. */
void file_answer(struct file_channel *c, uint32_t id, const struct pd_err *err);

/* --- file_index.c: on node 0, all files and their holders --- */

struct file_index;
struct file_index *file_index_new(void);
void file_index_free(struct file_index *l);
/* Rows of an AG_DATA_LIST, of which `first` have come; 0 begins anew. PD_EPROTO. */
size_t file_index_n(const struct file_index *l);
int file_index_take(struct file_index *l, uint64_t first, uint64_t of, const uint8_t *p, size_t n,
                    struct pd_err *err);
/* Its id, and the nodes that have it: 1; 0: there is no such file. The array is valid until the
 * next call that changes the list. */
struct file_holders {
    struct object_id id;
    const int32_t *rank; /* of trainers: n_ranks of them, -1: none */
    const int32_t *node; /* it came there later */
    size_t n_nodes;
};
int file_index_find(const struct file_index *l, const char *path, struct file_holders *out);
void file_index_note(struct file_index *l, const char *path, int32_t node); /* it has it now */
enum { FILE_RANKS = 2 }; /* a file may be training data of one trainer and test data of another */

/* --- file_pull.c: one file from one source --- */

struct file_pull;
struct file_source { /* who is asked */
    json_t *addrs;   /* of a node; borrowed */
    int port;
    struct client *client; /* or the launcher */
};
/* `done` is called once, never from inside file_pull_new: err is NULL when the file is in the
 * workspace, and `pieces` may be taken over. */
int file_pull_new(struct file_pull **out, struct file_fetch *d, const char *path,
                  const struct object_id *id, const struct file_source *from, uint64_t number,
                  void (*done)(void *arg, struct file_pieces *pieces, const struct pd_err *err),
                  void *arg, struct pd_err *err);
/* What came from a client for this pull. */
void file_pull_frame(struct file_pull *p, uint16_t type, const uint8_t *payload, size_t n);
void file_pull_fail(struct file_pull *p, const struct pd_err *err);
/* It is not wanted any more, `done` is not called. */
void file_pull_drop(struct file_pull *p);

/* --- file_serve.c: takers of files that are here --- */

struct file_serve;
int file_serve_new(struct file_serve **out, struct file_fetch *d, struct pd_err *err);
void file_serve_free(struct file_serve *v); /* once the loop has ended; NULL is fine */
void file_serve_tick(struct file_serve *v); /* takers that are silent for too long go */
/* A connection of the job's listener whose peer is a taker; frames are the callee's. */
void file_serve_frame(struct file_serve *v, struct net_conn *c, struct wire_frame *f);
void file_serve_gone(struct file_serve *v, struct net_conn *c);

/* --- file_here.c: the workspace --- */

/* Is it a path that may be in a package: relative, clean, without ".."? */
int file_path_ok(const char *path);
int file_is_here(const char *job_dir, const char *path); /* a regular file, not through links */
/* Opens it for reading; PD_ENOENT. */
int file_open_here(const char *job_dir, const char *path, struct pd_err *err);
/* The finished file `aside` (absolute, on the same file system) becomes workspace/PATH; folders on
 * the way are made. On a thread. */
int file_put_here(const char *job_dir, const char *aside, const char *path, struct pd_err *err);

#endif
