/* SPDX-License-Identifier: Apache-2.0 */
/* ps.c - one pserver and one trainer, two processes on 127.0.0.1 (dense: or in two network
 * namespaces, place.h), and their limits in the same run:
 *
 *     ps dense MB SECONDS           push and pull MB of dense values per step:
 *                                   "dense GB/s 3.41" (both directions)
 *     ps sparse DIM ROWS KEYS S     rows of DIM floats out of ROWS, KEYS random ones per request:
 *                                   pull and AdaGrad push; with the server, and the same work in
 *                                   this process without the server
 *     ps small KEYS IN_FLIGHT S     pulls of KEYS rows, IN_FLIGHT of them at a time:
 *                                   "p50 us" and requests per second
 *     ps copy MB SECONDS            memcpy of MB from one buffer to another: "copy GB/s 9.71"
 *     ps rtt UP DOWN SECONDS        a bare round trip over TCP between two processes: UP bytes
 *                                   there, DOWN bytes back */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench/programs/server.h"
#include "math/hash.h"
#include "ps/client/client.h"
#include "ps/plan/optim.h"
#include "ps/table/table.h"

enum { DISTINCT = 64, SAMPLES = 200000, WINDOW = 500 };

static float learning_rate = 0.01f;

static void die(const char *what, const struct pd_err *err) {
    fprintf(stderr, "ps: %s: %s\n", what, err ? err->msg : strerror(errno));
    exit(1);
}

static struct ps_client *open_client(const char *list, const char *optimizer) {
    struct ps_client *c;
    struct pd_err err = {0};
    struct ps_client_opts o = {.pservers = list,
                               .n_trainers = 1,
                               .seed = 1,
                               .optimizer = {optimizer, (double)learning_rate, 0},
                               .job = "bench",
                               .key = key32,
                               .plain = bench_plain()};
    if (ps_client_new(&c, &o, &err))
        die("client", &err);
    return c;
}

static void must(const struct ps_client *c, int rc, const char *what) {
    if (rc < 0)
        die(what, ps_client_err(c));
}

static void close_all(struct ps_client *c, pid_t server) {
    must(c, ps_bye(c), "bye");
    ps_client_free(c);
    waitpid(server, NULL, 0);
}

static double seconds_since(uint64_t t0) { return (double)(pd_mono_ns() - t0) * 1e-9; }

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double quantile(double *v, size_t n, double q) {
    qsort(v, n, sizeof *v, by_value);
    return n ? v[(size_t)(q * (double)(n - 1))] : 0;
}

/* p99 of all values, and of the best WINDOW in a row. A virtual machine whose host takes its cores
 * away for milliseconds affects only the first; the program itself affects every window. Sorts v.
 */
struct p99 {
    double all, window;
};

static struct p99 p99(double *v, size_t n) {
    double part[WINDOW], best = 0;
    for (size_t i = 0; i + WINDOW <= n; i += WINDOW) {
        memcpy(part, v + i, sizeof part);
        double x = quantile(part, WINDOW, 0.99);
        best = best == 0 || x < best ? x : best;
    }
    return (struct p99){quantile(v, n, 0.99), best};
}

/* --- dense --- */

static void dense(size_t mb, double limit) {
    char list[64];
    pid_t server = start_server(list, sizeof list);
    struct ps_client *c = open_client(list, "sgd");
    enum { PARTS = 4 };
    size_t n = mb * 1000000 / sizeof(float) / PARTS;
    int id[PARTS];
    float *g, *w = malloc(PARTS * n * sizeof *w);
    for (int i = 0; i < PARTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        struct ps_dense_spec s = {.name = name, .n_dims = 1, .shape = {n}, .lr_factor = 1};
        must(c, id[i] = ps_declare_dense(c, &s), "declare");
    }
    must(c, ps_start(c), "start");
    if (!(g = ps_lend(c, PARTS * n))) /* our trainer, too, has its gradients there */
        die("lend", NULL);
    memset(g, 0, PARTS * n * sizeof *g);
    enum { WARM_UP = 3 };
    uint64_t steps = 0, t0 = pd_mono_ns();
    for (; steps <= WARM_UP || seconds_since(t0) < limit; steps++) {
        if (steps == WARM_UP)
            t0 = pd_mono_ns();
        for (int i = 0; i < PARTS; i++)
            must(c, ps_push_dense(c, id[i], g + (size_t)i * n, n), "push");
        must(c, ps_step_end(c, 1, NULL, 0), "step");
        for (int i = 0; i < PARTS; i++)
            must(c, ps_pull_dense(c, id[i], w + (size_t)i * n, n), "pull");
        must(c, ps_wait(c), "wait");
    }
    double s = seconds_since(t0);
    steps -= WARM_UP;
    printf("dense GB/s %.3f ms/step %.2f\n",
           2.0 * (double)(PARTS * n * sizeof *g) * (double)steps / s / 1e9,
           s / (double)steps * 1e3);
    close_all(c, server);
    free(w);
}

