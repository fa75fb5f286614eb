/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_ssh.c - commands over ssh, and the bootstrap of an agent, with real sshds
 * (tests/support/sshd-fixture). */
#include "tests/support/c/skip.h"
#include "tests/support/c/ssh_run.h"

#include <dlfcn.h>
#include <libssh/libssh.h>
#include <libssh/server.h> /* ssh_send_keepalive */
#include <poll.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "launcher/link/link.h"
#include "pack/object/object.h"

static void test_commands(void **state) {
    (void)state;
    need_sshd();
    static const struct {
        const char *name, *command, *text, *why;
        size_t got, send;
        int code;
    } rows[] = {
        {"output", "echo hello", "hello\n", "the remote command ended with exit status 0", 6, 0,
         PD_ECLOSED},
        {"status and stderr", "echo oh dear >&2; exit 7", "",
         "the remote command ended with exit status 7: oh dear", 0, 0, PD_ECLOSED},
        {"signal", "kill -TERM $$", "", "the remote command was ended by signal TERM", 0, 0,
         PD_ECLOSED},
        {"much output", "head -c 20000000 /dev/zero", NULL, NULL, 20000000, 0, PD_ECLOSED},
        {"much on stderr does not stall", "head -c 10000000 /dev/zero >&2; echo done", "done\n",
         NULL, 5, 0, PD_ECLOSED},
        {"much input", "head -c 20000000 | wc -c", "20000000\n", NULL, 9, 20000000, PD_ECLOSED},
        {"both at once", "head -c 8000000", NULL, NULL, 8000000, 8000000, PD_ECLOSED},
        {"no such command", "/does/not/exist", NULL, NULL, 0, 0, PD_ECLOSED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run r = {.to_send = rows[i].send};
        run(&r, rows[i].command);
        if (r.got != rows[i].got || r.why.code != rows[i].code ||
            (rows[i].text && strcmp(r.text, rows[i].text)) ||
            (rows[i].why && strcmp(r.why.msg, rows[i].why)))
            fail_msg("%s: %zu bytes, '%.50s', %d '%s'", rows[i].name, r.got, r.text, r.why.code,
                     r.why.msg);
    }
}

/* The functions that `paddlectl exec` needs: separate outputs, the end of stdin, the exit status.
 * Run on a host and on this machine. */
static void test_plain_commands(void **state) {
    (void)state;
    static const struct {
        const char *name, *command, *out, *err, *signal;
        size_t send, got, got_err;
        int status;
    } rows[] = {
        {"apart", "echo out; echo err >&2; exit 3", "out\n", "err\n", "", 0, 4, 4, 3},
        {"an empty stdin", "cat; echo end", "end\n", "", "", 0, 4, 0, 0},
        {"stdin to its end", "wc -c; exit 1", "3000000\n", "", "", 3000000, 8, 0, 1},
        {"a signal", "echo x; kill -TERM $$", "x\n", "", "TERM", 0, 2, 0, -1},
        {"much of both", "head -c 5000000 /dev/zero; head -c 6000000 /dev/zero >&2", NULL, NULL, "",
         0, 5000000, 6000000, 0},
        {"not found", "/does/not/exist", "", NULL, "", 0, 0, SIZE_MAX, 127},
        {"it ends without reading", "exit 5", "", "", "", 30000000, 0, 0, 5},
    };
    struct host local = {.local = 1};
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        size_t k = i / 2;
        struct run r = {.eof = 1, .to_send = rows[k].send};
        struct ssh_opts o = options();
        if (!(i & 1) && no_sshd[0])
            continue;
        run_with(&r, &o, i & 1 ? &local : &fixture.v[0], rows[k].command);
        if (r.got != rows[k].got || (r.got_err != rows[k].got_err && rows[k].got_err != SIZE_MAX) ||
            r.status != rows[k].status || strcmp(r.signal, rows[k].signal) ||
            r.why.code != PD_ECLOSED || (rows[k].out && strcmp(r.text, rows[k].out)) ||
            (rows[k].err && strcmp(r.err_text, rows[k].err)))
            fail_msg("%s (%s): %zu+%zu bytes, '%.50s', '%.50s', status %d, signal '%s', %d '%s'",
                     rows[k].name, i & 1 ? "local" : "ssh", r.got, r.got_err, r.text, r.err_text,
                     r.status, r.signal, r.why.code, r.why.msg);
    }
}

