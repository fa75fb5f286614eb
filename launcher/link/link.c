/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - frames and requests of link.h. link_open.c makes the stream below them. */
#include "base/version.h"
#include "launcher/link/link_internal.h"

enum { BYE_MS = 1000, GUARDIAN_TRIES = 5, SOCKET_MS = 10000 };

const char *link_doing(const struct link *l, enum link_phase p) {
    static const char *const text[] = {"connecting",
                                       "logging in (the shell's start-up files)",
                                       "receiving the agent",
                                       "failing",
                                       "starting the agent",
                                       "running",
                                       "waiting to connect again",
                                       "closing"};
    return p == PHASE_HELLO && l->over_socket ? "asking its agent" : text[p];
}

/* An agent that runs on this machine has no log-in before its first word. */
uint64_t link_timeout_ms(const struct link *l) {
    return l->over_socket ? SOCKET_MS : l->env->login_timeout_ms;
}

struct open_request {
    uint64_t id, deadline_ms;
    unsigned type;
    const char *what;
    link_answer answer;
    void *arg;
    struct open_request *next;
};

static void on_handle_closed(uv_handle_t *h) {
    struct link *l = h->data;
    if (--l->n_handles)
        return;
    json_decref(l->facts.addrs);
    wire_decoder_free(l->dec);
    free(l);
}

/* Close the transport; on_close reports the error. */
void link_break(struct link *l, int code, const char *msg) {
    if (l->phase == PHASE_CLOSED)
        return;
    pd_fail(&l->why, code, "%s", msg);
    l->phase = PHASE_CLOSED;
    uv_timer_stop(&l->timer);
    link_leave_seeding(l);
    transport_close(l->t);
}

void link_fail_requests(struct link *l, const struct pd_err *why) {
    while (l->requests) {
        struct open_request *r = l->requests;
        l->requests = r->next;
        r->answer(l, NULL, NULL, why, r->arg);
        free(r);
    }
}

void link_finish(struct link *l, const struct pd_err *why) {
    struct pd_err gone = {0};
    l->phase = PHASE_CLOSED;
    link_leave_seeding(l);
    link_started(l);
    pd_fail(&gone, why->code ? why->code : PD_ECLOSED, "%s",
            why->code ? why->msg : "the connection was closed");
    link_fail_requests(l, &gone);
    l->ev->on_close(l, why, l->arg);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
    uv_close((uv_handle_t *)&l->beat, on_handle_closed);
}

/* --- deadlines --- */

static void on_timer(uv_timer_t *t);

static void schedule(struct link *l) {
    if (l->own_close) /* link_close_soon has set the timer */
        return;
    uint64_t now = uv_now(l->env->loop), first = UINT64_MAX;
    for (struct open_request *r = l->requests; r; r = r->next)
        if (r->deadline_ms < first)
            first = r->deadline_ms;
    if (first == UINT64_MAX)
        uv_timer_stop(&l->timer);
    else
        uv_timer_start(&l->timer, on_timer, first > now ? first - now : 0, 0);
}

static void take_time(struct link *l) {
    uint64_t now = uv_now(l->env->loop);
    for (struct open_request **p = &l->requests, *r; (r = *p);) {
        if (r->deadline_ms > now) {
            p = &r->next;
            continue;
        }
        struct pd_err err = {0};
        pd_fail(&err, PD_ETIMEOUT, "timed out while %s", r->what);
        *p = r->next;
        r->answer(l, NULL, NULL, &err, r->arg);
        free(r);
        p = &l->requests; /* the callback may have changed the list */
        if (l->phase != PHASE_OPEN)
            return;
    }
    schedule(l);
}