/* The limit for dense values in shared memory. */
static void copy(size_t mb, double limit) {
    const size_t n = mb * 1000000;
    uint8_t *a = malloc(n), *b = malloc(n);
    memset(a, 1, n);
    memset(b, 2, n);
    uint64_t copies = 0, t0 = pd_mono_ns();
    for (; !copies || seconds_since(t0) < limit; copies++) {
        memcpy(b, a, n);
        __asm__ volatile("" : : "r"(b) : "memory"); /* the compiler must assume that it is read */
    }
    printf("copy GB/s %.3f\n", (double)n * (double)copies / seconds_since(t0) / 1e9);
    free(a);
    free(b);
}

/* --- sparse --- */

struct requests {
    size_t n;
    uint64_t *keys[DISTINCT]; /* ascending and unique */
};

static int by_key(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void make_requests(struct requests *q, uint64_t rows, size_t n) {
    q->n = n;
    for (int r = 0; r < DISTINCT; r++) {
        q->keys[r] = malloc(n * sizeof(uint64_t));
        for (size_t i = 0; i < n; i++) /* one random id of each n-th part of the ids: unique */
            q->keys[r][i] =
                pd_mix64(rows / n * i + pd_mix64(i * DISTINCT + (uint64_t)r) % (rows / n) + 1);
        qsort(q->keys[r], n, sizeof(uint64_t), by_key);
    }
}

struct speed {
    double pull, push;             /* Mkeys/s */
    struct p99 pull_p99, push_p99; /* ms */
};

static struct speed remote(uint32_t dim, uint64_t rows, const struct requests *q, double limit) {
    static double ms_pull[SAMPLES], ms_push[SAMPLES];
    char list[64];
    pid_t server = start_server(list, sizeof list);
    struct ps_client *c = open_client(list, "adagrad");
    struct ps_table_spec t = {.name = "t", .dim = dim, .init_std = 0.01f, .lr_factor = 1};
    struct ps_dense_spec d = {.name = "d", .n_dims = 1, .shape = {1}, .lr_factor = 1};
    must(c, ps_declare_dense(c, &d), "declare");
    int id = ps_declare_table(c, &t);
    must(c, id, "declare");
    must(c, ps_start(c), "start");
    uint64_t *all = malloc(65536 * sizeof *all);
    float *w = malloc((65536 > q->n ? 65536 : q->n) * dim * sizeof *w),
          *g = calloc(q->n * dim, sizeof *g);
    for (uint64_t at = 0; at < rows; at += 65536) { /* create all rows, in pieces */
        size_t n = rows - at < 65536 ? (size_t)(rows - at) : 65536;
        for (size_t i = 0; i < n; i++)
            all[i] = pd_mix64(at + i + 1);
        qsort(all, n, sizeof *all, by_key);
        must(c, ps_pull_rows(c, id, n, all, w, PS_CREATE), "pull");
        must(c, ps_wait(c), "wait");
    }
    size_t n = 0;
    double pull = 0, push = 0;
    for (uint64_t t0 = pd_mono_ns(); n < SAMPLES && seconds_since(t0) < limit; n++) {
        const uint64_t *keys = q->keys[n % DISTINCT];
        uint64_t a = pd_mono_ns();
        must(c, ps_pull_rows(c, id, q->n, keys, w, PS_CREATE), "pull");
        must(c, ps_wait(c), "wait");
        uint64_t b = pd_mono_ns();
        must(c, ps_push_rows(c, id, q->n, keys, g), "push");
        must(c, ps_step_end(c, 1, (const double[]){0}, 1), "step");
        double sums[PS_STATS_MAX];
        /* The dense thread answers; the next pull waits for the step of the sparse thread. */
        uint64_t step, samples;
        while (ps_stats_pending(c))
            must(c, ps_step_stats(c, &step, &samples, sums), "stats");
        must(c, ps_pull_rows(c, id, 1, keys, w, PS_NO_CREATE), "pull");
        must(c, ps_wait(c), "wait");
        uint64_t e = pd_mono_ns();
        ms_pull[n] = (double)(b - a) / 1e6;
        ms_push[n] = (double)(e - b) / 1e6;
        pull += ms_pull[n];
        push += ms_push[n];
    }
    struct speed s = {(double)(n * q->n) / pull / 1e3, (double)(n * q->n) / push / 1e3,
                      p99(ms_pull, n), p99(ms_push, n)};
    close_all(c, server);
    free(all);
    free(w);
    free(g);
    return s;
}

static struct speed here(uint32_t dim, uint64_t rows, const struct requests *q, double limit) {
    const struct ps_optim *o = ps_optim_find("adagrad");
    const struct ps_optim_args a = {
        .lr = learning_rate, .epsilon = 1e-6f, .n_samples = 1, .clip = 1e30f};
    struct ps_table *t;
    struct ps_table_opts to = {.name = "t", .dim = dim, .state = 1, .seed = 1, .std = 0.01f};
    uint32_t *at = malloc(q->n * sizeof *at);
    float *w = malloc(q->n * dim * sizeof *w), *g = calloc(q->n * dim, sizeof *g);
    if (ps_table_new(&t, &to))
        exit(1);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t key = pd_mix64(i + 1);
        if (ps_table_find(t, &key, 1, 1, at))
            exit(1);
    }
    double pull = 0, push = 0;
    size_t n = 0;
    for (uint64_t t0 = pd_mono_ns(); seconds_since(t0) < limit; n++) {
        const uint64_t *keys = q->keys[n % DISTINCT];
        uint64_t x = pd_mono_ns();
        ps_table_find(t, keys, q->n, 0, at);
        ps_table_gather(t, keys, at, q->n, w);
        uint64_t y = pd_mono_ns();
        for (size_t i = 0; i < q->n; i++) {
            if (i + 16 < q->n)
                ps_table_prefetch(t, at[i + 16]);
            float *row = ps_table_change(t, at[i]);
            ps_optim_apply(o, &a, row, row + dim, dim, g + i * dim, dim);
        }
        pull += (double)(y - x);
        push += seconds_since(y) * 1e9;
    }
    struct speed s = {
        (double)(n * q->n) * 1e3 / pull, (double)(n * q->n) * 1e3 / push, {0, 0}, {0, 0}};
    ps_table_free(t);
    free(at);
    free(w);
    free(g);
    return s;
}

