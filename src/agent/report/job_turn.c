/* SPDX-License-Identifier: Apache-2.0 */
/* job_turn.c - see job_turn.h.
 *
 * A job that does not wait takes a running ticket and hears of the others. A job that waits takes a
 * waiting ticket first. It may run when no other job runs here and none that waits came before it.
 * It then takes a running ticket and looks again: of two jobs that do this at once, each sees the
 * other, and both give way. The client takes the turn on all machines or on none, so jobs that need
 * the same machines never wait for each other.
 */
#include "agent/report/job_turn.h"

#include "agent/process/process_tree.h"
#include "agent/report/status.h"
#include "thread/cpus.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

enum { CHILDREN_MAX = 8 };

static const struct machine_job *running(const struct machine_job *v, size_t n, const char *job) {
    for (size_t i = 0; i < n; i++)
        if (v[i].kind == MACHINE_RUNS && (!job || !strcmp(v[i].job, job)))
            return &v[i];
    return NULL;
}

/* A job that waits, does not run, and came before `order`. */
static int any_before(const struct machine_job *v, size_t n, uint64_t order, const char *own) {
    for (size_t i = 0; i < n; i++)
        if (v[i].kind == MACHINE_WAITS && !running(v, n, v[i].job) &&
            (v[i].order < order || (v[i].order == order && strcmp(v[i].job, own) < 0)))
            return 1;
    return 0;
}

/* Adds the CPUs that the children of an agent may use. None can be seen: adds none. */
static void add_cpus(pid_t agent, struct pd_cpuset *all) {
    char path[64];
    long child;
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)agent, (int)agent);
    FILE *f = agent ? fopen(path, "re") : NULL;
    while (f && n++ < CHILDREN_MAX && fscanf(f, "%ld", &child) == 1) {
        struct process_tree_usage u;
        struct pd_cpuset its;
        if (child > 0 && !process_tree_usage((pid_t)child, &u) && !pd_cpuset_parse(&its, u.cpus))
            for (int i = 0; i < PD_CPUS_MAX; i++)
                if (pd_cpuset_has(&its, i))
                    pd_cpuset_add(all, i);
    }
    if (f)
        fclose(f);
}

/* A row of each job: its agents here are one. A job that runs no longer waits. */
static json_t *rows(const struct machine_job *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct machine_job *first = running(v, n, v[i].job);
        struct pd_cpuset all = {0};
        char cpus[80];
        for (size_t k = 0; k < i && first != &v[i]; k++)
            if (!strcmp(v[k].job, v[i].job))
                first = &v[k];
        if (first && first != &v[i])
            continue;
        for (size_t k = i; v[i].kind == MACHINE_RUNS && k < n; k++)
            if (v[k].kind == MACHINE_RUNS && !strcmp(v[k].job, v[i].job))
                add_cpus(v[k].pid, &all);
        pd_cpuset_text(&all, cpus, sizeof cpus);
        json_t *user = v[i].uid == (uid_t)-1 ? NULL : status_user_name(v[i].uid);
        json_array_append_new(
            list, wire_put(&wire_other_job, &(struct other_job){.job = v[i].job,
                                                                .user = json_string_value(user),
                                                                .waits = v[i].kind == MACHINE_WAITS,
                                                                .since_us = (int64_t)v[i].order,
                                                                .cpus = cpus}));
        json_decref(user);
    }
    return list;
}

json_t *job_turn_jobs(void) {
    struct machine_job v[MACHINE_JOBS_MAX];
    return rows(v, machine_jobs_list("", v, MACHINE_JOBS_MAX));
}

static void drop(struct machine_ticket **t) {
    machine_ticket_free(*t);
    *t = NULL;
}

void job_turn_release(struct job_turn *t) {
    drop(&t->waits);
    drop(&t->runs);
}

static int take(struct job_turn *t, struct agent_core *core, struct pd_err *err) {
    return t->runs ? 0
                   : machine_ticket_new(&t->runs, &core->loop, MACHINE_RUNS, pd_wall_us(),
                                        core->paths.job, err);
}

static int on_turn(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct job_turn *t = client_context(c, &job_turn_service);
    struct agent_core *core = client_core(c);
    const uint64_t now = pd_wall_us();
    struct ag_turn m;
    struct machine_job v[MACHINE_JOBS_MAX];
    struct pd_err why = {0};
    size_t n;
    if (wire_get(&wire_ag_turn, &m, body, err))
        return err->code;
    const int waits = m.wait != 0, takes = m.take != 0;
    if (waits && !t->waits) {
        /* Only the client's clock decides, also if it is ahead of this machine's: all machines must
         * agree on who came first, or two jobs could wait for each other. */
        t->order = m.order ? (uint64_t)m.order : now;
        if (machine_ticket_new(&t->waits, &core->loop, MACHINE_WAITS, t->order, core->paths.job,
                               &why))
            return pd_err_copy(err, &why);
    }
    if (waits && !takes)
        drop(&t->runs);
    /* Without a ticket the job is not seen by others, which is no reason not to run it. */
    if (takes && take(t, core, &why)) {
        pd_warn(&core->log, "%s", why.msg);
        if (waits)
            return pd_err_copy(err, &why);
    }
    n = m.blind ? 0 : machine_jobs_list(core->paths.job, v, MACHINE_JOBS_MAX);
    const int free_now =
        !waits || (!running(v, n, NULL) && !any_before(v, n, t->order, core->paths.job));
    if (!free_now)
        drop(&t->runs);
    json_t *others = rows(v, n);
    json_t *answer = wire_put(&wire_ag_turn_answer,
                              &(struct ag_turn_answer){.free = free_now, .others = others});
    json_decref(others);
    return client_answer(c, f, answer, err);
}

static const struct client_request requests[] = {
    {WIRE_AG_TURN, 1, 1, on_turn, NULL},
    {0},
};

const struct client_service job_turn_service = {.name = "turn", .requests = requests};