static void on_timer(uv_timer_t *t) {
    struct link *l = t->data;
    char msg[200];
    if (l->phase == PHASE_CLOSED) { /* closed while there was no transport to close */
        link_finish(l, &l->why);
    } else if (l->phase == PHASE_LOST) {
        link_retry(l);
    } else if (l->phase == PHASE_OPEN) {
        take_time(l);
    } else {
        uint64_t ms = l->phase == PHASE_UPLOAD ? l->env->upload_timeout_ms : link_timeout_ms(l);
        pd_fmt(msg, sizeof msg, "timed out after %.3g s while %s", (double)ms / 1000,
               link_doing(l, l->phase));
        link_break(l, PD_ETIMEOUT, msg);
    }
}

void link_enter(struct link *l, enum link_phase p, uint64_t timeout_ms) {
    l->phase = p;
    uv_timer_start(&l->timer, on_timer, timeout_ms, 0);
}

static int put_frame(struct link *l, unsigned type, uint64_t req, const char *text,
                     const void *sec1, size_t n1) {
    static const uint8_t zeros[WIRE_ALIGN];
    uint8_t head[WIRE_HEADER];
    size_t len[2] = {strlen(text), n1};
    wire_header(head, (uint16_t)type, 0, req, sec1 ? 2 : 1, len);
    int rc = transport_write(l->t, head, sizeof head);
    if (!rc && len[0])
        rc = transport_write(l->t, text, len[0]);
    if (!rc && wire_pad(len[0]))
        rc = transport_write(l->t, zeros, wire_pad(len[0]));
    if (!rc && sec1 && n1)
        rc = transport_write(l->t, sec1, n1);
    if (!rc && sec1 && wire_pad(n1))
        rc = transport_write(l->t, zeros, wire_pad(n1));
    return rc;
}

int link_send_parts(struct link *l, unsigned type, uint64_t req, const struct pd_bytes *parts,
                    size_t n_parts) {
    static const uint8_t zeros[WIRE_ALIGN];
    uint8_t head[WIRE_HEADER];
    size_t len[2] = {0, 0};
    if (l->phase != PHASE_OPEN)
        return 0;
    for (size_t i = 0; i < n_parts; i++)
        len[1] += parts[i].n;
    wire_header(head, (uint16_t)type, 0, req, 2, len);
    int rc = transport_write(l->t, head, sizeof head);
    for (size_t i = 0; i < n_parts && !rc; i++)
        rc = transport_write(l->t, parts[i].p, parts[i].n);
    if (!rc && wire_pad(len[1]))
        rc = transport_write(l->t, zeros, wire_pad(len[1]));
    if (rc) /* as in link_send */
        link_break(l, PD_ENOMEM, "out of memory");
    return rc;
}

int link_send(struct link *l, unsigned type, uint64_t req, json_t *body, const void *sec1,
              size_t n1) {
    /* a connection that ends after AG_BYE is no loss */
    if (type == WIRE_AG_BYE)
        l->keep.lease_ms = 0;
    if (l->phase != PHASE_OPEN) {
        json_decref(body);
        return 0;
    }
    const int bare = type == WIRE_DS_OBJECT || type == WIRE_DF_FILE || type == WIRE_DF_DATA;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    int rc = text || bare ? put_frame(l, type, req,
                                      text                     ? text
                                      : type == WIRE_DS_OBJECT ? ""
                                                               : "{}",
                                      sec1, n1)
                          : PD_ENOMEM;
    free(text);
    if (rc) /* part of a frame may be sent already: no other frame can follow */
        link_break(l, PD_ENOMEM, "out of memory");
    return rc;
}

uint64_t link_expect(struct link *l, unsigned type, uint64_t timeout_ms, const char *what,
                     link_answer answer, void *arg) {
    struct open_request *r = pd_calloc(1, sizeof *r);
    if (!r)
        return 0;
    *r = (struct open_request){.id = ++l->next_id,
                               .deadline_ms = uv_now(l->env->loop) + timeout_ms,
                               .type = type,
                               .what = what,
                               .answer = answer,
                               .arg = arg};
    struct open_request **p = &l->requests;
    while (*p)
        p = &(*p)->next;
    *p = r;
    if (l->phase == PHASE_OPEN)
        schedule(l);
    return r->id;
}