static void test_refusals(void **state) {
    (void)state;
    need_sshd();
    char other_key[200], wrong_known[200], empty_known[200], cmd[2000];
    snprintf(other_key, sizeof other_key, "%s/other_key", dir);
    snprintf(wrong_known, sizeof wrong_known, "%s/wrong_known", dir);
    snprintf(empty_known, sizeof empty_known, "%s/empty_known", dir);
    snprintf(cmd, sizeof cmd,
             "ssh-keygen -q -t ed25519 -N '' -f %s && : > %s && "
             "awk -v k=\"$(cut -d' ' -f2 %s.pub)\" '{ $3 = k; print }' %s > %s",
             other_key, empty_known, other_key, known_file, wrong_known);
    assert_int_equal(system(cmd), 0);
    struct host *h = &fixture.v[0];
    struct host gone = {.addr = h->addr, .port = 1, .user = h->user};
    struct host nowhere = {
        .addr = (char *)"no-such-host.invalid", .port = h->port, .user = h->user};
    const struct {
        const char *name, *key, *known, *say;
        const struct host *host;
        int accept_new, code;
    } rows[] = {
        {"wrong user key", other_key, known_file, "authentication failed for user", h, 0, PD_EAUTH},
        {"unknown host key", key_file, empty_known, "is not in ", h, 0, PD_EHOST},
        {"changed host key", key_file, wrong_known, ":1: HOST KEY CHANGED: [127.0.0.1]:", h, 0,
         PD_EHOST},
        {"changed host key, accept-new", key_file, wrong_known,
         ":1: HOST KEY CHANGED: [127.0.0.1]:", h, 1, PD_EHOST},
        {"refused", key_file, known_file, "cannot connect to port 1: Connection refused", &gone, 0,
         PD_EHOST},
        {"no such name", key_file, known_file, "cannot resolve the name", &nowhere, 0, PD_EHOST},
        {"unknown host key, accept-new", key_file, empty_known, "exit status 0", h, 1, PD_ECLOSED},
        {"known now", key_file, empty_known, "exit status 0", h, 0, PD_ECLOSED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run r = {0};
        struct ssh_opts o = options();
        o.identity_file = rows[i].key;
        o.known_hosts = rows[i].known;
        o.accept_new = rows[i].accept_new;
        run_with(&r, &o, rows[i].host, "true");
        if (r.why.code != rows[i].code || !strstr(r.why.msg, rows[i].say))
            fail_msg("%s: %d '%s'", rows[i].name, r.why.code, r.why.msg);
    }
}

static void test_close_early(void **state) {
    (void)state;
    need_sshd();
    struct run a = {.close_on_open = 1}, b = {.close_at_bytes = 1};
    run(&a, "sleep 100");
    assert_int_equal(a.why.code, 0);
    run(&b, "echo x; sleep 100");
    assert_int_equal(b.why.code, 0);
    assert_int_equal(b.got, 2);
}

/* Regression test. Every libssh call reads the bytes that have arrived. The last call before the
 * loop waits looks at stderr. Bytes of stdout that came during that call were noticed only ten
 * seconds later, by the keepalive request; this happened in one of twenty dispatches. Here that
 * call waits until such bytes have come. They must be noticed without the keepalive request. If the
 * write has taken the bytes in already, none would come: the command is asked again. */
static struct { int armed, taken, seen, asked, out; } last_look;

int ssh_channel_poll(ssh_channel ch, int is_stderr) {
    static int (*real)(ssh_channel, int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ssh_channel_poll");
    if (!is_stderr)
        return last_look.out = real(ch, 0);
    if (last_look.armed && !last_look.taken && last_look.out <= 0) {
        struct pollfd p = {.fd = ssh_get_fd(ssh_channel_get_session(ch)), .events = POLLIN};
        poll(&p, 1, 20000);
        int n = real(ch, 1);
        last_look.taken = real(ch, 0) > 0;
        return n;
    }
    return real(ch, 1);
}

int ssh_send_keepalive(ssh_session ssh) {
    static int (*real)(ssh_session);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ssh_send_keepalive");
    last_look.asked += last_look.taken && !last_look.seen;
    return real(ssh);
}

static void on_last_look_bytes(const uint8_t *p, size_t n, void *arg) {
    struct run *r = arg;
    if (!last_look.armed &&
        memchr(p, 'a', n)) { /* the command runs; now it is asked for an answer */
        last_look.armed = 1;
        assert_int_equal(transport_write(r->t, "go\n", 3), 0);
    }
    if (memchr(p, 'b', n) && !last_look.taken)
        assert_int_equal(transport_write(r->t, "go\n", 3), 0);
    else if (memchr(p, 'b', n))
        last_look.seen = 1;
}

static void test_bytes_during_the_last_look(void **state) {
    (void)state;
    need_sshd();
    static const struct transport_events own = {.on_open = on_open,
                                                .on_bytes = on_last_look_bytes,
                                                .on_drain = on_drain,
                                                .on_close = on_close,
                                                .on_stderr = on_stderr};
    struct run r = {0};
    struct ssh_opts o = options();
    uv_loop_t loop;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    uv_loop_init(&loop);
    assert_int_equal(ssh_pool_new(&pool, &loop, &o, &err), 0);
    assert_int_equal(ssh_pool_open(&r.t, pool, &fixture.v[0],
                                   "echo a; while read x; do echo b; done", &own, &r, &err),
                     0);
    while (!last_look.seen && !r.closed)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(r.closed, 0);
    transport_close(r.t);
    uv_run(&loop, UV_RUN_DEFAULT);
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_true(last_look.taken); /* otherwise the case did not occur */
    assert_true(last_look.seen);
    assert_int_equal(last_look.asked, 0);
}

/* A listener that never sends a byte: the deadline's message names the step. */
static void test_silent_server(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 5), 0);
    getsockname(fd, (struct sockaddr *)&a, &n);
    struct host h = {.addr = (char *)"127.0.0.1", .port = ntohs(a.sin_port)};
    struct run r = {0};
    struct ssh_opts o = {.config = "/dev/null", .connect_timeout_ms = 200};
    run_with(&r, &o, &h, "true");
    assert_int_equal(r.why.code, PD_ETIMEOUT);
    assert_string_equal(r.why.msg, "timed out after 0.2 s while exchanging keys");
    close(fd);
}

