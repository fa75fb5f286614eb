/* SPDX-License-Identifier: Apache-2.0 */
/* job_node.c - the steps of a node: a table with the function that each step calls on entry.
 * Callbacks of the link only enter steps. Only node_enter writes the step, and schedules a check of
 * the job's phase. */
#include "launcher/job/job_internal.h"
#include "launcher/outputs/outputs.h"
#include "wire/client_bodies.h"

enum {
    /* after a lost connection: the other agents notice it too and may report more */
    LOST_PATIENCE_MS = 3000,
    /* after the first result: the other agents end their processes with TERM, then KILL */
    END_PATIENCE_MS = 30000,
    /* after the end of its logs, or "ending": the head waits for all nodes, and for a user's
     * children that save */
    RECORD_MS = 90000,
    HEAD_SLACK_MS = 20000, /* until the head notices a pulled cable */
    PREPARATIONS = 2,      /* attempts, if the connection is lost during the preparation */
};

static void enter_connect(struct job_node *n);
static void enter_join(struct job_node *n);
static void enter_running(struct job_node *n);
static void enter_stopping(struct job_node *n);
static void enter_drain(struct job_node *n);
static void enter_fetch(struct job_node *n);
static void enter_bye(struct job_node *n);
static void enter_failed(struct job_node *n);
static void enter_left_out(struct job_node *n);

static const struct {
    const char *doing;
    void (*enter)(struct job_node *);
} steps[N_NODE_STEPS] = {
    [NODE_NEW] = {"waiting", NULL},
    [NODE_CONNECT] = {"connecting", enter_connect},
    [NODE_DISPATCH] = {"receiving worker and workspace", enter_dispatch},
    [NODE_STOCKED] = {"waiting for the other hosts", NULL},
    [NODE_DATA] = {"receiving its data files", enter_data},
    [NODE_TURN] = {"looking for other jobs", enter_turn},
    [NODE_HAS_TURN] = {"waiting for its turn", NULL},
    [NODE_SETUP] = {"setting up the job", send_setup},
    [NODE_READY] = {"ready", NULL},
    [NODE_PEERS] = {"receiving the addresses of the other nodes", send_peers},
    [NODE_PEERED] = {"starting the job", NULL},
    [NODE_JOIN] = {"joining the job", enter_join},
    [NODE_RUNNING] = {"running", enter_running},
    [NODE_ENDED] = {"ended", NULL},
    [NODE_STOPPING] = {"ending its processes", enter_stopping},
    [NODE_STOPPED] = {"stopped", NULL},
    [NODE_DRAIN] = {"sending its logs", enter_drain},
    [NODE_DRAINED] = {"drained", NULL},
    [NODE_FETCH] = {"sending its outputs", enter_fetch},
    [NODE_FETCHED] = {"fetched", NULL},
    [NODE_BYE] = {"saying goodbye", enter_bye},
    [NODE_FAILED] = {"failed", enter_failed},
    [NODE_GONE] = {"gone", NULL},
    [NODE_LEFT_OUT] = {"not used", enter_left_out},
};

const char *node_doing(const struct job_node *n) { return steps[n->step].doing; }

void node_enter(struct job_node *n, enum node_step step) {
    n->step = step;
    if (steps[step].enter)
        steps[step].enter(n);
    job_check_phase(n->job);
}

/* A request that fails with a lost link is no failure of the node: resume repeats it on the new
 * connection, or on_close fails the node. */
void node_fail(struct job_node *n, const struct pd_err *err) {
    if (AT(n->step) & (LOST | AT(NODE_BYE) | AT(NODE_LEFT_OUT)))
        return;
    if (err->code == PD_ECLOSED && n->link && n->greeted && !link_is_open(n->link))
        return;
    if (!n->err.code)
        n->err = *err;
    node_enter(n, NODE_FAILED);
}

void node_fail_memory(struct job_node *n) {
    struct pd_err err = {0};
    pd_oom(&err, "a message to a node");
    node_fail(n, &err);
}

/* --- the link --- */

/* The node is connected again after a loss. Its step continues; requests that are safe to repeat
 * are sent again. The agent sends its state and its result, if any, without a request. */
