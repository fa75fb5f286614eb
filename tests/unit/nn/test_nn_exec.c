/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_exec.c - forward and backward of a whole network, compared with plain loops in double.
 * Also tests feeds, divided batches, dropout and the hook, and finite differences over every layer
 * and activation. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "nn/evals/eval.h"
#include "nn/graph/graph.h"
#include "tests/support/c/near.h"
#include "tests/support/c/nn_words.h"

enum { V = 23, D = 5, H = 7, B = 11, F = 4 };

static void make_batch(struct pd_batch *b, uint32_t n) {
    assert_int_equal(pd_batch_init(b, NULL, F, n), 0);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < F; k++)
            b->ids[k][i] = pd_rng_below(pd_rng_key(3, PD_RNG_CHECK, 9, 9), k, i, V);
        b->stream[i] = i % 2;
        b->index[i] = 100 + i / 2;
    }
    b->n = n;
}

/* Values and gradients of every parameter. A table holds all V rows and is bound through keys. */
struct run {
    struct nn_graph *g;
    struct nn_feed *feed;
    struct nn_exec *exec;
    struct pd_batch batch;
    uint32_t n_params;
    float *w[12], *grad[12]; /* [rows x cols] */
    float *rows[12], *row_grad[12];
};

static void scatter(struct run *r, uint32_t p) {
    uint32_t n, cols = (uint32_t)nn_graph_param(r->g, p)->cols;
    const uint64_t *keys = nn_feed_keys(r->feed, p, &n);
    for (uint32_t i = 0; i < n; i++)
        memcpy(r->grad[p] + keys[i] * cols, r->row_grad[p] + i * cols, cols * sizeof(float));
}

static void set_batch(struct run *r, const struct pd_batch *b) {
    struct pd_err err = {0};
    if (nn_feed_set(r->feed, b, &err))
        fail_msg("%s", err.msg);
    for (uint32_t p = 0; p < r->n_params; p++) {
        const struct nn_param *q = nn_graph_param(r->g, p);
        memset(r->grad[p], 0, q->rows * q->cols * sizeof(float));
        if (q->kind == NN_DENSE) {
            nn_exec_bind(r->exec, p, r->w[p], r->grad[p]);
            continue;
        }
        uint32_t n;
        const uint64_t *keys = nn_feed_keys(r->feed, p, &n);
        memset(r->row_grad[p], 0, q->rows * q->cols * sizeof(float));
        for (uint32_t i = 0; i < n; i++)
            memcpy(r->rows[p] + i * q->cols, r->w[p] + keys[i] * q->cols, q->cols * sizeof(float));
        nn_exec_bind(r->exec, p, r->rows[p], r->row_grad[p]);
    }
}

static void start(struct run *r, const char *text) {
    memset(r, 0, sizeof *r);
    r->g = graph(text);
    r->n_params = nn_graph_n_params(r->g);
    assert_true(r->n_params <= 12);
    make_batch(&r->batch, B);
    assert_int_equal(nn_feed_new(&r->feed, r->g, B, NULL), 0);
    assert_int_equal(nn_exec_new(&r->exec, r->g, B, NULL), 0);
    for (uint32_t p = 0; p < r->n_params; p++) {
        const struct nn_param *q = nn_graph_param(r->g, p);
        size_t n = q->rows * q->cols;
        r->w[p] = calloc(n, sizeof(float));
        r->grad[p] = calloc(n, sizeof(float));
        r->rows[p] = calloc(n, sizeof(float));
        r->row_grad[p] = calloc(n, sizeof(float));
        pd_rng_normal(pd_rng_key(1, PD_RNG_CHECK, p, 0), 0, r->w[p], n);
        for (size_t i = 0; i < n; i++)
            r->w[p][i] *= 0.4f;
    }
    set_batch(r, &r->batch);
}

static double step(struct run *r, enum nn_mode mode, uint64_t pass) {
    struct nn_cost c;
    nn_exec_forward(r->exec, r->feed, 0, nn_feed_n(r->feed), mode, 5, pass, &c);
    assert_int_equal(c.n, nn_feed_n(r->feed));
    if (mode == NN_TEST)
        return c.sum;
    nn_exec_backward(r->exec);
    for (uint32_t p = 0; p < r->n_params; p++)
        if (nn_graph_param(r->g, p)->kind == NN_TABLE)
            scatter(r, p);
    return c.sum;
}

