/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_seed.c - seeds (src/seed) as child processes under the launcher's seeding. Every node
 * finally has the packed agent, even if others lie, die or can't be reached. Also tests a seed
 * against strangers and a broken launcher. */
#include <setjmp.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "launcher/link/seeding.h"
#include "seed/blake2b.c"
#include "seed/seed.h"

enum {
    NODES = 6,
    PAYLOAD = 300000,
    N_CHUNKS = (PAYLOAD + SEED_CHUNK - 1) / SEED_CHUNK,
    LIMIT_MS = 60000
};
static const char marker[] = "0123456789abcdef0123456789abcdef";

/* --- the run: an image, a loop, nodes --- */

struct fixture {
    char dir[64], seed[4096];
    struct agent_image img;
    uv_loop_t loop;
    struct seeding *s;
    uv_timer_t limit;
};

struct node {
    struct fixture *f;
    int id, open, kill_at_have, lost, told_port, may_break;
    struct transport *t;
    struct seedling *l;
    char line[400], path[100];
    size_t n_line;
    struct pd_err end;
    int status;
};

static void on_limit(uv_timer_t *t) {
    (void)t;
    fail_msg("not over in %d s", LIMIT_MS / 1000);
}

/* There is no seed for other architectures (Makefile: HAS_SEED). */
#if defined __x86_64__ || defined __aarch64__
enum { HAS_SEED = 1 };
#else
enum { HAS_SEED = 0 };
#endif

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(sodium_init() >= 0);
    signal(SIGPIPE, SIG_IGN);
    snprintf(f->dir, sizeof f->dir, "/tmp/pd-seed-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    /* The test program is in build/FLAVOR/tests/unit/launcher, the seed in build/FLAVOR. */
    char self[3000];
    assert_int_equal(pd_self_dir(self, sizeof self), 0);
    pd_fmt(f->seed, sizeof f->seed, "%s/../../../paddle_seed", self);
    assert_int_equal(access(f->seed, X_OK), 0);
    f->img.gzip_size = PAYLOAD;
    f->img.gzip = malloc(PAYLOAD);
    f->img.chunk_ids = malloc(N_CHUNKS * SEED_HASH);
    assert_true(f->img.gzip && f->img.chunk_ids);
    randombytes_buf(f->img.gzip, PAYLOAD);
    for (size_t i = 0; i < N_CHUNKS; i++)
        crypto_generichash(f->img.chunk_ids + i * SEED_HASH, SEED_HASH,
                           f->img.gzip + i * SEED_CHUNK,
                           i + 1 < N_CHUNKS ? SEED_CHUNK : PAYLOAD - i * SEED_CHUNK, NULL, 0);
    f->img.seed = f->img.gzip; /* any image will do */
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->limit);
    uv_timer_start(&f->limit, on_limit, LIMIT_MS, 0);
    uv_unref((uv_handle_t *)&f->limit);
    f->s = seeding_new(&f->loop, &f->img, NODES, 1);
    assert_non_null(f->s);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    seeding_free(f->s);
    uv_close((uv_handle_t *)&f->limit, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    pd_rm_tree(f->dir, NULL);
    free(f->img.gzip);
    free(f->img.chunk_ids);
    free(f);
    return 0;
}

static void on_open(void *arg) { (void)arg; }

static void broken(void *arg) {
    struct node *x = arg;
    if (!x->may_break)
        fail_msg("out of memory");
    seedling_free(x->l);
    x->l = NULL;
}

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct node *x = arg;
    struct pd_err err = {0};
    for (; n; n--, p++) {
        if (*p != '\n') {
            assert_true(x->n_line < sizeof x->line - 1);
            x->line[x->n_line++] = (char)*p;
            continue;
        }
        x->line[x->n_line] = 0;
        x->n_line = 0;
        assert_true(pd_starts_with(x->line, marker) && pd_starts_with(x->line + 32, " seed "));
        const char *words = x->line + 38;
        x->lost += pd_starts_with(words, SEED_SAYS_LOST);
        if (pd_starts_with(words, SEED_SAYS_PORT))
            x->told_port = (int)strtol(words + 5, NULL, 10);
        if (x->l && seedling_message(x->l, words, &err))
            fail_msg("%s", err.msg);
        if (x->kill_at_have && pd_starts_with(words, SEED_SAYS_HAVE) &&
            transport_local_pid(x->t) > 0) {
            kill(transport_local_pid(x->t), SIGKILL);
            x->kill_at_have = 0;
        }
    }
}