static void resume(struct job_node *n) {
    struct job *j = n->job;
    n->lost_ms = 0;
    watch_node(n, "", 0, ": connected again");
    job_ask_fate(j);
    job_tell_head(n);
    if (n->step >= NODE_READY && n->step < NODE_FAILED)
        job_feed_offer(n);
    if (n->subscribed) {
        n->subscribed = 0;
        watch_subscribe(n);
    }
    if (AT(n->step) & (AT(NODE_DATA) | AT(NODE_TURN) | AT(NODE_SETUP) | AT(NODE_PEERS) |
                       AT(NODE_STOPPING) | AT(NODE_FETCH)))
        node_enter(n, n->step);
    else if (AT(n->step) & AT(NODE_DISPATCH))
        node_enter(n, NODE_DISPATCH);
    else if (j->phase == JOB_RUN && n->id == 0 && !strcmp(link_facts(n->link)->state, "setup"))
        node_run(n);
    else if (j->phase == JOB_RUN && n->id == 0) /* the job runs: only the answer was lost */
        job_move(j, AT(NODE_PEERED), NODE_RUNNING);
}

static void on_hello(struct link *l, void *arg) {
    struct job_node *n = arg;
    struct job *j = n->job;
    if (n->greeted) {
        resume(n);
        return;
    }
    n->greeted = 1;
    watch_announce(j);
    pd_fmt(n->job_dir, sizeof n->job_dir, "%.1000s/%s", link_facts(l)->root, j->id);
    n->lease_ms = (uint64_t)(j->opts->attach_lease * 1000);
    link_keep(l, n->lease_ms);
    n->n_preparations = 1;
    if (n->step == NODE_CONNECT)
        node_enter(n, NODE_DISPATCH);
    if (n->step == NODE_JOIN) {
        watch_subscribe(n);
        node_enter(n, NODE_RUNNING);
    }
}

static void on_close(struct link *l, const struct pd_err *why, void *arg) {
    struct job_node *n = arg;
    (void)l;
    job_dispatch_lost(n);
    n->link = NULL;
    if (!n->lost_ms) /* it was open until now */
        n->lost_ms = uv_now(&n->job->c.loop);
    watch_gone(n);
    if (n->step == NODE_LEFT_OUT) {
        job_check_phase(n->job);
        return;
    }
    if (why->code)
        node_fail(n, why); /* no effect after NODE_BYE or NODE_FAILED */
    node_enter(n, NODE_GONE);
}

static void on_lost(struct link *l, const struct pd_err *why, void *arg) {
    struct job_node *n = arg;
    n->lost_ms = uv_now(&n->job->c.loop);
    job_dispatch_lost(n);
    watch_lost(n);
    if (AT(n->step) & (AT(NODE_DISPATCH) | AT(NODE_DATA)) && n->n_preparations++ >= PREPARATIONS) {
        n->err = *why;
        link_close(l);
        node_enter(n, NODE_FAILED);
        return;
    }
    watch_node(n, "", 0, ": %s; connecting again", why->msg);
}

static const struct link_events link_events = {
    .on_hello = on_hello, .on_frame = watch_frame, .on_close = on_close, .on_lost = on_lost};

static void enter_connect(struct job_node *n) {
    struct pd_err err = {0};
    if (link_open(&n->link, &n->job->c.env, n->host, n->place, &link_events, n, &err)) {
        n->link = NULL;
        node_fail(n, &err);
    }
}

/* Use the link that found the job, now for the agent of the job itself. */
static void enter_join(struct job_node *n) {
    if (n->link)
        link_join(n->link, n->job->id, &link_events, n);
    else
        enter_connect(n);
}

/* --- running and ending --- */

static int on_run_answer(struct link *l, const struct wire_frame *f, json_t *body,
                         const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    (void)body;
    if (err)
        node_fail(n, err);
    else if (n->job->phase == JOB_RUN)
        job_move(n->job, AT(NODE_PEERED), NODE_RUNNING);
    return 1;
}

void node_run(struct job_node *n) {
    if (link_request(n->link, WIRE_AG_JOB_RUN, json_object(), NULL, 0, START_WAIT_MS,
                     "starting the job", on_run_answer, n))
        node_fail_memory(n);
}

/* How long to wait for the head's report after another node is lost or has ended. If the job may
 * restart, the head must first notice the loss, and then waits for the node for the time of the
 * leases (docs/folders/agent.md, "Leases"). */
