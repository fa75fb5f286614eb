/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_sim_claims.c - who keeps an attached job, on a simulated clock and network: two
 * `paddlectl attach` look on while the owner is killed, stands still or is cut off
 * (tests/sim/sim.h).
 *
 *     run ─── owns ──── fault          ┐
 *     attach ──── looks on ──── claims ├─ one keeps the job; later the keeper is killed, too
 *     attach ──── looks on ──── claims ┘ */
#include "launcher/job/job_internal.h"
#include "tests/sim/sim.h"

enum { TURN_MS = 100 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SCHEDULES = 300 };
#else
enum { SCHEDULES = 2000 };
#endif

static struct {
    struct pd_options opts[SIM_ONLOOKERS];
    struct actor *actor[SIM_MACHINES];
    int quiet; /* quiet: no byte is lost, so nothing comes late */
    int hurt;  /* the first owner may have been silent */
} T;
static int n_changes; /* owners after the first one */

static uint64_t lease_ms(void) { return (uint64_t)(S.plan.attach_lease * 1000); }

/* --- the owners --- */

static struct actor *actor_of(int machine) {
    return machine == SIM_LAUNCHER ? S.launcher : T.actor[machine];
}

static int lives(int machine) {
    const struct actor *a = actor_of(machine);
    return a && a->alive && !a->dead && S.jobs[machine];
}

static int keeps(int machine) {
    return lives(machine) && S.jobs[machine]->owns && S.jobs[machine]->phase == JOB_FOLLOW;
}

/* The owner knows that no agent can have taken another owner: less than half a lease has passed
 * since it asked each of them. */
static int is_sure(int machine) {
    const struct job *j = S.jobs[machine];
    for (int i = 0; i < j->n_nodes; i++)
        if (S.now / MS - S.ours_ms[machine][i] >= lease_ms() / 2)
            return 0;
    return 1;
}

static int keeper(void) {
    for (int m = SIM_LAUNCHER; m < SIM_MACHINES; m++)
        if (keeps(m))
            return m;
    return -1;
}

static void on_pinged(void) {
    int n = 0;
    for (int m = SIM_LAUNCHER; m < SIM_MACHINES; m++) {
        n += keeps(m) && is_sure(m);
        if (T.quiet && m > SIM_LAUNCHER && keeps(m) && !T.hurt)
            sim_fail("paddlectl %d has claimed the job of an owner that lives", m);
    }
    if (n > 1)
        sim_fail("%d paddlectls keep the job at the same time", n);
}

static int trains(void) {
    const struct job *j = S.jobs[SIM_LAUNCHER];
    return j && lives(SIM_LAUNCHER) && j->phase == JOB_FOLLOW &&
           pd_starts_with(j->state, "trainers");
}

/* Some time after a fault: exactly one of those that live keeps the job. */
static void check_one(void *arg) {
    int n = 0, n_alive = 0;
    (void)arg;
    for (int m = SIM_LAUNCHER; m < SIM_MACHINES; m++) {
        const int is_there =
            lives(m) && actor_of(m)->stopped <= S.now && S.jobs[m]->phase == JOB_FOLLOW;
        n_alive += is_there;
        n += is_there && keeps(m);
    }
    if (T.quiet && n_alive && n != 1 && sim_proc_running(-1))
        sim_fail("%d of %d paddlectls keep the job", n, n_alive);
    n_changes += keeper() > SIM_LAUNCHER;
}
static void check_after(uint64_t ms) { sim_after(NULL, ms * MS, check_one, NULL); }

/* --- the faults --- */

/* The next keeper is killed, too. */
static void kill_keeper(void *arg) {
    const int m = keeper();
    (void)arg;
    if (m < 0)
        return;
    T.hurt = 1;
    sim_kill_actor(actor_of(m), sim_chance(30));
    check_after(3 * lease_ms() + 500);
}

static void heal(void *arg) {
    (void)arg;
    sim_trace("the owner reaches all nodes again");
    for (int i = 0; i < S.plan.n; i++) {
        sim_cut(SIM_LAUNCHER, i, -1);
        sim_cut(i, SIM_LAUNCHER, -1);
    }
}