static void finish(struct run *r) {
    for (uint32_t p = 0; p < r->n_params; p++) {
        free(r->w[p]);
        free(r->grad[p]);
        free(r->rows[p]);
        free(r->row_grad[p]);
    }
    pd_batch_release(&r->batch);
    nn_exec_free(r->exec);
    nn_feed_free(r->feed);
    nn_graph_free(r->g);
}

/* --- the same network in double --- */

struct naive {
    struct num_sum cost, emb[V][D], w1[3 * D][H], b1[H], w2[H][V], b2[V]; /* gradients */
};

/* Softmax of z and its cost for class y; dz is the gradient. ULPS: the kernel's exp, quotient, log.
 */
static struct num naive_cost(const struct num *z, uint64_t y, struct num *dz) {
    enum { ULPS = 8 };
    double sum = 0, spread = 0;
    for (int v = 0; v < V; v++)
        sum += exp(z[v].v);
    for (int v = 0; v < V; v++)
        spread += exp(z[v].v) / sum * z[v].e;
    for (int v = 0; v < V; v++) {
        double p = exp(z[v].v) / sum;
        dz[v].v = p - ((uint64_t)v == y);
        dz[v].e = p * (z[v].e + spread) + sum_error(V + ULPS, p) + sum_error(1, fabs(dz[v].v));
    }
    double cost = log(sum) - z[y].v;
    double magnitudes = 1 + fabs(log(sum)) + fabs(z[y].v);
    return (struct num){cost, spread + z[y].e + sum_error(V + ULPS, magnitudes)};
}

static void naive_sample(struct naive *s, const struct run *r, uint32_t i) {
    const float *emb = r->w[0], *w1 = r->w[1], *b1 = r->w[2], *w2 = r->w[3], *b2 = r->w[4];
    struct num x[3 * D], h[H], z[V], dz[V], dh[H];
    for (int k = 0; k < 3; k++)
        for (int d = 0; d < D; d++)
            x[k * D + d] = num_of(emb[r->batch.ids[k][i] * D + (unsigned)d]);
    for (int j = 0; j < H; j++) {
        struct num_sum a = {0};
        num_add(&a, num_of(b1[j]));
        for (int l = 0; l < 3 * D; l++)
            num_add_product(&a, x[l], num_of(w1[l * H + j]));
        double y = 1 / (1 + exp(-a.v));
        h[j] = num_f(num_total(&a), y, y * (1 - y), 4);
    }
    for (int v = 0; v < V; v++) {
        struct num_sum a = {0};
        num_add(&a, num_of(b2[v]));
        for (int j = 0; j < H; j++)
            num_add_product(&a, h[j], num_of(w2[j * V + v]));
        z[v] = num_total(&a);
    }
    num_add(&s->cost, naive_cost(z, r->batch.ids[3][i], dz));
    for (int v = 0; v < V; v++)
        num_add(&s->b2[v], dz[v]);
    for (int j = 0; j < H; j++) {
        struct num_sum a = {0};
        for (int v = 0; v < V; v++) {
            num_add_product(&a, dz[v], num_of(w2[j * V + v]));
            num_add_product(&s->w2[j][v], h[j], dz[v]);
        }
        struct num slope = num_f(h[j], h[j].v * (1 - h[j].v), 1 - 2 * h[j].v, 2);
        dh[j] = num_mul(num_total(&a), slope);
        num_add(&s->b1[j], dh[j]);
    }
    for (int l = 0; l < 3 * D; l++) {
        struct num_sum a = {0};
        for (int j = 0; j < H; j++) {
            num_add_product(&s->w1[l][j], x[l], dh[j]);
            num_add_product(&a, dh[j], num_of(w1[l * H + j]));
        }
        num_add(&s->emb[r->batch.ids[l / D][i]][l % D], num_total(&a));
    }
}