static void on_drain(void *arg) {
    struct node *x = arg;
    if (x->l)
        seedling_send(x->l);
}

static void on_close(const struct pd_err *why, void *arg) {
    struct node *x = arg;
    x->end = *why;
    x->status = transport_status(x->t);
    x->open = 0;
    seedling_free(x->l);
    x->l = NULL;
}

static const struct transport_events events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_drain = on_drain, .on_close = on_close};

/* Starts a node; argv NULL: a seed. */
static void start_node(struct fixture *f, struct node *x, int id, char *const *argv) {
    struct pd_err err = {0};
    memset(x, 0, sizeof *x);
    x->f = f;
    x->id = id;
    x->open = 1;
    pd_fmt(x->path, sizeof x->path, "%s/agent.%d.gz", f->dir, id);
    char *own[] = {f->seed, x->path, (char *)(uintptr_t)marker, NULL};
    x->l = seedling_new(f->s, id, broken, x);
    assert_non_null(x->l);
    if (transport_local(&x->t, &f->loop, argv ? argv : own, &events, x, &err))
        fail_msg("%s", err.msg);
    seedling_begin(x->l, x->t, "127.0.0.1 40000 127.0.0.1 22");
}

static void assert_has_it(const struct node *x) {
    struct pd_buf b;
    struct pd_err err = {0};
    pd_buf_init(&b);
    if (x->status)
        fail_msg("node %d: status %d, %s", x->id, x->status, x->end.msg);
    assert_int_equal(pd_read_file(x->path, PAYLOAD + 1, &b, &err), 0);
    assert_int_equal(b.len, PAYLOAD);
    assert_memory_equal(b.data, x->f->img.gzip, PAYLOAD);
    pd_buf_release(&b);
}

static void run_until_over(struct fixture *f, const struct node *v, int from, int to) {
    for (int open = 1; open;) {
        uv_run(&f->loop, UV_RUN_ONCE);
        open = 0;
        for (int i = from; i < to; i++)
            open |= v[i].open;
    }
}

/* --- good and bad neighbours --- */

static void from_node_to_node(void **state) {
    struct fixture *f = *state;
    struct node v[NODES];
    for (int i = 0; i < NODES; i++)
        start_node(f, &v[i], i, NULL);
    run_until_over(f, v, 0, NODES);
    for (int i = 0; i < NODES; i++)
        assert_has_it(&v[i]);
    assert_true(seeding_sent(f->s) >= PAYLOAD);
    assert_true(seeding_sent(f->s) <
                (NODES - 1) *
                    (uint64_t)PAYLOAD); /* once, unless this machine stalled for seconds */
}

static void one_that_is_killed_is_passed_by(void **state) {
    struct fixture *f = *state;
    struct node v[NODES];
    for (int i = 0; i < NODES; i++)
        start_node(f, &v[i], i, NULL);
    v[0].kill_at_have = v[2].kill_at_have = 1;
    run_until_over(f, v, 0, NODES);
    for (int i = 0; i < NODES; i++)
        if (i != 0 && i != 2)
            assert_has_it(&v[i]);
}

/* Out of memory when a node needs its next source: seeding gives the node up in a nested call. The
 * sanitizer checks this. */