static void sparse(uint32_t dim, uint64_t rows, size_t n, double limit) {
    struct requests q;
    make_requests(&q, rows, n);
    struct speed h = here(dim, rows, &q, limit / 2), r = remote(dim, rows, &q, limit);
    printf("sparse dim %u rows %llu pull %.2f push %.2f Mkeys/s p99 pull %.2f push %.2f ms here "
           "pull %.1f push %.1f Mkeys/s"
           " best window p99 pull %.2f push %.2f ms\n",
           dim, (unsigned long long)rows, r.pull, r.push, r.pull_p99.all, r.push_p99.all, h.pull,
           h.push, r.pull_p99.window, r.push_p99.window);
    for (int i = 0; i < DISTINCT; i++)
        free(q.keys[i]);
}

/* --- small --- */

static void small(size_t n, int in_flight, double limit) {
    static double us[SAMPLES];
    char list[64];
    struct requests q;
    make_requests(&q, 100000, n);
    pid_t server = start_server(list, sizeof list);
    struct ps_client *c = open_client(list, "sgd");
    struct ps_table_spec t = {.name = "t", .dim = 16, .init_std = 0.01f, .lr_factor = 1};
    struct ps_dense_spec d = {.name = "d", .n_dims = 1, .shape = {1}, .lr_factor = 1};
    must(c, ps_declare_dense(c, &d), "declare");
    int id = ps_declare_table(c, &t);
    must(c, id, "declare");
    must(c, ps_start(c), "start");
    float *w = malloc((size_t)in_flight * n * 16 * sizeof *w);
    for (int r = 0; r < DISTINCT;
         r++) { /* create the rows: missing rows would cost random numbers at every pull */
        must(c, ps_pull_rows(c, id, n, q.keys[r], w, PS_CREATE), "pull");
        must(c, ps_wait(c), "wait");
    }
    size_t k = 0, done = 0;
    uint64_t t0 = pd_mono_ns();
    for (; k < SAMPLES && seconds_since(t0) < limit; k++) {
        uint64_t a = pd_mono_ns();
        for (int i = 0; i < in_flight; i++, done++)
            must(c,
                 ps_pull_rows(c, id, n, q.keys[done % DISTINCT], w + (size_t)i * n * 16,
                              PS_NO_CREATE),
                 "pull");
        must(c, ps_wait(c), "wait");
        us[k] = (double)(pd_mono_ns() - a) / 1e3;
    }
    double s = seconds_since(t0);
    printf("small keys %zu in-flight %d p50 us %.1f requests/s %.0f\n", n, in_flight,
           quantile(us, k, 0.5), (double)done / s);
    close_all(c, server);
    free(w);
    for (int i = 0; i < DISTINCT; i++)
        free(q.keys[i]);
}

