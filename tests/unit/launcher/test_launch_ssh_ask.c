/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_ssh_ask.c - prompts to a person: passwords, passphrases, questions. The test plays
 * the person at one end of a pseudo-terminal. The process that logs in is a child, whose
 * controlling terminal is the other end. */
#include "tests/support/c/ssh_run.h"
#include "tests/support/c/ssh_server.h"

#include <poll.h>
#include <pty.h>
#include <termios.h>

enum { N_MAX = 6, SAY_MAX = 8 };

/* The child's task. */
struct job {
    int port, n; /* n sessions to 127.0.0.1, ... */
    const char *key, *config, *jump;
    int accept_new, handles_signals;
};

struct line {
    const char *expect, *say; /* say NULL: no answer, wait for the next prompt */
    int echo;
    int after_ms; /* the delay; 0: 100 ms. The loop continues meanwhile */
};

static int result_fd;

static void on_int(uv_signal_t *h, int signum) {
    struct run *runs = h->data;
    (void)signum;
    for (int i = 0; i < N_MAX; i++)
        if (runs[i].t && !runs[i].closed)
            transport_close(runs[i].t);
    uv_close((uv_handle_t *)h, NULL);
}

static void on_tick(uv_timer_t *t) { ++*(int *)t->data; }

/* Runs in the child. At the end it prints a line per session, "in" or the reason of a failure, and
 * then the loop's ticks. */
static void work(const struct job *job) {
    static struct run runs[N_MAX];
    uv_loop_t loop;
    uv_signal_t interrupted;
    uv_timer_t ticker;
    int ticks = 0;
    struct ssh_pool *pool = NULL;
    struct pd_err err = {0};
    struct ssh_opts o = {.identity_file = job->key,
                         .config = job->config ? job->config : "/dev/null",
                         .accept_new = job->accept_new,
                         .policy_named = 1,
                         .connect_timeout_ms = 5000,
                         .fanout = 64,
                         .proxy_jump = job->jump};
    char known[200], addr[N_MAX][20];
    snprintf(known, sizeof known, "%s/known-%d", dir, job->port);
    o.known_hosts = job->accept_new ? known : known_file;
    uv_loop_init(&loop);
    uv_timer_init(&loop, &ticker);
    ticker.data = &ticks;
    uv_timer_start(&ticker, on_tick, 20, 20);
    uv_unref((uv_handle_t *)&ticker);
    if (job->handles_signals) {
        uv_signal_init(&loop, &interrupted);
        interrupted.data = runs;
        uv_signal_start(&interrupted, on_int, SIGINT);
        uv_unref((uv_handle_t *)&interrupted);
    }
    if (ssh_pool_new(&pool, &loop, &o, &err))
        dprintf(result_fd, "pool: %s\n", err.msg);
    for (int i = 0; i < job->n && !err.code; i++) {
        /* Each sshd of the fixture has one address; the server of this test has all of them. */
        snprintf(addr[i], sizeof addr[i], "127.0.0.%d", job->accept_new ? i + 1 : 1);
        struct host h = {.addr = addr[i], .port = job->port, .user = fixture.v[0].user};
        if (ssh_pool_open(&runs[i].t, pool, &h, "echo hi", &events, &runs[i], &err))
            dprintf(result_fd, "open: %s\n", err.msg);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < job->n; i++)
        dprintf(result_fd, "%s\n",
                runs[i].closed != 1            ? "lost"
                : strcmp(runs[i].text, "hi\n") ? runs[i].why.msg
                                               : "in");
    ssh_pool_free(pool);
    uv_close((uv_handle_t *)&ticker, NULL);
    if (job->handles_signals && !uv_is_closing((uv_handle_t *)&interrupted))
        uv_close((uv_handle_t *)&interrupted, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    dprintf(result_fd, "ticks %d%s\n", ticks, uv_loop_close(&loop) ? " AND HANDLES ARE LEFT" : "");
}

struct talk {
    char screen[8000], result[8000];
    size_t n;
    int status, echo_at_end;
};

static int echoes(int master) {
    struct termios t;
    return tcgetattr(master, &t) ? -1 : (t.c_lflag & ECHO) != 0;
}

static void see(struct talk *t, int master, int ms) {
    struct pollfd p = {.fd = master, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return;
    ssize_t k = read(master, t->screen + t->n, sizeof t->screen - 1 - t->n);
    if (k > 0)
        t->n += (size_t)k;
    t->screen[t->n] = 0;
}

static void converse(struct talk *t, const struct job *job, const struct line *lines,
                     int with_terminal) {
    int master = -1, out[2];
    memset(t, 0, sizeof *t);
    assert_int_equal(pipe(out), 0);
    pid_t pid = with_terminal ? forkpty(&master, NULL, NULL, NULL) : fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (!with_terminal)
            setsid();
        close(out[0]);
        result_fd = out[1];
        work(job);
        _exit(0);
    }
    close(out[1]);
    size_t from = 0;
    for (const struct line *l = lines; with_terminal && l && l->expect; l++) {
        uint64_t end = pd_mono_ns() + 60 * 1000000000ull;
        char *at;
        while (!(at = strstr(t->screen + from, l->expect)) && pd_mono_ns() < end)
            see(t, master, 100);
        if (!at)
            fail_msg("no '%s' on the screen: '%s'", l->expect, t->screen);
        from = (size_t)(at - t->screen) + strlen(l->expect);
        if (!l->say)
            continue;
        usleep(l->after_ms ? (unsigned)l->after_ms * 1000 : 100000);
        assert_int_equal(echoes(master), l->echo);
        assert_int_equal(write(master, l->say, strlen(l->say)), strlen(l->say));
    }
    size_t n = 0;
    for (ssize_t k; n + 1 < sizeof t->result &&
                    (k = read(out[0], t->result + n, sizeof t->result - 1 - n)) > 0;)
        n += (size_t)k;
    close(out[0]);
    assert_int_equal(waitpid(pid, &t->status, 0), pid);
    t->echo_at_end = with_terminal ? echoes(master) : 1;
    if (with_terminal) {
        see(t, master, 0);
        close(master);
    }
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)); s += strlen(what))
        n++;
    return n;
}

