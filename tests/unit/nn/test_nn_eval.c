/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_eval.c - every evaluator, compared with a plain reference in double over all samples. The
 * figure is the same for every number of ranks and batches. AUC is exact on small sets and within
 * its bound on large ones. Also tests the exact sum. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/exact_sum.h"
#include "tests/support/c/eval_world.h"

/* --- plain references --- */

static uint32_t says(const struct world *w, uint32_t i) {
    uint32_t best = 0;
    if (w->cols == 1)
        return (double)w->y[i] >= w->threshold;
    for (uint32_t k = 1; k < w->cols; k++)
        if (w->y[i * w->cols + k] > w->y[i * w->cols + best])
            best = k;
    return best;
}

static double score(const struct world *w, uint32_t i) {
    double y = (double)w->y[i * w->cols + (w->cols > 1 ? w->positive : 0)];
    return w->cols > 1 || w->positive  ? y
           : strcmp(w->act, "sigmoid") ? -y
                                       : 1 - y; /* a single output is the probability of class 1 */
}

static void ref_error(const struct world *w, double *out) {
    for (uint32_t i = 0; i < w->n; i++)
        out[0] += says(w, i) != w->label[i];
    out[0] /= w->n;
}

static void ref_auc(const struct world *w, double *out) { /* all pairs */
    double pairs = 0, good = 0;
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t j = 0; w->label[i] == w->positive && j < w->n; j++)
            if (w->label[j] != w->positive) {
                pairs++;
                good += score(w, i) > score(w, j) ? 1 : score(w, i) == score(w, j) ? 0.5 : 0;
            }
    out[0] = good / pairs;
}

static void ref_log_loss(const struct world *w, double *out) {
    for (uint32_t i = 0; i < w->n; i++) {
        double p = w->cols > 1   ? (double)w->y[i * w->cols + w->label[i]]
                   : w->label[i] ? score(w, i)
                                 : 1 - score(w, i);
        out[0] -= log(fmax(p, 1e-7));
    }
    out[0] /= w->n;
}

static void ref_normalized_entropy(const struct world *w, double *out) {
    double p = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const int is = w->label[i] == w->positive;
        out[0] -= log(fmax(is ? score(w, i) : 1 - score(w, i), 1e-7));
        p += is;
    }
    p /= w->n;
    out[0] /= w->n * (-p * log(p) - (1 - p) * log(1 - p));
}

static void ref_perplexity(const struct world *w, double *out) {
    for (uint32_t i = 0; i < w->n; i++)
        out[0] += (double)w->y[i * w->cols];
    out[0] = exp(out[0] / w->n);
}

static void ref_rmse(const struct world *w, double *out) {
    for (uint32_t i = 0; i < w->n; i++)
        out[0] += pow((double)w->y[i] - (double)w->label[i], 2);
    out[0] = sqrt(out[0] / w->n);
}

static void ref_mae(const struct world *w, double *out) {
    for (uint32_t i = 0; i < w->n; i++)
        out[0] += fabs((double)w->y[i] - (double)w->label[i]);
    out[0] /= w->n;
}

static void ref_precision_recall(const struct world *w, double *out) {
    double tp = 0, fp = 0, fn = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        int s = says(w, i) == w->positive, l = w->label[i] == w->positive;
        tp += s && l;
        fp += s && !l;
        fn += !s && l;
    }
    out[0] = tp / (tp + fp);
    out[1] = tp / (tp + fn);
    out[2] = 2 * out[0] * out[1] / (out[0] + out[1]);
}

static void ref_calibration(const struct world *w, double *out) {
    double p = 0, l = 0;
    for (int k = 0; k < 10; k++) {
        double bp = 0, bl = 0;
        for (uint32_t i = 0; i < w->n; i++) {
            int bin = (int)fmin(9, floor(score(w, i) * 10));
            bp += bin == k ? score(w, i) : 0;
            bl += bin == k && w->label[i] == w->positive;
        }
        p += bp;
        l += bl;
        out[1] += fabs(bp - bl) / w->n;
    }
    out[0] = p / l;
}

