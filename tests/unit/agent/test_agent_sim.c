/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_sim.c - jobs on a simulated clock and network (tests/sim/sim.h): a schedule for each
 * seed, and what must hold in all of them.
 *
 *     test_agent_sim                    2,000 schedules; SIM_SCHEDULES=N
 *     test_agent_sim --seed=S --trace   one of them again, with all that happens
 *     test_agent_sim --from=S --count=N */
#include "tests/sim/sim.h"

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

static void run_schedule(void) {
    sim_faults_plan();
    sim_run_job();
    sim_run_rest();
    sim_trace("all is over: status %d", S.exit_status);
    check_times();
    sim_check_processes();
    check_cause();
    check_result();
    check_detached();
}

int main(int argc, char **argv) {
    static const struct sim_test test = {run_schedule, 2000, &S.n_elected, "heads were elected"};
    return sim_main(argc, argv, &test);
}
