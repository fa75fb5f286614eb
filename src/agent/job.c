/* job.c - see job.h: the client's requests, messages between head and node, leases, and the end. */
#include "agent/job.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/data.h"
#include "agent/ds.h"
#include "agent/facts.h"
#include "agent/result.h"
#include "agent/session.h"
#include "agent/status.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "wire/msg.h"

/* After a lease the processes have LEASE_GRACE_MS: all is over two seconds after the lease. */
enum { BYE_GRACE_MS = 1000, LEASE_GRACE_MS = 1000, LOG_TURN_MS = 5 };

struct post {
    struct post *next;
    int to_head;
    uint16_t type;
    uint64_t req;
    json_t *body;
    int is_refusal;
    struct pd_err err;
};

struct logs *agent_logs(struct agent *ag) { return ag->logs_open ? &ag->logs : NULL; }

json_t *job_lost_nodes(const struct job *j) {
    json_t *lost = j && j->head ? json_deep_copy(head_lost_nodes(j->head)) : NULL;
    return lost ? lost : json_array();
}

/* --- how it ended here --- */

static void job_over(struct job *j, const char *status, const json_t *first_failure, int later) {
    struct agent *ag = j->ag;
    struct pd_err err = {0};
    if (ag->result)
        return;
    ag->result = result_make(&ag->place, j->spec.node, status, first_failure, later);
    json_object_set_new(ag->result, "restarts", json_integer((json_int_t)j->restarts));
    json_object_set_new(ag->result, "saved", json_string(j->head ? head_saved(j->head) : "")); /* node 0 knows, as it does of ... */
    json_object_set_new(ag->result, "lost", job_lost_nodes(j));
    if (j->started && result_write(&ag->place, ag->result, &err))
        pd_error(&ag->log, "%s", err.msg);
    j->ended_us = pd_wall_us();
    status_save(ag);
    agent_set_state(ag, status, "%s", "");
    for (struct session *s = ag->sessions; s; s = s->next) {
        if (!s->conn || !s->greeted) /* who is greeted later hears of it then */
            continue;
        subs_pump(s);
        msg_send(s->conn, WIRE_AG_RESULT, 0, json_incref(ag->result));
    }
    ag->over_ns = pd_mono_ns();
}

static void over_with_reason(struct job *j, const char *status, const char *reason) {
    json_t *f = *reason && !strcmp(status, "failed") ? result_reason(j->spec.node, reason) : NULL; /* else node 0 knows */
    job_over(j, status, f, 0);
    json_decref(f);
}

/* --- messages between head and node of this agent --- */

static void on_post(uv_timer_t *t) {
    struct job *j = t->data;
    while (j->posts) {
        struct post *p = j->posts;
        j->posts = p->next;
        if (!j->posts)
            j->posts_end = &j->posts;
        if (p->to_head && j->head)
            head_message(j->head, 0, p->type, p->req, p->body, p->is_refusal ? &p->err : NULL);
        else if (!p->to_head)
            job_from_head(j, p->type, p->req, p->body);
        json_decref(p->body);
        free(p);
    }
}

void job_post(struct job *j, int to_head, uint16_t type, uint64_t req, json_t *body, const struct pd_err *refused) {
    struct post *p = j->quitting ? NULL : pd_calloc(1, sizeof *p);
    if (!p) {
        json_decref(body);
        return;
    }
    *p = (struct post){.to_head = to_head, .type = type, .req = req, .body = body, .is_refusal = refused != NULL};
    if (refused)
        p->err = *refused;
    *j->posts_end = p;
    j->posts_end = &p->next;
    uv_timer_start(&j->post_timer, on_post, 0, 0);
}

/* What this node has to say to the head. */
void job_answer(struct job *j, uint16_t type, uint64_t req, json_t *body) {
    if (type == WIRE_HD_START || type == WIRE_HD_EXITED)
        status_save(j->ag);
    if (type == WIRE_HD_FAIL) {
        snprintf(j->failed, sizeof j->failed, "%s", msg_str(body, "reason"));
        snprintf(j->failed_role, sizeof j->failed_role, "%s", msg_str(body, "role"));
    }
    if (j->spec.node == 0)
        job_post(j, 1, type, req, body, NULL);
    else
        link_to_head(j->link, type, req, body);
    if (type == WIRE_HD_END && j->spec.node != 0 && !j->restarting)
        over_with_reason(j, *j->end_status ? j->end_status : "done", j->failed);
}

