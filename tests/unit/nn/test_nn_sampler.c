/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_sampler.c - drawn ids: their frequencies, their independence of the division into
 * batches, and the sampled costs compared with plain loops. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "nn/graph/alias_sampler.h"
#include "nn/graph/sampler.h"
#include "tests/support/c/near.h"

static char dir[] = "/tmp/test-nn-sampler-XXXXXX";
static char ini[64], counts[64];

enum { V = 12, B = 10, D = 4, K = 7 };

#define NET(rest)                                                                                  \
    "[data]\nformat = ids\nfields = a y\nvocabulary = 12\n[optimizer]\ntype = sgd\nlearning_rate " \
    "= 1\n"                                                                                        \
    "[layer e]\ntype = embedding\ninputs = a\nsize = 4\nsparse_update = true\n[layer n]\ntype = "  \
    "negative_sampling\ninputs = e y\n"                                                            \
    "negatives = 7\nsparse_update = true\n" rest "[cost c]\ntype = sum\ninput = n\n"

/* The same with a list of ids whose rows are summed: the words near a word. */
#define NEAR                                                                                  \
    "[data]\nformat = ids\nfields = a y\nvocabulary = 12\n[field a]\ntype = "                 \
    "list\n[optimizer]\ntype = sgd\nlearning_rate = 1\n"                                      \
    "[layer n]\ntype = skip_gram\ninputs = a y\nsize = 4\nnegatives = 7\nshare = 4\nscale = " \
    "0.5\nsparse_update = true\n"                                                             \
    "[cost c]\ntype = sum\ninput = n\n"

static int load(const char *text, struct nn_graph **g, struct pd_err *err) {
    assert_int_equal(pd_write_file_atomic(ini, text, strlen(text), 0600, NULL), 0);
    return nn_graph_load(g, ini, err);
}

static void fill(struct pd_batch *b, const struct nn_graph *g, uint32_t first, uint32_t n) {
    assert_int_equal(pd_batch_init(b, nn_graph_field(g, 0), 2, n), 0);
    int list = b->field[0].kind == PD_LIST;
    assert_true(!list || !pd_batch_reserve(b, 0, 3 * n));
    for (uint32_t i = 0, at = 0; i < n; i++) {
        for (uint32_t j = 0; list && j < (first + i) % 4; j++)
            b->ids[0][at++] = ((first + i) * 5 + j * 3) % V;
        if (list)
            b->offset[0][i + 1] = at;
        else
            b->ids[0][i] = (first + i) * 5 % V;
        b->ids[1][i] = (first + i) * 7 % V;
        b->stream[i] = (first + i) / 6;
        b->index[i] = (first + i) % 6;
    }
    b->n = n;
}

/* Each frequency must be within six standard deviations of its share. The key is fixed, so the
 * result is always the same. */
static void frequencies_are_those_of_the_weights(void **state) {
    (void)state;
    double w[V] = {5, 0, 1, 1, 2.5, 100, 0.1, 3, 3, 3, 7, 0}, p[V], sum = 0;
    enum { N = 400000 };
    uint32_t count[V] = {0};
    for (int i = 0; i < V; i++)
        sum += w[i];
    for (int i = 0; i < V; i++)
        p[i] = w[i] / sum;
    struct nn_alias *a = nn_alias_new(w, V);
    assert_non_null(a);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t u[4];
        pd_rng_u32x4(pd_rng_key(3, PD_RNG_CHECK, 0, 0), 0, i, u);
        count[nn_alias_draw(a, u[0], u[1])]++;
    }
    for (int i = 0; i < V; i++)
        if (fabs(count[i] - N * p[i]) > 6 * sqrt(N * p[i] * (1 - p[i])) + 1)
            fail_msg("index %d came %u times, not about %.0f", i, count[i], N * p[i]);
    nn_alias_free(a);
}

