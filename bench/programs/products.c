/* SPDX-License-Identifier: Apache-2.0 */
/* products.c - only the matrix products of one training step: the same shapes on the same memory,
 * through cblas_sgemm in a loop.
 *
 *   products TRAIN.INI BATCH SECONDS
 *
 * Builds the network, runs forward and backward once on made-up samples, and records every call of
 * nn_gemm (the linker redirects these: --wrap, see the Makefile). Prints the number of products,
 * their floating point operations, and the time of a round: the mean over a quarter of SECONDS,
 * best of four. */
#include <cblas.h>

#include "math/hash.h"
#include "math/rng.h"
#include "nn/graph/graph.h"
#include "nn/kernels/kernel.h"

enum { MAX_CALLS = 256, WINDOWS = 4 };

static struct call {
    int ta, tb;
    size_t m, n, k;
    const float *a, *b;
    float beta, *c;
} calls[MAX_CALLS];
static size_t n_calls;

void __real_nn_gemm(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                    const float *b, float beta, float *c);
void __wrap_nn_gemm(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                    const float *b, float beta, float *c);

void __wrap_nn_gemm(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                    const float *b, float beta, float *c) {
    __real_nn_gemm(ta, tb, m, n, k, alpha, a, b, beta, c);
    if (n_calls < MAX_CALLS)
        calls[n_calls++] = (struct call){ta, tb, m, n, k, a, b, beta, c};
}

static void again(const struct call *p) {
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans,
                (blasint)p->m, (blasint)p->n, (blasint)p->k, 1, p->a,
                (blasint)(p->ta ? p->m : p->k), p->b, (blasint)(p->tb ? p->k : p->n), p->beta, p->c,
                (blasint)p->n);
}

static int fill(struct pd_batch *b, const struct nn_graph *g, uint32_t n) {
    const struct pd_rng_key key = pd_rng_key(1, PD_RNG_CHECK, 1, 0);
    if (pd_batch_init(b, nn_graph_field(g, 0), nn_graph_n_fields(g), n))
        return PD_ENOMEM;
    for (uint32_t k = 0; k < nn_graph_n_fields(g); k++) {
        const struct pd_field *f = nn_graph_field(g, k);
        if (f->kind == PD_LIST)
            return PD_ECONF;
        if (f->kind == PD_DENSE)
            pd_rng_normal(key, 1000 + k, b->values[k], (uint64_t)n * f->width);
        for (uint32_t i = 0; f->kind == PD_ID && i < n; i++)
            b->ids[k][i] = pd_rng_below(key, k, i, f->vocabulary ? f->vocabulary : 10000);
    }
    memset(b->stream, 0, n * sizeof *b->stream);
    for (uint32_t i = 0; i < n; i++)
        b->index[i] = i;
    b->n = n;
    return 0;
}

static float *numbers(uint64_t n) {
    float *v = pd_alloc64(n * sizeof *v);
    if (v)
        pd_rng_normal(pd_rng_key(1, PD_RNG_CHECK, 2, n), 0, v, n);
    for (uint64_t i = 0; v && i < n; i++)
        v[i] *= 0.01f;
    return v;
}

static int record(const struct nn_graph *g, struct pd_batch *b, uint32_t n, struct nn_exec **exec,
                  struct pd_err *err) {
    struct nn_feed *feed;
    struct nn_cost cost;
    int rc = fill(b, g, n) ? pd_fail(err, PD_ECONF, "samples cannot be made up for this network")
                           : nn_feed_new(&feed, g, n, err);
    if (!rc)
        rc = nn_feed_set(feed, b, err);
    if (!rc)
        rc = nn_exec_new(exec, g, n, err);
    for (uint32_t p = 0; p < nn_graph_n_params(g) && !rc; p++) {
        const struct nn_param *param = nn_graph_param(g, p);
        uint32_t keys;
        nn_feed_keys(feed, p, &keys);
        uint64_t size = (param->kind == NN_TABLE ? keys : param->rows) * param->cols;
        float *w = numbers(size), *grad = numbers(size);
        if (!w || !grad)
            return pd_fail(err, PD_ENOMEM, "no memory");
        nn_exec_bind(*exec, p, w, grad);
    }
    if (rc)
        return rc;
    nn_exec_forward(*exec, feed, 0, n, NN_TRAIN, 1, 0, &cost);
    nn_exec_backward(*exec);
    return 0;
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds per round, as the mean over `ns`; CPU time in *cpu. */
static double window(double ns, double *cpu) {
    uint64_t spent = 0, cpu_spent = 0, rounds = 0;
    while (rounds < 2 || (double)spent < ns) {
        uint64_t began = pd_mono_ns(), cpu_began = cpu_ns();
        for (size_t i = 0; i < n_calls; i++)
            again(&calls[i]);
        cpu_spent += cpu_ns() - cpu_began;
        spent += pd_mono_ns() - began;
        rounds++;
        for (size_t i = 0; i < n_calls;
             i++) /* repeated sums would leave the range of normal numbers */
            if (calls[i].beta != 0)
                memset(calls[i].c, 0, calls[i].m * calls[i].n * sizeof(float));
    }
    *cpu = (double)cpu_spent / (double)rounds;
    return (double)spent / (double)rounds;
}

int main(int argc, char **argv) {
    struct pd_err err = {0};
    struct nn_graph *g;
    struct nn_exec *exec;
    struct pd_batch b;
    double flop = 0;
    uint64_t n;
    if (argc != 4 || pd_parse_u64(argv[2], 1 << 20, &n) || !n)
        return fprintf(stderr, "usage: products TRAIN.INI BATCH SECONDS\n"), 2;
    if (nn_graph_load(&g, argv[1], &err) || record(g, &b, (uint32_t)n, &exec, &err))
        return fprintf(stderr, "products: %s\n", err.msg), 1;
    for (size_t i = 0; i < n_calls; i++)
        flop += 2.0 * (double)calls[i].m * (double)calls[i].n * (double)calls[i].k;
    double best = INFINITY, best_cpu = INFINITY;
    for (int k = 0; k < WINDOWS; k++) {
        double cpu, ns = window(strtod(argv[3], NULL) / WINDOWS * 1e9, &cpu);
        best = ns < best ? ns : best;
        best_cpu = cpu < best_cpu ? cpu : best_cpu;
    }
    printf("%zu products, %.1f MFLOP, %.3f ms, %.3f ms of CPU, %.1f GFLOP/s\n", n_calls, flop / 1e6,
           best * 1e-6, best_cpu * 1e-6, flop / best);
    return 0;
}
