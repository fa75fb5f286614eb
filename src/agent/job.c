/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h: messages between head, node and the other agents, leases, and the end.
 * job_requests.c has a client's requests. */
#include <sodium.h>

#include "agent/job_internal.h"
#include "agent/report/probe.h"
#include "agent/core/result.h"
#include "wire/msg.h"

enum { BYE_GRACE_MS = 1000, LOG_TURN_MS = 5, TAKE_OVER_MS = 15000 };

struct ag_job_post {
    struct ag_job_post *next;
    int to_head;
    uint16_t type;
    uint64_t req;
    json_t *body;
    int is_refusal;
    struct pd_err err;
};

static void __attribute__((format(printf, 3, 4)))
set_state(struct ag_job *j, const char *state, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    j->o.events->on_state(j->o.arg, state, text);
}

json_t *ag_job_lost_nodes(const struct ag_job *j) {
    json_t *lost = j && j->head ? json_deep_copy(head_lost_nodes(j->head)) : NULL;
    return lost ? lost : json_array();
}

json_t *ag_job_state(const struct ag_job *j) {
    if (!j || !j->node)
        return NULL;
    const struct file_few few = ag_job_few(j);
    const struct status_job s = {.name = j->spec.job.name ? j->spec.job.name : "",
                                 .node = j->spec.node,
                                 .n_nodes = j->spec.n_nodes,
                                 .head = j->head_node,
                                 .attached = j->spec.job.attached,
                                 .started_us = j->started_us,
                                 .ended_us = j->ended_us,
                                 .restarts = j->restarts,
                                 .processes = node_processes(j->node),
                                 .lost = ag_job_lost_nodes(j),
                                 .few_copies = few.files,
                                 .few_bytes = few.bytes};
    return status_state(j->o.core, &s);
}

void ag_job_save_state(struct ag_job *j) {
    if (j->node)
        status_save(j->o.core, ag_job_state(j));
}

struct file_fetch *const *ag_job_files(const struct ag_job *j) {
    return &j->data;
}
int ag_job_started(const struct ag_job *j) { return j && j->started; }
int ag_job_unwritten(const struct ag_job *j) { return j && j->unwritten; }
int ag_job_head(const struct ag_job *j) { return j ? j->head_node : 0; }

/* --- how it ended here --- */

static void conclude(struct ag_job *j, const char *status, const json_t *first_failure, int later) {
    struct pd_err err = {0};
    if (j->result)
        return;
    j->result = result_make(&j->o.core->paths, j->spec.node, status, first_failure, later);
    json_object_set_new(j->result, "restarts", json_integer((json_int_t)j->restarts));
    j->ended_us = pd_wall_us();
    json_object_set_new(j->result, "took_ms",
                        json_integer((json_int_t)(j->ended_us - j->started_us) / 1000));
    passes_describe(&j->passes, j->result); /* only the head knows them, and `lost` */
    json_object_set_new(j->result, "lost", ag_job_lost_nodes(j));
    json_object_set_new(j->result, "head", json_integer(j->head_node));
    json_object_set_new(j->result, "left", json_boolean(j->left));
    if (j->started && result_write(&j->o.core->paths, j->result, &err)) {
        pd_error(ag_job_log(j), "%s", err.msg);
        j->unwritten = 1;
    }
    ag_job_save_state(j);
    if (j->link)
        peer_link_rest(j->link);
    clients_set_owner(j->o.clients, ""); /* whoever fetches results keeps the agent */
    set_state(j, status, "%s", "");
    j->o.events->on_over(j->o.arg, j->result);
}

void ag_job_over_with_reason(struct ag_job *j, const char *status, const char *reason) {
    json_t *f = *reason && !strcmp(status, "failed")
                    ? result_reason(j->lost_head ? j->head_node : j->spec.node, "", reason)
                    : NULL; /* otherwise the head has the reason */
    conclude(j, status, f, 0);
    json_decref(f);
}

/* --- messages between head and node of this agent --- */

static void from_head(struct ag_job *j, uint16_t type, uint64_t req, const json_t *body);

static void on_post(uv_timer_t *t) {
    struct ag_job *j = t->data;
    while (j->posts) {
        struct ag_job_post *p = j->posts;
        j->posts = p->next;
        if (!j->posts)
            j->posts_end = &j->posts;
        if (p->to_head && j->head)
            head_message(j->head, j->spec.node, p->type, p->req, p->body,
                         p->is_refusal ? &p->err : NULL);
        else if (!p->to_head)
            from_head(j, p->type, p->req, p->body);
        json_decref(p->body);
        free(p);
    }
}

