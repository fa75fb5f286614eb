/* SPDX-License-Identifier: Apache-2.0 */
/* head.c - see head.h. The states are a table; only head_enter writes the state. head_ask.c has the
 * requests to nodes, head_messages.c their answers and events, head_fail.c failures and restarts,
 * head_lost.c lost nodes. */
#include "agent/head/head.h"

#include "agent/head/head_internal.h"
#include "agent/core/msg.h"
#include "agent/core/result.h"
#include "net/conn.h"
#include "wire/msg.h"

enum {
    PROBE_MS = 60000,
    BIND_MS = 30000,
    START_SLACK_MS = 15000,
    CLOSE_SLACK_MS = 10000,
    ABORT_SLACK_MS = 500,
    STOP_SLACK_MS = 100,
    NOTICE_MS = 500,
    PACE = 32 /* requests in work at once on this machine */
};

/* --- per state: is a node done with it? --- */

static int node_joined(const struct ag_head *h, int i) { return h->node[i].joined; }
static int node_answered(const struct ag_head *h, int i) { return h->node[i].answered; }

static int pserver_listens(const struct ag_head *h, int i) {
    return roles_rank(&h->roles, ROLE_PSERVER, i) < 0 || (h->node[i].answered && h->node[i].ready);
}

/* A job without trainers is over when its pservers have ended. */
static int trainer_done(const struct ag_head *h, int i) {
    if (!h->roles.n[ROLE_TRAINER])
        return roles_rank(&h->roles, ROLE_PSERVER, i) < 0 || h->node[i].exited[ROLE_PSERVER];
    return roles_rank(&h->roles, ROLE_TRAINER, i) < 0 || h->node[i].exited[ROLE_TRAINER];
}

/* A user's own pserver can't know when to end. The head does not wait for it; the next state sends
 * TERM. */
static int pserver_done(const struct ag_head *h, int i) {
    return roles_rank(&h->roles, ROLE_PSERVER, i) < 0 || h->node[i].exited[ROLE_PSERVER] ||
           *h->spec->command[ROLE_PSERVER];
}

/* The head waits neither for nodes that are away (their lease ends them) nor for nodes without a
 * trainer. */
static int trainer_ended(const struct ag_head *h, int i) {
    return !h->node[i].joined || (h->node[i].answered && h->node[i].exited[ROLE_TRAINER]);
}

/* A node that is away ends its processes by itself. */
static int closed(const struct ag_head *h, int i) {
    return h->node[i].answered || !h->node[i].joined;
}

static const struct {
    const char *name,
        *waiting_for; /* AG_STATE's state, and the text before the names of unfinished nodes */
    json_t *(*ask)(struct ag_head *h, int node,
                   uint16_t *type);                 /* returns NULL: no request for this node */
    int (*done)(const struct ag_head *h, int node); /* NULL: only the deadline ends the state */
    enum head_state next, late; /* next: when all nodes are done. late: after the deadline;
                                   HEAD_IDLE: the deadline is a failure */
} states[N_HEAD_STATES] = {
    [HEAD_IDLE] = {"setup", NULL, NULL, NULL, HEAD_IDLE, HEAD_IDLE},
    [HEAD_CONNECTING] = {"connecting", "waiting for", NULL, node_joined, HEAD_PROBING, HEAD_IDLE},
    [HEAD_PROBING] = {"probing", "probing addresses with", head_ask_probe, node_answered,
                      HEAD_BINDING, HEAD_IDLE},
    [HEAD_BINDING] = {"binding", "binding ports on", head_ask_bind, node_answered, HEAD_PSERVERS,
                      HEAD_IDLE},
    [HEAD_PSERVERS] = {"pservers", "starting pservers on", head_ask_pserver, pserver_listens,
                       HEAD_TRAINERS, HEAD_IDLE},
    [HEAD_TRAINERS] = {"trainers", NULL, head_ask_trainer, trainer_done, HEAD_ENDING, HEAD_IDLE},
    [HEAD_SAVING] = {"saving", "waiting for the trainers to save on", head_ask_save, trainer_done,
                     HEAD_ENDING, HEAD_CLOSING},
    [HEAD_RESTARTING] = {"restarting", "ending processes on", head_ask_restart, node_answered,
                         HEAD_BACKOFF, HEAD_IDLE},
    [HEAD_BACKOFF] = {"restarting", NULL, NULL, NULL, HEAD_BINDING, HEAD_BINDING},
    [HEAD_ENDING] = {"ending", "waiting for the pservers to end on", NULL, pserver_done,
                     HEAD_CLOSING, HEAD_CLOSING},
    [HEAD_STOPPING] = {"ending", "ending the trainers on", head_ask_stop, trainer_ended,
                       HEAD_CLOSING, HEAD_CLOSING},
    [HEAD_CLOSING] = {"ending", "ending processes on", head_ask_end, closed, HEAD_OVER, HEAD_OVER},
    [HEAD_OVER] = {NULL, NULL, NULL, NULL, HEAD_OVER, HEAD_OVER},
};

