/* gather.h - one conversation with every node at once, for what is no job: dispatch, stop, list.
 *
 * Each node's agent is reached, `talk` is called once it has said hello, and the node is over when
 * ask_all_done, ask_all_keep or ask_all_fail is called for it, or its connection breaks. Ctrl-C
 * ends the conversations. A link that was kept is used by the next ask_all_run, where it joins the
 * job that c->env.job then names. */
#ifndef LAUNCHER_ASK_ALL_H
#define LAUNCHER_ASK_ALL_H

#include "launcher/link/client_env.h"

struct ask_all;

struct ask_all_node {
    struct ask_all *g;
    int id;
    const struct host *host;
    struct link *link;
    int skip; /* set before ask_all_run: leave this node out */
    int over, kept;
    struct pd_err err;
    char *text;   /* whatever talk wants to keep; freed by ask_all_release */
    json_t *data; /* likewise */
};

struct ask_all {
    struct client_env *c;
    struct ask_all_node *nodes;
    void (*talk)(struct ask_all_node *n);
    void *arg;
    /* Set before ask_all_run, or NULL: what comes without having been asked for; the end of a
     * connection that nobody wanted, with n->err, or with `again` one that is kept (link_keep):
     * talk is called once more when it is back. */
    void (*on_frame)(struct ask_all_node *n, const struct wire_frame *f, json_t *body);
    void (*on_gone)(struct ask_all_node *n, int again, const struct pd_err *why);
    void (*on_closed)(struct ask_all_node *n); /* its link is gone, whether it was over or not;
                                                 before n->link is NULL */
    int interrupted;
    int has_signals;
    uv_signal_t signals[3];
};

/* Ctrl-C is ours from the first ask_all_run to ask_all_release. */
int ask_all_init(struct ask_all *g, struct client_env *c, struct pd_err *err);
/* Returns when all are over. The number of nodes that failed, those of an earlier ask_all_run among
 * them. May be called again with another `talk`; nodes with `skip` are left out. */
int ask_all_run(struct ask_all *g, void (*talk)(struct ask_all_node *n), void *arg);
/* As Ctrl-C does: all conversations end. */
void ask_all_interrupt(struct ask_all *g);
/* For who goes on with links of its nodes (taken out of them, and at once given callbacks of their
 * own by link_join): all else begins to close; ask_all_release after the loop has ended. */
void ask_all_leave(struct ask_all *g);
void ask_all_release(struct ask_all *g);

void ask_all_done(struct ask_all_node *n);
void ask_all_keep(struct ask_all_node *n); /* over, but its link stays */
void ask_all_fail(struct ask_all_node *n, const struct pd_err *err);

int ask_all_n_failed(const struct ask_all *g); /* how many hosts have failed */

/* Name every bad host on stderr. The exit status for them: 130 when interrupted, 2 when it is all
 * about what the user wrote, else 3. */
int ask_all_report(const struct ask_all *g);

#endif
