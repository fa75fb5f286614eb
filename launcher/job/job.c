/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - the phases of a job; see job.h.
 *
 * A table lists for each phase: the function that begins the phase, the steps of all nodes that end
 * it, and the time limit. Only job_enter writes the phase. Callbacks of nodes only enter steps
 * (job_node.c); the end of a phase is checked from the loop, never in a callback of a node. */
#include <sodium.h>

#include "launcher/job/job_internal.h"

enum {
    STOP_WAIT_MS = 1600,
    DRAIN_WAIT_MS = 10000,
    BYE_WAIT_MS = 3000,
    FLUSH_MS = 30000,
    /* A detached job has failed to start if its processes end within this time. The head needs 300
     * ms to determine the first failure. */
    SETTLE_MS = 600,
    RESULT_MS = 30000,
    QUEUE_MS = 1000, /* until the nodes are asked again whether it is this job's turn */
    PACE = 32,       /* nodes of this machine that are set up at once */
};

static void begin_prepare(struct job *j);
static void begin_data(struct job *j);
static void begin_queue(struct job *j);
static void begin_setup(struct job *j);
static void begin_peers(struct job *j);
static void begin_run(struct job *j);
static void begin_join(struct job *j);
static void begin_follow(struct job *j);
static void begin_stop(struct job *j);
static void begin_drain(struct job *j);
static void begin_fetch(struct job *j);
static void begin_bye(struct job *j);
static void begin_over(struct job *j);
static enum job_phase after_prepare(struct job *j);
static enum job_phase after_data(struct job *j);
static enum job_phase after_setup(struct job *j);
static enum job_phase after_peers(struct job *j);
static enum job_phase after_run(struct job *j);
static enum job_phase after_join(struct job *j);
static enum job_phase after_follow(struct job *j);
static enum job_phase after_stop(struct job *j);
static enum job_phase after_drain(struct job *j);
static enum job_phase after_fetch(struct job *j);
static enum job_phase after_bye(struct job *j);

static const struct {
    void (*begin)(struct job *);
    unsigned done; /* the phase ends when every node is in one of these steps */
    enum job_phase (*next)(struct job *);
    int limit_ms; /* nodes that are not done by then have failed; 0: no limit */
    int quick;    /* the limit is QUICK_WAIT_MS after Ctrl-C */
} phases[N_JOB_PHASES] = {
    [JOB_PREPARE] = {begin_prepare, AT(NODE_STOCKED) | LOST, after_prepare, 0,
                     0}, /* transfers have no limit */
    [JOB_DATA] = {begin_data, AT(NODE_STOCKED) | LOST, after_data, 0, 0},
    [JOB_TURN] = {job_turn_begin, AT(NODE_HAS_TURN) | LOST, job_turn_after, 0, 0},
    [JOB_QUEUE] = {begin_queue, 0, NULL, 0, 0}, /* no limit for a queue */
    [JOB_SETUP] = {begin_setup, AT(NODE_READY) | LOST, after_setup, 0, 0},
    [JOB_PEERS] = {begin_peers, AT(NODE_PEERED) | LOST, after_peers, START_WAIT_MS, 0},
    [JOB_RUN] = {begin_run, AT(NODE_RUNNING) | AT(NODE_ENDED) | LOST, after_run, START_WAIT_MS, 0},
    [JOB_JOIN] = {begin_join, AT(NODE_RUNNING) | AT(NODE_ENDED) | LOST, after_join, 0,
                  0}, /* links have a limit */
    [JOB_FOLLOW] = {begin_follow, AT(NODE_ENDED) | LOST, after_follow, 0,
                    0}, /* no limit for jobs; see on_patience */
    [JOB_STOP] = {begin_stop, AT(NODE_STOPPED) | LOST, after_stop, STOP_WAIT_MS, 0},
    [JOB_DRAIN] = {begin_drain, AT(NODE_DRAINED) | LOST, after_drain, DRAIN_WAIT_MS, 1},
    [JOB_FETCH] = {begin_fetch, AT(NODE_FETCHED) | LOST, after_fetch, 0,
                   0}, /* each request has a limit */
    [JOB_BYE] = {begin_bye, AT(NODE_GONE), after_bye, BYE_WAIT_MS, 1},
    [JOB_OVER] = {begin_over, 0, NULL, 0, 0},
};

