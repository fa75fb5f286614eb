/* file_fetch_int.h - what file_fetch.c (the whole), file_want.c (what is wanted here) and
 * file_known.c (what is known) share. */
#ifndef PD_AGENT_FILE_FETCH_INT_H
#define PD_AGENT_FILE_FETCH_INT_H

#include "agent/files/file_fetch.h"

enum { FILE_HOLDERS_MS = 5000 };

struct wanted_file;    /* a file that somebody waits for, or will */
struct file_came_here; /* one that is here since */

/* A client that has the job's data files, too. */
struct file_feeder {
    struct file_feeder *next;
    struct client *client; /* NULL: it does not */
};

struct file_fetch {
    struct file_fetch_opts o;
    struct file_feeder *feeders; /* the newest first */
    struct file_index *list;     /* node 0 */
    struct file_serve *serve;
    struct file_asks *asks;
    struct wanted_file *wanted, **wanted_end;
    uint64_t next_number;
    unsigned where_ms; /* for node 0's answer; tests have no patience */
    struct file_came_here *came;
    size_t n_came, cap_came, n_pieces;
    uv_timer_t tick;
    int closing;
};

/* --- file_known.c --- */

/* {holders: [{node, name, addrs, port, lost}]} for node `asker`, on node 0. NULL: no such file, or
 * out of memory. */
json_t *file_holders_of(struct file_fetch *d, int asker, const char *path, struct object_id *id,
                        struct pd_err *err);
/* It is in the workspace now: others may have it from here, and node 0 hears of it. Takes `pieces`
 * over, or leaves them. */
void file_note_came(struct file_fetch *d, const char *path, struct file_pieces *pieces);
void file_known_release(struct file_fetch *d);

/* --- file_want.c --- */

void file_want_tick(struct file_fetch *d);
void file_want_end(struct file_fetch *d); /* the job is ending: everybody is told */
void file_want_client_gone(struct file_fetch *d, const struct client *c);
/* DF_FILE and DF_DATA of what was asked of a client. */
void file_want_fed(struct file_fetch *d, const struct client *c, const struct wire_frame *f,
                   const json_t *body);

#endif
