/* job.c - phases of the job and steps of its nodes; see job.h.
 *
 * Two tables: what a node does on entering a step; and what the job does on entering a phase, which steps of all nodes end
 * it, and how long it may take. node_enter and job_enter alone write the states. Answers and events call node_enter, which
 * only notes that the phase is to be looked at: that happens from the loop, never inside another node's callback.
 */
#include "launcher/job/job_impl.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"

enum {
    STOP_GRACE_MS = 1000, STOP_WAIT_MS = 1600, START_WAIT_MS = 30000, DRAIN_WAIT_MS = 10000, BYE_WAIT_MS = 3000,
    QUICK_WAIT_MS = 150,     /* for drain and bye once the user wants to be gone */
    LOST_PATIENCE_MS = 3000, /* after a lost connection: the other agents see it too and may know more */
    END_PATIENCE_MS = 30000, /* after the first result: the others end their processes, TERM, then KILL */
    FLUSH_MS = 1000,
};

#define AT(step) (1u << (step))
#define LOST (AT(NODE_FAILED) | AT(NODE_GONE))

/* --- steps of a node --------------------------------------------------------------------------------------- */

static void enter_connect(struct node *n);
static void enter_running(struct node *n);
static void enter_stopping(struct node *n);
static void enter_drain(struct node *n);
static void enter_fetch(struct node *n);
static void enter_bye(struct node *n);
static void enter_failed(struct node *n);

static const struct {
    const char *doing;
    void (*enter)(struct node *);
} node_steps[N_NODE_STEPS] = {
    [NODE_NEW] = {"waiting", NULL},
    [NODE_CONNECT] = {"connecting", enter_connect},
    [NODE_WORKER_QUERY] = {"looking for the worker", send_worker_query},
    [NODE_WORKER_SEND] = {"receiving the worker", send_worker},
    [NODE_WORKSPACE] = {"receiving the workspace", send_workspace},
    [NODE_SETUP] = {"setting up the job", send_setup},
    [NODE_READY] = {"ready", NULL},
    [NODE_PEERS] = {"learning of the other nodes", send_peers},
    [NODE_PEERED] = {"starting the job", NULL},
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
};

static void on_check(uv_timer_t *t);
static void on_patience(uv_timer_t *t);

void node_enter(struct node *n, enum node_step step) {
    n->step = step;
    if (node_steps[step].enter)
        node_steps[step].enter(n);
    if (n->job->phase != JOB_OVER)
        uv_timer_start(&n->job->check, on_check, 0, 0);
}

void node_fail(struct node *n, const struct pd_err *err) {
    if (AT(n->step) & (LOST | AT(NODE_BYE)))
        return;
    if (!n->err.code)
        n->err = *err;
    node_enter(n, NODE_FAILED);
}

static void fail_memory(struct node *n) {
    struct pd_err err = {0};
    pd_fail(&err, PD_ENOMEM, "out of memory");
    node_fail(n, &err);
}

static void request_run(struct job *j);
static void move(struct job *j, unsigned from, enum node_step to);

/* The node is back after a loss. What it was doing goes on where it was; what was asked for is asked again, where that is
 * safe. Its state and its result, should there be one, come by themselves. */
static void resume(struct node *n) {
    struct job *j = n->job;
    view_say(j->view, "%s (node %d): connected again", n->host->label, n->id);
    if (n->subscribed) {
        n->subscribed = 0;
        watch_subscribe(n);
    }
    if (n->step == NODE_STOPPING || n->step == NODE_FETCH)
        node_enter(n, n->step);
    else if (j->phase == JOB_RUN && n->id == 0 && !strcmp(link_facts(n->link)->state, "setup"))
        request_run(j);
    else if (j->phase == JOB_RUN && n->id == 0)
        move(j, AT(NODE_PEERED), NODE_RUNNING);
}

static void on_hello(struct link *l, void *arg) {
    struct node *n = arg;
    struct job *j = n->job;
    if (n->greeted) {
        resume(n);
        return;
    }
    n->greeted = 1;
    pd_fmt(n->job_dir, sizeof n->job_dir, "%.1000s/%s", link_facts(l)->root, j->id);
    if (n->step == NODE_CONNECT)
        node_enter(n, j->needs_worker ? NODE_WORKER_QUERY : j->sends_workspace ? NODE_WORKSPACE : NODE_SETUP);
}