static void on_deadline(uv_timer_t *t);
static void on_check(uv_timer_t *t);

static int limit_of(const struct job *j, enum job_phase phase) {
    if (phase == JOB_STOP && j->saving)
        return STOP_WAIT_MS + SAVE_MS;
    return phases[phase].quick && (j->stopped_by_user > 1 || (j->stopped_by_user && !j->saving))
               ? QUICK_WAIT_MS
               : phases[phase].limit_ms;
}

static void job_enter(struct job *j, enum job_phase phase) {
    int limit = limit_of(j, phase);
    j->phase = phase;
    uv_timer_stop(&j->deadline);
    uv_timer_stop(&j->patience);
    uv_timer_stop(&j->take_over);
    if (limit)
        uv_timer_start(&j->deadline, on_deadline, (uint64_t)limit, 0);
    job_check_phase(j);
    if (phases[phase].begin)
        phases[phase].begin(j);
}

void job_check_phase(struct job *j) {
    if (j->phase != JOB_OVER)
        uv_timer_start(&j->check, on_check, 0, 0);
}

static int is_done(const struct job *j, const struct job_node *n) {
    return (AT(n->step) & (phases[j->phase].done | AT(NODE_LEFT_OUT))) != 0;
}

/* A thousand nodes that are set up at once would keep the machine busy for many seconds, in which
 * paddlectl and the agents could not hear of each other. */
static void move_paced(struct job *j) {
    const int sets_up = j->phase == JOB_SETUP;
    const enum node_step from = sets_up ? NODE_HAS_TURN : NODE_READY,
                         to = sets_up ? NODE_SETUP : NODE_PEERS;
    int n_busy = 0;
    for (int i = 0; i < j->n_hosts; i++)
        n_busy += j->nodes[i].host->local && j->nodes[i].step == to;
    for (int i = 0; i < j->n_hosts; i++) {
        struct job_node *n = &j->nodes[i];
        if (n->step != from || (n->host->local && n_busy >= PACE))
            continue;
        n_busy += n->host->local != 0;
        node_enter(n, to);
    }
}

static void on_check(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase == JOB_SETUP || j->phase == JOB_PEERS)
        move_paced(j);
    if (j->phase == JOB_PREPARE)
        job_dispatch_try_start(j);
    for (int i = 0; i < j->n_hosts; i++)
        if (!is_done(j, &j->nodes[i]) || (j->phase == JOB_BYE && j->nodes[i].link))
            return;
    if (phases[j->phase].next)
        job_enter(j, phases[j->phase].next(j));
}

static void on_deadline(uv_timer_t *t) {
    struct job *j = t->data;
    /* The reader of the output, a pager for example, may be slow. */
    if (j->phase == JOB_DRAIN && !j->stopped_by_user && watch_is_moving(j)) {
        uv_timer_start(&j->deadline, on_deadline, (uint64_t)phases[JOB_DRAIN].limit_ms, 0);
        return;
    }
    for (int i = 0; i < j->n_hosts; i++) {
        struct job_node *n = &j->nodes[i];
        struct pd_err err = {0};
        if (j->phase == JOB_BYE && j->left && j->owns && n->step == NODE_BYE)
            watch_node(n, "", 0, " did not answer: it may end the job after %g s (attach_lease)",
                       j->opts->attach_lease);
        if (j->phase == JOB_BYE && n->link)
            link_close(n->link);
        if (j->phase == JOB_BYE || is_done(j, n))
            continue;
        if (j->phase == JOB_DRAIN) { /* the node keeps the rest of its logs */
            if (!j->stopped_by_user)
                watch_node(n, "", 1, ": the end of its logs did not come within %d s",
                           DRAIN_WAIT_MS / 1000);
            node_enter(n, NODE_DRAINED);
            continue;
        }
        pd_fail(&err, PD_ETIMEOUT, "no answer while %s", node_doing(n));
        node_fail(n, &err);
    }
}

/* The patience is over: a node was lost or some have ended, and the others have not reported it. Or
 * a detached job has started well. */
static void on_patience(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase != JOB_FOLLOW)
        return;
    j->left = j->settling;
    if (!j->left)
        node_name_silent(j);
    job_enter(j, j->left || j->joined || j->demoted ? JOB_BYE : JOB_STOP);
}

