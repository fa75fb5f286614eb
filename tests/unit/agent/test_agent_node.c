/* test_agent_node.c - processes of a node, controlled by messages like the head's: ports,
 * environment, readiness, exits, last lines. No process survives the end, even if it tries to
 * escape. */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "agent/core/msg.h"
#include "agent/process/node.h"
#include "agent/process/process_tree.h"
#include "pack/object/object.h"
#include "wire/msg.h"

struct said {
    uint16_t type;
    uint64_t req;
    json_t *body;
    struct pd_err err;
};

struct env {
    uv_loop_t loop;
    uv_signal_t chld;
    uv_timer_t limit;
    struct node_paths paths;
    struct spec spec;
    struct logs logs;
    struct pd_log log;
    struct ag_node *node;
    struct said said[32];
    int n_said, ended, late, ticks;
};

static void on_send(void *arg, uint16_t type, uint64_t req, json_t *body) {
    struct env *e = arg;
    assert_true(e->n_said < 32);
    assert_non_null(body);
    e->said[e->n_said++] = (struct said){.type = type, .req = req, .body = body};
}

static void on_refuse(void *arg, uint16_t type, uint64_t req, const struct pd_err *err) {
    struct env *e = arg;
    e->said[e->n_said++] = (struct said){.type = type, .req = req, .err = *err};
}

static void on_grew(void *arg) { (void)arg; }
static void on_child(uv_signal_t *h, int sig) {
    (void)sig;
    node_reap(((struct env *)h->data)->node);
}
/* Ticks, so that UV_RUN_ONCE also returns after the callback of another timer. */
static void on_limit(uv_timer_t *t) {
    struct env *e = t->data;
    e->late = ++e->ticks > 12000;
}
static void limit_60s(struct env *e) {
    e->ticks = 0;
    uv_timer_start(&e->limit, on_limit, 5, 5);
}
static void on_ended(void *arg) { ((struct env *)arg)->ended = 1; }

static struct env *begin(const char *pserver_command, const char *trainer_command) {
    struct env *e = calloc(1, sizeof *e);
    char root[] = "/tmp/agent-node-XXXXXX";
    static const struct node_io io = {on_send, on_refuse, on_grew, NULL};
    struct pd_err err = {0};
    assert_non_null(mkdtemp(root));
    assert_int_equal(node_paths_init(&e->paths, root, "J1", &err), 0);
    assert_int_equal(node_paths_make_job(&e->paths, 2, &err), 0);
    json_t *setup = json_pack(
        "{s:s, s:i, s:i, s:{s:b, s:s, s:s, s:[i], s:[i,i], s:i, s:i, s:i, s:{s:s,s:s}, s:{s:s}, "
        "s:i}}",
        "job", "J1", "node", 2, "n_nodes", 3, "spec", "attached", 1, "pserver_command",
        pserver_command, "trainer_command", trainer_command, "pserver_nodes", 2, "trainer_nodes", 1,
        2, "port", 21000, "ports_num", 2, "ports_num_for_sparse", 1, "env", "MY_NAME", "my value",
        "OPENBLAS_CORETYPE", "Haswell", "train", "num-passes", "7", "ready_ms", 2000);
    assert_non_null(setup);
    assert_int_equal(spec_parse(&e->spec, setup, "J1", &err), 0);
    json_decref(setup);
    char ws[PATH_MAX];
    assert_int_equal(pd_fmt(ws, sizeof ws, "%s/workspace", e->paths.dir), 0);
    assert_int_equal(mkdir(ws, 0755), 0);
    uint8_t key[32] = {1, 2, 3};
    if (node_lay_out(&e->paths, &e->spec, key, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(logs_open(&e->logs, e->paths.dir, 0, &err), 0);
    pd_log_init(&e->log, -1, -1, PD_INFO);
    uv_loop_init(&e->loop);
    uv_signal_init(&e->loop, &e->chld);
    uv_timer_init(&e->loop, &e->limit);
    e->chld.data = e->limit.data = e;
    uv_signal_start(&e->chld, on_child, SIGCHLD);
    assert_int_equal(
        node_new(&e->node, &e->loop, &e->paths, &e->spec, &e->logs, &e->log, &io, e, &err), 0);
    return e;
}

/* Runs the loop until `type` was sent for the n-th time, or fails after 60 s. */
static struct said *hear(struct env *e, uint16_t type, int nth) {
    limit_60s(e);
    for (;;) {
        int seen = 0;
        for (int i = 0; i < e->n_said; i++)
            if (e->said[i].type == type && ++seen == nth)
                return &e->said[i];
        if (e->late)
            fail_msg("%s did not come", wire_msg_name(type));
        uv_run(&e->loop, UV_RUN_ONCE);
    }
}

static void tell(struct env *e, uint16_t type, uint64_t req, json_t *body) {
    node_message(e->node, type, req, body);
    json_decref(body);
}

static void finish(struct env *e) {
    node_end(e->node, NODE_END, 100, on_ended, e);
    limit_60s(e);
    while (!e->ended && !e->late)
        uv_run(&e->loop, UV_RUN_ONCE);
    assert_true(e->ended);
    siginfo_t si;
    assert_true(waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD);
    assert_true(e->logs.f[LOG_TRAIN].complete);
    node_free(e->node);
    uv_close((uv_handle_t *)&e->chld, NULL);
    uv_close((uv_handle_t *)&e->limit, NULL);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&e->loop), 0);
    for (int i = 0; i < e->n_said; i++)
        json_decref(e->said[i].body);
    logs_close(&e->logs);
    spec_release(&e->spec);
    pd_rm_tree(e->paths.root, NULL);
    free(e);
}