/* --- the same bytes without a server: the limit of this machine and its TCP --- */

/* Answers each `up` bytes with `down` bytes until the other end closes. */
static void answer(int fd, size_t up, size_t down, uint8_t *b) {
    while (recv(fd, b, up, MSG_WAITALL) == (ssize_t)up) {
        ssize_t n = 1;
        for (size_t sent = 0; sent < down && n > 0; sent += (size_t)n)
            n = send(fd, b + sent, down - sent, MSG_NOSIGNAL);
        if (n <= 0)
            break;
    }
    _exit(0);
}

/* The options of src/net/tune.c, as in the sockets that are compared. */
static void tune(int fd) {
    static const char reno[] = "reno";
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof reno - 1);
}

static void rtt(size_t up, size_t down, double limit) {
    static double us[SAMPLES];
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int l = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    uint8_t *b = calloc(1, up > down ? up : down);
    if (bind(l, (struct sockaddr *)&sa, sizeof sa) || listen(l, 1) ||
        getsockname(l, (struct sockaddr *)&sa, &len))
        die("listen", NULL);
    pid_t pid = fork();
    if (!pid) {
        close(fd);
        int s = accept(l, NULL, NULL);
        tune(s);
        answer(s, up, down, b);
    }
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa))
        die("connect", NULL);
    tune(fd);
    size_t n = 0;
    for (uint64_t t0 = pd_mono_ns(); n < SAMPLES && seconds_since(t0) < limit; n++) {
        uint64_t a = pd_mono_ns();
        if (send(fd, b, up, MSG_NOSIGNAL) != (ssize_t)up ||
            recv(fd, b, down, MSG_WAITALL) != (ssize_t)down)
            die("round trip", NULL);
        us[n] = (double)(pd_mono_ns() - a) / 1e3;
    }
    close(fd);
    close(l);
    waitpid(pid, NULL, 0);
    struct p99 p = p99(us, n);
    printf("rtt p50 us %.1f p99 us %.1f best window %.1f\n", quantile(us, n, 0.5), p.all, p.window);
    free(b);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    bench_init();
    if (!strcmp(what, "dense") && argc == 4)
        dense(strtoull(argv[2], NULL, 10), strtod(argv[3], NULL));
    else if (!strcmp(what, "copy") && argc == 4)
        copy(strtoull(argv[2], NULL, 10), strtod(argv[3], NULL));
    else if (!strcmp(what, "sparse") && argc == 6)
        sparse((uint32_t)strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
               strtoull(argv[4], NULL, 10), strtod(argv[5], NULL));
    else if (!strcmp(what, "small") && argc == 5)
        small(strtoull(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10), strtod(argv[4], NULL));
    else if (!strcmp(what, "rtt") && argc == 5)
        rtt(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), strtod(argv[4], NULL));
    else
        return fputs("usage: ps dense MB S | copy MB S | sparse DIM ROWS KEYS S | small KEYS "
                     "IN_FLIGHT S | rtt UP DOWN S\n",
                     stderr),
               2;
    return 0;
}
