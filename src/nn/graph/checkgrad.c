/* SPDX-License-Identifier: Apache-2.0 */
/* checkgrad.c - see checkgrad.h.
 *
 * Noise: forward computes in float32, so a cost has a noise of about 1e-7 of the largest logit, and
 * a difference divides that noise by the step. So steps must be large and formulas of high order.
 *
 * Formulas: the five-point central difference (error O(h^4)) and the three-point differences to
 * either side (O(h^2)), with steps 0.1, 0.03, 0.01 and 0.003. The result nearest to backward's
 * gradient counts. Large steps have little noise; small and one-sided steps do not cross the corner
 * of a relu. A wrong gradient agrees with no formula. Source: Fornberg, "Generation of finite
 * difference formulas on arbitrarily spaced grids", Math. Comp. 51 (1988).
 *
 * Kinks: if a kink is nearer than the smallest step, the two sides differ for every step, and the
 * gradient is not defined. So if all formulas disagree with backward, the activations with a kink
 * (relu, leaky_relu, the choices of max pooling) are compared before and after the smallest step.
 * If a sign or a choice has changed, the element is skipped and counted.
 *
 * Floor: a gradient that is small against the parameter's largest drowns in the noise. So the error
 * is relative to at least FLOOR of the largest.
 *
 * Half of the elements are chosen anywhere, half where the gradient is not 0: most rows of an
 * embedding are not in the batch.
 */
#include "nn/graph/checkgrad.h"

#include "math/hash.h"
#include "math/rng.h"
#include "nn/graph/graph_internal.h"

static const double steps[] = {0.1, 0.03, 0.01, 0.003};
enum { N_STEPS = sizeof steps / sizeof steps[0], N_FORMULAS = 3 };
#define FLOOR 0.02

struct grad_check {
    const struct nn_graph *g;
    struct nn_feed *feed;
    struct nn_exec *exec;
    float **w, **grad;  /* [n_params]; of tables the rows of the batch */
    uint64_t *n_values; /* [n_params] */
    uint64_t seed;
};

/* Few different ids, so that some appear twice. */
static uint64_t random_id(struct pd_rng_key key, const struct pd_field *f, uint32_t k, uint64_t i,
                          uint32_t n) {
    uint64_t few = 2 * (uint64_t)n;
    uint64_t id =
        pd_rng_below(key, k, i, f->vocabulary && f->vocabulary < few ? f->vocabulary : few);
    return f->vocabulary ? id : pd_mix64(id); /* any 64-bit number */
}

static int random_field(struct pd_batch *b, struct pd_rng_key key, uint32_t k, uint32_t n) {
    const struct pd_field *f = &b->field[k];
    if (f->kind == PD_DENSE)
        pd_rng_normal(key, 1000 + k, b->values[k], (uint64_t)n * f->width);
    if (f->kind == PD_ID)
        for (uint32_t i = 0; i < n; i++)
            b->ids[k][i] = random_id(key, f, k, i, n);
    for (uint32_t i = 0, at = 0; f->kind == PD_LIST && i < n; i++) {
        uint32_t len =
            (uint32_t)pd_rng_below(key, 2000 + k, i, f->max_ids < 4 ? f->max_ids + 1 : 5);
        if (pd_batch_reserve(b, k, len))
            return PD_ENOMEM;
        for (uint32_t j = 0; j < len; j++, at++) {
            b->ids[k][at] = random_id(key, f, k, at, n);
            if (f->weighted)
                b->values[k][at] = 0.5f + (float)pd_rng_below(key, 3000 + k, at, 1000) / 1000;
        }
        b->offset[k][i + 1] = at;
        /* reserve looks beyond the samples held */
        b->n = i + 1;
    }
    b->n = 0;
    return 0;
}

static int random_batch(struct pd_batch *b, const struct nn_graph *g, uint32_t n, uint64_t seed) {
    struct pd_rng_key key = pd_rng_key(seed, PD_RNG_CHECK, 1, 0);
    int rc = pd_batch_init(b, nn_graph_field(g, 0), nn_graph_n_fields(g), n);
    for (uint32_t k = 0; k < nn_graph_n_fields(g) && !rc; k++)
        rc = random_field(b, key, k, n);
    for (uint32_t i = 0; i < n && !rc; i++) {
        b->stream[i] = 0;
        b->index[i] = i;
    }
    b->n = rc ? 0 : n;
    return rc;
}

