/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_process_tree.c - the pid of a child that has ended may be another process's when the
 * tree is read: such a process does not belong to the tree. */
#include <setjmp.h>
#include <cmocka.h>

#include "agent/process/process_tree.c"

static pid_t child, other, grandchild; /* grandchild: of `child` */

static pid_t start(int fd) {
    pid_t pid = fork();
    if (pid)
        return pid;
    alarm(60); /* if the test is killed */
    if (fd >= 0) {
        const pid_t below = start(-1);
        (void)!write(fd, &below, sizeof below);
    }
    for (;;)
        pause();
}

static int setup(void **state) {
    int fd[2];
    (void)state;
    if (pipe(fd))
        return -1;
    child = start(fd[1]);
    other = start(-1);
    const ssize_t n = read(fd[0], &grandchild, sizeof grandchild);
    close(fd[0]);
    close(fd[1]);
    return n != sizeof grandchild;
}

static int teardown(void **state) {
    (void)state;
    kill(grandchild, SIGKILL);
    kill(child, SIGKILL);
    kill(other, SIGKILL);
    return waitpid(child, NULL, 0) != child || waitpid(other, NULL, 0) != other;
}

static void a_process_with_another_parent_is_none_of_the_tree(void **state) {
    struct process_entry *v = NULL;
    size_t n = 0, cap = 0;
    (void)state;
    /* `child` has listed this pid, which belongs to `other` now. */
    assert_int_equal(add_process(child, other, &v, &n, &cap), 0);
    assert_int_equal(n, 0);
    assert_int_equal(add_process(child, grandchild, &v, &n, &cap), 0);
    assert_int_equal(n, 1);
    assert_int_equal(v[0].pid, grandchild);
    free(v);
    /* Below this process both are: the parent is listed. */
    v = NULL;
    n = cap = 0;
    assert_int_equal(add_process(getpid(), child, &v, &n, &cap), 0);
    assert_int_equal(add_process(getpid(), grandchild, &v, &n, &cap), 0);
    assert_int_equal(n, 2);
    free(v);
}

static void children_of_another_process_are_none_of_the_tree(void **state) {
    struct process_entry *v = NULL;
    size_t n = 0, cap = 0;
    (void)state;
    assert_int_equal(add_process(getpid(), child, &v, &n, &cap), 0);
    v[0].start--; /* the listed process was an earlier one of this pid */
    assert_int_equal(add_children_of_listed(0, getpid(), 0, &v, &n, &cap), 0);
    assert_int_equal(n, 1);
    v[0].start++;
    assert_int_equal(add_children_of_listed(0, getpid(), 0, &v, &n, &cap), 0);
    assert_int_equal(n, 2);
    assert_int_equal(v[1].pid, grandchild);
    free(v);
}

static void all_descendants_are_found(void **state) {
    struct process_entry *v;
    size_t n;
    (void)state;
    assert_int_equal(read_below(getpid(), 0, &v, &n), 0);
    assert_int_equal(n, 3);
    free(v);
    assert_int_equal(read_below(getpid(), child, &v, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(v[0].pid, other);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_with_another_parent_is_none_of_the_tree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(children_of_another_process_are_none_of_the_tree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_descendants_are_found, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