/* --- servers --- */

static struct server servers[8];
static char host_key[200], locked_key[200], batch_config[200], askpass[200], key_config[200];

static int setup_ask(void **state) {
    char cmd[2000];
    if (setup(state))
        return -1;
    if (no_sshd[0])
        return 0;
    snprintf(host_key, sizeof host_key, "%s/host_key", dir);
    snprintf(locked_key, sizeof locked_key, "%s/locked_key", dir);
    snprintf(batch_config, sizeof batch_config, "%s/batch", dir);
    snprintf(key_config, sizeof key_config, "%s/keys", dir);
    snprintf(askpass, sizeof askpass, "%s/askpass", dir);
    snprintf(cmd, sizeof cmd,
             "cd %s && ssh-keygen -q -t ed25519 -N '' -f host_key && ssh-keygen -q -t ed25519 -N "
             "'open up' -f locked_key && "
             "cat locked_key.pub >>fx/authorized_keys && printf 'BatchMode yes\\n' >batch && "
             "printf 'IdentityFile %s\\nIdentityFile %s\\n' >keys && "
             "printf '#!/bin/sh\\necho sesame\\n' >askpass && chmod 700 askpass",
             dir, locked_key, key_file);
    if (system(cmd))
        return -1;
    for (int k = SERVER_PASSWORD; k <= SERVER_IMPATIENT; k++)
        if ((servers[k] = server_start(host_key, (enum server_kind)k)).pid < 0)
            return -1;
    setenv("HOME", dir, 1);
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    unsetenv("SSH_ASKPASS");
    return 0;
}

static int teardown_ask(void **state) {
    for (int k = SERVER_PASSWORD; k <= SERVER_IMPATIENT; k++)
        server_stop(&servers[k]);
    return teardown(state);
}

#define SAY(prompt, answer) \
    { .expect = prompt, .say = answer }
#define FIRST "Password for "
#define AGAIN "says that is wrong. Password for "