static void one_that_cannot_be_told_is_given_up(void **state) {
    struct fixture *f = *state;
    struct node v[2];
    struct pd_err err = {0};
    char script[200];
    pd_fmt(script, sizeof script, "echo %s seed port 9; exec cat >/dev/null", marker);
    char *argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c", script, NULL};
    for (int i = 0; i < 2; i++)
        for (start_node(f, &v[i], i, argv); !v[i].told_port;)
            uv_run(&f->loop, UV_RUN_ONCE);
    v[1].may_break = 1;
    pd_fault_arm("alloc:1");
    assert_int_equal(seedling_message(v[1].l, SEED_SAYS_LOST "it", &err), 0);
    pd_fault_arm(NULL);
    assert_null(v[1].l);
    transport_close(v[0].t);
    transport_close(v[1].t);
    run_until_over(f, v, 0, 2);
}

/* A false neighbour in a process of its own. It answers with these bytes after the proof, and then
 * stops listening. */
struct liar {
    int fd, port;
    const uint8_t *says;
    size_t n;
    int cuts; /* 1: it then closes; 0: it waits until the taker leaves */
    pid_t pid;
};

/* The exit status is the first requested chunk, or NOT_MET. */
enum { NOT_MET = 100 };

static int lie(const struct liar *l) {
    uint8_t nonce[SEED_GREETING] = {1}, proof[SEED_PROOF];
    int c = accept(l->fd, NULL, NULL);
    if (c < 0 || write(c, nonce, sizeof nonce) != sizeof nonce ||
        recv(c, proof, sizeof proof, MSG_WAITALL) != sizeof proof)
        return NOT_MET;
    int asked = proof[0];
    for (size_t at = 0; at < l->n;) {
        ssize_t k = send(c, l->says + at, l->n - at, MSG_NOSIGNAL);
        if (k <= 0)
            break;
        at += (size_t)k;
    }
    while (!l->cuts && recv(c, proof, sizeof proof, 0) > 0)
        ;
    return asked;
}

static void bind_as(struct liar *l, const uint8_t *says, size_t n, int cuts) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    *l = (struct liar){
        .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .says = says, .n = n, .cuts = cuts};
    assert_true(l->fd >= 0);
    assert_int_equal(bind(l->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(l->fd, (struct sockaddr *)&a, &len), 0);
    l->port = ntohs(a.sin_port);
}

/* Node 0 is no seed, but claims to listen on this port. Node 1 must take from it, and finally takes
 * from the launcher. */
static struct node beside(struct fixture *f, int port) {
    struct node v[2];
    char script[200];
    pd_fmt(script, sizeof script, "echo %s seed port %d; exec cat >/dev/null", marker, port);
    char *argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c", script, NULL};
    start_node(f, &v[0], 0, argv);
    while (!v[0].told_port)
        uv_run(&f->loop, UV_RUN_ONCE);
    start_node(f, &v[1], 1, NULL);
    run_until_over(f, v, 1, 2);
    transport_close(v[0].t);
    run_until_over(f, v, 0, 1);
    assert_has_it(&v[1]);
    return v[1];
}

static void one_that_cannot_be_reached_is_passed_by(void **state) {
    struct liar l;
    bind_as(&l, NULL, 0, 0); /* bound without a listener: connections are refused */
    struct node x = beside(*state, l.port);
    close(l.fd);
    assert_true(x.lost >= 1);
}

static void meet(struct fixture *f, struct liar *l, struct node *x) {
    int status = -1;
    assert_int_equal(listen(l->fd, 4), 0);
    l->pid = fork();
    assert_true(l->pid >= 0);
    if (!l->pid)
        _exit(lie(l));
    close(l->fd);
    *x = beside(f, l->port);
    assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(x->lost >= 1);
}

static void what_was_not_announced_is_refused(void **state) {
    struct fixture *f = *state;
    struct liar l;
    struct node x;
    uint8_t *wrong = malloc(PAYLOAD);
    assert_non_null(wrong);
    memcpy(wrong, f->img.gzip, PAYLOAD);
    wrong[SEED_CHUNK + 7] ^= 1; /* one bit of the second chunk */
    bind_as(&l, wrong, PAYLOAD, 0);
    meet(f, &l, &x);
    free(wrong);
}