/* More sessions than an sshd accepts at a time (MaxStartups 10:30:100): all get in by turns and
 * retries. */
static void test_many(void **state) {
    (void)state;
    need_sshd();
    int before = n_descriptors();
    enum { N = 60 };
    static struct run runs[N];
    uv_loop_t loop;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    struct ssh_opts o = options();
    o.connect_timeout_ms = 60000;
    memset(runs, 0, sizeof runs);
    uv_loop_init(&loop);
    assert_int_equal(ssh_pool_new(&pool, &loop, &o, &err), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(
            ssh_pool_open(&runs[i].t, pool, &fixture.v[i % 3], "echo hi", &events, &runs[i], &err),
            0);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < N; i++)
        if (strcmp(runs[i].text, "hi\n"))
            fail_msg("session %d: '%s' %s", i, runs[i].text, runs[i].why.msg);
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(n_descriptors(), before);
}

/* --- the ssh agent --- */

static void test_agent(void **state) {
    (void)state;
    need_sshd();
    char cmd[1200], sock[200];
    struct ssh_opts o = options();
    struct run r = {0};
    o.identity_file = NULL;
    setenv("HOME", dir, 1); /* the folder has no default key files */
    snprintf(sock, sizeof sock, "%s/ssh-agent", dir);
    snprintf(cmd, sizeof cmd, "ssh-agent -a %s > %s.env && . %s.env >/dev/null && ssh-add -q %s",
             sock, sock, sock, key_file);
    if (system(cmd))
        SKIP("no ssh-agent");
    setenv("SSH_AUTH_SOCK", sock, 1);
    run_with(&r, &o, &fixture.v[0], "echo by agent");
    snprintf(cmd, sizeof cmd, ". %s.env >/dev/null && kill $SSH_AGENT_PID", sock);
    assert_int_equal(system(cmd), 0);
    assert_string_equal(r.text, "by agent\n");
    /* An agent that accepts and never answers: the deadline must still hold. */
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/mute", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 5), 0);
    setenv("SSH_AUTH_SOCK", a.sun_path, 1);
    struct run mute = {0};
    o.connect_timeout_ms = 700;
    run_with(&mute, &o, &fixture.v[0], "true");
    unsetenv("SSH_AUTH_SOCK");
    close(fd);
    assert_int_equal(mute.why.code, PD_ETIMEOUT);
    assert_string_equal(mute.why.msg,
                        "timed out after 0.7 s while authenticating with the ssh agent");
}

