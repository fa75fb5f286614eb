/* SPDX-License-Identifier: Apache-2.0 */
/* ask_all.h - one conversation with every node at once, for commands that are no job: dispatch,
 * stop, list, check. ask_all_run opens a link to each node's agent and calls `talk` after AG_HELLO.
 * A node is over when ask_all_done, ask_all_keep or ask_all_fail is called for it, or when its
 * connection breaks. Ctrl-C ends all conversations. The next ask_all_run reuses a link that was
 * kept: the link joins the job that c->env.job names at that time. */
#pragma once

#include "launcher/link/client_env.h"

struct ask_all;

struct ask_all_node {
    struct ask_all *g;
    int id;
    const struct host *host;
    struct link *link;
    /* set before ask_all_run: leave this node out */
    int skip;
    int over, kept;
    struct pd_err err;
    int (*take)(struct ask_all_node *n, json_t *body, struct pd_err *err); /* ask_all_request */
    char *text;   /* for `talk`; freed by ask_all_release */
    json_t *data; /* for `talk`; released by ask_all_release */
};

struct ask_all {
    struct client_env *c;
    struct ask_all_node *nodes;
    void (*talk)(struct ask_all_node *n);
    void *arg;
    /* Set before ask_all_run; each may be NULL.
     * - on_frame: a frame that is no answer.
     * - on_gone: the connection ended although nobody asked for it; `why` is the reason. With
     *   `again` the link is kept (link_keep): `talk` is called once more when it is back.
     * - on_closed: the node's link is closed, whether the node is over or not. n->link becomes NULL
     *   afterwards. */
    void (*on_frame)(struct ask_all_node *n, const struct wire_frame *f, json_t *body);
    void (*on_gone)(struct ask_all_node *n, int again, const struct pd_err *why);
    void (*on_closed)(struct ask_all_node *n);
    int interrupted;
    int has_signals;
    uv_signal_t signals[3];
};

/* ask_all handles Ctrl-C from the first ask_all_run to ask_all_release. */
int ask_all_init(struct ask_all *g, struct client_env *c, struct pd_err *err);
/* Returns when all nodes are over: the number of failed nodes, those of earlier runs included. May
 * be called again with another `talk`. Nodes with `skip` are left out. */
int ask_all_run(struct ask_all *g, void (*talk)(struct ask_all_node *n), void *arg);
/* While ask_all_run runs: begin once more with a node that has failed and whose link is closed. */
void ask_all_begin(struct ask_all_node *n);
/* End all conversations, as Ctrl-C does. */
void ask_all_interrupt(struct ask_all *g);
/* For a caller that goes on with some of the links: take them out of the nodes and give them new
 * callbacks at once (link_join). All other links begin to close. Call ask_all_release after the
 * loop has ended. */
void ask_all_leave(struct ask_all *g);
void ask_all_release(struct ask_all *g);

void ask_all_done(struct ask_all_node *n);
void ask_all_keep(struct ask_all_node *n); /* the node is over, its link stays open */
void ask_all_fail(struct ask_all_node *n, const struct pd_err *err);

/* Send a request with these parameters of link_request; one at a time. `take` gets the answer; what
 * it returns, and every other failure, is the node's (ask_all_fail). */
void ask_all_request(struct ask_all_node *n, unsigned type, json_t *body, uint64_t timeout_ms,
                     const char *what,
                     int (*take)(struct ask_all_node *n, json_t *body, struct pd_err *err));

int ask_all_n_failed(const struct ask_all *g); /* number of failed hosts */

/* Print the failed hosts on stderr, those with equal errors in one line. Returns the exit status:
 * 130 if interrupted, 2 if all errors are the user's (usage, configuration), otherwise 3. */
int ask_all_report(const struct ask_all *g);
