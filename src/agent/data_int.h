/* data_int.h - what data.c (the whole, node 0's answers, the client's messages) and data_want.c (what is wanted here) share. */
#ifndef PD_AGENT_DATA_INT_H
#define PD_AGENT_DATA_INT_H

#include "agent/data.h"

enum { DATA_WHERE_MS = 5000 };

struct wanted; /* a file that somebody waits for, or will */
struct came;   /* one that is here since */

struct data {
    struct job *j;
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

/* {holders: [{node, name, addrs, port, lost}]} for node `asker`, on node 0; NULL: no such file. */
json_t *data_holders_of(struct data *d, int asker, const char *path, struct object_id *id);
/* It is in the workspace now: others may have it from here, and node 0 hears of it. Takes `pieces` over, or leaves them. */
void data_came_here(struct data *d, const char *path, struct file_pieces *pieces);

/* --- data_want.c --- */

void wanted_tick(struct data *d);
void wanted_end(struct data *d); /* the job is ending: everybody is told */

#endif
