/* job_impl.h - what job.c (phases), job_node.c (steps of the nodes), job_setup.c (what is sent to
 * them), job_check.c (mistakes that are found first), job_place.c (which of them are used, and for
 * what), job_dispatch.c (packages), job_data.c and job_feed.c (data files apart), job_watch.c
 * (logs, states, results), job_end.c (how it ended), job_dry.c and job_attach.c share. */
#ifndef LAUNCHER_JOB_IMPL_H
#define LAUNCHER_JOB_IMPL_H

#include "launcher/link/ask_all.h"
#include "launcher/dispatch/package.h"
#include "launcher/dispatch/bar.h"
#include "launcher/dispatch/dispatch.h"
#include "launcher/job/follow.h"
#include "launcher/job/job.h"
#include "launcher/job/outputs.h"
#include "launcher/view/live.h"

enum node_step {
    NODE_NEW,
    NODE_CONNECT,
    NODE_DISPATCH,
    NODE_STOCKED,
    NODE_DATA,
    NODE_SETUP,
    NODE_READY,
    NODE_PEERS,
    NODE_PEERED,
    NODE_JOIN,
    NODE_RUNNING,
    NODE_ENDED,
    NODE_STOPPING,
    NODE_STOPPED,
    NODE_DRAIN,
    NODE_DRAINED,
    NODE_FETCH,
    NODE_FETCHED,
    NODE_BYE,
    NODE_FAILED,
    NODE_GONE,
    NODE_LEFT_OUT,
    N_NODE_STEPS,
};

#define AT(step) (1u << (step))
#define LOST (AT(NODE_FAILED) | AT(NODE_GONE))

enum job_phase {
    JOB_PREPARE,
    JOB_DATA,
    JOB_SETUP,
    JOB_PEERS,
    JOB_RUN,
    JOB_JOIN,
    JOB_FOLLOW,
    JOB_STOP,
    JOB_DRAIN,
    JOB_FETCH,
    JOB_BYE,
    JOB_OVER,
    N_JOB_PHASES,
};

enum {
    START_WAIT_MS = 30000,
    STOP_GRACE_MS = 1000,
    SAVE_MS = 120000,    /* for the trainers to finish their step and to save */
    QUICK_WAIT_MS = 150, /* for what can wait once the user wants to be gone */
};

struct job;

struct node {
    struct job *job;
    int place; /* in the list of hosts: what %n is */
    int id;    /* in the job; the same, unless hosts were left out */
    const struct host *host;
    struct link *link; /* NULL before it is opened and once it is closed */
    int greeted;       /* AG_HELLO came */
    enum node_step step;
    struct pd_err err; /* why it failed */
    char job_dir[1100];
    json_t *addrs;
    int port;
    int subscribed, has_result;
    json_t *result;     /* AG_RESULT's body */
    char lost[200];     /* the head has lost it for good, and the job goes on without: why; then the
                           step is NODE_LEFT_OUT */
    int n_preparations; /* how often it was begun */
};

struct job {
    struct client_env c;
    const struct pd_options *opts;
    char id[64];
    struct outputs out;
    uint8_t key[WIRE_KEY_BYTES];
    struct dispatch *dispatch; /* worker and workspace on their way; NULL: neither is needed */
    int worker_package, workspace_package, data_package; /* their numbers; -1: none */
    struct job_data *data;                               /* with data_package */
    struct bar bar;
    int dispatched;
    int needs_worker, sends_workspace;
    json_t *spec;
    struct node *nodes; /* index: host of conf.ini; those not of this job are NODE_LEFT_OUT */
    int n_hosts;
    struct node **by_id; /* index: node id in the job; of a job that was joined some may be NULL */
    int n_nodes;
    struct job_role { /* as conf.ini has it, before hosts were left out: hosts in rank order */
        int *hosts;
        size_t n;
    } pserver_hosts, trainer_hosts;
    enum job_phase phase;
    uv_timer_t check, deadline, patience, tick;
    uv_signal_t signals[3];
    struct view *view;
    struct live *live;
    struct follow *follow;
    struct follow_node *names;         /* the hosts as the log shows them */
    const char **labels;               /* the same */
    char state[400], shown_state[400]; /* the head's last AG_STATE */
    struct job_flags flags;
    struct ask_all *search; /* what found the job that was joined */
    int joined;             /* somebody else's job: it is shown, and goes on when we go */
    int ran;                /* AG_JOB_RUN was sent: there may be processes */
    int settling, left;     /* detached: it runs, and if it still does in a moment we go; we went */
    int stopped_by_user;    /* how many times a signal came */
    int saving;             /* the first one asked for the model */
    json_t *failure;        /* the first failure, as the AG_RESULT that knows most of it says */
    int failure_worth;
    json_int_t n_later, n_restarts;
    char saved[200];     /* the last model, as node 0's result says */
    int failed, stopped; /* what the results said */
    int fetched;
    struct pd_err err; /* of our own doing */
};

static inline struct node *job_node(const struct job *j, json_int_t id) {
    return id >= 0 && id < j->n_nodes ? j->by_id[id] : NULL;
}