static uint64_t patience_ms(const struct job_node *n, int goes_on, uint64_t otherwise) {
    const struct pd_options *o = n->job->opts;
    return goes_on ? (uint64_t)((o->attach_lease + o->detach_lease) * 1000) + HEAD_SLACK_MS
                   : otherwise;
}

static void enter_running(struct job_node *n) {
    if (n->has_result)
        node_enter(n, NODE_ENDED);
}

/* The node is lost, or has left. attach does not decide about another head: it waits for the
 * paddlectl that does. */
static int may_go_on(struct job_node *n, int has_ended) {
    const struct job *j = n->job;
    const int leads = n->id == j->head || n->id == j->next_head;
    return !leads || j->joined || j->demoted ? job_may_restart(j) : job_head_lost(n, has_ended);
}

/* Its agent has ended alone: the result is not that of the job. */
static int has_left(const struct job_node *n) {
    return json_is_true(json_object_get(n->result, "left"));
}

void node_ends(struct job_node *n) {
    if (n->step != NODE_RUNNING || n->ends_ms)
        return;
    n->ends_ms = uv_now(&n->job->c.loop) + RECORD_MS;
    job_limit_wait(n->job, RECORD_MS);
}

static int is_silent(const struct job_node *n) {
    return n && n->step == NODE_RUNNING && n->ends_ms;
}

void node_await_ends(struct job *j) {
    const uint64_t now = uv_now(&j->c.loop);
    for (int i = 0; i < j->n_nodes; i++)
        if (is_silent(j->by_id[i]))
            job_limit_wait(j, j->by_id[i]->ends_ms > now ? j->by_id[i]->ends_ms - now : 1);
}

void node_goes_on(struct job *j) {
    int any = 0;
    for (int i = 0; i < j->n_nodes; i++) {
        any |= is_silent(j->by_id[i]);
        if (j->by_id[i])
            j->by_id[i]->ends_ms = 0;
    }
    if (any)
        job_cancel_wait(j);
}

/* Their results did not come: a broken agent. The job has failed, although it may have ended well.
 */
void node_name_silent(const struct job *j) {
    for (int i = 0; i < j->n_nodes; i++) {
        struct job_node *n = j->by_id[i];
        if (!is_silent(n))
            continue;
        pd_fail(&n->err, PD_ETIMEOUT, "the job ends there, and the result did not come within %d s",
                RECORD_MS / 1000);
        watch_node(n, "", 1, ": %s", n->err.msg);
    }
}

void node_has_result(struct job_node *n) {
    n->has_result = 1;
    if (n->step == NODE_RUNNING)
        node_enter(n, NODE_ENDED);
    /* The head sends its result last. If the head was killed, the others would wait for it without
     * limit. */
    if (n->id != n->job->head)
        job_limit_wait(n->job, patience_ms(n, job_may_restart(n->job), END_PATIENCE_MS));
    else
        job_limit_wait(n->job, patience_ms(n, has_left(n) && may_go_on(n, 1), LOST_PATIENCE_MS));
}

void node_leave_lost(struct job_node *n, const char *why) {
    struct job *j = n->job;
    if (*n->lost || n->id == j->head)
        return;
    snprintf(n->lost, sizeof n->lost, "%.190s", *why ? why : "the connection is gone");
    watch_node(n, "", 1, " is lost: %s", n->lost);
    record_note(j->record, json_pack("{s:s, s:s, s:o}", "ev", "lost", "host", n->host->label,
                                     "text", wire_text(n->lost, strlen(n->lost))));
    pd_err_clear(&n->err);
    json_decref(n->result); /* the result of a lost node does not count */
    n->result = NULL;
    watch_sum_up(j);
    live_remove_trainer(j->live, (unsigned)n->place);
    watch_gone(n);
    node_enter(n, NODE_LEFT_OUT);
    job_cancel_wait(j);
}

/* The result of the head may come later, or not in time. */
static void take_saved(const struct job_node *n, const json_t *body) {
    struct job *j = n->job;
    struct ag_stop_answer a;
    if (n->id != j->head || n->has_result || wire_get(&wire_ag_stop_answer, &a, body, NULL))
        return;
    pd_fmt(j->saved, sizeof j->saved, "%s", a.saved);
    j->no_state = !a.saved_state;
    j->knows_saved = 1;
}