int link_request(struct link *l, unsigned type, json_t *body, const void *sec1, size_t n1,
                 uint64_t timeout_ms, const char *what, link_answer answer, void *arg) {
    uint64_t id = body ? link_expect(l, type, timeout_ms, what, answer, arg) : 0;
    if (!id) {
        json_decref(body);
        return PD_ENOMEM;
    }
    /* a failure breaks the link, which answers the request */
    link_send(l, type, id, body, sec1, n1);
    return 0;
}

void link_on_drain(struct link *l, void (*drain)(struct link *l, void *arg), void *arg) {
    l->drain = drain;
    l->drain_arg = arg;
}

size_t link_queued(const struct link *l) { return l->t ? transport_queued(l->t) : 0; }
const struct agent_facts *link_facts(const struct link *l) { return &l->facts; }
int link_is_open(const struct link *l) { return l->phase == PHASE_OPEN; }

/* --- receiving --- */

/* Members with control codes in their keys get other keys. */
static int plain_members(json_t *o) {
    const char *key;
    void *next;
    json_t *e, *renamed = json_object();
    size_t bad;
    int rc = renamed ? 0 : PD_ENOMEM;
    json_object_foreach_safe(o, next, key, e) {
        rc |= link_make_plain(e);
        if (pd_printable(key, strlen(key), &bad), !bad)
            continue;
        char *s = pd_strdup(key);
        rc |= s && !json_object_set_nocheck(renamed, pd_make_printable(s), e) ? 0 : PD_ENOMEM;
        free(s);
        json_object_del(o, key);
    }
    rc |= json_object_update(o, renamed) ? PD_ENOMEM : 0;
    json_decref(renamed);
    return rc;
}

int link_make_plain(json_t *v) {
    size_t i;
    json_t *e;
    int rc = json_is_object(v) ? plain_members(v) : 0;
    json_array_foreach (v, i, e)
        rc |= link_make_plain(e);
    if (!json_is_string(v))
        return rc;
    char *s = pd_strdup(json_string_value(v));
    rc = !s || (strcmp(pd_make_printable(s), json_string_value(v)) && json_string_set_nocheck(v, s))
             ? PD_ENOMEM
             : 0;
    free(s);
    return rc;
}

static json_t *parse_body(const struct wire_frame *f, struct pd_err *err) {
    if (f->type == WIRE_AG_LOG || (f->flags & WIRE_F_ERROR) || !f->sec[0] || !f->len[0])
        return json_object();
    json_t *body =
        f->len[0] > WIRE_JSON_MAX ? NULL : json_loadb((const char *)f->sec[0], f->len[0], 0, NULL);
    if (!json_is_object(body))
        pd_fail(err, PD_EPROTO, "the agent sent a message that is no JSON object");
    else if (link_make_plain(body))
        pd_oom(err, "a message of the agent");
    if (!err->code)
        return body;
    json_decref(body);
    return NULL;
}

/* 1: this paddlectl and the agent have a version of their protocol in common. 0: the link is
 * broken, with what the user can do. Agents of version 3 and before do not send `least`. */
static int has_common_version(struct link *l, const struct ag_hello *m) {
    const int64_t least = m->least ? m->least : m->version;
    char msg[700];
    if (m->version >= WIRE_CLIENT_LEAST && least <= WIRE_CLIENT_VERSION)
        return 1;
    pd_fmt(msg, sizeof msg,
           "the agent of the job speaks version %lld of the protocol, this paddlectl (" PD_VERSION
           ") versions %d to %d: use the paddlectl that started the job%s%s, or end the job: "
           "paddlectl exec 'kill $(cat %.300s/.agent/pid)'",
           (long long)m->version, WIRE_CLIENT_LEAST, WIRE_CLIENT_VERSION, *m->program ? ", " : "",
           m->program, m->job_dir);
    link_break(l, PD_EHOST, msg);
    return 0;
}

