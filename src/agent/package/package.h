/* package.h - packages that come as objects (DS_*). Each DS_BEGIN of a client makes a struct
 * package, which lives until the client leaves.
 *
 *     client ──DS_BEGIN, DS_OBJECT──▶ package_requests.c ─┐
 *     source ◀─DS_NEED, DS_OBJECT───▶ package_pull.c ─────┼─▶ package.c ─▶ package_work.c
 *     takers ◀─DS_NEED, DS_OBJECT───▶ package_serve.c ────┘   (the loop)   (a pool's thread)
 *
 * A turn of work checks records, writes them, reads objects for takers and encodes them. One turn
 * at a time runs for a package, and owns its struct package_work while `busy`. Between two turns
 * the loop hands over what came in and sends what came out. So there are no locks.
 *
 * Memory of a package: at most 16 MiB that were asked for, a cache of records for takers, and at
 * most 4 MiB in the queue of each taker's connection.
 */
#ifndef PD_AGENT_PACKAGE_H
#define PD_AGENT_PACKAGE_H

#include "agent/client/client.h"
#include "agent/core/kept_data.h"
#include "agent/core/seal.h"
#include "pack/store/assemble.h"

enum package_kind {
    PACKAGE_WORKER,
    PACKAGE_DEPLOY,
    PACKAGE_WORKSPACE,
    PACKAGE_DATA,
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
    PACKAGES_MAX = 8, /* packages of a client; the oldest that is over makes room for a new one */
    PACKAGE_TAKERS = 16,     /* nodes that take one package from here */
    PACKAGE_NEED_MAX = 4096, /* ids in one message, and ids that one taker waits for */
    PACKAGE_FRAME = 1 << 20, /* bytes of records in a message that is received */
    PACKAGE_OUT = 512 << 10, /* bytes of records in a message that is sent */
    PACKAGE_QUEUE = 4 << 20, /* bytes on the way to one taker */
    PACKAGE_INPUT = 64,      /* what a message costs beside its bytes */
    /* Limits of what may wait for the next turn of work: a taker's ids, even with one id a message;
     * records, of which a slow source and the one that took its place may each send 16 MiB. */
    PACKAGE_NEED_UNREAD = 3 * OBJECT_ID * PACKAGE_NEED_MAX,
    PACKAGE_UNREAD = 64 << 20,
    PACKAGE_CACHE = 512, /* records kept for takers */
    PACKAGE_CACHE_BYTES = 12 << 20,
};

/* Something for the next turn of work. `p` is malloc'ed, or points into `frame`. */
struct package_input {
    struct package_input *next;
    enum package_what { PACKAGE_IN_RECORDS, PACKAGE_IN_NEED, PACKAGE_IN_AGAIN } what;
    struct package_taker *taker;
    struct wire_frame *frame;
    uint8_t *p;
    size_t n;
};

/* A node that takes this package from us. */
struct package_taker {
    struct package_taker *next;
    struct package *package;     /* NULL before DS_PULL, and when the package is gone */
    struct client_packages *all; /* whose packages this node serves */
    struct net_conn *conn;       /* NULL: the taker is gone */
    struct seal seal;
    int refused;   /* the taker was told why, and will close */
    size_t unread; /* bytes of its DS_NEED that wait for the next turn of work */
    size_t room;   /* set before a turn of work: bytes that may be sent */
    /* of the turn of work */
    struct object_id *ready;   /* asked for, to be looked up */
    struct object_id *waiting; /* asked for, and not here yet */
    size_t n_ready, n_waiting;
    struct pd_buf out; /* records for the taker */
    struct pd_err err; /* it asks for an object that this node will never have */
};

struct package_cached {
    struct object_id id;
    uint8_t *record; /* with its header */
    size_t n;
};