void job_limit_wait(struct job *j, uint64_t ms) {
    int waits = uv_is_active((uv_handle_t *)&j->patience) && !j->settling &&
                uv_timer_get_due_in(&j->patience) <= ms;
    if (j->phase != JOB_FOLLOW || waits)
        return;
    j->settling = 0;
    uv_timer_start(&j->patience, on_patience, ms, 0);
}

void job_cancel_wait(struct job *j) {
    if (j->phase != JOB_FOLLOW || j->settling || job_any(j, LOST | AT(NODE_ENDED)))
        return;
    uv_timer_stop(&j->patience);
    node_await_ends(j);
}

void job_state_changed(struct job *j, const char *state) {
    int runs = !strcmp(state, "trainers");
    if (!j->flags.detach || j->phase != JOB_FOLLOW)
        return;
    if (j->settling && !strcmp(state, "restarting")) { /* it starts again */
        j->settling = 0;
        uv_timer_stop(&j->patience);
    } else if (j->settling && !runs) { /* the job ends already: wait for its result */
        job_limit_wait(j, RESULT_MS);
    } else if (runs && !uv_is_active((uv_handle_t *)&j->patience)) {
        j->settling = 1;
        uv_timer_start(&j->patience, on_patience, SETTLE_MS, 0);
    }
}

void job_move(struct job *j, unsigned from, enum node_step to) {
    for (int i = 0; i < j->n_hosts; i++)
        if (AT(j->nodes[i].step) & from & ~AT(NODE_LEFT_OUT))
            node_enter(&j->nodes[i], to);
}

int job_any(const struct job *j, unsigned steps) {
    for (int i = 0; i < j->n_hosts; i++)
        if (AT(j->nodes[i].step) & steps)
            return 1;
    return 0;
}

static void begin_prepare(struct job *j) { job_move(j, AT(NODE_NEW), NODE_CONNECT); }

static enum job_phase after_prepare(struct job *j) {
    return !j->err.code && job_choose_nodes(j) ? JOB_DATA : JOB_BYE;
}

static void begin_data(struct job *j) {
    if (j->data_package < 0)
        return;
    job_data_begin(j);
    job_move(j, AT(NODE_STOCKED), NODE_DATA);
}

/* If a trainer is left out now, the data files of the other trainers change: send them again. */
static enum job_phase after_data(struct job *j) {
    if (!j->err.code && job_any(j, LOST))
        return j->opts->min_nodes && job_choose_nodes(j) ? JOB_DATA : JOB_BYE;
    job_dispatch_end(j);
    return j->err.code ? JOB_BYE : JOB_TURN;
}

static void on_queue(uv_timer_t *t) {
    struct job *j = t->data;
    if (j->phase == JOB_QUEUE)
        job_enter(j, JOB_TURN);
}

static void begin_queue(struct job *j) { uv_timer_start(&j->queue, on_queue, QUEUE_MS, 0); }
static void begin_setup(struct job *j) { move_paced(j); }
static enum job_phase after_setup(struct job *j) { return job_any(j, LOST) ? JOB_BYE : JOB_PEERS; }
static void begin_peers(struct job *j) { move_paced(j); }
static enum job_phase after_peers(struct job *j) { return job_any(j, LOST) ? JOB_BYE : JOB_RUN; }

static void begin_run(struct job *j) {
    job_record_begin(j);
    for (int i = 0; i < j->n_nodes && !j->flags.detach; i++)
        watch_subscribe(j->by_id[i]); /* before the start, so that no line is late */
    j->ran = 1;
    watch_starting(j);
    node_run(j->by_id[0]);
}

static enum job_phase after_run(struct job *j) { return job_any(j, LOST) ? JOB_STOP : JOB_FOLLOW; }
static void begin_join(struct job *j) { job_move(j, AT(NODE_NEW), NODE_JOIN); }
static void begin_follow(struct job *j) { /* the head's state may arrive before its answer */
    if (pd_starts_with(j->state, "trainers"))
        job_state_changed(j, "trainers");
    struct job_node *head = job_node_by_id(j, j->head);
    if (pd_starts_with(j->state, "ending") && head)
        node_ends(head);
    node_await_ends(j);
    for (int i = 0; i < j->n_nodes; i++) /* a result that came before this phase limits it, too */
        if (j->by_id[i] && j->by_id[i]->step == NODE_ENDED)
            node_has_result(j->by_id[i]);
}

