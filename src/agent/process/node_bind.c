/* SPDX-License-Identifier: Apache-2.0 */
/* node_bind.c - HD_BIND: binds the ports of this node's processes, and divides the CPUs. */
#include <sys/socket.h>

#include "agent/core/msg.h"
#include "agent/process/node_internal.h"
#include "agent/host/ports.h"
#include "net/conn.h"
#include "wire/msg.h"

/* --- CPUs --- */

/* The number of computing threads. A user's program may start a thread for each CPU. */
static unsigned threads_of(const struct ag_node *n, enum role r, int cpus) {
    const char *count = json_string_value(json_object_get(n->spec->train, "trainer_count"));
    int64_t threads = 1;
    if (*n->spec->command[r])
        threads = cpus;
    else if (r == ROLE_PSERVER)
        threads = n->spec->job.ports_num + n->spec->job.ports_num_for_sparse;
    else if (count && !strcmp(count, "auto"))
        threads = cpus;
    else if (count && pd_parse_i64(count, 1, PD_CPUS_MAX, &threads))
        threads = 1;
    return (unsigned)threads;
}

static void log_cpus(const struct ag_node *n, const struct node_role *r, int count) {
    char cpus[300], memory[100];
    if (!r->bind.on)
        return;
    pd_cpuset_text(&r->bind.cpus, cpus, sizeof cpus);
    pd_cpuset_text(&r->bind.memory, memory, sizeof memory);
    pd_info(n->log, "%s: CPUs %s%s%s", role_names[r->role], cpus,
            *memory ? ", memory of NUMA nodes " : "", memory);
    if (r->bind.shared)
        pd_warn(n->log,
                "bind = %s: too few %s for the processes of %d agent(s) on this machine: %s shares "
                "CPUs %s with others",
                bind_names[n->spec->bind], n->spec->bind == BIND_NUMA ? "NUMA nodes" : "cores",
                count, role_names[r->role], cpus);
}

/* If the machine's CPUs can't be read, the processes are not bound. */
static void deal_cpus(struct ag_node *n, const struct hd_bind *b) {
    struct pd_cpuset may;
    struct pd_cpus cpus;
    struct pd_err err = {0};
    struct bind_set sets[N_ROLES];
    unsigned weight[N_ROLES];
    enum bind_how how = n->spec->bind;
    const int64_t runs[N_ROLES] = {[ROLE_PSERVER] = b->pserver, [ROLE_TRAINER] = b->trainer};
    int count = b->machine_count ? (int)b->machine_count : 1, k = 0;
    int index = b->machine_index < count ? (int)b->machine_index : 0;
    for (int r = 0; r < N_ROLES; r++)
        n->role[r].bind.on = 0;
    if (how == BIND_NONE)
        return;
    if (pd_cpuset_mine(&may) || pd_cpus_read(&cpus, PD_SYS_DEVICES, &may, &err)) {
        if (how != BIND_AUTO)
            pd_warn(n->log, "bind = %s has no effect: %s", bind_names[how],
                    err.code ? err.msg : "the CPUs are not known");
        return;
    }
    int mine = bind_agent_cpus(&cpus, how, index, count);
    for (int r = 0; r < N_ROLES; r++)
        if (runs[r])
            weight[k++] = threads_of(n, (enum role)r, mine);
    if (k)
        bind_deal(&cpus, how, index, count, weight, k, sets);
    k = 0;
    for (int r = 0; r < N_ROLES; r++)
        if (runs[r]) {
            n->role[r].bind = sets[k++];
            log_cpus(n, &n->role[r], count);
        }
    pd_cpus_release(&cpus);
}

/* --- ports --- */

static int is_own_address(const char *ip) {
    int port, fd = net_bind_first_free(ip, 0, 1, &port, NULL);
    pd_close(fd);
    return fd >= 0;
}

/* The port of a user's program must be free on every address, because the program may listen on all
 * of them. */
static int bind_ports(struct ag_node *n, struct node_role *r, unsigned want, int *from,
                      struct pd_err *err) {
    int users = *n->spec->command[r->role] || r->role == ROLE_TRAINER;
    while (r->n_fds < want) {
        int port, fd;
        fd = ports_bind(users ? net_any_ip() : n->bind_ip, *from, &port,
                        users ? &r->claims[r->n_claims] : NULL, err);
        if (fd < 0) {
            node_close_sockets(r);
            node_drop_claims(r); /* the head may ask again */
            return fd;
        }
        r->n_claims += (unsigned)users;
        r->ports[r->n_fds] = port;
        r->fds[r->n_fds++] = fd;
        *from = *from ? port + 1 : 0;
    }
    return 0;
}

/* Where a node begins to look for ports. If many agents share the machine, each begins elsewhere,
 * after the ports of the agents: if all tried the same ones, the time for it would be quadratic. */
static int first_port(const struct ag_node *n, const struct hd_bind *b) {
    enum { MANY = 16 };
    const struct job_spec *s = &n->spec->job;
    const int64_t own = s->ports_num + s->ports_num_for_sparse,
                  from = s->port + own + b->machine_count + b->machine_index * (own + 1);
    return s->port && b->machine_count >= MANY && from < 60000 ? (int)from : (int)s->port;
}

static int do_bind(struct ag_node *n, const struct hd_bind *b, struct pd_err *err) {
    int from = first_port(n, b), rc = 0;
    snprintf(n->addr, sizeof n->addr, "%s", *b->addr ? b->addr : "127.0.0.1");
    snprintf(n->bind_ip, sizeof n->bind_ip, "%s", is_own_address(b->addr) ? b->addr : net_any_ip());
    if (b->pserver)
        rc = bind_ports(n, &n->role[ROLE_PSERVER],
                        (unsigned)(n->spec->job.ports_num + n->spec->job.ports_num_for_sparse),
                        &from, err);
    if (!rc && b->trainer)
        rc = bind_ports(n, &n->role[ROLE_TRAINER], 1, &from, err);
    if (!rc)
        deal_cpus(n, b);
    n->bound = !rc;
    return rc;
}

void node_on_bind(struct ag_node *n, uint64_t req, const json_t *body) {
    struct pd_err err = {0};
    struct hd_bind b;
    if (wire_get(&wire_hd_bind, &b, body, &err) || (!n->bound && do_bind(n, &b, &err))) {
        n->io.refuse(n->arg, WIRE_HD_BIND, req, &err);
        return;
    }
    const struct hd_bind_answer a = {
        .pserver_port = b.pserver ? n->role[ROLE_PSERVER].ports[0] : 0,
        .trainer_port = n->role[ROLE_TRAINER].ports[0],
    };
    n->io.send(n->arg, WIRE_HD_BIND, req, wire_put(&wire_hd_bind_answer, &a));
}
