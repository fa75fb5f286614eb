/* SPDX-License-Identifier: Apache-2.0 */
/* file_fetch.h - data files on demand. If a trainer opens a data file that is not in its workspace,
 * the agent fetches the file from another node or from the launcher. Only for jobs whose data files
 * are a package separate from the workspace.
 *
 *     trainer ──PADDLE_DATA_FD──▶ file_asks.c ──▶ file_want.c
 *     file_want.c ──HD_FILE──▶ head: file_known.c, file_index.c   the file's id and its holders
 *     file_want.c ◀─HD_FILE_COPY── head: file_copies.c            a new copy after a loss
 *     file_want.c ──▶ file_pull.c ──DF_*──▶ file_serve.c of a holder, of the next one, the launcher
 *     file_pull.c ──▶ .agent/data-N, each object compared with its id ──▶ workspace/PATH
 *
 * The launcher sends the file ids to the head (pack/store/file_pieces.h), so no other node must be
 * trusted. The loop's thread never waits for a disk: threads of the pool read, check and write
 * files. */
#pragma once

#include "agent/client/client.h"
#include "agent/core/kept_data.h"
#include "agent/core/peer_id.h"
#include "agent/core/source_link.h"
#include "agent/core/spec.h"
#include "pack/store/file_pieces.h"

enum {
    FILE_WINDOW = 4 << 20,        /* requested bytes of a file that a node has not sent yet */
    FILE_CLIENT_WINDOW = 1 << 20, /* the same for a client, which may serve many nodes */
    FILE_NEED_MAX = 512,          /* ids in one DF_NEED */
    FILE_FRAME = 1 << 20,         /* bytes of records, or of pieces, in one frame */
    FILE_IDLE_MS = 20000,         /* a source that is silent for so long is dropped */
    FILE_COPY_RATE = 32 << 20,    /* bytes a second of a copy that no trainer waits for */
};

struct file_fetch;

/* --- file_fetch.c: the service --- */

/* Calls to the owner. */
struct file_fetch_io {
    /* Sends HD_FILE or HD_FILE_HERE with n bytes to the head, if this node is not the head itself.
     * The message is dropped while this node is not joined. */
    void (*ask_head)(void *arg, uint16_t type, uint64_t req, const void *p, size_t n);
    int (*is_joined)(void *arg);
    int (*is_head)(void *arg);
    /* The head: the facts about a node: {node, name, addrs, port, lost}. A new reference; NULL:
     * unknown. */
    json_t *(*peer)(void *arg, int node);
    /* The head: the lost nodes, as head_lost_nodes; borrowed. */
    const json_t *(*lost_nodes)(void *arg);
    int (*is_here)(void *arg, int node); /* the head: 1: the node is connected */
    /* The head: sends HD_FILE_COPY with this path. Dropped while the node is not connected. */
    void (*ask_copy)(void *arg, int node, const char *path);
    /* The head: the number of files with fewer copies than asked has changed. */
    void (*few_changed)(void *arg);
};

struct file_fetch_opts {
    struct agent_core *core;
    const struct spec *spec;
    const struct peer_id *self;
    struct kept_data *kept; /* the package of data files that came to this node */
    const struct file_fetch_io *io;
    void *arg;
};

/* Handles a client's AG_DATA_LIST, AG_DATA_FEED, DF_FILE, DF_DATA. The context is a struct
 * file_fetch *const *; the pointer there is NULL before the set-up of the job. */
extern const struct client_service file_fetch_service;

/* The objects in the options must outlive the file_fetch. 0 or PD_ENOMEM. */
int file_fetch_new(struct file_fetch **out, const struct file_fetch_opts *o, struct pd_err *err);
void file_fetch_close(struct file_fetch *d); /* NULL is allowed, as below */
void file_fetch_free(struct file_fetch *d);  /* after the loop has ended */
/* Returns a descriptor for a trainer's process, which the caller closes; this service reads the
 * other end. PD_E* on failure. */
int file_fetch_channel(struct file_fetch *d, struct pd_err *err);
/* On the head: handles a node's HD_FILE, HD_FILE_HERE or HD_FILE_COPY. 0: the answer is *body (a
 * new reference) and the file's id. PD_E*: the answer is this error. 1: there is no answer. */
int file_on_asked(struct file_fetch *d, int node, const struct wire_frame *f, json_t **body,
                  struct object_id *id, struct pd_err *err);
struct file_serve *file_fetch_server(const struct file_fetch *d);
/* 1: this node can be the head of the job, whose list of data files has come here. */
int file_has_list(const struct file_fetch *d);
/* On the head: data files with fewer copies than data_copies, and their bytes. d NULL: none. files
 * is -1 after the loss of a node until the other nodes have told this head what they have. */
struct file_few {
    int64_t files, bytes;
};
struct file_few file_few_copies(const struct file_fetch *d);
/* The head's HD_FILE_COPY. */
void file_on_copy(struct file_fetch *d, const struct wire_frame *f);
/* Another node is the head, or this one: it hears of the files that came here. NULL is allowed. */
void file_announce(const struct file_fetch *d);

/* --- file_known.c --- */

/* The pieces of a file that came here after the job began (borrowed); else NULL. */
const struct file_pieces *file_came(const struct file_fetch *d, const char *path);
const struct file_fetch_opts *file_fetch_opts(const struct file_fetch *d);

/* A path for messages: each byte that is not printable ASCII becomes '?', and a long path is cut.
 * Returns out. */
const char *file_shown_path(const char *path, char out[300]);

/* --- file_want.c: files wanted on this node --- */

