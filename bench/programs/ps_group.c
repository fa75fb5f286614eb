/* SPDX-License-Identifier: Apache-2.0 */
/* ps_group.c - N trainers and N parameter servers, each a process: synchronous steps of a dense
 * model. All are on 127.0.0.1, or in two network namespaces (place.h).
 *
 *     ps_group N MB SECONDS     "group 2 MB 64 ms/step 81.2 GB/s 3.15"
 *
 * GB/s counts the bytes of all trainers, in both directions. */
#include <sys/wait.h>

#include "bench/programs/place.h"
#include "net/conn.h"
#include "ps/client/client.h"
#include "ps/server/server.h"

enum { MOST = 64, PARTS = 4, WARM_UP = 3 };

static const uint8_t key32[32] = "a key for benchmarks, 32 bytes.";

static void die(const char *what, const struct pd_err *err) {
    fprintf(stderr, "ps_group: %s: %s\n", what, err->msg);
    _exit(1);
}

static void run_server(int fd, uint32_t n_trainers) {
    struct pd_err err = {0};
    struct ps_server *s;
    struct ps_server_opts o = {.fds = &fd,
                               .n_dense = 1,
                               .n_trainers = n_trainers,
                               .job = "bench",
                               .key = key32,
                               .plain = bench_plain()};
    if (ps_server_new(&s, &o, &err) || ps_server_run(s, &err))
        die("server", &err);
    ps_server_free(s);
    _exit(0);
}

static void must(const struct ps_client *c, int rc, const char *what) {
    if (rc < 0)
        die(what, ps_client_err(c));
}

static void step(struct ps_client *c, const int *id, const float *g, float *w, size_t n) {
    for (int i = 0; i < PARTS; i++)
        must(c, ps_push_dense(c, id[i], g + (size_t)i * n, n), "push");
    must(c, ps_step_end(c, 1, NULL, 0), "step");
    for (int i = 0; i < PARTS; i++)
        must(c, ps_pull_dense(c, id[i], w + (size_t)i * n, n), "pull");
    must(c, ps_wait(c), "wait");
}

/* All trainers do the same number of steps: trainer 0 measures a few steps and announces how many
 * fit into the time. */
static void run_trainer(const char *list, uint32_t t, uint32_t n_trainers, size_t mb,
                        double seconds, int out) {
    struct pd_err err = {0};
    struct ps_client *c;
    struct ps_client_opts o = {.pservers = list,
                               .trainer_id = t,
                               .n_trainers = n_trainers,
                               .seed = 1,
                               .optimizer = {"sgd", 0.01, 0},
                               .job = "bench",
                               .key = key32,
                               .plain = bench_plain()};
    if (ps_client_new(&c, &o, &err))
        die("client", &err);
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
    if (!(g = ps_lend(c, PARTS * n))) { /* our trainer, too, has its gradients there */
        fputs("ps_group: no memory to lend\n", stderr);
        _exit(1);
    }
    memset(g, 1, PARTS * n * sizeof *g);
    uint64_t t0 = pd_mono_ns();
    for (int k = 0; k < WARM_UP; k++)
        step(c, id, g, w, n);
    double steps = t ? 0 : seconds / ((double)(pd_mono_ns() - t0) * 1e-9 / WARM_UP);
    must(c, ps_reduce(c, &steps, 1), "reduce"); /* the other trainers add 0 */
    steps = steps < 5 ? 5 : (double)(uint64_t)steps;
    t0 = pd_mono_ns();
    for (int k = 0; k < (int)steps; k++)
        step(c, id, g, w, n);
    double ms = (double)(pd_mono_ns() - t0) / 1e6 / steps;
    if (t == 0 && write(out, &ms, sizeof ms) != sizeof ms)
        _exit(1);
    must(c, ps_bye(c), "bye");
    ps_client_free(c);
    _exit(0);
}

int main(int argc, char **argv) {
    uint32_t n = argc == 4 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (n < 1 || n > MOST)
        return fputs("usage: ps_group N MB SECONDS\n", stderr), 2;
    size_t mb = strtoull(argv[2], NULL, 10);
    char list[MOST * 72] = "";
    int fds[MOST], pipes[2];
    struct pd_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    bench_init();
    const char *address = bench_place(BENCH_SERVERS);
    for (uint32_t i = 0; i < n; i++) {
        int port;
        if ((fds[i] = net_bind_first_free(address, 0, 1, &port, &err)) < 0)
            die("bind", &err);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s:%d", i ? "," : "", address,
                 port);
    }
    if (pipe(pipes))
        return perror("pipe"), 1;
    for (uint32_t i = 0; i < n; i++)
        if (!fork()) {
            for (uint32_t k = 0; k < n; k++)
                if (k != i)
                    close(fds[k]);
            run_server(fds[i], n);
        }
    for (uint32_t i = 0; i < n; i++)
        close(fds[i]);
    bench_place(BENCH_TRAINERS);
    for (uint32_t i = 0; i < n; i++)
        if (!fork())
            run_trainer(list, i, n, mb, strtod(argv[3], NULL), pipes[1]);
    close(pipes[1]);
    double ms;
    int got = read(pipes[0], &ms, sizeof ms) == sizeof ms, failed = 0;
    for (int status; wait(&status) > 0;)
        failed |= status;
    if (!got || failed)
        return fputs("ps_group: a process failed\n", stderr), 1;
    printf("group %u MB %zu ms/step %.2f GB/s %.3f\n", n, mb, ms,
           2.0 * (double)n * (double)mb / ms);
    return 0;
}
