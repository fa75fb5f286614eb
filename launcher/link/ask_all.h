/* gather.h - one conversation with every node at once, for what is no job: dispatch, stop, list.
 *
 * Each node's agent is reached, `talk` is called once it has said hello, and the node is over when
 * gather_done, gather_keep or gather_fail is called for it, or its connection breaks. Ctrl-C ends
 * the conversations. A link that was kept is used by the next gather_run, where it joins the job
 * that c->env.job then names. */
#ifndef LAUNCHER_GATHER_H
#define LAUNCHER_GATHER_H

#include "launcher/link/client_env.h"

struct gather;

struct gather_node {
    struct gather *g;
    int id;
    const struct host *host;
    struct link *link;
    int skip; /* set before gather_run: leave this node out */
    int over, kept;
    struct pd_err err;
    char *text;   /* whatever talk wants to keep; freed by gather_release */
    json_t *data; /* likewise */
};

struct gather {
    struct cluster *c;
    struct gather_node *nodes;
    void (*talk)(struct gather_node *n);
    void *arg;
    /* Set before gather_run, or NULL: what comes without having been asked for; the end of a
     * connection that nobody wanted, with n->err, or with `again` one that is kept (link_keep):
     * talk is called once more when it is back. */
    void (*on_frame)(struct gather_node *n, const struct wire_frame *f, json_t *body);
    void (*on_gone)(struct gather_node *n, int again, const struct pd_err *why);
    void (*on_closed)(struct gather_node *n); /* its link is gone, whether it was over or not;
                                                 before n->link is NULL */
    int interrupted;
    int has_signals;
    uv_signal_t signals[3];
};

/* Ctrl-C is ours from the first gather_run to gather_release. */
int gather_init(struct gather *g, struct cluster *c, struct pd_err *err);
/* Returns when all are over. The number of nodes that failed, those of an earlier gather_run among
 * them. May be called again with another `talk`; nodes with `skip` are left out. */
int gather_run(struct gather *g, void (*talk)(struct gather_node *n), void *arg);
/* As Ctrl-C does: all conversations end. */
void gather_interrupt(struct gather *g);
/* For who goes on with links of its nodes (taken out of them, and at once given callbacks of their
 * own by link_join): all else begins to close; gather_release after the loop has ended. */
void gather_leave(struct gather *g);
void gather_release(struct gather *g);

void gather_done(struct gather_node *n);
void gather_keep(struct gather_node *n); /* over, but its link stays */
void gather_fail(struct gather_node *n, const struct pd_err *err);

int gather_bad(const struct gather *g); /* how many hosts have failed */

/* Name every bad host on stderr. The exit status for them: 130 when interrupted, 2 when it is all
 * about what the user wrote, else 3. */
int gather_say(const struct gather *g);

#endif