/* times: the number of steps, because dense gradients accumulate. */
static void compare(const char *what, const float *got, const struct num_sum *sum, size_t n,
                    int times) {
    double want[V * H * D], error[V * H * D];
    assert_true(n <= V * H * D);
    for (size_t i = 0; i < n; i++) {
        struct num a = num_total(&sum[i]);
        want[i] = times * a.v;
        error[i] = times * (a.e + sum_error(times, fabs(a.v)));
    }
    assert_within(what, got, want, error, n);
}

static void compare_all(const struct run *r, const struct naive *s) {
    compare("emb", r->grad[0], &s->emb[0][0], V * D, 1);
    compare("hid.w", r->grad[1], &s->w1[0][0], 3 * D * H, 1);
    compare("hid.b", r->grad[2], s->b1, H, 1);
    compare("out.w", r->grad[3], &s->w2[0][0], H * V, 1);
    compare("out.b", r->grad[4], s->b2, V, 1);
}

static void the_word_model_agrees_with_plain_loops_in_double(void **state) {
    (void)state;
    static const char *const kind[] = {"cost, sparse_update = true", "cost, sparse_update = false"};
    for (int k = 0; k < 2; k++) {
        struct run r;
        struct naive s = {0};
        start(&r, k == 0 ? NET("true") : NET("false"));
        assert_int_equal(nn_graph_param(r.g, 0)->kind, k == 0 ? NN_TABLE : NN_DENSE);
        double cost = step(&r, NN_TRAIN, 0);
        for (uint32_t i = 0; i < B; i++)
            naive_sample(&s, &r, i);
        assert_near(kind[k], cost, s.cost.v, num_total(&s.cost).e);
        compare_all(&r, &s);
        step(&r, NN_TRAIN, 0); /* dense gradients accumulate */
        compare("out.b after two steps", r.grad[4], s.b2, V, 2);
        finish(&r);
    }
}

static void keys_are_sorted_unique_and_complete(void **state) {
    (void)state;
    struct run r;
    start(&r, NET("true"));
    uint32_t n, expected = 0;
    const uint64_t *keys = nn_feed_keys(r.feed, 0, &n);
    int seen[V] = {0};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < B; i++)
            seen[r.batch.ids[k][i]] = 1;
    for (int v = 0; v < V; v++)
        if (seen[v])
            assert_int_equal(keys[expected++], (uint64_t)v);
    assert_int_equal(n, expected);
    assert_null(nn_feed_keys(r.feed, 1, &n));
    assert_int_equal(n, 0);
    struct pd_err err = {0};
    r.batch.ids[1][4] = V;
    assert_int_equal(nn_feed_set(r.feed, &r.batch, &err), PD_EDATA);
    assert_string_equal(err.msg,
                        "stream 0, sample 102: field 'b' is 23, but the vocabulary has 23 ids");
    finish(&r);
}

static void keys_of_several_bytes_sort(void **state) {
    (void)state;
    static const uint64_t ids[] = {69999, 3, 256, 3, 65536, 0, 255, 69999};
    static const uint64_t want[] = {0, 3, 255, 256, 65536, 69999};
    struct nn_graph *g =
        graph("[data]\nformat = ids\nfields = a y\nvocabulary = 70000\n"
              "[optimizer]\ntype = sgd\nlearning_rate = 1\n"
              "[layer e]\ntype = embedding\ninputs = a\nsize = 2\nsparse_update = true\n"
              "[layer out]\ntype = fc\ninputs = e\nsize = vocabulary\nact = softmax\n"
              "[cost c]\ntype = cross_entropy\ninput = out\nlabel = y\n");
    struct nn_feed *f;
    struct pd_batch b;
    uint32_t n;
    assert_int_equal(nn_feed_new(&f, g, 8, NULL), 0);
    assert_int_equal(pd_batch_init(&b, NULL, 2, 8), 0);
    memcpy(b.ids[0], ids, sizeof ids);
    b.n = 8;
    assert_int_equal(nn_feed_set(f, &b, NULL), 0);
    const uint64_t *keys = nn_feed_keys(f, 0, &n);
    assert_int_equal(n, 6);
    assert_memory_equal(keys, want, sizeof want);
    uint64_t bits = 1 << 2;
    nn_feed_mark_keys(f, 0, 2, 4, &bits); /* 256, 3, 65536, 0 */
    assert_int_equal(bits, 1 << 2 | 1 << 3 | 1 << 1 | 1 << 4 | 1 << 0);
    pd_batch_release(&b);
    nn_feed_free(f);
    nn_graph_free(g);
}

