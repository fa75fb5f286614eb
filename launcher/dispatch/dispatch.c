/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - see dispatch.h. */
#include "launcher/dispatch/dispatch_internal.h"

#include <sodium.h>

enum {
    /* time for an agent to say whether it has a package; it may check its objects */
    BEGIN_MS = 120000,
    ASK_MS = 30000,
    TICK_MS = 200,
    /* A source is bypassed if it is not reached within REACH_MS, if it has the requested objects
     * and sends nothing for IDLE_MS, or if it sends no status for SILENT_MS while another node
     * waits for it. */
    REACH_MS = 4000,
    IDLE_MS = 5000,
    SILENT_MS = 2500,
    /* instead of SILENT_MS when much is to come: a node then reports at least twice a second */
    SILENT_BULK_MS = 1200,
    BULK = 1 << 20,
    /* a longer time between two ticks means that this process stood still */
    LATE_TICK_MS = 2000,
};

static uint64_t now(const struct dispatch *d) { return uv_now(d->c.loop); }

void dispatch_changed(struct dispatch *d) {
    if (!d->over && d->c.on_change)
        d->c.on_change(d->c.arg);
}

/* --- sources --- */

static void on_drain(struct link *l, void *arg) {
    struct dnode *n = arg;
    (void)l;
    for (int i = 0; i < DISPATCH_PACKAGES; i++)
        if (n->m[i].taker)
            feed_send(n->m[i].taker);
}

static void send_records(void *arg, const struct pd_bytes *parts, size_t n) {
    const struct dispatch_member *m = arg;
    link_send_parts(m->d->nodes[m->node].l, WIRE_DS_OBJECT, m->req, parts, n);
}

static size_t unsent_bytes(void *arg) {
    const struct dispatch_member *m = arg;
    return link_queued(m->d->nodes[m->node].l);
}

/* The link ignores silence while it has a drain callback (link_keep.c): remove the callback when
 * the link carries no package. */
static void stop_taking_here(struct dispatch_member *m) {
    struct dnode *n = &m->d->nodes[m->node];
    int any = 0;
    feed_taker_free(m->taker);
    m->taker = NULL;
    for (int i = 0; i < DISPATCH_PACKAGES; i++)
        any |= n->m[i].taker != NULL;
    if (!any && n->l)
        link_on_drain(n->l, NULL, NULL);
}

static void tell_source(struct dispatch *d, struct dispatch_member *m, int source) {
    static const struct feed_io io = {send_records, unsent_bytes};
    struct dnode *n = &d->nodes[m->node], *s = source >= 0 ? &d->nodes[source] : NULL;
    struct pd_err err = {0};
    json_t *body;
    m->told_ms = now(d);
    if (s) {
        stop_taking_here(m);
        body = wire_put(&wire_ds_source, &(struct ds_source){.node = source,
                                                             .addrs = s->addrs,
                                                             .port = s->port,
                                                             .token = d->token,
                                                             .encrypt = d->c.encrypt});
    } else {
        if (m->taker)
            feed_stop(m->taker);
        else
            m->taker = feed_taker_new(d->packages[m->package].feed, &io, m);
        body = wire_put(&wire_ds_source, &(struct ds_source){.launcher = 1});
        link_on_drain(n->l, on_drain, n);
        if (!m->taker) {
            json_decref(body);
            pd_oom(&err, "a dispatch");
            dispatch_fail_node(d, m->node, &err);
            return;
        }
    }
    /* The request has the package's id. The answer only says that it was read. */
    link_send(n->l, WIRE_DS_SOURCE, m->req, body, s ? d->secret : NULL, s ? sizeof d->secret : 0);
}

static void send_plans(struct dispatch *d) {
    int node, source;
    if (!d->started || d->over || d->sending_plans)
        return;
    /* a node that fails meanwhile changes the plans; this loop sees the change */
    d->sending_plans = 1;
    for (int i = 0; i < d->n_packages; i++)
        while (d->packages[i].plan && relay_plan_next(d->packages[i].plan, &node, &source)) {
            struct dispatch_member *m = &d->nodes[node].m[i];
            if (m->state == LACKS && d->nodes[node].l)
                tell_source(d, m, source);
        }
    d->sending_plans = 0;
}

/* --- one node --- */

