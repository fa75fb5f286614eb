/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_file_copies.c - data_copies = 2: a node is lost, and the head, node 0, has new copies
 * made of the files that have one copy left. */
#include <setjmp.h>
#include <cmocka.h>

#include "tests/support/c/agent_files.h"

static const int on_rank_1[N_NAMES][2] = {{1, -1}, {1, -1}, {1, -1}, {1, -1},
                                          {1, -1}, {1, -1}, {1, -1}};
static json_t *copy_nodes, *machines;

/* The files are on node 1, and as copies on node 2. */
static void begin(json_t *machine_of) {
    copy_nodes = json_pack("[i, i, i, i]", 1, 2, 0, 0);
    machines = machine_of;
    for (int i = 0; i < NODES; i++) {
        node[i]->spec.job.data_copies = 2;
        node[i]->spec.copy_nodes = copy_nodes;
        node[i]->spec.machines = machines;
    }
    head_answers = 1;
    send_list(on_rank_1);
}

static void end(void) {
    for (int i = 0; i < NODES; i++)
        node[i]->spec.copy_nodes = node[i]->spec.machines = NULL;
    json_decref(copy_nodes);
    json_decref(machines);
}

static void lose_node(int i) {
    if (!lost_list)
        lost_list = json_array();
    node[i]->lost = 1;
    json_array_append_new(
        lost_list, json_pack("{s:i, s:s, s:s}", "node", i, "host", "host-x", "reason", "gone"));
}

static int64_t few(void) { return file_few_copies(node[0]->data).files; }

static void run_for(unsigned ms, int64_t until_few) {
    const uint64_t end_ns = pd_mono_ns() + ms * UINT64_C(1000000);
    while (pd_mono_ns() < end_ns && few() != until_few)
        spin();
}

static int n_on(int i) {
    int n = 0;
    for (int k = 0; k < N_NAMES; k++)
        n += file_is_here(node[i]->core.paths.dir, names[k]);
    return n;
}

/* Waits until the loss is seen, and until each file has two copies again. */
static void wait_for_copies(void) {
    run_for(5000, N_NAMES);
    assert_int_equal(few(), N_NAMES);
    assert_true(file_few_copies(node[0]->data).bytes > 3 << 20);
    run_for(20000, 0);
    assert_int_equal(few(), 0);
    assert_int_equal(n_fed, 0); /* the launcher has sent nothing */
}

/* Nothing is lost: nothing is copied. Then node 2, which has the copies, is lost: nodes 3 and 0 get
 * them in turn. Then node 1, whose files they are: each file is copied once more. */
static void a_lost_copy_is_made_again(void **state) {
    (void)state;
    begin(NULL);
    run_for(400, -1);
    assert_int_equal(n_on(0) + n_on(3) + (int)few(), 0);
    lose_node(2);
    wait_for_copies();
    assert_int_equal(n_on(3), (N_NAMES + 1) / 2);
    assert_int_equal(n_on(0), N_NAMES / 2);
    lose_node(1);
    wait_for_copies();
    for (int k = 0; k < N_NAMES; k++) {
        must_have_on(0, names[k]);
        must_have_on(3, names[k]);
    }
    end();
}

/* The list of a new head may be out of date: it says "none" when the nodes had time to tell. */
static void none_is_said_late(void **state) {
    (void)state;
    begin(NULL);
    lose_node(3); /* it has no file */
    assert_int_equal(few(), -1);
    run_for(1000, 0);
    assert_int_equal(few(), -1);
    run_for(20000, 0);
    assert_int_equal(few(), 0);
    assert_int_equal(n_on(0), 0);
    end();
}

static void the_copy_is_on_another_machine(void **state) {
    (void)state;
    begin(json_pack("[i, i, i, i]", 0, 0, 2, 3)); /* node 0 is on the machine of node 1 */
    lose_node(2);
    wait_for_copies();
    assert_int_equal(n_on(3), N_NAMES);
    assert_int_equal(n_on(0), 0);
    end();
}