static enum job_phase after_join(struct job *j) {
    return job_any(j, AT(NODE_RUNNING) | AT(NODE_ENDED)) ? JOB_FOLLOW : JOB_BYE;
}
static enum job_phase after_follow(struct job *j) {
    return job_any(j, AT(NODE_ENDED)) ? JOB_DRAIN : JOB_BYE;
}

static void begin_stop(struct job *j) {
    for (int i = 0; i < j->n_nodes; i++) {
        struct job_node *n = j->by_id[i];
        if (n->link && n->greeted && !(AT(n->step) & (AT(NODE_GONE) | AT(NODE_LEFT_OUT))))
            node_enter(n, NODE_STOPPING);
    }
}

static enum job_phase after_stop(struct job *j) {
    (void)j;
    return JOB_DRAIN;
}

static void begin_drain(struct job *j) {
    job_move(j, AT(NODE_ENDED) | AT(NODE_STOPPED), NODE_DRAIN);
}

static int wants_outputs(const struct job *j) {
    if (j->joined || job_any(j, LOST))
        return 0;
    return j->saving ? j->stopped_by_user == 1 : !j->failed && !j->stopped && !j->stopped_by_user;
}

/* A second Ctrl-C, and a job that did not run: nothing is fetched. */
static int wants_spans(const struct job *j) {
    return j->opts->profile && j->ran && !j->joined && !j->demoted && j->stopped_by_user <= 1;
}

static enum job_phase after_drain(struct job *j) {
    j->only_spans = !wants_outputs(j) && wants_spans(j);
    return wants_outputs(j) || j->only_spans ? JOB_FETCH : JOB_BYE;
}

static void put_object(void *arg, json_t *o) {
    struct job *j = arg;
    json_object_set_new(o, "job", json_string(j->id));
    watch_event(j, o);
}

/* The line of the fetch takes the place of the live block. */
static void begin_fetch(struct job *j) {
    j->out.own_folder |= j->only_spans; /* `latest` stays as it is */
    if (outputs_begin(&j->out, j->only_spans ? &j->spans_err : &j->err)) {
        job_move(j, ~LOST, NODE_FETCHED);
        return;
    }
    live_close(j->live);
    bar_fetch_begin(&j->fetching, &j->c.loop, j->view, j->flags.json ? put_object : NULL, j,
                    &j->out.fetches, j->n_nodes);
    job_move(j, AT(NODE_DRAINED), NODE_FETCH);
}

static void tell_incomplete(void *arg, const char *model, const char *part, int n_missing) {
    watch_print(arg, "%s is incomplete: %s%s missing, lost with a node", model, part,
                n_missing > 1 ? " and other parts are" : " is");
}

static enum job_phase after_fetch_of_spans(struct job *j) {
    int renamed = 0;
    if (!j->spans_err.code && !outputs_place(&j->out, j->n_nodes, &renamed, &j->spans_err))
        job_profile_write(j);
    else
        watch_print(j, "warning: no trace of the job: %s", j->spans_err.msg);
    return JOB_BYE;
}

static enum job_phase after_fetch(struct job *j) {
    int renamed = 0;
    bar_fetch_end(&j->fetching);
    if (j->only_spans)
        return after_fetch_of_spans(j);
    j->fetched =
        !j->err.code && !job_any(j, LOST) && !outputs_place(&j->out, j->n_nodes, &renamed, &j->err);
    if (renamed)
        watch_print(j,
                    "%d output files of different nodes have the same name; later copies are named "
                    "NAME.node-N",
                    renamed);
    if (j->fetched)
        job_profile_write(j);
    for (int i = 0, told = 0; i < j->n_hosts && j->fetched && !told; i++)
        if ((told = *j->nodes[i].lost != 0))
            outputs_incomplete(&j->out, tell_incomplete, j);
    return JOB_BYE;
}

static void begin_bye(struct job *j) {
    job_dispatch_end(j);
    bar_fetch_end(&j->fetching); /* after Ctrl-C */
    job_move(j, ~AT(NODE_GONE), NODE_BYE);
}