/* The mean over groups of the value of a group, which is a world of its own, weighted by samples.
 */
static void ref_groups(const struct world *w, double *out,
                       double (*of_group)(const struct world *g)) {
    double sum = 0, counted = 0, weights = 0;
    struct world g = *w;
    g.y = malloc((size_t)w->n * w->cols * sizeof *g.y);
    g.label = malloc(w->n * sizeof *g.label);
    for (uint64_t group = 0; group <= w->n / 8; group++) {
        double positives = 0;
        g.n = 0;
        for (uint32_t i = 0; i < w->n; i++)
            if (w->group[i] == group) {
                memcpy(g.y + (size_t)g.n * w->cols, w->y + (size_t)i * w->cols,
                       w->cols * sizeof *g.y);
                g.label[g.n++] = w->label[i];
                positives += w->label[i] == w->positive;
            }
        const double value = g.n ? of_group(&g) : NAN, weight = w->weight == NN_WEIGHT_SAMPLES ? g.n
                                                                : w->weight == NN_WEIGHT_POSITIVES
                                                                    ? positives
                                                                    : 1;
        if (isnan(value))
            continue;
        sum += weight * value;
        weights += weight;
        counted += g.n;
    }
    free(g.y);
    free(g.label);
    out[0] = sum / weights;
    out[1] = counted / w->n;
}

static double auc_of(const struct world *g) {
    double out = 0;
    ref_auc(g, &out);
    return out;
}

static void ref_gauc(const struct world *w, double *out) { ref_groups(w, out, auc_of); }

/* The share of the orders of its ties in which sample i has the place `place`. */
static double share_of_place(const struct world *g, uint32_t i, uint32_t place) {
    uint32_t before = 0, equal = 0;
    for (uint32_t j = 0; j < g->n; j++) {
        before += score(g, j) > score(g, i);
        equal += score(g, j) == score(g, i);
    }
    return place >= before && place < before + equal ? 1.0 / equal : 0;
}

static double ndcg_of(const struct world *g) {
    double dcg = 0, best = 0, positives = 0;
    for (uint32_t i = 0; i < g->n; i++)
        positives += g->label[i] == g->positive;
    for (uint32_t place = 0; place < g->k && place < g->n; place++) {
        for (uint32_t i = 0; i < g->n; i++)
            dcg += g->label[i] == g->positive ? share_of_place(g, i, place) / log2(place + 2) : 0;
        best += place < positives ? 1 / log2(place + 2) : 0;
    }
    return dcg / best;
}

static void ref_ndcg(const struct world *w, double *out) { ref_groups(w, out, ndcg_of); }

static double recall_of(const struct world *g) {
    double found = 0, positives = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        positives += g->label[i] == g->positive;
        for (uint32_t place = 0; g->label[i] == g->positive && place < g->k; place++)
            found += share_of_place(g, i, place);
    }
    return found / positives;
}

static void ref_recall(const struct world *w, double *out) { ref_groups(w, out, recall_of); }