void dispatch_drop(struct dispatch_member *m) {
    struct dpackage *p = &m->d->packages[m->package];
    stop_taking_here(m);
    if (p->plan && m->state != OFF)
        relay_plan_leave(p->plan, m->node, now(m->d));
    m->state = OFF;
}

void dispatch_remove_node(struct dispatch *d, int node) {
    struct dnode *n = &d->nodes[node];
    for (int i = 0; i < d->n_packages; i++)
        dispatch_drop(&n->m[i]);
    n->l = NULL;
    n->wants = n->done = 0;
    n->serves = 0;
    json_decref(n->addrs);
    n->addrs = NULL;
    send_plans(d);
}

void dispatch_fail_node(struct dispatch *d, int node, const struct pd_err *err) {
    struct dnode *n = &d->nodes[node];
    struct pd_err e = *err;
    if (d->over || n->failed || !n->l)
        return;
    n->failed = 1;
    dispatch_remove_node(d, node);
    d->c.on_failed(d->c.arg, node, &e);
    dispatch_changed(d);
}

static int is_worker(const struct dpackage *p) {
    return !strcmp(p->kind, "worker") || !strcmp(p->kind, "packed-worker");
}

static const char *sending(const struct dpackage *p) {
    return p->is_parts    ? "sending the data files"
           : is_worker(p) ? "sending the worker"
                          : "sending the workspace";
}

static const char *taking(const struct dpackage *p) {
    return p->is_parts    ? "taking the data files"
           : is_worker(p) ? "taking the worker"
                          : "taking the workspace";
}

static const char *asking(const struct dpackage *p) {
    return p->is_parts    ? "asking for the data files"
           : is_worker(p) ? "asking for the worker"
                          : "asking for the workspace";
}

static void wants_nothing_more(struct dispatch *d, int node) {
    struct dnode *n = &d->nodes[node];
    if (n->l && (n->wants & n->done) == n->wants && !d->over)
        d->c.on_done(d->c.arg, node);
    dispatch_changed(d);
}

static void member_is_done(struct dispatch_member *m) {
    struct dispatch *d = m->d;
    struct dnode *n = &d->nodes[m->node];
    struct relay_plan *plan = d->packages[m->package].plan;
    stop_taking_here(m);
    m->have = m->of;
    m->here_left = 0;
    if (m->state == ASKED)
        relay_plan_join(plan, m->node, 1, n->serves, now(d));
    else
        relay_plan_done(plan, m->node);
    m->state = DONE;
    n->done |= 1u << m->package;
    send_plans(d);
    wants_nothing_more(d, m->node);
}

/* A node that fetches reports once or twice a second. A silent node is cut off long before ssh
 * gives up its connection. */
static int is_silent(const struct dispatch *d, int node, int package, uint64_t waited_ms) {
    const struct dispatch_member *m = &d->nodes[node].m[package];
    uint64_t limit = m->asked >= BULK ? SILENT_BULK_MS : SILENT_MS;
    return m->state == LACKS && m->heard_ms && waited_ms > limit && now(d) - m->heard_ms > limit;
}

static void take_status(struct dispatch_member *m, const struct ds_status *s) {
    struct dispatch *d = m->d;
    struct relay_plan *plan = d->packages[m->package].plan;
    const int source = (int)s->source;
    const uint64_t idle_ms = (uint64_t)s->idle_ms;
    struct relay_plan_report r = {.have = (uint64_t)s->have,
                                  .of = (uint64_t)s->of,
                                  .rate = (uint64_t)s->rate,
                                  .asks = s->asked > 0,
                                  .reached = (int)s->reached};
    m->have = r.have;
    m->rate = r.rate;
    m->heard_ms = now(d);
    m->asked = (uint64_t)s->asked;
    m->here = (uint64_t)s->here;
    m->here_left = (uint64_t)s->here_left;
    m->rest = (uint64_t)s->rest;
    m->of = r.of;
    if (m->state != LACKS || source != relay_plan_source(plan, m->node))
        return; /* the node does not know its new source yet */
    if (source >= 0 &&
        ((!r.reached && *s->why) || (!r.reached && now(d) - m->told_ms > REACH_MS) ||
         (r.asks && idle_ms > IDLE_MS && d->nodes[source].m[m->package].have > m->have) ||
         (r.asks && is_silent(d, source, m->package, idle_ms))))
        relay_plan_unreached(plan, m->node, source, now(d));
    else
        relay_plan_status(plan, m->node, &r, now(d));
    send_plans(d);
}

