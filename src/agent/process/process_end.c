/* SPDX-License-Identifier: Apache-2.0 */
/* process_end.c - node_end: sends TERM to every descendant of the agent, and KILL after the grace
 * period, until no process is left. A stop spares the pserver at first. The agent is a sub-reaper:
 * it has no descendants exactly when it has no child. That holds even if the processes created
 * sessions or process groups. */
#include <sys/wait.h>

#include "agent/process/node_internal.h"
#include "agent/process/process_tree.h"

enum { TURN_MS = 20, PIPE_MS = 1000, HEAD_MS = 200, SERVER_MS = 300 };

#define NS_PER_MS UINT64_C(1000000)

static int any_child(void) {
    siginfo_t si;
    return !(waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD);
}

/* Without processes the pipes are at their end. If a process outside the tree holds a pipe, the
 * wait for its end is limited. */
static int all_reported(const struct ag_node *n) {
    int late = pd_mono_ns() > n->kill_at_ns + PIPE_MS * NS_PER_MS;
    for (int i = 0; i < N_ROLES; i++) {
        const struct node_role *r = &n->role[i];
        if (r->started && (!r->exit_body || !(late || proc_drained(r->proc))))
            return 0;
    }
    return 1;
}

static pid_t server_pid(const struct ag_node *n) {
    const struct node_role *r = &n->role[ROLE_PSERVER];
    return r->proc ? proc_pid(r->proc) : 0;
}

static void tell_to_end(const struct ag_node *n) {
    const pid_t spare = n->servers_stay ? server_pid(n) : 0;
    process_tree_signal_below(getpid(), spare, SIGTERM);
    process_tree_signal_below(getpid(), spare, SIGCONT); /* a stopped process does not see TERM */
}

/* Ends the pserver too: no trainer is left, or the trainers' time is over. */
static void let_server_go(struct ag_node *n, unsigned least_ms) {
    const uint64_t least = pd_mono_ns() + least_ms * NS_PER_MS;
    n->servers_stay = 0;
    if (n->kill_at_ns < least)
        n->kill_at_ns = least;
    tell_to_end(n);
}

static void on_turn(uv_timer_t *t) {
    struct ag_node *n = t->data;
    const uint64_t now = pd_mono_ns();
    if (any_child() && now >= n->kill_at_ns)
        process_tree_signal_below(getpid(), n->servers_stay ? server_pid(n) : 0, SIGKILL);
    if (n->servers_stay &&
        now >= n->kill_at_ns + HEAD_MS * NS_PER_MS) /* the head can't be reached, or is late */
        let_server_go(n, SERVER_MS);
    process_end_check(n);
}

/* After the final end the log streams are complete. Before a restart they stay open, and the
 * processes are forgotten. */
static void complete(struct ag_node *n) {
    if (n->for_restart) {
        n->ending = n->for_restart = 0;
        node_forget_processes(n);
        return;
    }
    for (int i = 0; i < N_LOG_STREAMS; i++)
        n->logs->f[i].complete = 1;
    n->io.log_grew(n->arg);
}

void process_end_check(struct ag_node *n) {
    if (!n->ending || !uv_is_active((uv_handle_t *)&n->end_timer) || any_child() ||
        !all_reported(n))
        return;
    int only_restarts = n->for_restart;
    struct end_waiter **at = &n->waiters;
    uv_timer_stop(&n->end_timer);
    complete(n);
    while (*at) {
        struct end_waiter *w = *at;
        if (only_restarts && !w->for_restart) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->done(w->arg); /* from here on w is the caller's again */
    }
}

static void add_waiter(struct ag_node *n, int for_restart, struct end_waiter *w) {
    w->for_restart = for_restart;
    w->next = n->waiters;
    n->waiters = w;
}

/* If an end is in progress, the shorter grace period counts. */
static void begin_end(struct ag_node *n, unsigned grace_ms, int for_restart, int servers_stay) {
    uint64_t kill_at = pd_mono_ns() + grace_ms * NS_PER_MS;
    if (!n->ending || kill_at < n->kill_at_ns)
        n->kill_at_ns = kill_at;
    n->for_restart = for_restart && (!n->ending || n->for_restart);
    if (!n->ending) {
        n->ending = 1;
        n->servers_stay = servers_stay;
        for (int i = 0; i < N_ROLES; i++)
            port_ready_stop(&n->role[i]);
        tell_to_end(n);
    }
    uv_timer_start(&n->end_timer, on_turn, any_child() ? TURN_MS : 0, TURN_MS);
}

static void end_all(struct ag_node *n, unsigned grace_ms, int for_restart) {
    begin_end(n, grace_ms, for_restart, 0);
    if (n->servers_stay)
        let_server_go(n, grace_ms ? SERVER_MS : 0);
}

/* Without a grace period, a pserver or trainers, the order does not matter. */
static void end_trainers_first(struct ag_node *n, unsigned grace_ms) {
    const pid_t server = server_pid(n);
    if (!grace_ms || !server || !n->spec->roles.n[ROLE_TRAINER]) {
        end_all(n, grace_ms, 0);
        return;
    }
    if (!*n->spec->command[ROLE_PSERVER])
        /* not reaped yet, so the pid is still this process's */
        kill(server, SIGUSR1);
    begin_end(n, grace_ms, 0, 1);
}

void node_end(struct ag_node *n, enum node_end kind, unsigned grace_ms, struct end_waiter *w) {
    if (w)
        add_waiter(n, kind == NODE_RESTART, w);
    if (kind == NODE_STOP)
        end_trainers_first(n, grace_ms);
    else
        end_all(n, grace_ms, kind == NODE_RESTART);
}

void node_when_ended(struct ag_node *n, struct end_waiter *w) {
    add_waiter(n, 0, w);
    if (n->ending && !uv_is_active((uv_handle_t *)&n->end_timer)) /* the end is complete already */
        uv_timer_start(&n->end_timer, on_turn, 0, TURN_MS);
}
