/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_node.c - processes of a node, controlled by messages like the head's: ports,
 * environment, readiness, exits, last lines. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "agent/process/process_tree.h"
#include "pack/object/object.h"
#include "tests/support/c/agent_node.h"

static void environment_folder_and_events(void **state) {
    (void)state;
    setenv("PADDLE_STRAY", "1", 1);
    setenv("OPENBLAS_STRAY", "1", 1);
    setenv("SSH_CONNECTION", "1 2 3 4", 1);
    struct env *e = begin(
        "", "echo; env; pwd -P; echo to-stderr >&2; echo '{\"ev\":\"x\"}' >&$PADDLE_EVENT_FD; "
            "printf '{\"ev\":\"no newline\"}' >&$PADDLE_EVENT_FD; ls -l /proc/self/fd | wc -l; "
            "stat -c %a $PADDLE_KEY_FILE; echo oom $(cat /proc/self/oom_score_adj); "
            "touch output/model");
    unsetenv("PADDLE_STRAY");
    char own[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDONLY);
    assert_true(fd >= 0 && read(fd, own, sizeof own - 1) > 0);
    close(fd);
    bind_roles(e, 0, 1);
    setenv("PADDLE_STRAY", "1", 1);
    start(e, "trainer", 2);
    struct said *s = hear(e, WIRE_HD_EXITED, 1);
    unsetenv("PADDLE_STRAY");
    unsetenv("OPENBLAS_STRAY");
    unsetenv("SSH_CONNECTION");
    assert_int_equal(msg_int(s->body, "exit_code", -1, 255, 99), 0);
    assert_string_equal(msg_str(s->body, "role"), "trainer");
    struct pd_buf b;
    read_log(e, "train.log", &b);
    char lines[13][PATH_MAX];
    char *dir = e->paths.dir;
    int n = 0;
    line(lines[n++], "\nPADDLE_JOB_ID=J1\n");
    line(lines[n++], "\nPADDLE_NODE_ID=2\n");
    line(lines[n++], "\nTRAINING_ROLE=TRAINER\n");
    line(lines[n++], "\nPADDLE_TRAINERS_NUM=2\n");
    line(lines[n++], "\nPADDLE_KEY_FILE=%s/.agent/key\n", dir);
    line(lines[n++], "\nPADDLE_INIT_NUM_PASSES=7\n");
    line(lines[n++], "\nPADDLE_INIT_NUM_GRADIENT_SERVERS=2\n");
    line(lines[n++], "\nMY_NAME=my value\n");
    line(lines[n++], "\nOPENBLAS_CORETYPE=Haswell\n"); /* from [env], not inherited */
    line(lines[n++], "\nPADDLE_OUTPUT_DIR=%s/output\n", dir);
    line(lines[n++], "\nto-stderr\n");
    /* the kernel prefers the job's processes when memory is out; the agent stays as it was */
    line(lines[n++], "\noom %ld\n", strtol(own, NULL, 10) < 500 ? 500 : strtol(own, NULL, 10));
    char still[16] = "";
    fd = open("/proc/self/oom_score_adj", O_RDONLY);
    assert_true(fd >= 0 && read(fd, still, sizeof still - 1) > 0);
    close(fd);
    assert_string_equal(still, own);
    line(lines[n++], "\n%s/workspace\n", dir);
    for (int i = 0; i < n; i++)
        if (!strstr((char *)b.data, lines[i]))
            fail_msg("missing %s in %s", lines[i], (char *)b.data);
    assert_null(strstr((char *)b.data, "STRAY"));
    assert_null(strstr((char *)b.data, "SSH_CONNECTION"));
    assert_null(strstr((char *)b.data, "PADDLE_LISTEN_FDS"));
    /* "total", 0, 1, 2, 3 and the folder that ls itself opened: no descriptor of the agent is
     * inherited */
    assert_non_null(strstr((char *)b.data, "\n6\n600\n"));
    pd_buf_release(&b);
    read_log(e, "events", &b);
    assert_string_equal((char *)b.data, "{\"ev\":\"x\"}\n{\"ev\":\"no newline\"}");
    pd_buf_release(&b);
    char p[PATH_MAX];
    assert_int_equal(pd_fmt(p, sizeof p, "%s/output/model", dir), 0);
    assert_int_equal(access(p, F_OK), 0);
    finish(e);
}

/* The pid of a stopped child of this process; 0: none. */
static pid_t stopped_child(void) {
    siginfo_t i = {0};
    return waitid(P_ALL, 0, &i, WSTOPPED | WNOHANG | WNOWAIT) ? 0 : i.si_pid;
}