/* A trainer wants this file. id 0: it will need the file soon and expects no answer. */
struct file_channel;
void file_want(struct file_fetch *d, struct file_channel *c, uint32_t id, const char *path);
/* The head wants a copy of this file here. If it can't be had, the head hears of it. */
void file_want_copy(struct file_fetch *d, const char *path);
/* The channel is closed: forgets its requests. */
void file_forget_channel(struct file_fetch *d, const struct file_channel *c);
/* The head's answer to HD_FILE. If it is an error, `refused` is set and `body` is NULL. */
void file_on_holders(struct file_fetch *d, const struct wire_frame *f, const json_t *body,
                     const struct pd_err *refused);

/* --- file_asks.c: trainers' sockets --- */

struct file_asks;
/* `want` and `gone` are file_want and file_forget_channel. 0 or PD_ENOMEM. */
int file_asks_new(struct file_asks **out, struct file_fetch *d,
                  void (*want)(struct file_fetch *d, struct file_channel *c, uint32_t id,
                               const char *path),
                  void (*gone)(struct file_fetch *d, const struct file_channel *c),
                  struct pd_err *err);
int file_asks_open(struct file_asks *a, struct pd_err *err); /* file_fetch_channel */
void file_asks_close(struct file_asks *a);
void file_asks_free(struct file_asks *a); /* after the loop has ended; NULL is allowed */
/* Answers a trainer's request. err NULL: the file is in the workspace. */
void file_answer(struct file_channel *c, uint32_t id, const struct pd_err *err);

/* --- file_index.c: the head's list of all files and their holders --- */

struct file_index;
struct file_index *file_index_new(void);
void file_index_free(struct file_index *l);
/* Takes rows of an AG_DATA_LIST with `of` rows in total. `first` is the number of earlier rows; 0
 * starts a new list. 0, PD_EPROTO or PD_ENOMEM. */
size_t file_index_n(const struct file_index *l);
int file_index_is_whole(const struct file_index *l); /* all rows have come; NULL: 0 */
int file_index_take(struct file_index *l, uint64_t first, uint64_t of, const uint8_t *p, size_t n,
                    struct pd_err *err);
/* Finds a file's id and the nodes that have the file. 1: found. 0: there is no such file. The
 * arrays in *out are valid until the next call that changes the list. */
struct file_holders {
    struct object_id id;
    const int32_t *rank; /* FILE_RANKS ranks of trainers that got the file at the start; -1: none */
    const int32_t *node; /* n_nodes nodes to which the file came later */
    size_t n_nodes;
    uint64_t bytes; /* of the file */
};
/* File i of file_index_n, in the order of the list. Returns its path. */
const char *file_index_row(const struct file_index *l, size_t i, struct file_holders *out);
int file_index_find(const struct file_index *l, const char *path, struct file_holders *out);
/* The node has the file now. */
void file_index_note(struct file_index *l, const char *path, int32_t node);
enum { FILE_RANKS = 2 }; /* a file may be training data of one trainer and test data of another */

/* --- file_pull.c: one file, from one source after the other --- */

struct file_pull;
struct file_source { /* a node, or the launcher */
    json_t *addrs;   /* the node's addresses; borrowed */
    int port;
    struct client *client; /* the launcher; NULL: the source is a node */
};
/* `done` is called once for each source. If its err is NULL, the file is in the workspace, `done`
 * may take `pieces` over, and the pull ends itself. Otherwise file_pull_from may be called again:
 * what came is not asked for again. `number` names the file aside. */
int file_pull_new(struct file_pull **out, struct file_fetch *d, const char *path,
                  const struct object_id *id, uint64_t number,
                  void (*done)(void *arg, struct file_pieces *pieces, const struct pd_err *err),
                  void *arg, struct pd_err *err);
/* Asks a source; no other one may be under way. `number` names the pull in messages to a client.
 * PD_E*: `done` will not be called. */
int file_pull_from(struct file_pull *p, const struct file_source *from, uint64_t number,
                   struct pd_err *err);
/* At most so many bytes a second are asked for; 0: no limit. */
void file_pull_pace(struct file_pull *p, uint64_t bytes_per_s);
uint64_t file_pull_bytes(const struct file_pull *p); /* that have come and are written */
/* A client sent a DF_FILE or DF_DATA for this pull. */
void file_pull_frame(struct file_pull *p, uint16_t type, const uint8_t *payload, size_t n);
void file_pull_fail(struct file_pull *p, const struct pd_err *err);
/* Ends the pull; `done` is not called. */
void file_pull_drop(struct file_pull *p);

/* --- file_serve.c: nodes that take files from this node --- */

struct file_serve;
int file_serve_new(struct file_serve **out, struct file_fetch *d, struct pd_err *err);
void file_serve_free(struct file_serve *v); /* after the loop has ended; NULL is allowed */
void file_serve_tick(struct file_serve *v); /* closes takers that are silent for too long */
/* A frame from a taker, on a connection of the job's listener. Takes the frame over. */
void file_serve_frame(struct file_serve *v, struct net_conn *c, struct wire_frame *f);
void file_serve_gone(struct file_serve *v, struct net_conn *c);

/* --- file_here.c: the workspace --- */

/* 1: a package may contain this path: it is relative and has no empty, "." or ".." component. */
int file_path_ok(const char *path);
/* 1: a regular file, not reached through links. */
int file_is_here(const char *job_dir, const char *path);
/* Opens the file for reading. Returns a descriptor, PD_ENOENT or PD_EIO. */
int file_open_here(const char *job_dir, const char *path, struct pd_err *err);
/* Renames the finished file `aside` (absolute, on the same file system) to workspace/PATH, and
 * creates the folders on the way. Syncs to disk, so it runs on a thread. 0 or PD_EIO. */
int file_put_here(const char *job_dir, const char *aside, const char *path, struct pd_err *err);
