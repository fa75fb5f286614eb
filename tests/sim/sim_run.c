/* SPDX-License-Identifier: Apache-2.0 */
/* sim_run.c - the programs of the simulation: a schedule for each seed, on all CPUs.
 *
 *     TEST                    the schedules of `make test`; SIM_SCHEDULES=N
 *     TEST --seed=S --trace   one of them again, with all that happens
 *     TEST --from=S --count=N */
#include <getopt.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "launcher/job/job.h"
#include "tests/sim/sim.h"

enum { BATCH = 100, MOST_JOBS = 64 };

/* --- one job --- */

static void set(struct pd_options *o, const char *section, const char *name, const char *value) {
    struct pd_err err = {0};
    if (pd_options_set(o, PD_LAUNCHER, section, name, value, PD_FROM_ARGV, "test", NULL, &err))
        sim_fail("%s", err.msg);
}

static void set_number(struct pd_options *o, const char *section, const char *name, double v) {
    char text[32];
    snprintf(text, sizeof text, "%g", v);
    set(o, section, name, text);
}

void sim_describe(struct pd_options *o) {
    const struct sim_plan *p = &S.plan;
    set(o, "cluster", "pservers", p->pservers);
    set(o, "cluster", "trainers", p->trainers);
    set(o, "job", "job_dispatch_package", "x");
    set(o, "job", "bind", "none");
    set(o, "job", "on_failure", p->restart ? "restart" : "stop");
    set_number(o, "job", "max_restarts", p->max_restarts);
    set_number(o, "job", "attach_lease", p->attach_lease);
    set_number(o, "job", "detach_lease", p->detach_lease);
    set_number(o, "train", "heartbeat_timeout", p->heartbeat);
    set(o, "job", "save_on_stop", p->save_on_stop ? "1" : "0");
    set(o, "job", "on_hangup", p->hangup_detach ? "detach" : "stop");
    set(o, "train", "on_trainer_lost", p->wait_for_trainer ? "wait" : "fail");
    if (p->users[0])
        set(o, "job", "pserver_command", "own");
    if (p->users[1])
        set(o, "job", "trainer_command", "own");
    sim_trace("%d nodes, %s pservers%s, trainers %s%s; restarts %d; leases %g and %g s;%s%s%s%s "
              "%d faults",
              p->n, p->pservers, p->users[0] ? " (own)" : "", p->trainers,
              p->users[1] ? " (own)" : "", p->restart ? p->max_restarts : 0, p->attach_lease,
              p->detach_lease, p->detach ? " detached," : "", p->save_on_stop ? " saves," : "",
              p->hangup_detach ? " detaches," : "", p->wait_for_trainer ? " waits," : "",
              S.n_faults);
}

void sim_run_job(void) {
    struct pd_options o;
    struct pd_err err = {0};
    if (pd_options_init(&o, &err))
        sim_fail("%s", err.msg);
    sim_describe(&o);
    const struct job_flags flags = {.detach = S.plan.detach};
    S.launcher = sim_actor(SIM_LAUNCHER, "paddlectl");
    S.here = S.launcher;
    S.exit_status = job_run(&o, &flags);
    pd_options_release(&o);
    S.here = NULL;
}

void sim_run_rest(void) {
    for (const struct actor *a = S.actors; a;)
        if (!a->alive)
            a = a->next;
        else if (!sim_step()) {
            sim_trace_handles(a);
            sim_fail("%s waits, and nothing will come", a->name);
        } else
            a = S.actors;
}

void sim_check_processes(void) {
    if (S.n_started != S.n_ended || sim_proc_running(-1))
        sim_fail("%d processes were started, %d have ended", S.n_started, S.n_ended);
}

/* --- many --- */

static void run_schedule(const struct sim_test *test, uint64_t seed, int trace) {
    memset(&S, 0, sizeof S);
    S.seed = seed;
    S.rng = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    S.trace = trace;
    for (int i = 0; i < SIM_MACHINES; i++)
        S.m[i].node = i;
    sim_proc_reset();
    test->run();
    sim_net_reset();
    sim_proc_reset();
    sim_host_reset();
    sim_terminal_reset();
    sim_loop_reset();
}

int __real_clock_gettime(clockid_t id, struct timespec *t);

struct tally { /* shared by all processes */
    uint64_t next, end, done, failed, counted;
    uint64_t seed[MOST_JOBS]; /* the schedule that a worker runs */
};

/* A schedule that fails exits, so it runs in a process of its own worker's. */
static void run_batch(const struct sim_test *test, struct tally *t, int worker, uint64_t from,
                      uint64_t to) {
    while (from < to) {
        int status = 0;
        const pid_t pid = fork();
        if (!pid) {
            for (; from < to; from++) {
                t->seed[worker] = from;
                run_schedule(test, from, 0);
                __atomic_fetch_add(&t->done, 1, __ATOMIC_SEQ_CST);
                __atomic_fetch_add(&t->counted, (uint64_t)*test->count, __ATOMIC_SEQ_CST);
            }
            exit(0); /* a leak of memory is found here */
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            __atomic_fetch_add(&t->failed, 1, __ATOMIC_SEQ_CST);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
                fprintf(stderr, "seed %llu: the process ends with wait status 0x%x\n",
                        (unsigned long long)t->seed[worker], (unsigned)status);
        }
        from = t->seed[worker] + 1;
    }
}

static int run_many(const struct sim_test *test, uint64_t from, uint64_t count, int jobs) {
    struct tally *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec began, ended;
    __real_clock_gettime(CLOCK_MONOTONIC, &began);
    if (t == MAP_FAILED)
        return 1;
    *t = (struct tally){.next = from, .end = from + count};
    for (int i = 0; i < jobs; i++) {
        const pid_t pid = fork();
        if (pid)
            continue;
        for (uint64_t s; (s = __atomic_fetch_add(&t->next, BATCH, __ATOMIC_SEQ_CST)) < t->end;)
            run_batch(test, t, i, s, s + BATCH < t->end ? s + BATCH : t->end);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    __real_clock_gettime(CLOCK_MONOTONIC, &ended);
    const double took =
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%llu of %llu schedules hold, %llu do not; %.0f a second; %llu %s\n",
           (unsigned long long)t->done, (unsigned long long)count, (unsigned long long)t->failed,
           (double)count / took, (unsigned long long)t->counted, test->what);
    return t->failed || t->done != count || (count >= test->schedules && !t->counted);
}

int sim_main(int argc, char **argv, const struct sim_test *test) {
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"trace", no_argument, NULL, 't'},
        {"from", required_argument, NULL, 'f'}, {"count", required_argument, NULL, 'c'},
        {"jobs", required_argument, NULL, 'j'}, {0}};
    const char *many = getenv("SIM_SCHEDULES");
    uint64_t seed = 0, from = 1, count = many ? strtoull(many, NULL, 10) : test->schedules;
    int trace = 0, jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (o == 't')
            trace = 1;
        else if (o == 'f')
            from = strtoull(optarg, NULL, 10);
        else if (o == 'c')
            count = strtoull(optarg, NULL, 10);
        else if (o == 'j')
            jobs = (int)strtoull(optarg, NULL, 10);
        else
            return 2;
    }
    if (seed) {
        run_schedule(test, seed, trace);
        puts("the schedule holds");
        return 0;
    }
    return run_many(test, from, count, jobs < 1 ? 1 : jobs < MOST_JOBS ? jobs : MOST_JOBS);
}
