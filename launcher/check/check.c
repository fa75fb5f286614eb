/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the conversation of check.h.
 *
 *     hello -> clock, five times -> facts -> listen ...     all hosts at once
 *     probe: node i tries i+1, i+2, i+4, i+8 ...            only hosts that listen
 *
 * CHECK_PEERS other nodes try each node, so a cut in the network is found wherever it lies.
 */
#include "launcher/check/check.h"

#include <sodium.h>

enum { ASK_MS = 20000, CLOCKS = 5 };

struct asking {
    struct client_env *c;
    struct check_node *v;
    const char *nic;
    char token[40];
    uint8_t key[WIRE_KEY_BYTES];
    struct began {
        uint64_t mono_ns, wall_us;
    } * began; /* per node: start of its clock request */
};

/* --- facts --- */

static int on_listening(struct link *l, const struct wire_frame *f, json_t *body,
                        const struct pd_err *err, void *arg) {
    struct ask_all_node *n = arg;
    struct asking *a = n->g->arg;
    (void)l;
    (void)f;
    struct ag_check_listen_answer m;
    if (!err && !wire_get(&wire_ag_check_listen_answer, &m, body, NULL))
        a->v[n->id].port = (int)m.port;
    /* a node that cannot listen is a finding, not an error */
    ask_all_keep(n);
    return 1;
}

static int take_facts(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct asking *a = n->g->arg;
    a->v[n->id].facts = json_incref(body);
    json_t *listen =
        wire_put(&wire_ag_check_listen,
                 &(struct ag_check_listen){
                     .node = n->id, .token = a->token, .nic = a->nic, .port = a->c->opts->port});
    return link_request(n->link, WIRE_AG_CHECK_LISTEN, listen, a->key, sizeof a->key, ASK_MS,
                        "opening a port", on_listening, n)
               ? pd_oom(err, "a check of the hosts")
               : 0;
}

static void ask_clock(struct ask_all_node *n);

static int take_clock(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct asking *a = n->g->arg;
    struct check_node *v = &a->v[n->id];
    const struct began *b = &a->began[n->id];
    const struct pd_options *o = a->c->opts;
    (void)err;
    double rtt = (double)(pd_mono_ns() - b->mono_ns) / 1e6;
    double there = (double)json_integer_value(json_object_get(body, "now_us")) / 1e3;
    if (!v->n_clocks || rtt < v->rtt_ms) {
        v->rtt_ms = rtt;
        v->offset_ms = there - ((double)b->wall_us / 1e3 + rtt / 2);
    }
    if (++v->n_clocks < CLOCKS) {
        ask_clock(n);
        return 0;
    }
    ask_all_request(
        n, WIRE_AG_CHECK,
        wire_put(&wire_ag_check,
                 &(struct ag_check){.nic = a->nic, .port = o->port, .needed = v->needed}),
        ASK_MS, "looking around", take_facts);
    return 0;
}

static void ask_clock(struct ask_all_node *n) {
    struct asking *a = n->g->arg;
    a->began[n->id] = (struct began){pd_mono_ns(), pd_wall_us()};
    ask_all_request(n, WIRE_AG_CHECK, wire_put(&wire_ag_check, &(struct ag_check){.clock = 1}),
                    ASK_MS, "asking for the time", take_clock);
}

static void talk(struct ask_all_node *n) {
    struct asking *a = n->g->arg;
    a->v[n->id].login_printed = link_facts(n->link)->login_printed;
    a->v[n->id].login_ms = link_facts(n->link)->login_ms;
    ask_clock(n);
}

/* --- probes --- */

static const char *fact(const struct check_node *v, const char *name) {
    const char *s = json_string_value(json_object_get(v->facts, name));
    return s ? s : "";
}

/* The peer's addresses that can mean the peer: 127.x only if both share a network stack. */
static json_t *addresses(const struct check_node *from, const struct check_node *to) {
    int one = !strcmp(fact(from, "net_id"), fact(to, "net_id"));
    json_t *list = json_array(), *a;
    size_t i;
    json_array_foreach (json_object_get(to->facts, "addrs"), i, a) {
        const char *s = json_string_value(a);
        if (s && (one || !(pd_starts_with(s, "127.") || !strcmp(s, "::1"))))
            json_array_append(list, a);
    }
    return list;
}