static void on_close(struct link *l, const struct pd_err *why, void *arg) {
    struct node *n = arg;
    (void)l;
    n->link = NULL;
    watch_gone(n);
    if (why->code)
        node_fail(n, why); /* unless it is saying goodbye, or has failed already */
    node_enter(n, NODE_GONE);
}

static void on_lost(struct link *l, const struct pd_err *why, void *arg) {
    struct node *n = arg;
    (void)l;
    watch_lost(n);
    view_say(n->job->view, "%s (node %d): %s; connecting again", n->host->label, n->id, why->msg);
}

static const struct link_events link_events = {
    .on_hello = on_hello, .on_frame = watch_frame, .on_close = on_close, .on_lost = on_lost};

static void enter_connect(struct node *n) {
    struct pd_err err = {0};
    if (link_open(&n->link, &n->job->c.env, n->host, n->id, &link_events, n, &err)) {
        n->link = NULL;
        node_fail(n, &err);
    }
}

static void enter_running(struct node *n) {
    if (n->has_result)
        node_enter(n, NODE_ENDED);
}

void node_has_result(struct node *n) {
    struct job *j = n->job;
    n->has_result = 1;
    if (n->step == NODE_RUNNING)
        node_enter(n, NODE_ENDED);
    /* The head has its result when all others have ended; without it (it was killed) they would wait for it. */
    uint64_t ms = n->id == 0 ? LOST_PATIENCE_MS : END_PATIENCE_MS;
    if (j->phase == JOB_FOLLOW && (!uv_is_active((uv_handle_t *)&j->patience) || uv_timer_get_due_in(&j->patience) > ms))
        uv_timer_start(&j->patience, on_patience, ms, 0);
}

/* A request failed because its link is lost: it is made again when the link is back, or fails with it. */
static int is_coming_back(const struct node *n, const struct pd_err *err) {
    return err && err->code == PD_ECLOSED && n->link && !link_is_open(n->link);
}

static int on_stopped(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct node *n = arg;
    (void)l;
    (void)f;
    (void)body;
    if (n->step != NODE_STOPPING || is_coming_back(n, err))
        return 1;
    if (err)
        node_fail(n, err);
    else
        node_enter(n, NODE_STOPPED);
    return 1;
}

static void request_stop(struct node *n, int grace_ms) {
    const char *why = n->job->stopped_by_user ? "stopped by the user" : "the job failed";
    if (link_request(n->link, WIRE_AG_STOP, json_pack("{s:i, s:s}", "grace_ms", grace_ms, "reason", why), NULL, 0,
                     START_WAIT_MS, "ending the processes", on_stopped, n))
        fail_memory(n);
}

static void enter_stopping(struct node *n) { request_stop(n, STOP_GRACE_MS); }

static void enter_drain(struct node *n) {
    if (!n->subscribed || watch_drained(n))
        node_enter(n, NODE_DRAINED);
}

static void on_fetched(void *arg, int missing, const char *skipped, const struct pd_err *err) {
    struct node *n = arg;
    (void)missing; /* a node without outputs is none that failed */
    if (*skipped)
        view_say(n->job->view, "%s: outputs: %s", n->host->label, skipped);
    if (n->step != NODE_FETCH || is_coming_back(n, err))
        return;
    if (err) {
        struct pd_err e = *err;
        pd_err_prefix(&e, "fetching outputs");
        node_fail(n, &e);
        return;
    }
    node_enter(n, NODE_FETCHED);
}

static void enter_fetch(struct node *n) {
    struct pd_err err = {0};
    if (package_fetch(n->link, &n->job->c.loop, "output", n->job->aside, n->id, on_fetched, n)) {
        pd_fail(&err, PD_EIO, "cannot write below %.600s", n->job->output_dir);
        node_fail(n, &err);
    }
}

static void enter_bye(struct node *n) {
    if (!n->link)
        node_enter(n, NODE_GONE);
    else if (!n->greeted || !link_is_open(n->link))
        link_close(n->link); /* what may start there all the same finds no client and ends */
    else
        link_send(n->link, WIRE_AG_BYE, 0, n->job->ran ? json_object() : json_pack("{s:b}", "abandon", 1), NULL, 0);
}

static void enter_failed(struct node *n) {
    struct job *j = n->job;
    if (j->phase != JOB_RUN && j->phase != JOB_FOLLOW)
        return;
    view_say(j->view, "%s (node %d): %s", n->host->label, n->id, n->err.msg);
    if (j->phase == JOB_FOLLOW)
        uv_timer_start(&j->patience, on_patience, LOST_PATIENCE_MS, 0);
}