static void post(struct ag_job *j, int to_head, uint16_t type, uint64_t req, json_t *body,
                 const struct pd_err *refused) {
    struct ag_job_post *p = j->quitting ? NULL : pd_calloc(1, sizeof *p);
    if (!p) {
        json_decref(body);
        return;
    }
    *p = (struct ag_job_post){
        .to_head = to_head, .type = type, .req = req, .body = body, .is_refusal = refused != NULL};
    if (refused)
        p->err = *refused;
    *j->posts_end = p;
    j->posts_end = &p->next;
    uv_timer_start(&j->post_timer, on_post, 0, 0);
}

/* Sends a message of this node to the head. */
static void to_head(struct ag_job *j, uint16_t type, uint64_t req, json_t *body) {
    if (type == WIRE_HD_START || type == WIRE_HD_EXITED)
        ag_job_save_state(j);
    struct hd_fail fail;
    if (type == WIRE_HD_FAIL && !wire_get(&wire_hd_fail, &fail, body, NULL)) {
        snprintf(j->failed, sizeof j->failed, "%s", fail.reason);
        snprintf(j->failed_role, sizeof j->failed_role, "%s", fail.role);
    }
    if (ag_job_is_head(j))
        post(j, 1, type, req, body, NULL);
    else
        peer_link_send(j->link, PEER_HEAD, type, req, body);
    if (type == WIRE_HD_END && !ag_job_is_head(j) && !j->restarting)
        ag_job_over_with_reason(j, *j->end_status ? j->end_status : "done", j->failed);
}

static void on_node_send(void *arg, uint16_t type, uint64_t req, json_t *body) {
    to_head(arg, type, req, body);
}

static void on_node_refuse(void *arg, uint16_t type, uint64_t req, const struct pd_err *e) {
    struct ag_job *j = arg;
    pd_warn(ag_job_log(j), "%s: %s", wire_msg_name(type), e->msg);
    if (ag_job_is_head(j))
        post(j, 1, type, req, NULL, e);
    else
        peer_link_refuse(j->link, PEER_HEAD, type, req, e);
}

/* The first output after a silence is sent at once. A process that writes line by line then causes
 * one message every LOG_TURN_MS, not one per line. */
static void on_log_turn(uv_timer_t *t) {
    struct ag_job *j = t->data;
    if (!j->log_grew)
        return;
    j->log_grew = 0;
    log_send_all(j->o.clients);
    if (!j->quitting)
        uv_timer_start(t, on_log_turn, LOG_TURN_MS, 0);
}

static void on_log_grew(void *arg) {
    struct ag_job *j = arg;
    j->log_grew = 1;
    if (!uv_is_active((uv_handle_t *)&j->log_timer))
        on_log_turn(&j->log_timer);
}

static int on_data_channel(void *arg, struct pd_err *err) {
    struct ag_job *j = arg;
    return j->data ? file_fetch_channel(j->data, err) : -1;
}

struct probe_request {
    struct ag_job *j;
    uint64_t req;
    int node;
};

static void on_probed(void *arg, const struct probe_result *v, size_t n) {
    struct probe_request *r = arg;
    struct ag_job *j = r->j;
    const struct probe_result *best = probe_best(v, n);
    const char *addr = best ? best->addr : "";
    for (size_t i = 0; i < n; i++)
        if (!v[i].ok)
            pd_info(ag_job_log(j), "probe of node %d at %s: %s", r->node, v[i].addr, v[i].why);
    pd_info(ag_job_log(j), "node %d is reached at '%s' (%zu tried)", r->node, addr, n);
    if (!j->quitting)
        to_head(j, WIRE_HD_PROBE, r->req,
                wire_put(&wire_hd_probe_answer, &(struct hd_probe_answer){.addr = addr}));
    free(r);
}

static void probe(struct ag_job *j, uint64_t req, const json_t *body) {
    struct wire_hs_opts hs;
    struct pd_err err = {0};
    struct hd_probe of;
    if (wire_get(&wire_hd_probe, &of, body, &err)) {
        on_node_refuse(j, WIRE_HD_PROBE, req, &err);
        return;
    }
    const struct probe_target target = {
        .addrs = of.addrs, .max = PROBE_ADDRS_MAX, .port = (int)of.port, .node = (uint32_t)of.node};
    struct probe_request *r = pd_malloc(sizeof *r);
    if (r)
        *r = (struct probe_request){j, req, (int)of.node};
    else
        pd_oom(&err, "a probe of a node");
    peer_id_put(&j->self, WIRE_ROLE_PROBE, &hs);
    if (!r || probe_node(j->o.core, &hs, &target, on_probed, r, &err)) {
        free(r);
        on_node_refuse(j, WIRE_HD_PROBE, req, &err);
    }
}