static int take_probed(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct asking *a = n->g->arg;
    (void)err;
    a->v[n->id].reached = json_incref(json_object_get(body, "reached"));
    a->v[n->id].shared = json_incref(json_object_get(body, "shared"));
    ask_all_keep(n); /* other nodes may still try it */
    return 0;
}

/* `n` is number `at` of the `count` nodes that listen. */
static void probe(struct ask_all_node *n) {
    struct asking *a = n->g->arg;
    size_t count = 0, at = 0, hosts = a->c->hosts.n;
    if (!a->v[n->id].port) {
        ask_all_keep(n);
        return;
    }
    json_t *peers = json_array();
    for (size_t i = 0; i < hosts; i++) {
        at = (int)i == n->id ? count : at;
        count += a->v[i].port != 0;
    }
    for (size_t step = 1; step < count && json_array_size(peers) < CHECK_PEERS; step *= 2) {
        size_t want = (at + step) % count, i = 0;
        for (size_t k = 0; i < hosts; i++)
            if (a->v[i].port && k++ == want)
                break;
        const struct check_target t = {
            .node = (int64_t)i, .addrs = addresses(&a->v[n->id], &a->v[i]), .port = a->v[i].port};
        json_array_append_new(peers, wire_put(&wire_check_target, &t));
        json_decref(t.addrs);
    }
    ask_all_request(n, WIRE_AG_CHECK_PROBE,
                    wire_put(&wire_ag_check_probe, &(struct ag_check_probe){.peers = peers}),
                    ASK_MS, "probing the other nodes", take_probed);
    json_decref(peers);
}

/* The ports that a job would bind on each node: those of its pserver, and one for the user's own
 * program. */
static void count_ports(struct client_env *c, struct check_node *v) {
    for (size_t i = 0; i < c->n_pservers; i++)
        v[c->pservers[i]].needed += (int)(c->opts->ports_num + c->opts->ports_num_for_sparse);
    for (size_t i = 0; i < c->n_trainers; i++)
        v[c->trainers[i]].needed += *c->opts->trainer_command != 0;
}

int check_ask(struct client_env *c, struct check_node *v, struct pd_err *err) {
    /* A job whose hosts are all local uses the loopback. */
    const int local = client_env_is_local(c) && !*c->opts->nic;
    struct asking a = {.c = c, .v = v, .nic = local ? "127.0.0.0/8" : c->opts->nic};
    struct ask_all g;
    uint8_t random[8];
    char hex[17];
    int interrupted = 0;
    for (size_t i = 0; i < c->hosts.n; i++)
        v[i] = (struct check_node){
            .name = c->hosts.v[i].label, .local = c->hosts.v[i].local, .node = (int)i};
    randombytes_buf(random, sizeof random);
    randombytes_buf(a.key, sizeof a.key);
    pd_hex(hex, random, sizeof random);
    pd_fmt(a.token, sizeof a.token, "check.%s", hex);
    count_ports(c, v);
    if (!(a.began = pd_calloc(c->hosts.n, sizeof *a.began)))
        return pd_oom(err, "a check of the hosts");
    int rc = ask_all_init(&g, c, err);
    if (!rc) {
        ask_all_run(&g, talk, &a);
        for (size_t i = 0; i < c->hosts.n; i++) {
            v[i].err = g.nodes[i].err;
            g.nodes[i].skip = g.nodes[i].err.code != 0;
        }
        if (!g.interrupted)
            ask_all_run(&g, probe, &a);
        for (size_t i = 0; i < c->hosts.n; i++) {
            if (!v[i].err.code)
                v[i].err = g.nodes[i].err;
            g.nodes[i].skip |= !g.nodes[i].link;
        }
        if (!g.interrupted)
            ask_all_run(&g, ask_all_done, &a);
        interrupted = g.interrupted;
    }
    ask_all_release(&g);
    free(a.began);
    sodium_memzero(a.key, sizeof a.key);
    return rc ? rc : interrupted;
}

void check_release(struct check_node *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        json_decref(v[i].facts);
        json_decref(v[i].reached);
        json_decref(v[i].shared);
    }
}