/* --- phases of the job --------------------------------------------------------------------------------------- */

static void begin_prepare(struct job *j);
static void begin_peers(struct job *j);
static void begin_run(struct job *j);
static void begin_stop(struct job *j);
static void begin_drain(struct job *j);
static void begin_fetch(struct job *j);
static void begin_bye(struct job *j);
static void begin_over(struct job *j);
static enum job_phase after_prepare(struct job *j);
static enum job_phase after_peers(struct job *j);
static enum job_phase after_run(struct job *j);
static enum job_phase after_follow(struct job *j);
static enum job_phase after_stop(struct job *j);
static enum job_phase after_drain(struct job *j);
static enum job_phase after_fetch(struct job *j);
static enum job_phase after_bye(struct job *j);

static const struct {
    void (*begin)(struct job *);
    unsigned done; /* it is over when every node is in one of these steps */
    enum job_phase (*next)(struct job *);
    int limit_ms;  /* what is not done by then has failed; 0: no limit of its own */
    int quick;     /* QUICK_WAIT_MS instead when the user has pressed Ctrl-C */
} phases[N_JOB_PHASES] = {
    [JOB_PREPARE] = {begin_prepare, AT(NODE_READY) | LOST, after_prepare, 0, 0}, /* each request has its own limit */
    [JOB_PEERS] = {begin_peers, AT(NODE_PEERED) | LOST, after_peers, START_WAIT_MS, 0},
    [JOB_RUN] = {begin_run, AT(NODE_RUNNING) | AT(NODE_ENDED) | LOST, after_run, START_WAIT_MS, 0},
    [JOB_FOLLOW] = {NULL, AT(NODE_ENDED) | LOST, after_follow, 0, 0}, /* a job takes as long as it takes; see on_patience */
    [JOB_STOP] = {begin_stop, AT(NODE_STOPPED) | LOST, after_stop, STOP_WAIT_MS, 0},
    [JOB_DRAIN] = {begin_drain, AT(NODE_DRAINED) | LOST, after_drain, DRAIN_WAIT_MS, 1},
    [JOB_FETCH] = {begin_fetch, AT(NODE_FETCHED) | LOST, after_fetch, 0, 0}, /* each piece has its own limit */
    [JOB_BYE] = {begin_bye, AT(NODE_GONE), after_bye, BYE_WAIT_MS, 1},
    [JOB_OVER] = {begin_over, 0, NULL, 0, 0},
};

static void on_deadline(uv_timer_t *t);

static void job_enter(struct job *j, enum job_phase phase) {
    int limit = phases[phase].quick && j->stopped_by_user ? QUICK_WAIT_MS : phases[phase].limit_ms;
    j->phase = phase;
    uv_timer_stop(&j->deadline);
    uv_timer_stop(&j->patience);
    if (limit)
        uv_timer_start(&j->deadline, on_deadline, (uint64_t)limit, 0);
    if (phase != JOB_OVER)
        uv_timer_start(&j->check, on_check, 0, 0);
    if (phases[phase].begin)
        phases[phase].begin(j);
}

static void on_check(uv_timer_t *t) {
    struct job *j = t->data;
    for (int i = 0; i < j->n_nodes; i++)
        if (!(AT(j->nodes[i].step) & phases[j->phase].done))
            return;
    if (phases[j->phase].next)
        job_enter(j, phases[j->phase].next(j));
}

static void on_deadline(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase == JOB_DRAIN && !j->stopped_by_user && watch_is_moving(j)) { /* a pager may take its time */
        uv_timer_start(&j->deadline, on_deadline, (uint64_t)phases[JOB_DRAIN].limit_ms, 0);
        return;
    }
    for (int i = 0; i < j->n_nodes; i++) {
        struct node *n = &j->nodes[i];
        if (AT(n->step) & phases[j->phase].done)
            continue;
        if (j->phase == JOB_BYE) {
            if (n->link)
                link_close(n->link);
            continue;
        }
        if (j->phase == JOB_DRAIN) { /* what is missing here stands in the node's own logs */
            node_enter(n, NODE_DRAINED);
            continue;
        }
        struct pd_err err = {0};
        pd_fail(&err, PD_ETIMEOUT, "no answer while %s", node_steps[n->step].doing);
        node_fail(n, &err);
    }
}

/* A node was lost, or some have ended, and the others are silent about it. */
static void on_patience(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase == JOB_FOLLOW)
        job_enter(j, JOB_STOP);
}

