/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_files.c - separately sent data files that another node needs, and the sources that are
 * tried. If the first holder disappears or sends wrong bytes, the next one is asked, then the
 * client. If all fail, the error names them all. The client's bytes are not trusted either.
 * test_agent_file_serve.c tests a holder. */
#include <setjmp.h>

#include <cmocka.h>

#include "tests/support/c/agent_files.h"

static void the_next_holder_is_asked(void **state) {
    (void)state;
    static const char *const faults[] = {"data.serve.gone:1", "data.serve.gone:2",
                                         "data.serve.gone:4", "data.serve.wrong:1",
                                         "data.serve.wrong:9"};
    send_list(on_both);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        pd_fault_arm(faults[i]);
        must_fetch(names[BIG]);
        lose(0, names[BIG]);
    }
    pd_fault_arm(NULL);
    lose(1, names[BIG]);
    must_fetch(names[BIG]);
    assert_int_equal(n_fed, 0);
}

/* The list names node 1; with data_copies = 2 node 2 has the files, too. */
static void the_next_node_has_a_copy(void **state) {
    (void)state;
    node[0]->spec.job.data_copies = 2;
    send_list(on_one);
    node[1]->lost = 1;
    must_fetch(names[BIG]);
    assert_int_equal(n_fed, 0);
}

/* The spec names the node of the copy. */
static void another_node_has_a_copy(void **state) {
    (void)state;
    json_t *copies = json_pack("[i, i, i]", 2, 0, 2); /* of trainer 1: on node 0, which asks */
    struct pd_err err;
    node[0]->spec.job.data_copies = 2;
    node[0]->spec.copy_nodes = copies;
    send_list(on_one);
    node[1]->lost = 1;
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    assert_null(strstr(err.msg, "node 2 ("));
    json_array_set_new(copies, 1, json_integer(2));
    must_fetch(names[BIG]);
    node[0]->spec.copy_nodes = NULL;
    json_decref(copies);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* Nodes 1 and 2 have the file for their trainers, and node 2 as the copy of node 1, too. */
static void a_holder_is_asked_once(void **state) {
    struct pd_err err;
    (void)state;
    node[0]->spec.job.data_copies = 2;
    send_list(on_both);
    node[1]->lost = node[2]->lost = 1;
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    if (count(err.msg, "node 1 (") != 1 || count(err.msg, "node 2 (") != 1)
        fail_msg("%s", err.msg);
}

/* A holder fails in the middle of a file: the next source is asked for what has not come. */
static void what_came_is_not_asked_for_again(void **state) {
    struct file_pieces f = {0};
    (void)state;
    send_list(on_one);
    offer();
    assert_int_equal(scan_item_pieces(scan, item_of(names[BIG]), &f), 0);
    assert_true(f.n > 10);
    pd_fault_arm("data.serve.wrong:9"); /* after eight good objects */
    must_fetch(names[BIG]);
    assert_int_equal(n_fed_objects, f.n - 8);
    lose(0, names[BIG]);
    n_fed_objects = 0;
    pd_fault_arm("data.serve.gone:4"); /* after the list of pieces and some objects */
    must_fetch(names[BIG]);
    assert_in_range(n_fed_objects, 1, f.n - 1);
    lose(0, names[BIG]);
    n_fed_objects = 0;
    pd_fault_arm(NULL);
    lose(1, names[BIG]);
    must_fetch(names[BIG]); /* a later pull begins anew */
    assert_int_equal(n_fed_objects, f.n);
    file_pieces_release(&f);
}

static void the_client_has_it_when_nobody_else_has(void **state) {
    (void)state;
    send_list(on_one);
    offer();
    for (int i = 0; i < N_NAMES; i++) {
        lose(1, names[i]);
        must_fetch(names[i]);
    }
    assert_int_equal(n_fed, N_NAMES);
}

static void who_was_asked_is_told(void **state) {
    struct pd_err err;
    (void)state;
    send_list(on_one);
    lose(1, names[BIG]);
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    if (!strstr(err.msg, "data file data/big is not on node 0, and no source sent it: node 1 "
                         "(host-b): it cannot open it") ||
        !strstr(err.msg, "the launcher: it is not connected"))
        fail_msg("%s", err.msg);
    assert_int_equal(fetch("data/unknown", &err), PD_ENOENT);
    assert_int_equal(fetch("../src/data/big", &err), PD_EDATA);
    must_fetch(names[SMALL]); /* other files are not disturbed */
    node[1]->lost = 1;
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    assert_non_null(
        strstr(err.msg, "no source sent it: node 1 (host-b): it is lost; the launcher"));
}

/* Node 0 can't be reached for longer than the limit for its answer. The request must not fail; only
 * the lease ends the wait. */
static void node_0_is_away(void **state) {
    struct asking w = {.path = names[BIG]};
    pthread_t t;
    (void)state;
    lose(1, names[BIG]);
    node[1]->data->where_ms = 20;
    int fd = file_fetch_channel(node[1]->data, NULL);
    assert_int_equal(data_fetch_new(&w.f, fd, NULL), 0);
    assert_int_equal(pthread_create(&t, NULL, want, &w), 0);
    for (uint64_t end = pd_mono_ns() + 5000000000u; pd_mono_ns() < end && !atomic_load(&w.done);)
        spin();
    if (atomic_load(&w.done))
        fail_msg("%s", w.err.msg);
    file_fetch_close(node[1]->data);
    while (!atomic_load(&w.done))
        spin();
    pthread_join(t, NULL);
    assert_non_null(strstr(w.err.msg, "the job is ending"));
    data_fetch_free(w.f);
    close(fd);
}

static void what_a_client_sends_is_compared(void **state) {
    struct pd_err err;
    (void)state;
    send_list(on_one); /* a file without holders */
    offer();
    feeding = FEED_OTHER_PIECES;
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    if (!strstr(err.msg, "the launcher: what it has is not that file"))
        fail_msg("%s", err.msg);
    feeding = FEED_OTHER_BYTES;
    assert_int_equal(fetch(names[BIG], &err), PD_EFAIL);
    if (!strstr(err.msg, "the launcher: "))
        fail_msg("%s", err.msg);
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/workspace/data/big", node[0]->core.paths.dir),
                     0);
    assert_int_equal(access(path, F_OK), -1);
    feeding = FEED_WELL;
    must_fetch(names[BIG]);
}