/* The head does not wait for a node that is lost for good. */
static int is_done(const struct ag_head *h, int i) {
    return h->gone[i] || states[h->state].done(h, i);
}

/* 0: no deadline. Training may take any time. In HEAD_IDLE the client's lease is the deadline. */
static uint64_t deadline_ms(const struct ag_head *h) {
    switch (h->state) {
    case HEAD_CONNECTING:
        return h->spec->job.connect_ms;
    case HEAD_PROBING:
        return PROBE_MS;
    case HEAD_BINDING:
        return BIND_MS;
    case HEAD_PSERVERS: /* each node has its own limit, and its message says more */
        return h->spec->job.ready_ms + START_SLACK_MS;
    case HEAD_SAVING:
        return h->save_ms + 1;
    case HEAD_RESTARTING:
        return h->spec->job.grace_ms + CLOSE_SLACK_MS;
    case HEAD_BACKOFF:
        return head_backoff_ms(h) + 1;
    case HEAD_ENDING:
        return h->spec->job.end_ms + 1;
    case HEAD_STOPPING:
        return h->grace_ms + STOP_SLACK_MS;
    case HEAD_CLOSING:
        return head_end_grace_ms(h) + (h->aborted ? ABORT_SLACK_MS : CLOSE_SLACK_MS);
    default:
        return 0;
    }
}

/* "node 2 (10.0.0.3), node 5 (gpu-05) and 7 more" */
static int name_missing(const struct ag_head *h, char *out, size_t cap) {
    int n = 0;
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; states[h->state].done && i < h->spec->n_nodes; i++) {
        if (is_done(h, i))
            continue;
        if (++n <= 4 && at < cap)
            at += (size_t)snprintf(out + at, cap - at, "%snode %d (%.60s)", n > 1 ? ", " : "", i,
                                   head_host(h, i));
    }
    if (n > 4 && at < cap)
        snprintf(out + at, cap - at, " and %d more", n - 4);
    return n;
}

static int only_pservers(const struct ag_head *h) {
    return h->state == HEAD_TRAINERS && !h->roles.n[ROLE_TRAINER];
}

/* Publishes a state when it begins. on_notice later adds the nodes that the head waits for, and
 * publishes again whenever they change. */
void head_publish(struct ag_head *h, const char *text) {
    if (!states[h->state].name || h->state == HEAD_IDLE)
        return;
    snprintf(h->text, sizeof h->text, "%s", text);
    h->io.state(h->arg, only_pservers(h) ? "pservers" : states[h->state].name, text);
}

static void on_notice(uv_timer_t *t) {
    struct ag_head *h = t->data;
    char who[300], text[400];
    if (!states[h->state].waiting_for || !name_missing(h, who, sizeof who))
        return;
    snprintf(text, sizeof text, "%s %s", states[h->state].waiting_for, who);
    if (strcmp(text, h->text))
        head_publish(h, text);
}

/* --- the machine --- */

/* Gives up connected nodes that did not end their processes in time. For a node that is away, the
 * lease decides. */
static void give_up_silent(struct ag_head *h, const char *reason) {
    for (int i = h->spec->n_nodes; i-- > 0 && h->state == HEAD_RESTARTING;)
        if (!is_done(h, i) && h->node[i].joined)
            head_give_up(h, i, reason);
}