static void exits_are_told_with_last_lines(void **state) {
    static const struct {
        const char *name, *command;
        int code, sig;
        const char *last;
    } rows[] = {
        {"status", "echo one; echo two; exit 3", 3, 0, "one\ntwo\n"},
        {"signal", "echo bye; kill -SEGV $$", -1, SIGSEGV, "bye\n"},
        {"twenty lines", "seq 1 100; exit 1", 1, 0,
         "81\n82\n83\n84\n85\n86\n87\n88\n89\n90\n91\n92\n93\n94\n95\n96\n97\n98\n99\n100\n"},
        {"not utf-8", "printf 'a\\377b\\n'; exit 1", 1, 0,
         "a\xef\xbf\xbd"
         "b\n"},
        {"signal behind a shell", "sh -c 'kill -KILL $$'; exit $?", 137, 0, NULL},
        {"255 is no signal", "exit 255", 255, 0, ""},
        {"not found", "/no/such/program", 127, 0, NULL},
        {"pipe held by a child", "sleep 1000 & echo left; exit 4", 4, 0, "left\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct env *e = begin("", rows[i].command);
        bind_roles(e, 0, 1);
        start(e, "trainer", 2);
        struct said *s = hear(e, WIRE_HD_EXITED, 1);
        int code = (int)msg_int(s->body, "exit_code", -1, 255, 99),
            sig = (int)msg_int(s->body, "signal", 0, 64, 99);
        if (code != rows[i].code || sig != rows[i].sig ||
            (rows[i].last && strcmp(msg_str(s->body, "last_lines"), rows[i].last)))
            fail_msg("%s: code %d signal %d last '%s'", rows[i].name, code, sig,
                     msg_str(s->body, "last_lines"));
        finish(e);
    }
}

/* The report of an end needs no memory: it was made when the process started. */
static void an_exit_without_memory_is_told(void **state) {
    (void)state;
    struct env *e = begin("", "sleep 0.3; exit 7");
    bind_roles(e, 0, 1);
    start(e, "trainer", 2);
    pd_fault_arm("wire.put:1");
    struct said *s = hear(e, WIRE_HD_EXITED, 1);
    pd_fault_arm(NULL);
    assert_string_equal(msg_str(s->body, "role"), "trainer");
    assert_int_equal(msg_int(s->body, "exit_code", -1, 255, 99), 7);
    assert_string_equal(msg_str(s->body, "reason"), "out of memory while its end was reported");
    finish(e);
}

/* A stopped process keeps its connections, so its peers would wait for it. */
static void one_that_is_stopped_for_long_is_ended(void **state) {
    (void)state;
    for (int limit = 0; limit < 2; limit++) { /* without a limit the process may stay stopped */
        struct env *e = begin("", "echo before; kill -STOP $$; echo after; exit 5");
        e->spec.job.heartbeat_ms = limit ? 5000 : 0;
        bind_roles(e, 0, 1);
        start(e, "trainer", 2);
        pid_t pid = 0;
        for (int i = 0; i < 4000 && !pid; i++) { /* until the process has stopped itself */
            usleep(5000);
            uv_run(&e->loop, UV_RUN_NOWAIT);
            pid = stopped_child();
        }
        assert_true(pid > 0);
        for (int i = 0; i < 4; i++)
            node_tick(e->node, 1000);
        assert_int_equal(stopped_child(), pid);
        for (int i = 0; i < 2; i++)
            node_tick(e->node, 1000);
        if (!limit)
            kill(pid, SIGCONT);
        struct said *s = hear(e, WIRE_HD_EXITED, 1);
        assert_int_equal(msg_int(s->body, "signal", 0, 64, 99), limit ? SIGKILL : 0);
        const char *last = msg_str(s->body, "last_lines");
        if (limit &&
            !strstr(last, "was stopped (SIGSTOP) for 5 s and is ended (heartbeat_timeout)"))
            fail_msg("its log ends with '%s'", last);
        finish(e);
    }
}

static const char listener[] =
    "exec python3 -c 'import socket,os,time\n"
    "time.sleep(0.2)\n"
    "s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind((\"127.0.0.1\", int(os.environ[\"PADDLE_PORT\"]))); s.listen()\n"
    "while True: s.accept()'";

static void ready_when_the_port_accepts(void **state) {
    (void)state;
    struct env *e = begin(listener, "true");
    e->spec.job.ready_ms = 60000; /* python3 starts slowly on a busy machine */
    bind_roles(e, 1, 0);
    uint64_t t = pd_mono_ns();
    start(e, "pserver", 2);
    start(e, "pserver", 3); /* repeated after a broken connection: no second process starts */
    assert_int_equal(hear(e, WIRE_HD_START, 2)->err.code, 0);
    hear(e, WIRE_HD_READY, 1);
    assert_true(pd_mono_ns() - t > 200 * 1000000u);
    assert_int_equal(joins_with(e, "ready"), 1);
    finish(e);
}

static void not_ready_in_time(void **state) {
    (void)state;
    struct env *e = begin("sleep 1000", "true");
    bind_roles(e, 1, 0);
    start(e, "pserver", 2);
    struct said *s = hear(e, WIRE_HD_FAIL, 1);
    assert_non_null(strstr(msg_str(s->body, "reason"), "pserver 0 did not listen on port 21"));
    finish(e);
}

/* A script in place of paddle_worker in the cache; its path goes to `path`. */
static void put_worker(struct env *e, char path[PATH_MAX], const char *script) {
    memset(e->spec.worker, 'a', 64);
    assert_int_equal(pd_fmt(path, PATH_MAX, "%s/.paddlectl/bin", e->paths.root), 0);
    assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
    assert_int_equal(
        pd_fmt(path, PATH_MAX, "%s/.paddlectl/bin/worker-%s", e->paths.root, e->spec.worker), 0);
    assert_int_equal(pd_write_file_atomic(path, script, strlen(script), 0755, NULL), 0);
    assert_int_equal(object_hex_of_file(path, e->spec.worker_hash, NULL), 0);
}

/* Somebody has exchanged the worker in the cache, or could do it. It is not run. */
static void the_cached_worker_is_checked(void **state) {
    static const struct {
        const char *name, *deed, *refused; /* refused: NULL, the worker runs */
        int of_root;
    } rows[] = {
        {"untouched", ":", NULL, 0},
        {"other bytes, same size", "printf X | dd of=$W bs=1 seek=12 conv=notrunc status=none",
         "has other bytes than paddlectl's worker", 0},
        {"longer", "echo >>$W", "has other bytes than paddlectl's worker", 0},
        {"of a group", "chmod 775 $W", "can be written by other users", 0},
        {"a link", "mv $W $W.other && ln -s $W.other $W", "is a link", 0},
        {"a pipe", "rm $W && mkfifo $W", "is no regular file", 0},
        {"of another user", "chown 12345 $W", "belongs to another user", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].of_root && geteuid()) {
            print_message("skipped: %s: only root can give a file away\n", rows[i].name);
            continue;
        }
        struct env *e = begin("", "true");
        char path[PATH_MAX], command[PATH_MAX + 200];
        struct stat st;
        put_worker(e, path, "#!/bin/sh\necho ran\n");
        pd_fmt(command, sizeof command, "W=%s; %s", path, rows[i].deed);
        assert_int_equal(system(command), 0);
        bind_roles(e, 1, 0);
        start(e, "pserver", 2);
        const struct said *s = hear(e, WIRE_HD_START, 1);
        if (rows[i].refused ? !strstr(s->err.msg, rows[i].refused) : s->err.code)
            fail_msg("%s: %d %s", rows[i].name, s->err.code, s->err.msg);
        if (!rows[i].refused)
            hear(e, WIRE_HD_EXITED, 1);
        struct pd_buf b;
        read_log(e, "server.log", &b);
        assert_int_equal(strstr((char *)b.data, "ran") != NULL, !rows[i].refused);
        pd_buf_release(&b);
        assert_int_equal(lstat(path, &st) == 0, !rows[i].refused);
        finish(e);
    }
}

