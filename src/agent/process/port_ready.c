/* SPDX-License-Identifier: Apache-2.0 */
/* port_ready.c - a pserver is ready when its port accepts a connection; the same holds for a user's
 * own program. The time between two tries grows from 5 ms to 200 ms: a fast start is noticed at
 * once, and a slow start costs little. */
#include "agent/process/node_internal.h"
#include "wire/msg.h"

enum { FIRST_WAIT_MS = 5, LAST_WAIT_MS = 200 };

static void on_timer(uv_timer_t *t);

void port_ready_init(struct node_role *r) {
    uv_timer_init(r->node->loop, &r->ready_timer);
    r->ready_timer.data = r;
    r->node->n_handles++;
}

static void on_probe_closed(uv_handle_t *h) {
    node_handle_closed(((struct node_role *)h->data)->node);
    free(h);
}

static void drop_probe(struct node_role *r) {
    if (r->probe)
        uv_close((uv_handle_t *)r->probe, on_probe_closed);
    r->probe = NULL;
}

void port_ready_stop(struct node_role *r) {
    uv_timer_stop(&r->ready_timer);
    drop_probe(r);
}

static void on_timer_closed(uv_handle_t *h) {
    node_handle_closed(((struct node_role *)h->data)->node);
}

void port_ready_close(struct node_role *r) {
    drop_probe(r);
    uv_close((uv_handle_t *)&r->ready_timer, on_timer_closed);
}

static void on_connect(uv_connect_t *req, int status) {
    uv_tcp_t *tcp = (uv_tcp_t *)req->handle;
    struct node_role *r = tcp->data;
    struct ag_node *n = r->node;
    free(req);
    if (r->probe != tcp)
        return; /* port_ready_stop was called meanwhile */
    drop_probe(r);
    if (status)
        return; /* the timer tries again */
    uv_timer_stop(&r->ready_timer);
    r->ready = 1;
    pd_info(n->log, "%s %d listens after %llu ms", role_names[r->role], r->rank,
            (unsigned long long)((pd_mono_ns() - r->ready_started_ns) / 1000000u));
    n->io.send(n->arg, WIRE_HD_READY, 0,
               wire_put(&wire_hd_ready, &(struct hd_ready){.role = role_names[r->role]}));
}

/* The address at which the process may listen. Our own pserver listens on the bound address. A
 * user's program may have chosen 127.0.0.1 (::1), the node's address, or all addresses. */
static const char *address_to_try(const struct node_role *r) {
    const struct ag_node *n = r->node;
    if (*n->spec->command[r->role])
        return !(r->ready_tries % 2) ? n->addr : strchr(n->addr, ':') ? "::1" : "127.0.0.1";
    return strcmp(n->bind_ip, "0.0.0.0") && strcmp(n->bind_ip, "::") ? n->bind_ip : "127.0.0.1";
}

static void try_once(struct node_role *r) {
    struct sockaddr_storage sa;
    uv_tcp_t *tcp = pd_malloc(sizeof *tcp);
    uv_connect_t *req = pd_malloc(sizeof *req);
    const char *ip = address_to_try(r);
    r->ready_tries++;
    if (!tcp || !req || net_ip_addr(ip, r->ports[0], &sa) || uv_tcp_init(r->node->loop, tcp)) {
        free(tcp);
        free(req);
        return;
    }
    tcp->data = r;
    r->node->n_handles++;
    r->probe = tcp;
    if (uv_tcp_connect(req, tcp, (struct sockaddr *)&sa, on_connect)) {
        free(req);
        drop_probe(r);
    }
}

static void on_timer(uv_timer_t *t) {
    struct node_role *r = t->data;
    struct ag_node *n = r->node;
    if ((pd_mono_ns() - r->ready_started_ns) / 1000000u > n->spec->job.ready_ms) {
        char reason[200];
        port_ready_stop(r);
        snprintf(reason, sizeof reason, "%s %d did not listen on port %d within %llu s",
                 role_names[r->role], r->rank, r->ports[0],
                 (unsigned long long)(n->spec->job.ready_ms / 1000));
        n->io.send(n->arg, WIRE_HD_FAIL, 0,
                   wire_put(&wire_hd_fail,
                            &(struct hd_fail){.reason = reason, .role = role_names[r->role]}));
        return;
    }
    drop_probe(r); /* the last attempt hangs */
    try_once(r);
    r->ready_wait_ms =
        r->ready_wait_ms * 3 / 2 > LAST_WAIT_MS ? LAST_WAIT_MS : r->ready_wait_ms * 3 / 2;
    uv_timer_start(t, on_timer, r->ready_wait_ms, 0);
}

void port_ready_start(struct node_role *r) {
    r->ready_started_ns = pd_mono_ns();
    r->ready_wait_ms = FIRST_WAIT_MS;
    r->ready_tries = 0;
    uv_timer_start(&r->ready_timer, on_timer, 0, 0);
}