/* A head that has taken another one's part does not know the addresses that work. */
static enum head_state after(const struct ag_head *h, enum head_state next) {
    return next == HEAD_BINDING && !h->probed ? HEAD_PROBING : next;
}

/* The nodes that an attached head has given up may follow another head, if this one stood still for
 * long. Then paddlectl has left this node, too, and the lease ends it. */
static int is_followed(struct ag_head *h) {
    if (h->gave_up_ns && h->spec->job.attached && !h->io.heard(h->arg, h->gave_up_ns))
        return 0;
    h->gave_up_ns = 0;
    return 1;
}

static void on_deadline(uv_timer_t *t) {
    struct ag_head *h = t->data;
    char who[300], reason[420];
    int missing = name_missing(h, who, sizeof who);
    if (head_waits_for_lost(h)) {
        uv_timer_start(t, on_deadline, NOTICE_MS, 0);
        return;
    }
    if (h->state == HEAD_BACKOFF && !is_followed(h)) {
        uv_timer_start(t, on_deadline, NOTICE_MS, 0);
        return;
    }
    if (states[h->state].late != HEAD_IDLE) {
        if (missing)
            pd_warn(h->log, "%s: not done in time: %s", states[h->state].name, who);
        head_enter(h, after(h, states[h->state].late));
        return;
    }
    snprintf(reason, sizeof reason, "%s: no answer within %llu s: %s", states[h->state].name,
             (unsigned long long)(deadline_ms(h) + 999) / 1000, who);
    int first = -1;
    if (h->state == HEAD_RESTARTING) {
        give_up_silent(h, reason);
        return;
    }
    for (int i = 0; i < h->spec->n_nodes && first < 0; i++)
        if (!is_done(h, i))
            first = i;
    head_note_failure(h, first, head_reason_failure(h, first, reason), 0, 0);
}

static void ask(struct ag_head *h, int i) {
    struct head_node *n = &h->node[i];
    uint16_t type = 0;
    if (!states[h->state].ask || n->asked || n->answered || !n->joined || h->gone[i])
        return;
    json_t *body = states[h->state].ask(h, i, &type);
    n->asked = 1;
    if (!body) {
        n->answered = 1;
        return;
    }
    n->req = ++h->next_req;
    h->io.send(h->arg, i, type, n->req, body);
}

/* Hundreds of nodes on the machine of the head would keep its processors busy for seconds if all
 * worked at once, and paddlectl and the head would hear of none of them. So these nodes take turns
 * where the work of a request is short. The end of processes may take a grace period. */
static int is_paced(const struct ag_head *h, int i) {
    return h->state >= HEAD_PROBING && h->state <= HEAD_TRAINERS &&
           !strcmp(h->node[i].machine, h->node[h->spec->node].machine);
}

static void ask_paced(struct ag_head *h) {
    while (h->next_paced < h->spec->n_nodes && h->n_paced < PACE) {
        const int i = h->next_paced++; /* a node that is lost at once leads here, too */
        struct head_node *n = &h->node[i];
        if (n->asked || !is_paced(h, i))
            continue;
        ask(h, i);
        n->paced = n->asked && !n->answered;
        h->n_paced += n->paced;
    }
}

static void ask_all(struct ag_head *h) {
    h->n_paced = h->next_paced = 0;
    for (int i = 0; i < h->spec->n_nodes; i++) {
        h->node[i].paced = 0;
        if (!is_paced(h, i))
            ask(h, i);
    }
    ask_paced(h);
}

void head_pace(struct ag_head *h, int node) {
    if (!h->node[node].paced)
        return;
    h->node[node].paced = 0;
    h->n_paced--;
    ask_paced(h);
}

void head_ask_again(struct ag_head *h, int node) {
    h->node[node].asked = h->node[node].answered = 0;
    ask(h, node);
}

static void announce_end(struct ag_head *h) {
    const char *status = h->stopped ? "stopped" : h->failure ? "failed" : "done";
    uv_timer_stop(&h->window);
    uv_timer_stop(&h->lost);
    uv_timer_stop(&h->notice);
    uv_timer_stop(&h->early);
    if (!h->left)
        h->io.over(h->arg, status, h->failure, h->later);
}

