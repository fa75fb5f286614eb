/* check_net.c - see check.h: ports and peers. A probe runs the whole handshake with a key made for this check, so another machine
 * behind an address (127.0.1.1, docker0's 172.17.0.1), or something else behind the port, is no answer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/check.h"
#include "agent/msg.h"
#include "agent/ports.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "net/conn.h"
#include "wire/msg.h"

enum { PROBE_MS = 3000, MARKS_MAX = 100000, GUESTS_MAX = 64 };

struct check {
    struct wire_hs_opts hs;
    char dir[PATH_MAX], mark[PATH_MAX]; /* "": none */
    struct net_listener *listener;
    struct net_conn *guests[GUESTS_MAX]; /* peers that have just probed us */
};

struct probe;

struct attempt {
    struct probe *probe;
    size_t peer, addr; /* indexes into the request */
    struct net_conn *conn;
    uint64_t began_ns;
    int ok;
    double ms;
    char why[200];
};

struct probe {
    struct session *s;
    json_t *body;
    uint64_t req;
    size_t n, n_open;
    struct attempt v[CHECK_PEERS_MAX * CHECK_ADDRS_MAX];
};

/* --- listening --------------------------------------------------------------------------------------------- */

/* It knows now, and closes. If we did, the kernel would keep our port for a minute, and the job that comes next get another. */
static void on_peer_open(struct net_conn *c, void *arg) {
    struct session *s = arg;
    struct check *k = s->check;
    s->refs++;
    for (size_t i = 0; k && i < GUESTS_MAX; i++)
        if (!k->guests[i]) {
            k->guests[i] = c;
            return;
        }
    net_close(c);
}

static void on_any_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    (void)c;
    (void)arg;
    wire_frame_free(f);
}

static void on_peer_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct session *s = arg;
    (void)why;
    for (size_t i = 0; s->check && i < GUESTS_MAX; i++)
        if (s->check->guests[i] == c)
            s->check->guests[i] = NULL;
    session_unref(s);
}

/* One file per node beside the executables: a node that finds another's shares the folder with it, whatever the file system says
 * of itself. Where the folder does not exist yet nothing is made. */
static void leave_mark(struct check *k, const char *root) {
    if (pd_fmt(k->dir, sizeof k->dir, "%s/.paddlectl", root) ||
        pd_fmt(k->mark, sizeof k->mark, "%s/check-%s-%u", k->dir, k->hs.self.job, (unsigned)k->hs.self.id)) {
        *k->mark = 0;
        return;
    }
    int fd = open(k->mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        *k->mark = 0;
    else
        close(fd);
}

int check_on_listen(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    static const struct net_events ev = {on_peer_open, on_any_frame, NULL, on_peer_close};
    const struct net_opts opts = {.max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &s->ag->log};
    const char *token = msg_str(body, "token");
    if (s->check)
        return pd_fail(err, PD_EPROTO, "this session listens already");
    if (!place_name_ok(token) || f->n_sec < 2 || f->len[1] != WIRE_KEY_BYTES)
        return pd_fail(err, PD_EPROTO, "a check needs a token and a key");
    struct check *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    k->hs.self = (struct wire_hello){.role = WIRE_ROLE_AGENT, .id = (uint32_t)msg_int(body, "node", 0, 1 << 20, 0)};
    snprintf(k->hs.self.job, sizeof k->hs.self.job, "%s", token);
    memcpy(k->hs.key, f->sec[1], WIRE_KEY_BYTES);
    int port = 0, fd = ports_bind(net_any_ip(), (int)msg_int(body, "port", 0, 65535, 0), &port, NULL, err);
    int rc = fd < 0 ? fd : net_listen_fd(&k->listener, &s->ag->loop, fd, &k->hs, &opts, &ev, s, err);
    if (rc) {
        free(k);
        return rc;
    }
    s->check = k;
    leave_mark(k, s->ag->place.root);
    return msg_send(s->conn, f->type, f->req, json_pack("{s:i}", "port", port)) ? pd_fail(err, PD_ENOMEM, "out of memory") : 0;
}

void check_drop(struct session *s) {
    struct check *k = s->check;
    if (!k)
        return;
    s->check = NULL;
    if (*k->mark)
        unlink(k->mark);
    net_listener_close(k->listener, NULL, NULL);
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (k->guests[i])
            net_close(k->guests[i]);
    free(k);
}

/* --- probing ----------------------------------------------------------------------------------------------- */

/* Other nodes' marks of this check beside ours. */
static json_t *shared_with(const struct check *k) {
    json_t *list = json_array();
    DIR *d = *k->mark ? opendir(k->dir) : NULL;
    char prefix[100];
    struct dirent *e;
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "check-%s-", k->hs.self.job);
    for (int i = 0; d && i < MARKS_MAX && (e = readdir(d)); i++) {
        int64_t node;
        if (!strncmp(e->d_name, prefix, n) && !pd_parse_i64(e->d_name + n, 0, 1 << 20, &node) && node != k->hs.self.id)
            json_array_append_new(list, json_integer(node));
    }
    if (d)
        closedir(d);
    return list;
}