static const struct row {
    const char *name;
    int server; /* -1: the fixture's sshd */
    int n;
    struct line lines[SAY_MAX];
    int in, prompts;
    const char *say; /* expected in the result */
    int locked, key; /* use the locked key; use the fixture's key */
    int signal;      /* the signal that ends the child; 0: none */
    int handles_signals;
} rows[] = {
    {.name = "a password, once for all hosts",
     .server = SERVER_PASSWORD,
     .n = 6,
     .lines = {SAY(FIRST, "sesame\n")},
     .in = 6,
     .prompts = 1},
    {.name = "a wrong one, then the right one",
     .server = SERVER_PASSWORD,
     .n = 4,
     .lines = {SAY(FIRST, "wrong\n"), SAY(AGAIN, "sesame\n")},
     .in = 4,
     .prompts = 2},
    {.name = "three wrong ones",
     .server = SERVER_PASSWORD,
     .n = 3,
     .lines = {SAY(FIRST, "a\n"), SAY(AGAIN, "b\n"), SAY(AGAIN, "c\n")},
     .prompts = 3,
     .say = "tried: password, password, password; the server offers: password"},
    {.name = "a question for the password",
     .server = SERVER_QUESTION,
     .n = 4,
     .lines = {SAY(FIRST, "nonsense\n"), SAY(AGAIN, "sesame\n")},
     .in = 4,
     .prompts = 2},
    {.name = "a code as well, from each host",
     .server = SERVER_CODE,
     .n = 2,
     .lines = {SAY(FIRST, "sesame\n"), SAY(") Verification code: ", "4711\n"),
               SAY(") Verification code: ", "4711\n")},
     .in = 2,
     .prompts = 1},
    {.name = "a question with echo",
     .server = SERVER_COLOUR,
     .n = 1,
     .lines = {{.expect = ") Favourite colour: ", .say = "blue\n", .echo = 1}},
     .in = 1},
    {.name = "a key, then a password",
     .server = SERVER_KEY_THEN_PASSWORD,
     .n = 2,
     .key = 1,
     .lines = {SAY(FIRST, "sesame\n")},
     .in = 2,
     .prompts = 1},
    {.name = "a slow answer to an impatient server",
     .server = SERVER_IMPATIENT,
     .n = 2,
     .lines = {{.expect = FIRST, .say = "sesame\n", .after_ms = 1700}},
     .in = 2,
     .prompts = 1},
    {.name = "a passphrase, once for all hosts",
     .server = -1,
     .n = 6,
     .locked = 1,
     .lines = {SAY("Passphrase for ~/locked_key: ", "open up\n")},
     .in = 6},
    {.name = "a wrong passphrase",
     .server = -1,
     .n = 2,
     .locked = 1,
     .lines = {SAY("Passphrase for ~/locked_key: ", "no\n"),
               SAY("That was wrong. Passphrase for", "open up\n")},
     .in = 2},
    {.name = "no passphrase",
     .server = -1,
     .n = 2,
     .locked = 1,
     .lines = {SAY("Passphrase for", "\n")},
     .say = "locked_key (locked, and no passphrase was given); the server offers: publickey"},
    {.name = "three wrong passphrases",
     .server = -1,
     .n = 1,
     .locked = 1,
     .lines = {SAY("Passphrase for", "1\n"), SAY("Passphrase for", "2\n"),
               SAY("Passphrase for", "3\n")},
     .say = "wrong passphrase, 3 times"},
    {.name = "a locked key is not asked for when another one does",
     .server = -1,
     .n = 2,
     .locked = 2,
     .lines = {{.expect = NULL}},
     .in = 2},
    {.name = "end of file",
     .server = SERVER_PASSWORD,
     .n = 2,
     .lines = {SAY(FIRST, "\004")},
     .prompts = 1,
     .say = "; no answer was given"},
    {.name = "Ctrl-C",
     .server = SERVER_PASSWORD,
     .n = 2,
     .lines = {SAY(FIRST, "\003")},
     .prompts = 1,
     .signal = SIGINT},
    {.name = "Ctrl-C, handled by the program",
     .server = SERVER_PASSWORD,
     .n = 2,
     .lines = {SAY(FIRST, "\003")},
     .prompts = 1,
     .handles_signals = 1,
     .say = "ticks "},
};