/* Forgets the last attempt. Every node has answered: no process of that attempt is left, and no
 * report about it will come. */
static void forget_attempt(struct ag_head *h) {
    head_forget_endpoints(h);
    for (int i = 0; i < h->spec->n_nodes; i++) {
        struct head_node *n = &h->node[i];
        n->ready = 0;
        memset(n->ports, 0, sizeof n->ports);
        memset(n->exited, 0, sizeof n->exited);
        n->alone = n->trained = 0;
    }
}

void head_enter(struct ag_head *h, enum head_state state) {
    if (state == HEAD_OVER)
        head_note_lost_spares(h);
    h->state = state;
    uv_timer_stop(&h->deadline);
    for (int i = 0; i < h->spec->n_nodes; i++)
        h->node[i].asked = h->node[i].answered = 0;
    if (state == HEAD_PROBING)
        head_plan_probes(h);
    if (state == HEAD_BACKOFF)
        forget_attempt(h);
    if (state == HEAD_OVER) {
        announce_end(h);
        return;
    }
    if (deadline_ms(h))
        uv_timer_start(&h->deadline, on_deadline, deadline_ms(h), 0);
    ask_all(h);
    char text[400] = "";
    if (only_pservers(h))
        snprintf(text, sizeof text, "%d pservers run", h->roles.n[ROLE_PSERVER]);
    else if (state == HEAD_TRAINERS)
        snprintf(text, sizeof text, "%d pservers, %d trainers", h->roles.n[ROLE_PSERVER],
                 h->roles.n[ROLE_TRAINER]);
    else if (state == HEAD_RESTARTING)
        snprintf(text, sizeof text, "%.390s", h->restart_text);
    else if (state == HEAD_SAVING)
        snprintf(text, sizeof text, "the trainers save the model and end, for at most %u s",
                 (h->save_ms + 999) / 1000);
    if (state != HEAD_BACKOFF)
        head_publish(h, text);
    uv_timer_start(&h->notice, on_notice, NOTICE_MS, NOTICE_MS);
    head_check(h);
}

/* Enters the next state when every node is done. After a failure the head stays in its state until
 * the failure window ends. The exits that the failure causes must not look like the job's end. */
void head_check(struct ag_head *h) {
    if (!states[h->state].done || (h->failure && h->state != HEAD_CLOSING))
        return;
    for (int i = 0; i < h->spec->n_nodes; i++)
        if (!is_done(h, i))
            return;
    h->probed |= h->state == HEAD_PROBING;
    head_enter(h, after(h, states[h->state].next));
}

void head_close(struct ag_head *h) {
    if (h->state != HEAD_CLOSING && h->state != HEAD_OVER)
        head_enter(h, HEAD_CLOSING);
}

void head_asks_too(struct ag_head *h, int node) {
    ask(h, node);
    /* The node was away when the head asked the others. It gets the same time. */
    if (h->state == HEAD_RESTARTING && h->node[node].asked && !h->node[node].answered)
        uv_timer_start(&h->deadline, on_deadline, deadline_ms(h), 0);
    head_check(h);
}

/* --- ends that come from outside --- */

void head_fail(struct ag_head *h, int node, const char *reason) {
    if (h->state == HEAD_OVER)
        return;
    head_note_failure(h, node, head_reason_failure(h, node, reason), 0, 0);
}

void head_abort(struct ag_head *h, unsigned grace_ms, int node, const char *reason) {
    if (h->state == HEAD_OVER)
        return;
    const unsigned before_ms = head_end_grace_ms(h);
    h->aborted = 1;
    h->save_until_ns = 0; /* a trainer's children that still save have no more time, either */
    if (h->state != HEAD_CLOSING || grace_ms < h->grace_ms)
        h->grace_ms = grace_ms;
    /* No client is left to hear of silent nodes; their own leases end them. */
    if (h->state == HEAD_CLOSING) {
        if (head_end_grace_ms(h) < before_ms)
            head_enter(h, HEAD_CLOSING); /* the nodes are asked again */
        else if (uv_timer_get_due_in(&h->deadline) > deadline_ms(h))
            uv_timer_start(&h->deadline, on_deadline, deadline_ms(h), 0);
        return;
    }
    head_fail(h, node, reason);
    head_close(h);
}

