/* SPDX-License-Identifier: Apache-2.0 */
/* check_net.c - see check.h: ports and peers. Probes (probe.h) prove a key that the client created
 * for this check. */
#include <sodium.h>

#include "agent/report/check.h"
#include "agent/core/msg.h"
#include "agent/host/facts.h"
#include "agent/host/ports.h"
#include "agent/report/probe.h"
#include "net/conn.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { MARKS_MAX = 100000, GUESTS_MAX = 64, LISTENERS_MAX = 8 };

struct check_listener {
    struct wire_hs_opts hs;
    char dir[PATH_MAX], mark[PATH_MAX];           /* mark "": there is no mark */
    struct net_listener *listener[LISTENERS_MAX]; /* one for each address; NULL: the end */
    struct net_conn *guests[GUESTS_MAX]; /* open connections of peers that have probed this node */
};

/* One peer of a request. */
struct check_peer {
    struct check_request *of;
    int64_t node;
    char addr[64]; /* the first address, in the given order, that leads to the peer; "": none */
    double ms;
    char why[200]; /* the failure of the first address */
};

struct check_request {
    struct client *c;
    json_t *peers; /* of AG_CHECK_PROBE */
    uint64_t req;
    size_t n_open; /* peers that are still being probed */
    struct check_peer peer[CHECK_PEERS_MAX];
};

/* The check of one client. */
struct check_state {
    struct check_listener *listens; /* NULL: AG_CHECK_LISTEN has not come */
};

static struct check_listener **check_of(struct client *c) {
    return &((struct check_state *)client_state(c, &check_net_service))->listens;
}

/* --- listening --- */

/* The peer has its answer and closes the connection. If this node closed first, its port would be
 * in TIME_WAIT for a minute, and the next job would get another port. */
static void on_peer_open(struct net_conn *c, void *arg) {
    struct client *its = arg;
    struct check_listener *k = *check_of(its);
    client_ref(its);
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
    struct client *its = arg;
    struct check_listener *k = *check_of(its);
    (void)why;
    for (size_t i = 0; k && i < GUESTS_MAX; i++)
        if (k->guests[i] == c)
            k->guests[i] = NULL;
    client_unref(its);
}

/* Creates one file per node beside the executables. A node that finds another node's file shares
 * the folder with it, on any kind of file system. If the folder does not exist yet, no mark is
 * created. */
static void leave_mark(struct check_listener *k, const char *root) {
    if (pd_fmt(k->dir, sizeof k->dir, "%s/.paddlectl", root) ||
        pd_fmt(k->mark, sizeof k->mark, "%s/check-%s-%u", k->dir, k->hs.self.job,
               (unsigned)k->hs.self.id)) {
        *k->mark = 0;
        return;
    }
    int fd = open(k->mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        *k->mark = 0;
    else
        close(fd);
}

static void free_listener(struct check_listener *k) {
    for (size_t i = 0; i < LISTENERS_MAX && k->listener[i]; i++)
        net_listener_close(k->listener[i], NULL, NULL);
    sodium_memzero(&k->hs, sizeof k->hs);
    free(k);
}

/* Listens on the addresses of `nic`, as the pservers of a job do, all with one port; without nic on
 * every address. An address where another program has this port is left out. */
static int listen_on(struct check_listener *k, const char *nic, int from, int *port,
                     struct client *c, struct pd_err *err) {
    static const struct net_events ev = {on_peer_open, on_any_frame, NULL, on_peer_close};
    struct agent_core *core = client_core(c);
    const struct net_opts opts = {
        .max_frame = 4096, .handshake_timeout_ms = PROBE_MS, .log = &core->log};
    json_t *addrs = NULL;
    int rc = *nic ? facts_addrs(nic, &addrs, err) : 0;
    const size_t n = addrs ? json_array_size(addrs) : 1;
    for (size_t i = 0, used = 0; !rc && i < n && used < LISTENERS_MAX; i++) {
        const char *ip = addrs ? json_string_value(json_array_get(addrs, i)) : net_any_ip();
        int at, fd = used ? net_bind_first_free(ip, *port, 1, &at, NULL)
                          : ports_bind(ip, from, port, NULL, err);
        if (fd >= 0)
            rc = net_listen_fd(&k->listener[used++], &core->loop, fd, &k->hs, &opts, &ev, c, err);
        else if (!used)
            rc = fd;
    }
    json_decref(addrs);
    return rc;
}

static int on_listen(struct client *c, const struct wire_frame *f, const json_t *body,
                     struct pd_err *err) {
    struct ag_check_listen m;
    if (wire_get(&wire_ag_check_listen, &m, body, err))
        return err->code;
    if (*check_of(c))
        return pd_fail(err, PD_EPROTO, "this client's check listens already");
    if (!node_paths_name_ok(m.token) || f->n_sec < 2 || f->len[1] != WIRE_KEY_BYTES)
        return pd_fail(err, PD_EPROTO, "a check needs a token and a key");
    struct check_listener *k = pd_calloc(1, sizeof *k);
    if (!k)
        return pd_oom(err, "a check of the network");
    k->hs.self = (struct wire_hello){.role = WIRE_ROLE_AGENT, .id = (uint32_t)m.node};
    snprintf(k->hs.self.job, sizeof k->hs.self.job, "%s", m.token);
    pd_secret_pages(&k->hs, sizeof k->hs);
    memcpy(k->hs.key, f->sec[1], WIRE_KEY_BYTES);
    int port = 0, rc = listen_on(k, m.nic, (int)m.port, &port, c, err);
    if (rc) {
        free_listener(k);
        return rc;
    }
    *check_of(c) = k;
    leave_mark(k, client_core(c)->paths.root);
    const struct ag_check_listen_answer a = {.port = port};
    return client_answer(c, f, wire_put(&wire_ag_check_listen_answer, &a), err);
}

static void drop(struct client *c) {
    struct check_listener *k = *check_of(c);
    if (!k)
        return;
    *check_of(c) = NULL;
    if (*k->mark)
        unlink(k->mark);
    for (size_t i = 0; i < GUESTS_MAX; i++)
        if (k->guests[i])
            net_close(k->guests[i]);
    free_listener(k);
}

/* --- probing --- */

/* The nodes whose marks of this check are in the same folder. */
static json_t *shared_with(const struct check_listener *k) {
    json_t *list = json_array();
    DIR *d = *k->mark ? opendir(k->dir) : NULL;
    char prefix[100];
    struct dirent *e;
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "check-%s-", k->hs.self.job);
    for (int i = 0; d && i < MARKS_MAX && (e = readdir(d)); i++) {
        int64_t node;
        if (!strncmp(e->d_name, prefix, n) && !pd_parse_i64(e->d_name + n, 0, 1 << 20, &node) &&
            node != k->hs.self.id)
            json_array_append_new(list, json_integer(node));
    }
    pd_closedir(d);
    return list;
}

