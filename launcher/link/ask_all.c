/* SPDX-License-Identifier: Apache-2.0 */
/* ask_all.c - see ask_all.h. */
#include "launcher/link/ask_all.h"

#include "launcher/text/fold_lines.h"

int ask_all_init(struct ask_all *g, struct client_env *c, struct pd_err *err) {
    memset(g, 0, sizeof *g);
    g->c = c;
    g->nodes = pd_calloc(c->hosts.n, sizeof *g->nodes);
    if (!g->nodes)
        return pd_oom(err, "the hosts");
    for (size_t i = 0; i < c->hosts.n; i++) {
        g->nodes[i].g = g;
        g->nodes[i].id = (int)i;
        g->nodes[i].host = &c->hosts.v[i];
    }
    return 0;
}

static void maybe_end(struct ask_all *g) {
    if (!g->has_signals) /* outside of ask_all_run the loop may belong to the caller */
        return;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (!g->nodes[i].over || (g->nodes[i].link && !g->nodes[i].kept))
            return;
    uv_stop(&g->c->loop);
}

void ask_all_done(struct ask_all_node *n) {
    if (n->over)
        return;
    n->over = 1;
    if (n->link) {
        link_send(n->link, WIRE_AG_BYE, 0, json_object(), NULL, 0);
        link_close_soon(n->link);
    }
}

void ask_all_keep(struct ask_all_node *n) {
    if (n->over)
        return;
    n->over = n->kept = 1;
    maybe_end(n->g);
}

void ask_all_fail(struct ask_all_node *n, const struct pd_err *err) {
    if (n->over)
        return;
    n->err = *err;
    n->over = 1;
    if (n->link)
        link_close(n->link);
}

static int on_answer(struct link *l, const struct wire_frame *f, json_t *body,
                     const struct pd_err *err, void *arg) {
    struct ask_all_node *n = arg;
    struct pd_err e = {0};
    (void)l;
    (void)f;
    if (err || n->take(n, body, &e))
        ask_all_fail(n, err ? err : &e);
    return 1;
}

void ask_all_request(struct ask_all_node *n, unsigned type, json_t *body, uint64_t timeout_ms,
                     const char *what,
                     int (*take)(struct ask_all_node *n, json_t *body, struct pd_err *err)) {
    struct pd_err err = {0};
    n->take = take;
    if (!link_request(n->link, type, body, NULL, 0, timeout_ms, what, on_answer, n))
        return;
    pd_oom(&err, what);
    ask_all_fail(n, &err);
}

static void on_hello(struct link *l, void *arg) {
    struct ask_all_node *n = arg;
    (void)l;
    n->g->talk(n);
}

static void on_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg) {
    struct ask_all_node *n = arg;
    (void)l;
    if (n->g->on_frame && !n->over)
        n->g->on_frame(n, f, body);
}

static void on_lost(struct link *l, const struct pd_err *why, void *arg) {
    struct ask_all_node *n = arg;
    (void)l;
    if (n->g->on_gone && !n->over)
        n->g->on_gone(n, 1, why);
}

static void on_close(struct link *l, const struct pd_err *why, void *arg) {
    struct ask_all_node *n = arg;
    const int is_lost = !n->over;
    (void)l;
    if (is_lost) {
        n->over = 1;
        n->err = *why;
        if (!why->code)
            pd_fail(&n->err, PD_ECANCELED, "interrupted");
    }
    if (n->g->on_closed)
        n->g->on_closed(n);
    n->link = NULL;
    n->kept = 0;
    if (is_lost && n->g->on_gone)
        n->g->on_gone(n, 0, &n->err);
    maybe_end(n->g);
}

static const struct link_events events = {
    .on_hello = on_hello, .on_frame = on_frame, .on_close = on_close, .on_lost = on_lost};

void ask_all_interrupt(struct ask_all *g) {
    g->interrupted = 1;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (g->nodes[i].link)
            link_close(g->nodes[i].link);
}

static void on_signal(uv_signal_t *s, int signum) {
    (void)signum;
    ask_all_interrupt(s->data);
}

static void catch_signals(struct ask_all *g) {
    static const int signums[] = {SIGINT, SIGTERM, SIGHUP};
    if (g->has_signals)
        return;
    g->has_signals = 1;
    for (size_t i = 0; i < sizeof signums / sizeof signums[0]; i++) {
        uv_signal_init(&g->c->loop, &g->signals[i]);
        g->signals[i].data = g;
        if (signums[i] != SIGHUP || !pd_signal_is_ignored(SIGHUP))
            uv_signal_start(&g->signals[i], on_signal, signums[i]);
    }
}

void ask_all_begin(struct ask_all_node *n) {
    struct client_env *c = n->g->c;
    struct pd_err err = {0};
    n->over = 0;
    n->kept = 0;
    pd_err_clear(&n->err);
    if (n->link && c->env.job) {
        link_join(n->link, c->env.job, &events, n);
    } else if (n->link) {
        n->g->talk(n);
    } else if (link_open(&n->link, &c->env, n->host, n->id, &events, n, &err)) {
        n->link = NULL;
        ask_all_fail(n, &err);
    }
}

int ask_all_run(struct ask_all *g, void (*talk)(struct ask_all_node *n), void *arg) {
    int bad = 0, n = 0;
    g->talk = talk;
    g->arg = arg;
    catch_signals(g);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        g->nodes[i].over = 1; /* until all nodes have begun */
    for (size_t i = 0; i < g->c->hosts.n && !g->interrupted; i++) {
        if (g->nodes[i].skip)
            continue;
        ask_all_begin(&g->nodes[i]);
        n++;
    }
    for (size_t i = 0; i < g->c->hosts.n; i++)
        n += g->nodes[i].link && !g->nodes[i].kept;
    if (n)
        maybe_end(g);
    if (n)
        uv_run(&g->c->loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        bad += g->nodes[i].err.code != 0;
    return bad;
}

void ask_all_leave(struct ask_all *g) {
    if (!g->has_signals)
        return;
    g->has_signals = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (g->nodes[i].link)
            link_close(g->nodes[i].link);
    for (size_t i = 0; i < sizeof g->signals / sizeof g->signals[0]; i++)
        uv_close((uv_handle_t *)&g->signals[i], NULL);
}

void ask_all_release(struct ask_all *g) {
    if (g->has_signals) {
        ask_all_leave(g);
        while (uv_run(&g->c->loop, UV_RUN_DEFAULT)) /* each link that closes stops the loop */
            ;
    }
    for (size_t i = 0; g->nodes && i < g->c->hosts.n; i++) {
        free(g->nodes[i].text);
        json_decref(g->nodes[i].data);
    }
    free(g->nodes);
    *g = (struct ask_all){0};
}

int ask_all_n_failed(const struct ask_all *g) {
    int bad = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        bad += g->nodes[i].err.code != 0;
    return bad;
}

int ask_all_report(const struct ask_all *g) {
    const size_t n = g->c->hosts.n;
    struct fold_line *v = pd_calloc(n, sizeof *v);
    int status = 2;
    for (size_t i = 0; i < n; i++) {
        const struct ask_all_node *node = &g->nodes[i];
        if (!node->err.code)
            continue;
        if (pd_code_exit_status(node->err.code) != 2)
            status = 3;
        if (v)
            v[i] = (struct fold_line){
                .before = "paddlectl: ", .name = node->host->label, .text = node->err.msg};
    }
    if (v && !g->interrupted)
        fold_lines(v, n, fold_print, stderr);
    free(v);
    return g->interrupted ? pd_code_exit_status(PD_ECANCELED) : status;
}