static const struct {
    const char *name;
    const struct nn_evaluator *type;
    void (*reference)(const struct world *w, double *out);
    uint32_t n_values, cols, n_classes;
    int probability;
} rows[] = {
    {"error of five classes", &nn_eval_error, ref_error, 1, 5, 5, 1},
    {"error of one output", &nn_eval_error, ref_error, 1, 1, 2, 1},
    {"auc with ties", &nn_eval_auc, ref_auc, 1, 1, 2, 1},
    {"auc of linear outputs", &nn_eval_auc, ref_auc, 1, 1, 2, 0},
    {"auc of a softmax", &nn_eval_auc, ref_auc, 1, 2, 2, 1},
    {"log loss", &nn_eval_log_loss, ref_log_loss, 1, 1, 2, 1},
    {"log loss of five classes", &nn_eval_log_loss, ref_log_loss, 1, 5, 5, 1},
    {"normalized entropy", &nn_eval_normalized_entropy, ref_normalized_entropy, 1, 1, 2, 1},
    {"normalized entropy of a class of five", &nn_eval_normalized_entropy, ref_normalized_entropy,
     1, 5, 5, 1},
    {"perplexity", &nn_eval_perplexity, ref_perplexity, 1, 1, 2, 0},
    {"rmse", &nn_eval_rmse, ref_rmse, 1, 1, 6, 0},
    {"mae", &nn_eval_mae, ref_mae, 1, 1, 6, 0},
    {"precision and recall", &nn_eval_precision_recall, ref_precision_recall, 3, 1, 2, 1},
    {"precision and recall of a class of five", &nn_eval_precision_recall, ref_precision_recall, 3,
     5, 5, 1},
    {"calibration", &nn_eval_calibration, ref_calibration, 2, 1, 2, 1},
    {"gauc with ties", &nn_eval_gauc, ref_gauc, 2, 1, 2, 1},
    {"gauc of linear outputs", &nn_eval_gauc, ref_gauc, 2, 1, 2, 0},
    {"gauc of a class of five", &nn_eval_gauc, ref_gauc, 2, 5, 5, 1},
    {"ndcg with ties", &nn_eval_ndcg, ref_ndcg, 2, 1, 2, 1},
    {"ndcg of a class of five", &nn_eval_ndcg, ref_ndcg, 2, 5, 5, 1},
    {"recall with ties", &nn_eval_recall, ref_recall, 2, 1, 2, 1},
    {"recall of linear outputs", &nn_eval_recall, ref_recall, 2, 1, 2, 0},
};

static void each_equals_its_reference(void **state) {
    (void)state;
    for (size_t i = 0, k = 0; nn_evaluators[i]; i++) {
        for (k = 0; k < sizeof rows / sizeof rows[0] && rows[k].type != nn_evaluators[i];)
            k++;
        if (k == sizeof rows / sizeof rows[0])
            fail_msg("no case here has the evaluator %s", nn_evaluators[i]->name);
    }
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct world w = {.type = rows[k].type,
                          .act = rows[k].probability ? rows[k].cols > 1 ? "softmax" : "sigmoid"
                                                     : "linear"};
        double got[NN_EVAL_VALUES] = {0}, want[NN_EVAL_VALUES] = {0};
        make(&w, 997, rows[k].cols, rows[k].n_classes, rows[k].probability);
        w.weight = k % NN_N_WEIGHTS;
        rows[k].reference(&w, want);
        uint32_t n = evaluate(&w, 1, got);
        if (n != rows[k].n_values)
            fail_msg("%s: %u values", rows[k].name, n);
        for (uint32_t i = 0; i < n; i++)
            if (!(fabs(got[i] - want[i]) <= 1e-12 * fabs(want[i])))
                fail_msg("%s: value %u is %.17g, reference %.17g", rows[k].name, i, got[i],
                         want[i]);
        drop(&w);
    }
}

/* With one output, class 0 may be the positive class: the output for class 1 is then inverted. */
static void class_0_may_be_the_positive_one(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct world w = {.type = rows[k].type, .act = rows[k].probability ? "sigmoid" : "linear"};
        double got[NN_EVAL_VALUES] = {0}, want[NN_EVAL_VALUES] = {0};
        if (rows[k].cols > 1 || rows[k].n_classes != 2 ||
            rows[k].type == &nn_eval_log_loss) /* it has no positive class */
            continue;
        make(&w, 499, 1, 2, rows[k].probability);
        w.positive = 0;
        rows[k].reference(&w, want);
        uint32_t n = evaluate(&w, 1, got);
        for (uint32_t i = 0; i < n; i++)
            if (!(fabs(got[i] - want[i]) <= 1e-9 * fabs(want[i])))
                fail_msg("%s: value %u is %.17g, reference %.17g", rows[k].name, i, got[i],
                         want[i]);
        drop(&w);
    }
}

