/* SPDX-License-Identifier: Apache-2.0 */
/* nn_net.h - a small network of nn_fields.h with made-up samples and parameters, after one forward,
 * and the comparison of a layer's values with a plain reference in double. */
#pragma once

#include "math/rng.h"
#include "nn/graph/graph_internal.h"
#include "tests/support/c/near.h"
#include "tests/support/c/nn_fields.h"

enum { B = 9, N = 6, V = 20, D = 3 }; /* as in nn_fields.h: V rows of D values */

struct net {
    struct nn_graph *g;
    struct nn_feed *feed;
    struct nn_exec *exec;
    struct pd_batch b;
    float *w[12];
    int magnitudes; /* 1: the terms of BLAS's sums are taken as absolute values */
};

static const struct pd_rng_key rng = {{7, 11}};

/* Samples of all kinds: lists of 0 to 4 ids, some ids twice. */
static inline void fill(struct pd_batch *b, const struct nn_graph *g) {
    uint32_t n_fields = nn_graph_n_fields(g);
    assert_int_equal(pd_batch_init(b, nn_graph_field(g, 0), n_fields, B), 0);
    for (uint32_t k = 0; k < n_fields; k++) {
        const struct pd_field *f = nn_graph_field(g, k);
        if (f->kind == PD_DENSE)
            pd_rng_normal(rng, k, b->values[k], B * f->width);
        for (uint32_t i = 0; f->kind == PD_ID && i < B; i++)
            b->ids[k][i] = pd_rng_below(rng, k, i, f->vocabulary);
        b->n = 0;
        for (uint32_t i = 0, at = 0; f->kind == PD_LIST && i < B; i++) {
            assert_int_equal(pd_batch_reserve(b, k, 4), 0);
            for (uint32_t j = 0; j < (i * 3 + k) % 5; j++, at++) {
                b->ids[k][at] = pd_rng_below(rng, k, at, V);
                if (f->weighted)
                    b->values[k][at] = 0.25f * (float)(1 + at % 7);
            }
            b->offset[k][i + 1] = at;
            b->n = i + 1;
        }
    }
    for (uint32_t i = 0; i < B; i++) {
        b->stream[i] = 0;
        b->index[i] = i;
    }
    b->n = B;
}

/* Runs forward over the batch. Every parameter is normal with std 0.5. Tables get all V rows, and
 * the rows of the keys are bound. */
static inline double start(struct net *n, const char *text) {
    memset(n, 0, sizeof *n);
    n->g = graph(text);
    fill(&n->b, n->g);
    assert_int_equal(nn_feed_new(&n->feed, n->g, B, NULL), 0);
    assert_int_equal(nn_exec_new(&n->exec, n->g, B, NULL), 0);
    assert_int_equal(nn_feed_set(n->feed, &n->b, NULL), 0);
    assert_true(nn_graph_n_params(n->g) <= 12);
    for (uint32_t p = 0; p < nn_graph_n_params(n->g); p++) {
        const struct nn_param *q = nn_graph_param(n->g, p);
        uint32_t n_keys;
        const uint64_t *keys = nn_feed_keys(n->feed, p, &n_keys);
        float *all = calloc(q->rows * q->cols, sizeof(float));
        pd_rng_normal(rng, 100 + p, all, q->rows * q->cols);
        for (size_t i = 0; i < q->rows * q->cols; i++)
            all[i] = strstr(q->name, ".variance") ? fabsf(all[i]) : all[i] * 0.5f;
        n->w[p] = all;
        if (keys) {
            n->w[p] = calloc(n_keys * q->cols, sizeof(float));
            for (uint32_t i = 0; i < n_keys; i++)
                memcpy(n->w[p] + i * q->cols, all + keys[i] * q->cols, q->cols * sizeof(float));
            free(all);
        }
        nn_exec_bind(n->exec, p, n->w[p], NULL);
    }
    struct nn_cost c;
    nn_exec_forward(n->exec, n->feed, 0, B, NN_TEST, 1, 0, &c);
    return c.sum;
}

static inline void stop(struct net *n) {
    for (int p = 0; p < 12; p++)
        free(n->w[p]);
    pd_batch_release(&n->b);
    nn_exec_free(n->exec);
    nn_feed_free(n->feed);
    nn_graph_free(n->g);
}

static inline uint32_t field(const struct net *n, const char *name) {
    for (uint32_t k = 0; k < nn_graph_n_fields(n->g); k++)
        if (!strcmp(nn_graph_field(n->g, k)->name, name))
            return k;
    fail_msg("no field %s", name);
    return 0;
}

static inline double dense(const struct net *n, const char *name, uint32_t i, uint32_t j) {
    uint32_t k = field(n, name);
    return (double)n->b.values[k][i * nn_graph_field(n->g, k)->width + j];
}

/* Value j of row `id` of parameter p, as start() made it. */
static inline double row(uint64_t id, uint32_t p, uint32_t cols, uint32_t j) {
    float all[V * 8];
    pd_rng_normal(rng, 100 + p, all, (uint64_t)V * cols);
    return (double)(all[id * cols + j] * 0.5f);
}

static inline double term(const struct net *n, double x) { return n->magnitudes ? fabs(x) : x; }

/* The terms of one value of a layer here, including its other roundings. */
enum { MOST_TERMS = 16 };

static inline void expect(const char *what, struct net *n, const char *layer, uint32_t width,
                          double (*want)(const struct net *n, uint32_t i, uint32_t j)) {
    uint32_t size;
    const float *y = nn_exec_output(n->exec, layer, &size);
    assert_int_equal(size, width);
    for (uint32_t i = 0; i < B; i++)
        for (uint32_t j = 0; j < width; j++) {
            n->magnitudes = 0;
            double w = want(n, i, j), got = (double)y[i * width + j];
            n->magnitudes = 1;
            if (!(fabs(got - w) <= sum_error(MOST_TERMS, 1 + fabs(want(n, i, j)))))
                fail_msg("%s: sample %u, value %u is %.8g, not %.8g", what, i, j, got, w);
        }
}

/* A network whose layer "it" has `width` values a sample, and their reference. */
struct layer_row {
    const char *name, *text;
    uint32_t width;
    double (*want)(const struct net *n, uint32_t i, uint32_t j);
};

static inline void expect_layers(const struct layer_row *rows, size_t n_rows) {
    for (size_t k = 0; k < n_rows; k++) {
        struct net n;
        start(&n, rows[k].text);
        expect(rows[k].name, &n, "it", rows[k].width, rows[k].want);
        stop(&n);
    }
}
