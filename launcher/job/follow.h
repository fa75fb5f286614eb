/* follow.h - the logs of a job's nodes, subscribed, merged by time and shown.
 *
 *     links ── AG_LOG ──▶ merge ──▶ show ──▶ view            lines
 *       ▲                   │
 *       └──── AG_LOG_ACK ───┘ what has gone out to the view: who reads slowly leaves the rest in the nodes' files
 *     links ── events ──▶ on_event                           at once, not merged
 *
 * The owner of the links says what happens to them; a node that is lost may come back, and goes on
 * where it was. */
#ifndef LAUNCHER_FOLLOW_H
#define LAUNCHER_FOLLOW_H

#include "launcher/link/link.h"
#include "launcher/view/show.h"

enum { FOLLOW_SERVER_LOG = 1, FOLLOW_TRAIN_LOG = 2 };

struct follow_node { /* names of a node, in use as long as the follow */
    const char *host;
    int skip; /* this node's logs are not asked for */
};

struct follow_opts {
    uv_loop_t *loop;
    struct view *view;
    const struct follow_node *nodes;
    unsigned n_nodes;
    unsigned streams; /* FOLLOW_*: which are shown */
    int only_history; /* what there is when a node is asked, and no more */
    int onlooker;     /* the job does not live longer for it */
    struct show_opts
        show; /* sources are filled in here; since_us and tail tell the nodes where to begin, too */
    void (*on_event)(void *arg, unsigned node, const char *json,
                     size_t n);                /* NULL: events are not asked for */
    void (*on_done)(void *arg, unsigned node); /* it has sent all it will */
    void (*on_fail)(void *arg, unsigned node,
                    const struct pd_err *err); /* it can't be asked; may be NULL */
    void (*on_broken)(void *arg);              /* nobody reads the output any more; may be NULL */
    void *arg;
};

struct follow;
int follow_new(struct follow **out, const struct follow_opts *o, struct pd_err *err);
void follow_begin(struct follow *f, unsigned node,
                  struct link *l);                 /* the link is open, or open again */
void follow_lost(struct follow *f, unsigned node); /* it may come back */
void follow_gone(struct follow *f, unsigned node); /* it does not */
/* 1: the frame was one of a log. */
int follow_frame(struct follow *f, unsigned node, const struct wire_frame *frame,
                 const json_t *body);

int follow_is_done(const struct follow *f, unsigned node); /* all of it has come */
int follow_is_shown(
    const struct follow *f); /* nothing waits to be shown, and all nodes are done or gone */
/* 1: the output has not taken all it was given, or bytes have come since the last call. */
int follow_is_moving(struct follow *f);

/* When nothing more comes: show what there is without waiting for anybody. */
void follow_flush(struct follow *f);
size_t follow_peak_bytes(const struct follow *f); /* the most that was held at a time */
/* Close the loop's handles; after the loop has ended, follow_free. */
void follow_close(struct follow *f);
void follow_free(struct follow *f);

#endif