static int on_package_frame(struct link *l, const struct wire_frame *f, json_t *body,
                            const struct pd_err *err, void *arg) {
    struct dispatch_member *m = arg;
    struct dispatch *d = m->d;
    struct pd_err e = {0};
    struct ds_begin_answer begin;
    struct ds_status status;
    struct ds_end end;
    (void)l;
    if (m->state == OFF || d->over)
        return 1;
    /* the owner of the link gets the error, too */
    if (err && err->code == PD_ECLOSED) {
        dispatch_drop(m);
        send_plans(d);
        return 1;
    }
    if (err) {
        e = *err;
        pd_err_prefix(&e, "%s", sending(&d->packages[m->package]));
        dispatch_fail_node(d, m->node, &e);
        return 1;
    }
    switch (f->type) {
    case WIRE_DS_BEGIN:
        if (m->state != ASKED)
            break;
        if (wire_get(&wire_ds_begin_answer, &begin, body, &e))
            break;
        m->had = (int)begin.have;
        if (m->had) {
            member_is_done(m);
            return 1;
        }
        m->state = LACKS;
        m->heard_ms = now(d);
        relay_plan_join(d->packages[m->package].plan, m->node, 0, d->nodes[m->node].serves, now(d));
        send_plans(d);
        break;
    case WIRE_DS_NEED:
        if (m->taker && f->n_sec > 1)
            (void)feed_ask(m->taker, f->sec[1], f->len[1], &e);
        break;
    case WIRE_DS_STATUS:
        if (!wire_get(&wire_ds_status, &status, body, &e))
            take_status(m, &status);
        break;
    case WIRE_DS_END:
        if (wire_get(&wire_ds_end, &end, body, &e))
            break;
        d->peak = (uint64_t)end.peak > d->peak ? (uint64_t)end.peak : d->peak;
        member_is_done(m);
        return 1;
    default: /* the answer to a DS_SOURCE */
        break;
    }
    if (e.code)
        dispatch_fail_node(d, m->node, &e);
    return m->state == OFF;
}

void dispatch_begin(struct dispatch *d, int node, int package) {
    struct dnode *n = &d->nodes[node];
    struct dpackage *p = &d->packages[package];
    struct dispatch_member *m = &n->m[package];
    struct object_id id;
    struct pd_err err = {0};
    size_t len;
    if (!n->l || !(n->wants & 1u << package) || m->state != OFF || !p->scanned ||
        (p->is_parts && !p->parts_ready))
        return;
    const struct scan_root *part = p->is_parts ? p->roots[node] : NULL;
    if (p->is_parts && !part) {
        n->done |= 1u << package;
        wants_nothing_more(d, node);
        return;
    }
    const uint8_t *root = part ? part->raw : scan_root(p->scan, &id, &len);
    struct scan_totals t;
    scan_get_totals(p->scan, &t);
    if (part) {
        len = part->n;
        t.bytes = part->bytes;
    }
    m->req = link_expect(n->l, WIRE_DS_BEGIN, BEGIN_MS, asking(p), on_package_frame, m);
    if (!m->req) {
        pd_oom(&err, "a dispatch");
        dispatch_fail_node(d, node, &err);
        return;
    }
    m->state = ASKED;
    m->had = 0;
    m->have = m->rate = m->heard_ms = m->asked = m->here = m->here_left = m->rest = 0;
    m->of = t.bytes;
    link_send(
        n->l, WIRE_DS_BEGIN, m->req,
        wire_put(&wire_ds_begin, &(struct ds_begin){.kind = p->kind,
                                                    .name = p->name,
                                                    .store_limit = (int64_t)d->c.store_limit}),
        root, len);
}

/* An agent that cannot listen still takes packages. */
static int on_serve(struct link *l, const struct wire_frame *f, json_t *body,
                    const struct pd_err *err, void *arg) {
    struct dnode *n = arg;
    struct ds_serve_answer a;
    (void)f;
    if (err || n->l != l || wire_get(&wire_ds_serve_answer, &a, body, NULL))
        return 1;
    json_decref(n->addrs);
    n->addrs = json_incref(a.addrs);
    n->port = (int)a.port;
    n->serves = json_array_size(n->addrs) && n->port;
    return 1;
}