static int make_values(struct grad_check *c) {
    uint32_t n_params = nn_graph_n_params(c->g);
    c->w = pd_calloc(n_params, sizeof *c->w);
    c->grad = pd_calloc(n_params, sizeof *c->grad);
    c->n_values = pd_calloc(n_params, sizeof *c->n_values);
    if (!c->w || !c->grad || !c->n_values)
        return PD_ENOMEM;
    for (uint32_t p = 0; p < n_params; p++) {
        const struct nn_param *param = nn_graph_param(c->g, p);
        uint32_t n_keys;
        nn_feed_keys(c->feed, p, &n_keys);
        uint64_t n = (param->kind == NN_TABLE ? n_keys : param->rows) * param->cols;
        c->n_values[p] = n;
        c->w[p] = pd_alloc64(n * sizeof(float));
        c->grad[p] = pd_alloc64(n * sizeof(float));
        if (!c->w[p] || !c->grad[p])
            return PD_ENOMEM;
        memset(c->grad[p], 0, n * sizeof(float));
        float std = param->init_std > 0.1 ? (float)param->init_std : 0.1f;
        pd_rng_normal(pd_rng_key(c->seed, PD_RNG_CHECK, 2, p), 0, c->w[p], n);
        for (uint64_t i = 0; i < n; i++)
            c->w[p][i] *= std;
        nn_exec_bind(c->exec, p, c->w[p], c->grad[p]);
    }
    return 0;
}

static double cost(struct grad_check *c) {
    struct nn_cost out;
    nn_exec_forward(c->exec, c->feed, 0, nn_feed_n(c->feed), NN_TRAIN, c->seed, 0, &out);
    return out.sum;
}

static double cost_at(struct grad_check *c, float *w, double value, double *moved) {
    *w = (float)value;
    *moved = (double)*w;
    return cost(c);
}

/* d cost / d w by each formula. `cost0` is the cost at *w. The steps that float32 really makes
 * count, not the nominal ones. */
static void differences(struct grad_check *c, float *w, double h, double cost0,
                        double out[N_FORMULAS]) {
    float was = *w;
    double x0 = (double)was, x[4], f[4];
    static const int times[4] = {1, -1, 2, -2};
    for (int i = 0; i < 4; i++)
        f[i] = cost_at(c, w, x0 + times[i] * h, &x[i]);
    *w = was;
    double near = (f[0] - f[1]) / (x[0] - x[1]), far = (f[2] - f[3]) / (x[2] - x[3]);
    out[0] = (4 * near - far) / 3;
    out[1] = 2 * (f[0] - cost0) / (x[0] - x0) - (f[2] - cost0) / (x[2] - x0);
    out[2] = 2 * (f[1] - cost0) / (x[1] - x0) - (f[3] - cost0) / (x[3] - x0);
}

/* Does the smallest step, to either side, change the side of a kink anywhere? */
static int crosses_kink(struct grad_check *c, float *w) {
    float was = *w;
    double moved;
    cost(c);
    uint64_t here = nn_exec_kink_sides(c->exec);
    cost_at(c, w, (double)was + 2 * steps[N_STEPS - 1], &moved);
    int crossed = nn_exec_kink_sides(c->exec) != here;
    cost_at(c, w, (double)was - 2 * steps[N_STEPS - 1], &moved);
    crossed |= nn_exec_kink_sides(c->exec) != here;
    *w = was;
    return crossed;
}

static double relative(double a, double b, double floor) {
    double big = fmax(fmax(fabs(a), fabs(b)), floor);
    return fabs(a - b) / big;
}

/* The index of an element to check: see the head of this file. */
static uint64_t choose_element(const struct grad_check *c, uint32_t p, uint32_t k) {
    uint64_t n = c->n_values[p], i = pd_rng_below(pd_rng_key(c->seed, PD_RNG_CHECK, 3, p), 0, k, n);
    for (uint64_t j = 0; k % 2 && j < n; j++) {
        uint64_t at = (i + j) % n;
        if (c->grad[p][at] != 0)
            return at;
    }
    return i;
}

