/* SPDX-License-Identifier: Apache-2.0 */
/* client_send.c - sends requests, handles answers, and waits. */
#include "ps/client/client_internal.h"

enum { WAIT_LOG_S = 10 };

/* Sends the servers the reason why this trainer fails, so that every log has the first cause and
 * not its consequences. */
void client_tell_servers(const struct ps_client *c, const struct pd_err *why, int relayed) {
    for (uint32_t i = 0; i < c->n_links; i++)
        if (c->links[i]->state >= LINK_DECLARING && c->links[i]->conn) {
            net_send_error(c->links[i]->conn, WIRE_PS_BYE, relayed ? WIRE_BYE_RELAYED : 0, why);
            net_hold(c->links[i]->conn, 0);
        }
}

int client_fail_with(struct ps_client *c, const struct pd_err *why) {
    if (c->err.code)
        return c->err.code;
    c->err = *why;
    if (!c->leaving)
        client_tell_servers(c, c->relayed.code ? &c->relayed : &c->err, c->relayed.code != 0);
    return why->code;
}

int client_fail(struct ps_client *c, int code, const char *fmt, ...) {
    struct pd_err err = {.code = code};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    return client_fail_with(c, &err);
}

int client_link_fail(const struct server_link *l, int code, const char *fmt, ...) {
    char text[800];
    struct pd_err err = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pd_fail(&err, code, "pserver %s:%d%s", l->ip, l->port, text);
    pd_err_from(&err, "pserver %u on %s", l->server, l->ip);
    return client_fail_with(l->c, &err);
}

/* --- the table of outstanding requests --- */

/* Slots are reused; the upper part of the id distinguishes a late answer from the expected one. */
static struct pending_request *new_request(struct ps_client *c) {
    size_t i = 0;
    while (i < c->n_requests && c->requests[i].id)
        i++;
    if (pd_grow(c->requests, c->cap_requests, i + 1))
        return NULL;
    if (i == c->n_requests)
        c->n_requests++;
    c->requests[i].id = ++c->next_id << 24 | i;
    return &c->requests[i];
}

struct pending_request *client_pending(struct ps_client *c, const struct server_link *l,
                                       uint16_t type) {
    for (size_t i = 0; i < c->n_requests; i++)
        if (c->requests[i].id && c->requests[i].link == l && c->requests[i].type == type)
            return &c->requests[i];
    return NULL;
}

/* Requests whose answers the server keeps until they are known to have arrived. */
static int answer_is_kept(uint16_t type) {
    return type != WIRE_PS_DECLARE && type != WIRE_PS_PULL_DENSE && type != WIRE_PS_PULL_ROWS;
}

static void handle_answer(struct ps_client *c, uint16_t type, uint64_t id, const struct answer *a) {
    size_t i = id & 0xffffff;
    struct server_link *l = a->link;
    if (i >= c->n_requests || c->requests[i].id != id || id == 0 || c->requests[i].type != type ||
        c->requests[i].link != l) {
        client_link_fail(l, PD_EPROTO, ": unexpected answer to %s", wire_msg_name(type));
        return;
    }
    struct pending_request r = c->requests[i];
    c->requests[i].id = 0;
    while (c->n_requests && !c->requests[c->n_requests - 1].id)
        c->n_requests--;
    l->n_asked -= answer_is_kept(type);
    if (!c->shard && type != WIRE_PS_DECLARE)
        ps_link_answered(l, id);
    struct pd_err err = {0};
    if (r.done(c, &r, a, &err))
        client_fail(c, err.code, "pserver %s:%d: %s: %s", l->ip, l->port, wire_msg_name(type),
                    err.msg);
}

static void handle_error(struct ps_client *c, const struct server_link *l,
                         const struct wire_frame *f) {
    struct pd_err err = {0};
    if (c->err.code)
        return;
    wire_error_get(f, &err);
    pd_err_from(&err, "pserver %u on %s", l->server, l->ip);
    c->relayed = err;
    pd_err_prefix(&err, "pserver %s:%d", l->ip, l->port);
    client_fail_with(c, &err);
}

void client_on_frame(struct net_conn *conn, struct wire_frame *f, void *arg) {
    struct server_link *l = arg;
    struct ps_client *c = l->c;
    (void)conn;
    c->stats.received_bytes += f->total;
    if (f->flags & WIRE_F_ERROR) {
        handle_error(c, l, f);
    } else if (!c->err.code) {
        struct answer a = {.link = l, .body = ps_body_of(f)};
        handle_answer(c, f->type, f->req, &a);
    }
    wire_frame_free(f);
}

