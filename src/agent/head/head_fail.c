/* SPDX-License-Identifier: Apache-2.0 */
/* head_fail.c - finds the first failure, and decides whether the job is restarted after it. Most
 * failures are consequences of the first one: a trainer lost its pserver, or a pserver its
 * trainers. Such failures are counted and not reported. */
#include "agent/core/msg.h"
#include "agent/core/result.h"
#include "agent/head/head_internal.h"

const char *head_host(const struct ag_head *h, int node) {
    const char *s =
        json_string_value(json_object_get(json_array_get(h->peers, (size_t)node), "name"));
    return s ? s : "";
}

/* The node of the process that hd_exited.from names, like "trainer 2 on 10.0.0.3"; -1: none. */
static int node_of(const struct ag_head *h, const char *from, int *role, int *rank) {
    char name[WIRE_MAX_ROLE + 1];
    if (sscanf(from, "%15s %d ", name, rank) != 2 || (*role = role_of(name)) < 0 || *rank < 0 ||
        *rank >= h->roles.n[*role])
        return -1;
    return h->roles.nodes[*role][*rank];
}

/* `x` ended because of another process: the failure is that process's, and `x` is its witness. */
static json_t *heard_failure(const struct ag_head *h, int node, const struct hd_exited *x, int role,
                             int rank, int of_node) {
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%.2000s (reported by %s %lld on %.200s, node %d)", x->reason,
             x->role, (long long)x->rank, head_host(h, node), node);
    return wire_put(&wire_failure, &(struct failure){.node = of_node,
                                                     .host = head_host(h, of_node),
                                                     .role = role_names[role],
                                                     .rank = rank,
                                                     .exit_code = -1,
                                                     .reason = reason,
                                                     .heard = 1});
}

void head_note_exit(struct ag_head *h, int node, const struct hd_exited *x) {
    int role, rank;
    const int of_node = node_of(h, x->from, &role, &rank);
    if (of_node >= 0)
        head_note_failure(h, of_node, heard_failure(h, node, x, role, rank, of_node), 0, !x->final);
    else
        head_note_failure(h, node, head_process_failure(h, node, x, ""), x->time, !x->final);
}

json_t *head_process_failure(const struct ag_head *h, int node, const struct hd_exited *x,
                             const char *reason) {
    return wire_put(&wire_failure, &(struct failure){.node = node,
                                                     .host = head_host(h, node),
                                                     .role = x->role,
                                                     .rank = x->rank,
                                                     .exit_code = x->exit_code,
                                                     .signal = x->signal,
                                                     .reason = reason,
                                                     .last_lines = x->last_lines});
}

json_t *head_reason_failure(const struct ag_head *h, int node, const char *reason) {
    return result_reason(node, node < 0 ? "" : head_host(h, node), reason);
}

/* The head wrote the body itself, so an error is impossible. */
static struct failure read_failure(const json_t *failure) {
    struct failure f = {0};
    (void)wire_get(&wire_failure, &f, failure, NULL);
    return f;
}

/* --- restarts --- */

enum { BACKOFF_MAX_MS = 60000, RANK_HEARD = 3 };