static void check_param(struct grad_check *c, uint32_t p, uint32_t n_elements, double threshold,
                        struct nn_check *out) {
    const struct nn_param *param = nn_graph_param(c->g, p);
    uint32_t n_keys;
    const uint64_t *keys = nn_feed_keys(c->feed, p, &n_keys);
    double largest = 0;
    for (uint64_t i = 0; i < c->n_values[p]; i++)
        largest = fmax(largest, fabs((double)c->grad[p][i]));
    double floor = FLOOR * largest + 1e-7, cost0 = cost(c);
    uint64_t n = c->n_values[p] < n_elements ? c->n_values[p] : n_elements;
    *out = (struct nn_check){.param = param->name, .n_checked = n, .max_relative = -1};
    for (uint32_t k = 0; k < n; k++) {
        uint64_t i = n == c->n_values[p] ? k : choose_element(c, p, k);
        double analytic = (double)c->grad[p][i], best = INFINITY, numeric = NAN;
        for (int s = 0; s < N_STEPS; s++) {
            double d[N_FORMULAS];
            differences(c, &c->w[p][i], steps[s], cost0, d);
            for (int f = 0; f < N_FORMULAS; f++) {
                double r = relative(analytic, d[f], floor);
                numeric = r < best || isnan(numeric) ? d[f] : numeric;
                best = r < best ? r : best;
            }
        }
        if (best > threshold && crosses_kink(c, &c->w[p][i])) {
            out->n_skipped++;
            continue;
        }
        if (best <= out->max_relative)
            continue;
        out->max_relative = best;
        out->worst = keys ? keys[i / param->cols] * param->cols + i % param->cols : i;
        out->analytic = analytic;
        out->numeric = numeric;
    }
    out->ok = out->max_relative <= threshold;
}

int nn_checkgrad(const struct nn_graph *g, const struct nn_check_opts *opts,
                 void (*report)(void *arg, const struct nn_check *c), void *arg,
                 struct pd_err *err) {
    struct grad_check c = {.g = g, .seed = opts->seed};
    struct pd_batch random = {0};
    const struct pd_batch *batch = opts->batch;
    struct nn_check worst = {.max_relative = -1, .ok = 1};
    double threshold = opts->threshold > 0 ? opts->threshold : NN_CHECK_THRESHOLD;
    int rc = 0;
    if (!batch) {
        rc = random_batch(&random, g, opts->batch_size ? opts->batch_size : 8, opts->seed);
        batch = &random;
    }
    if (rc)
        pd_fail(err, rc, "out of memory");
    if (!rc)
        rc = nn_feed_new(&c.feed, g, batch->n, err);
    if (!rc)
        rc = nn_exec_new(&c.exec, g, batch->n, err);
    if (!rc)
        rc = nn_feed_set(c.feed, batch, err);
    if (!rc && (rc = make_values(&c)))
        pd_fail(err, rc, "out of memory for the parameters and their gradients");
    if (!rc) {
        cost(&c);
        nn_exec_backward(c.exec);
    }
    for (uint32_t p = 0; !rc && p < nn_graph_n_params(g); p++) {
        struct nn_check one;
        if (nn_graph_param(g, p)->average > 0) /* it has no gradient */
            continue;
        check_param(&c, p, opts->n_elements ? opts->n_elements : 40, threshold, &one);
        if (report)
            report(arg, &one);
        if (one.max_relative > worst.max_relative)
            worst = one;
    }
    if (!rc && !worst.ok)
        rc = pd_fail(
            err, PD_EFAIL,
            "the gradient of parameter '%s' is wrong: element %llu is %g, by finite differences %g "
            "(relative error %.2e, allowed %.0e)",
            worst.param, (unsigned long long)worst.worst, worst.analytic, worst.numeric,
            worst.max_relative, threshold);
    for (uint32_t p = 0; c.w && c.grad && p < nn_graph_n_params(g); p++) {
        free(c.w[p]);
        free(c.grad[p]);
    }
    free(c.w);
    free(c.grad);
    free(c.n_values);
    nn_exec_free(c.exec);
    nn_feed_free(c.feed);
    pd_batch_release(&random);
    return rc;
}