static void move(struct job *j, unsigned from, enum node_step to) {
    for (int i = 0; i < j->n_nodes; i++)
        if (AT(j->nodes[i].step) & from)
            node_enter(&j->nodes[i], to);
}

static int any(const struct job *j, unsigned steps) {
    for (int i = 0; i < j->n_nodes; i++)
        if (AT(j->nodes[i].step) & steps)
            return 1;
    return 0;
}

static void begin_prepare(struct job *j) { move(j, AT(NODE_NEW), NODE_CONNECT); }
static enum job_phase after_prepare(struct job *j) { return any(j, LOST) ? JOB_BYE : JOB_PEERS; }
static void begin_peers(struct job *j) { move(j, AT(NODE_READY), NODE_PEERS); }
static enum job_phase after_peers(struct job *j) { return any(j, LOST) ? JOB_BYE : JOB_RUN; }

static int on_run_answer(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct job *j = arg;
    (void)l;
    (void)f;
    (void)body;
    if (is_coming_back(&j->nodes[0], err))
        return 1;
    if (err)
        node_fail(&j->nodes[0], err);
    else if (j->phase == JOB_RUN)
        move(j, AT(NODE_PEERED), NODE_RUNNING);
    return 1;
}

static void request_run(struct job *j) {
    if (link_request(j->nodes[0].link, WIRE_AG_JOB_RUN, json_object(), NULL, 0, START_WAIT_MS, "starting the job",
                     on_run_answer, j))
        fail_memory(&j->nodes[0]);
}

static void begin_run(struct job *j) {
    for (int i = 0; i < j->n_nodes; i++) {
        watch_subscribe(&j->nodes[i]); /* before the start, so that no line comes late */
        link_keep(j->nodes[i].link, (uint64_t)(j->opts->attach_lease * 1000));
    }
    j->ran = 1;
    request_run(j);
}

static enum job_phase after_run(struct job *j) { return any(j, LOST) ? JOB_STOP : JOB_FOLLOW; }
static enum job_phase after_follow(struct job *j) { return any(j, AT(NODE_ENDED)) ? JOB_DRAIN : JOB_BYE; }

static void begin_stop(struct job *j) {
    for (int i = 0; i < j->n_nodes; i++)
        if (j->nodes[i].link && j->nodes[i].greeted && j->nodes[i].step != NODE_GONE)
            node_enter(&j->nodes[i], NODE_STOPPING);
}

static enum job_phase after_stop(struct job *j) {
    (void)j;
    return JOB_DRAIN;
}

static void begin_drain(struct job *j) { move(j, AT(NODE_ENDED) | AT(NODE_STOPPED), NODE_DRAIN); }

static int wants_outputs(const struct job *j) { return !j->failed && !j->stopped && !j->stopped_by_user && !any(j, LOST); }

static enum job_phase after_drain(struct job *j) { return wants_outputs(j) ? JOB_FETCH : JOB_BYE; }

static void begin_fetch(struct job *j) {
    if (pd_mkdirs(j->aside, 0755, &j->err))
        move(j, ~LOST, NODE_FETCHED);
    else
        move(j, AT(NODE_DRAINED), NODE_FETCH);
}

/* output/latest points at the newest job; replaced by a rename, so it always points somewhere. */
static int point_latest(struct job *j, struct pd_err *err) {
    char tmp[4400], latest[4400];
    if (pd_fmt(latest, sizeof latest, "%s/latest", j->opts->outputs) ||
        pd_fmt(tmp, sizeof tmp, "%s/.latest-%s", j->opts->outputs, j->id) || symlink(j->id, tmp) || rename(tmp, latest)) {
        unlink(tmp);
        return pd_fail(err, PD_EIO, "cannot point %.600s at %s", latest, j->id);
    }
    return 0;
}

static enum job_phase after_fetch(struct job *j) {
    int renamed = 0;
    if (!j->err.code && !any(j, LOST) && !package_merge(j->aside, j->n_nodes, j->output_dir, &renamed, &j->err) &&
        !point_latest(j, &j->err))
        j->fetched = 1;
    if (renamed)
        view_say(j->view, "%d output files of different nodes have the same name; the later are called NAME.node-N", renamed);
    return JOB_BYE;
}

static void begin_bye(struct job *j) { move(j, ~AT(NODE_GONE), NODE_BYE); }
static enum job_phase after_bye(struct job *j) {
    (void)j;
    return JOB_OVER;
}

