/* SPDX-License-Identifier: Apache-2.0 */
/* job_internal.h - declarations shared by the files of this folder:
 *   job.c           the phases of a job
 *   job_node.c      the steps of a node
 *   job_setup.c     the description of the job, and the requests that set up a node
 *   job_check.c     errors of options and train.ini, found before anything is sent
 *   job_files.c     files that train.ini names and the workspace lacks, found likewise
 *   job_place.c     the hosts that the job uses, and their roles
 *   job_dispatch.c  worker and workspace to the nodes
 *   job_data.c      data files, each to the node of its trainer
 *   job_turn.c      other jobs on the hosts, and the queue behind them
 *   job_feed.c      data files on request, while the job runs
 *   job_watch.c     logs, states and results
 *   job_terminal.c  keys, Ctrl-Z, a closed terminal
 *   job_takeover.c  another node takes the part of a lost head
 *   job_profile.c   profile = 1: the trace of the job
 *   job_end.c       the final report and the exit status
 *   job_dry.c       run --dry-run
 *   job_attach.c    attach */
#pragma once

#include "conf/settings.h"
#include "data/read/reader.h"
#include "launcher/link/ask_all.h"
#include "launcher/dispatch/package.h"
#include "launcher/dispatch/bar_fetch.h"
#include "launcher/dispatch/dispatch.h"
#include "launcher/follow/follow.h"
#include "launcher/record/record.h"
#include "launcher/job/job.h"
#include "launcher/outputs/outputs.h"
#include "launcher/outputs/profile.h"
#include "launcher/view/keys.h"
#include "launcher/view/live.h"

enum node_step {
    NODE_NEW,
    NODE_CONNECT,
    NODE_DISPATCH,
    NODE_STOCKED,
    NODE_DATA,
    NODE_TURN,
    NODE_HAS_TURN,
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
    JOB_TURN,
    JOB_QUEUE,
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
    SAVE_MS = 120000,    /* for the trainers to finish their step and save the model */
    QUICK_WAIT_MS = 150, /* limit of phases without importance after Ctrl-C */
};

struct job;

struct job_node {
    struct job *job;
    int place; /* index in the list of hosts; the value of %n */
    int id;    /* node id in the job; differs from place if hosts were left out */
    const struct host *host;
    struct link *link; /* NULL before the link is opened and after it is closed */
    int greeted;       /* AG_HELLO has arrived */
    enum node_step step;
    struct pd_err err; /* why the node failed */
    char job_dir[1100];
    json_t *addrs;
    int port;
    int subscribed, has_result;
    uint64_t ends_ms; /* it says that the job ends, or its logs are complete: its result comes
                         before that time. 0: the job runs */
    enum node_lease { LEASE_NONE, LEASE_OURS, LEASE_OTHERS, LEASE_FREE } lease; /* job_owner.c */
    uint64_t lease_ms, ours_ms; /* ours_ms: when it last said that this paddlectl keeps it */
    json_t *result;             /* body of AG_RESULT */
    /* Not empty: the head has lost the node, for this reason, and the job continues without it. The
     * step is then NODE_LEFT_OUT. */
    char lost[200];
    json_t *others; /* other jobs on its machine, from the last AG_TURN */
    int has_turn;
    int n_preparations; /* attempts to prepare the node */
    uint64_t lost_ms;   /* when its connection was lost, of the loop's clock; 0: it is not lost */
    int n_asked;        /* AG_JOB_HEAD without an answer */
    int refused;        /* the node does not want to be the head */
    void (*then)(struct job_node *n); /* after the list of data files */
    int64_t n_passes;                 /* reports of passes that were heard of it */
    struct outputs_clock clock;
};

