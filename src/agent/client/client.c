/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - see client.h. Only this file knows the fields of a client. */
#include "agent/client/client.h"

#include <stdalign.h>

#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { MAX_CLIENTS = 32 };

struct client {
    struct clients *all;
    struct net_conn *conn; /* NULL after the close: work in progress ends silently */
    struct client *prev, *next;
    unsigned refs;        /* the connection, and the calls of client_ref */
    uint64_t heard_bytes; /* bytes received at the last look at the lease */
    uint64_t heard_ns;    /* when heard_bytes had grown, or the connection began */
    int onlooker, greeted;
    int owns;                 /* it has shown the owner's token */
    int spoke;                /* a frame has come from it */
    int dropped;              /* its connection is being closed to make room */
    struct wire_frame *frame; /* the frame that is being handled; NULL: client_take_frame took it */
    alignas(max_align_t) char state[];
};

struct clients {
    struct agent_core *core;
    const struct client_use *uses;
    size_t n_uses, state_size;
    struct client_events ev;
    void *arg;
    struct client *first; /* the newest client */
    unsigned n, n_at_work, lease_ms;
    uint64_t heard_ns;              /* when bytes last came from a client that renews the lease */
    char owner[WIRE_MAX_OWNER + 1]; /* "": the job has no owner */
    char holder[WIRE_MAX_NAME + 1]; /* where the owner runs; "": unknown */
    char over[600];                 /* "": the job is not over */
    char boot[PD_BOOT_ID];          /* of this machine's kernel */
    int closing;                    /* the agent ends: requests that still come are dropped */
};