static void a_batch_cut_in_two_gives_the_same_sums(void **state) {
    (void)state;
    struct run r;
    struct nn_cost c1, c2;
    struct naive s = {0};
    start(&r, NET("true"));
    for (uint32_t i = 0; i < B; i++)
        naive_sample(&s, &r, i);
    nn_exec_forward(r.exec, r.feed, 0, 4, NN_TRAIN, 5, 0, &c1);
    nn_exec_backward(r.exec);
    nn_exec_forward(r.exec, r.feed, 4, B - 4, NN_TRAIN, 5, 0, &c2);
    nn_exec_backward(r.exec);
    scatter(&r, 0);
    assert_near("cost", c1.sum + c2.sum, s.cost.v, num_total(&s.cost).e);
    compare_all(&r, &s);
    finish(&r);
}

/* Matrices whose gradients consist of several blocks, tall ones and wide ones, and a matrix that
 * two layers share. */
#define WIDE                                                                                    \
    HEAD THREE("true") "[layer wide]\ntype = fc\ninputs = cat\nsize = 9000\nact = tanh\n"       \
                       "[layer tall]\ntype = fc\ninputs = wide\nsize = 20\nact = tanh\n"        \
                       "[layer s1]\ntype = fc\ninputs = tall\nsize = 20\nparam = s sb\n[layer " \
                       "s2]\ntype = fc\ninputs = s1\nsize = 20\nparam = s sb\n" OUT("s2 tall")  \
                           COST

enum { PIECES = 3 };
static const uint32_t piece[PIECES + 1] = {0, 5, 6, B};

/* Adds the gradients of samples [first, end) to `sum`; as_magnitudes: their absolute values. */
static double add_piece(struct run *r, uint32_t first, uint32_t end, double **sum,
                        int as_magnitudes) {
    struct nn_cost c;
    set_batch(r, &r->batch);
    nn_exec_forward(r->exec, r->feed, first, end - first, NN_TRAIN, 5, 0, &c);
    nn_exec_backward(r->exec);
    for (uint32_t p = 0; p < r->n_params; p++) {
        const struct nn_param *q = nn_graph_param(r->g, p);
        for (size_t i = 0; i < q->rows * q->cols && q->kind == NN_DENSE; i++) {
            double g = (double)r->grad[p][i];
            sum[p][i] += as_magnitudes ? fabs(g) : g;
        }
    }
    return c.sum;
}

/* Pieces of different sizes: their executions compute some gradients of all samples together, and
 * overwrite the old values. The reference runs each piece alone with the same products, which have
 * the same bits, and sums the pieces' gradients in double. Only the order of the additions over
 * samples differs. The magnitudes are those of the samples' own gradients. */