/* Publishes a state for the head's message. The head's node publishes the head's own states. */
static void tell_state(struct ag_job *j, const char *state) {
    if (!ag_job_is_head(j) && !j->result)
        set_state(j, state, "%s", "");
}

static void note_start(struct ag_job *j, const struct hd_start *s) {
    tell_state(j, role_of(s->role) == ROLE_PSERVER ? "pservers" : "trainers");
    j->started = 1;
    j->restarts = (unsigned)s->restarts;
}

static void note_end(struct ag_job *j, const struct hd_end *e) {
    tell_state(j, e->restart ? "restarting" : "ending");
    snprintf(j->end_status, sizeof j->end_status, "%s", e->status);
    j->restarting = (int)e->restart;
    if (j->restarting) {
        j->restarts = (unsigned)e->restarts;
        *j->failed = 0; /* it belongs to the last attempt */
    } else if (*e->reason) {
        snprintf(j->failed, sizeof j->failed, "%s", e->reason);
    }
}

/* Handles a request of the head, on every node. The request's handler refuses a bad body. */
static void from_head(struct ag_job *j, uint16_t type, uint64_t req, const json_t *body) {
    struct hd_start start;
    struct hd_end end;
    j->ran = 1;
    if (type == WIRE_HD_PROBE)
        tell_state(j, "probing");
    else if (type == WIRE_HD_BIND)
        tell_state(j, "binding");
    else if (type == WIRE_HD_STOP)
        tell_state(j, "ending");
    else if (type == WIRE_HD_START && !wire_get(&wire_hd_start, &start, body, NULL))
        note_start(j, &start);
    else if (type == WIRE_HD_END && !wire_get(&wire_hd_end, &end, body, NULL))
        note_end(j, &end);
    if (type == WIRE_HD_PROBE)
        probe(j, req, body);
    else
        node_message(j->node, type, req, body);
}

/* --- the head's side --- */

static void on_head_send(void *arg, int node, uint16_t type, uint64_t req, json_t *body) {
    struct ag_job *j = arg;
    if (type == WIRE_HD_START && !j->started) {
        j->started = 1;
        election_changed(&j->election);
        j->keep_due = 1;
    }
    if (node == j->spec.node)
        post(j, 0, type, req, body, NULL);
    else
        peer_link_send(j->link, node, type, req, body);
}

static void on_head_state(void *arg, const char *state, const char *text) {
    set_state(arg, state, "%s", text);
}
static void on_head_over(void *arg, const char *status, const json_t *first, int later) {
    conclude(arg, status, first, later);
}

/* --- the other agents --- */

static void on_join(void *arg, int node, const json_t *join) {
    struct ag_job *j = arg;
    if (!j->head)
        return;
    head_joined(j->head, node, join);
    ag_vote_joined(j, node);
}

static void on_alive(void *arg, int node, uint64_t sent_ms) {
    election_acked(&((struct ag_job *)arg)->election, node, sent_ms);
}

static void on_lost(void *arg, int node) {
    struct ag_job *j = arg;
    if (j->head)
        head_lost(j->head, node);
}

static void on_message(void *arg, int node, const struct wire_frame *f, const json_t *body,
                       const struct pd_err *refused) {
    struct ag_job *j = arg;
    if (ag_vote_message(j, node, f, body, refused) ||
        ag_job_file_message(j, node, f, body, refused))
        return;
    if (node == PEER_HEAD && !refused)
        from_head(j, f->type, f->req, body);
    else if (node != PEER_HEAD && j->head)
        head_message(j->head, node, f->type, f->req, body, refused);
}

json_t *ag_job_join_body(void *arg) {
    struct ag_job *j = arg;
    struct hd_join join = {.node = j->spec.node,
                           .incarnation = (int64_t)(j->self.incarnation >> 1),
                           .net_id = j->net_id,
                           .machine = j->machine,
                           .failed = j->failed,
                           .failed_role = j->failed_role,
                           .restarts = (int64_t)j->restarts};
    node_describe(j->node, &join);
    json_t *o = wire_put(&wire_hd_join, &join);
    json_decref(join.ready);
    json_decref(join.exited);
    json_decref(join.passes);
    return o;
}