uint64_t head_backoff_ms(const struct ag_head *h) {
    uint64_t ms = h->spec->job.restart_ms;
    for (int i = 1; i < h->restarts && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

static size_t name_process(const struct failure *f, char *out, size_t cap) {
    int of_node = !strcmp(f->role, "agent");
    size_t n = (size_t)snprintf(out, cap, of_node ? "%s %d (%.60s)" : "%s %d on %.60s",
                                of_node ? "node" : f->role, (int)f->rank, f->host);
    return n < cap ? n : cap - 1;
}

void head_name_cause(const struct ag_head *h, char *out, size_t cap) {
    const struct failure f = h->failure ? read_failure(h->failure) : (struct failure){0};
    *out = 0;
    if (h->failure)
        name_process(&f, out, cap);
}

/* "trainer 2 on gpu-02: exit status 1", "node 1 (gpu-01): its agent is gone" */
static void describe(const json_t *failure, char *out, size_t cap) {
    const struct failure f = read_failure(failure);
    size_t at = name_process(&f, out, cap);
    at += (size_t)snprintf(out + at, cap - at, ": ");
    if (at >= cap)
        return;
    if (f.signal)
        snprintf(out + at, cap - at, "signal %d (%s)", (int)f.signal, strsignal((int)f.signal));
    else if (*f.reason)
        snprintf(out + at, cap - at, "%.150s", f.reason);
    else
        snprintf(out + at, cap - at, "exit status %d", (int)f.exit_code);
}

/* The states before HEAD_PSERVERS count when they belong to a restart, because another node may be
 * lost then. */
int head_may_restart(const struct ag_head *h) {
    int state = h->state == HEAD_PSERVERS || h->state == HEAD_TRAINERS ||
                ((h->state == HEAD_PROBING || h->state == HEAD_BINDING) && h->restarts);
    return state && !h->stopped && !h->no_retry && h->restarts < h->spec->job.max_restarts;
}

void head_name_restart(struct ag_head *h, const json_t *failure) {
    char why[260];
    describe(failure, why, sizeof why);
    snprintf(h->restart_text, sizeof h->restart_text, "restart %d of %lld after %s%s", h->restarts,
             (long long)h->spec->job.max_restarts, why, h->moves);
    *h->moves = 0;
}

static void forget_failures(struct ag_head *h) {
    json_decref(h->failure);
    json_decref(h->early_exit);
    h->failure = h->early_exit = NULL;
    h->later = h->others = h->witnesses = 0;
    uv_timer_stop(&h->early);
}

void head_restart(struct ag_head *h) {
    h->attempt = ++h->restarts;
    head_name_restart(h, h->failure);
    pd_warn(h->log, "%s (%d more failed after it)", h->restart_text, h->others);
    forget_failures(h);
    head_enter(h, HEAD_RESTARTING);
}

/* 1: only the failed trainer is restarted, and the others wait for it (on_trainer_lost = wait). All
 * processes are restarted if another process failed, too, or if the failed trainer had not
 * completed a step. The same holds for a user's program: the node can end the program's remaining
 * children only together with all its other processes. */
static int one_will_do(const struct ag_head *h) {
    int node = h->failure_node;
    return h->state == HEAD_TRAINERS && !h->others && !h->witnesses && !h->early_exit &&
           node >= 0 && !strcmp(read_failure(h->failure).role, role_names[ROLE_TRAINER]) &&
           h->node[node].joined && h->node[node].exited[ROLE_TRAINER] && h->node[node].trained &&
           !*h->spec->command[ROLE_TRAINER] &&
           !strcmp(msg_str(h->spec->train, "on_trainer_lost"), "wait");
}

static void restart_one(struct ag_head *h) {
    struct head_node *n = &h->node[h->failure_node];
    int node = h->failure_node;
    h->restarts++;
    head_name_restart(h, h->failure);
    pd_warn(h->log, "%s: that trainer alone", h->restart_text);
    forget_failures(h);
    n->alone++;
    n->exited[ROLE_TRAINER] = n->trained = 0;
    head_publish(h, h->restart_text);
    head_ask_again(h, node);
}

static void on_window(uv_timer_t *t) {
    struct ag_head *h = t->data;
    if (head_may_restart(h) && one_will_do(h))
        restart_one(h);
    else if (head_may_restart(h))
        head_restart(h);
    else
        head_close(h);
}

/* --- the first failure --- */

/* The lowest rank is the likeliest cause. 0: a process was killed (out of memory, say) or crashed.
 * 1: an agent reported its own failure. 2: a process exited with a status, or by SIGABRT, as many
 * programs do when they lose a peer. 3: only another process reports the failure. */
static int rank_of(const struct failure *f) {
    if (f->heard)
        return RANK_HEARD;
    switch (f->signal) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
        return 0;
    default:
        break;
    }
    return strcmp(f->role, "agent") ? 2 : 1;
}

static int replaces(const struct ag_head *h, int node, int rank, int64_t time_us) {
    if (rank != h->failure_rank)
        return rank < h->failure_rank;
    int one_clock = node >= 0 && h->failure_node >= 0 && *h->node[node].net_id &&
                    !strcmp(h->node[node].net_id, h->node[h->failure_node].net_id);
    return one_clock && time_us && h->failure_time && time_us < h->failure_time;
}

static const char *last_line(const char *text) {
    const char *at = text + strlen(text);
    while (at > text && at[-1] == '\n')
        at--;
    while (at > text && at[-1] != '\n')
        at--;
    return at;
}

/* Several processes can have the same reason to fail, for example a file that all of them read. */
static int same_cause(const struct failure *a, const struct failure *b) {
    const char *x = last_line(a->last_lines), *y = last_line(b->last_lines);
    return a->node == b->node || (*a->reason && !strcmp(a->reason, b->reason)) ||
           (*x && !strcmp(x, y));
}

void head_note_failure(struct ag_head *h, int node, json_t *failure, int64_t exit_time_us,
                       int retry) {
    if (!failure)
        failure = json_incref(h->unnamed);
    if ((h->stopped && h->state != HEAD_SAVING) || h->state == HEAD_OVER) {
        json_decref(failure);
        return;
    }
    const struct failure f = read_failure(failure),
                         first = h->failure ? read_failure(h->failure) : f;
    const int rank = rank_of(&f), other = h->failure && !same_cause(&first, &f);
    h->no_retry |= !retry;
    h->witnesses += (int)f.heard;
    pd_log_write(h->log, f.heard ? PD_INFO : PD_ERROR, __FILE__, __LINE__,
                 "failure: node %d, %s %lld: exit code %lld, signal %lld %s", node, f.role,
                 (long long)f.rank, (long long)f.exit_code, (long long)f.signal, f.reason);
    if (h->failure && (h->state == HEAD_CLOSING || !replaces(h, node, rank, exit_time_us))) {
        h->later += !f.heard && other;
        h->others += !f.heard;
        json_decref(failure);
        return;
    }
    /* The report of the process that failed may take longer than that of its witness. */
    if (!h->failure || h->failure_rank == RANK_HEARD)
        uv_timer_start(&h->window, on_window, f.heard ? HEARD_WINDOW_MS : FAILURE_WINDOW_MS, 0);
    h->others += h->failure && h->failure_rank != RANK_HEARD;
    h->later += other && h->failure_rank != RANK_HEARD;
    json_decref(h->failure);
    h->failure = failure;
    h->failure_rank = rank;
    h->failure_node = node;
    h->failure_time = exit_time_us;
}
