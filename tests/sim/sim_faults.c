/* SPDX-License-Identifier: Apache-2.0 */
/* sim_faults.c - what a seed decides: the job, the network, and which faults come when. */

#include "agent/core/roles.h"
#include "tests/sim/sim.h"

/* --- the job --- */

static void plan_roles(struct sim_plan *p) {
    p->n_trainers = sim_chance(60) ? p->n : (int)sim_between(1, (uint64_t)p->n);
    p->n_pservers = sim_chance(40) ? p->n : (int)sim_between(1, (uint64_t)p->n);
    snprintf(p->pservers, sizeof p->pservers, "%d", p->n_pservers);
    if (sim_chance(30)) /* the last nodes */
        snprintf(p->trainers, sizeof p->trainers, "nodes %d-%d", p->n - p->n_trainers, p->n - 1);
    else
        snprintf(p->trainers, sizeof p->trainers, "%d", p->n_trainers);
}

static void plan_job(struct sim_plan *p) {
    static const double attach[] = {1, 2, 5, 5, 8}, detach[] = {2, 5, 10, 30, 60};
    p->n = (int)(sim_chance(10) ? 1 : sim_between(2, SIM_NODES));
    plan_roles(p);
    p->users[ROLE_PSERVER] = sim_chance(20);
    p->users[ROLE_TRAINER] = sim_chance(25);
    p->restart = sim_chance(60);
    p->max_restarts = (int)sim_between(1, 3);
    p->detach = sim_chance(15);
    p->save_on_stop = sim_chance(20);
    p->hangup_detach = sim_chance(30);
    p->wait_for_trainer = sim_chance(30);
    p->attach_lease = attach[sim_below(5)];
    p->detach_lease = detach[sim_below(5)];
    p->heartbeat = (double)sim_between(2, 10);
    p->work_ms = sim_between(300, 12000);
    if (sim_chance(20)) { /* a detached job that can choose a head */
        p->n = (int)sim_between(3, SIM_NODES);
        p->restart = p->detach = 1;
        p->max_restarts = (int)sim_between(2, 4);
        p->work_ms = sim_between(5000, 60000);
        plan_roles(p);
    }
}

static void plan_network(void) {
    for (int i = 0; i <= SIM_LAUNCHER; i++) {
        S.m[i].clock_us = (int64_t)sim_below(4000000) - 2000000;
        for (int k = 0; k <= SIM_LAUNCHER; k++)
            S.delay_ns[i][k] = i == k ? 20000 : sim_between(50, 20000) * 1000;
    }
    S.loss = sim_chance(30) ? (int)sim_below(80) : 0;
    for (int i = 0; S.loss && i < S.plan.n; i++) /* enough for a short lease */
        sim_cause(i, -1, i);
}

/* --- faults --- */

void sim_cause(int node, int role, int rank) {
    if (S.n_causes < (int)(sizeof S.causes / sizeof S.causes[0]))
        S.causes[S.n_causes++] = (struct cause){node, role, rank, S.now};
}

/* Faults of a node's agent or connection. Without node 0, all nodes are lost. */
static void node_cause(int node) {
    for (int i = 0; i < S.plan.n; i++)
        if (i == node || !node)
            sim_cause(i, -1, i);
}

static int any_node(void) { return (int)sim_below((uint64_t)S.plan.n); }
static void lasts(uint64_t ms) {
    S.fault_ends = S.now + ms * MS > S.fault_ends ? S.now + ms * MS : S.fault_ends;
}

static void kill_process(void) { sim_proc_harm(HARM_KILL); }
static void crash_process(void) { sim_proc_harm(HARM_SEGV); }
static void fail_process(void) { sim_proc_harm(HARM_EXIT1); }
static void fail_for_good(void) { sim_proc_harm(HARM_FINAL); }
static void end_early(void) { sim_proc_harm(HARM_EXIT0); }
static void stop_process(void) { sim_proc_harm(HARM_STOP); }
static void deafen_process(void) { sim_proc_harm(HARM_DEAF); }

/* The node leaves the job. Another node takes the head's part if the job trains: paddlectl chooses
 * it, or a majority of the nodes. */