static void on_node_send(void *arg, uint16_t type, uint64_t req, json_t *body) { job_answer(arg, type, req, body); }

static void on_node_refuse(void *arg, uint16_t type, uint64_t req, const struct pd_err *e) {
    struct job *j = arg;
    pd_warn(&j->ag->log, "%s: %s", wire_msg_name(type), e->msg);
    if (j->spec.node == 0)
        job_post(j, 1, type, req, NULL, e);
    else
        link_refuse(j->link, type, req, e);
}

/* At once for what comes after a silence; a process that writes line by line makes a message every LOG_TURN_MS, not one a
 * line. */
static void on_log_turn(uv_timer_t *t) {
    struct job *j = t->data;
    if (!j->log_grew)
        return;
    j->log_grew = 0;
    for (struct session *s = j->ag->sessions; s; s = s->next)
        subs_pump(s);
    if (!j->quitting)
        uv_timer_start(t, on_log_turn, LOG_TURN_MS, 0);
}

static void on_log_grew(void *arg) {
    struct job *j = arg;
    j->log_grew = 1;
    if (!uv_is_active((uv_handle_t *)&j->log_timer))
        on_log_turn(&j->log_timer);
}

static int on_data_channel(void *arg, struct pd_err *err) {
    struct job *j = arg;
    return j->data ? data_channel(j->data, err) : -1;
}

/* A request of the head, on whichever node. */
void job_from_head(struct job *j, uint16_t type, uint64_t req, const json_t *body) {
    static const struct {
        uint16_t type;
        const char *state;
    } states[] = {{WIRE_HD_PROBE, "probing"}, {WIRE_HD_BIND, "binding"}, {WIRE_HD_STOP, "ending"}, {WIRE_HD_END, "ending"}};
    j->ran = 1;
    if (j->spec.node != 0 && !j->ag->result) { /* node 0 tells the head's own states */
        for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
            if (states[i].type == type)
                agent_set_state(j->ag, msg_bool(body, "restart") ? "restarting" : states[i].state, "%s", "");
        if (type == WIRE_HD_START)
            agent_set_state(j->ag, role_of(msg_str(body, "role")) == ROLE_PSERVER ? "pservers" : "trainers", "%s", "");
    }
    if (type == WIRE_HD_START) {
        j->started = 1;
        j->restarts = (unsigned)msg_int(body, "restarts", 0, INT32_MAX, j->restarts);
    }
    if (type == WIRE_HD_END) {
        snprintf(j->end_status, sizeof j->end_status, "%.15s", msg_str(body, "status"));
        j->restarting = msg_bool(body, "restart");
        if (j->restarting) {
            j->restarts = (unsigned)msg_int(body, "restarts", 0, INT32_MAX, 0);
            *j->failed = 0; /* it was of the last attempt */
        } else if (*msg_str(body, "reason")) {
            snprintf(j->failed, sizeof j->failed, "%s", msg_str(body, "reason"));
        }
    }
    if (type == WIRE_HD_PROBE)
        probe_begin(j, req, body);
    else
        node_message(j->node, type, req, body);
}

/* --- the head's side --- */

static void on_head_send(void *arg, int node, uint16_t type, uint64_t req, json_t *body) {
    struct job *j = arg;
    if (type == WIRE_HD_START)
        j->started = 1;
    if (node == 0)
        job_post(j, 0, type, req, body, NULL);
    else
        link_to_node(j->link, node, type, req, body);
}

static void on_head_state(void *arg, const char *state, const char *text) {
    agent_set_state(((struct job *)arg)->ag, state, "%s", text);
}

static void on_head_over(void *arg, const char *status, const json_t *first_failure, int later) {
    job_over(arg, status, first_failure, later);
}

json_t *job_join_body(struct job *j) {
    json_t *o = json_pack("{s:i, s:I, s:s, s:s, s:s, s:s}", "node", j->spec.node, "incarnation",
                          (json_int_t)(j->incarnation >> 1), "net_id", j->net_id, "machine", j->machine, "failed", j->failed,
                          "failed_role", j->failed_role);
    if (o)
        node_describe(j->node, o);
    return o;
}

/* --- the client's requests --- */

static void on_child(uv_signal_t *h, int sig) {
    (void)sig;
    node_reap(((struct job *)h->data)->node);
}

