/* session.c - see session.h. */
#include "agent/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/check.h"
#include "agent/data.h"
#include "agent/ds.h"
#include "agent/facts.h"
#include "agent/job.h"
#include "base/clock.h"
#include "base/fault.h"
#include "wire/msg.h"

enum { MAX_SESSIONS = 32 };

static int on_ping(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    (void)body;
    (void)err;
    return msg_send(s->conn, WIRE_AG_PING, f->req, json_object()); /* so that the client, too, notices a loss */
}

/* A client that has seen the list goes on with one of the jobs: on the same stream, so that it need not log in again. */
static int on_join(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    const char *job = msg_str(body, "job");
    struct place p;
    (void)f;
    if (s->ag->mode != AGENT_TOOL)
        return pd_fail(err, PD_EPROTO, "AG_JOIN: this agent has a job");
    if (!*job || place_init(&p, s->ag->place.root, job, err))
        return pd_fail(err, PD_EUSAGE, "AG_JOIN: '%.63s' is no job", job);
    memcpy(s->ag->join, p.job, sizeof s->ag->join);
    net_close(s->conn);
    return 0;
}

static int on_bye(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    json_t *o = NULL;
    (void)body;
    (void)err;
    msg_body(f, &o, NULL); /* an empty one is fine */
    if (s->ag->mode == AGENT_JOB)
        job_bye(s->ag, msg_bool(o, "abandon"));
    json_decref(o);
    net_close_after_flush(s->conn);
    return 0;
}

static const struct {
    uint16_t type;
    int needs_job; /* there must be one: not in tool mode */
    int has_body;
    session_handler fn;
} handlers[] = {
    {WIRE_AG_PING, 0, 0, on_ping},
    {WIRE_AG_JOB_SETUP, 1, 1, job_on_setup},
    {WIRE_AG_JOB_PEERS, 1, 1, job_on_peers},
    {WIRE_AG_JOB_RUN, 1, 0, job_on_run},
    {WIRE_AG_LOG_SUBSCRIBE, 1, 1, subs_on_subscribe},
    {WIRE_AG_LOG_ACK, 1, 1, subs_on_ack},
    {WIRE_AG_STOP, 1, 1, job_on_stop},
    {WIRE_AG_FETCH, 1, 1, fetch_on_fetch},
    {WIRE_AG_LIST, 0, 0, list_on_list},
    {WIRE_AG_STATUS, 1, 0, list_on_status},
    {WIRE_AG_CLEAN, 0, 1, clean_on_clean},
    {WIRE_AG_JOIN, 0, 1, on_join},
    {WIRE_AG_CHECK, 0, 1, check_on_check},
    {WIRE_AG_CHECK_LISTEN, 0, 1, check_on_listen},
    {WIRE_AG_CHECK_PROBE, 0, 1, check_on_probe},
    {WIRE_DS_BEGIN, 0, 1, ds_on_begin},
    {WIRE_DS_SOURCE, 0, 1, ds_on_source},
    {WIRE_DS_OBJECT, 0, 0, ds_on_object},
    {WIRE_DS_SERVE, 0, 1, ds_on_serve},
    {WIRE_DS_ABORT, 0, 0, ds_on_abort},
    {WIRE_AG_DATA_LIST, 1, 1, data_on_list},
    {WIRE_AG_DATA_FEED, 1, 0, data_on_feed},
    {WIRE_DF_FILE, 1, 1, data_on_fed},
    {WIRE_DF_DATA, 1, 1, data_on_fed},
    {WIRE_AG_BYE, 0, 0, on_bye},
};

int session_job_over(const struct session *s, struct pd_err *err) {
    const char *why = msg_str(json_object_get(s->ag->result, "first_failure"), "reason");
    if (s->ag->mode != AGENT_OVER)
        return 0;
    return pd_fail(err, PD_EHOST, "%.600s", *why ? why : s->ag->text); /* "the job is over", or gone */
}

static int dispatch(struct session *s, const struct wire_frame *f, struct pd_err *err) {
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        if (handlers[i].type != f->type)
            continue;
        if (handlers[i].needs_job && s->ag->mode == AGENT_TOOL)
            return pd_fail(err, PD_EPROTO, "%s: this agent has no job", wire_msg_name(f->type));
        json_t *body = NULL;
        int rc = handlers[i].has_body ? msg_body(f, &body, err) : 0;
        if (!rc)
            rc = handlers[i].fn(s, f, body, err);
        json_decref(body);
        return rc;
    }
    return pd_fail(err, PD_EPROTO, "a client does not send %s (0x%x)", wire_msg_name(f->type), f->type);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct session *s = arg;
    struct pd_err err = {0};
    struct agent *ag = s->ag;
    if (!s->spoke && f->type == WIRE_AG_STATUS)
        s->onlooker = 1;
    s->spoke = 1;
    s->frame = f;
    if (f->flags & WIRE_F_ERROR) {
        msg_error(f, &err);
        pd_warn(&s->ag->log, "a client reports: %s", err.msg);
        if (f->type == WIRE_DS_OBJECT)
            ds_on_object_error(s, f->req, &err);
    } else if (dispatch(s, f, &err)) { /* then it has not been taken over */
        pd_warn(&s->ag->log, "%s: %s", wire_msg_name(f->type), err.msg);
        net_send_error(c, f->type, f->req, &err);
    }
    if (!s->onlooker)
        ag->last_client_ns = pd_mono_ns();
    wire_frame_free(s->frame);
    s->frame = NULL;
}