/* For each peer: the first of its addresses, in the order given, that is it; else why not. */
static void answer(struct probe *p) {
    struct session *s = p->s;
    const json_t *peer;
    json_t *out = json_array();
    size_t i;
    json_array_foreach(json_object_get(p->body, "peers"), i, peer) {
        const struct attempt *ok = NULL, *first = NULL;
        for (size_t k = 0; k < p->n && !ok; k++)
            if (p->v[k].peer == i) {
                first = first ? first : &p->v[k];
                ok = p->v[k].ok ? &p->v[k] : NULL;
            }
        const char *addr = ok ? json_string_value(json_array_get(json_object_get(peer, "addrs"), ok->addr)) : "";
        const char *why = ok ? "" : first ? first->why : "it has no address";
        json_array_append_new(out, json_pack("{s:I, s:s, s:f, s:o}", "node", (json_int_t)msg_int(peer, "node", 0, 1 << 20, 0), "addr", addr,
                                             "ms", ok ? ok->ms : 0.0, "why", msg_text(why, strlen(why))));
    }
    if (s->conn && s->check)
        msg_send(s->conn, WIRE_AG_CHECK_PROBE, p->req, json_pack("{s:o, s:o}", "reached", out, "shared", shared_with(s->check)));
    else
        json_decref(out);
    json_decref(p->body);
    free(p);
    session_unref(s);
}

static void on_probe_open(struct net_conn *c, void *arg) {
    struct attempt *t = arg;
    const struct wire_hello *h = net_peer(c);
    const json_t *peer = json_array_get(json_object_get(t->probe->body, "peers"), t->peer);
    t->ok = h->role == WIRE_ROLE_AGENT && (int64_t)h->id == msg_int(peer, "node", 0, 1 << 20, -1);
    t->ms = (double)(pd_mono_ns() - t->began_ns) / 1e6;
    if (!t->ok)
        snprintf(t->why, sizeof t->why, "node %u answers at %.50s", (unsigned)h->id,
                 json_string_value(json_array_get(json_object_get(peer, "addrs"), t->addr)));
    net_close(c);
}

static void on_probe_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct attempt *t = arg;
    (void)c;
    if (!t->ok && !*t->why) {
        const json_t *peer = json_array_get(json_object_get(t->probe->body, "peers"), t->peer);
        const char *addr = json_string_value(json_array_get(json_object_get(peer, "addrs"), t->addr));
        snprintf(t->why, sizeof t->why, "%.50s port %d: %.120s", addr, (int)msg_int(peer, "port", 0, 65535, 0), why->msg);
    }
    if (--t->probe->n_open == 0)
        answer(t->probe);
}

static void try_peer(struct probe *p, size_t at, const json_t *peer) {
    static const struct net_events ev = {on_probe_open, on_any_frame, NULL, on_probe_close};
    const struct net_opts opts = {.max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &p->s->ag->log};
    struct wire_hs_opts hs = p->s->check->hs;
    const json_t *v;
    size_t i;
    hs.self.role = WIRE_ROLE_PROBE;
    json_array_foreach(json_object_get(peer, "addrs"), i, v) {
        struct pd_err err = {0};
        if (i == CHECK_ADDRS_MAX || !json_is_string(v))
            break;
        struct attempt *t = &p->v[p->n++];
        *t = (struct attempt){.probe = p, .peer = at, .addr = i, .began_ns = pd_mono_ns()};
        if (net_connect(&t->conn, &p->s->ag->loop, json_string_value(v), (int)msg_int(peer, "port", 1, 65535, 1), PROBE_MS, &hs, &opts,
                        &ev, t, &err))
            snprintf(t->why, sizeof t->why, "%.190s", err.msg);
        else
            p->n_open++;
    }
}

int check_on_probe(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    const json_t *peers = json_object_get(body, "peers"), *peer;
    size_t i;
    if (!s->check)
        return pd_fail(err, PD_EPROTO, "AG_CHECK_PROBE without AG_CHECK_LISTEN");
    if (json_array_size(peers) > CHECK_PEERS_MAX)
        return pd_fail(err, PD_EPROTO, "more than %d peers to probe", CHECK_PEERS_MAX);
    struct probe *p = pd_calloc(1, sizeof *p);
    if (!p)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    *p = (struct probe){.s = s, .body = json_deep_copy(body), .req = f->req, .n_open = 1};
    s->refs++;
    json_array_foreach(json_object_get(p->body, "peers"), i, peer)
        try_peer(p, i, peer);
    if (--p->n_open == 0)
        answer(p);
    return 0;
}