struct job {
    struct client_env c;
    const struct pd_options *opts;
    char id[64];
    struct outputs out;
    uint8_t key[WIRE_KEY_BYTES];
    struct dispatch *dispatch; /* transfer of worker and workspace; NULL: neither is sent */
    /* numbers in dispatch; -1: none */
    int worker_package, workspace_package, data_package, resume_package;
    char worker_path[PATH_MAX];
    char worker_hash[2 * OBJECT_ID + 1]; /* known when the worker's package is scanned */
    struct job_checkpoint {    /* --resume of a job or of a folder here; name "": another value */
        char name[64];         /* of the checkpoint: "pass-00003" */
        char job[64];          /* its parts are on the nodes, in this job's output folder */
        char folder[PATH_MAX]; /* else it is sent from here */
        char text[400];        /* for people */
        char settings[1000];   /* likewise: --set of the earlier job, used again; "" */
    } checkpoint;
    struct job_data *data; /* set if data_package >= 0 */
    struct bar bar;
    struct bar_fetch fetching;
    int dispatched;
    int needs_worker, sends_workspace;
    json_t *spec;
    struct job_node *nodes; /* index: host of conf.ini; hosts outside the job are NODE_LEFT_OUT */
    int n_hosts;
    struct job_node **by_id; /* index: node id; after attach, unknown nodes are NULL */
    int n_nodes;
    struct job_role { /* hosts in rank order as in conf.ini, before hosts are left out */
        int *hosts;
        size_t n;
    } pserver_hosts, trainer_hosts;
    /* data_copies = 2: the node that also gets the data files of each trainer; NULL: none */
    int *copy_nodes;
    int64_t few_copies; /* data files with fewer copies than data_copies, as the head says */
    int *machines;      /* with copy_nodes, by node: the lowest node of its machine */
    int n_exposed;      /* trainers whose copy is on their own machine: there is no other one */
    enum job_phase phase;
    uv_timer_t check, deadline, patience, tick, queue;
    struct job_queue {
        uint64_t order;  /* when the job came, in microseconds since 1970 */
        int takes;       /* all nodes were free: take the turn */
        char behind[64]; /* the job for which it was said to wait; "": none */
    } turn;
    uv_timer_t said_timer;
    struct said { /* messages of nodes that wait for equal ones */
        const struct job_node *node;
        const char *before;
        char id[24], *text;
    } * said;
    size_t n_said, cap_said;
    uv_signal_t signals[3];
    struct suspend suspend;
    uv_timer_t note_timer;
    struct keys *keys; /* NULL: stdin is no terminal */
    int told_keys, asks_stop;
    int asks_fate;    /* paddlectl was stopped; the head is asked what became of the job */
    uint64_t seen_ms; /* when paddlectl last knew that it runs, of CLOCK_BOOTTIME */
    struct view *view;
    struct live *live;
    struct follow *follow;
    struct follow_node *names;         /* names of the hosts in the log; index: host */
    const char **labels;               /* the same names, for the live lines */
    char state[400], shown_state[400]; /* the head's last AG_STATE */
    struct pd_buf train_ini;           /* of the workspace, with --set; "": not known here */
    struct record *record;             /* NULL: this paddlectl writes none */
    struct tensorboard *tensorboard;   /* event files of the record, or NULL */
    struct event_work {                /* a disk that is slow does not stop the loop */
        uv_work_t work;
        struct pd_err err;
        int is_busy; /* a thread has `tensorboard` */
    } event_work;
    struct job_flags flags;
    struct ask_all *search;         /* attach: the connections that found the job */
    int announced;                  /* watch_announce has printed the job's id */
    int joined;                     /* attach: the job continues when paddlectl ends */
    int owns;                       /* this paddlectl keeps an attached job alive (job_owner.c) */
    int demoted;                    /* another one has kept the job since it began */
    char holder[WIRE_MAX_NAME + 1]; /* where the one runs that keeps the job; "": unknown */
    uv_timer_t look;                /* the nodes are asked again when their owner is silent */
    uint64_t ours_ms,
        ours_lease_ms;   /* the latest ours_ms of the nodes, and the lease of that one */
    uint64_t quiet_ms;   /* when no node was heard, of the loop's clock; 0: never */
    int ran;             /* AG_JOB_RUN was sent, so processes may exist */
    int settling;        /* detach: the trainers run; leave if they still run after SETTLE_MS */
    int hung_up;         /* on_hangup = detach: leave as soon as all nodes can be told */
    int left;            /* --detach, key d, hangup: paddlectl leaves the running job */
    int stopped_by_user; /* number of signals received */
    int only_spans;      /* of the outputs only the spans of profile = 1 are fetched */
    struct pd_err spans_err;
    int saving;      /* the first signal asked the trainers to save the model */
    json_t *failure; /* the first failure, from the AG_RESULT of most worth */
    int failure_worth, failure_place;
    json_int_t n_later, n_restarts;
    int head;      /* the node of the head */
    int began;     /* the head has started pservers */
    int next_head; /* the node that was asked to take the head's part; -1: none */
    int took_over; /* a node has taken it */
    uv_timer_t take_over;
    json_t *lost;   /* the head's last list of lost nodes */
    json_t *passes; /* array of heard_pass, for another head */
    size_t passes_bytes;
    /* from the result of the head: the last saved model, the last test and the test of the best
     * pass (borrowed), the duration */
    char saved[200];
    int knows_saved; /* the head has reported `saved` */
    int no_state;    /* `saved` has no optimizer's state: training cannot continue from it */
    const json_t *test, *best;
    json_int_t took_ms;
    int failed, stopped; /* status words of the results */
    int fetched;
    struct pd_err err; /* an error of paddlectl itself, not of a node */
};