/* The figures are equal bit for bit, except the perplexity: it adds a cost's sums per batch, which
 * are rounded. */
static void any_number_of_ranks_gives_the_same_figure(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct world w = {.type = rows[k].type, .act = rows[k].probability ? "sigmoid" : "linear"};
        make(&w, 613, rows[k].cols, rows[k].n_classes, rows[k].probability);
        double one[NN_EVAL_VALUES] = {0}, many[NN_EVAL_VALUES] = {0};
        evaluate(&w, 1, one);
        for (uint32_t n = 2; n <= MAX_RANKS; n++) {
            uint32_t n_values = evaluate(&w, n, many);
            for (uint32_t i = 0; i < n_values; i++)
                if (rows[k].type->of_cost ? fabs(one[i] - many[i]) > 1e-12 * one[i]
                                          : one[i] != many[i])
                    fail_msg("%s, value %u: %.17g with %u ranks, %.17g with one", rows[k].name, i,
                             many[i], n, one[i]);
        }
        drop(&w);
    }
}

static int by_score(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The area for many samples, computed by ranks with a separate method. */
static double auc_by_ranks(const struct world *w) {
    struct {
        float y;
        int label;
    } *s = malloc(w->n * sizeof *s);
    double sum = 0, p = 0, n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        s[i].y = w->y[i];
        s[i].label = w->label[i] == 1;
    }
    qsort(s, w->n, sizeof *s, by_score);
    for (uint32_t i = 0, j; i < w->n; i = j) {
        for (j = i; j < w->n && s[j].y == s[i].y; j++)
            p += s[j].label;
        for (uint32_t k = i; k < j; k++)
            sum += s[k].label ? (i + 1 + j) / 2.0 : 0;
    }
    n = w->n - p;
    free(s);
    return (sum - p * (p + 1) / 2) / (p * n);
}

static void auc_of_many_is_within_its_bound(void **state) {
    (void)state;
    for (int probability = 0; probability < 2; probability++) {
        struct world w = {.type = &nn_eval_auc, .act = probability ? "sigmoid" : "linear"};
        make(&w, 300000, 1, 2, 0);
        for (uint32_t i = 0; probability && i < w.n; i++)
            w.y[i] = 1 / (1 + expf(-3 * w.y[i]));
        double one[NN_EVAL_VALUES], got[NN_EVAL_VALUES], want = auc_by_ranks(&w);
        assert_int_equal(evaluate(&w, 1, one), 2);
        assert_true(fabs(one[0] - want) <= one[1] + 1e-12);
        assert_true(one[1] > 0 && one[1] < 5e-4);
        assert_int_equal(evaluate(&w, 3, got), 2); /* no single rank has too many */
        assert_true(got[0] == one[0] && got[1] == one[1]);
        drop(&w);
    }
}

static void what_has_no_value_is_nan(void **state) {
    (void)state;
    double v[NN_EVAL_VALUES];
    struct world w = {.type = &nn_eval_auc, .act = "sigmoid"};
    make(&w, 20, 1, 2, 1);
    for (uint32_t i = 0; i < w.n; i++)
        w.label[i] = 1;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0])); /* one class only */
    w.label[3] = 0;
    evaluate(&w, 2, v);
    assert_true(!isnan(v[0]));
    w.y[3] = NAN;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]));
    w.type = &nn_eval_rmse;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]));
    w.n = 0;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]));
    drop(&w);
}