static void bind_roles(struct env *e, int pserver, int trainer) {
    tell(e, WIRE_HD_BIND, 1,
         json_pack("{s:b, s:b, s:s}", "pserver", pserver, "trainer", trainer, "addr", "127.0.0.1"));
    struct said *s = hear(e, WIRE_HD_BIND, 1);
    if (s->err.code)
        fail_msg("%s", s->err.msg);
    assert_int_equal(msg_int(s->body, "pserver_port", 0, 65535, 0) != 0, pserver);
}

/* The number of elements of an array in the HD_JOIN that the node would send now. */
static size_t joins_with(struct env *e, const char *key) {
    struct hd_join join = {0};
    node_describe(e->node, &join);
    json_t *o = wire_put(&wire_hd_join, &join);
    const size_t n = json_array_size(json_object_get(o, key));
    json_decref(o);
    json_decref(join.ready);
    json_decref(join.exited);
    return n;
}

static void start(struct env *e, const char *role, uint64_t req) {
    tell(e, WIRE_HD_START, req,
         json_pack("{s:s, s:i, s:i, s:{s:s, s:s}}", "role", role, "rank", 0, "trainers", 2, "env",
                   "PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:21000", "POD_IP", "127.0.0.1"));
}

#define line(out, ...) assert_int_equal(pd_fmt(out, PATH_MAX, __VA_ARGS__), 0)

static void read_log(struct env *e, const char *name, struct pd_buf *b) {
    char p[PATH_MAX];
    assert_int_equal(pd_fmt(p, sizeof p, "%s/log/%s", e->paths.dir, name), 0);
    pd_buf_init(b);
    assert_int_equal(pd_read_file(p, 1 << 20, b, NULL), 0);
}

/* --- */

static void environment_folder_and_events(void **state) {
    (void)state;
    setenv("PADDLE_STRAY", "1", 1);
    setenv("OPENBLAS_STRAY", "1", 1);
    setenv("SSH_CONNECTION", "1 2 3 4", 1);
    struct env *e = begin(
        "", "echo; env; pwd -P; echo to-stderr >&2; echo '{\"ev\":\"x\"}' >&$PADDLE_EVENT_FD; "
            "printf '{\"ev\":\"no newline\"}' >&$PADDLE_EVENT_FD; ls -l /proc/self/fd | wc -l; "
            "stat -c %a $PADDLE_KEY_FILE; touch output/model");
    unsetenv("PADDLE_STRAY");
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
    char lines[12][PATH_MAX];
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
    node_end(e->node, NODE_END, 300, on_ended, e);
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
    static const char *const marks[] = {"PADDLE_JOB_ID=J1", "PADDLE_NODE_ID=2"};
    uint64_t since = 0;
    pid_t pid[N];
    int said[N];
    (void)state;
    for (size_t i = 0; i < N; i++) {
        char *const env[] = {(char *)(uintptr_t)rows[i].env[0], (char *)(uintptr_t)rows[i].env[1],
                             (char *)(uintptr_t)rows[i].env[2],
                             (char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
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
        cmocka_unit_test(nothing_survives_the_end),
        cmocka_unit_test(gentle_end_is_quick),
        cmocka_unit_test(a_stop_spares_the_pserver),
        cmocka_unit_test(restarted_processes),
        cmocka_unit_test(a_restart_that_is_overtaken),
        cmocka_unit_test(end_all_without_a_loop),
        cmocka_unit_test(marked_processes_end),
    };
    process_tree_become_subreaper();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