static void lose_node(int node) {
    const int is_detached = S.plan.detach || S.left;
    const int goes_on =
        sim_proc_trains() && (node || (S.plan.n > (is_detached ? 2 : 1) &&
                                       !(S.plan.detach && S.launcher->alive))); /* it starts */
    const int first = !S.n_fatal++;
    S.is_final |= !goes_on;
    if (first && (node || (goes_on && S.plan.restart)))
        sim_cause(node, -1, node);
    else
        node_cause(0); /* without a head, all nodes are lost */
}

static void hit_node(int node, int power) {
    struct machine *m = &S.m[node];
    lose_node(node);
    if (power)
        m->down = 1;
    if (m->agent)
        sim_kill_actor(m->agent, power);
}
static void kill_agent(void) { hit_node(any_node(), 0); }

static void end_agent(void) { /* its machine is being shut down, say */
    const int node = any_node();
    lose_node(node);
    S.is_soft = 1;
    if (S.m[node].agent)
        sim_signal(S.m[node].agent, SIGTERM);
}

static void power_on(void *arg) {
    ((struct machine *)arg)->down = 0;
    sim_trace("a machine has power again");
}
static void cut_power_of(int node) {
    const uint64_t ms = sim_between(2000, 60000);
    hit_node(node, 1);
    sim_after(NULL, ms * MS, power_on, &S.m[node]);
    lasts(ms);
}
static void cut_power(void) { cut_power_of(any_node()); }
static void kill_head(void) {
    if (S.m[S.head].agent && sim_chance(50))
        cut_power_of(S.head);
    else if (S.m[S.head].agent)
        hit_node(S.head, 0);
}

/* A lease may end during a cut, or during attempts to connect again after it. */
static void note_cut(uint64_t ms) {
    const struct sim_plan *p = &S.plan;
    const double lease = p->attach_lease < p->detach_lease ? p->attach_lease : p->detach_lease;
    S.n_cut += (double)ms > lease * 200;
}

/* Cuts last for some time. */
struct cut {
    int from, to;
};
static void on_healed(void *arg) {
    const struct cut *c = arg;
    sim_trace("the way from %d to %d is whole again", c->from, c->to);
    sim_cut(c->from, c->to, -1);
}
static void cut(int from, int to, uint64_t ms) {
    static struct cut cuts[SIM_MACHINES][SIM_MACHINES];
    cuts[from][to] = (struct cut){from, to};
    sim_trace("fault: the way from %d to %d is cut for %.3f s", from, to, (double)ms / 1000);
    sim_cut(from, to, 1);
    sim_after(NULL, ms * MS, on_healed, &cuts[from][to]);
    lasts(ms);
}
static uint64_t a_while(void) {
    return sim_chance(50) ? sim_between(10, 3000) : sim_between(1000, 90000);
}

/* After a cut that is longer than the leases, a node has no process left. */
struct isolation {
    int node;
    uint64_t until;
};
static void on_isolated(void *arg) {
    const struct isolation *x = arg;
    const int n = sim_proc_running(x->node);
    if (n && S.m[x->node].agent && !S.was_stopped)
        sim_fail("node %d was cut off for longer than its lease, and runs %d processes", x->node,
                 n);
}
static void isolate(int node) {
    static struct isolation x[SIM_NODES];
    const uint64_t ms = a_while();
    const double lease = !S.plan.detach && !S.left ? S.plan.attach_lease : S.plan.detach_lease;
    for (int i = 0; i <= SIM_LAUNCHER; i++)
        if (i != node) {
            cut(node, i, ms);
            cut(i, node, ms);
        }
    node_cause(node);
    x[node] = (struct isolation){node, S.now + ms * MS};
    if ((double)ms > lease * 1000 + 2500 && (node || !S.plan.detach))
        sim_after(NULL, ms * MS - 1, on_isolated, &x[node]);
    note_cut(ms);
    sim_proc_network(node);
}
static void isolate_any(void) { isolate(any_node()); }
static void isolate_head(void) { isolate(S.head); }

