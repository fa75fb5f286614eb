/* data_int.h - what data.c (the whole, node 0's answers, the client's messages) and data_want.c (what is wanted here) share. */
#ifndef PD_AGENT_DATA_INT_H
#define PD_AGENT_DATA_INT_H

#include "agent/files/data.h"

enum { DATA_WHERE_MS = 5000 };

struct wanted; /* a file that somebody waits for, or will */
struct came;   /* one that is here since */

/* A client that has the job's data files, too. */
struct data_feeder {
    struct data_feeder *next;
    struct client *client; /* NULL: it does not */
};

struct data {
    struct data_opts o;
    struct data_feeder *feeders; /* the newest first */
    struct data_list *list; /* node 0 */
    struct data_serve *serve;
    struct data_asks *asks;
    struct wanted *wanted, **wanted_end;
    uint64_t next_number;
    unsigned where_ms;      /* for node 0's answer; tests have no patience */
    struct came *came;
    size_t n_came, cap_came, n_pieces;
    uv_timer_t tick;
    int closing;
};

/* --- data.c --- */

/* {holders: [{node, name, addrs, port, lost}]} for node `asker`, on node 0. NULL: no such file, or out of memory. */
json_t *data_holders_of(struct data *d, int asker, const char *path, struct object_id *id, struct pd_err *err);
/* It is in the workspace now: others may have it from here, and node 0 hears of it. Takes `pieces` over, or leaves them. */
void data_came_here(struct data *d, const char *path, struct file_pieces *pieces);

/* --- data_want.c --- */

void wanted_tick(struct data *d);
void wanted_end(struct data *d); /* the job is ending: everybody is told */
void wanted_client_gone(struct data *d, const struct client *c);
/* DF_FILE and DF_DATA of what was asked of a client. */
void wanted_fed(struct data *d, const struct client *c, const struct wire_frame *f, const json_t *body);

#endif
