/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_run.h - for tests of the ssh layer: real sshds (sshd-fixture), and running one command to its
 * end. Each test program includes it once. */
#include <setjmp.h>
#include <cmocka.h>
#include <sodium.h>

#include "math/hash.h"
#include "launcher/ssh/ssh.h"
#include "tests/support/c/skip.h"

/* Slow tests run only under the sanitizer that finds most. */
#ifdef __SANITIZE_ADDRESS__
enum { UNDER_ASAN = 1, UNDER_TSAN = 0 };
#elif defined(__SANITIZE_THREAD__)
enum { UNDER_ASAN = 0, UNDER_TSAN = 1 };
#else
enum { UNDER_ASAN = 0, UNDER_TSAN = 0 };
#endif

static inline int not_here(const char *where) {
    if (!getenv("TEST_EVERYWHERE"))
        printf("elsewhere: runs %s (TEST_EVERYWHERE=1: here as well)\n", where);
    return !getenv("TEST_EVERYWHERE");
}

static char dir[64], key_file[128], known_file[128], no_sshd[200];
static struct hosts fixture;

static int setup(void **state) {
    (void)state;
    char cmd[400], line[400] = "", path[128];
    struct pd_err err = {0};
    pd_fmt(dir, sizeof dir, "/tmp/test-launch-ssh-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    if (access("/usr/sbin/sshd", X_OK)) {
        pd_fmt(no_sshd, sizeof no_sshd, "no sshd on this machine");
        return 0;
    }
    snprintf(cmd, sizeof cmd, "tests/support/sshd-fixture start %s/fx 3", dir);
    if (system(cmd))
        return -1;
    snprintf(path, sizeof path, "%s/fx/hosts", dir);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        return -1;
    fclose(f);
    snprintf(key_file, sizeof key_file, "%s/fx/client_key", dir);
    snprintf(known_file, sizeof known_file, "%s/fx/known_hosts", dir);
    unsetenv("SSH_AUTH_SOCK");
    return hosts_parse(&fixture, line, "fixture", &err);
}

static int teardown(void **state) {
    (void)state;
    char cmd[400];
    snprintf(cmd, sizeof cmd, "tests/support/sshd-fixture stop %s/fx", dir);
    int rc = no_sshd[0] ? 0 : system(cmd);
    hosts_release(&fixture);
    pd_rm_tree(dir, NULL);
    return rc;
}

static void need_sshd(void) {
    if (!no_sshd[0])
        return;
    SKIP("%s", no_sshd);
}

/* --- one command --- */

struct run {
    struct transport *t;
    size_t got, to_send, sent, got_err;
    char text[4000], err_text[100], signal[32];
    size_t text_len;
    int opened, closed, close_at_bytes, close_on_open, eof, status;
    struct pd_err why;
};

static void on_open(void *arg) {
    struct run *r = arg;
    r->opened = 1;
    if (r->close_on_open)
        transport_close(r->t);
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct run *r = arg;
    r->got += n;
    size_t room = sizeof r->text - 1 - r->text_len, k = n < room ? n : room;
    memcpy(r->text + r->text_len, p, k);
    r->text_len += k;
    if (r->close_at_bytes)
        transport_close(r->t);
}

static void on_drain(void *arg) {
    struct run *r = arg;
    static char piece[100000];
    while (r->sent < r->to_send && transport_queued(r->t) < 1 << 20) {
        size_t n = r->to_send - r->sent < sizeof piece ? r->to_send - r->sent : sizeof piece;
        assert_int_equal(transport_write(r->t, piece, n), 0);
        r->sent += n;
    }
    if (r->eof && r->sent == r->to_send)
        transport_eof(r->t);
}

static void on_stderr(const uint8_t *p, size_t n, void *arg) {
    struct run *r = arg;
    for (size_t i = 0; i < n && r->got_err + i + 1 < sizeof r->err_text; i++)
        r->err_text[r->got_err + i] = (char)p[i];
    r->got_err += n;
}

static void on_close(const struct pd_err *why, void *arg) {
    struct run *r = arg;
    r->closed++;
    r->why = *why;
    r->status = transport_status(r->t);
    snprintf(r->signal, sizeof r->signal, "%s",
             transport_signal(r->t) ? transport_signal(r->t) : "");
}

static const struct transport_events events = {.on_open = on_open,
                                               .on_bytes = on_bytes,
                                               .on_drain = on_drain,
                                               .on_close = on_close,
                                               .on_stderr = on_stderr};

static struct ssh_opts options(void) {
    return (struct ssh_opts){.identity_file = key_file,
                             .known_hosts = known_file,
                             .config = "/dev/null",
                             .connect_timeout_ms = 10000,
                             .fanout = 64};
}

static int n_descriptors(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void run_with(struct run *r, const struct ssh_opts *o, const struct host *host,
                     const char *command) {
    uv_loop_t loop;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    uv_loop_init(&loop);
    if (ssh_pool_new(&pool, &loop, o, &err))
        fail_msg("%s", err.msg);
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
    if (host->local ? transport_local(&r->t, &loop, argv, &events, r, &err)
                    : ssh_pool_open(&r->t, pool, host, command, &events, r, &err))
        fail_msg("%s", err.msg);
    if (r->to_send || r->eof)
        on_drain(r);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(r->closed, 1);
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static inline void run(struct run *r, const char *command) {
    struct ssh_opts o = options();
    run_with(r, &o, &fixture.v[0], command);
}

/* Runs many commands at the same time over one pool. close_after_ms > 0: each is closed at a random
 * time within this limit. */
static uint64_t close_seed; /* the seed of the closing times */

struct later {
    uv_timer_t timer;
    struct run *run;
};

static void on_later(uv_timer_t *t) {
    struct later *l = t->data;
    if (!l->run->closed)
        transport_close(l->run->t);
    uv_close((uv_handle_t *)t, NULL);
}

static inline void run_many(struct run *runs, int n, const struct ssh_opts *o,
                            const struct host *hosts, int n_hosts, const char *command,
                            unsigned close_below_ms) {
    uv_loop_t loop;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    struct later *later = calloc((size_t)n, sizeof *later);
    uv_loop_init(&loop); /* the first loop of a process opens a pipe that stays open */
    uv_loop_close(&loop);
    int before = n_descriptors();
    uv_loop_init(&loop);
    if (ssh_pool_new(&pool, &loop, o, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < n; i++) {
        if (ssh_pool_open(&runs[i].t, pool, &hosts[i % n_hosts], command, &events, &runs[i], &err))
            fail_msg("%s", err.msg);
        if (!close_below_ms)
            continue;
        uv_timer_init(&loop, &later[i].timer);
        later[i].timer.data = &later[i];
        later[i].run = &runs[i];
        uv_timer_start(&later[i].timer, on_later, pd_mix64(++close_seed) % close_below_ms, 0);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < n; i++)
        assert_int_equal(runs[i].closed, 1);
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
    free(later);
    assert_int_equal(n_descriptors(), before);
}