static void begin_over(struct job *j) {
    uv_timer_t *timers[] = {&j->check, &j->deadline, &j->patience, &j->ping};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++)
        uv_close((uv_handle_t *)timers[i], NULL);
    for (size_t i = 0; i < sizeof j->signals / sizeof j->signals[0]; i++)
        uv_close((uv_handle_t *)&j->signals[i], NULL);
    watch_close(j);
}

/* --- from outside -------------------------------------------------------------------------------------------- */

static void on_ping(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase == JOB_FOLLOW)
        watch_show_state(j); /* it has lasted */
    for (int i = 0; i < j->n_nodes; i++)
        if (j->nodes[i].link && j->nodes[i].greeted && !j->ran) /* from then on the links themselves do it */
            link_send(j->nodes[i].link, WIRE_AG_PING, 0, json_object(), NULL, 0);
}

static void on_signal(uv_signal_t *s, int signum) {
    struct job *j = s->data;
    j->stopped_by_user++;
    if (j->phase == JOB_RUN || j->phase == JOB_FOLLOW) {
        view_say(j->view, "%s: stopping %s", signum == SIGINT ? "Ctrl-C" : strsignal(signum), j->id);
        job_enter(j, JOB_STOP);
    } else if (j->phase == JOB_STOP) { /* a second time: no grace */
        for (int i = 0; i < j->n_nodes; i++)
            if (j->nodes[i].step == NODE_STOPPING && j->nodes[i].link)
                request_stop(&j->nodes[i], 0);
    } else if (j->phase != JOB_BYE && j->phase != JOB_OVER) {
        job_enter(j, JOB_BYE);
    }
}

static void start_loop(struct job *j) {
    static const int signums[] = {SIGINT, SIGTERM, SIGHUP};
    uv_timer_t *timers[] = {&j->check, &j->deadline, &j->patience, &j->ping};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&j->c.loop, timers[i]);
        timers[i]->data = j;
    }
    for (size_t i = 0; i < sizeof j->signals / sizeof j->signals[0]; i++) {
        uv_signal_init(&j->c.loop, &j->signals[i]);
        j->signals[i].data = j;
        uv_signal_start(&j->signals[i], on_signal, signums[i]);
    }
    uint64_t ms = (uint64_t)(j->opts->attach_lease * 1000 / 5);
    uv_timer_start(&j->ping, on_ping, ms, ms);
}

static int make_nodes(struct job *j, struct pd_err *err) {
    j->n_nodes = (int)j->c.hosts.n;
    j->nodes = pd_calloc(j->c.hosts.n, sizeof *j->nodes);
    if (!j->nodes)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    for (int i = 0; i < j->n_nodes; i++) {
        j->nodes[i].job = j;
        j->nodes[i].id = i;
        j->nodes[i].host = &j->c.hosts.v[i];
    }
    return 0;
}

static void job_free(struct job *j) {
    for (int i = 0; i < j->n_nodes; i++)
        json_decref(j->nodes[i].addrs);
    free(j->nodes);
    package_release(&j->worker);
    package_release(&j->workspace);
    json_decref(j->spec);
    json_decref(j->failure);
    sodium_memzero(j->key, sizeof j->key);
    cluster_release(&j->c);
    free(j);
}

int job_run(const struct pd_options *opts) {
    struct job *j = pd_calloc(1, sizeof *j);
    struct pd_err err = {0};
    int status;
    if (!j)
        return 1;
    j->opts = opts;
    j->worker.fd = j->workspace.fd = -1;
    int rc = cluster_init(&j->c, opts, &err);
    if (!rc)
        rc = job_describe(j, &err);
    if (!rc)
        rc = make_nodes(j, &err);
    if (!rc)
        rc = watch_open(j, &err);
    if (rc) {
        dprintf(STDERR_FILENO, "paddlectl: %s\n", err.msg);
        watch_free(j, 0);
        job_free(j);
        return pd_code_exit_status(rc);
    }
    view_say(j->view, "%s on %d node%s", j->id, j->n_nodes, j->n_nodes == 1 ? "" : "s");
    start_loop(j);
    job_enter(j, JOB_PREPARE);
    uv_run(&j->c.loop, UV_RUN_DEFAULT);
    pd_rm_tree(j->aside, NULL); /* interrupted while outputs came */
    watch_free(j, j->stopped_by_user ? QUICK_WAIT_MS : FLUSH_MS * 30);
    status = watch_conclude(j);
    job_free(j);
    return status;
}
