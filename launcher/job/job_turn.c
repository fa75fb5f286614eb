/* SPDX-License-Identifier: Apache-2.0 */
/* job_turn.c - other jobs on the job's hosts: `run` says whose they are, and with --wait it queues
 * behind them.
 *
 *     JOB_TURN: AG_TURN to every node ──all free──▶ (take the turn everywhere) ──▶ JOB_SETUP
 *        ▲            └── not free ──▶ JOB_QUEUE, a second ──┐
 *        └────────────────────────────────────────────────────┘
 *
 * The turn is taken on all nodes or on none: a node that cannot give it makes the others give it
 * back with the next question. So no job holds a machine while it waits for another one.
 */
#include "launcher/job/job_internal.h"
#include "launcher/text/when.h"
#include "wire/client_bodies.h"

enum { TURN_MS = 30000, OTHERS_MAX = 256 };

/* --- a node --- */

/* The node that looks for other jobs on n's machine: each node by itself, but the first one for all
 * nodes on this machine. A look reads all unix sockets of the machine, so a look of each of a
 * thousand nodes here would take time that grows with the square of their number. */
static const struct job_node *looker(const struct job_node *n) {
    const struct job *j = n->job;
    for (int i = 0; i < n->id && n->host->local; i++)
        if (j->by_id[i]->host->local)
            return j->by_id[i];
    return n;
}

static int on_turn(struct link *l, const struct wire_frame *f, json_t *body,
                   const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    if (n->step != NODE_TURN)
        return 1;
    struct ag_turn_answer a;
    struct pd_err e = {0};
    if (err || wire_get(&wire_ag_turn_answer, &a, body, &e)) {
        node_fail(n, err ? err : &e);
        return 1;
    }
    json_decref(n->others);
    n->others = json_incref(a.others);
    n->has_turn = a.free != 0;
    node_enter(n, NODE_HAS_TURN);
    return 1;
}

void enter_turn(struct job_node *n) {
    struct job *j = n->job;
    json_t *body =
        wire_put(&wire_ag_turn, &(struct ag_turn){.wait = j->flags.wait,
                                                  .take = !j->flags.wait || j->turn.takes,
                                                  .blind = looker(n) != n,
                                                  .order = (int64_t)j->turn.order});
    if (link_request(n->link, WIRE_AG_TURN, body, NULL, 0, TURN_MS,
                     "looking for other jobs on the host", on_turn, n))
        node_fail_memory(n);
}

/* --- the others --- */

struct other {
    const char *job, *user, *cpus;
    int waits, mixed; /* mixed: not everywhere the same CPUs */
    int64_t since_us;
    int n_nodes, last_node;
};

static void add_other(struct other *v, size_t *n, const json_t *row, int node) {
    struct other_job r;
    size_t i = 0;
    if (wire_get(&wire_other_job, &r, row, NULL))
        return;
    while (i < *n && strcmp(v[i].job, r.job))
        i++;
    if (i == OTHERS_MAX)
        return;
    if (i == *n)
        v[(*n)++] = (struct other){r.job, r.user, r.cpus, r.waits != 0, 0, r.since_us, 0, -1};
    v[i].n_nodes += v[i].last_node != node;
    v[i].last_node = node;
    v[i].waits &= r.waits != 0;
    v[i].mixed |= strcmp(v[i].cpus, r.cpus) != 0;
    v[i].since_us = r.since_us < v[i].since_us ? r.since_us : v[i].since_us;
}

static int earliest(const void *a, const void *b) {
    const struct other *x = a, *y = b;
    if (x->waits != y->waits)
        return x->waits - y->waits;
    return x->since_us != y->since_us ? (x->since_us < y->since_us ? -1 : 1)
                                      : strcmp(x->job, y->job);
}

