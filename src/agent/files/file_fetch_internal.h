/* SPDX-License-Identifier: Apache-2.0 */
/* file_fetch_internal.h - types and functions shared by file_fetch.c (the service), file_want.c
 * (wanted files) and file_known.c (known files). */
#pragma once

#include "agent/files/file_fetch.h"

enum { FILE_HOLDERS_MS = 5000 };

struct wanted_file;    /* a file that a trainer waits for or will need */
struct file_came_here; /* a file that came here after the job began */

/* A client that has the job's data files and can send them. */
struct file_feeder {
    struct file_feeder *next;
    struct client *client; /* NULL: the client did not send AG_DATA_FEED */
};

struct file_fetch {
    struct file_fetch_opts o;
    struct file_feeder *feeders; /* newest first */
    struct file_index *list;     /* on the head only */
    struct file_serve *serve;
    struct file_asks *asks;
    struct wanted_file *wanted, **wanted_end;
    uint64_t next_number;
    unsigned where_ms;          /* the limit for the head's answer; tests set a shorter one */
    uint64_t copy_rate;         /* FILE_COPY_RATE; tests set another one */
    struct file_copies *copies; /* the head with data_copies > 1, since a node is lost */
    struct file_came_here *came;
    size_t n_came, cap_came, n_pieces;
    uv_timer_t tick;
    int closing;
};

/* --- file_known.c --- */

/* On the head: {holders: [{node, name, addrs, port, lost}]} for node `asker`, a new reference. NULL
 * with err: no such file, or out of memory. */
json_t *file_holders_of(struct file_fetch *d, int asker, const char *path, struct object_id *id,
                        struct pd_err *err);
/* A file is in the workspace now. Remembers it for other nodes and tells the head. Takes the
 * contents of `pieces` over, or leaves them unchanged. */
void file_note_came(struct file_fetch *d, const char *path, struct file_pieces *pieces);
void file_known_release(struct file_fetch *d);
/* A file is in the workspace already: tells the head so if other nodes can take it from here, else
 * that it can't be a copy. */
void file_announce_one(struct file_fetch *d, const char *path);
/* This node can't get a copy: tells the head so. */
void file_refuse_copy(struct file_fetch *d, const char *path);
enum { FILE_HOLDERS = 2 * FILE_RANKS + 64 };
/* On the head: the nodes that have the file, each once: those to which it was sent first. */
size_t file_holder_nodes(const struct file_fetch *d, const struct file_holders *h,
                         int32_t node[FILE_HOLDERS]);

/* --- file_copies.c, on the head --- */

void file_copies_tick(struct file_fetch *d);
/* A node has a file now. */
void file_copies_here(struct file_fetch *d);
/* This node can't get a copy of the file. */
void file_copies_refused(struct file_fetch *d, int node, const char *path);
void file_copies_free(struct file_copies *k); /* NULL is allowed */

/* --- file_want.c --- */

void file_want_tick(struct file_fetch *d);
/* The job is ending: every waiting trainer gets an error. */
void file_want_end(struct file_fetch *d);
void file_want_client_gone(struct file_fetch *d, const struct client *c);
/* Handles a client's DF_FILE and DF_DATA for a file that is pulled from this client. */
void file_want_fed(struct file_fetch *d, const struct client *c, const struct wire_frame *f,
                   const json_t *body);