void dispatch_add_node(struct dispatch *d, int node, struct link *l, unsigned packages) {
    struct dnode *n = &d->nodes[node];
    if (d->over)
        return;
    if (n->l)
        dispatch_remove_node(d, node);
    n->l = l;
    n->failed = 0;
    n->wants = packages & ((1u << d->n_packages) - 1);
    /* the answer comes before those of the packages */
    if (d->c.relay && d->c.n_nodes > 1)
        link_request(l, WIRE_DS_SERVE,
                     wire_put(&wire_ds_serve, &(struct ds_serve){.node = node,
                                                                 .token = d->token,
                                                                 .port = d->c.port,
                                                                 .encrypt = d->c.encrypt,
                                                                 .local = d->c.local}),
                     d->secret, sizeof d->secret, ASK_MS, "asking it to listen", on_serve, n);
    for (int i = 0; i < d->n_packages && n->l; i++) {
        struct pd_err err = d->packages[i].err;
        if (d->packages[i].broken && n->wants & 1u << i)
            dispatch_fail_node(d, node, &err);
        else
            dispatch_begin(d, node, i);
    }
}

void dispatch_add_packages(struct dispatch *d, int node, struct link *l, unsigned packages) {
    struct dnode *n = &d->nodes[node];
    if (n->l != l) { /* the link was lost meanwhile */
        dispatch_add_node(d, node, l, DISPATCH_ALL & packages);
        return;
    }
    n->wants |= packages;
    for (int i = 0; i < d->n_packages && n->l; i++) {
        struct pd_err err = d->packages[i].err;
        if (d->packages[i].broken && packages & 1u << i)
            dispatch_fail_node(d, node, &err);
        else if (packages & 1u << i)
            dispatch_begin(d, node, i);
    }
}

/* --- the whole --- */

/* An agent that stands still keeps its connection: without this check its package would never be
 * over. Silence does not count while this process itself stood still (suspended machine, a long
 * step). */
static void give_up_silent(struct dispatch *d) {
    struct pd_err err;
    if (now(d) - d->ticked_ms > LATE_TICK_MS)
        d->awake_ms = now(d);
    d->ticked_ms = now(d);
    for (int i = 0; i < d->c.n_nodes && !d->over; i++)
        for (int k = 0; k < d->n_packages && d->nodes[i].l; k++) {
            const struct dispatch_member *m = &d->nodes[i].m[k];
            uint64_t since = m->heard_ms > d->awake_ms ? m->heard_ms : d->awake_ms;
            if (m->state != LACKS || now(d) - since < d->c.silence_ms)
                continue;
            pd_err_clear(&err);
            pd_fail(&err, PD_ETIMEOUT, "it was silent for %.3g s while %s",
                    (double)d->c.silence_ms / 1000, taking(&d->packages[k]));
            dispatch_fail_node(d, i, &err);
        }
}

/* The rate of the slowest node, over about a second. */
static void on_tick(uv_timer_t *t) {
    struct dispatch *d = t->data;
    struct dispatch_progress p;
    give_up_silent(d);
    if (d->over)
        return;
    dispatch_get_progress(d, &p);
    if (p.least < d->rate_have || !d->rate_ms) {
        d->rate = 0;
        d->rate_have = p.least;
        d->rate_ms = now(d);
    } else if (now(d) - d->rate_ms >= 1000) {
        uint64_t fresh = (p.least - d->rate_have) * 1000 / (now(d) - d->rate_ms);
        d->rate = d->rate ? (d->rate + fresh) / 2 : fresh;
        d->rate_have = p.least;
        d->rate_ms = now(d);
    }
    dispatch_changed(d);
}

