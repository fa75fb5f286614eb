/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_sim.c - jobs on a simulated clock and network (tests/sim/sim.h): a schedule for each
 * seed, and what must hold in all of them.
 *
 *     test_agent_sim                    2,000 schedules; SIM_SCHEDULES=N
 *     test_agent_sim --seed=S --trace   one of them again, with all that happens
 *     test_agent_sim --from=S --count=N */
#include <getopt.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "launcher/job/job.h"
#include "tests/sim/sim.h"

enum { SCHEDULES = 2000, BATCH = 100, MOST_JOBS = 64 };

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

static void describe(struct pd_options *o) {
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

static void run_job(void) {
    struct pd_options o;
    struct pd_err err = {0};
    if (pd_options_init(&o, &err))
        sim_fail("%s", err.msg);
    describe(&o);
    const struct job_flags flags = {.detach = S.plan.detach};
    S.launcher = sim_actor(SIM_LAUNCHER, "paddlectl");
    S.here = S.launcher;
    S.exit_status = job_run(&o, &flags);
    pd_options_release(&o);
    S.here = NULL;
}

static void run_rest(void) {
    for (const struct actor *a = S.actors; a;)
        if (!a->alive)
            a = a->next;
        else if (!sim_step()) {
            sim_trace_handles(a);
            sim_fail("%s waits, and nothing will come", a->name);
        } else
            a = S.actors;
}

/* --- what must hold --- */

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static uint64_t last_end(void) {
    uint64_t t = 0;
    for (const struct actor *a = S.actors; a; a = a->next)
        if (a != S.launcher && strcmp(a->name, "relay") && a->ended > t)
            t = a->ended;
    return t;
}

/* Nothing waits without a deadline. */
static void check_times(void) {
    const double stopped = (double)S.was_stopped / 1000, end = seconds(S.launcher_ended);
    const int saves = S.plan.save_on_stop && S.stop_signal == 2 && !S.stop_again_at;
    const uint64_t stop = S.stop_again_at ? S.stop_again_at : S.stop_at;
    if (stop && !S.launcher_dead && !S.plan.detach && !S.left &&
        end - seconds(stop) > (saves ? 200 : 3) + stopped)
        sim_fail("paddlectl ends %.3f s after it was told to stop", end - seconds(stop));
    const double after = seconds(last_end()) -
                         seconds(S.launcher_ended > S.fault_ends ? S.launcher_ended : S.fault_ends);
    if (!S.plan.detach && !S.left && after > 2 * S.plan.attach_lease + 10 + stopped)
        sim_fail("the last agent ends %.3f s after paddlectl", after);
    const double most =
        seconds(S.fault_ends) + (S.plan.restart ? S.plan.max_restarts + 1 : 1) *
                                    (3 * (double)S.plan.work_ms / 1000 + 200 + S.plan.attach_lease +
                                     S.plan.detach_lease + (double)sim_wait_ms() / 1000);
    if (end > most || seconds(last_end()) > most)
        sim_fail("the job ends after %.3f s, not within %.3f s",
                 end > seconds(last_end()) ? end : seconds(last_end()), most);
}

static void check_processes(void) {
    if (S.n_started != S.n_ended || sim_proc_running(-1))
        sim_fail("%d processes were started, %d have ended", S.n_started, S.n_ended);
}

/* The reason may name another node: "node 1 has not heard of node 0 for 2000 ms". */
static int names_node(const char *line, int node) {
    char name[24];
    snprintf(name, sizeof name, "node %d ", node);
    return memmem(line, strcspn(line, "\n"), name, strlen(name)) != NULL;
}

/* "failed: host-1 (node 1), trainer 0: ..." names one of the causes. */
static void check_cause(void) {
    const char *s = S.text ? strstr(S.text, " failed: host-") : NULL;
    char role[16] = "";
    int node = -1, rank = -1, host;
    if (S.launcher_dead || S.stop_at)
        return;
    if (S.exit_status == 1 && !s && !strstr(S.text, "\npaddlectl: host-") &&
        !strstr(S.text, " hosts cannot be used:\n"))
        sim_fail("the job failed, and paddlectl names no cause");
    if (!s || sscanf(s, " failed: host-%d (node %d), %15[a-z] %d", &host, &node, role, &rank) < 2)
        return;
    const int r = !strcmp(role, "trainer") ? 1 : !strcmp(role, "pserver") ? 0 : -1;
    for (int i = 0; i < S.n_causes; i++) {
        const struct cause *c = &S.causes[i];
        if (c->node == node ? c->role < 0 || r < 0 || (c->role == r && c->rank == rank)
                            : c->role < 0 && names_node(s, c->node))
            return;
    }
    sim_fail("paddlectl names node %d, %s %d, which is not what failed: %.*s", node, role, rank,
             (int)strcspn(s + 1, "\n"), s + 1);
}

static void check_result(void) {
    const int quiet = !S.n_faults && !S.loss, kept = !S.stop_at && !S.launcher_dead && !S.left;
    if (quiet && S.exit_status)
        sim_fail("without a fault, paddlectl ends with %d", S.exit_status);
    if (quiet && !S.plan.detach)
        sim_check_lines();
    if (S.exit_status == 0 && !S.plan.detach && kept && !S.n_fatal &&
        !strstr(S.text, " is lost: ") && S.n_passes_seen != S.n_passes_sent)
        sim_fail("%d passes were reported, the head has %d", S.n_passes_sent, S.n_passes_seen);
    if (S.n_causes == 1 && S.n_faults == 1 && S.plan.restart && !S.is_final && kept && !S.n_cut &&
        !S.loss && !(S.is_soft && strstr(S.text, "\nending")) && S.exit_status)
        sim_fail("the job did not survive a fault (status %d): %s", S.exit_status,
                 S.text ? S.text : "");
}

/* The nodes of a detached job end it well without paddlectl, also if they lose the head. */
static void check_detached(void) {
    int done = 0;
    for (int i = 0; i < SIM_NODES; i++)
        done |= S.m[i].result &&
                !strcmp(json_string_value(json_object_get(S.m[i].result, "status")), "done") &&
                json_integer_value(json_object_get(S.m[i].result, "head")) == S.m[i].node;
    if (S.plan.detach && !S.exit_status && S.plan.restart && S.plan.n > 2 && S.n_faults < 2 &&
        !S.is_final && !S.n_cut && !S.loss && !done)
        sim_fail("a detached job did not survive a fault");
}

static void run_schedule(uint64_t seed, int trace) {
    memset(&S, 0, sizeof S);
    S.seed = seed;
    S.rng = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    S.trace = trace;
    for (int i = 0; i < SIM_MACHINES; i++)
        S.m[i].node = i;
    sim_proc_reset();
    sim_faults_plan();
    run_job();
    run_rest();
    sim_trace("all is over: status %d", S.exit_status);
    check_times();
    check_processes();
    check_cause();
    check_result();
    check_detached();
    sim_net_reset();
    sim_proc_reset();
    sim_host_reset();
    sim_terminal_reset();
    sim_loop_reset();
}

/* --- many --- */

int __real_clock_gettime(clockid_t id, struct timespec *t);

struct tally { /* shared by all processes */
    uint64_t next, end, done, failed, elected;
    uint64_t seed[MOST_JOBS]; /* the schedule that a worker runs */
};

/* A schedule that fails exits, so it runs in a process of its own worker's. */
static void run_batch(struct tally *t, int worker, uint64_t from, uint64_t to) {
    while (from < to) {
        int status = 0;
        const pid_t pid = fork();
        if (!pid) {
            for (; from < to; from++) {
                t->seed[worker] = from;
                run_schedule(from, 0);
                __atomic_fetch_add(&t->done, 1, __ATOMIC_SEQ_CST);
                __atomic_fetch_add(&t->elected, (uint64_t)S.n_elected, __ATOMIC_SEQ_CST);
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

static int run_many(uint64_t from, uint64_t count, int jobs) {
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
            run_batch(t, i, s, s + BATCH < t->end ? s + BATCH : t->end);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    __real_clock_gettime(CLOCK_MONOTONIC, &ended);
    const double took =
        (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%llu of %llu schedules hold, %llu do not; %.0f a second; %llu heads were elected\n",
           (unsigned long long)t->done, (unsigned long long)count, (unsigned long long)t->failed,
           (double)count / took, (unsigned long long)t->elected);
    return t->failed || t->done != count || (count >= SCHEDULES && !t->elected);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"trace", no_argument, NULL, 't'},
        {"from", required_argument, NULL, 'f'}, {"count", required_argument, NULL, 'c'},
        {"jobs", required_argument, NULL, 'j'}, {0}};
    const char *many = getenv("SIM_SCHEDULES");
    uint64_t seed = 0, from = 1, count = many ? strtoull(many, NULL, 10) : SCHEDULES;
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
        run_schedule(seed, trace);
        puts("the schedule holds");
        return 0;
    }
    return run_many(from, count, jobs < 1 ? 1 : jobs < MOST_JOBS ? jobs : MOST_JOBS);
}
