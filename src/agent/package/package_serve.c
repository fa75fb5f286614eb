/* SPDX-License-Identifier: Apache-2.0 */
/* package_serve.c - the port where other nodes take a client's packages from this node, and the
 * connections of these nodes. */
#include <sodium.h>

#include "agent/package/package.h"
#include "agent/host/facts.h"
#include "agent/host/ports.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

struct package_serve {
    struct client_packages *all;
    struct net_listener *listener;
    struct package_taker *strangers; /* connections that have not named a package yet */
};

/* Removes t from a list, if it is there. */
static void unlink_taker(struct package_taker **list, struct package_taker *t) {
    while (*list && *list != t)
        list = &(*list)->next;
    if (*list)
        *list = t->next;
}

static void on_open(struct net_conn *c, void *arg) {
    struct client_packages *all = arg;
    struct package_serve *v = all->serve;
    struct package_taker *t = v ? pd_calloc(1, sizeof *t) : NULL;
    net_set_arg(c, t);
    if (!t) {
        net_close(c);
        return;
    }
    t->all = all;
    t->conn = c;
    client_ref(all->c);
    t->next = v->strangers;
    v->strangers = t;
}

static int join(struct package_taker *t, const uint8_t *p, size_t n, struct pd_err *err) {
    struct object_id root;
    if (t->package || n != OBJECT_ID)
        return pd_fail(err, PD_EPROTO, "DS_PULL names one package, once");
    memcpy(root.b, p, OBJECT_ID);
    struct package_serve *v = t->all->serve;
    struct package *d = v ? package_find(t->all, &root) : NULL;
    unsigned k = 0;
    for (const struct package_taker *o = d ? d->takers : NULL; o; o = o->next)
        k++;
    if (!d || d->dead)
        return pd_fail(err, PD_ENOENT, "this node has no such package");
    if (d->state == PACKAGE_FAILED)
        return pd_fail(err, PD_EFAIL, "this node could not complete the package: %.400s",
                       d->failed.msg);
    if (k >= PACKAGE_TAKERS)
        return pd_fail(err, PD_EFAIL, "too many nodes take the package from this one");
    unlink_taker(&v->strangers, t);
    t->package = d;
    t->next = d->takers;
    d->takers = t;
    return 0;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct package_taker *t = arg;
    struct pd_err err = {0};
    uint8_t *data = NULL;
    size_t n = 0;
    (void)c;
    if (!t || t->refused)
        goto out;
    if (f->type != WIRE_DS_PULL && f->type != WIRE_DS_NEED)
        pd_fail(&err, PD_EPROTO, "a taker does not send %s", wire_msg_name(f->type));
    else if (!msg_payload(f, &data, &n, &err)) {
        if (f->type == WIRE_DS_PULL)
            join(t, data, n, &err);
        else if (!t->package)
            pd_fail(&err, PD_EPROTO, "DS_NEED comes after DS_PULL");
        else if (!package_may_wait(t->package, t, n))
            pd_fail(&err, PD_EPROTO,
                    "the other node sends requests faster than they can be answered");
        else {
            package_input(t->package, PACKAGE_IN_NEED, t, data, n);
            data = NULL;
        }
    }
    free(data);
    if (err.code)
        package_taker_refuse(t, &err);
out:
    wire_frame_free(f);
}

static void on_drain(struct net_conn *c, void *arg) {
    struct package_taker *t = arg;
    (void)c;
    if (t && t->package)
        package_next_turn(t->package);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct package_taker *t = arg;
    (void)c;
    (void)why;
    if (!t)
        return;
    struct package *d = t->package;
    t->conn = NULL;
    if (d && d->busy)
        return; /* the turn of work uses t; package.c frees it afterwards */
    if (d)
        package_forget_taker(d, t);
    else if (t->all->serve)
        unlink_taker(&t->all->serve->strangers, t);
    package_taker_gone(t);
    if (d)
        package_settle(d);
}

static void on_listener_closed(void *arg) {
    struct package_serve *v = arg;
    client_unref(v->all->c);
    free(v);
}

int package_serve_begin(struct client_packages *all, const struct wire_frame *f, const json_t *body,
                        struct pd_err *err) {
    static const struct net_events ev = {on_open, on_frame, on_drain, on_close};
    struct agent_core *core = client_core(all->c);
    const struct net_opts opts = {.max_frame = PACKAGE_NEED_MAX * OBJECT_ID + 4096,
                                  .log = &core->log};
    struct wire_hs_opts hs = {.self = {.role = WIRE_ROLE_AGENT}};
    struct ds_serve m;
    json_t *addrs = NULL;
    if (wire_get(&wire_ds_serve, &m, body, err))
        return err->code;
    hs.self.id = (uint32_t)m.node;
    hs.plain = !m.encrypt;
    if (all->serve)
        return pd_fail(err, PD_EPROTO, "this client's packages are served already");
    if (!node_paths_name_ok(m.token) || f->n_sec < 2 || f->len[1] != WIRE_KEY_BYTES)
        return pd_fail(err, PD_EPROTO, "DS_SERVE needs a token and a secret");
    struct package_serve *v = pd_calloc(1, sizeof *v);
    if (!v)
        return pd_oom(err, "a package");
    snprintf(hs.self.job, sizeof hs.self.job, "%s", m.token);
    memcpy(hs.key, f->sec[1], WIRE_KEY_BYTES);
    int port = 0, rc = facts_addrs(m.local ? FACTS_LOOPBACK : NULL, &addrs, err);
    int fd =
        rc ? rc : ports_bind(m.local ? "127.0.0.1" : net_any_ip(), (int)m.port, &port, NULL, err);
    rc = fd < 0 ? fd : net_listen_fd(&v->listener, &core->loop, fd, &hs, &opts, &ev, all, err);
    sodium_memzero(&hs, sizeof hs);
    if (rc) {
        json_decref(addrs);
        free(v);
        return rc;
    }
    v->all = all;
    all->serve = v;
    client_ref(all->c);
    for (struct package *d = all->first; d; d = d->next)
        package_next_turn(d);
    const struct ds_serve_answer a = {.port = port, .addrs = addrs};
    rc = client_answer(all->c, f, wire_put(&wire_ds_serve_answer, &a), err);
    json_decref(addrs);
    return rc;
}

void package_serve_close(struct client_packages *all) {
    struct package_serve *v = all->serve;
    if (!v)
        return;
    all->serve = NULL;
    for (struct package_taker *t = v->strangers, *next; t; t = next) {
        next = t->next;
        if (t->conn)
            net_close(t->conn); /* on_close then finds t in no list */
    }
    net_listener_close(v->listener, on_listener_closed, v);
}