static void executions_beside_each_other_give_the_same_sums(void **state) {
    (void)state;
    struct run r;
    struct nn_exec *e[PIECES];
    struct nn_cost c;
    float *sum[12], *rows = NULL;
    double *want[12], *magnitudes[12], cost = 0, want_cost = 0;
    uint32_t n_together = 0;
    start(&r, WIDE);
    assert_true(r.n_params <= 12);
    for (uint32_t p = 0; p < r.n_params; p++) {
        const struct nn_param *q = nn_graph_param(r.g, p);
        const size_t n = q->rows * q->cols;
        want[p] = calloc(n, sizeof(double));
        magnitudes[p] = calloc(n, sizeof(double));
        sum[p] = calloc(n, sizeof(float));
        n_together += (uint32_t)q->together;
        for (size_t i = 0; i < n && q->together; i++)
            sum[p][i] = NAN;
    }
    assert_int_equal(n_together, 4); /* wide, tall, and two of out; not s */
    for (uint32_t i = 0; i < B; i++)
        add_piece(&r, i, i + 1, magnitudes, 1);
    for (uint32_t k = 0; k < PIECES; k++)
        want_cost += add_piece(&r, piece[k], piece[k + 1], want, 0);
    assert_int_equal(nn_exec_new_beside(e, PIECES, r.g, 5, B, NULL), 0);
    for (uint32_t k = 0; k < PIECES; k++) {
        for (uint32_t p = 0; p < r.n_params; p++) {
            uint32_t n;
            const int table = nn_graph_param(r.g, p)->kind == NN_TABLE;
            if (table && !rows)
                rows = calloc((nn_feed_keys(r.feed, p, &n), n), D * sizeof(float));
            nn_exec_bind(e[k], p, table ? r.rows[p] : r.w[p], table ? rows : sum[p]);
        }
        nn_exec_forward(e[k], r.feed, piece[k], piece[k + 1] - piece[k], NN_TRAIN, 5, 0, &c);
        cost += c.sum;
    }
    for (uint32_t k = PIECES; k-- > 0;)
        nn_exec_backward(e[k]);
    for (uint32_t k = 0; k < PIECES; k++)
        nn_exec_joint_gradient(e[0], r.feed, k, PIECES);
    assert_true(cost == want_cost);
    for (uint32_t p = 0; p < r.n_params; p++) {
        const struct nn_param *q = nn_graph_param(r.g, p);
        if (q->kind == NN_DENSE)
            assert_near_sums(q->name, sum[p], want[p], magnitudes[p], q->rows * q->cols,
                             2 * B); /* two layers use s */
        free(want[p]);
        free(magnitudes[p]);
        free(sum[p]);
    }
    for (uint32_t k = PIECES; k-- > 0;)
        nn_exec_free(e[k]);
    free(rows);
    finish(&r);
}

/* The values of each sample that dropout keeps, by (stream, index). */
static void masks(struct run *r, uint32_t first, uint32_t n, uint64_t pass, uint8_t out[B][H]) {
    struct nn_cost c;
    uint32_t size;
    nn_exec_forward(r->exec, r->feed, first, n, NN_TRAIN, 5, pass, &c);
    const float *y = nn_exec_output(r->exec, "drop", &size),
                *x = nn_exec_output(r->exec, "hid", &size);
    assert_int_equal(size, H);
    for (uint32_t i = 0; i < n; i++)
        for (int j = 0; j < H; j++) {
            float v = y[i * H + (unsigned)j];
            assert_true(v == 0 || v == 2 * x[i * H + (unsigned)j]);
            out[first + i][j] = v != 0;
        }
}

