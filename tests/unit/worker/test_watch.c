/* SPDX-License-Identifier: Apache-2.0 */
/* test_watch.c - profile = 1: a signal ends the process as without a profile, after its spans are
 * written. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/wait.h>

#include "base/spans.h"
#include "worker/worker.h"

enum { LIMIT_MS = 10000 };

static const char path[] = "profile/trainer-0.jsonl";

static void sleep_ms(unsigned ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* A process with a profile. over: its training has ended. */
static pid_t start(int over) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (!pid) {
        struct worker w = {.role = "trainer", .spans = pd_spans_new(), .log_fd = 2};
        pd_log_init(&w.log, 2, -1, PD_INFO);
        worker_watch_term(&w);
        if (over)
            worker_write_profile(&w);
        (void)!write(ready[1], "x", 1);
        sleep_ms(2 * LIMIT_MS);
        _exit(9);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* The signal that ends the process; 0: none does. */
static int ended_by(pid_t pid, int sig) {
    int status = 0;
    kill(pid, sig);
    for (int ms = 0; ms < LIMIT_MS; ms += 10) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        sleep_ms(10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 0;
}

static void a_signal_writes_the_profile_and_ends_the_process(void **state) {
    static const int signals[] = {SIGTERM, SIGUSR2};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        unlink(path);
        if (ended_by(start(0), signals[i]) != signals[i])
            fail_msg("%s does not end it", strsignal(signals[i]));
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void a_signal_after_the_training_ends_the_process(void **state) {
    (void)state;
    assert_int_equal(ended_by(start(1), SIGTERM), SIGTERM);
    assert_int_equal(ended_by(start(1), SIGUSR2), SIGUSR2);
}

static char folder[] = "/tmp/watch-XXXXXX";

static int setup(void **state) {
    (void)state;
    return !mkdtemp(folder) || chdir(folder) || setenv("PADDLE_OUTPUT_DIR", ".", 1);
}

static int teardown(void **state) { return (void)state, chdir("/") || pd_rm_tree(folder, NULL); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_writes_the_profile_and_ends_the_process),
        cmocka_unit_test(a_signal_after_the_training_ends_the_process),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