static inline struct job_node *job_node_by_id(const struct job *j, json_int_t id) {
    return id >= 0 && id < j->n_nodes ? j->by_id[id] : NULL;
}

/* job.c */
/* Loads the cluster; one node per host. begins: the engine may make the hosts. */
int job_new(struct job **out, const struct pd_options *opts, const struct job_flags *flags,
            int begins, struct pd_err *err);
int job_loop(struct job *j, enum job_phase first); /* runs to the end; returns the exit status */
void job_free(struct job *j);
void job_check_phase(
    struct job *j); /* a node entered a step: check from the loop if the phase is done */
void job_move(struct job *j, unsigned from, enum node_step to);
int job_any(const struct job *j, unsigned steps);
void job_limit_wait(struct job *j, uint64_t ms);          /* JOB_FOLLOW: end the phase after ms */
void job_cancel_wait(struct job *j);                      /* cancel job_limit_wait if all is well */
void job_state_changed(struct job *j, const char *state); /* the head entered a state */

void job_leave(struct job *j); /* say goodbye; the job goes on */
/* Ctrl-C and others stop the job, a second time at once; `what` is named. `may_save`: with
 * save_on_stop the trainers save the model first. */
void job_stop_by_user(struct job *j, const char *what, int may_save);

/* job_terminal.c */
int job_terminal_open(struct job *j, struct pd_err *err);
void job_terminal_close(struct job *j);
void job_terminal_tick(struct job *j); /* once a second */
void job_ask_fate(struct job *j);      /* the head is connected again, or has a result */
/* The job is to go on without paddlectl. -1: a node cannot be told now, which is printed once. */
int job_detach(struct job *j);

/* job_node.c */
const char *node_doing(const struct job_node *n);
void node_enter(struct job_node *n, enum node_step step);
void node_fail(struct job_node *n, const struct pd_err *err); /* keeps the node's first error */
void node_fail_memory(struct job_node *n);
/* Its result follows within a limit, after which the job is stopped, and the node named. */
void node_ends(struct job_node *n);
void node_await_ends(struct job *j); /* limits the wait for these results again */
void node_goes_on(struct job *j);    /* the job does not end */
void node_name_silent(const struct job *j);
void node_has_result(struct job_node *n);
void node_leave_lost(struct job_node *n,
                     const char *why); /* the head continues without this node */
void node_stop(struct job_node *n, int grace_ms, int save); /* send AG_STOP */
void node_run(struct job_node *n);                          /* send AG_JOB_RUN to the head */

