/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_node_end.c - the end of a node's processes: no process survives it, even if it tries
 * to escape; a stop and a restart end some of them. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "agent/process/process_tree.h"
#include "tests/support/c/agent_node.h"

static int alive(pid_t pid) {
    char p[PATH_MAX], text[300];
    snprintf(p, sizeof p, "/proc/%d/stat", (int)pid);
    int fd = open(p, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *s = strrchr(text, ')');
    return s && s[2] != 'Z';
}

/* Processes in a session or group of their own, forked twice, ignoring TERM, or stopped: all of
 * them end. Their pids come through the log. */
static void nothing_survives_the_end(void **state) {
    (void)state;
    struct env *e =
        begin("", "trap '' TERM; "
                  "(setsid sh -c 'trap \"\" TERM HUP; echo pid $$; exec sleep 1000' &) ; "
                  "(setsid setsid sh -c '(sh -c \"trap : TERM; echo pid \\$\\$; while :; do sleep "
                  "1000; done\" &)' &) ; "
                  "sh -c 'echo pid $$; kill -STOP $$' & "
                  "sh -c 'echo pid $$; while :; do sh -c \"echo pid \\$\\$; sleep 0.05\" & sleep "
                  "0.01; done' & "
                  "echo pid $$; while :; do sleep 1000; done");
    bind_roles(e, 0, 1);
    start(e, "trainer", 2);
    limit_60s(e);
    int lines = 0;
    while (lines < 12 && !e->late) {
        uv_run(&e->loop, UV_RUN_ONCE);
        struct pd_buf b;
        read_log(e, "train.log", &b);
        lines = 0;
        for (char *s = (char *)b.data; (s = strstr(s, "pid ")); s++)
            lines++;
        pd_buf_release(&b);
    }
    assert_true(lines >= 12);
    uint64_t t = pd_mono_ns();
    node_end(e->node, NODE_END, 300, waiter(e));
    while (!e->ended && !e->late)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_true(e->ended);
    /* TERM first, KILL only after the grace period. */
    assert_true(pd_mono_ns() - t >= 290 * 1000000ull);
    struct pd_buf b;
    read_log(e, "train.log", &b);
    for (char *s = (char *)b.data; (s = strstr(s, "pid ")); s++)
        if (alive((pid_t)strtol(s + 4, NULL, 10)))
            fail_msg("process %.10s survived", s + 4);
    pd_buf_release(&b);
    e->ended = 0;
    node_when_ended(e->node, waiter(e)); /* a client that asks when all is over has its answer */
    while (!e->ended && !e->late)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_true(e->ended);
    e->ended = 0;
    finish(e);
}

static void wait_for_output(struct env *e, const char *log) {
    int up = 0;
    limit_60s(e);
    while (!up && !e->late) {
        struct pd_buf b;
        uv_run(&e->loop, UV_RUN_ONCE);
        read_log(e, log, &b);
        up = b.len > 0;
        pd_buf_release(&b);
    }
    assert_true(up);
}

static void gentle_end_is_quick(void **state) {
    (void)state;
    struct env *e =
        begin("", "trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    bind_roles(e, 0, 1);
    start(e, "trainer", 2);
    wait_for_output(e, "train.log");
    uint64_t t = pd_mono_ns();
    tell(e, WIRE_HD_END, 9, json_pack("{s:i}", "grace_ms", 60000));
    assert_int_equal(hear(e, WIRE_HD_END, 1)->req, 9);
    assert_true(pd_mono_ns() - t < 50000000000ull);
    assert_int_equal(msg_int(hear(e, WIRE_HD_EXITED, 1)->body, "exit_code", -1, 255, 99), 0);
    finish(e);
}

/* HD_STOP spares the pserver. HD_END ends it; without HD_END it ends a moment after the grace
 * period. */
static void a_stop_spares_the_pserver(void **state) {
    static const char *loop =
        "trap 'exit 7' TERM; sleep 1000 & echo up; while :; do sleep 0.05; done";
    (void)state;
    for (int told = 0; told <= 1; told++) {
        struct env *e =
            begin(loop, told ? loop : "trap '' TERM; echo up; while :; do sleep 0.05; done");
        bind_roles(e, 1, 1);
        start(e, "pserver", 2);
        start(e, "trainer", 3);
        wait_for_output(e, "server.log");
        wait_for_output(e, "train.log");
        tell(e, WIRE_HD_STOP, 9, json_pack("{s:i}", "grace_ms", told ? 60000 : 100));
        assert_true(msg_bool(hear(e, WIRE_HD_STOP, 1)->body, "trainer"));
        const json_t *first = hear(e, WIRE_HD_EXITED, 1)->body;
        assert_string_equal(msg_str(first, "role"), "trainer");
        assert_int_equal(msg_int(first, "signal", 0, 255, 99), told ? 0 : SIGKILL);
        for (int i = 0; i < 20 && told; i++) /* gives a wrong HD_ message time to come */
            uv_run(&e->loop, UV_RUN_ONCE);
        if (told) {
            assert_int_equal(e->said[e->n_said - 1].type,
                             WIRE_HD_EXITED); /* the trainer's: no message came after it */
            tell(e, WIRE_HD_END, 10, json_pack("{s:i}", "grace_ms", 60000));
        }
        const json_t *second = hear(e, WIRE_HD_EXITED, 2)->body;
        assert_string_equal(msg_str(second, "role"), "pserver");
        if (told) /* otherwise the pserver has little time, maybe too little on a slow machine */
            assert_int_equal(msg_int(second, "exit_code", -1, 255, 99), 7);
        finish(e);
    }
}

/* A restart: all processes end, ports are bound again, and the log continues after a line of the
 * agent. The final end completes the streams. */
static void restarted_processes(void **state) {
    (void)state;
    struct env *e =
        begin("", "printf 'try %s, no newline' $PADDLE_RESTART_COUNT; (setsid sleep 1000 &); "
                  "echo '{\"ev\":\"failed\",\"final\":true}' >&$PADDLE_EVENT_FD; exit 3");
    for (int k = 0; k < 3; k++) {
        tell(e, WIRE_HD_BIND, 1, json_pack("{s:b, s:s}", "trainer", 1, "addr", "127.0.0.1"));
        char count[8], note[40] = "";
        snprintf(count, sizeof count, "%d", k);
        if (k)
            snprintf(note, sizeof note, "restart %d of 2 after that", k);
        tell(e, WIRE_HD_START, 2,
             json_pack("{s:s, s:i, s:s, s:{s:s}}", "role", "trainer", "rank", 0, "note", note,
                       "env", "PADDLE_RESTART_COUNT", count));
        assert_int_equal(hear(e, WIRE_HD_START, k + 1)->err.code, 0);
        struct said *s = hear(e, WIRE_HD_EXITED, k + 1);
        assert_true(msg_bool(s->body, "final"));
        snprintf(note, sizeof note, "try %d, no newline", k);
        /* Only the lines of this attempt. */
        assert_string_equal(msg_str(s->body, "last_lines"), note);
        if (k == 2)
            break;
        tell(e, WIRE_HD_END, 9, json_pack("{s:i, s:b}", "grace_ms", 200, "restart", 1));
        hear(e, WIRE_HD_END, k + 1);
        assert_false(e->logs.f[LOG_TRAIN].complete);
        assert_int_equal(joins_with(e, "exited"), 0);
    }
    struct pd_buf b;
    read_log(e, "train.log", &b);
    assert_string_equal((char *)b.data,
                        "try 0, no newline\n--- restart 1 of 2 after that ---\ntry 1, no newline\n"
                        "--- restart 2 of 2 after that ---\ntry 2, no newline");
    pd_buf_release(&b);
    finish(e);
}

/* An end for a restart becomes the final end while it is in progress. */
static void a_restart_that_is_overtaken(void **state) {
    (void)state;
    struct env *e = begin("", "trap '' TERM; echo up; while :; do sleep 0.05; done");
    bind_roles(e, 0, 1);
    start(e, "trainer", 2);
    hear(e, WIRE_HD_START, 1);
    tell(e, WIRE_HD_END, 8, json_pack("{s:i, s:b}", "grace_ms", 60000, "restart", 1));
    tell(e, WIRE_HD_END, 9, json_pack("{s:i}", "grace_ms", 100));
    hear(e, WIRE_HD_END, 2);
    assert_true(e->logs.f[LOG_TRAIN].complete);
    start(e, "trainer", 3);
    assert_int_equal(hear(e, WIRE_HD_START, 2)->err.code, PD_ECANCELED);
    finish(e);
}

/* As the guardian does it: without a loop, after the agent's death. */
static void end_all_without_a_loop(void **state) {
    (void)state;
    int fd[2], go[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(pipe(go), 0);
    pid_t top = fork();
    if (!top) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        process_tree_become_subreaper();
        if (!fork()) {
            if (!fork()) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                pid_t self = getpid();
                (void)!write(fd[1], &self, sizeof self);
                pause();
            }
            _exit(0);
        }
        char c;
        (void)!read(go[0], &c, 1); /* the grandchild now ignores TERM */
        process_tree_end_all(100);
        _exit(waitpid(-1, NULL, 0) < 0 && errno == ECHILD ? 0 : 1);
    }
    pid_t deep;
    close(fd[1]);
    assert_int_equal(read(fd[0], &deep, sizeof deep), sizeof deep);
    assert_int_equal(write(go[1], "", 1), 1);
    int st;
    waitpid(top, &st, 0);
    assert_int_equal(st, 0);
    assert_false(alive(deep));
    close(fd[0]);
    close(go[0]);
    close(go[1]);
}

/* A process without a sub-reaper above it. It is found only by the marks in its environment and its
 * start time. */
static pid_t start_marked(char *const env[], int deaf, int *said) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (!pid) {
        char deaf_sh[] = "trap '' TERM; echo up; while :; do sleep 0.05; done",
             plain_sh[] = "echo up; exec sleep 1000";
        char sh[] = "sh", c[] = "-c";
        char *const argv[] = {sh, c, deaf ? deaf_sh : plain_sh, NULL};
        dup2(fd[1], 1);
        execve("/bin/sh", argv, env);
        _exit(127);
    }
    close(fd[1]);
    *said = fd[0];
    char b[3];
    assert_int_equal(read(fd[0], b, 3), 3);
    return pid;
}