int dispatch_new(struct dispatch **out, const struct dispatch_conf *conf, struct pd_err *err) {
    struct dispatch *d = pd_calloc(1, sizeof *d);
    uint8_t token[4];
    if (!d || !(d->nodes = pd_calloc((size_t)conf->n_nodes + 1, sizeof *d->nodes))) {
        free(d);
        return pd_oom(err, "a dispatch");
    }
    d->c = *conf;
    d->started = conf->at_once;
    d->ticked_ms = now(d);
    for (int i = 0; i < conf->n_nodes; i++)
        for (int k = 0; k < DISPATCH_PACKAGES; k++)
            d->nodes[i].m[k] = (struct dispatch_member){.d = d, .node = i, .package = k};
    randombytes_buf(d->secret, sizeof d->secret);
    randombytes_buf(token, sizeof token);
    pd_hex(d->token, token, sizeof token);
    uv_timer_init(conf->loop, &d->tick);
    d->tick.data = d;
    d->tick_open = 1;
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
    uv_unref((uv_handle_t *)&d->tick);
    *out = d;
    return 0;
}

void dispatch_start(struct dispatch *d) {
    d->started = 1;
    send_plans(d);
}

static void on_feed_gone(void *arg) { ((struct dispatch *)arg)->n_feeds_going--; }

void dispatch_cancel(struct dispatch *d) {
    if (d->over)
        return;
    /* set first: no node is told of a new source */
    d->over = 1;
    for (int i = 0; i < d->c.n_nodes; i++)
        dispatch_remove_node(d, i);
    for (int i = 0; i < d->n_packages; i++) {
        struct dpackage *p = &d->packages[i];
        if (p->scan)
            scan_cancel(p->scan);
        if (p->feed) {
            d->n_feeds_going++;
            feed_free(p->feed, on_feed_gone, d);
        }
        p->feed = NULL;
    }
    uv_close((uv_handle_t *)&d->tick, NULL);
    d->tick_open = 0;
}

void dispatch_free(struct dispatch *d) {
    if (!d)
        return;
    dispatch_cancel(d);
    while (d->n_scanning || d->n_feeds_going)
        uv_run(d->c.loop, UV_RUN_ONCE);
    uv_run(d->c.loop, UV_RUN_NOWAIT); /* lets the timer close */
    for (int i = 0; i < d->n_packages; i++) {
        struct dpackage *p = &d->packages[i];
        scan_free(p->scan);
        relay_plan_free(p->plan);
        for (int k = 0; p->roots && k < d->c.n_nodes; k++)
            free(p->roots[k]);
        free(p->roots);
    }
    sodium_memzero(d->secret, sizeof d->secret);
    free(d->nodes);
    free(d);
}

const struct scan *dispatch_scan(const struct dispatch *d, int package) {
    return d->packages[package].scan;
}
int dispatch_is_scanned(const struct dispatch *d, int package) {
    return package < d->n_packages && d->packages[package].scanned;
}

int dispatch_had_package(const struct dispatch *d, int node, int package) {
    return d->nodes[node].m[package].had;
}

void dispatch_get_progress(const struct dispatch *d, struct dispatch_progress *p) {
    *p = (struct dispatch_progress){
        .scanning = d->n_scanning, .rate = d->rate, .agent_peak = d->peak};
    for (int i = 0; i < d->n_packages; i++) {
        const struct dpackage *k = &d->packages[i];
        uint64_t entries, scanned, total;
        scan_progress(k->scan, &entries, &scanned, &total);
        p->scanned += k->scanned ? total : scanned;
        p->to_scan += total;
        p->sent += k->sent_before + (k->feed ? feed_sent(k->feed) : 0);
        p->n_bypassed += k->plan ? relay_plan_n_bypassed(k->plan) : 0;
    }
    int first = 1;
    for (int i = 0; i < d->c.n_nodes; i++) {
        const struct dnode *n = &d->nodes[i];
        uint64_t have = 0, of = 0;
        p->n_failed += n->failed;
        p->n_nodes += n->l != NULL;
        p->n_done += n->l && (n->wants & n->done) == n->wants;
        for (int k = 0; k < d->n_packages; k++) {
            if (!n->l || n->m[k].had || (n->m[k].state != LACKS && n->m[k].state != DONE))
                continue;
            have += n->m[k].have + n->m[k].here_left;
            p->here += n->m[k].here;
            p->rest += n->m[k].rest;
            of += n->m[k].of;
            p->n_direct += n->m[k].taker != NULL;
        }
        p->have += have;
        p->of += of;
        if (of && (first || have < p->least)) {
            p->least = have;
            p->most = of;
            first = 0;
        }
    }
}