static void take_hello(struct link *l, const struct wire_frame *f, json_t *body) {
    struct agent_facts *a = &l->facts;
    struct ag_hello m;
    struct pd_err bad = {0};
    char msg[300];
    link_started(l);
    if (f->type == WIRE_AG_HELLO &&
        (f->flags & WIRE_F_ERROR)) { /* the agent could not start, and says why */
        struct pd_err err = {0};
        wire_error_get(f, &err);
        link_break(l,
                   err.code == PD_EEXIST                ? PD_ECONF
                   : pd_code_exit_status(err.code) == 1 ? PD_EHOST
                                                        : err.code,
                   err.msg);
        return;
    }
    if (f->type != WIRE_AG_HELLO)
        pd_fail(&bad, PD_EHOST, "the agent began with %s", wire_msg_name(f->type));
    if (bad.code || wire_get(&wire_ag_hello, &m, body, &bad)) {
        link_break(l, PD_EHOST, bad.msg);
        return;
    }
    if (!has_common_version(l, &m))
        return;
    pd_fmt(a->job, sizeof a->job, "%s", m.job);
    pd_fmt(a->root, sizeof a->root, "%s", m.root);
    pd_fmt(a->arch, sizeof a->arch, "%s", m.arch);
    pd_fmt(a->state, sizeof a->state, "%s", m.state);
    a->node = (int)m.node;
    a->disk_free = (uint64_t)m.disk_free;
    json_decref(a->addrs);
    a->addrs = json_incref(m.addrs);
    /* A running agent that the link joins may be of another build; an agent that this link starts
     * may not. */
    if (!l->keep.lost && (!*l->job || l->env->start) && *m.build &&
        strcmp(m.build, l->env->agent->hash)) {
        pd_fmt(msg, sizeof msg,
               "the cached agent is damaged; remove %.150s/.paddlectl/bin/agent-%.12s*", a->root,
               l->env->agent->hash);
        link_break(l, PD_EHOST, msg);
        return;
    }
    if (l->keep.lost && !strcmp(a->state, "lost")) { /* its guardian may be about to write one */
        link_break(l, l->keep.tries < GUARDIAN_TRIES ? PD_EHOST : PD_ENOENT,
                   *m.text ? m.text : "the job's agent is gone and left no result");
        return;
    }
    /* the link is not open yet: failed requests tell their callers that it is coming back */
    link_is_back(l);
    if (l->phase == PHASE_CLOSED)
        return;
    l->phase = PHASE_OPEN;
    schedule(l);
    if (l->keep.lease_ms) /* what follows renews the lease */
        link_ping(l);
    l->ev->on_hello(l, l->arg);
}

static int has_many_answers(const struct open_request *r) {
    return r->type == WIRE_AG_FETCH || r->type == WIRE_DS_BEGIN;
}

/* An answer repeats the request's id and type. Only the frames of a package have other types. */
static void take_answer(struct link *l, struct open_request *r, const struct wire_frame *f,
                        json_t *body) {
    struct pd_err err = {0};
    if (f->flags & WIRE_F_ERROR)
        wire_error_get(f, &err);
    /* Remove the request before the call: the callback may add requests or close the link. Put it
     * back if more frames follow. */
    struct open_request **p = &l->requests;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    int last = r->answer(l, f, body, err.code ? &err : NULL, r->arg);
    if (!has_many_answers(r) || err.code || last || l->phase != PHASE_OPEN) {
        free(r);
    } else {
        /* A long silence between the pieces of a folder is a failure. A node that waits for objects
         * of another node may be silent. */
        r->deadline_ms = r->type == WIRE_AG_FETCH ? uv_now(l->env->loop) + 60000 : UINT64_MAX;
        r->next = l->requests;
        l->requests = r;
    }
    if (l->phase == PHASE_OPEN)
        schedule(l);
}