static void on_joined(void *arg) {
    struct ag_job *j = arg;
    if (!j->result && !j->ran)
        set_state(j, "connecting", "node %d has joined", j->spec.node);
    if (j->save_stop && !j->result)
        peer_link_send(j->link, PEER_HEAD, WIRE_HD_STOP_JOB, 0, json_incref(j->save_stop));
    if (j->head_node) /* the first head has heard of them when they came */
        file_announce(j->data);
}

static void on_taker_frame(void *arg, struct net_conn *c, struct wire_frame *f) {
    file_serve_frame(file_fetch_server(((struct ag_job *)arg)->data), c, f);
}
static void on_taker_gone(void *arg, struct net_conn *c) {
    file_serve_gone(file_fetch_server(((struct ag_job *)arg)->data), c);
}

const struct node_io ag_job_node_io = {on_node_send, on_node_refuse, on_log_grew, on_data_channel};
static void on_head_pass(void *arg, int node, const json_t *body, const json_t *event) {
    struct ag_job *j = arg;
    ag_vote_heard(j, node, body);
    struct pd_err err = {0};
    passes_take(&j->passes, event);
    if (passes_append(&j->o.core->paths, event, &err))
        pd_error(ag_job_log(j), "%s", err.msg);
}

static int on_head_heard(void *arg, uint64_t since_ns) {
    const uint64_t ns = clients_silent_ms(((struct ag_job *)arg)->o.clients) * UINT64_C(1000000);
    return pd_mono_ns() - ns >= since_ns;
}

const struct head_io ag_job_head_io = {on_head_send, on_head_state, on_head_over, on_head_pass,
                                       on_head_heard};
const struct peer_events ag_job_peer_events = {on_join,          on_lost,        on_message,
                                               ag_job_join_body, on_joined,      on_alive,
                                               ag_vote_asked,    on_taker_frame, on_taker_gone};

/* --- leases and the end --- */

static void on_ended_then_quit(void *arg) {
    struct ag_job *j = arg;
    if (!j->result)
        ag_job_over_with_reason(j, "failed", j->failed);
    ag_job_quit(j, 0);
}

/* 1: paddlectl can let another node take the head's part, or the nodes can choose one, so this node
 * leaves without an end of the job. */
static int leaves(struct ag_job *j, const char *role) {
    const int alone = !strcmp(role, "agent") || j->lease_over;
    return alone && (j->spec.job.attached || ag_vote_goes_on(j)) && j->head && !j->result &&
           head_leave(j->head, j->fenced);
}

void ag_job_end(struct ag_job *j, unsigned grace_ms, const char *role, const char *reason) {
    if (!ag_job_is_live(j) || !j->node) {
        ag_job_quit(j, 1);
        return;
    }
    if (j->ending)
        return;
    j->left = leaves(j, role);
    j->ending = 1;
    pd_warn(ag_job_log(j), "ending: %s", reason);
    if (!j->result) {
        if (j->head && !j->left)
            head_abort(j->head, grace_ms, j->spec.node, reason);
        else if (!j->head)
            to_head(j, WIRE_HD_FAIL, 0,
                    wire_put(&wire_hd_fail, &(struct hd_fail){.reason = reason, .role = role}));
        snprintf(j->failed, sizeof j->failed, "%s", reason);
        snprintf(j->failed_role, sizeof j->failed_role, "%s", role);
    }
    /* The head ends the whole job first, and with it the processes of this node. ag_job_tick then
     * quits. */
    if (!j->head || j->left || j->result || !j->ran) {
        j->quit = (struct end_waiter){.done = on_ended_then_quit, .arg = j};
        node_end(j->node, NODE_END, grace_ms, &j->quit);
    }
}

void ag_job_bye(struct ag_job *j, int abandon, int detach, int is_spare) {
    if (detach && ag_job_is_live(j) && !j->result) {
        j->spec.job.attached = 0;
        ag_vote_detached(j);
        clients_set_owner(j->o.clients, "");
        ag_job_save_state(j);
    } else if (!ag_job_is_live(j) && (abandon || !is_spare))
        ag_job_quit(j, 0);
    else if (ag_job_is_live(j) && abandon && !j->started)
        ag_job_end(j, BYE_GRACE_MS, "", "given up before it ran");
    else if (j->result || j->stopping) /* a stop ends soon: its result needs no client */
        j->said_bye = 1;
}