static void local_answer(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                         const struct iovec *sec, uint32_t n_sec, void (*release)(void *),
                         void *release_arg) {
    struct ps_client *c = arg;
    struct answer a = {.link = c->links[0], .body = {.n = n_sec}};
    (void)trainer;
    for (uint32_t i = 0; i < n_sec; i++) {
        a.body.sec[i] = sec[i].iov_base;
        a.body.len[i] = sec[i].iov_len;
    }
    handle_answer(c, type, req, &a);
    if (release)
        release(release_arg);
}

static void local_fail(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                       const struct pd_err *why) {
    (void)trainer;
    (void)type;
    (void)req;
    client_fail_with(arg, why);
}

const struct ps_shard_ops client_local_ops = {
    .answer = local_answer, .fail = local_fail, .place = client_rows_place};

/* The shard in this process gets a frame whose sections are the caller's memory. The shard keeps a
 * push until its step is applied: it no longer needs the keys, the values stay unchanged (see
 * client_wait_pulls), and the shows and clicks (section 3) are copied here. */
static int send_local(struct ps_client *c, uint16_t type, uint64_t id, const struct ps_body *b,
                      void (*release)(void *), void *release_arg) {
    enum { SPACE = 192 };
    _Static_assert(sizeof(struct wire_frame) <= SPACE,
                   "shows and clicks are stored after the frame");
    const size_t seen = b->len[3];
    struct wire_frame *f = pd_pool_get(c->pool, SPACE + seen);
    struct pd_err err = {0};
    if (!f) {
        if (release)
            release(release_arg);
        return client_fail(c, PD_ENOMEM, "no memory for a request");
    }
    *f = (struct wire_frame){.type = type, .req = id, .n_sec = b->n, .pool = c->pool};
    memcpy(f->sec, b->sec, sizeof f->sec);
    memcpy(f->len, b->len, sizeof f->len);
    if (seen)
        f->sec[3] = memcpy((uint8_t *)f + SPACE, b->sec[3], seen);
    if (ps_shard_frame(c->shard, 0, "local", f, &err))
        client_fail_with(c, &err);
    if (release)
        release(release_arg);
    return c->err.code;
}

/* Under a barrier a server does not work on a step before its end, and a pull or a wait follows
 * that end. On one machine, where sending takes no time, delaying the pushes wakes the server once
 * for all of them instead of once per push. */
static int may_be_delayed(const struct ps_client *c, uint16_t type) {
    return c->rule->barrier &&
           (type == WIRE_PS_PUSH_DENSE || type == WIRE_PS_PUSH_ROWS || type == WIRE_PS_STEP_END);
}

int client_request(struct ps_client *c, struct server_link *l, uint16_t type,
                   const struct ps_body *b, done_fn done, void *arg, uint32_t index,
                   void (*release)(void *), void *release_arg) {
    enum { NO_SLOT = 0xffffff };
    uint64_t id = 0, bytes = WIRE_HEADER;
    struct net_sec sec[WIRE_SECTIONS];
    for (uint32_t i = 0; i < b->n; i++) {
        sec[i] = (struct net_sec){b->sec[i], b->len[i]};
        bytes += sec[i].n + wire_pad(sec[i].n);
    }
    int rc = c->err.code;
    if (!rc && b->head->failed)
        rc = client_fail(c, PD_ENOMEM, "no memory for a request");
    if (!rc && bytes > PS_FRAME_MAX)
        rc = client_fail(c, PD_EUSAGE, "%s of %llu bytes; a message has at most %llu",
                         wire_msg_name(type), (unsigned long long)bytes,
                         (unsigned long long)PS_FRAME_MAX);
    struct pending_request *r = NULL;
    if (!rc && done && !(r = new_request(c)))
        rc = client_fail(c, PD_ENOMEM, "no memory for a request");
    if (rc) {
        if (release)
            release(release_arg);
        client_forget_pull(c, type, arg);
        return rc;
    }
    if (r) {
        id = r->id;
        *r = (struct pending_request){id, type, l, done, arg, index};
        l->n_asked += answer_is_kept(type);
    } else {
        id = ++c->next_id << 24 | NO_SLOT;
    }
    c->stats.messages++;
    c->stats.sent_bytes += bytes;
    if (c->shard)
        return send_local(c, type, id, b, release, release_arg);
    struct sent *f = ps_link_keep(l, type, id, done != NULL, sec, b->n, release, release_arg);
    if (!f && release)
        release(release_arg);
    if (!f || ps_link_send(l, f, may_be_delayed(c, type)))
        return client_fail(c, PD_ENOMEM, "no memory to send to pserver %s:%d", l->ip, l->port);
    return 0;
}

