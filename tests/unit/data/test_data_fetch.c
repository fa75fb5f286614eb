/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_fetch.c - a missing data file is requested over the socket and read when it has come.
 * Several threads want different files. The agent's refusal or end becomes the reader's error. The
 * agent is a thread of the test. */
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/socket.h>

#include "data/input/fetch.h"
#include "data/read/pipe.h"
#include "data/read/reader.h"
#include "tests/support/c/append.h"

struct agent {
    int fd;
    pthread_t thread;
    int n_waits, n_aheads;
    char order[4000]; /* the requested paths, a blank after each */
};

/* The fake agent. "no..." is refused, and "end..." ends the agent. Other files come with a line
 * that holds the last digit of their name. */
static void *serve(void *arg) {
    struct agent *a = arg;
    uint8_t head[8];
    char path[300];
    while (pd_read_full(a->fd, head, 8) == 8) {
        struct pd_reader r;
        struct pd_buf b;
        pd_reader_init(&r, head, 8);
        uint32_t n = pd_get_u32(&r), id = pd_get_u32(&r);
        if (n >= sizeof path || pd_read_full(a->fd, path, n) != (ssize_t)n)
            break;
        path[n] = 0;
        a->n_aheads += !id;
        if (strstr(path, "end"))
            break;
        const char *why =
            strstr(path, "no")
                ? "data file no is not on node 1, and no source sent it: node 2 (b): refused"
                : "";
        if (!*why) {
            char line[4] = {path[n - 1], '\n', 0};
            pd_write_file_quick(path, line, 2, 0644, NULL);
        }
        if (!id)
            continue;
        a->n_waits++;
        append(a->order, sizeof a->order, path);
        append(a->order, sizeof a->order, " ");
        pd_buf_init(&b);
        pd_put_u32(&b, (uint32_t)strlen(why));
        pd_put_u32(&b, id);
        pd_put_u32(&b, *why ? (uint32_t)-PD_EFAIL : 0);
        pd_put(&b, why, strlen(why));
        assert_int_equal(pd_write_all(a->fd, b.data, b.len), 0);
        pd_buf_release(&b);
    }
    shutdown(a->fd, SHUT_RDWR);
    return NULL;
}

static char dir[64];
static struct agent agent;
static struct data_fetch *fetch;
static int trainer_fd;

static int setup(void **state) {
    int fd[2];
    (void)state;
    pd_fmt(dir, sizeof dir, "/tmp/fetch-test-XXXXXX");
    memset(&agent, 0, sizeof agent);
    if (!mkdtemp(dir) || chdir(dir) || socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        return -1;
    agent.fd = fd[0];
    trainer_fd = fd[1];
    return pthread_create(&agent.thread, NULL, serve, &agent) ||
           data_fetch_new(&fetch, trainer_fd, NULL);
}

static void stop_agent(void) {
    shutdown(trainer_fd, SHUT_RDWR);
    pthread_join(agent.thread, NULL);
}

static int teardown(void **state) {
    (void)state;
    data_fetch_free(fetch);
    close(agent.fd);
    close(trainer_fd);
    return chdir("/") || pd_rm_tree(dir, NULL);
}

static int read_all(struct data_files *files, struct data_workers *w, char *out,
                    struct pd_err *err) {
    const struct data_spec spec = {
        .format = "ids", .n_fields = 1, .vocabulary = 10, .fetch = fetch, .workers = w};
    struct data_reader *r;
    struct pd_batch b;
    assert_int_equal(pd_batch_init(&b, NULL, 1, 4), 0);
    int rc = data_reader_new(&r, &spec, ".", files, 0, 1, err);
    if (!rc) {
        data_reader_rewind(r, 0);
        for (pd_batch_clear(&b); (rc = data_reader_next(r, 4, &b, err)) > 0; pd_batch_clear(&b))
            for (uint32_t i = 0; i < b.n; i++)
                *out++ = (char)('0' + b.ids[0][i]);
        *out = 0;
        data_reader_free(r);
    }
    pd_batch_release(&b);
    return rc;
}

static void files_come_when_they_are_read(void **state) {
    (void)state;
    struct data_files files = {0};
    struct data_workers *w;
    struct pd_err err = {0};
    char got[40];
    assert_int_equal(data_workers_new(&w, 2, &err), 0);
    for (int round = 0; round < 2; round++) { /* with one thread, with several */
        char name[20];
        data_files_release(&files);
        for (int i = 0; i < 9; i++) {
            snprintf(name, sizeof name, "f%d-%d", round, i);
            assert_int_equal(data_files_add(&files, name), 0);
            if (i % 3 == 1)
                assert_int_equal(pd_write_file_quick(name, "7\n", 2, 0644, NULL), 0);
        }
        if (read_all(&files, round ? w : NULL, got, &err))
            fail_msg("%s", err.msg);
        assert_string_equal(got, "072375678");
    }
    stop_agent();
    assert_true(agent.n_aheads > 0 && agent.n_waits > 0 && agent.n_waits <= 2 * 6);
    data_workers_free(w);
    data_files_release(&files);
}

static void *wait_for(void *arg) {
    struct pd_err err = {0};
    data_fetch_wait(fetch, arg, &err);
    return (void *)(intptr_t)err.code;
}

static void many_threads_want_different_ones(void **state) {
    (void)state;
    enum { N = 16 };
    pthread_t t[N];
    char name[N][20];
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], i % 4 == 3 ? "no%d" : "t%d", i);
        assert_int_equal(pthread_create(&t[i], NULL, wait_for, name[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *code;
        pthread_join(t[i], &code);
        assert_int_equal((int)(intptr_t)code, i % 4 == 3 ? PD_EFAIL : 0);
        assert_int_equal(access(name[i], F_OK), i % 4 == 3 ? -1 : 0);
    }
    stop_agent();
    assert_int_equal(agent.n_waits, N);
}

static void refusals_and_the_agents_end_are_told(void **state) {
    (void)state;
    struct data_files files = {0};
    struct pd_err err = {0};
    char got[40];
    data_files_add(&files, "no");
    assert_int_equal(read_all(&files, NULL, got, &err), PD_EFAIL);
    assert_non_null(strstr(err.msg, "no source sent it: node 2 (b): refused"));
    pd_err_clear(&err);
    assert_int_equal(data_fetch_wait(fetch, "end", &err), PD_ECLOSED);
    pthread_join(agent.thread, NULL);
    pd_err_clear(&err);
    assert_int_equal(data_fetch_wait(fetch, "x", &err), PD_ECLOSED); /* no SIGPIPE and no hang */
    data_fetch_prefetch(fetch, "x");
    assert_int_equal(data_fetch_ensure(fetch, "/no/such/file", &err),
                     0); /* the agent is not asked for this path */
    data_files_release(&files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_when_they_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_want_different_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_and_the_agents_end_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
