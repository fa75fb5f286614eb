/* SPDX-License-Identifier: Apache-2.0 */
/* test_ps_program.c - `paddle_worker pserver` as a process: its key, its ports, its end.
 * pserver_main runs in a child. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/wait.h>

#include "tests/support/c/ps_cluster.h"
#include "worker/worker.h"

struct program {
    pid_t pid;
    int out; /* stdout and stderr */
};

static char root[] = "/tmp/test_ps_program.XXXXXX", key_file[64];

static int setup(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(root))
        return -1;
    snprintf(key_file, sizeof key_file, "%s/key", root);
    return pd_write_file_atomic(key_file, cluster_key, 32, 0600, NULL);
}

static int teardown(void **state) {
    (void)state;
    return pd_rm_tree(root, NULL);
}

/* Starts the program. fds: the inherited sockets; NULL: the program binds its ports itself. */
static void start(struct program *p, const char *nics, const char *key, const int *fds,
                  const char *trainers) {
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        char a[80], b[80], c[80], d[] = "--port=0", list[40];
        snprintf(a, sizeof a, "--nics=%s", nics);
        snprintf(b, sizeof b, "--num_gradient_servers=%s", trainers);
        snprintf(c, sizeof c, "--key_file=%s", key);
        char *argv[] = {a, b, c, d, NULL};
        snprintf(list, sizeof list, "%d,%d", fds ? fds[0] : 0, fds ? fds[1] : 0);
        setenv("PADDLE_JOB_ID", "J", 1);
        if (fds)
            setenv("PADDLE_LISTEN_FDS", list, 1);
        dup2(pipe_fd[1], 1);
        dup2(pipe_fd[1], 2);
        int rc = pserver_main(4, argv);
        fflush(stdout);
        _exit(rc);
    }
    close(pipe_fd[1]);
    p->out = pipe_fd[0];
}

/* Reads the program's output until its end. Returns its exit status. */
static int end_of(struct program *p, char *text, size_t cap) {
    size_t n = 0;
    ssize_t k;
    while ((k = read(p->out, text + n, cap - 1 - n)) > 0)
        n += (size_t)k;
    text[n] = 0;
    close(p->out);
    int status;
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void first_line(struct program *p, char *text, size_t cap) {
    size_t n = 0;
    while (n < cap - 1 && read(p->out, text + n, 1) == 1 && text[n] != '\n')
        n++;
    text[n] = 0;
}

/* Reads the first port from "... ports (dense; sparse): 7164; 7165; ..." */
static int port_in(const char *text) {
    int port = 0;
    const char *at = strstr(text, "sparse): ");
    assert_true(at && sscanf(at, "sparse): %d", &port) == 1);
    return port;
}

static void bind_two(int *fds, int *port) {
    struct pd_err err = {0};
    int other;
    fds[0] = net_bind_first_free("127.0.0.1", 0, 1, port, &err);
    fds[1] = net_bind_first_free("127.0.0.1", 0, 1, &other, &err);
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    fcntl(fds[0], F_SETFD, 0);
    fcntl(fds[1], F_SETFD, 0);
}

static void test_open_to_a_network_needs_a_key(void **state) {
    (void)state;
    struct program p;
    char text[4000];
    start(&p, "", "", NULL, "1");
    assert_int_equal(end_of(&p, text, sizeof text), 2);
    assert_non_null(strstr(text, "head -c 32 /dev/urandom > key; chmod 600 key"));
    start(&p, "no-such-nic", key_file, NULL, "1");
    assert_int_equal(end_of(&p, text, sizeof text), 2);
    assert_non_null(strstr(text, "unknown interface or address 'no-such-nic'"));
}

static void test_sigterm_ends_it_with_0(void **state) {
    (void)state;
    struct program p;
    char text[4000], comm[64] = "", path[64];
    start(&p, "127.0.0.1", "", NULL, "1");
    first_line(&p, text, sizeof text);
    assert_non_null(strstr(text, "pserver listens on 127.0.0.1, ports"));
    snprintf(path, sizeof path, "/proc/%d/comm", (int)p.pid);
    int fd = open(path, O_RDONLY);
    assert_true(read(fd, comm, sizeof comm - 1) > 0);
    close(fd);
    assert_string_equal(comm, "paddle_pserver\n");
    kill(p.pid, SIGTERM);
    assert_int_equal(end_of(&p, text, sizeof text), 0);
}

static struct ps_client *client_of(int port, uint32_t id, uint32_t n) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    char list[40];
    snprintf(list, sizeof list, "127.0.0.1:%d", port);
    struct ps_client_opts o = {.pservers = list,
                               .trainer_id = id,
                               .n_trainers = n,
                               .optimizer = {"sgd", 1, 0},
                               .job = "J",
                               .key = cluster_key,
                               .connect_timeout_ms = 20000};
    struct ps_dense_spec s = {.name = "w", .n_dims = 1, .shape = {10}, .lr_factor = 1};
    assert_int_equal(ps_client_new(&c, &o, &err), 0);
    assert_int_equal(ps_declare_dense(c, &s), 0);
    if (ps_start(c))
        fail_msg("%s", ps_client_err(c)->msg);
    return c;
}

static void test_inherited_sockets_and_the_end_of_a_job(void **state) {
    (void)state;
    struct program p;
    char text[4000];
    int fds[2], port;
    bind_two(fds, &port);
    start(&p, "", key_file, fds, "1");
    close(fds[0]);
    close(fds[1]);
    struct ps_client *c = client_of(port, 0, 1);
    assert_int_equal(ps_bye(c), 0);
    ps_client_free(c);
    assert_int_equal(end_of(&p, text, sizeof text), 0);
}

static void test_dead_trainer_ends_it_with_1_and_the_reason(void **state) {
    (void)state;
    struct program p;
    char text[4000];
    int fds[2], port;
    bind_two(fds, &port);
    start(&p, "", key_file, fds, "2");
    close(fds[0]);
    close(fds[1]);
    struct ps_client *a = client_of(port, 0, 2), *b = client_of(port, 1, 2);
    ps_client_free(b);
    assert_int_equal(ps_barrier(a), PD_EFAIL);
    assert_non_null(strstr(ps_client_err(a)->msg, "trainer 1 (127.0.0.1:"));
    ps_client_free(a);
    assert_int_equal(end_of(&p, text, sizeof text), 1);
    assert_non_null(strstr(text, "has failed: it has left without ps_bye in step 0"));
    start(&p, "127.0.0.1", key_file, NULL, "2"); /* the server must report why it ends */
    first_line(&p, text, sizeof text);
    port = port_in(text);
    a = client_of(port, 0, 2);
    b = client_of(port, 1, 2);
    struct pd_err why = {.code = PD_EDATA, .msg = "train.txt:7: bad id"};
    ps_abandon(b, &why);
    assert_int_equal(ps_barrier(a), PD_EFAIL);
    assert_non_null(strstr(ps_client_err(a)->msg, "has failed: train.txt:7: bad id"));
    ps_client_free(a);
    ps_client_free(b);
    assert_int_equal(end_of(&p, text, sizeof text), 1);
}

int main(void) {
    /* Also for the children. After cmocka's first output setvbuf might have no effect. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_to_a_network_needs_a_key),
        cmocka_unit_test(test_sigterm_ends_it_with_0),
        cmocka_unit_test(test_inherited_sockets_and_the_end_of_a_job),
        cmocka_unit_test(test_dead_trainer_ends_it_with_1_and_the_reason),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