/* J1 becomes an id of this process, so that no other run of this test has the same marks. */
static char *own(char out[64], const char *word) {
    const char *at = word ? strstr(word, "J1") : NULL;
    if (at)
        snprintf(out, 64, "%.*sJ%d.%s", (int)(at - word), word, (int)getpid(), at + 2);
    else
        snprintf(out, 64, "%s", word ? word : "");
    return out;
}

static void marked_processes_end(void **state) {
    static const struct {
        const char *name, *env[3];
        int deaf, late, ends;
    } rows[] = {
        {"early", {"PADDLE_JOB_ID=J1", "PADDLE_NODE_ID=2"}, 0, 0, 0},
        {"plain", {"PADDLE_JOB_ID=J1", "PADDLE_NODE_ID=2"}, 0, 1, 1},
        {"deaf", {"PADDLE_NODE_ID=2", "X=PADDLE_JOB_ID=J1", "PADDLE_JOB_ID=J1"}, 1, 1, 1},
        {"other job", {"PADDLE_JOB_ID=J11", "PADDLE_NODE_ID=2", "X=PADDLE_JOB_ID=J1"}, 0, 1, 0},
        {"other node", {"PADDLE_JOB_ID=J1", "PADDLE_NODE_ID=21"}, 0, 1, 0},
    };
    enum { N = sizeof rows / sizeof rows[0] };
    char mark[64], word[3][64];
    const char *const marks[] = {own(mark, "PADDLE_JOB_ID=J1"), "PADDLE_NODE_ID=2"};
    uint64_t since = 0;
    pid_t pid[N];
    int said[N];
    (void)state;
    for (size_t i = 0; i < N; i++) {
        char *const env[] = {own(word[0], rows[i].env[0]), own(word[1], rows[i].env[1]),
                             own(word[2], rows[i].env[2]), (char *)(uintptr_t) "PATH=/usr/bin:/bin",
                             NULL};
        char *const two[] = {env[0], env[1], env[3], NULL};
        pid[i] = start_marked(rows[i].env[2] ? env : two, rows[i].deaf, &said[i]);
        if (!rows[i].late) {
            since = process_tree_start_ticks(pid[i]) + 1;
            usleep(30000); /* a tick is 10 ms */
        }
    }
    assert_true(process_tree_end_marked(marks, 2, since, 200) >= 2);
    for (size_t i = 0; i < N; i++) {
        if (alive(pid[i]) == rows[i].ends)
            fail_msg("%s: %s", rows[i].name, rows[i].ends ? "is there" : "was ended");
        kill(pid[i], SIGKILL); /* our child, not reaped yet */
        waitpid(pid[i], NULL, 0);
        close(said[i]);
    }
    assert_int_equal(process_tree_end_marked(marks, 2, since, 200), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_survives_the_end),    cmocka_unit_test(gentle_end_is_quick),
        cmocka_unit_test(a_stop_spares_the_pserver),   cmocka_unit_test(restarted_processes),
        cmocka_unit_test(a_restart_that_is_overtaken), cmocka_unit_test(end_all_without_a_loop),
        cmocka_unit_test(marked_processes_end),
    };
    process_tree_become_subreaper();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