static json_t *hello(struct agent *ag) {
    json_t *o = facts_node(ag->place.root), *addrs = NULL;
    if (facts_addrs(NULL, &addrs, NULL))
        addrs = json_array();
    json_object_set_new(o, "version", json_integer(WIRE_VERSION));
    json_object_set_new(o, "build", json_string(ag->build));
    json_object_set_new(o, "job", json_string(ag->place.job));
    json_object_set_new(o, "node", json_integer(agent_node(ag)));
    json_object_set_new(o, "root", msg_text(ag->place.root, strlen(ag->place.root)));
    json_object_set_new(o, "job_dir", msg_text(ag->place.dir, strlen(ag->place.dir)));
    json_object_set_new(o, "addrs", addrs);
    json_object_set_new(o, "state", json_string(ag->state));
    json_object_set_new(o, "pid", json_integer(getpid()));
    return o;
}

void session_say_state(struct session *s) {
    if (!s->conn || !s->greeted || !*s->ag->state)
        return;
    msg_send(s->conn, WIRE_AG_STATE, 0,
             json_pack("{s:i, s:s, s:o, s:o}", "node", agent_node(s->ag), "state", s->ag->state, "text",
                       msg_text(s->ag->text, strlen(s->ag->text)), "lost", job_lost_nodes(s->ag->job)));
}

static void on_open(struct net_conn *c, void *arg) {
    struct session *s = arg;
    /* Whoever only looks whether an agent answers (AG_LIST) renews no lease: its first frame does. */
    msg_send(c, WIRE_AG_HELLO, 0, hello(s->ag));
    s->greeted = 1;
    session_say_state(s);
    if (s->ag->result)
        msg_send(c, WIRE_AG_RESULT, 0, json_incref(s->ag->result));
}

static void on_drain(struct net_conn *c, void *arg) {
    (void)c;
    subs_pump(arg);
    fetch_pump(arg);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct session *s = arg;
    (void)c;
    s->conn = NULL;
    ds_drop(s);
    data_session_gone(s);
    fetch_pump(s);
    check_drop(s);
    if (why->code && why->code != PD_ECLOSED)
        pd_warn(&s->ag->log, "a client's connection ended: %s", why->msg);
    if (s->ag->mode != AGENT_JOB)
        agent_quit(s->ag);
    session_unref(s);
}

static unsigned n_open(const struct agent *ag) {
    unsigned n = 0;
    for (const struct session *s = ag->sessions; s; s = s->next)
        n += !s->dropped;
    return n;
}

/* A client that was cut off says no goodbye, and its connection may hang for hours. The one that is silent the longest goes,
 * unless all are heard as often as a client that is there. */
static void make_room(struct agent *ag) {
    struct session *oldest = NULL;
    if (n_open(ag) < MAX_SESSIONS)
        return;
    for (struct session *s = ag->sessions; s; s = s->next)
        if (s->conn && !s->dropped && (!oldest || s->heard_ns <= oldest->heard_ns))
            oldest = s;
    uint64_t silent_ms = oldest ? (pd_mono_ns() - oldest->heard_ns) / 1000000u : 0;
    if (!oldest || silent_ms < job_lease_ms(ag) / 2)
        return;
    pd_warn(&ag->log, "a client that has been silent for %llu ms makes room for another one", (unsigned long long)silent_ms);
    oldest->dropped = 1;
    net_close(oldest->conn);
}

int session_open(struct agent *ag, uv_stream_t *in, uv_stream_t *out, struct pd_err *err) {
    static const struct net_events ev = {on_open, on_frame, on_drain, on_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME, .log = &ag->log};
    make_room(ag);
    struct session *s = n_open(ag) < MAX_SESSIONS ? pd_calloc(1, sizeof *s) : NULL;
    if (!s)
        return pd_fail(err, PD_ENOMEM, "no room for another client");
    int rc = net_conn_over(&s->conn, in, out, &opts, &ev, s, err);
    if (rc) {
        free(s);
        return rc;
    }
    s->ag = ag;
    s->refs = 1;
    s->heard_ns = pd_mono_ns();
    s->next = ag->sessions;
    if (s->next)
        s->next->prev = s;
    ag->sessions = s;
    ag->n_sessions++;
    return 0;
}

void session_unref(struct session *s) {
    if (--s->refs)
        return;
    *(s->prev ? &s->prev->next : &s->ag->sessions) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->ag->n_sessions--;
    free(s);
}
