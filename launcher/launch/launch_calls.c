/* SPDX-License-Identifier: Apache-2.0 */
/* launch_calls.c - callbacks enrol and call. Two ports, each with a key of its own:
 *
 *     gate 0   the one-time secret     CB_CALL {rank} ──▶ CB_ENROLLED {key, token, port of gate 1}
 *     gate 1   the key from gate 0     CB_CALL {rank, token}
 *
 * Gate 0 is closed when all ranks have enrolled. A process that learns the key of gate 1 cannot
 * call as another node, because of the token. A call that has proved who it is waits for a command,
 * one for each rank: a new call replaces one that waits. */
#include <sodium.h>

#include "launcher/launch/launch_internal.h"

enum { CALLS_PER_NODE = 70, CALLS_MORE = 64, FRAME_MAX = (2 << 20) + 1024 };

int launch_send(struct net_conn *c, uint16_t type, json_t *body) {
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return PD_ENOMEM;
    const struct net_sec sec = {text, strlen(text)};
    int rc = net_send(c, type, 0, 0, &sec, 1, NULL, NULL);
    sodium_memzero(text, sec.n);
    free(text);
    return rc;
}

static int announce(struct launch *l, const struct cb_call *b, struct pd_err *err) {
    if (l->n_nodes)
        return 0;
    if (b->n < 1)
        return pd_fail(err, PD_EHOST,
                       "rank %d does not say how many ranks there are, so hosts must name the "
                       "nodes",
                       (int)b->node);
    if (!(l->nodes = pd_calloc((size_t)b->n, sizeof *l->nodes)))
        return pd_oom(err, "the nodes");
    l->n_nodes = (int)b->n;
    return 0;
}

/* Names of hosts become labels and names of folders. The word local would be this machine. */
static void take_host(struct launch_node *n, const char *host) {
    snprintf(n->host, sizeof n->host, "%s", host);
    for (char *s = n->host; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '.' && *s != '-' && *s != '_')
            *s = '-';
    if (!isalnum((unsigned char)*n->host) || !strcasecmp(n->host, "local"))
        snprintf(n->host, sizeof n->host, "node");
}

static int enrol(struct launch_call *k, const struct cb_call *b, struct pd_err *err) {
    struct launch *l = k->l;
    char key[2 * LAUNCH_KEY + 1], token[2 * LAUNCH_KEY + 1];
    int rc = announce(l, b, err);
    if (rc)
        return rc;
    if (b->n && b->n != l->n_nodes)
        return pd_fail(err, PD_EHOST, "the command starts %d ranks, but there are %d nodes",
                       (int)b->n, l->n_nodes);
    if (b->node >= l->n_nodes)
        return pd_fail(err, PD_EHOST, "rank %d has called back, but there are %d nodes",
                       (int)b->node, l->n_nodes);
    struct launch_node *n = &l->nodes[b->node];
    if (n->enrolled)
        return pd_fail(err, PD_EAUTH, "rank %d has enrolled already", (int)b->node);
    take_host(n, b->host);
    randombytes_buf(n->token, sizeof n->token);
    pd_hex(key, l->key, sizeof l->key);
    pd_hex(token, n->token, sizeof n->token);
    const struct cb_enrolled e = {
        .key = key, .token = token, .port = l->gates[1].port, .lease_ms = (int64_t)l->o.lease_ms};
    rc = launch_send(k->conn, WIRE_CB_ENROLLED, wire_put(&wire_cb_enrolled, &e));
    sodium_memzero(key, sizeof key);
    sodium_memzero(token, sizeof token);
    if (rc)
        return pd_oom(err, "a call");
    n->enrolled = 1;
    l->n_enrolled++;
    return 0;
}

static int prove(struct launch_call *k, const struct cb_call *b, struct pd_err *err) {
    uint8_t token[LAUNCH_KEY];
    const struct launch *l = k->l;
    if (b->node >= l->n_nodes || !l->nodes[b->node].enrolled ||
        pd_unhex(token, sizeof token, b->token) ||
        sodium_memcmp(token, l->nodes[b->node].token, sizeof token))
        return pd_fail(err, PD_EAUTH, "the token is wrong");
    return 0;
}

void launch_call_waits(struct launch_call *k) {
    struct launch *l = k->l;
    struct launch_node *n = &l->nodes[k->node];
    if (n->call)
        net_close(n->call->conn);
    n->call = k;
    if (l->leaving)
        launch_say_bye(l, k->node);
    else
        launch_take_call(l, k->node);
}