static void on_handle_closed(uv_handle_t *h) { job_handle_closed(h->data); }
void job_handle_closed(struct job *j) { j->n_handles--; }

static int job_start(struct job *j, json_t *body, int *port, struct pd_err *err) {
    static const struct node_io io = {on_node_send, on_node_refuse, on_log_grew, on_data_channel};
    struct agent *ag = j->ag;
    int rc = spec_parse(&j->spec, body, ag->place.job, err);
    if (!rc)
        rc = facts_addrs(j->spec.nic, &j->addrs, err);
    if (!rc)
        rc = place_write_node(&ag->place, j->spec.node, err);
    if (!rc)
        rc = node_lay_out(&ag->place, &j->spec, j->key, err);
    if (!rc)
        rc = logs_open(&ag->logs, ag->place.dir, 0, err);
    ag->logs_open = !rc;
    if (!rc) {
        logs_limit(&ag->logs, j->spec.log_max_size, j->spec.log_keep);
        pd_log_limit(&ag->log, j->spec.log_max_size, j->spec.log_keep);
    }
    if (!rc)
        rc = node_new(&j->node, &ag->loop, &ag->place, &j->spec, &ag->logs, &ag->log, &io, j, err);
    if (!rc)
        rc = j->spec.data_apart ? data_new(&j->data, j, err) : 0;
    if (!j->spec.data_apart) /* nobody will ask for them here */
        agent_let_data_go(ag);
    if (!rc)
        rc = link_new(&j->link, j, port, err);
    return rc;
}

static int answer_setup(struct session *s, const struct wire_frame *f) {
    const struct job *j = s->ag->job;
    const json_t *first = json_array_get(j->addrs, 0);
    return msg_send(s->conn, f->type, f->req, json_pack("{s:O, s:i, s:s}", "addrs", j->addrs, "port", j->port, "nic_addr",
                                                       *j->spec.nic ? json_string_value(first) : ""));
}

int job_on_setup(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct agent *ag = s->ag;
    int port = 0;
    if (session_job_over(s, err))
        return err->code;
    if (ag->mode != AGENT_JOB)
        return pd_fail(err, PD_EPROTO, "AG_JOB_SETUP: this agent runs no job");
    if (f->n_sec < 2 || f->len[1] != sizeof ag->job->key)
        return pd_fail(err, PD_EPROTO, "AG_JOB_SETUP: section 1 is not a key of 32 bytes");
    if (ag->job && !ag->job->quitting && !sodium_memcmp(ag->job->key, f->sec[1], sizeof ag->job->key))
        return answer_setup(s, f); /* the connection broke before the answer to the first one had arrived */
    if (ag->job)
        return pd_fail(err, PD_EEXIST, "the job was set up already");
    struct job *j = pd_calloc(1, sizeof *j);
    if (!j)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    j->ag = ag;
    j->posts_end = &j->posts;
    memcpy(j->key, f->sec[1], sizeof j->key);
    randombytes_buf(&j->incarnation, sizeof j->incarnation);
    facts_net_id(j->net_id);
    facts_machine(j->machine);
    uv_timer_init(&ag->loop, &j->post_timer);
    uv_timer_init(&ag->loop, &j->log_timer);
    uv_signal_init(&ag->loop, &j->on_child);
    j->post_timer.data = j->log_timer.data = j->on_child.data = j;
    j->n_handles = 3;
    j->started_us = pd_wall_us();
    ag->job = j; /* from here on agent_quit closes what there is of it */
    json_t *copy = json_deep_copy(body);
    int rc = copy ? job_start(j, copy, &port, err) : pd_fail(err, PD_ENOMEM, "out of memory");
    json_decref(copy);
    if (rc) {
        j->quitting = 1;
        agent_quit_soon(ag); /* a node that can't be set up has no second try */
        return rc;
    }
    ds_drop(s); /* all nodes have their packages; the port where this one served them is for a pserver */
    status_save(ag);
    uv_signal_start(&j->on_child, on_child, SIGCHLD);
    pd_info(&ag->log, "node %d of %d, port %d", j->spec.node, j->spec.n_nodes, port);
    j->port = port;
    return answer_setup(s, f);
}

/* A set-up that works, before or after which a request makes sense. */
static struct job *usable(struct session *s, struct pd_err *err) {
    struct job *j = s->ag->job;
    if (j && !j->quitting)
        return j;
    pd_fail(err, PD_EPROTO, "the job is not set up");
    return NULL;
}