static int trainers_may_run(const struct ag_head *h) {
    return (h->state == HEAD_TRAINERS || h->state == HEAD_SAVING) && h->roles.n[ROLE_TRAINER] &&
           h->roles.n[ROLE_PSERVER];
}

void head_stop(struct ag_head *h, unsigned grace_ms, const char *reason) {
    if (h->state == HEAD_OVER || h->state == HEAD_CLOSING ||
        (h->state == HEAD_STOPPING && grace_ms >= h->grace_ms))
        return;
    h->stopped = 1;
    h->grace_ms = grace_ms;
    h->save_until_ns = 0;
    json_decref(h->failure); /* the stop caused the failure in the window */
    h->failure = NULL;
    h->later = h->others = 0;
    pd_info(h->log, "stopped: %s", reason);
    head_enter(h, grace_ms && trainers_may_run(h) ? HEAD_STOPPING : HEAD_CLOSING);
}

void head_save(struct ag_head *h, unsigned save_ms, unsigned grace_ms, const char *reason) {
    if (h->save_until_ns) /* a node repeats the request */
        return;
    if (h->state != HEAD_TRAINERS || h->failure || !h->roles.n[ROLE_TRAINER]) {
        head_stop(h, grace_ms, reason);
        return;
    }
    h->stopped = 1;
    h->grace_ms = grace_ms;
    h->save_ms = save_ms;
    h->save_until_ns = pd_mono_ns() + save_ms * UINT64_C(1000000);
    uv_timer_stop(&h->early);
    pd_info(h->log, "stopped after saving: %s", reason);
    head_enter(h, HEAD_SAVING);
}

void head_run(struct ag_head *h) {
    if (h->state == HEAD_IDLE)
        head_enter(h, HEAD_CONNECTING);
}

static void free_parts(struct ag_head *h) {
    json_decref(h->failure);
    json_decref(h->unnamed);
    json_decref(h->early_exit);
    json_decref(h->lost_nodes);
    head_forget_endpoints(h);
    roles_release(&h->roles);
    free(h->node);
    free(h->gone);
    free(h);
}

int head_new(struct ag_head **out, uv_loop_t *loop, const struct spec *s, json_t *peers,
             const struct pd_log *log, const struct head_io *io, void *arg, struct pd_err *err) {
    struct ag_head *h = pd_calloc(1, sizeof *h);
    if (!h)
        return pd_oom(err, "the head of a job");
    *h = (struct ag_head){.loop = loop,
                          .spec = s,
                          .peers = peers,
                          .log = log,
                          .io = *io,
                          .arg = arg,
                          .grace_ms = s->job.grace_ms};
    h->node = pd_calloc((size_t)s->n_nodes, sizeof *h->node);
    h->gone = pd_calloc((size_t)s->n_nodes, 1);
    h->lost_nodes = json_array();
    h->unnamed = result_reason(0, "", "out of memory while a failure of the job was reported");
    if (!h->node || !h->gone || !h->lost_nodes || !h->unnamed || roles_copy(&h->roles, &s->roles)) {
        free_parts(h);
        return pd_oom(err, "the head of a job");
    }
    uv_timer_t *timers[] = {&h->deadline, &h->lost, &h->window, &h->notice, &h->early};
    for (int i = 0; i < 5; i++) {
        uv_timer_init(loop, timers[i]);
        timers[i]->data = h;
        h->n_handles++;
    }
    *out = h;
    return 0;
}

static void on_closed(uv_handle_t *t) {
    struct ag_head *h = t->data;
    if (--h->n_handles)
        return;
    free_parts(h);
}

void head_free(struct ag_head *h) {
    if (!h)
        return;
    uv_close((uv_handle_t *)&h->deadline, on_closed);
    uv_close((uv_handle_t *)&h->lost, on_closed);
    uv_close((uv_handle_t *)&h->window, on_closed);
    uv_close((uv_handle_t *)&h->notice, on_closed);
    uv_close((uv_handle_t *)&h->early, on_closed);
}
