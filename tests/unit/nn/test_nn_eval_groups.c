/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_eval_groups.c - evaluators with groups: figures that were computed by hand, many samples
 * in several parts, and the groups that are left out beyond max_samples: the same ones for every
 * number of ranks and threads. test_nn_eval.c compares them with plain references. Slices. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/hash.h"
#include "tests/support/c/eval_world.h"

#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* Three users: the first has its positives at places 1 and 3 of four, the second a tie of a
 * positive and two negatives, the third has no positive. */
static float by_hand_y[] = {0.9f, 0.5f, 0.7f, 0.2f, 0.4f, 0.4f, 0.4f, 0.8f, 0.1f};
static uint64_t by_hand_label[] = {1, 1, 0, 0, 1, 0, 0, 0, 0};
static uint64_t by_hand_user[] = {7, 7, 7, 7, 8, 8, 8, 9, 9};

static void figures_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const struct nn_evaluator *type;
        enum nn_group_weight weight;
        uint32_t k;
        double want;
    } rows[] = {
        /* user 7: 3 of 4 pairs; user 8: a tie, 1/2 */
        {"gauc by samples", &nn_eval_gauc, NN_WEIGHT_SAMPLES, 0, (4 * 0.75 + 3 * 0.5) / 7},
        {"gauc by positives", &nn_eval_gauc, NN_WEIGHT_POSITIVES, 0, (2 * 0.75 + 0.5) / 3},
        {"gauc of equal weights", &nn_eval_gauc, NN_WEIGHT_EQUAL, 0, (0.75 + 0.5) / 2},
        {"recall@1", &nn_eval_recall, NN_WEIGHT_EQUAL, 1, (0.5 + 1 / 3.0) / 2},
        {"recall@2", &nn_eval_recall, NN_WEIGHT_EQUAL, 2, (0.5 + 2 / 3.0) / 2},
        {"recall@3", &nn_eval_recall, NN_WEIGHT_EQUAL, 3, 1},
        {"recall@9", &nn_eval_recall, NN_WEIGHT_EQUAL, 9, 1},
        {"ndcg@1", &nn_eval_ndcg, NN_WEIGHT_EQUAL, 1, (1 + 1 / 3.0) / 2},
        /* log2(3) = 1.584962500721156, log2(4) = 2; user 8: (1 + 1 / log2(3)) / 3 of 1 */
        {"ndcg@2", &nn_eval_ndcg, NN_WEIGHT_EQUAL, 2,
         (1 / (1 + 1 / 1.584962500721156) + (1 + 1 / 1.584962500721156) / 3) / 2},
        {"ndcg@3", &nn_eval_ndcg, NN_WEIGHT_EQUAL, 3,
         (1.5 / (1 + 1 / 1.584962500721156) + (1.5 + 1 / 1.584962500721156) / 3) / 2},
    };
    for (size_t i = 0; i < LENGTH(rows); i++)
        for (uint32_t n_ranks = 1; n_ranks <= 3; n_ranks++) {
            struct world w = {.type = rows[i].type,
                              .act = "sigmoid",
                              .n = LENGTH(by_hand_y),
                              .cols = 1,
                              .y = by_hand_y,
                              .label = by_hand_label,
                              .group = by_hand_user,
                              .positive = 1,
                              .k = rows[i].k,
                              .weight = rows[i].weight,
                              .max_samples = 100};
            double v[NN_EVAL_VALUES] = {0};
            assert_int_equal(evaluate(&w, n_ranks, v), 2);
            if (!(fabs(v[0] - rows[i].want) < 1e-14) || v[1] != 7 / 9.0)
                fail_msg("%s, %u ranks: %.17g of %.17g, not %.17g of 7/9", rows[i].name, n_ranks,
                         v[0], v[1], rows[i].want);
        }
}