/* job.c */
int job_new(struct job **out, const struct pd_options *opts, const struct job_flags *flags,
            struct pd_err *err);                   /* the cluster, and a node for each host */
int job_loop(struct job *j, enum job_phase first); /* to its end; the exit status */
void job_free(struct job *j);
void job_look(struct job *j); /* a step was entered: look at the phase, from the loop */
void job_move(struct job *j, unsigned from, enum node_step to);
int job_any(const struct job *j, unsigned steps);
void job_be_patient(struct job *j, uint64_t ms);          /* while following: no longer than this */
void job_patience_over(struct job *j);                    /* what it was for has been settled */
void job_state_changed(struct job *j, const char *state); /* the head's */

/* job_node.c */
const char *node_doing(const struct node *n);
void node_enter(struct node *n, enum node_step step);
void node_fail(struct node *n, const struct pd_err *err); /* keeps the node's first error */
void node_fail_memory(struct node *n);
void node_has_result(struct node *n);
void node_leave_lost(struct node *n, const char *why);  /* the head goes on without it */
void node_stop(struct node *n, int grace_ms, int save); /* AG_STOP */
void node_run(struct node *n);                          /* AG_JOB_RUN, to the head */

/* job_setup.c: the requests that bring a node up; their answers enter the next step */
int job_describe(struct job *j,
                 struct pd_err *err); /* id, key, packages; nothing on the nodes yet */
int job_make_spec(struct job *j, struct pd_err *err); /* once it is known which nodes there are */
void send_setup(struct node *n);
void send_peers(struct node *n);

int node_needs_worker(const struct node *n); /* it runs a program of ours, or may */

/* job_check.c: what the trainers would refuse; nothing is done before it */
int job_check(const struct job *j, struct pd_err *err);

/* job_dispatch.c */
int job_dispatch_open(struct job *j, struct pd_err *err); /* the packages; hashing begins */
void job_dispatch_show(struct job *j);                    /* the view is there */
void job_dispatch_look(struct job *j);  /* a step was entered: may the bytes go? */
void job_dispatch_end(struct job *j);   /* all are stocked, or it is given up */
void job_dispatch_lost(struct node *n); /* its link is */
void enter_dispatch(struct node *n);
void enter_data(struct node *n);
const char *job_worker_id(const struct job *j,
                          char hex[2 * OBJECT_ID + 1]); /* "": no worker of ours */
const char *job_data_id(const struct node *n,
                        char hex[2 * OBJECT_ID + 1]); /* "": it has no part of the data */
int job_has_data_apart(
    const struct job *j); /* if train.ini says what the data files are: dispatch/split.h */
int job_scan_now(struct job *j, struct scan **workspace,
                 struct pd_err *err); /* --dry-run: the workspace, hashed; NULL: none */

/* job_data.c: data files apart, to the trainers that read them */
int job_data_new(struct job *j, struct pd_err *err);
void job_data_free(struct job_data *t); /* after the dispatch; NULL is fine */
void job_data_leave_out(struct job_data *t,
                        struct scan *rest); /* before it is run: all but the data files */
void job_data_keep(struct job_data *t, struct scan *data); /* before it is run: the data files */
void job_data_begin(struct job *j); /* ranks are known: parts are made and sent */
int job_data_wants(const struct node *n);
size_t job_data_n(const struct job *j); /* files that are sent apart; the data is hashed */
/* Rows of AG_DATA_LIST from file number `first` on, some 512 KiB; the first that is not among them
 * is returned. */
size_t job_data_rows(const struct job *j, size_t first, struct pd_buf *out);
int job_data_item(const struct job *j, const char *path,
                  size_t *item); /* its place in the scan of the data: 1; 0: it is none of them */

/* job_feed.c: one of these files again, to a node that none of the others could give it to */
void job_feed_offer(struct node *n); /* tells it that it may ask here */
void job_feed_frame(struct node *n, const struct wire_frame *f,
                    const json_t *body); /* DF_FILE, DF_NEED */

/* job_place.c */
int job_choose_nodes(struct job *j); /* 1: enough hosts can be used; the others are left out. 0: it
                                        can't be started */

/* job_watch.c */
int watch_open(struct job *j, struct pd_err *err); /* the view, and what fills it */
void watch_close(struct job *j);                   /* its part of the loop */
void watch_free(
    struct job *j,
    uint64_t wait_ms); /* after the loop: show what there is, as long as somebody reads it */
void watch_lost(struct node *n); /* its connection is lost, it may come back */
void watch_gone(struct node *n);
void watch_sum_up(struct job *j);   /* what the results come to */
int watch_is_moving(struct job *j); /* logs come, or the output has not taken them yet */
void watch_subscribe(struct node *n);
void watch_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg);
void watch_show_state(struct job *j);
int watch_drained(const struct node *n);
void watch_say(struct job *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));  /* a line of ours */
void watch_event(struct job *j, json_t *o); /* --json: one object of ours, with its time; stolen */

/* job_end.c */
int job_conclude(struct job *j); /* says how it ended, on stderr; the exit status */

/* job_dry.c */
int job_dry_run(struct job *j); /* says what would be done; the exit status */

#endif