static void without_another_machine_any_node_gets_it(void **state) {
    (void)state;
    begin(json_pack("[i, i, i, i]", 0, 0, 2, 3));
    lose_node(2);
    lose_node(3);
    wait_for_copies();
    assert_int_equal(n_on(0), N_NAMES);
    end();
}

/* Node 3 has files of these names, which nobody may take from it: it is asked once. */
static void a_node_that_can_not_is_left_out(void **state) {
    char path[PATH_MAX];
    (void)state;
    begin(NULL);
    for (int k = 0; k < N_NAMES; k++) {
        char *slash;
        pd_fmt(path, sizeof path, "%s/workspace/%s", node[3]->core.paths.dir, names[k]);
        slash = strrchr(path, '/');
        *slash = 0;
        assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
        *slash = '/';
        assert_int_equal(pd_write_file_quick(path, "other", 5, 0644, NULL), 0);
    }
    lose_node(2);
    wait_for_copies();
    assert_int_equal(n_on(0), N_NAMES);
    assert_int_equal(n_asked[3], 1);
    end();
}

/* Node 1 can't give two files: two nodes try each, and get the other files. */
static void files_that_can_not_be_read_are_left_out(void **state) {
    char path[PATH_MAX];
    (void)state;
    begin(NULL);
    for (int k = 0; k < 2; k++) {
        pd_fmt(path, sizeof path, "%s/workspace/%s", node[1]->core.paths.dir, names[k]);
        assert_int_equal(unlink(path), 0);
    }
    lose_node(2);
    run_for(5000, N_NAMES);
    assert_int_equal(few(), N_NAMES);
    run_for(20000, 2);
    assert_int_equal(few(), 2);
    assert_int_equal(n_on(0) + n_on(3), N_NAMES - 2);
    for (int i = 0; i < 100 && n_asked[3] != n_on(3) + 2; i++)
        run_for(200, 0);
    run_for(1000, 0);
    assert_int_equal(n_asked[3], n_on(3) + 2);
    end();
}

/* Both holders are lost. */
static void what_nobody_has_stays_few(void **state) {
    (void)state;
    begin(NULL);
    lose_node(1);
    lose_node(2);
    run_for(5000, N_NAMES);
    run_for(3000, 0);
    assert_int_equal(few(), N_NAMES);
    assert_int_equal(n_on(0) + n_on(3), 0);
    end();
}

static uint64_t ms_since(uint64_t ns) { return (pd_mono_ns() - ns) / 1000000u; }

/* 3 MiB at 1 MiB a second. */
static void a_copy_has_a_pace(void **state) {
    (void)state;
    begin(NULL);
    lose_node(3);
    lose_node(2);
    node[0]->data->copy_rate = 1 << 20;
    const uint64_t began = pd_mono_ns();
    wait_for_copies();
    assert_in_range(ms_since(began), 2000 /* before the first one */ + 2000, 20000);
    end();
}

/* A trainer that waits for the file ends the pace: 3 MiB at 1 KiB a second would take 50 minutes.
 */
static void a_trainer_that_waits_ends_the_pace(void **state) {
    (void)state;
    begin(NULL);
    lose_node(3);
    lose_node(2);
    node[0]->data->copy_rate = 1 << 10;
    run_for(5000, N_NAMES);
    run_for(3000, 0);
    assert_false(file_is_here(node[0]->core.paths.dir, names[BIG]));
    const uint64_t began = pd_mono_ns();
    must_fetch(names[BIG]);
    assert_in_range(ms_since(began), 0, 10000);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_copy_is_made_again, setup_two, teardown),
        cmocka_unit_test_setup_teardown(none_is_said_late, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_copy_is_on_another_machine, setup_two, teardown),
        cmocka_unit_test_setup_teardown(without_another_machine_any_node_gets_it, setup_two,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_node_that_can_not_is_left_out, setup_two, teardown),
        cmocka_unit_test_setup_teardown(files_that_can_not_be_read_are_left_out, setup_two,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_nobody_has_stays_few, setup_two, teardown),
        cmocka_unit_test_setup_teardown(a_copy_has_a_pace, setup_two, teardown),
        cmocka_unit_test_setup_teardown(a_trainer_that_waits_ends_the_pace, setup_two, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