/* What a turn of work owns. */
struct package_work {
    struct node_paths paths;
    enum package_kind kind;
    char target[PATH_MAX];
    char lies_in[PATH_MAX]; /* of PACKAGE_DATA: see assemble.h */
    char packed[PATH_MAX];  /* of a packed worker: the file that is unpacked to `target`; else "" */
    uint8_t *root;
    size_t root_n;
    int begun, serves;
    int have;            /* the target is there, nothing is assembled */
    int finish, give_up; /* what this turn is to do */
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
    int held; /* of finished data files: a descriptor (assemble_hold) for the loop; 0: none */
    /* its own */
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
    enum package_state state;
    struct package_work w;
    int busy;
    int dead; /* dropped: what is unfinished is removed (cleaning, cleaned), then it is freed */
    int cleaning, cleaned;
    uv_work_t work;
    uv_timer_t timer;
    struct package_input *inputs, **inputs_end;
    size_t unread; /* bytes of the records among them */
    struct package_taker *takers;
    int finishing; /* the turn of work under way finishes */
    struct pd_err failed;
    /* the source */
    int source; /* PACKAGE_LAUNCHER, PACKAGE_NO_SOURCE, else the node */
    int reached;
    struct pd_err why; /* the source's failure */
    struct package_pull *pull;
    uint64_t source_ns; /* when the client named it */
    uint64_t active_ns; /* when something came from the source, or the first object was asked for */
    /* for DS_STATUS */
    struct assemble_totals totals; /* after the last turn of work */
    uint64_t served;
    uint64_t rate_ns, rate_bytes, rate;
    uint64_t said_ns, said_asked;
};

/* Of a client. */
struct package_serve;
struct client_packages {
    struct client *c;
    struct kept_data *kept;
    struct package *first;       /* the newest */
    struct package_serve *serve; /* a port for nodes that take them from here, or NULL */
};

/* --- package_requests.c --- */

/* DS_BEGIN, _SOURCE, _OBJECT, _SERVE, _ABORT. The context is a struct kept_data *. */
extern const struct client_service package_service;
/* The client is gone, or its job begins: every node has the packages that it needs. */
void packages_drop(struct client *c);

/* --- package.c --- */

extern const char *const package_kind_names[N_PACKAGE_KINDS];
static inline int package_is_over(const struct package *d) {
    return d->state == PACKAGE_DONE || d->state == PACKAGE_FAILED;
}

/* Adds a package, whose target is known, to those of its client. */
int package_start(struct package *d, struct pd_err *err);
/* With a secret (of WIRE_KEY_BYTES) the node that DS_SOURCE's `body` names; without one the
 * launcher. */
void package_set_source(struct package *d, const json_t *body, const uint8_t *secret);
/* Removes an unfinished tree, then the package; a finished tree stays. */
void package_drop(struct package *d);
struct package *package_find(const struct client_packages *all, const struct object_id *root);
/* Whether n more bytes, of a taker's ids or (t NULL) of records, may wait for the next turn of
 * work. */
int package_may_wait(const struct package *d, const struct package_taker *t, size_t n);
/* Both take the bytes over, also on failure. */
void package_input(struct package *d, enum package_what what, struct package_taker *t, uint8_t *p,
                   size_t n);
void package_put(struct package *d, const struct package_input *what);
void package_next_turn(struct package *d); /* starts a turn of work, if there is something to do */
void package_fail(struct package *d, const struct pd_err *e); /* the package can't be completed */
/* Removes the taker, and what it asked for, from the package's lists. */
void package_forget_taker(struct package *d, const struct package_taker *t);
/* After a taker has left: frees a dropped package, if nothing holds it. */
void package_settle(struct package *d);

/* --- package_work.c: on a thread of the pool --- */
void package_work_turn(struct package_work *w);
void package_work_end(struct package_work *w); /* removes what is unfinished */
void package_work_release(struct package_work *w);

/* --- package_pull.c: the connection to a node that is the source --- */
struct package_pull_events {
    void (*on_open)(void *arg);
    int (*on_records)(void *arg, uint8_t *p,
                      size_t n); /* takes p over; -1: more than was asked for */
    void (*on_failed)(void *arg, const struct pd_err *why); /* the last event: the pull is gone */
};
struct package_pull;
int package_pull_new(struct package_pull **out, struct agent_core *core,
                     const struct object_id *root, const json_t *body, const uint8_t *secret,
                     const struct package_pull_events *ev, void *arg, struct pd_err *err);
void package_pull_need(struct package_pull *p, const struct object_id *ids, size_t n);
void package_pull_close(struct package_pull *p); /* no event comes after it; NULL is fine */

/* --- package_taker.c: a node that takes from us --- */
void package_taker_refuse(struct package_taker *t, const struct pd_err *e);
void package_taker_gone(struct package_taker *t);  /* frees it; not while a turn of work has it */
void package_taker_flush(struct package_taker *t); /* sends what a turn of work has left */

/* --- package_serve.c: the port where nodes take from us --- */
/* DS_SERVE. */
int package_serve_begin(struct client_packages *all, const struct wire_frame *f, const json_t *body,
                        struct pd_err *err);
void package_serve_close(struct client_packages *all);

#endif
