/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - subscribes to the logs of a job's nodes, merges them by time and shows them.
 *
 *     links ── AG_LOG ──▶ merge ──▶ show ──▶ view            lines
 *       ▲                   │
 *       └──── AG_LOG_ACK ───┘ lines that the view took: with a slow reader
 *                           the rest stays in the files of the nodes
 *     links ── events ──▶ on_event                           at once, not merged
 *
 * The owner of the links reports when a link opens, is lost or closes. After a lost link is open
 * again, the log of the node continues where it stopped. */
#pragma once

#include "launcher/link/link.h"
#include "launcher/view/show.h"

enum { FOLLOW_SERVER_LOG = 1, FOLLOW_TRAIN_LOG = 2 };

struct follow_node { /* the caller keeps these until follow_free */
    const char *host;
    int skip; /* 1: do not subscribe to the logs of this node */
};

struct follow_opts {
    uv_loop_t *loop;
    struct view *view;
    const struct follow_node *nodes;
    unsigned n_nodes;
    unsigned streams; /* FOLLOW_*: the streams to show */
    int only_history; /* 1: end at the size that the logs had at subscription */
    int onlooker;     /* 1: this connection does not extend the job's lease */
    /* follow_new fills in the sources; the nodes also begin their logs by since_us and tail. */
    struct show_opts show;
    /* NULL: do not subscribe to events. */
    void (*on_event)(void *arg, unsigned node, const char *json, size_t n);
    void (*on_done)(void *arg, unsigned node); /* the node has sent all its logs */
    /* The subscription failed; may be NULL. */
    void (*on_fail)(void *arg, unsigned node, const struct pd_err *err);
    void (*on_broken)(void *arg); /* the reader of the output is gone; may be NULL */
    void *arg;
};

struct follow;
int follow_new(struct follow **out, const struct follow_opts *o, struct pd_err *err);
void follow_begin(struct follow *f, unsigned node,
                  struct link *l);                 /* the link is open, or open again */
void follow_lost(struct follow *f, unsigned node); /* the link is lost and may come back */
void follow_gone(struct follow *f, unsigned node); /* the link does not come back */
/* Returns 1 if the frame belonged to a log. */
int follow_frame(struct follow *f, unsigned node, const struct wire_frame *frame,
                 const json_t *body);

int follow_is_done(const struct follow *f, unsigned node); /* all logs of the node have arrived */
/* 1: no line waits to be shown, and all nodes are done or gone. */
int follow_is_shown(const struct follow *f);
/* 1: the output still has lines to write, or some kB have arrived since the last call. */
int follow_is_moving(struct follow *f);

/* The processes start, or have started (show_starting). */
void follow_starting(struct follow *f, int starting);
/* No more bytes arrive: show all remaining lines without waiting for any node. */
void follow_flush(struct follow *f);
size_t follow_peak_bytes(const struct follow *f); /* the most bytes held at a time */
/* Close the handles in the loop. Call follow_free after the loop has ended. */
void follow_close(struct follow *f);
void follow_free(struct follow *f);
