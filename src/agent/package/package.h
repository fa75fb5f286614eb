/* SPDX-License-Identifier: Apache-2.0 */
/* package.h - packages that come as objects (DS_*). Each DS_BEGIN of a client creates a struct
 * package, which lives until the client leaves.
 *
 *     client ──DS_BEGIN, DS_OBJECT──▶ package_requests.c ─┐
 *     source ◀─DS_NEED, DS_OBJECT───▶ source_link ────────┼─▶ package.c ─▶ package_work.c
 *     takers ◀─DS_NEED, DS_OBJECT───▶ package_serve.c ────┘   (the loop)   (a pool's thread)
 *
 * A turn of work checks records, writes them, reads objects for takers and encodes them. At most
 * one turn runs for a package. The turn owns the struct package_work while `busy`. Between two
 * turns the loop passes the input to the next turn and sends the output of the last one. Therefore
 * no locks are needed.
 *
 * Memory of a package: at most 16 MiB of requested objects, a cache of records for takers, and at
 * most 4 MiB in the queue of each taker's connection. */
#pragma once

#include "agent/client/client.h"
#include "agent/core/kept_data.h"
#include "agent/core/source_link.h"
#include "pack/store/assemble.h"
#include "wire/client_bodies.h"

enum package_kind {
    PACKAGE_WORKER,
    PACKAGE_DEPLOY,
    PACKAGE_WORKSPACE,
    PACKAGE_DATA,
    PACKAGE_RESUME,
    N_PACKAGE_KINDS
};
enum { PACKAGE_NO_SOURCE = -2, PACKAGE_LAUNCHER = -1 };
enum package_state {
    PACKAGE_WAITING,
    PACKAGE_FETCHING,
    PACKAGE_FINISHING,
    PACKAGE_DONE,
    PACKAGE_FAILED
};
enum {
    PACKAGES_MAX = 8,        /* of a client; the oldest finished package makes room for a new one */
    PACKAGE_TAKERS = 16,     /* nodes that take one package from this node */
    PACKAGE_NEED_MAX = 4096, /* ids in one message, and requested ids of one taker */
    PACKAGE_FRAME = 1 << 20, /* bytes of records in a received message */
    PACKAGE_OUT = 512 << 10, /* bytes of records in a sent message */
    PACKAGE_QUEUE = 4 << 20, /* bytes queued for one taker */
    PACKAGE_INPUT = 64,      /* memory of a message in addition to its bytes */
    /* Limits in bytes for the input of the next turn of work. PACKAGE_NEED_UNREAD: a taker's ids,
     * even with one id per message. PACKAGE_UNREAD: records; a slow source and its successor may
     * each send 16 MiB. */
    PACKAGE_NEED_UNREAD = 3 * OBJECT_ID * PACKAGE_NEED_MAX,
    PACKAGE_UNREAD = 64 << 20,
    PACKAGE_CACHE = 512, /* records kept for takers */
    PACKAGE_CACHE_BYTES = 12 << 20,
};

/* An input of the next turn of work. `p` is malloc'ed, or points into `frame`. */
struct package_input {
    struct package_input *next;
    enum package_what { PACKAGE_IN_RECORDS, PACKAGE_IN_NEED, PACKAGE_IN_AGAIN } what;
    struct package_taker *taker;
    struct wire_frame *frame;
    uint8_t *p;
    size_t n;
};

/* A node that takes a package from this node. */
struct package_taker {
    struct package_taker *next;
    struct package *package;     /* NULL before DS_PULL */
    struct client_packages *all; /* the client whose packages are served */
    struct net_conn *conn;       /* NULL: the taker is gone */
    int refused;                 /* an error was sent; the taker will close the connection */
    size_t unread;               /* bytes of its DS_NEED in the next turn's input */
    size_t room;                 /* set before a turn of work: the bytes that it may produce */
    /* owned by the turn of work */
    struct object_id *ready;   /* requested ids, to be looked up */
    struct object_id *waiting; /* requested ids whose objects have not come yet */
    size_t n_ready, n_waiting;
    struct pd_buf out; /* records for the taker */
    struct pd_err err; /* the taker's requests can't be served */
};

struct package_cached {
    struct object_id id;
    uint8_t *record; /* with its header */
    size_t n;
};

/* The data that a turn of work owns. */
struct package_work {
    struct node_paths paths;
    enum package_kind kind;
    char target[PATH_MAX];
    char lies_in[PATH_MAX]; /* for PACKAGE_DATA: see assemble.h */
    char packed[PATH_MAX];  /* for a packed worker: the file to unpack to `target`; else "" */
    uint8_t *root;
    size_t root_n;
    int begun, serves;
    int have;            /* the target exists; no assembling */
    int finish, give_up; /* requests to this turn */
    uint64_t due;        /* of the client's other packages, for the first turn: see assemble.h */
    uint64_t store_limit;
    struct package_input *inputs;
    struct package_taker **takers;
    size_t n_takers;
    /* results */
    struct pd_err err;
    int more, complete, finished;
    struct object_id need[PACKAGE_NEED_MAX];
    size_t n_need;
    uint64_t served;
    struct assemble_totals totals;
    int held; /* finished data files: a descriptor (assemble_hold) for the loop; 0: none */
    /* used by the turn only */
    struct store *st;
    struct assemble *a;
    struct object_codec *codec;
    struct package_cached cache[PACKAGE_CACHE];
    size_t cache_next, cache_bytes;
    uint8_t buf[OBJECT_MAX];
};