static void send_answer(struct check_request *r) {
    const struct check_listener *k = *check_of(r->c);
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(r->peers); i++) {
        const struct check_peer *p = &r->peer[i];
        json_array_append_new(out, json_pack("{s:I, s:s, s:f, s:o}", "node", (json_int_t)p->node,
                                             "addr", p->addr, "ms", p->ms, "why",
                                             wire_text(p->why, strlen(p->why))));
    }
    if (k)
        client_send(r->c, WIRE_AG_CHECK_PROBE, r->req,
                    json_pack("{s:O, s:o}", "reached", out, "shared", shared_with(k)));
    json_decref(out);
    json_decref(r->peers);
    client_unref(r->c);
    free(r);
}

static void one_less(struct check_request *r) {
    if (--r->n_open == 0)
        send_answer(r);
}

static void on_probed(void *arg, const struct probe_result *v, size_t n) {
    struct check_peer *p = arg;
    const struct probe_result *ok = probe_best(v, n);
    if (ok) {
        snprintf(p->addr, sizeof p->addr, "%.60s", ok->addr);
        p->ms = ok->ms;
    } else {
        snprintf(p->why, sizeof p->why, "%s", n ? v[0].why : "it has no address");
    }
    one_less(p->of);
}

static void probe_peer(struct check_request *r, size_t at, const struct check_target *peer) {
    struct wire_hs_opts hs = (*check_of(r->c))->hs;
    struct pd_err err = {0};
    const struct probe_target target = {.addrs = peer->addrs,
                                        .max = CHECK_ADDRS_MAX,
                                        .port = (int)peer->port,
                                        .node = (uint32_t)peer->node};
    hs.self.role = WIRE_ROLE_PROBE;
    r->peer[at].of = r;
    r->peer[at].node = peer->node;
    r->n_open++;
    if (probe_node(client_core(r->c), &hs, &target, on_probed, &r->peer[at], &err)) {
        snprintf(r->peer[at].why, sizeof r->peer[at].why, "%.190s", err.msg);
        one_less(r);
    }
    sodium_memzero(&hs, sizeof hs);
}

static int on_probe(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct ag_check_probe m;
    struct check_target peer[CHECK_PEERS_MAX];
    if (!*check_of(c))
        return pd_fail(err, PD_EPROTO, "AG_CHECK_PROBE without AG_CHECK_LISTEN");
    if (wire_get(&wire_ag_check_probe, &m, body, err))
        return err->code;
    const size_t n = json_array_size(m.peers);
    for (size_t i = 0; i < n; i++)
        if (wire_get(&wire_check_target, &peer[i], json_array_get(m.peers, i), err))
            return err->code;
    struct check_request *r = pd_calloc(1, sizeof *r);
    if (!r)
        return pd_oom(err, "a check of the network");
    *r = (struct check_request){.c = c, .peers = json_incref(m.peers), .req = f->req, .n_open = 1};
    client_ref(c);
    for (size_t i = 0; i < n; i++)
        probe_peer(r, i, &peer[i]);
    one_less(r);
    return 0;
}

static const struct client_request requests[] = {
    {WIRE_AG_CHECK_LISTEN, 0, 1, on_listen, NULL},
    {WIRE_AG_CHECK_PROBE, 0, 1, on_probe, NULL},
    {0},
};

const struct client_service check_net_service = {.name = "check",
                                                 .requests = requests,
                                                 .state_size = sizeof(struct check_state),
                                                 .on_close = drop};