/* --- links: bootstrap, frames, requests --- */

/* A fake agent of two lines. It sends AG_HELLO (a frame in a file), then answers every request with
 * the request itself. */
static void fake_agent(struct agent_image *img, const char *extra) {
    static char text[1000];
    uint8_t frame[1024] = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/hello", dir);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\ncat %s\nexec cat\n", extra, path);
    memset(img, 0, sizeof *img);
    img->bytes = (uint8_t *)text;
    img->size = strlen(text);
    snprintf(img->path, sizeof img->path, "%s/agent", dir);
    assert_int_equal(pd_write_file_atomic(img->path, text, img->size, 0755, NULL), 0);
    assert_int_equal(object_hex_of_file(img->path, img->hash, NULL), 0);
    char body[300];
    snprintf(body, sizeof body, "{\"version\":%d,\"build\":\"%s\",\"root\":\"/r\",\"node\":-1}",
             WIRE_CLIENT_VERSION, img->hash);
    size_t n = strlen(body);
    uint64_t total = wire_header(frame, WIRE_AG_HELLO, 0, 0, 1, &n);
    memcpy(frame + WIRE_HEADER, body, n);
    assert_int_equal(pd_write_file_atomic(path, frame, total, 0600, NULL), 0);
}

struct side {
    int hello, closed, answers, answer_code;
    struct pd_err why;
};

static int on_answer(struct link *l, const struct wire_frame *f, json_t *body,
                     const struct pd_err *err, void *arg) {
    struct side *s = arg;
    (void)body;
    s->answers++;
    s->answer_code = err ? err->code : 0;
    if (f)
        assert_int_equal(f->type, WIRE_AG_LIST);
    link_close(l);
    return 1;
}

static void on_hello(struct link *l, void *arg) {
    struct side *s = arg;
    s->hello++;
    assert_string_equal(link_facts(l)->root, "/r");
    assert_int_equal(
        link_request(l, WIRE_AG_LIST, json_object(), NULL, 0, 5000, "listing", on_answer, s), 0);
}

static void on_frame(struct link *l, struct wire_frame *f, json_t *body, void *arg) {
    (void)l;
    (void)f;
    (void)body;
    (void)arg;
}

static void on_link_close(struct link *l, const struct pd_err *why, void *arg) {
    struct side *s = arg;
    (void)l;
    s->closed++;
    s->why = *why;
}

static const struct link_events link_events = {
    .on_hello = on_hello, .on_frame = on_frame, .on_close = on_link_close};

static struct side open_links(struct agent_image *img, const char *root, const struct host *host,
                              uint64_t login_ms) {
    uv_loop_t loop;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    struct ssh_opts o = options();
    struct side s = {0};
    struct link *l;
    uv_loop_init(&loop);
    assert_int_equal(ssh_pool_new(&pool, &loop, &o, &err), 0);
    struct link_env env = {.loop = &loop,
                           .ssh = pool,
                           .agent = img,
                           .root_dir = root,
                           .login_timeout_ms = login_ms,
                           .upload_timeout_ms = 20000};
    if (link_open(&l, &env, host, 0, &link_events, &s, &err))
        fail_msg("%s", err.msg);
    uv_run(&loop, UV_RUN_DEFAULT);
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(s.closed, 1);
    return s;
}