/* job_setup.c: the requests that set up a node; their answers enter the next step */
/* Make id, key and packages; sends nothing to the nodes. */
int job_describe(struct job *j, struct pd_err *err);
int job_make_spec(struct job *j, struct pd_err *err); /* after the nodes have been chosen */
void send_setup(struct job_node *n);
void send_peers(struct job_node *n);
/* The list of data files to this node, in pieces; then calls `then`. */
void send_data_list(struct job_node *n, size_t first, void (*then)(struct job_node *n));

/* job_owner.c */
void job_owner_begin(struct job *j);
void job_pinged(struct job_node *n, const json_t *body); /* the answer to a ping */
void job_is_ours(struct job_node *n); /* the node has said that this paddlectl keeps it */
/* 1: no other paddlectl can have kept the node since it was last heard, so its lease ends it. */
int job_is_fenced(const struct job_node *n);

/* job_takeover.c */
int job_may_restart(const struct job *j); /* on_failure = restart, and max_restarts */
void job_hear_pass(struct job_node *n, const char *json, size_t len); /* an event of the node */
/* 1: the node was the head's or the next head's, and another node will take the head's part.
 * `has_ended`: the node's agent has ended its processes. */
int job_head_lost(struct job_node *n, int has_ended);
int job_takes_over(const struct job *j);   /* 1: no node is the head now, and one will be */
void job_head_is(struct job *j, int head); /* an agent names the node of the head */
void job_tell_head(struct job_node *n); /* the node is connected again: it may not know the head */
json_t *job_head_body(struct job *j, int head, json_t *nodes, json_t *lost); /* of AG_JOB_HEAD */

int node_needs_worker(const struct job_node *n); /* the node runs paddle_worker, or may later */

/* job_resume.c: find the checkpoint that `resume` names, before job_describe */
int job_resume_find(struct job *j, struct pd_options *o, struct pd_err *err);

/* job_check.c: find what the trainers would refuse, before anything is sent */
struct job_config { /* train.ini of the workspace */
    const struct job *j;
    const char *package, *config; /* config: the name of train.ini in the package */
    int archive;
    struct pd_buf text;        /* of train.ini, with the settings of --set */
    int line[PD_MAX_SETTINGS]; /* of the settings */
    struct data_files named;   /* files that the network names */
    char shown[PATH_MAX];      /* path of train.ini in messages */
    char update[40];           /* "--update=geo", for the worker that checks the network */
};
int job_check(struct job *j, struct pd_err *err);

/* job_files.c: compare the files that train.ini names with those of the package. `o` has the
 * options of train.ini, too. */
int job_files_check(const struct job_config *c, const struct pd_options *o, struct pd_err *err);

/* job_dispatch.c */
int job_dispatch_open(struct job *j, struct pd_err *err); /* add the packages; hashing begins */
void job_dispatch_show(struct job *j);                    /* the view exists: show progress */
void job_dispatch_try_start(struct job *j); /* a node entered a step: start sending when allowed */
void job_dispatch_end(struct job *j);       /* all nodes are stocked, or the job is given up */
void job_dispatch_lost(struct job_node *n); /* the node's link is lost */
void enter_dispatch(struct job_node *n);
void enter_data(struct job_node *n);
/* The id of a package's root object; "": it is not sent. */
const char *job_package_id(const struct job *j, int package, char hex[2 * OBJECT_ID + 1]);
const char *job_data_id(const struct job_node *n,
                        char hex[2 * OBJECT_ID + 1]); /* "": the node has no part of the data */
/* 1: data files are sent to their trainers only, if train.ini names them (dispatch/split.h). */
int job_has_data_apart(const struct job *j);
/* --dry-run: scan and hash the workspace at once; *workspace is NULL if none is sent. */
int job_scan_now(struct job *j, struct scan **workspace, struct pd_err *err);