int client_declare(struct ps_client *c, struct server_link *l, const struct pd_buf *b,
                   done_fn done) {
    struct pending_request *r = new_request(c);
    struct net_sec sec = {b->data, b->len};
    if (!r)
        return client_fail(c, PD_ENOMEM, "no memory for a request");
    *r = (struct pending_request){r->id, WIRE_PS_DECLARE, l, done, NULL, 0};
    if (c->shard)
        return send_local(c, WIRE_PS_DECLARE, r->id,
                          &(struct ps_body){.n = 1, .sec = {b->data}, .len = {b->len}}, NULL, NULL);
    if (net_send(l->conn, WIRE_PS_DECLARE, 0, r->id, &sec, 1, NULL, NULL))
        return client_fail(c, PD_ENOMEM, "no memory to send to pserver %s:%d", l->ip, l->port);
    return 0;
}

int client_call(struct ps_client *c, struct server_link *l, uint16_t type, const struct ps_body *b,
                done_fn done, void *arg, uint32_t index) {
    c->n_calls++;
    return client_request(c, l, type, b, done, arg, index, NULL, NULL);
}

int client_ask(struct ps_client *c, struct server_link *l, uint16_t type, const struct ps_body *b,
               done_fn done, void *arg, uint32_t index) {
    return client_request(c, l, type, b, done, arg, index, NULL, NULL);
}

int client_calls_done(const struct ps_client *c) { return c->n_calls == 0; }

int client_done_nothing(struct ps_client *c, struct pending_request *r, const struct answer *a,
                        struct pd_err *err) {
    struct ps_msg_empty m;
    (void)r;
    c->n_calls--;
    return ps_get_empty(&a->body, &m, err);
}

/* --- waiting --- */

int client_receive(struct ps_client *c) {
    if (!c->shard && c->has_loop)
        uv_run(&c->loop, UV_RUN_NOWAIT);
    return c->err.code;
}

int client_poll(struct ps_client *c) {
    client_flush_links(c);
    return client_receive(c);
}

/* Ends with an answer, or when client_link.c gives up the connection. */
int client_wait_link(struct ps_client *c, struct server_link *l, uint32_t n_asked) {
    client_flush_links(c);
    while (!c->shard && !c->err.code && l->n_asked > n_asked)
        uv_run(&c->loop, UV_RUN_ONCE);
    return c->err.code;
}

/* Logs the servers that have not answered. A server logs by itself for which trainer it waits. */
static void log_wait(const struct ps_client *c, const char *what, uint64_t s) {
    char text[300] = "";
    size_t n = 0, named = 0;
    for (size_t i = 0; i < c->n_requests && named < 4; i++) {
        const struct pending_request *r = &c->requests[i];
        if (!r->id)
            continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%d (%s)", named ? ", " : "",
                              r->link->ip, r->link->port, wire_msg_name(r->type));
        if (n >= sizeof text)
            break;
        named++;
    }
    pd_warn(c->opts.log, "waiting for %s of step %llu, for %llu s: pserver %s", what,
            (unsigned long long)c->step, (unsigned long long)s, text);
}

/* Lists the servers that owe an answer in text; "" if all of them do. */
static void put_waiting_servers(const struct ps_client *c, char *text, size_t cap) {
    uint32_t n_named = 0;
    size_t n = 0;
    *text = 0;
    for (uint32_t s = 0; s < c->n_servers; s++) {
        int owes = 0;
        for (size_t i = 0; i < c->n_requests && !owes; i++)
            owes = c->requests[i].id && c->requests[i].link->server == s;
        if (owes && n < cap)
            n += (size_t)snprintf(text + n, cap - n, "%spserver %u on %s", n ? ", " : "", s,
                                  c->servers[s].ip);
        n_named += (uint32_t)owes;
    }
    if (n_named == c->n_servers)
        *text = 0;
}

static void report_wait(const struct ps_client *c, uint64_t ms) {
    char servers[300];
    if (!c->opts.on_wait)
        return;
    put_waiting_servers(c, servers, sizeof servers);
    c->opts.on_wait(c->opts.on_wait_arg, &(struct ps_waiting){.ms = ms, .servers = servers});
}

int client_wait(struct ps_client *c, int (*ready)(const struct ps_client *c), const char *what) {
    client_flush_links(c);
    if (c->err.code || ready(c))
        return c->err.code;
    uint64_t t0 = pd_mono_ns(), logged_s = 0, reported_s = 0;
    while (!c->err.code && !ready(c)) {
        if (c->shard)
            return client_fail(c, PD_EFAIL, "%s: the local shard did not answer", what);
        uv_run(&c->loop, UV_RUN_ONCE);
        uint64_t ms = (pd_mono_ns() - t0) / 1000000u, s = ms / 1000;
        if (s >= WAIT_LOG_S && s >= logged_s + (logged_s ? 6 * WAIT_LOG_S : 0)) {
            logged_s = s;
            log_wait(c, what, s);
        }
        if (s > reported_s && !c->err.code) {
            reported_s = s;
            report_wait(c, ms);
        }
    }
    c->stats.wait_ns += pd_mono_ns() - t0;
    return c->err.code;
}
