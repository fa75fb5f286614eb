/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_copies.c - data_copies = 2: which node gets the copy of a trainer's data files. */
#include <setjmp.h>
#include <cmocka.h>

#include "launcher/job/job_internal.h"

enum { MOST = 16 };

static const struct row {
    const char *name, *hosts; /* the names of the hosts; "-": local */
    const char *trainers;     /* the nodes that train */
    const char *copies;       /* by trainer */
    int n_exposed;
} rows[] = {
    {"each node is a machine", "a b c", "0 1 2", "1 2 0", 0},
    {"two nodes of each machine", "a a b b", "0 1 2 3", "2 3 0 1", 0},
    {"two nodes of one machine", "a a b", "0 1 2", "2 2 0", 0},
    {"alternating", "a b a b", "0 1 2 3", "1 2 3 0", 0},
    {"the name's case does not count", "A a b", "0", "2", 0},
    {"another machine at the end", "a a a a b", "0 1 2 3", "4 4 4 4", 0},
    {"one machine", "a a a", "0 1 2", "1 2 0", 3},
    {"nodes of this machine", "- - -", "0 1 2", "1 2 0", 3},
    {"this machine and another one", "- - a", "0 1 2", "2 2 0", 0},
    {"a node that only runs a pserver has a copy", "a a b b", "0 1", "2 3", 0},
    {"trainers in another order", "a a b b", "3 0", "0 2", 0},
    {"one trainer", "a b c d", "2", "3", 0},
};

static int numbers(const char *text, int *out) {
    int n = 0, used;
    for (; sscanf(text, " %d%n", &out[n], &used) == 1; text += used)
        n++;
    return n;
}

static void place(const struct row *r) {
    struct job job = {0};
    struct pd_options opts = {.data_copies = 2};
    struct job_node nodes[MOST], *by_id[MOST];
    struct host hosts[MOST] = {0};
    int trainers[MOST], want[MOST];
    char names[100], *rest = names;
    struct pd_err err = {0};
    snprintf(names, sizeof names, "%s", r->hosts);
    for (char *name; (name = strsep(&rest, " ")); job.n_nodes++) {
        hosts[job.n_nodes] =
            (struct host){.addr = *name == '-' ? NULL : name, .local = *name == '-'};
        nodes[job.n_nodes] = (struct job_node){.host = &hosts[job.n_nodes], .id = job.n_nodes};
        by_id[job.n_nodes] = &nodes[job.n_nodes];
    }
    job.opts = &opts;
    job.by_id = by_id;
    job.c.trainers = trainers;
    job.c.n_trainers = (size_t)numbers(r->trainers, trainers);
    assert_int_equal(numbers(r->copies, want), job.c.n_trainers);
    assert_int_equal(job_place_copies(&job, &err), 0);
    for (size_t i = 0; i < job.c.n_trainers; i++)
        if (job.copy_nodes[i] != want[i])
            fail_msg("%s: the copy of trainer %zu is on node %d, not %d", r->name, i,
                     job.copy_nodes[i], want[i]);
    if (job.n_exposed != r->n_exposed)
        fail_msg("%s: %d copies are exposed", r->name, job.n_exposed);
    opts.data_copies = 1;
    assert_int_equal(job_place_copies(&job, &err), 0);
    assert_null(job.copy_nodes);
}

static void a_copy_is_on_another_machine(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        place(&rows[i]);
}

/* The address of a [host] section counts, not the name in the list. */
static void an_address_of_a_section_counts(void **state) {
    struct pd_options opts = {.data_copies = 2};
    struct host hosts[] = {{.addr = (char *)"one", .address = (char *)"10.0.0.1"},
                           {.addr = (char *)"two", .address = (char *)"10.0.0.1"},
                           {.addr = (char *)"10.0.0.2"}};
    struct job_node nodes[3], *by_id[3];
    int trainer = 0;
    struct job job = {.opts = &opts, .n_nodes = 3, .by_id = by_id};
    struct pd_err err = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        nodes[i] = (struct job_node){.host = &hosts[i], .id = i};
        by_id[i] = &nodes[i];
    }
    job.c.trainers = &trainer;
    job.c.n_trainers = 1;
    assert_int_equal(job_place_copies(&job, &err), 0);
    assert_int_equal(job.copy_nodes[0], 2);
    free(job.copy_nodes);
    free(job.machines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_on_another_machine),
        cmocka_unit_test(an_address_of_a_section_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