static void end_by_lease(struct ag_job *j, const char *reason) {
    j->lease_over = 1;
    ag_job_end(j, ag_job_lease_grace_ms(j), "", reason);
}

/* How long a node waits for its head. While paddlectl is connected, paddlectl may give the head up
 * and let another node take its part, which takes up to two of its leases. */
static uint64_t head_lease_ms(const struct ag_job *j) {
    const struct job_spec *s = &j->spec.job;
    return s->detach_lease_ms +
           (s->attached && s->max_restarts ? 2 * s->attach_lease_ms + TAKE_OVER_MS : 0);
}

static void tell_lost_head(const struct ag_job *j, uint64_t ms, char *out, size_t cap) {
    const int n = snprintf(out, cap, "node %d has not heard of node %d for %llu ms", j->spec.node,
                           j->head_node, (unsigned long long)ms);
    if (!j->spec.job.attached && j->spec.job.max_restarts)
        snprintf(out + n, cap - (size_t)n,
                 ", and no majority of the job's nodes has chosen another head; to continue: "
                 "paddlectl run --resume=%s",
                 j->self.job);
}

static void tick_live(struct ag_job *j, uint64_t silent_ms) {
    const uint64_t lease = j->spec.job.attach_lease_ms, head_ms = peer_link_silent_ms(j->link);
    char reason[sizeof j->failed];
    if (j->result) { /* results may be fetched while clients are connected */
        int alone = !clients_count(j->o.clients);
        if ((alone && (j->said_bye || !j->spec.job.attached || j->ending)) || silent_ms >= lease)
            ag_job_quit(j, 1);
    } else if (j->ending) {
        return;
    } else if ((j->spec.job.attached || !j->ran) && silent_ms >= lease) {
        snprintf(reason, sizeof reason, "the launcher's connection to node %d was lost for %llu ms",
                 j->spec.node, (unsigned long long)silent_ms);
        end_by_lease(j, reason);
    } else if (j->ran && head_ms >= head_lease_ms(j) && !ag_vote_waits(j)) {
        tell_lost_head(j, head_ms, reason, sizeof reason);
        j->lost_head = 1;
        end_by_lease(j, reason);
    }
}

void ag_job_tick(struct ag_job *j, uint64_t passed_ms) {
    const uint64_t silent_ms = clients_silent_ms(j->o.clients);
    const int at_work = clients_at_work(j->o.clients);
    if (!ag_job_is_live(j)) {
        if (!at_work && silent_ms >= j->o.first_lease_ms)
            ag_job_quit(j, 1);
        return;
    }
    ag_vote_tick(j);
    ag_job_few_tick(j);
    peer_link_tick(j->link);
    node_tick(j->node, passed_ms);
    if (!at_work)
        tick_live(j, silent_ms);
}

void ag_job_cut(struct ag_job *j) {
    if (j)
        peer_link_cut(j->link);
}

void ag_job_close(struct ag_job *j) {
    if (!j || !j->set_up)
        return;
    j->quitting = 1;
    file_fetch_close(j->data);
    ag_vote_close(j);
    peer_link_close(j->link);
    head_free(j->head);
    node_free(j->node);
    j->head = NULL;
    j->node = NULL; /* a client that is still connected may ask for the status */
    uv_close((uv_handle_t *)&j->post_timer, NULL);
    uv_close((uv_handle_t *)&j->log_timer, NULL);
    uv_close((uv_handle_t *)&j->on_child, NULL);
    while (j->posts) {
        struct ag_job_post *p = j->posts;
        j->posts = p->next;
        json_decref(p->body);
        free(p);
    }
}

int ag_job_new(struct ag_job **out, const struct ag_job_opts *o, struct pd_err *err) {
    struct ag_job *j = *out = pd_calloc(1, sizeof *j);
    if (!j)
        return pd_oom(err, "a job");
    j->o = *o;
    clients_set_lease(o->clients, o->first_lease_ms);
    return 0;
}

void ag_job_free(struct ag_job *j) {
    if (!j)
        return;
    file_fetch_free(j->data);
    spec_release(&j->spec);
    if (j->logs_open)
        logs_close(&j->logs);
    json_decref(j->addrs);
    json_decref(j->peers);
    passes_release(&j->passes);
    ag_vote_release(j);
    json_decref(j->save_stop);
    json_decref(j->result);
    sodium_memzero(&j->self, sizeof j->self);
    free(j);
}