static void take_first(struct launch_call *k, const struct wire_frame *f, const json_t *body,
                       struct pd_err *err) {
    struct launch *l = k->l;
    struct cb_call b;
    if (f->type != WIRE_CB_CALL) {
        pd_fail(err, PD_EPROTO, "the first message is not CB_CALL");
        return;
    }
    int rc = wire_get(&wire_cb_call, &b, body, err);
    if (!rc)
        rc = k->enrols ? enrol(k, &b, err) : prove(k, &b, err);
    if (rc) {
        if (k->enrols && rc == PD_EHOST && !l->why.code)
            l->why = *err; /* the command has started something else than announced */
        return;
    }
    k->node = (int)b.node;
    launch_call_waits(k);
}

void launch_say_bye(struct launch *l, int node) {
    const struct launch_call *k = l->nodes[node].call;
    const struct cb_bye bye = {.stays = 0};
    if (k)
        launch_send(k->conn, WIRE_CB_BYE, wire_put(&wire_cb_bye, &bye));
}

static void take_bye(struct launch_call *k, const json_t *body, struct pd_err *err) {
    struct cb_bye b;
    if (wire_get(&wire_cb_bye, &b, body, err))
        return;
    k->l->nodes[k->node].answered = 1;
    k->l->nodes[k->node].stays = (int)b.stays;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct launch_call *k = arg;
    struct pd_err err = {0};
    json_t *body = NULL;
    const int raw = f->type == WIRE_CB_OUT || f->type == WIRE_CB_ERR || f->flags & WIRE_F_ERROR;
    if (!raw) {
        body = f->n_sec && f->len[0] <= WIRE_JSON_MAX
                   ? json_loadb((const char *)f->sec[0], f->len[0], JSON_REJECT_DUPLICATES, NULL)
                   : NULL;
        if (!json_is_object(body))
            pd_fail(&err, PD_EPROTO, "a message without a JSON object");
    }
    if (!err.code && k->stream)
        launch_stream_frame(k->stream, f, body);
    else if (!err.code && k->node < 0)
        take_first(k, f, body, &err);
    else if (!err.code && f->type == WIRE_CB_BYE)
        take_bye(k, body, &err);
    else if (!err.code && f->type == WIRE_CB_TERM)
        launch_take_term(k->l);
    json_decref(body);
    wire_frame_free(f);
    if (!err.code)
        return;
    net_send_error(c, WIRE_CB_CALL, 0, &err);
    net_close_after_flush(c);
}

static void on_open(struct net_conn *c, void *arg) {
    const struct launch_gate *gate = arg;
    struct launch *l = gate->l;
    const size_t most = (size_t)(l->n_nodes ? l->n_nodes : WIRE_MAX_NODES) * CALLS_PER_NODE;
    struct launch_call *k = l->n_calls < most + CALLS_MORE ? pd_calloc(1, sizeof *k) : NULL;
    net_set_arg(c, k);
    if (!k) {
        net_close(c);
        return;
    }
    net_watch_host(c);
    k->l = l;
    k->conn = c;
    k->enrols = gate == &l->gates[0];
    k->node = -1;
    k->next = l->calls;
    l->calls = k;
    l->n_calls++;
}

static void on_drain(struct net_conn *c, void *arg) {
    const struct launch_call *k = arg;
    (void)c;
    if (k && k->stream)
        launch_stream_drained(k->stream);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct launch_call *k = arg;
    (void)c;
    if (!k)
        return;
    struct launch *l = k->l;
    struct launch_call **at = &l->calls;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    l->n_calls--;
    if (k->node >= 0 && l->nodes[k->node].call == k)
        l->nodes[k->node].call = NULL;
    if (k->stream)
        launch_stream_lost(k->stream, why);
    free(k);
}

int launch_listen(struct launch *l, struct pd_err *err) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = on_frame, .on_drain = on_drain, .on_close = on_close};
    const struct net_opts opts = {.max_frame = FRAME_MAX, .background = 1};
    const uint8_t *const keys[] = {l->place.secret, l->key};
    for (int i = 0; i < 2; i++) {
        struct launch_gate *g = &l->gates[i];
        struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_AGENT, .job = "launch"}};
        int fd = net_bind_first_free(net_any_ip(), 0, 1, &g->port, err);
        if (fd < 0)
            return err->code;
        memcpy(hs.key, keys[i], sizeof hs.key);
        g->l = l;
        int rc = net_listen_fd(&g->listener, l->loop, fd, &hs, &opts, &events, g, err);
        sodium_memzero(&hs, sizeof hs);
        if (rc)
            return rc;
        l->n_handles++;
    }
    l->place.port = l->gates[0].port;
    return 0;
}

static void on_gate_closed(void *arg) { ((struct launch *)arg)->n_handles--; }

void launch_close_gate(struct launch *l, int i) {
    if (l->gates[i].listener)
        net_listener_close(l->gates[i].listener, on_gate_closed, l);
    l->gates[i].listener = NULL;
}

void launch_close_calls(struct launch *l) {
    for (struct launch_call *k = l->calls; k; k = k->next)
        net_close(k->conn);
}