static void take_frame(struct link *l, struct wire_frame *f) {
    struct pd_err err = {0};
    json_t *body = parse_body(f, &err);
    if (!body) {
        link_break(l, err.code, err.msg);
        return;
    }
    if (l->phase == PHASE_HELLO) {
        take_hello(l, f, body);
    } else if (f->req) {
        struct open_request *r = l->requests;
        while (r && r->id != f->req)
            r = r->next;
        if (r) /* no request: its deadline has passed */
            take_answer(l, r, f, body);
    } else {
        l->keep.answers_pings |= f->type == WIRE_AG_PING;
        l->ev->on_frame(l, f, body, l->arg);
    }
    json_decref(body);
}

void link_take_frames(struct link *l, const uint8_t *p, size_t n) {
    struct pd_err err = {0};
    struct wire_frame *f;
    if (wire_decoder_feed(l->dec, p, n, &err) == PD_ENOMEM) {
        link_break(l, PD_ENOMEM, "out of memory");
        return;
    }
    while (l->phase != PHASE_CLOSED && (f = wire_decoder_next(l->dec))) {
        take_frame(l, f);
        wire_frame_free(f);
    }
    pd_err_clear(&err);
    if (l->phase != PHASE_CLOSED && wire_decoder_error(l->dec, &err)) {
        pd_err_prefix(&err, "the agent's stream is broken");
        link_break(l, err.code, err.msg);
    }
}

void link_join(struct link *l, const char *job, const struct link_events *ev, void *arg) {
    if (l->phase != PHASE_OPEN)
        return;
    snprintf(l->job, sizeof l->job, "%s", job);
    l->ev = ev;
    l->arg = arg;
    link_send(l, WIRE_AG_JOIN, 0, wire_put(&wire_ag_join, &(struct ag_join){.job = job}), NULL, 0);
    if (l->phase == PHASE_OPEN)
        link_enter(l, PHASE_HELLO, l->env->login_timeout_ms);
}

/* --- the end --- */

void link_close(struct link *l) {
    l->keep.lease_ms = 0;
    if (l->phase == PHASE_CLOSED)
        return;
    l->own_close = 1;
    l->phase = PHASE_CLOSED;
    uv_timer_stop(&l->timer);
    link_leave_seeding(l);
    if (l->t) {
        transport_close(l->t);
        return;
    }
    link_started(l); /* it may wait for its turn */
    uv_timer_start(&l->timer, on_timer, 0, 0);
}

static void on_bye_time(uv_timer_t *t) {
    struct link *l = t->data;
    link_close(l);
}

void link_close_soon(struct link *l) {
    if (l->phase == PHASE_CLOSED)
        return;
    if (l->phase != PHASE_OPEN) {
        link_close(l);
        return;
    }
    l->own_close = 1;
    uv_timer_start(&l->timer, on_bye_time, BYE_MS, 0);
}

int link_open(struct link **out, const struct link_env *env, const struct host *host, int node,
              const struct link_events *ev, void *arg, struct pd_err *err) {
    struct link *l = pd_calloc(1, sizeof *l);
    if (!l)
        return pd_oom(err, "a connection");
    *l = (struct link){.env = env, .ev = ev, .arg = arg, .host = host, .node = node};
    snprintf(l->job, sizeof l->job, "%s", env->job ? env->job : "");
    int rc = link_connect(l, env->start, err);
    if (rc) {
        link_leave_seeding(l);
        link_started(l);
        wire_decoder_free(l->dec);
        free(l);
        return rc;
    }
    uv_timer_init(env->loop, &l->timer);
    uv_timer_init(env->loop, &l->beat);
    l->timer.data = l->beat.data = l;
    l->n_handles = 2;
    l->keep.try_ms = uv_now(env->loop);
    *out = l;
    return 0;
}