static void dropout_does_not_depend_on_how_batches_are_cut(void **state) {
    (void)state;
    struct run r;
    uint8_t whole[B][H], parts[B][H], moved[B][H], next[B][H];
    start(&r, DROPPED);
    masks(&r, 0, B, 0, whole);
    masks(&r, 0, 3, 0, parts);
    masks(&r, 3, 5, 0, parts);
    masks(&r, 8, B - 8, 0, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    masks(&r, 0, B, 1, next);
    assert_memory_not_equal(whole, next, sizeof whole);
    int kept = 0;
    for (int i = 0; i < B; i++)
        for (int j = 0; j < H; j++)
            kept += whole[i][j];
    assert_in_range(kept, B * H / 4, 3 * B * H / 4);
    /* The same samples in reverse order keep their masks. */
    struct pd_batch back;
    make_batch(&back, B);
    for (uint32_t i = 0; i < B; i++) {
        for (int k = 0; k < F; k++)
            back.ids[k][i] = r.batch.ids[k][B - 1 - i];
        back.stream[i] = r.batch.stream[B - 1 - i];
        back.index[i] = r.batch.index[B - 1 - i];
    }
    set_batch(&r, &back);
    masks(&r, 0, B, 0, moved);
    for (int i = 0; i < B; i++)
        assert_memory_equal(whole[i], moved[B - 1 - i], H);
    pd_batch_release(&back);
    /* In testing no value is dropped. */
    struct nn_cost c;
    uint32_t size;
    nn_exec_forward(r.exec, r.feed, 0, B, NN_TEST, 5, 0, &c);
    assert_memory_equal(nn_exec_output(r.exec, "drop", &size), nn_exec_output(r.exec, "hid", &size),
                        B * H * sizeof(float));
    assert_null(nn_exec_output(r.exec, "nix", &size));
    finish(&r);
}

static void the_same_batch_gives_the_same_bits(void **state) {
    (void)state;
    struct run r;
    static float first[8][V * H * D];
    start(&r, DROPPED);
    double cost = step(&r, NN_TRAIN, 3);
    for (uint32_t p = 0; p < r.n_params; p++)
        memcpy(first[p], r.grad[p],
               nn_graph_param(r.g, p)->rows * nn_graph_param(r.g, p)->cols * sizeof(float));
    step(&r, NN_TEST, 0);
    set_batch(&r, &r.batch);
    assert_true(step(&r, NN_TRAIN, 3) == cost);
    for (uint32_t p = 0; p < r.n_params; p++)
        assert_memory_equal(first[p], r.grad[p],
                            nn_graph_param(r.g, p)->rows * nn_graph_param(r.g, p)->cols *
                                sizeof(float));
    finish(&r);
}

static void note(void *arg, uint32_t param) {
    char *s = arg;
    size_t n = strlen(s);
    s[n] = (char)('0' + param);
    s[n + 1] = 0;
}

static void gradients_are_announced_when_complete_last_layers_first(void **state) {
    (void)state;
    struct run r;
    char order[20] = "";
    start(&r, NET("true"));
    nn_exec_on_gradient(r.exec, note, order);
    step(&r, NN_TRAIN, 0);
    assert_string_equal(order, "34120"); /* out.w out.b hid.w hid.b emb (shared by three) */
    finish(&r);
}

static void evaluators_sum_over_samples(void **state) {
    (void)state;
    struct run r;
    start(&r,
          NET("true") "[evaluator ppl]\ntype = perplexity\ninput = c\n"
                      "[evaluator wrong]\ntype = classification_error\ninput = out\nlabel = y\n");
    uint32_t size;
    double cost = step(&r, NN_TEST, 0), wrong = 0;
    const float *y = nn_exec_output(r.exec, "out", &size);
    for (uint32_t i = 0; i < B; i++)
        for (uint32_t v = 0; v < V; v++)
            if (y[i * V + v] > y[i * V + r.batch.ids[3][i]]) {
                wrong++;
                break;
            }
    struct nn_eval *v;
    const struct nn_eval_all alone = {.n_ranks = 1};
    assert_int_equal(nn_eval_new(&v, r.g, NULL), 0);
    assert_int_equal(nn_eval_add(v, r.exec, NULL), 0);
    assert_int_equal(nn_eval_total(v, &alone, NULL), 0);
    assert_int_equal(nn_eval_n_values(v), 2);
    assert_string_equal(nn_eval_name(v, 1), "wrong");
    assert_true(fabs(nn_eval_value(v, 0) - exp(cost / B)) < 1e-9);
    assert_true(nn_eval_value(v, 1) == wrong / B);
    nn_eval_free(v);
    finish(&r);
}

/* Refused with figures, before memory is taken. */
static void a_batch_that_the_machine_cannot_hold(void **state) {
    (void)state;
    struct nn_graph *g = graph(NET("true"));
    struct pd_err err = {0};
    char want[200];
    assert_int_equal(nn_graph_admit(g, 3, 5, 15, &err), 0);
    assert_int_equal(nn_graph_admit(g, 1, UINT32_MAX, UINT32_MAX, &err), PD_ENOMEM);
    snprintf(want, sizeof want,
             "%s:30: a batch of 4294967295 samples and the parameters (the largest is layer 'cat' "
             "with 515.4 GB) need 1",
             ini);
    if (strncmp(err.msg, want, strlen(want)) || !strstr(err.msg, "GB of them available"))
        fail_msg("%s", err.msg);
    nn_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_model_agrees_with_plain_loops_in_double),
        cmocka_unit_test(keys_are_sorted_unique_and_complete),
        cmocka_unit_test(keys_of_several_bytes_sort),
        cmocka_unit_test(a_batch_cut_in_two_gives_the_same_sums),
        cmocka_unit_test(executions_beside_each_other_give_the_same_sums),
        cmocka_unit_test(dropout_does_not_depend_on_how_batches_are_cut),
        cmocka_unit_test(the_same_batch_gives_the_same_bits),
        cmocka_unit_test(gradients_are_announced_when_complete_last_layers_first),
        cmocka_unit_test(evaluators_sum_over_samples),
        cmocka_unit_test(a_batch_that_the_machine_cannot_hold),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