static enum job_phase after_bye(struct job *j) {
    (void)j;
    return JOB_OVER;
}

static void begin_over(struct job *j) {
    uv_timer_t *timers[] = {&j->check, &j->deadline,  &j->patience, &j->tick,
                            &j->queue, &j->take_over, &j->look};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++)
        uv_close((uv_handle_t *)timers[i], NULL);
    for (size_t i = 0; i < sizeof j->signals / sizeof j->signals[0]; i++)
        uv_close((uv_handle_t *)&j->signals[i], NULL);
    job_terminal_close(j);
    watch_close(j);
}

/* --- timers and signals --- */

/* on_hangup = detach: a job that starts, or a node that is being connected again, delays it. */
static void leave_when_possible(struct job *j) {
    if (j->phase == JOB_FOLLOW && !job_detach(j))
        job_leave(j);
    j->hung_up = 1;
}

static void on_tick(uv_timer_t *t) {
    struct job *j = t->data;
    job_terminal_tick(j);
    job_record_tick(j);
    job_profile_tick(j);
    if (j->hung_up)
        leave_when_possible(j);
    if (j->phase == JOB_FOLLOW)
        watch_show_state(j); /* the state has lasted for up to a second */
}

static void stop_again(struct job *j) {
    if (j->saving)
        watch_print(j, "stopping %s at once", j->id);
    uv_timer_start(&j->deadline, on_deadline, STOP_WAIT_MS, 0);
    for (int i = 0; i < j->n_nodes; i++)
        if (j->by_id[i]->step == NODE_STOPPING && j->by_id[i]->link)
            node_stop(j->by_id[i], 0, 0);
}

void job_leave(struct job *j) { job_enter(j, JOB_BYE); }

void job_stop_by_user(struct job *j, const char *what, int may_save) {
    j->stopped_by_user++;
    if (j->phase == JOB_RUN || j->phase == JOB_FOLLOW) {
        j->saving = j->opts->job_save_on_stop && may_save;
        watch_print(j,
                    j->saving
                        ? "%s: saving the model and stopping %s; press Ctrl-C again to stop at once"
                        : "%s: stopping %s",
                    what, j->id);
        job_enter(j, JOB_STOP);
    } else if (j->phase == JOB_STOP) { /* a second time: no grace */
        stop_again(j);
    } else if (j->phase != JOB_BYE && j->phase != JOB_OVER) {
        job_enter(j, JOB_BYE);
    }
}

static void on_signal(uv_signal_t *s, int signum) {
    struct job *j = s->data;
    if ((j->joined || j->demoted) && j->phase != JOB_STOP) {
        j->stopped_by_user++;
        if (j->phase < JOB_BYE)
            job_enter(j, JOB_BYE);
    } else if (signum == SIGHUP && j->opts->on_hangup == PD_HANGUP_DETACH &&
               (j->phase == JOB_RUN || j->phase == JOB_FOLLOW)) {
        leave_when_possible(j);
    } else {
        job_stop_by_user(j, signum == SIGINT ? "Ctrl-C" : strsignal(signum),
                         signum == SIGINT ||
                             (signum == SIGTERM && j->opts->engine == PD_ENGINE_SLURM));
    }
}

static void start_loop(struct job *j) {
    static const int signums[] = {SIGINT, SIGTERM, SIGHUP};
    uv_timer_t *timers[] = {&j->check, &j->deadline,  &j->patience, &j->tick,
                            &j->queue, &j->take_over, &j->look};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&j->c.loop, timers[i]);
        timers[i]->data = j;
    }
    for (size_t i = 0; i < sizeof j->signals / sizeof j->signals[0]; i++) {
        uv_signal_init(&j->c.loop, &j->signals[i]);
        j->signals[i].data = j;
        if (signums[i] != SIGHUP || !pd_signal_is_ignored(SIGHUP))
            uv_signal_start(&j->signals[i], on_signal, signums[i]);
    }
    uv_timer_start(&j->tick, on_tick, 1000, 1000);
}