int job_on_peers(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    static const struct head_io io = {on_head_send, on_head_state, on_head_over};
    struct job *j = usable(s, err);
    const json_t *nodes = json_object_get(body, "nodes");
    if (!j)
        return err->code;
    int n = json_is_array(nodes) ? (int)json_array_size(nodes) : 0; /* only the head has to know all */
    if (j->spec.node == 0 ? n != j->spec.n_nodes : n < 1)
        return pd_fail(err, PD_EPROTO, "AG_JOB_PEERS: it has to list %s", j->spec.node ? "node 0 at least" : "all nodes");
    if (j->peers)
        return msg_send(s->conn, f->type, f->req, json_object());
    if (!(j->peers = json_deep_copy(nodes)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    if (j->spec.node == 0) {
        int rc = head_new(&j->head, &s->ag->loop, &j->spec, j->peers, &s->ag->log, &io, j, err);
        if (rc)
            return rc;
        json_t *own = job_join_body(j);
        head_joined(j->head, 0, own);
        json_decref(own);
        link_replay_joins(j->link);
    } else {
        ag_link_connect(j->link);
    }
    return msg_send(s->conn, f->type, f->req, json_object());
}

int job_on_run(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct job *j = usable(s, err);
    (void)body;
    if (!j)
        return err->code;
    if (!j->head)
        return pd_fail(err, PD_EPROTO, "AG_JOB_RUN goes to node 0, which knows its peers");
    j->ran = 1;
    msg_send(s->conn, f->type, f->req, json_object());
    head_run(j->head);
    return 0;
}

struct stop_request {
    struct session *s;
    uint64_t req;
};

static void on_stopped(void *arg) {
    struct stop_request *r = arg;
    struct agent *ag = r->s->ag;
    if (r->s->conn)
        msg_send(r->s->conn, WIRE_AG_STOP, r->req, json_pack("{s:s}", "saved", ag->job->head ? head_saved(ag->job->head) : ""));
    if (!ag->job->head)
        over_with_reason(ag->job, "stopped", "");
    session_unref(r->s);
    free(r);
}

int job_on_stop(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct job *j = s->ag->job;
    unsigned grace = (unsigned)msg_int(body, "grace_ms", 0, GRACE_MS_MAX, 5000);
    if (!j || j->quitting || s->ag->result) { /* nothing runs here */
        msg_send(s->conn, f->type, f->req, json_object());
        if (s->ag->mode == AGENT_JOB && !j)
            agent_quit_soon(s->ag);
        return 0;
    }
    struct stop_request *r = pd_malloc(sizeof *r);
    if (!r)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    *r = (struct stop_request){s, f->req};
    s->refs++;
    const char *reason = *msg_str(body, "reason") ? msg_str(body, "reason") : "stopped by a client";
    /* Saving is the whole job's: this node ends with it. Without the head there is nobody to agree with. */
    int save = msg_bool(body, "save") && (j->head || link_is_joined(j->link));
    unsigned save_ms = (unsigned)msg_int(body, "save_ms", 0, SAVE_MS_MAX, 60000);
    if (save)
        node_when_ended(j->node, on_stopped, r);
    if (j->head && save)
        head_save(j->head, save_ms, grace, reason);
    else if (j->head)
        head_stop(j->head, grace, reason);
    else /* before the exits that this causes */
        link_to_head(j->link, WIRE_HD_FAIL, 0, json_pack("{s:s, s:b, s:b, s:i, s:i}", "reason", reason, "stopped", 1, "save", save,
                                                        "save_ms", (int)save_ms, "grace_ms", (int)grace));
    if (!save)
        node_end_for_stop(j->node, grace, on_stopped, r);
    return 0;
}

/* --- leases and the end --- */

static void on_ended_then_quit(void *arg) {
    struct agent *ag = arg;
    if (!ag->result)
        over_with_reason(ag->job, "failed", ag->job->failed);
    agent_quit_soon(ag);
}

void job_end_and_quit(struct agent *ag, unsigned grace_ms, const char *reason) {
    struct job *j = ag->job;
    if (!j || j->quitting || !j->node) {
        agent_quit(ag);
        return;
    }
    if (ag->ending)
        return;
    ag->ending = 1;
    pd_warn(&ag->log, "ending: %s", reason);
    if (!ag->result) {
        if (j->head)
            head_abort(j->head, grace_ms, 0, reason);
        else
            job_answer(j, WIRE_HD_FAIL, 0, json_pack("{s:s}", "reason", reason));
        snprintf(j->failed, sizeof j->failed, "%s", reason);
        *j->failed_role = 0;
    }
    /* The head ends the whole job first: every node's end is part of that, and job_tick then quits. */
    if (!j->head || ag->result || !j->ran)
        node_end(j->node, grace_ms, on_ended_then_quit, ag);
}

void job_bye(struct agent *ag, int abandon) {
    struct job *j = ag->job;
    if (!j || j->quitting)
        agent_quit_soon(ag);
    else if (abandon && !j->started)
        job_end_and_quit(ag, BYE_GRACE_MS, "given up before it ran");
    else if (ag->result)
        ag->said_bye = 1;
}

static unsigned lease_grace(const struct spec *s) { return s->grace_ms < LEASE_GRACE_MS ? s->grace_ms : LEASE_GRACE_MS; }

/* Any bytes of a client renew the lease, also those of a frame that takes minutes on a slow line. */
static void hear_clients(struct agent *ag) {
    for (struct session *s = ag->sessions; s; s = s->next) {
        uint64_t n = s->conn ? net_received_bytes(s->conn) : s->heard_bytes;
        if (n != s->heard_bytes)
            s->heard_ns = pd_mono_ns();
        if (n != s->heard_bytes && !s->onlooker)
            ag->last_client_ns = pd_mono_ns();
        s->heard_bytes = n;
    }
}

unsigned job_lease_ms(const struct agent *ag) {
    return ag->job && ag->job->node ? (unsigned)ag->job->spec.attach_lease_ms : ag->first_lease_ms;
}

void job_tick(struct agent *ag, uint64_t passed_ms) {
    hear_clients(ag);
    struct job *j = ag->job;
    uint64_t now = pd_mono_ns(), idle_ms = (now - ag->last_client_ns) / 1000000u;
    char reason[160];
    if (!j || j->quitting) {
        if (!ag->n_unpacking && idle_ms >= ag->first_lease_ms)
            agent_quit(ag);
        return;
    }
    link_tick(j->link);
    if (j->node)
        node_tick(j->node, passed_ms);
    if (ag->n_unpacking)
        return;
    uint64_t lease = j->spec.attach_lease_ms;
    if (ag->result) { /* results may be fetched while clients are there */
        int alone = !ag->n_sessions;
        if ((alone && (ag->said_bye || !j->spec.attached || ag->ending)) || idle_ms >= lease)
            agent_quit(ag);
    } else if (ag->ending) {
        return;
    } else if ((j->spec.attached || !j->ran) && idle_ms >= lease) {
        snprintf(reason, sizeof reason, "the launcher's connection to node %d was lost for %llu ms", j->spec.node,
                 (unsigned long long)idle_ms);
        job_end_and_quit(ag, lease_grace(&j->spec), reason);
    } else if (j->ran && link_silent_ms(j->link) >= j->spec.detach_lease_ms) {
        snprintf(reason, sizeof reason, "node %d has not heard of node 0 for %llu ms", j->spec.node,
                 (unsigned long long)link_silent_ms(j->link));
        job_end_and_quit(ag, lease_grace(&j->spec), reason);
    }
}

void job_cut(struct job *j) {
    if (j)
        link_cut(j->link);
}

void job_close(struct job *j) {
    if (!j)
        return;
    j->quitting = 1;
    data_close(j->data);
    ag_link_close(j->link);
    head_free(j->head);
    node_free(j->node);
    j->head = NULL;
    j->node = NULL; /* a client that is slow to leave may still ask for the status */
    uv_close((uv_handle_t *)&j->post_timer, on_handle_closed);
    uv_close((uv_handle_t *)&j->log_timer, on_handle_closed);
    uv_close((uv_handle_t *)&j->on_child, on_handle_closed);
    while (j->posts) {
        struct post *p = j->posts;
        j->posts = p->next;
        json_decref(p->body);
        free(p);
    }
}

/* A job that never began leaves nothing: its folder was only made for it. */
void ag_job_free(struct job *j) {
    if (!j)
        return;
    data_free(j->data);
    spec_release(&j->spec);
    json_decref(j->addrs);
    json_decref(j->peers);
    sodium_memzero(j->key, sizeof j->key);
    free(j);
}