/* Two groups of nodes, and perhaps paddlectl is with one of them. */
static void split(void) {
    const uint64_t ms = a_while();
    const uint64_t with = sim_below(UINT64_C(1) << (S.plan.n + 1));
    const int one_way = sim_chance(25);
    for (int i = 0; i <= S.plan.n; i++) {
        const int a = i == S.plan.n ? SIM_LAUNCHER : i;
        if (i < S.plan.n)
            sim_cause(i, -1, i);
        for (int k = 0; k <= S.plan.n; k++)
            if ((with >> i & 1) && !(with >> k & 1)) {
                const int b = k == S.plan.n ? SIM_LAUNCHER : k;
                cut(a, b, ms);
                if (!one_way)
                    cut(b, a, ms);
            }
    }
    note_cut(ms);
}
static void cut_pair(int a, int b) {
    const uint64_t ms = a_while();
    const int how = (int)sim_below(4);
    if (how != 0)
        cut(a, b, ms);
    if (how != 1)
        cut(b, a, ms);
    note_cut(ms);
}
static void cut_head(void) {
    const int node = any_node();
    if (!node)
        return;
    sim_cause(0, -1, 0);
    sim_cause(node, -1, node);
    cut_pair(0, node);
    sim_proc_network(node);
}
static void cut_peers(void) {
    const int a = any_node(), b = any_node();
    if (a == b)
        return;
    sim_cause(a, -1, a);
    sim_cause(b, -1, b);
    cut_pair(a, b);
    sim_proc_network(a);
}
static void cut_launcher(void) {
    const int node = any_node();
    sim_cause(node, -1, node);
    cut_pair(SIM_LAUNCHER, node);
}
static void cut_launcher_off(void) {
    const uint64_t ms = a_while();
    for (int i = 0; i < S.plan.n; i++) {
        sim_cause(i, -1, i);
        cut(SIM_LAUNCHER, i, ms);
        cut(i, SIM_LAUNCHER, ms);
    }
    note_cut(ms);
}

static void reset_peer(void) {
    const int node = any_node();
    if (node) {
        sim_trace("fault: the connection of node %d to node 0 is reset", node);
        sim_net_reset_one(0, node);
    }
}
static void reset_launcher(void) {
    const int node = any_node();
    sim_trace("fault: paddlectl's connection to node %d is reset", node);
    sim_net_reset_one(SIM_LAUNCHER, node);
}
static void slow_down(void) {
    const int a = (int)sim_below(SIM_LAUNCHER + 1), b = any_node();
    const uint64_t ms = a_while();
    sim_cause(a, -1, a);
    sim_cause(b, -1, b);
    S.slow_until[a][b] = S.slow_until[b][a] = S.now + ms * MS;
    lasts(ms);
    note_cut(ms);
}

static void stop_actor(struct actor *a) {
    const uint64_t ms = sim_between(20, 15000);
    if (!a || a->dead || a->stopped > S.now)
        return;
    sim_trace("fault: %s is stopped for %.3f s", a->name, (double)ms / 1000);
    a->stopped = S.now + ms * MS;
    S.was_stopped += ms;
    note_cut(ms);
    lasts(ms);
}
static void stop_agent(void) {
    const int node = any_node();
    node_cause(node);
    stop_actor(S.m[node].agent);
}
static void stop_paddlectl(void) {
    for (int i = 0; i < S.plan.n; i++)
        sim_cause(i, -1, i);
    stop_actor(S.launcher);
}
static void jump_clock(void) {
    S.m[sim_below(SIM_LAUNCHER + 1)].clock_us += (int64_t)sim_below(20000000) - 10000000;
}
static void no_exec(void) {
    const int node = any_node();
    sim_cause(node, -1, node);
    S.is_final = 1;
    S.m[node].no_exec = 1;
}
static void no_port(void) {
    const int node = any_node();
    sim_cause(node, -1, node);
    S.is_final = 1;
    S.m[node].no_bind = 1;
}