int job_new(struct job **out, const struct pd_options *opts, const struct job_flags *flags,
            int begins, struct pd_err *err) {
    struct job *j = pd_calloc(1, sizeof *j);
    if (!j)
        return pd_oom(err, "the job's nodes");
    j->opts = opts;
    j->flags = *flags;
    j->next_head = -1;
    j->worker_package = j->workspace_package = j->data_package = j->resume_package = -1;
    int rc = (flags->dry_run ? client_env_init_dry
              : begins       ? client_env_init_job
                             : client_env_init)(&j->c, opts, err);
    if (!rc) {
        client_env_warn_plain(opts);
        j->n_hosts = j->n_nodes = (int)j->c.hosts.n;
        j->nodes = pd_calloc(j->c.hosts.n, sizeof *j->nodes);
        j->by_id = pd_calloc(j->c.hosts.n, sizeof(void *));
        if (!j->nodes || !j->by_id)
            rc = pd_oom(err, "the job's nodes");
    }
    for (int i = 0; i < j->n_hosts && !rc; i++) {
        j->nodes[i] = (struct job_node){.job = j, .place = i, .id = i, .host = &j->c.hosts.v[i]};
        j->by_id[i] = &j->nodes[i];
    }
    if (rc)
        job_free(j);
    else
        *out = j;
    return rc;
}

/* 1: the nodes have a running job, or outputs that this machine lacks. */
static int must_keep_nodes(const struct job *j) {
    const int is_done = j->knows_saved && !j->failed && !j->stopped && !j->stopped_by_user;
    return j->left || (j->ran && !j->fetched && (*j->saved || is_done));
}

void job_free(struct job *j) {
    if (j->search)
        ask_all_release(j->search);
    free(j->search);
    for (int i = 0; j->nodes && i < j->n_hosts; i++) {
        json_decref(j->nodes[i].addrs);
        json_decref(j->nodes[i].others);
        json_decref(j->nodes[i].result);
    }
    free(j->nodes);
    free(j->by_id);
    dispatch_free(j->dispatch);
    job_data_free(j->data);
    free(j->pserver_hosts.hosts);
    free(j->trainer_hosts.hosts);
    free(j->copy_nodes);
    free(j->machines);
    json_decref(j->spec);
    json_decref(j->failure);
    json_decref(j->lost);
    json_decref(j->passes);
    pd_buf_release(&j->train_ini);
    sodium_memzero(j->key, sizeof j->key);
    j->c.engine.keep = must_keep_nodes(j);
    if (j->c.opts)
        client_env_release(&j->c);
    free(j);
}

int job_loop(struct job *j, enum job_phase first) {
    struct pd_err err = {0};
    int rc = watch_open(j, &err);
    if (!rc)
        rc = job_terminal_open(j, &err);
    if (rc) {
        dprintf(STDERR_FILENO, "paddlectl: %s\n", err.msg);
        watch_free(j, 0);
        return pd_code_exit_status(rc);
    }
    if (j->joined)
        job_record_join(j);
    if (j->joined)
        watch_print(j, "%s, %d of its %d node%s", j->id, j->n_hosts, j->n_nodes,
                    j->n_nodes == 1 ? "" : "s");
    job_dispatch_show(j);
    start_loop(j);
    job_enter(j, first);
    uv_run(&j->c.loop, UV_RUN_DEFAULT);
    if (!j->joined)
        outputs_drop(&j->out, !j->fetched && !j->only_spans);
    keys_free(j->keys);
    watch_free(j, j->stopped_by_user ? QUICK_WAIT_MS : FLUSH_MS);
    return job_conclude(j);
}

/* --- paddlectl run --- */

int job_run(struct pd_options *opts, const struct job_flags *flags) {
    struct job *j = NULL;
    struct pd_err err = {0};
    int rc = job_new(&j, opts, flags, 1, &err), status;
    if (!rc)
        rc = job_resume_find(j, opts, &err);
    if (!rc)
        rc = job_describe(j, &err);
    if (!rc && !flags->dry_run)
        rc = client_env_start(&j->c, &err);
    if (!rc)
        job_owner_begin(j);
    if (rc) {
        dprintf(STDERR_FILENO, "paddlectl: %s\n", err.msg);
        status = pd_code_exit_status(rc);
    } else if (flags->dry_run) {
        status = job_dry_run(j);
    } else {
        status = job_loop(j, JOB_PREPARE);
    }
    if (j)
        job_free(j);
    return status;
}