static int on_stopped(struct link *l, const struct wire_frame *f, json_t *body,
                      const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    if (n->step != NODE_STOPPING)
        return 1;
    if (!err)
        take_saved(n, body);
    if (err)
        node_fail(n, err);
    else
        node_enter(n, NODE_STOPPED);
    return 1;
}

void node_stop(struct job_node *n, int grace_ms, int save) {
    const char *why = n->job->stopped_by_user ? "stopped by the user" : "the job failed";
    const struct hd_stop_job stop = {
        .grace_ms = grace_ms, .save = save, .save_ms = SAVE_MS, .reason = why};
    if (link_request(n->link, WIRE_AG_STOP, wire_put(&wire_hd_stop_job, &stop), NULL, 0,
                     START_WAIT_MS + (save ? SAVE_MS : 0), "ending the processes", on_stopped, n))
        node_fail_memory(n);
}

static void enter_stopping(struct job_node *n) {
    node_stop(n, STOP_GRACE_MS, n->job->saving && n->job->stopped_by_user < 2);
}

static void enter_drain(struct job_node *n) {
    if (!n->subscribed || watch_drained(n))
        node_enter(n, NODE_DRAINED);
}

static void on_fetched(void *arg, const struct package_fetched *r, const struct pd_err *err) {
    struct job_node *n = arg;
    if (*r->skipped)
        watch_node(n, "", 0, ": outputs: %s", r->skipped);
    if (n->step != NODE_FETCH)
        return;
    if (err && !n->job->only_spans) {
        struct pd_err e = *err;
        pd_err_prefix(&e, "fetching outputs");
        node_fail(n, &e);
        return;
    }
    if (err)
        watch_node(n, "", 0, ": warning: no spans for the trace: %s", err->msg);
    node_enter(n, NODE_FETCHED);
}

static void enter_fetch(struct job_node *n) {
    struct pd_err err = {0};
    if (package_fetch(&n->job->out.fetches, n->link, &n->job->c.loop, "output",
                      n->job->only_spans ? "profile" : NULL, n->id, on_fetched, n)) {
        pd_fail(&err, PD_EIO, "cannot write below %.600s", n->job->out.dir);
        node_fail(n, &err);
    }
}

static void enter_bye(struct job_node *n) {
    if (!n->link)
        node_enter(n, NODE_GONE);
    else if (!n->greeted || !link_is_open(n->link))
        link_close(n->link); /* an agent that still starts finds no client and ends */
    else
        link_send(
            n->link, WIRE_AG_BYE, 0,
            wire_put(&wire_ag_bye,
                     &(struct ag_bye){.abandon = !n->job->ran && !n->job->joined,
                                      .detach = n->job->owns && (n->job->joined || n->job->left)}),
            NULL, 0);
}

static void enter_failed(struct job_node *n) {
    struct job *j = n->job;
    if (j->phase != JOB_RUN && j->phase != JOB_FOLLOW)
        return;
    watch_node(n, "", 1, ": %s", n->err.msg);
    if (j->phase == JOB_RUN && n->id == 0) /* the others are well, and wait for node 0 alone */
        job_move(j, AT(NODE_PEERED), NODE_RUNNING);
    job_limit_wait(j, patience_ms(n, may_go_on(n, 0), LOST_PATIENCE_MS));
}

static void enter_left_out(struct job_node *n) {
    if (n->link && n->greeted && link_is_open(n->link)) {
        if (*n->lost) /* lost by the head, but still connected to paddlectl */
            link_send(
                n->link, WIRE_AG_STOP, 0,
                wire_put(&wire_hd_stop_job,
                         &(struct hd_stop_job){.grace_ms = STOP_GRACE_MS,
                                               .save_ms = SAVE_MS,
                                               .reason = "the job continued without this node"}),
                NULL, 0);
        link_send(n->link, WIRE_AG_BYE, 0, wire_put(&wire_ag_bye, &(struct ag_bye){.abandon = 1}),
                  NULL, 0);
        link_close_soon(n->link);
    } else if (n->link) {
        link_close(n->link);
    } else {
        watch_gone(n);
    }
}