static void a_cut_in_the_middle(void **state) {
    struct fixture *f = *state;
    struct liar l;
    struct node x;
    bind_as(&l, f->img.gzip, 2 * SEED_CHUNK + 100, 1);
    meet(f, &l, &x);
    /* The launcher sent everything to node 0. Node 1 kept its two chunks, which were not sent
     * again. */
    assert_true(seeding_sent(f->s) < 2 * PAYLOAD - SEED_CHUNK);
}

/* --- one seed alone, without seeding.c --- */

struct alone {
    pid_t pid;
    int in, out, port;
    uint8_t secret[32];
};

static void start_alone(struct fixture *f, struct alone *a, const char *path) {
    int in[2], out[2];
    char line[200];
    size_t n = 0;
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    a->pid = fork();
    if (!a->pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(f->seed, "seed", path, "M", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    a->in = in[1];
    a->out = out[0];
    while (n < sizeof line - 1 && read(a->out, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = 0;
    assert_int_equal(sscanf(line, "M seed port %d", &a->port), 1);
    memset(a->secret, 7, sizeof a->secret);
}

static void tell(const struct alone *a, uint32_t op, uint32_t x, uint32_t y, const void *body,
                 size_t n) {
    struct seed_record r = {.op = op, .a = x, .b = y};
    memcpy(r.secret, a->secret, sizeof r.secret);
    assert_int_equal(write(a->in, &r, sizeof r), sizeof r);
    for (size_t at = 0; at < n;) {
        ssize_t k = write(a->in, (const uint8_t *)body + at, n - at);
        assert_true(k > 0);
        at += (size_t)k;
    }
}

static int end_alone(struct alone *a) {
    int status;
    char c;
    close(a->in);
    while (read(a->out, &c, 1) > 0)
        ;
    close(a->out);
    assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void init_alone(struct fixture *f, const struct alone *a) {
    tell(a, SEED_OP_INIT, PAYLOAD, SEED_CHUNK, f->img.chunk_ids, N_CHUNKS * SEED_HASH);
}

/* Sends a proof. Returns the number of bytes that come until the seed closes, at most `enough`. */
static size_t ask(const struct alone *a, int right, uint32_t first, uint8_t *to, size_t enough) {
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)a->port)};
    uint8_t text[sizeof SEED_PROOF_LABEL - 1 + SEED_NONCE + 4], proof[SEED_PROOF];
    size_t n = 0, label = sizeof SEED_PROOF_LABEL - 1;
    ssize_t k;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    memcpy(text, SEED_PROOF_LABEL, label);
    assert_int_equal(recv(fd, text + label, SEED_NONCE, MSG_WAITALL), SEED_NONCE);
    memcpy(text + label + SEED_NONCE, &first, 4);
    memcpy(proof, &first, 4);
    crypto_generichash(proof + 4, SEED_HASH, text, sizeof text, a->secret, sizeof a->secret);
    proof[9] ^= !right;
    assert_int_equal(send(fd, proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    while (n < enough && (k = recv(fd, to + n, enough - n, 0)) > 0)
        n += (size_t)k;
    close(fd);
    return n;
}

static void who_proves_nothing_gets_nothing(void **state) {
    struct fixture *f = *state;
    struct alone a;
    uint8_t *got = malloc(PAYLOAD);
    char path[100];
    assert_non_null(got);
    pd_fmt(path, sizeof path, "%s/alone", f->dir);
    start_alone(f, &a, path);
    init_alone(f, &a);
    tell(&a, SEED_OP_CHUNK, 0, SEED_CHUNK, f->img.gzip, SEED_CHUNK);
    assert_int_equal(ask(&a, 0, 0, got, PAYLOAD), 0);
    assert_int_equal(ask(&a, 1, N_CHUNKS, got, PAYLOAD), 0);
    assert_int_equal(ask(&a, 1, 0xffffffff, got, PAYLOAD), 0);
    /* It sends the chunks that it has, and a later chunk only when it has it. */
    assert_int_equal(ask(&a, 1, 0, got, SEED_CHUNK), SEED_CHUNK);
    assert_memory_equal(got, f->img.gzip, SEED_CHUNK);
    /* End of stdin means that paddlectl is gone. */
    assert_int_equal(end_alone(&a), SEED_EXIT_LOST);
    free(got);
}

static void records_that_are_none_end_it(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *name;
        int init;
        uint32_t op, a, b;
    } rows[] = {
        {"no operation", 0, 0, 0, 0},
        {"unknown", 1, 99, 0, 0},
        {"a chunk before the hashes", 0, SEED_OP_CHUNK, 0, SEED_CHUNK},
        {"go before the hashes", 0, SEED_OP_GO, 0, 0},
        {"an empty agent", 0, SEED_OP_INIT, 0, SEED_CHUNK},
        {"too large an agent", 0, SEED_OP_INIT, SEED_CHUNKS_MAX * SEED_CHUNK + 1, SEED_CHUNK},
        {"the largest number", 0, SEED_OP_INIT, 0xffffffff, SEED_CHUNK},
        {"other chunks", 0, SEED_OP_INIT, PAYLOAD, 4096},
        {"hashes twice", 1, SEED_OP_INIT, PAYLOAD, SEED_CHUNK},
        {"a chunk behind the last", 1, SEED_OP_CHUNK, N_CHUNKS, SEED_CHUNK},
        {"a long chunk", 1, SEED_OP_CHUNK, 0, SEED_CHUNK + 1},
        {"no kind of address", 1, SEED_OP_PEER, 5, 80},
        {"no port", 1, SEED_OP_PEER, 4, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct alone a;
        char path[100];
        pd_fmt(path, sizeof path, "%s/row%zu", f->dir, i);
        start_alone(f, &a, path);
        if (rows[i].init)
            init_alone(f, &a);
        tell(&a, rows[i].op, rows[i].a, rows[i].b, NULL, 0);
        char c;
        while (read(a.out, &c, 1) > 0) /* the seed ends by itself */
            ;
        int status = end_alone(&a);
        if (status != SEED_EXIT_LOST)
            fail_msg("%s: status %d", rows[i].name, status);
    }
}

static void a_full_disk_is_told(void **state) {
    struct fixture *f = *state;
    struct alone a;
    start_alone(f, &a, "/dev/full");
    init_alone(f, &a);
    for (uint32_t i = 0; i < N_CHUNKS; i++) {
        uint32_t n = i + 1 < N_CHUNKS ? SEED_CHUNK : PAYLOAD - i * SEED_CHUNK;
        tell(&a, SEED_OP_CHUNK, i, n, f->img.gzip + (size_t)i * SEED_CHUNK, n);
    }
    assert_int_equal(end_alone(&a), SEED_EXIT_FULL);
}

static void the_same_hash_as_libsodium(void **state) {
    uint8_t text[700], key[64], ours[32], theirs[32];
    (void)state;
    randombytes_buf(text, sizeof text);
    randombytes_buf(key, sizeof key);
    for (size_t n = 0; n <= sizeof text; n++)
        for (size_t k = 0; k <= sizeof key; k += 16) {
            blake2b_256(ours, key, k, text, n);
            crypto_generichash(theirs, 32, text, n, k ? key : NULL, k);
            if (memcmp(ours, theirs, 32))
                fail_msg("%zu bytes, a key of %zu", n, k);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(from_node_to_node, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_killed_is_passed_by, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_told_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_reached_is_passed_by, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_not_announced_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cut_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(who_proves_nothing_gets_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(records_that_are_none_end_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told, setup, teardown),
        cmocka_unit_test(the_same_hash_as_libsodium),
    };
    if (!HAS_SEED) {
        puts("skipped: no seed for this architecture");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