static size_t padded(size_t n) {
    return (n + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

int clients_new(struct clients **out, struct agent_core *core, const struct client_events *ev,
                void *arg, struct pd_err *err) {
    struct clients *all = *out = pd_calloc(1, sizeof *all);
    if (!all)
        return pd_oom(err, "a client");
    *all = (struct clients){.core = core, .ev = *ev, .arg = arg, .heard_ns = pd_mono_ns()};
    pd_boot_id(all->boot);
    return 0;
}

void clients_serve(struct clients *all, const struct client_use *uses, size_t n) {
    all->uses = uses;
    all->n_uses = n;
    for (size_t i = 0; i < n; i++)
        all->state_size += padded(uses[i].service->state_size);
}

void clients_free(struct clients *all) { free(all); }

/* --- frames --- */

static const struct client_request *request_of(const struct clients *all, uint16_t type) {
    for (size_t i = 0; i < all->n_uses; i++)
        for (const struct client_request *r = all->uses[i].service->requests; r->type; r++)
            if (r->type == type)
                return r;
    return NULL;
}

static int dispatch(struct client *c, const struct client_request *r, const struct wire_frame *f,
                    struct pd_err *err) {
    json_t *body = NULL;
    if (!r)
        return pd_fail(err, PD_EPROTO, "a client does not send %s (0x%x)", wire_msg_name(f->type),
                       f->type);
    if (r->needs_job && c->all->core->mode == AGENT_TOOL)
        return pd_fail(err, PD_EPROTO, "%s: this agent has no job", wire_msg_name(f->type));
    int rc = r->has_body ? msg_body(f, &body, err) : 0;
    if (!rc)
        rc = r->handle(c, f, body, err);
    json_decref(body);
    return rc;
}

static void on_frame(struct net_conn *conn, struct wire_frame *f, void *arg) {
    struct client *c = arg;
    struct clients *all = c->all;
    const struct client_request *r = request_of(all, f->type);
    struct pd_err err = {0};
    if (all->closing) { /* a request would open what nobody closes any more */
        wire_frame_free(f);
        return;
    }
    if (!c->spoke && f->type == WIRE_AG_STATUS)
        c->onlooker = 1;
    c->spoke = 1;
    c->frame = f;
    if (f->flags & WIRE_F_ERROR) {
        wire_error_get(f, &err);
        pd_warn(&all->core->log, "a client reports: %s", err.msg);
        if (r && r->on_error)
            r->on_error(c, f->req, &err);
    } else if (dispatch(c, r, f, &err)) { /* after an error, the handler has not taken the frame */
        pd_warn(&all->core->log, "%s: %s", wire_msg_name(f->type), err.msg);
        net_send_error(conn, f->type, f->req, &err);
    }
    if (client_renews(c))
        all->heard_ns = pd_mono_ns();
    wire_frame_free(c->frame);
    c->frame = NULL;
}

struct wire_frame *client_take_frame(struct client *c) {
    struct wire_frame *f = c->frame;
    c->frame = NULL;
    return f;
}

/* --- connections --- */

static void on_open(struct net_conn *conn, void *arg) {
    struct client *c = arg;
    (void)conn;
    c->greeted = 1;
    c->all->ev.on_open(c, c->all->arg);
}

static void on_drain(struct net_conn *conn, void *arg) {
    struct client *c = arg;
    (void)conn;
    for (size_t i = 0; i < c->all->n_uses; i++)
        if (c->all->uses[i].service->on_drain)
            c->all->uses[i].service->on_drain(c);
}

static void on_close(struct net_conn *conn, const struct pd_err *why, void *arg) {
    struct client *c = arg;
    struct clients *all = c->all;
    (void)conn;
    c->conn = NULL;
    for (size_t i = 0; i < all->n_uses; i++)
        if (all->uses[i].service->on_close)
            all->uses[i].service->on_close(c);
    if (why->code && why->code != PD_ECLOSED)
        pd_warn(&all->core->log, "a client's connection ended: %s", why->msg);
    all->ev.on_close(all->arg);
    client_unref(c);
}

static unsigned n_open(const struct clients *all) {
    unsigned n = 0;
    for (const struct client *c = all->first; c; c = c->next)
        n += !c->dropped;
    return n;
}

/* A client that was cut off sends no goodbye, and its connection may hang for hours. Closes the
 * client that has been silent the longest. A live client is never silent for half a lease, so such
 * clients stay. */
static void make_room(struct clients *all) {
    struct client *oldest = NULL;
    if (n_open(all) < MAX_CLIENTS)
        return;
    for (struct client *c = all->first; c; c = c->next)
        if (c->conn && !c->dropped && (!oldest || c->heard_ns <= oldest->heard_ns))
            oldest = c;
    uint64_t silent_ms = oldest ? (pd_mono_ns() - oldest->heard_ns) / 1000000u : 0;
    if (!oldest || silent_ms < all->lease_ms / 2)
        return;
    pd_warn(&all->core->log, "a client that has been silent for %llu ms makes room for another one",
            (unsigned long long)silent_ms);
    oldest->dropped = 1;
    net_close(oldest->conn);
}

int client_open(struct clients *all, uv_stream_t *in, uv_stream_t *out, struct pd_err *err) {
    static const struct net_events ev = {on_open, on_frame, on_drain, on_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME, .log = &all->core->log};
    make_room(all);
    struct client *c = n_open(all) < MAX_CLIENTS ? pd_calloc(1, sizeof *c + all->state_size) : NULL;
    if (!c)
        return n_open(all) < MAX_CLIENTS ? pd_oom(err, "another client")
                                         : pd_fail(err, PD_ENOMEM, "no room for another client");
    int rc = net_conn_on_streams(&c->conn, in, out, &opts, &ev, c, err);
    if (rc) {
        free(c);
        return rc;
    }
    c->all = all;
    c->refs = 1;
    c->heard_ns = pd_mono_ns();
    c->next = all->first;
    if (c->next)
        c->next->prev = c;
    all->first = c;
    all->n++;
    return 0;
}

void client_ref(struct client *c) { c->refs++; }

void client_unref(struct client *c) {
    if (--c->refs)
        return;
    *(c->prev ? &c->prev->next : &c->all->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->all->n--;
    free(c);
}

void client_close(struct client *c, int now) {
    if (c->conn)
        (now ? net_close : net_close_after_flush)(c->conn);
}

/* --- all clients --- */

unsigned clients_count(const struct clients *all) { return all->n; }

void clients_each(struct clients *all, void (*fn)(struct client *c, void *arg), void *arg) {
    for (struct client *c = all->first, *next; c; c = next) {
        next = c->next;
        if (c->conn && c->greeted)
            fn(c, arg);
    }
}

void clients_close(struct clients *all, int now) {
    all->closing = 1;
    for (struct client *c = all->first; c; c = c->next)
        client_close(c, now);
}

void clients_set_lease(struct clients *all, unsigned ms) { all->lease_ms = ms; }

uint64_t clients_silent_ms(struct clients *all) {
    const uint64_t now = pd_mono_ns();
    for (struct client *c = all->first; c; c = c->next) {
        uint64_t n = c->conn ? net_received_bytes(c->conn) : c->heard_bytes;
        if (n != c->heard_bytes)
            c->heard_ns = now;
        if (n != c->heard_bytes && client_renews(c))
            all->heard_ns = now;
        c->heard_bytes = n;
    }
    return (now - all->heard_ns) / 1000000u;
}

int clients_at_work(const struct clients *all) { return all->n_at_work != 0; }

void clients_set_over(struct clients *all, const char *why) {
    snprintf(all->over, sizeof all->over, "%s", why);
}

/* --- one client, for services --- */

int client_is_open(const struct client *c) { return c->conn != NULL; }
struct agent_core *client_core(const struct client *c) {
    return c->all->core;
}
void client_set_onlooker(struct client *c) { c->onlooker = 1; }

int client_renews(const struct client *c) { return *c->all->owner ? c->owns : !c->onlooker; }

void clients_set_owner(struct clients *all, const char *token) {
    pd_fmt(all->owner, sizeof all->owner, "%s", token);
    *all->holder = 0;
    for (struct client *c = all->first; c; c = c->next)
        c->owns = 0;
}

void client_show_token(struct client *c, const char *token, int claim, const char *holder) {
    struct clients *all = c->all;
    if (claim && *all->owner && *token && strcmp(token, all->owner) &&
        clients_silent_ms(all) >= all->lease_ms / 2) {
        pd_warn(&all->core->log, "the job's paddlectl is silent; another one keeps the job now: %s",
                *holder ? holder : "unknown");
        clients_set_owner(all, token);
    }
    c->owns = *all->owner && !strcmp(token, all->owner);
    if (c->owns && *holder)
        pd_fmt(all->holder, sizeof all->holder, "%s", holder);
}

json_t *client_lease(struct client *c, int64_t sent_ns) {
    struct clients *all = c->all;
    return wire_put(&wire_ag_ping_answer,
                    &(struct ag_ping_answer){.owned = *all->owner != 0,
                                             .owner = c->owns,
                                             .silent_ms = (int64_t)clients_silent_ms(all),
                                             .lease_ms = all->lease_ms,
                                             .sent_ns = sent_ns,
                                             .holder = all->holder,
                                             .now_ns = (int64_t)pd_mono_ns(),
                                             .boot = all->boot});
}

int client_is_spare(const struct client *c) {
    int is_spare = !client_renews(c);
    for (const struct client *o = c->all->first; o; o = o->next)
        is_spare |= o != c && o->conn && client_renews(o);
    return is_spare;
}

unsigned client_others(const struct client *c) {
    unsigned n = 0;
    for (const struct client *o = c->all->first; o; o = o->next)
        n += o != c && o->conn;
    return n;
}

void *client_state(struct client *c, const struct client_service *s) {
    char *at = c->state;
    for (size_t i = 0; i < c->all->n_uses; i++) {
        if (c->all->uses[i].service == s)
            return at;
        at += padded(c->all->uses[i].service->state_size);
    }
    return NULL;
}

void *client_context(const struct client *c, const struct client_service *s) {
    for (size_t i = 0; i < c->all->n_uses; i++)
        if (c->all->uses[i].service == s)
            return c->all->uses[i].context;
    return NULL;
}

static int may_send(const struct client *c) { return c->conn && c->greeted; }

static int send_if_open(struct client *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                        size_t n) {
    if (may_send(c))
        return msg_send_with(c->conn, type, req, body, p, n);
    json_decref(body);
    return 0;
}

/* Nobody sends the message again, so the client must not wait for it. */
static void tell_no_memory(struct client *c, uint16_t type, uint64_t req) {
    struct pd_err err = {0};
    pd_oom(&err, "a client");
    pd_warn(&c->all->core->log, "%s: %s", wire_msg_name(type), err.msg);
    client_refuse(c, type, req, &err);
    if (!req)
        client_close(c, 0);
}

int client_send_with(struct client *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                     size_t n) {
    const int rc = send_if_open(c, type, req, body, p, n);
    if (rc == PD_ENOMEM)
        tell_no_memory(c, type, req);
    return rc;
}

int client_send(struct client *c, uint16_t type, uint64_t req, json_t *body) {
    return client_send_with(c, type, req, body, NULL, 0);
}

int client_send_raw(struct client *c, uint16_t type, uint64_t req, const struct net_sec *sec,
                    uint32_t n_sec) {
    return may_send(c) ? net_send(c->conn, type, 0, req, sec, n_sec, NULL, NULL) : 0;
}

int client_answer(struct client *c, const struct wire_frame *f, json_t *body, struct pd_err *err) {
    return send_if_open(c, f->type, f->req, body, NULL, 0) ? pd_oom(err, "a client") : 0;
}

void client_refuse(struct client *c, uint16_t type, uint64_t req, const struct pd_err *e) {
    if (may_send(c))
        net_send_error(c->conn, type, req, e);
}

size_t client_queued_bytes(const struct client *c) {
    return c->conn ? net_queued_bytes(c->conn) : 0;
}

void client_work_begin(struct client *c) { c->all->n_at_work++; }

void client_work_end(struct client *c) {
    c->all->n_at_work--;
    c->all->heard_ns = pd_mono_ns();
}

void client_forget_key(struct client *c, const struct wire_frame *f) {
    if (f->n_sec > 1)
        explicit_bzero((void *)(uintptr_t)f->sec[1], f->len[1]);
    if (c->conn)
        net_forget(c->conn);
}

int client_over(const struct client *c, struct pd_err *err) {
    return *c->all->over ? pd_fail(err, PD_EHOST, "%s", c->all->over) : 0;
}