static void lists_that_are_damaged_are_refused(void **state) {
    (void)state;
    struct file_index *l = file_index_new();
    struct pd_buf b;
    struct file_holders h;
    struct pd_err err = {0};
    const struct object_id id = {{1}};
    assert_non_null(l);
    pd_buf_init(&b);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        pd_put_str(&b, name);
        pd_put(&b, id.b, OBJECT_ID);
        pd_put_u32(&b, (uint32_t)i);
        pd_put_u32(&b, UINT32_MAX);
        pd_put_u64(&b, 1000);
    }
    /* A truncated list is accepted only if its rows are complete. */
    for (size_t n = 1; n < b.len; n++)
        if (!file_index_take(l, 0, 3, b.data, n, NULL) &&
            (n % (b.len / 3) || file_index_n(l) != n / (b.len / 3)))
            fail_msg("%zu bytes are taken", n);
    assert_int_equal(file_index_take(l, 0, 2, b.data, b.len, NULL),
                     PD_EPROTO); /* more rows than announced */
    assert_int_equal(file_index_take(l, 1, 3, b.data, b.len, NULL), PD_EPROTO); /* a gap */
    assert_int_equal(file_index_take(l, 0, UINT64_MAX, b.data, b.len, NULL), PD_EPROTO);
    must(file_index_take(l, 0, 3, b.data, b.len, &err), &err);
    assert_true(file_index_find(l, "b", &h) && h.rank[0] == 1 && h.rank[1] == -1 && !h.n_nodes);
    file_index_note(l, "b", 2);
    file_index_note(l, "b", 2);
    assert_true(file_index_find(l, "b", &h) && h.n_nodes == 1 && h.node[0] == 2);
    assert_false(file_index_find(l, "d", &h));
    b.data[4] = '/'; /* "/" is no path in a workspace */
    assert_int_equal(file_index_take(l, 0, 3, b.data, b.len, NULL), PD_EPROTO);
    file_index_free(l);
    pd_buf_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_holder_is_asked, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_next_node_has_a_copy, setup_two, teardown),
        cmocka_unit_test_setup_teardown(another_node_has_a_copy, setup_two, teardown),
        cmocka_unit_test_setup_teardown(a_holder_is_asked_once, setup_two, teardown),
        cmocka_unit_test_setup_teardown(what_came_is_not_asked_for_again, setup, teardown),
        cmocka_unit_test_setup_teardown(the_client_has_it_when_nobody_else_has, setup, teardown),
        cmocka_unit_test_setup_teardown(who_was_asked_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(node_0_is_away, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_client_sends_is_compared, setup_none, teardown),
        cmocka_unit_test(lists_that_are_damaged_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