/* "14:02", with the date if that is not today */
static void clock_text(char *out, size_t cap, int64_t us) {
    time_t t = (time_t)(us / 1000000), now = time(NULL);
    struct tm tm, today;
    localtime_r(&t, &tm);
    localtime_r(&now, &today);
    const int same = tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday;
    if (!strftime(out, cap, same ? "%H:%M" : "%Y-%m-%d %H:%M", &tm))
        *out = 0;
}

/* "alice's job JOB... runs on 3 of these hosts since 14:02 (cores 0-3)" */
static void put_other(struct pd_buf *b, const struct job *j, const struct other *o) {
    char since[40], user[80], job[80], cpus[80];
    clock_text(since, sizeof since, o->since_us);
    snprintf(user, sizeof user, "%.64s", o->user);
    snprintf(job, sizeof job, "%.64s", o->job);
    snprintf(cpus, sizeof cpus, "%.60s", o->cpus);
    pd_put_fmt(b, "%s's job %s %s on ", *user ? pd_make_printable(user) : "another user",
               pd_make_printable(job), o->waits ? "waits" : "runs");
    if (j->n_nodes == 1)
        pd_put_fmt(b, "this host");
    else
        pd_put_fmt(b, "%d of these %d hosts", o->n_nodes, j->n_nodes);
    pd_put_fmt(b, " since %s", since);
    if (*cpus && !o->mixed)
        pd_put_fmt(b, " (cores %s)", pd_make_printable(cpus));
}

static size_t collect(const struct job *j, struct other v[OTHERS_MAX]) {
    size_t n = 0, i;
    json_t *row;
    for (int k = 0; k < j->n_nodes; k++)
        json_array_foreach (looker(j->by_id[k])->others, i, row)
            add_other(v, &n, row, k);
    qsort(v, n, sizeof *v, earliest);
    return n;
}

static void tell_others(struct job *j) {
    struct other v[OTHERS_MAX];
    const size_t n = collect(j, v);
    for (size_t i = 0; i < n; i++) {
        struct pd_buf b = {0};
        if (v[i].waits)
            continue;
        put_other(&b, j, &v[i]);
        if (!b.failed)
            watch_print(j, "%.*s", (int)b.len, (char *)b.data);
        pd_buf_release(&b);
    }
}

/* Names the job that this one waits for, when that changes: the first running job, or else the
 * first in the queue. */
static void tell_queue(struct job *j) {
    struct other v[OTHERS_MAX];
    struct pd_buf b = {0};
    const size_t n = collect(j, v);
    if (!n || !strcmp(v[0].job, j->turn.behind))
        return;
    put_other(&b, j, &v[0]);
    if (!b.failed)
        watch_print(j, "waiting for the turn: %.*s", (int)b.len, (char *)b.data);
    pd_buf_release(&b);
    pd_fmt(j->turn.behind, sizeof j->turn.behind, "%.60s", v[0].job);
}

/* --- the phases --- */

static int all_free(const struct job *j) {
    for (int i = 0; i < j->n_nodes; i++)
        if (!j->by_id[i]->has_turn)
            return 0;
    return 1;
}

void job_turn_begin(struct job *j) {
    if (!j->turn.order)
        j->turn.order = pd_wall_us();
    job_move(j, AT(NODE_STOCKED) | AT(NODE_HAS_TURN), NODE_TURN);
}

enum job_phase job_turn_after(struct job *j) {
    char span[40];
    if (job_any(j, LOST))
        return JOB_BYE;
    if (!j->flags.wait) {
        tell_others(j);
        return JOB_SETUP;
    }
    if (!all_free(j)) {
        tell_queue(j);
        j->turn.takes = 0;
        return JOB_QUEUE;
    }
    if (!j->turn.takes) {
        j->turn.takes = 1;
        return JOB_TURN;
    }
    if (*j->turn.behind) {
        when_span(span, sizeof span, pd_wall_us() - j->turn.order);
        watch_print(j, "the hosts are free after %s", span);
    }
    return JOB_SETUP;
}