static void on_second(void *arg) {
    (void)arg;
    if (!S.launcher->alive || S.launcher->dead)
        return;
    S.stop_again_at = S.now;
    sim_trace("fault: a second Ctrl-C");
    sim_signal(S.launcher, SIGINT);
}
static void stop_job(int sig) {
    if (!S.launcher->alive || S.launcher->dead)
        return;
    if (!S.stop_at)
        S.stop_at = S.now;
    else
        S.stop_again_at = S.now;
    S.stop_signal = sig;
    sim_trace("fault: paddlectl gets signal %d", sig);
    sim_signal(S.launcher, sig);
    if (sim_chance(30))
        sim_after(NULL, sim_between(10, 3000) * MS, on_second, NULL);
}
static void ctrl_c(void) { stop_job(SIGINT); }
static void terminate(void) { stop_job(SIGTERM); }
static void hang_up(void) {
    if (S.plan.hangup_detach) {
        S.left = 1;
        sim_trace("fault: the terminal is closed");
        sim_signal(S.launcher, SIGHUP);
    } else {
        stop_job(SIGHUP);
    }
}
static void kill_paddlectl(void) {
    for (int i = 0; i < S.plan.n; i++)
        sim_cause(i, -1, i);
    if (!S.launcher->dead && S.launcher->alive)
        sim_kill_actor(S.launcher, sim_chance(30));
}

static const struct {
    const char *name;
    int weight;
    void (*happen)(void);
} faults[] = {
    {"a process is killed", 10, kill_process},
    {"a process crashes", 5, crash_process},
    {"a process fails", 8, fail_process},
    {"a process fails, and would fail again", 3, fail_for_good},
    {"a pserver ends too early", 2, end_early},
    {"a process is stopped", 5, stop_process},
    {"a process ignores TERM", 4, deafen_process},
    {"an agent is killed", 6, kill_agent},
    {"the head's agent is killed, or its machine", 6, kill_head},
    {"an agent gets TERM", 4, end_agent},
    {"a machine loses power", 4, cut_power},
    {"a node is cut off", 8, isolate_any},
    {"the head is cut off", 5, isolate_head},
    {"a node and node 0 do not reach each other", 8, cut_head},
    {"two nodes do not reach each other", 4, cut_peers},
    {"a split of the network", 5, split},
    {"paddlectl and a node do not reach each other", 6, cut_launcher},
    {"paddlectl reaches no node", 4, cut_launcher_off},
    {"a connection to node 0 is reset", 8, reset_peer},
    {"a connection of paddlectl is reset", 8, reset_launcher},
    {"a way is slow", 4, slow_down},
    {"an agent is stopped", 4, stop_agent},
    {"paddlectl is stopped", 3, stop_paddlectl},
    {"a clock jumps", 3, jump_clock},
    {"a program cannot be started", 2, no_exec},
    {"no port is free", 2, no_port},
    {"Ctrl-C", 6, ctrl_c},
    {"TERM", 2, terminate},
    {"the terminal is closed", 3, hang_up},
    {"paddlectl is killed", 3, kill_paddlectl},
};
enum { N_FAULTS = sizeof faults / sizeof faults[0] };

static void on_fault(void *arg) {
    const int i = (int)(intptr_t)arg;
    sim_trace("fault: %s", faults[i].name);
    lasts(0);
    S.faults_seen |= UINT64_C(1) << i;
    faults[i].happen();
}

static int any_fault(void) {
    int sum = 0, at;
    for (int i = 0; i < N_FAULTS; i++)
        sum += faults[i].weight;
    at = (int)sim_below((uint64_t)sum);
    for (int i = 0;; i++)
        if ((at -= faults[i].weight) < 0)
            return i;
}

void sim_faults_plan(void) {
    static const int counts[] = {0, 1, 1, 1, 1, 2, 2, 2, 3, 5};
    plan_job(&S.plan);
    plan_network();
    S.n_faults = counts[sim_below(10)];
    const uint64_t longest = S.plan.work_ms + 4000;
    uint64_t at = sim_chance(75) ? sim_between(1000, longest) : sim_below(longest);
    for (int i = 0; i < S.n_faults; i++) {
        sim_after(NULL, at * MS, on_fault, (void *)(intptr_t)any_fault());
        at = sim_chance(40) ? at + sim_below(2000) : sim_below(longest); /* two at once, often */
    }
}