static void hurt_owner(void *arg) {
    const uint64_t L = lease_ms();
    uint64_t ms = sim_chance(50) ? sim_between(L / 4, L) : sim_between(L / 2, 3 * L);
    (void)arg;
    if (!trains())
        return;
    T.hurt = 1;
    if (sim_chance(60)) {
        sim_kill_actor(S.launcher, sim_chance(30));
        ms = 0;
    } else if (sim_chance(60)) {
        sim_trace("fault: the owner stands still for %.3f s", (double)ms / 1000);
        S.launcher->stopped = S.now + ms * MS;
    } else {
        sim_trace("fault: the owner is cut off for %.3f s", (double)ms / 1000);
        for (int i = 0; i < S.plan.n; i++) {
            sim_cut(SIM_LAUNCHER, i, 1);
            sim_cut(i, SIM_LAUNCHER, 1);
        }
        sim_after(NULL, ms * MS, heal, NULL);
    }
    check_after(ms + 3 * L + 500);
    if (sim_chance(50))
        sim_after(NULL, (ms + 3 * L + 600 + sim_below(2 * L)) * MS, kill_keeper, NULL);
}

/* --- paddlectl attach --- */

/* The rest of job_attach, from the moment when all hosts are found. */
static void attach(void *arg) {
    struct pd_options *o = arg;
    static const struct job_flags flags;
    const int machine = S.here->machine;
    struct job *j;
    struct pd_err err = {0};
    if (!lives(SIM_LAUNCHER) || job_new(&j, o, &flags, 0, &err))
        return;
    j->joined = 1;
    job_owner_begin(j);
    snprintf(j->id, sizeof j->id, "%s", S.jobs[SIM_LAUNCHER]->id);
    j->c.env.job = j->id;
    job_loop(j, JOB_JOIN);
    S.jobs[machine] = NULL;
    job_free(j);
}

static void on_turn(void *arg) {
    (void)arg;
    if (!trains()) {
        if (S.launcher->alive)
            sim_after(NULL, TURN_MS * MS, on_turn, NULL);
        return;
    }
    uint64_t last = 0;
    for (int i = 0; i < SIM_ONLOOKERS; i++) {
        const uint64_t at = sim_chance(30) ? last : sim_below(3000);
        last = at > last ? at : last;
        T.actor[SIM_LAUNCHER + 1 + i] =
            sim_actor(SIM_LAUNCHER + 1 + i, i ? "attach 2" : "attach 1");
        sim_after(T.actor[SIM_LAUNCHER + 1 + i], at * MS, attach, &T.opts[i]);
    }
    sim_after(NULL, (last + 1000 + sim_below(2 * lease_ms())) * MS, hurt_owner, NULL);
}

/* --- a schedule --- */

static void plan(void) {
    static const double leases[] = {1, 2, 3, 5};
    struct sim_plan *p = &S.plan;
    p->n = (int)sim_between(1, SIM_NODES);
    p->n_pservers = p->n_trainers = 1; /* agents matter here, not processes */
    snprintf(p->pservers, sizeof p->pservers, "1");
    snprintf(p->trainers, sizeof p->trainers, "1");
    p->restart = sim_chance(50);
    p->max_restarts = 2;
    p->attach_lease = leases[sim_below(4)];
    p->detach_lease = 60;
    p->heartbeat = 30;
    p->work_ms = 14 * lease_ms() + 10000;
    for (int i = 0; i < SIM_MACHINES; i++)
        for (int k = 0; k < SIM_MACHINES; k++)
            S.delay_ns[i][k] = i == k ? 20000 : sim_between(50, 20000) * 1000;
    T.quiet = sim_chance(70);
    S.loss = T.quiet ? 0 : (int)sim_between(1, 60);
}

static void run(void) {
    struct pd_err err = {0};
    memset(&T, 0, sizeof T);
    n_changes = 0;
    plan();
    S.on_pinged = on_pinged;
    for (int i = 0; i < SIM_ONLOOKERS; i++)
        if (pd_options_init(&T.opts[i], &err))
            sim_fail("%s", err.msg);
        else
            sim_describe(&T.opts[i]);
    sim_after(NULL, TURN_MS * MS, on_turn, NULL);
    sim_run_job();
    sim_run_rest();
    sim_check_processes();
    const char *status = json_string_value(json_object_get(S.m[0].result, "status"));
    if (T.quiet && (!status || strcmp(status, "done")))
        sim_fail("the job is %s, although a paddlectl was left to keep it",
                 status ? status : "lost");
    for (int i = 0; i < SIM_ONLOOKERS; i++)
        pd_options_release(&T.opts[i]);
}

int main(int argc, char **argv) {
    static const struct sim_test test = {run, SCHEDULES, &n_changes,
                                         "times another paddlectl kept the job"};
    return sim_main(argc, argv, &test);
}