struct package {
    struct package *next;
    struct client_packages *all;
    uint64_t req;
    struct object_id root_id;
    uint64_t bytes; /* announced by the root; 0: it is damaged */
    enum package_state state;
    struct package_work w;
    int busy;
    int dead; /* dropped: an unfinished tree is removed (cleaning, cleaned), then d is freed */
    int cleaning, cleaned;
    uv_work_t work;
    uv_timer_t timer;
    struct package_input *inputs, **inputs_end;
    size_t unread; /* bytes of the records in `inputs` */
    struct package_taker *takers;
    int finishing; /* the current turn of work finishes the package */
    struct pd_err failed;
    /* the source */
    int source; /* PACKAGE_LAUNCHER, PACKAGE_NO_SOURCE, or a node's id */
    int reached;
    struct pd_err why; /* the source's failure */
    struct source_link *pull;
    uint64_t source_ns; /* time of the client's DS_SOURCE */
    uint64_t active_ns; /* time of the last records, of the connection, or of the first request */
    /* for DS_STATUS */
    struct assemble_totals totals; /* as of the last turn of work */
    uint64_t served;
    uint64_t rate_ns, rate_bytes, rate;
    uint64_t said_ns, said_asked;
};

/* The packages of a client. */
struct package_serve;
struct client_packages {
    struct client *c;
    struct kept_data *kept;
    struct package *first;       /* the newest package */
    struct package_serve *serve; /* the port where nodes take them from this node, or NULL */
};

/* --- package_requests.c --- */

/* Handles DS_BEGIN, _SOURCE, _OBJECT, _SERVE, _ABORT. The context is a struct kept_data *. */
extern const struct client_service package_service;
/* Drops all packages of a client. The client is gone, or its job begins and every node has its
 * packages. */
void packages_drop(struct client *c);

/* --- package.c --- */

extern const char *const package_kind_names[N_PACKAGE_KINDS];
static inline int package_is_over(const struct package *d) {
    return d->state == PACKAGE_DONE || d->state == PACKAGE_FAILED;
}

/* Adds a package with a known target to the packages of its client. 0 or PD_ENOMEM; takes d over if
 * 0. */
int package_start(struct package *d, struct pd_err *err);
/* Sets the source. With a secret (WIRE_KEY_BYTES long) it is the node in DS_SOURCE's `body`; with
 * NULL it is the launcher. */
void package_set_source(struct package *d, const struct ds_source *m, const uint8_t *secret);
/* Removes an unfinished tree, then the package; a finished tree stays. */
void package_drop(struct package *d);
struct package *package_find(const struct client_packages *all, const struct object_id *root);
/* 1: n more bytes may be added to the next turn's input: of the ids of taker t, or of records (t
 * NULL). */
int package_may_wait(const struct package *d, const struct package_taker *t, size_t n);
/* Add an input for the next turn of work. Both functions take the bytes over, also on failure. */
void package_input(struct package *d, enum package_what what, struct package_taker *t, uint8_t *p,
                   size_t n);
void package_put(struct package *d, const struct package_input *what);
void package_next_turn(struct package *d); /* starts a turn of work, if there is work */
void package_fail(struct package *d, const struct pd_err *e); /* the package can't be completed */
/* Removes the taker and its requests from the package's lists. */
void package_forget_taker(struct package *d, const struct package_taker *t);
/* Called after a taker has left. Frees a dropped package that is no longer in use. */
void package_settle(struct package *d);

/* --- package_work.c: on a thread of the pool --- */
void package_work_turn(struct package_work *w);
void package_work_end(struct package_work *w); /* removes an unfinished tree */
void package_work_release(struct package_work *w);

/* --- package_taker.c: a node that takes from this node --- */
void package_taker_refuse(struct package_taker *t, const struct pd_err *e);
/* Frees t; not allowed while a turn of work uses t. */
void package_taker_gone(struct package_taker *t);
void package_taker_flush(struct package_taker *t); /* sends the output of the last turn of work */

/* --- package_serve.c: the port where nodes take from this node --- */
/* Handles DS_SERVE: opens the port and answers. 0 or PD_E*. */
int package_serve_begin(struct client_packages *all, const struct wire_frame *f, const json_t *body,
                        struct pd_err *err);
void package_serve_close(struct client_packages *all);
