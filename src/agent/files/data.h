/* data.h - data files apart, after the job has begun: one that a trainer opens and that is not in its workspace comes from whoever has it.
 *
 *     trainer ─PADDLE_DATA_FD─▶ data_ask.c ─▶ data_want.c ──HD_FILE──▶ node 0: data.c, data_list.c   which bytes is it, and who has it?
 *                                 └▶ data_pull.c ──DF_*──▶ a holder's data_serve.c, the next one's, the launcher
 *                                      └▶ .agent/data-N, every object compared with its id ─▶ workspace/PATH
 *
 * The launcher tells node 0 the file ids (pack/store/file_pieces.h), so no other node has to be trusted. Nothing here waits on the loop's
 * thread: files are read, checked and written on threads of the pool. Internal to src/agent.
 */
#ifndef PD_AGENT_DATA_H
#define PD_AGENT_DATA_H

#include "agent/client/client.h"
#include "agent/core/kept_data.h"
#include "agent/core/peer_id.h"
#include "agent/core/seal.h"
#include "agent/core/spec.h"
#include "pack/store/file_pieces.h"

enum {
    DATA_WINDOW = 4 << 20, DATA_CLIENT_WINDOW = 1 << 20, /* bytes asked for and not here, of a file: of a node; of a client, who may have many nodes */
    DATA_NEED_MAX = 512,    /* ids in one DF_NEED */
    DATA_FRAME = 1 << 20,   /* bytes of records, or of pieces, in one frame */
    DATA_IDLE_MS = 20000,   /* a source that is silent for so long is given up */
};

struct data;

/* --- data.c: the whole --- */

/* Upwards. */
struct data_io {
    /* Member: HD_FILE or HD_FILE_HERE, with these bytes, to node 0; dropped when it is not joined. */
    void (*ask_head)(void *arg, uint16_t type, uint64_t req, const void *p, size_t n);
    int (*is_joined)(void *arg);
    /* Node 0: what it knows of a node: {node, name, addrs, port, lost}. A new reference; NULL: nothing. */
    json_t *(*peer)(void *arg, int node);
};

struct data_opts {
    struct agent_core *core;
    const struct spec *spec;
    const struct peer_id *self;
    struct kept_data *kept; /* which package of data files came here */
    const struct data_io *io;
    void *arg;
};

/* From a client: AG_DATA_LIST, AG_DATA_FEED, DF_FILE, DF_DATA. The context is a struct data *const *, which is NULL while there is none. */
extern const struct client_service data_service;

/* What the options point to outlives it. */
int data_new(struct data **out, const struct data_opts *o, struct pd_err *err);
void data_close(struct data *d); /* NULL is fine, for both */
void data_free(struct data *d);  /* once the loop has ended */
/* A descriptor for a trainer's process, whose other end is read here; -1 with err. */
int data_channel(struct data *d, struct pd_err *err);
/* On node 0: a node's HD_FILE_HERE, or its HD_FILE. The answer to that is *body with the file's id, or PD_E*; 1: there is no answer. */
int data_on_asked(struct data *d, int node, const struct wire_frame *f, json_t **body, struct object_id *id, struct pd_err *err);
/* The file's pieces, when it came here after the job began; else NULL. */
const struct file_pieces *data_came(const struct data *d, const char *path);
const struct data_opts *data_opts(const struct data *d);
struct data_serve *data_server(const struct data *d);

/* A path as messages show it: what is no printable text becomes '?'. */
const char *data_shown(const char *path, char out[300]);

/* --- data_want.c: what is wanted here --- */

/* A trainer wants this file; id 0: it will need it soon. */
struct data_channel;
void data_want(struct data *d, struct data_channel *c, uint32_t id, const char *path);
void data_forget(struct data *d, const struct data_channel *c); /* its process is gone */
/* Node 0's answer to HD_FILE; `refused` instead of a body when it is an error. */
void data_on_where(struct data *d, const struct wire_frame *f, const json_t *body, const struct pd_err *refused);

/* --- data_ask.c: trainers' sockets --- */

struct data_asks;
int data_asks_new(struct data_asks **out, struct data *d, struct pd_err *err);
int data_asks_open(struct data_asks *a, struct pd_err *err); /* data_channel */
void data_asks_close(struct data_asks *a);
void data_asks_free(struct data_asks *a); /* once the loop has ended; NULL is fine */
void data_answer(struct data_channel *c, uint32_t id, const struct pd_err *err); /* NULL: the file is there */

/* --- data_list.c: on node 0, all files and their holders --- */

struct data_list;
struct data_list *data_list_new(void);
void data_list_free(struct data_list *l);
/* Rows of an AG_DATA_LIST, of which `first` have come; 0 begins anew. PD_EPROTO. */
size_t data_list_n(const struct data_list *l);
int data_list_take(struct data_list *l, uint64_t first, uint64_t of, const uint8_t *p, size_t n, struct pd_err *err);
/* Its id, and the nodes that have it: 1; 0: there is no such file. The array is valid until the next call that changes the list. */
struct data_holders {
    struct object_id id;
    const int32_t *rank; /* of trainers: n_ranks of them, -1: none */
    const int32_t *node; /* it came there later */
    size_t n_nodes;
};
int data_list_find(const struct data_list *l, const char *path, struct data_holders *out);
void data_list_note(struct data_list *l, const char *path, int32_t node); /* it has it now */
enum { DATA_RANKS = 2 }; /* a file may be training data of one trainer and test data of another */

/* --- data_pull.c: one file from one source --- */

struct data_pull;
struct data_source_of {   /* who is asked */
    json_t *addrs;        /* of a node; borrowed */
    int port;
    struct client *client; /* or the launcher */
};
/* `done` is called once, never from inside data_pull_new: err is NULL when the file is in the workspace, and `pieces` may be taken over. */
int data_pull_new(struct data_pull **out, struct data *d, const char *path, const struct object_id *id, const struct data_source_of *from, uint64_t number,
                  void (*done)(void *arg, struct file_pieces *pieces, const struct pd_err *err), void *arg, struct pd_err *err);
/* What came from a client for this pull. */
void data_pull_frame(struct data_pull *p, uint16_t type, const uint8_t *payload, size_t n);
void data_pull_fail(struct data_pull *p, const struct pd_err *err);
/* It is not wanted any more, `done` is not called. */
void data_pull_drop(struct data_pull *p);

/* --- data_serve.c: takers of files that are here --- */

struct data_serve;
int data_serve_new(struct data_serve **out, struct data *d, struct pd_err *err);
void data_serve_free(struct data_serve *v); /* once the loop has ended; NULL is fine */
void data_serve_tick(struct data_serve *v); /* takers that are silent for too long go */
/* A connection of the job's listener whose peer is a taker; frames are the callee's. */
void data_serve_frame(struct data_serve *v, struct net_conn *c, struct wire_frame *f);
void data_serve_gone(struct data_serve *v, struct net_conn *c);

/* --- data_place.c: the workspace --- */

/* Is it a path that may be in a package: relative, clean, without ".."? */
int data_path_ok(const char *path);
int data_is_here(const char *job_dir, const char *path);                 /* a regular file, not through links */
int data_open_here(const char *job_dir, const char *path, struct pd_err *err); /* to read it; PD_ENOENT */
/* The finished file `aside` (absolute, on the same file system) becomes workspace/PATH; folders on the way are made. On a thread. */
int data_put_here(const char *job_dir, const char *aside, const char *path, struct pd_err *err);

#endif