static void groups_of_one_class_have_no_value(void **state) {
    (void)state;
    double v[NN_EVAL_VALUES];
    struct world w = {.type = &nn_eval_gauc, .act = "sigmoid"};
    make(&w, 40, 1, 2, 1);
    for (uint32_t i = 0; i < w.n; i++)
        w.label[i] = w.group[i] % 2;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]) && v[1] == 0);
    w.y[3] = NAN; /* an output that is no number is not left out with its group */
    w.label[3] = !w.label[3];
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]));
    w.n = 0;
    evaluate(&w, 2, v);
    assert_true(isnan(v[0]) && isnan(v[1]));
    w.n = 40;
    w.type = &nn_eval_normalized_entropy;
    for (uint32_t i = 0; i < w.n; i++) {
        w.y[i] = 0.5f;
        w.label[i] = 1;
    }
    evaluate(&w, 2, v);
    assert_true(isnan(v[0])); /* the entropy is 0 */
    w.label[0] = 0;
    evaluate(&w, 2, v);
    assert_true(fabs(v[0] - log(2) / -(log(0.025) * 0.025 + log(0.975) * 0.975)) < 1e-12);
    drop(&w);
}

/* A model that knows only the share of clicks has 1. */
static void the_share_of_clicks_has_normalized_entropy_1(void **state) {
    (void)state;
    double v[NN_EVAL_VALUES];
    struct world w = {.type = &nn_eval_normalized_entropy, .act = "sigmoid"};
    make(&w, 64, 1, 2, 1);
    for (uint32_t i = 0; i < w.n; i++) {
        w.label[i] = i % 4 == 0;
        w.y[i] = 0.25f;
    }
    evaluate(&w, 3, v);
    assert_true(fabs(v[0] - 1) < 1e-14);
    drop(&w);
}

/* More than a part of samples, and ids of all 64 bits. */
static void many_samples_come_in_parts(void **state) {
    (void)state;
    struct world w = {.type = &nn_eval_gauc, .act = "sigmoid"};
    make(&w, 140000, 1, 2, 1);
    for (uint32_t i = 0; i < w.n; i++)
        w.group[i] = pd_mix64(w.group[i]) | (w.group[i] == 5 ? UINT64_MAX : 0);
    double one[NN_EVAL_VALUES], two[NN_EVAL_VALUES];
    evaluate(&w, 1, one);
    evaluate(&w, 2, two);
    assert_true(one[0] == two[0] && one[1] == two[1]);
    assert_true(one[0] > 0.6 && one[0] < 0.9 && one[1] > 0.95);
    drop(&w);
}

/* A sum of two ranks whose other rank has no samples, with a wrong number in one call. */
struct wrong {
    int call, wrong_call;
    double v;
};

static int wrong_sum(void *arg, double *v, size_t n, struct pd_err *err) {
    struct wrong *w = arg;
    (void)err;
    if (++w->call == w->wrong_call)
        for (size_t i = 0; i < n; i++)
            v[i] = w->v;
    return 0;
}

static void sums_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        int call; /* 1: levels, 2: samples of a part, 3: these samples */
        double v;
        int want;
    } rows[] = {{0, 0, 0},           {1, -1, 0},           {1, NAN, 0},
                {2, -1, PD_EPROTO},  {2, 41, PD_EPROTO},   {2, 1e30, PD_EPROTO},
                {2, NAN, PD_EPROTO}, {2, 0, PD_EPROTO},    {2, 0.5, PD_EPROTO},
                {3, -1, PD_EPROTO},  {3, 1e30, PD_EPROTO}, {3, NAN, PD_EPROTO},
                {3, 0.5, PD_EPROTO}, {3, 0x1p44 - 1, 0},   {3, 0x1p44, PD_EPROTO}};
    struct world w = {.type = &nn_eval_gauc, .act = "sigmoid"};
    struct world_graph net;
    make(&w, 40, 1, 2, 1);
    struct nn_eval_node ev = world_evaluator(&w);
    struct nn_graph *g = world_graph(&w, &net, &ev, 1);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct wrong wrong = {.wrong_call = rows[i].call, .v = rows[i].v};
        const struct nn_eval_all all = {.n_ranks = 2, .sum = wrong_sum, .arg = &wrong};
        struct pd_err err = {0};
        struct nn_eval *v = fill(&w, g, 0, 1);
        if (nn_eval_total(v, &all, &err) != rows[i].want)
            fail_msg("call %d, %g: %d '%s'", rows[i].call, rows[i].v, err.code, err.msg);
        nn_eval_free(v);
    }
    drop(&w);
}