static void write_profile(const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/fx/node0/home/.bashrc", dir);
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void test_links(void **state) {
    (void)state;
    need_sshd();
    struct agent_image img;
    char root[300], odd[300], cached[600];
    struct stat st;
    fake_agent(&img, "");
    snprintf(root, sizeof root, "%s/fx/node%%n/root", dir);
    snprintf(odd, sizeof odd, "%s/fx/o'dd $(x) \"%%n\"", dir);
    snprintf(cached, sizeof cached, "%s/fx/node0/root/.paddlectl/bin/agent-%s", dir, img.hash);
    struct host local = {.local = 1};
    const struct {
        const char *name, *root, *profile;
        const struct host *host;
    } rows[] = {
        {"uploaded", root, "", &fixture.v[0]},
        {"cached", root, "", &fixture.v[0]},
        {"odd characters in root_dir", odd, "", &fixture.v[0]},
        {"below home", "~/here", "", &fixture.v[0]},
        {"relative is below home", "there", "", &fixture.v[0]},
        {"a chatty login shell", "~/chatty",
         "echo welcome; printf 'no newline'; echo warning >&2; set -v\n", &fixture.v[0]},
        {"local", root, "", &local},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_profile(rows[i].profile);
        struct side s = open_links(&img, rows[i].root, rows[i].host, 10000);
        if (s.hello != 1 || s.answers != 1 || s.answer_code || s.why.code)
            fail_msg("%s: hello %d, answers %d (%d), %s", rows[i].name, s.hello, s.answers,
                     s.answer_code, s.why.msg);
        assert_int_equal(stat(cached, &st), 0);
    }
    write_profile("");
}

static void test_link_failures(void **state) {
    (void)state;
    need_sshd();
    struct agent_image img;
    char root[300], full[300];
    snprintf(root, sizeof root, "%s/fx/fail%%n", dir);
    snprintf(full, sizeof full, "%s/hello/under-a-file", dir);
    const struct {
        const char *name, *extra, *root, *profile, *say;
        uint64_t login_ms;
        int code;
    } rows[] = {
        {"the agent dies", "echo broken >&2; exit 5", root, "", "exit status 5: broken", 5000,
         PD_EHOST},
        {"a folder that can't be made", "", full, "", "cannot make the folder", 5000, PD_EHOST},
        {"a slow login", "", root, "sleep 30\n", "timed out after 0.5 s while logging in", 500,
         PD_ETIMEOUT},
        {"a login that ends", "", root, "echo no shell here >&2; exit 3\n", "no shell here", 5000,
         PD_EHOST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_agent(&img, rows[i].extra);
        write_profile(rows[i].profile);
        struct side s = open_links(&img, rows[i].root, &fixture.v[0], rows[i].login_ms);
        if (s.hello || s.why.code != rows[i].code || !strstr(s.why.msg, rows[i].say))
            fail_msg("%s: %d '%s'", rows[i].name, s.why.code, s.why.msg);
    }
    write_profile("");
}

/* The marker is found for every division of the bytes into reads, and never in the bytes before it.
 */
static void test_boot_cuts(void **state) {
    (void)state;
    struct agent_image img = {.size = 5};
    struct boot b;
    struct pd_buf cmd;
    pd_buf_init(&cmd);
    assert_int_equal(boot_command(&b, "/r", &img, NULL, -1, 0, &cmd), 0);
    assert_null(strstr((char *)cmd.data, b.marker));
    char text[600], out[BOOT_LINE];
    snprintf(text, sizeof text, "hello\nwhole %.31s run\nprompt> %s run\r\nPDL1", b.marker,
             b.marker);
    size_t n = strlen(text);
    for (size_t cut = 0; cut < n; cut++) {
        struct boot c = b;
        size_t used = 0;
        enum boot_event e = boot_input(&c, (uint8_t *)text, cut, &used, out, sizeof out);
        if (e == BOOT_MORE)
            e = boot_input(&c, (uint8_t *)text + cut, n - cut, &used, out, sizeof out), used += cut;
        assert_int_equal(e, BOOT_RUN);
        assert_string_equal(text + used, "PDL1");
    }
    pd_buf_release(&cmd);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_plain_commands),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_bytes_during_the_last_look),
        cmocka_unit_test(test_silent_server),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_link_failures),
        cmocka_unit_test(test_boot_cuts),
        cmocka_unit_test(test_agent), /* last, because it changes HOME */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