static void own_pserver_gets_bound_sockets(void **state) {
    (void)state;
    struct env *e = begin("", "true");
    char path[PATH_MAX], script[] = "#!/bin/sh\necho \"$0 $1 $PADDLE_LISTEN_FDS $PADDLE_PORT "
                                    "$PADDLE_INIT_PORT $TRAINING_ROLE\"\n"
                                    "ls -l /proc/self/fd | grep -c socket\n";
    put_worker(e, path, script);
    bind_roles(e, 1, 0);
    long long port =
        (long long)msg_int(hear(e, WIRE_HD_BIND, 1)->body, "pserver_port", 0, 65535, 0);
    start(e, "pserver", 2);
    struct said *s = hear(e, WIRE_HD_EXITED, 1);
    char want[PATH_MAX];
    snprintf(want, sizeof want, "pserver 4,5,6 %lld %lld PSERVER\n3\n", port, port);
    if (!strstr(msg_str(s->body, "last_lines"), want))
        fail_msg("%s", msg_str(s->body, "last_lines"));
    finish(e);
}

static void refusals(void **state) {
    (void)state;
    struct env *e = begin("", "true");
    start(e, "trainer", 1); /* no port is bound */
    assert_int_equal(hear(e, WIRE_HD_START, 1)->err.code, PD_EPROTO);
    bind_roles(e, 1, 1);
    start(e, "pserver", 2); /* there is no worker */
    struct said *s = hear(e, WIRE_HD_START, 2);
    assert_non_null(strstr(s->err.msg, "cannot run "));
    assert_non_null(strstr(s->err.msg, "No such file"));
    finish(e);
}