static uint32_t zeros_of(uint64_t id) {
    const uint64_t h = pd_mix64(id + UINT64_C(0x9e3779b97f4a7c15));
    return h ? (uint32_t)__builtin_ctzll(h) : 63;
}

/* Keeps the samples of the groups of the lowest level at which at most `most` samples are left. */
static uint32_t keep(struct world *w, size_t most) {
    uint32_t level = 0, n = 0;
    for (size_t left = w->n; left > most; level += left > most) {
        left = 0;
        for (uint32_t i = 0; i < w->n; i++)
            left += zeros_of(w->group[i]) >= level;
    }
    for (uint32_t i = 0; i < w->n; i++)
        if (zeros_of(w->group[i]) >= level) {
            w->y[n] = w->y[i];
            w->label[n] = w->label[i];
            w->group[n++] = w->group[i];
        }
    w->n = n;
    return level;
}

/* A large group that does not fit is left out, too. */
static void beyond_max_samples_the_same_groups_count(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct world w = {.type = &nn_eval_gauc, .act = "sigmoid", .max_samples = 1024};
        double want[NN_EVAL_VALUES], got[NN_EVAL_VALUES];
        make(&w, 9000, 1, 2, 1);
        uint64_t id = 1000000; /* of level 3, so that it is left beyond the first levels */
        while (zeros_of(id) != 3)
            id++;
        for (uint32_t i = 0; large && i < w.n; i += 4)
            w.group[i] = id;
        struct world all = w, some = w;
        some.y = malloc(w.n * sizeof *w.y);
        some.label = malloc(w.n * sizeof *w.label);
        some.group = malloc(w.n * sizeof *w.group);
        memcpy(some.y, w.y, w.n * sizeof *w.y);
        memcpy(some.label, w.label, w.n * sizeof *w.label);
        memcpy(some.group, w.group, w.n * sizeof *w.group);
        assert_true(keep(&some, 1024) >= 3);
        assert_true(some.n > 100 && some.n <= 1024);
        some.max_samples = some.n;
        evaluate(&some, 1, want);
        want[1] *= (double)some.n / w.n;
        for (uint32_t n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++)
            for (all.n_threads = 1; all.n_threads <= 3; all.n_threads++) {
                evaluate(&all, n_ranks, got);
                if (got[0] != want[0] || !(fabs(got[1] - want[1]) < 1e-15))
                    fail_msg("%u ranks of %u threads: %.17g of %.17g, not %.17g of %.17g", n_ranks,
                             all.n_threads, got[0], got[1], want[0], want[1]);
            }
        drop(&some);
        drop(&w);
    }
}