/* The drawn ids of all samples, by samplers of one graph. */
static void drawn(struct nn_graph *g, uint32_t first, uint32_t n, uint64_t pass,
                  uint64_t out[B][K]) {
    struct nn_feed *f;
    struct pd_batch b;
    assert_int_equal(nn_feed_new(&f, g, B, NULL), 0);
    fill(&b, g, first, n);
    nn_feed_seed(f, 5, pass);
    assert_int_equal(nn_feed_set(f, &b, NULL), 0);
    for (uint32_t i = 0; i < n; i++)
        memcpy(out[first + i], f->draw[0].ids + f->draw[0].group[i] * K, sizeof out[0]);
    pd_batch_release(&b);
    nn_feed_free(f);
}

static void what_is_drawn_does_not_depend_on_how_batches_are_cut(void **state) {
    (void)state;
    struct nn_graph *g;
    uint64_t whole[B][K], parts[B][K], next[B][K];
    assert_int_equal(load(NET("share = 2\n"), &g, NULL), 0);
    drawn(g, 0, B, 1, whole);
    drawn(g, 0, 3, 1, parts); /* divides a group */
    drawn(g, 3, B - 3, 1, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    drawn(g, 0, B, 2, next);
    assert_memory_not_equal(whole, next, sizeof whole);
    assert_memory_equal(whole[0], whole[1], sizeof whole[0]);
    assert_memory_not_equal(whole[1], whole[2], sizeof whole[0]);
    assert_memory_not_equal(whole[0], whole[6], sizeof whole[0]); /* another stream */
    nn_graph_free(g);
}

/* The cost of a score z for the label yes or no: log1p(exp(-z)) or log1p(exp(z)), to 8 ulps. */
static struct num logistic_cost(struct num z, int yes) {
    double to = yes ? -z.v : z.v, cost = log1p(exp(to));
    return num_f(z, cost, 1 / (1 + exp(-to)), 8);
}

static void cost_agrees(const char *text) {
    struct nn_graph *g;
    struct nn_feed *f;
    struct nn_exec *e;
    struct pd_batch b;
    struct nn_cost cost;
    uint64_t ids[B][K];
    uint32_t n_keys[2];
    float w[2][V * D], rows[2][V * D];
    struct num_sum want = {0};
    assert_int_equal(load(text, &g, NULL), 0);
    assert_int_equal(nn_feed_new(&f, g, B, NULL), 0);
    assert_int_equal(nn_exec_new(&e, g, B, NULL), 0);
    fill(&b, g, 0, B);
    nn_feed_seed(f, 5, 0);
    assert_int_equal(nn_feed_set(f, &b, NULL), 0);
    for (uint32_t p = 0; p < 2; p++) {
        pd_rng_normal(pd_rng_key(1, PD_RNG_CHECK, p, 0), 0, w[p], V * D);
        const uint64_t *keys = nn_feed_keys(f, p, &n_keys[p]);
        for (uint32_t i = 0; i < n_keys[p]; i++)
            memcpy(rows[p] + i * D, w[p] + keys[i] * D, D * sizeof(float));
        nn_exec_bind(e, p, rows[p], NULL);
    }
    nn_exec_forward(e, f, 0, B, NN_TEST, 0, 0, &cost);
    drawn(g, 0, B, 0, ids);
    uint32_t skipped = 0;
    for (uint32_t i = 0; i < B; i++)
        for (uint32_t j = b.offset[0] ? b.offset[0][i] : i;
             j < (b.offset[0] ? b.offset[0][i + 1] : i + 1); j++)
            for (int k = -1; k < K; k++) {
                uint64_t id = k < 0 ? b.ids[1][i] : ids[i][k];
                struct num_sum z = {0};
                for (uint32_t d = 0; d < D; d++)
                    num_add_product(&z, num_of(w[0][b.ids[0][j] * D + d]),
                                    num_of(w[1][id * D + d]));
                if (k < 0)
                    num_add(&want, logistic_cost(num_total(&z), 1));
                else if (id != b.ids[1][i])
                    num_add(&want, num_mul(num_of(0.5f), logistic_cost(num_total(&z), 0)));
                else
                    skipped++;
            }
    assert_true(skipped > 1);
    assert_near("cost", cost.sum, want.v, num_total(&want).e);
    uint64_t bits = 0;
    nn_feed_mark_keys(f, 1, 0, B, &bits);
    assert_int_equal(bits, (UINT64_C(1) << n_keys[1]) - 1);
    pd_batch_release(&b);
    nn_exec_free(e);
    nn_feed_free(f);
    nn_graph_free(g);
}

static void the_cost_agrees_with_plain_loops(void **state) {
    (void)state;
    cost_agrees(NET("share = 4\nscale = 0.5\n"));
    cost_agrees(NEAR);
}

/* The same for nce. NCE uses tables. NCE_DENSE uses dense parameters; in testing its cost is that
 * of a softmax over all ids. */
#define NCE_OF(rest)                                                                               \
    "[data]\nformat = ids\nfields = a y\nvocabulary = 12\n[optimizer]\ntype = sgd\nlearning_rate " \
    "= 1\n"                                                                                        \
    "[layer e]\ntype = embedding\ninputs = a\nsize = 4\nsparse_update = true\n[layer n]\ntype = "  \
    "nce\ninputs = e y\n"                                                                          \
    "negatives = 7\nshare = 4\npower = 0.5\ncounts = counts.txt\n" rest                            \
    "[cost c]\ntype = sum\ninput = n\n"

enum { E_W, N_W, N_B, N_PARAMS };
struct nce {
    struct nn_graph *g;
    struct nn_feed *f;
    struct nn_exec *e;
    struct pd_batch b;
    float w[N_PARAMS][V * D], rows[N_PARAMS][V * D], grad[N_PARAMS][V * D];
};

static double nce_cost(struct nce *t, const char *text, enum nn_mode mode) {
    static const char two_have_none[] = "1\n2\n0\n4\n5\n6\n7\n8\n9\n10\n0\n12\n";
    struct nn_cost cost;
    memset(t, 0, sizeof *t);
    assert_int_equal(pd_write_file_atomic(counts, two_have_none, strlen(two_have_none), 0600, NULL),
                     0);
    assert_int_equal(load(text, &t->g, NULL), 0);
    assert_int_equal(nn_graph_n_params(t->g), N_PARAMS);
    assert_true(fabs(nn_graph_param(t->g, N_B)->init_mean + log(V)) < 1e-12);
    assert_int_equal(nn_feed_new(&t->f, t->g, B, NULL), 0);
    assert_int_equal(nn_exec_new(&t->e, t->g, B, NULL), 0);
    fill(&t->b, t->g, 0, B);
    nn_feed_seed(t->f, 5, 0);
    assert_int_equal(nn_feed_set(t->f, &t->b, NULL), 0);
    for (uint32_t p = 0; p < N_PARAMS; p++) {
        uint32_t n_keys, cols = p == N_B ? 1 : D;
        pd_rng_normal(pd_rng_key(1, PD_RNG_CHECK, p, 0), 0, t->w[p], V * cols);
        memcpy(t->rows[p], t->w[p], sizeof t->w[p]);
        const uint64_t *keys = nn_feed_keys(t->f, p, &n_keys);
        for (uint32_t i = 0; keys && i < n_keys; i++)
            memcpy(t->rows[p] + i * cols, t->w[p] + keys[i] * cols, cols * sizeof(float));
        nn_exec_bind(t->e, p, t->rows[p], t->grad[p]);
    }
    nn_exec_forward(t->e, t->f, 0, B, mode, 0, 0, &cost);
    return cost.sum;
}

static void nce_end(struct nce *t) {
    pd_batch_release(&t->b);
    nn_exec_free(t->e);
    nn_feed_free(t->f);
    nn_graph_free(t->g);
}

static struct num score(const struct nce *t, uint32_t i, uint64_t id) {
    struct num_sum s = {0};
    num_add(&s, num_of(t->w[N_B][id]));
    for (uint32_t d = 0; d < D; d++)
        num_add_product(&s, num_of(t->w[E_W][t->b.ids[0][i] * D + d]),
                        num_of(t->w[N_W][id * D + d]));
    return num_total(&s);
}

/* Sqrt of the count above, divided by the sum; the rarest id has count 1. */
static double noise(uint64_t id) {
    static const double count[V] = {1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 0, 12};
    double sum = 0;
    for (int i = 0; i < V; i++)
        sum += sqrt(count[i]);
    return sqrt(count[id] > 0 ? count[id] : 1) / sum;
}

static void nce_of_tables_agrees_with_plain_loops(void **state) {
    (void)state;
    static const char *const text[] = {NCE_OF("sparse_update = true\n"), NCE_OF("")};
    for (int i = 0; i < 3; i++) { /* tables in training, tables in testing, dense in training */
        struct nce t;
        uint64_t ids[B][K];
        const double got = nce_cost(&t, text[i == 2], i == 1 ? NN_TEST : NN_TRAIN);
        struct num_sum want = {0};
        char row[40];
        drawn(t.g, 0, B, 0, ids);
        for (uint32_t s = 0; s < B; s++)
            for (int k = -1; k < K; k++) {
                uint64_t id = k < 0 ? t.b.ids[1][s] : ids[s][k];
                struct num_sum z = {0};
                num_add(&z, score(&t, s, id));
                num_add(&z, num_of((float)-log(K * noise(id))));
                /* The layer computes it in float, too. */
                z.e += sum_error(1, fabs(log(K * noise(id))));
                assert_true(k < 0 || (id != 2 && id != 10));
                num_add(&want, logistic_cost(num_total(&z), k < 0));
            }
        snprintf(row, sizeof row, "cost of row %d", i);
        assert_near(row, got, want.v, num_total(&want).e);
        nce_end(&t);
    }
}

static void a_test_of_whole_parameters_says_what_softmax_costs(void **state) {
    (void)state;
    struct nce t;
    const double got = nce_cost(&t, NCE_OF(""), NN_TEST);
    struct num_sum want = {0};
    for (uint32_t s = 0; s < B; s++) {
        const struct num right = score(&t, s, t.b.ids[1][s]);
        double sum = 0, error = right.e;
        for (uint64_t id = 0; id < V; id++)
            sum += exp(score(&t, s, id).v);
        for (uint64_t id = 0; id < V; id++)
            error += exp(score(&t, s, id).v) / sum * score(&t, s, id).e;
        error += sum_error(V + 8, 1 + fabs(log(sum)) + fabs(right.v));
        num_add(&want, (struct num){log(sum) - right.v, error});
    }
    assert_near("cost", got, want.v, num_total(&want).e);
    nce_end(&t);
}

static void counts_come_from_a_file(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want; /* want NULL: accepted */
    } rows[] = {
        {"numbers", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", NULL},
        {"words before them", "a 0\nb 0\nc 0\nd 0\ne 0\nf 0\ng 0\nh 0\ni 0\nj 0\nk\t9\nl 0", NULL},
        {"too few", "1\n2\n", "has 2 lines for 12 ids"},
        {"too many", "1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n",
         ":13: more lines than the vocabulary has ids"},
        {"no number", "1\nword\n", ":2: the last word of the line is no count"},
        {"all 0", "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n", "and all are 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct nn_graph *g;
        struct pd_err err = {0};
        assert_int_equal(
            pd_write_file_atomic(counts, rows[i].text, strlen(rows[i].text), 0600, NULL), 0);
        int rc = load(NET("counts = counts.txt\n"), &g, &err);
        if (rows[i].want ? rc != PD_ECONF || !strstr(err.msg, rows[i].want) : rc != 0)
            fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
        if (i == 1) {
            uint64_t ids[B][K];
            drawn(g, 0, B, 0, ids);
            assert_true(ids[3][4] == 10 && ids[0][0] == 10);
        }
        if (!rc)
            nn_graph_free(g);
    }
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(ini, sizeof ini, "%s/train.ini", dir);
    snprintf(counts, sizeof counts, "%s/counts.txt", dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(ini);
    unlink(counts);
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_the_weights),
        cmocka_unit_test(what_is_drawn_does_not_depend_on_how_batches_are_cut),
        cmocka_unit_test(the_cost_agrees_with_plain_loops),
        cmocka_unit_test(nce_of_tables_agrees_with_plain_loops),
        cmocka_unit_test(a_test_of_whole_parameters_says_what_softmax_costs),
        cmocka_unit_test(counts_come_from_a_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