static void clear_and_merge(void **state) {
    (void)state;
    struct world w = {.type = &nn_eval_auc, .act = "sigmoid"};
    make(&w, 500, 1, 2, 1);
    struct world_graph x;
    struct nn_eval_node ev[3] = {
        {.name = "a", .type = &nn_eval_auc, .input = 2, .positive = 1},
        {.name = "b", .type = &nn_eval_rmse, .input = 2},
        {.name = "c", .type = &nn_eval_gauc, .input = 2, .group = 1, .max_samples = 300}};
    struct nn_graph *g = world_graph(&w, &x, ev, 3);
    struct nn_eval *all = fill(&w, g, 0, 1), *half = fill(&w, g, 0, 2), *rest = fill(&w, g, 1, 2);
    const struct nn_eval_all alone = {.n_ranks = 1};
    assert_int_equal(nn_eval_merge(half, rest, NULL), 0);
    assert_int_equal(nn_eval_total(all, &alone, NULL), 0);
    assert_int_equal(nn_eval_total(half, &alone, NULL), 0);
    assert_int_equal(nn_eval_n_values(all), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(nn_eval_value(all, i) == nn_eval_value(half, i));
    assert_true(nn_eval_value(all, 3) > 0.1 && nn_eval_value(all, 3) < 0.7); /* c.share */
    nn_eval_clear(rest);
    assert_int_equal(nn_eval_merge(rest, all, NULL), 0);
    assert_int_equal(nn_eval_total(rest, &alone, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(nn_eval_value(rest, i) == nn_eval_value(all, i));
    nn_eval_free(all);
    nn_eval_free(half);
    nn_eval_free(rest);
    drop(&w);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    static const struct {
        const struct nn_evaluator *type;
        int least; /* allocations */
    } of[] = {{&nn_eval_auc, 8}, {&nn_eval_gauc, 6}};
    const struct nn_eval_all alone = {.n_ranks = 1};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct world w = {.type = of[i].type, .act = "sigmoid"};
        struct world_graph x;
        make(&w, 10, 1, 2, 1);
        struct nn_eval_node ev = world_evaluator(&w);
        struct nn_graph *g = world_graph(&w, &x, &ev, 1);
        struct nn_column col[2] = {{.ids = w.label}, {.ids = w.group}};
        struct nn_feed feed = {.g = g, .col = col};
        struct nn_state st[3] = {[2] = {.y = w.y}};
        struct nn_exec e = {.g = g, .max = 10, .n = 10, .feed = &feed, .state = st};
        int failed = 0;
        for (int k = 1; k < 30; k++) {
            char spec[32];
            struct nn_eval *v = NULL;
            struct pd_err err = {0};
            snprintf(spec, sizeof spec, "alloc:%d", k);
            pd_fault_arm(spec);
            int rc = nn_eval_new(&v, g, &err);
            if (!rc)
                rc = nn_eval_add(v, &e, &err);
            if (!rc)
                rc = nn_eval_total(v, &alone, &err);
            pd_fault_arm(NULL);
            nn_eval_free(v);
            assert_true(rc == 0 || rc == PD_ENOMEM);
            failed += rc != 0;
            if (!rc)
                break;
        }
        assert_true(failed >= of[i].least);
        drop(&w);
    }
}

static void passes_are_compared_by_one_value(void **state) {
    (void)state;
    const struct nn_act acts[] = {{.name = "sigmoid"}};
    struct nn_node node[2] = {{.size = 1}, {.id = 1, .size = 1, .act = acts}};
    struct nn_eval_node ev[3] = {{.name = "ratio", .type = &nn_eval_calibration, .input = 1},
                                 {.name = "area", .type = &nn_eval_auc, .input = 1, .positive = 1},
                                 {.name = "off", .type = &nn_eval_rmse, .input = 1}};
    struct nn_graph g = {.n_fields = 1, .n_nodes = 2, .n_evals = 3, .node = node, .eval = ev};
    const struct nn_eval_all alone = {.n_ranks = 1};
    static const struct {
        const char *by, *value;
        int better;
    } good[] = {{"", "area", 1}, {"off", "off", -1}, {"area", "area", 1}, {"cost", NULL, 0}};
    for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
        struct nn_eval *v = NULL;
        uint32_t i = 99;
        assert_int_equal(nn_eval_new(&v, &g, NULL), 0);
        if (*good[k].by)
            assert_int_equal(nn_eval_judge_by(v, good[k].by), 0);
        assert_int_equal(nn_eval_total(v, &alone, NULL), 0);
        assert_int_equal(nn_eval_judge(v, &i), good[k].better);
        if (good[k].value)
            assert_string_equal(nn_eval_name(v, i), good[k].value);
        nn_eval_free(v);
    }
    static const char *const bad[] = {"ratio", "ratio.ratio", "area.bound", "no"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        struct nn_eval *v = NULL;
        assert_int_equal(nn_eval_new(&v, &g, NULL), 0);
        assert_int_equal(nn_eval_judge_by(v, bad[k]), PD_ENOENT);
        nn_eval_free(v);
    }
}

/* --- the exact sum --- */

static void exact_sums_do_not_round(void **state) {
    (void)state;
    static const double terms[] = {1e308, 1, -1e308, 1e-300, 3e-308, -1,   5e-324, -1e-300,
                                   1e16,  1, 1,      -1e16,  0.1,    -0.1, 0};
    enum { N = sizeof terms / sizeof terms[0] };
    struct pd_exact_sum a = {0}, b = {0}, c = {0};
    for (int i = 0; i < N; i++) {
        pd_exact_sum_add(&a, terms[i]);
        pd_exact_sum_add(i % 3 ? &b : &c, terms[N - 1 - i]);
    }
    assert_true(pd_exact_sum_value(&a) == 2); /* + 3e-308 + 5e-324 */
    pd_exact_sum_merge(&b, &c);
    assert_true(pd_exact_sum_value(&b) == 2);
    pd_exact_sum_add(&b, -2);
    assert_true(pd_exact_sum_value(&b) == 3e-308 + 5e-324);
    pd_exact_sum_add(&b, -1);
    assert_true(pd_exact_sum_value(&b) == -1);
    double v[PD_EXACT_SUM_NUMBERS], w[PD_EXACT_SUM_NUMBERS];
    pd_exact_sum_put(&a, v);
    pd_exact_sum_put(&b, w);
    for (int i = 0; i < PD_EXACT_SUM_NUMBERS; i++)
        v[i] += w[i];
    pd_exact_sum_get(&c, v);
    assert_true(pd_exact_sum_value(&c) == 1);
    pd_exact_sum_add(&c, INFINITY);
    assert_true(isnan(pd_exact_sum_value(&c)));
    /* round half to even, decided by a much smaller term */
    struct pd_exact_sum h = {0};
    pd_exact_sum_add(&h, 1);
    pd_exact_sum_add(&h, 0x1p-53);
    assert_true(pd_exact_sum_value(&h) == 1);
    pd_exact_sum_add(&h, 0x1p-1000);
    assert_true(pd_exact_sum_value(&h) == 1 + 0x1p-52);
}

static void exact_sums_of_many(void **state) {
    (void)state;
    struct pd_exact_sum s = {0};
    __int128 sum = 0;
    for (uint64_t i = 0; i < 200000; i++) {
        int64_t x =
            (int64_t)(pd_rng_below(pd_rng_key(5, PD_RNG_CHECK, 0, 0), 0, i, UINT64_C(1) << 53)) -
            (INT64_C(1) << 52);
        sum += x;
        pd_exact_sum_add(&s, (double)x);
    }
    assert_true(pd_exact_sum_value(&s) == (double)sum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_are_compared_by_one_value),
        cmocka_unit_test(exact_sums_do_not_round),
        cmocka_unit_test(exact_sums_of_many),
        cmocka_unit_test(each_equals_its_reference),
        cmocka_unit_test(class_0_may_be_the_positive_one),
        cmocka_unit_test(any_number_of_ranks_gives_the_same_figure),
        cmocka_unit_test(auc_of_many_is_within_its_bound),
        cmocka_unit_test(what_has_no_value_is_nan),
        cmocka_unit_test(clear_and_merge),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