/* A peer that has the job's key sends HD_START. It may name only the variables of env_check, with
 * values of their form, and no command: the command is that of the job's description. */
static void a_peer_chooses_neither_variables_nor_the_command(void **state) {
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"LD_PRELOAD", "/tmp/evil.so"},
        {"LD_AUDIT", "/tmp/evil.so"},
        {"PATH", "/tmp/evil"},
        {"BASH_ENV", "/tmp/evil"},
        {"ENV", "/tmp/evil"},
        {"HOME", "/tmp/evil"},
        {"PYTHONPATH", "/tmp/evil"},
        {"MY_NAME", "not that of conf.ini"},
        {"PADDLE_KEY_FILE", "/tmp/evil"},
        {"PADDLE_INIT_SET", "trainer.save_dir=/etc"},
        {"POD_IP ", "127.0.0.1"},
        {"", "x"},
        {"POD_IP", "$(touch /tmp/evil)"},
        {"PADDLE_RESTART_COUNT", "1; touch /tmp/evil"},
        {"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1 --save_dir=/etc"},
        {"PADDLE_LOST_NODES", "node 1 (\033[2J)"},
    };
    enum { N = sizeof rows / sizeof rows[0] };
    (void)state;
    struct env *e = begin("", "echo mine; env; exit 0");
    char log[] = "/tmp/agent-node-log-XXXXXX";
    int fd = mkstemp(log);
    assert_true(fd >= 0);
    pd_log_init(&e->log, fd, -1, PD_INFO);
    bind_roles(e, 0, 1);
    for (int i = 0; i < N; i++) {
        tell(e, WIRE_HD_START, (uint64_t)i + 2,
             json_pack("{s:s, s:i, s:i, s:{s:s}}", "role", "trainer", "rank", 0, "trainers", 2,
                       "env", rows[i].name, rows[i].value));
        const struct said *s = &e->said[e->n_said - 1];
        if (s->type != WIRE_HD_START || s->err.code != PD_EPROTO ||
            !strstr(s->err.msg, rows[i].name))
            fail_msg("%s=%s is not refused: %s", rows[i].name, rows[i].value, s->err.msg);
        assert_int_equal(joins_with(e, "exited"), 0);
    }
    tell(e, WIRE_HD_START, 90,
         json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:[s], s:{}}", "role", "trainer", "rank", 0,
                   "trainers", 2, "command", "echo theirs", "trainer_command", "echo theirs",
                   "path", "/bin/echo", "argv", "theirs", "env"));
    assert_int_equal(msg_int(hear(e, WIRE_HD_EXITED, 1)->body, "exit_code", -1, 255, 99), 0);
    struct pd_buf b;
    read_log(e, "train.log", &b);
    assert_true(pd_starts_with((char *)b.data, "mine\n"));
    assert_null(strstr((char *)b.data, "theirs"));
    assert_null(strstr((char *)b.data, "/tmp/evil"));
    assert_non_null(strstr((char *)b.data, "\nMY_NAME=my value\n"));
    pd_buf_release(&b);
    pd_buf_init(&b);
    assert_int_equal(pd_read_file(log, 1 << 20, &b, NULL), 0);
    int lines = 0;
    for (const char *s = (char *)b.data; (s = strstr(s, "refused: HD_START")); s++)
        lines++;
    assert_int_equal(lines, N);
    pd_buf_release(&b);
    finish(e);
    close(fd);
    unlink(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_folder_and_events),
        cmocka_unit_test(an_exit_without_memory_is_told),
        cmocka_unit_test(exits_are_told_with_last_lines),
        cmocka_unit_test(ready_when_the_port_accepts),
        cmocka_unit_test(one_that_is_stopped_for_long_is_ended),
        cmocka_unit_test(not_ready_in_time),
        cmocka_unit_test(own_pserver_gets_bound_sockets),
        cmocka_unit_test(the_cached_worker_is_checked),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_peer_chooses_neither_variables_nor_the_command),
    };
    process_tree_become_subreaper();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