/* A thread that has left out groups and one that has not. */
static void threads_of_unequal_levels_are_merged(void **state) {
    (void)state;
    const struct nn_eval_all alone = {.n_ranks = 1};
    struct world w = {.type = &nn_eval_gauc, .act = "sigmoid", .max_samples = 1024};
    struct world_graph net;
    make(&w, 1300, 1, 2, 1);
    struct nn_eval_node ev = world_evaluator(&w);
    struct nn_graph *g = world_graph(&w, &net, &ev, 1);
    struct nn_eval *v[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(nn_eval_new(&v[i], g, NULL), 0);
    world_add(&w, g, v[0], 0, 100, 1);
    world_add(&w, g, v[1], 100, w.n, 1);
    world_add(&w, g, v[2], 0, w.n, 1);
    assert_int_equal(nn_eval_merge(v[0], v[1], NULL), 0);
    assert_int_equal(nn_eval_total(v[0], &alone, NULL), 0);
    assert_int_equal(nn_eval_total(v[2], &alone, NULL), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(nn_eval_value(v[0], i) == nn_eval_value(v[2], i));
    for (int i = 0; i < 3; i++)
        nn_eval_free(v[i]);
    drop(&w);
}

/* Each slice has the values of an evaluation of its samples alone; a slice without samples has
 * none. */
static void slices_have_values_of_their_own(void **state) {
    (void)state;
    static const struct {
        const struct nn_evaluator *type;
        uint32_t n_values;
        const char *name; /* of the last value of the last slice */
    } rows[] = {{&nn_eval_log_loss, 1, "q.4"},
                {&nn_eval_normalized_entropy, 1, "q.4"},
                {&nn_eval_calibration, 2, "q.error.4"},
                {&nn_eval_precision_recall, 3, "q.f1.4"}};
    enum { SLICES = 5, EMPTY = 2 };
    for (size_t k = 0; k < LENGTH(rows); k++) {
        const uint32_t n_values = rows[k].n_values;
        struct world w = {.type = rows[k].type, .act = "sigmoid", .n_slices = SLICES};
        double want[SLICES * NN_EVAL_VALUES] = {0}, got[(1 + SLICES) * NN_EVAL_VALUES];
        make(&w, 700, 1, 2, 1);
        uint32_t at = n_values;
        for (uint32_t i = 0; i < w.n; i++)
            w.group[i] = i % 7 == EMPTY ? 6 : i % 7; /* ids from 5 on are in no slice */
        struct world all = w, some = w;
        all.n_slices = some.n_slices = 0;
        evaluate(&all, 1, want);
        some.y = malloc(w.n * sizeof *w.y);
        some.label = malloc(w.n * sizeof *w.label);
        for (uint64_t id = 0; id < SLICES; id++) {
            some.n = 0;
            for (uint32_t i = 0; i < w.n; i++)
                if (w.group[i] == id) {
                    some.y[some.n] = w.y[i];
                    some.label[some.n++] = w.label[i];
                }
            if (id == EMPTY)
                continue;
            evaluate(&some, 1, want + at);
            at += n_values;
        }
        for (uint32_t n_ranks = 1; n_ranks <= 3; n_ranks++)
            for (w.n_threads = 1; w.n_threads <= 2; w.n_threads++) {
                assert_int_equal(evaluate(&w, n_ranks, got), at);
                assert_int_equal(at, n_values * SLICES);
                for (uint32_t i = 0; i < at; i++)
                    if (got[i] != want[i])
                        fail_msg("%s, value %u, %u ranks: %.17g, not %.17g", rows[k].type->name, i,
                                 n_ranks, got[i], want[i]);
            }
        struct world_graph net;
        struct nn_eval_node ev = world_evaluator(&w);
        struct nn_eval *v = fill(&w, world_graph(&w, &net, &ev, 1), 0, 1);
        assert_int_equal(nn_eval_total(v, &(const struct nn_eval_all){.n_ranks = 1}, NULL), 0);
        assert_string_equal(nn_eval_name(v, nn_eval_n_values(v) - 1), rows[k].name);
        nn_eval_clear(v);
        assert_int_equal(nn_eval_total(v, &(const struct nn_eval_all){.n_ranks = 1}, NULL), 0);
        assert_int_equal(nn_eval_n_values(v), n_values);
        nn_eval_free(v);
        free(some.y);
        free(some.label);
        drop(&w);
    }
}

/* A line of the log may be too short for all values: those of slices are the last. */
static void slices_come_after_all_evaluators(void **state) {
    (void)state;
    static const char *const want[] = {"q", "r", "q.0", "q.1", "r.0", "r.1"};
    struct world w = {.type = &nn_eval_log_loss, .act = "sigmoid", .n_slices = 2};
    struct world_graph net;
    make(&w, 64, 1, 2, 1);
    struct nn_eval_node ev[2] = {world_evaluator(&w), world_evaluator(&w)};
    ev[1].name = "r";
    struct nn_eval *v = fill(&w, world_graph(&w, &net, ev, 2), 0, 1);
    assert_int_equal(nn_eval_total(v, &(const struct nn_eval_all){.n_ranks = 1}, NULL), 0);
    assert_int_equal(nn_eval_n_values(v), LENGTH(want));
    for (uint32_t i = 0; i < LENGTH(want); i++)
        assert_string_equal(nn_eval_name(v, i), want[i]);
    nn_eval_free(v);
    drop(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_by_hand),
        cmocka_unit_test(groups_of_one_class_have_no_value),
        cmocka_unit_test(the_share_of_clicks_has_normalized_entropy_1),
        cmocka_unit_test(many_samples_come_in_parts),
        cmocka_unit_test(slices_have_values_of_their_own),
        cmocka_unit_test(slices_come_after_all_evaluators),
        cmocka_unit_test(sums_that_cannot_be_are_refused),
        cmocka_unit_test(threads_of_unequal_levels_are_merged),
        cmocka_unit_test(beyond_max_samples_the_same_groups_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