/* job_data.c: data files, sent only to the trainers that read them */
int job_data_new(struct job *j, struct pd_err *err);
void job_data_free(struct job_data *t); /* after dispatch_free; t may be NULL */
/* Before the scan runs: restrict it to all files but the data files, or to the data files. */
void job_data_leave_out(struct job_data *t, struct scan *rest);
void job_data_keep(struct job_data *t, struct scan *data);
void job_data_begin(struct job *j); /* ranks are known: make the parts and send them */
int job_data_wants(const struct job_node *n);
/* The nodes that get each data file: data_copies, and what auto means. */
int job_data_copies(const struct job *j);
size_t job_data_n(const struct job *j); /* number of data files; valid after hashing */
/* Write rows of AG_DATA_LIST from file number `first` on, about 512 KiB. Returns the number of the
 * first file not written. */
size_t job_data_rows(const struct job *j, size_t first, struct pd_buf *out);
/* 1: `path` is a data file, *item its index in the scan of the data; 0: it is none. */
int job_data_item(const struct job *j, const char *path, size_t *item);

/* job_turn.c */
void enter_turn(struct job_node *n);
void job_turn_begin(struct job *j);
enum job_phase job_turn_after(struct job *j);

/* job_feed.c: send a data file on request to a node that could not get it from another node */
void job_feed_offer(struct job_node *n); /* tell the node that it may ask paddlectl */
void job_feed_frame(struct job_node *n, const struct wire_frame *f,
                    const json_t *body); /* DF_FILE, DF_NEED */

/* job_place.c */
/* The roles are known: copy_nodes and n_exposed. 0 or PD_ENOMEM. */
int job_place_copies(struct job *j, struct pd_err *err);
/* The warning, if n_exposed is not 0; "": none. */
void job_copies_warning(const struct job *j, char *out, size_t cap);
/* Leave out hosts that cannot be used, if min_nodes permits. 0: the job cannot start. */
int job_choose_nodes(struct job *j);

/* job_watch.c */
int watch_open(struct job *j, struct pd_err *err); /* open view, live lines and follow */
void watch_close(struct job *j);                   /* close their handles in the loop */
/* After the loop: show the remaining lines; waits at most wait_ms for a slow reader. */
void watch_free(struct job *j, uint64_t wait_ms);
void watch_starting(struct job *j);  /* the first lines of the processes follow */
void watch_lost(struct job_node *n); /* the connection is lost and may come back */
void watch_gone(struct job_node *n); /* the connection does not come back */
void watch_sum_up(struct job *j);    /* compute failure and status from all results */
void watch_flush(struct job *j);     /* print what waits */
int watch_is_moving(struct job *j);  /* logs arrive, or the output still has lines to write */
void watch_subscribe(struct job_node *n);
void watch_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg);
void watch_show_state(struct job *j);
int watch_drained(const struct job_node *n);
void watch_announce(struct job *j); /* a node is reached: prints the job's id, once */
void watch_print(struct job *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* print a message of paddlectl */
/* Print "BEFORE host TEXT"; the text begins with its blank or colon. Messages of several nodes with
 * equal texts become one line, if they come within SAID_MS. `with_id`: a single host is printed
 * with its node id. */
void watch_node(const struct job_node *n, const char *before, int with_id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void watch_event(struct job *j, json_t *o); /* --json: print `o` (stolen) with the time added */

/* job_record.c */
void job_record_begin(struct job *j); /* the processes are about to start */
void job_record_join(struct job *j);  /* attach: continue the record, if this machine has it */
void job_record_tick(struct job *j);  /* once a second: event files follow the record */
void job_record_end(struct job *j, int status, const char *state);
int job_goes_on(const struct job *j, const char *state);       /* perhaps, without this paddlectl */
void job_on_end(struct job *j, int status, const char *state); /* runs the user's command on_end */

/* job_profile.c */
void job_profile_tick(struct job *j);  /* once a second */
void job_profile_write(struct job *j); /* the outputs have come */

/* job_end.c */
int job_conclude(struct job *j); /* print the final report; returns the exit status */

/* job_summary.c */
void job_summary_done(const struct job *j, struct pd_buf *b);
/* After a failure or a stop: what was saved, and the command that continues. */
void job_summary_go_on(const struct job *j, struct pd_buf *b);

/* job_dry.c */
int job_dry_run(struct job *j); /* print the plan; returns the exit status */