static void test_asking(void **state) {
    (void)state;
    need_sshd();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct job job = {.port = r->server < 0 ? fixture.v[0].port : servers[r->server].port,
                          .n = r->n,
                          .accept_new = r->server >= 0,
                          .key = r->locked == 1 ? locked_key
                                 : r->key       ? key_file
                                                : NULL,
                          .handles_signals = r->handles_signals,
                          .config = r->locked == 2 ? key_config : NULL};
        static struct talk t;
        converse(&t, &job, r->lines, 1);
        if (count(t.result, "in\n") != r->in || count(t.screen, FIRST) != r->prompts ||
            !t.echo_at_end || strstr(t.screen, "sesame") || strstr(t.screen, "open up") ||
            strstr(t.result, "sesame") || (r->say && !strstr(t.result, r->say)) ||
            strstr(t.result, "LEFT") ||
            (r->signal ? !WIFSIGNALED(t.status) || WTERMSIG(t.status) != r->signal : t.status != 0))
            fail_msg("%s: status %d, echo %d, screen '%s', result '%s'", r->name, t.status,
                     t.echo_at_end, t.screen, t.result);
        int ticks = -1;
        const char *s = strstr(t.result, "ticks ");
        if (s)
            sscanf(s, "ticks %d", &ticks);
        if (r->lines[0].say && !r->signal && ticks < 3) /* a prompt takes at least 100 ms */
            fail_msg("%s: the loop stood still: %d ticks", r->name, ticks);
    }
}

static void test_nobody_to_ask(void **state) {
    (void)state;
    need_sshd();
    static struct talk t;
    struct job job = {.port = servers[SERVER_PASSWORD].port, .n = 2, .accept_new = 1};
    converse(&t, &job, NULL, 0);
    assert_int_equal(count(t.result, "tried: nothing (no key file, no ssh agent); the server "
                                     "offers: password; there is no terminal to ask on"),
                     2);
    job.config = batch_config;
    converse(&t, &job, NULL, 1);
    assert_int_equal(count(t.result, "no password was asked for: BatchMode is on"), 2);
    /* A program asks instead of the terminal. */
    job.config = NULL;
    setenv("SSH_ASKPASS", askpass, 1);
    converse(&t, &job, NULL, 0);
    assert_int_equal(count(t.result, "there is no terminal to ask on"), 2);
    setenv("SSH_ASKPASS_REQUIRE", "force", 1);
    converse(&t, &job, NULL, 0);
    assert_int_equal(count(t.result, "in\n"), 2);
    unsetenv("SSH_ASKPASS_REQUIRE");
    unsetenv("SSH_ASKPASS");
}

/* A jump host's password is not sent to the hosts behind it, and their passwords are not sent to
 * the jump host. */
static void test_password_of_a_jump_host(void **state) {
    (void)state;
    need_sshd();
    static struct talk t;
    char jump[100], prompt[200];
    snprintf(jump, sizeof jump, "someone@127.0.0.1:%d", servers[SERVER_PASSWORD].port);
    snprintf(prompt, sizeof prompt, "Password for someone@127.0.0.1: ");
    struct job job = {
        .port = fixture.v[0].port, .n = 2, .accept_new = 1, .key = key_file, .jump = jump};
    struct line lines[] = {SAY(prompt, "wrong\n"),
                           SAY("That was wrong. Password for someone@127.0.0.1: ", "sesame\n"),
                           {.expect = NULL}};
    converse(&t, &job, lines, 1);
    /* that server does not forward connections */
    if (count(t.result, "cannot connect to 127.0.0.") != 2)
        fail_msg("'%s'", t.result);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asking),
        cmocka_unit_test(test_nobody_to_ask),
        cmocka_unit_test(test_password_of_a_jump_host),
    };
    return cmocka_run_group_tests(tests, setup_ask, teardown_ask);
}
