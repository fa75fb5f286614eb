/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers, their settings and schedules, against references in double precision. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "ps/plan/optim.h"

enum { N = 1037, STEPS = 100, SAMPLES = 37 };

/* --- every rule over 100 updates, compared with the formula of its paper --- */

struct ref {        /* one value */
    double w, a, b; /* a, b: the rule's own state */
};

struct knobs {
    double lr, l1, l2, clip, eps, mu, rho, b1, b2, beta;
};

static double ref_sgd(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    return r->w - k->lr * g;
}
static double ref_momentum(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    r->a = k->mu * r->a - k->lr * g;
    return r->w + r->a;
}
static double ref_nesterov(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    double before = r->a;
    r->a = k->mu * r->a - k->lr * g;
    return r->w - k->mu * before +
           (1 + k->mu) * r->a; /* Bengio et al. (2013): the same step in another form */
}
static double ref_adagrad(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    r->a += g * g;
    return r->w - k->lr * g / (sqrt(r->a) + k->eps);
}
static double ref_rms(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    r->a = k->rho * r->a + (1 - k->rho) * g * g;
    return r->w - k->lr * g / (sqrt(r->a) + k->eps);
}
static double ref_centered(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    r->a = k->rho * r->a + (1 - k->rho) * g * g;
    r->b = k->rho * r->b + (1 - k->rho) * g;
    return r->w - k->lr * g / (sqrt(fmax(r->a - r->b * r->b, 0)) + k->eps);
}
static double ref_adadelta(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    r->a = k->rho * r->a + (1 - k->rho) * g * g;
    double d = sqrt(r->b + k->eps) / sqrt(r->a + k->eps) * g;
    r->b = k->rho * r->b + (1 - k->rho) * d * d;
    return r->w - k->lr * d;
}
static double ref_adam(struct ref *r, double g, const struct knobs *k, int t) {
    r->a = k->b1 * r->a + (1 - k->b1) * g;
    r->b = k->b2 * r->b + (1 - k->b2) * g * g;
    return r->w -
           k->lr * (r->a / (1 - pow(k->b1, t))) / (sqrt(r->b / (1 - pow(k->b2, t))) + k->eps);
}
static double ref_adamax(struct ref *r, double g, const struct knobs *k, int t) {
    r->a = k->b1 * r->a + (1 - k->b1) * g;
    r->b = fmax(k->b2 * r->b, fabs(g));
    return r->w - k->lr / (1 - pow(k->b1, t)) * r->a / (r->b + k->eps);
}
static double ref_ftrl(struct ref *r, double g, const struct knobs *k, int t) {
    (void)t;
    double sigma = (sqrt(r->a + g * g) - sqrt(r->a)) / k->lr;
    r->b += g - sigma * r->w;
    r->a += g * g;
    if (fabs(r->b) <= k->l1)
        return 0;
    return -(r->b - copysign(k->l1, r->b)) / ((k->beta + sqrt(r->a)) / k->lr + k->l2);
}

static const struct {
    const char *name;
    double (*step)(struct ref *r, double g, const struct knobs *k, int t);
    double tolerance; /* relative: adadelta and centered RMSprop subtract nearly equal numbers */
} refs[] = {
    {"sgd", ref_sgd, 1e-5},
    {"momentum", ref_momentum, 1e-5},
    {"nesterov", ref_nesterov, 1e-5},
    {"adagrad", ref_adagrad, 1e-5},
    {"decayed_adagrad", ref_rms, 1e-5},
    {"adadelta", ref_adadelta, 1e-4},
    {"rmsprop", ref_rms, 1e-4},
    {"rmsprop_centered", ref_centered, 2e-3},
    {"adam", ref_adam, 1e-4},
    {"adamax", ref_adamax, 1e-5},
    {"ftrl", ref_ftrl, 1e-4},
};
enum { N_REFS = sizeof refs / sizeof refs[0] };

static void run_rule(size_t i, const struct knobs *k) {
    const struct ps_optim *o = ps_optim_find(refs[i].name);
    static float w[N], w1[N], st[2 * N], st1[2 * N], g[N];
    static struct ref r[N];
    struct ps_optim_conf c;
    struct pd_err err = {0};
    assert_non_null(o);
    assert_int_equal(ps_optim_conf_init(&c, o->name, &err), 0);
    c.momentum = k->mu;
    c.beta = k->beta;
    c.clip_value = k->clip;
    struct knobs full = *k;
    full.eps = c.epsilon;
    full.rho = c.decay;
    full.b1 = c.beta1;
    full.b2 = c.beta2;
    int is_ftrl = o->own_l1;
    pd_rng_normal(pd_rng_key(3, 3, 3, 3), 0, w, N);
    memset(st, 0, sizeof st);
    memset(st1, 0, sizeof st1);
    memset(r, 0, sizeof r);
    for (int v = 0; v < N; v++) {
        w1[v] = w[v] = is_ftrl ? 0 : w[v];
        r[v].w = (double)w[v];
    }
    for (int t = 1; t <= STEPS; t++) {
        struct ps_optim_args a;
        ps_optim_args_init(&a, &c, full.lr, (uint64_t)t);
        a.l1 = (float)full.l1;
        a.l2 = (float)full.l2;
        a.n_samples = SAMPLES;
        pd_rng_normal(pd_rng_key(4, 4, (uint64_t)t, 4), 0, g, N);
        ps_optim_apply(o, &a, w, st, N, g, N);
        /* The bits do not depend on where a parameter is cut. */
        for (int at = 0; at < N; at += 100) {
            size_t n = at + 100 < N ? 100 : (size_t)(N - at);
            ps_optim_apply(o, &a, w1 + at, st1 + at, N, g + at, n);
        }
        for (int v = 0; v < N; v++) {
            double mean = fmax(-full.clip, fmin(full.clip, (double)g[v] / SAMPLES));
            r[v].w = refs[i].step(&r[v], mean + (is_ftrl ? 0 : full.l2 * r[v].w), &full, t);
            if (!is_ftrl)
                r[v].w = copysign(fmax(fabs(r[v].w) - full.lr * full.l1, 0), r[v].w);
        }
    }
    assert_memory_equal(w, w1, sizeof w);
    for (int v = 0; v < N; v++)
        if (!(fabs((double)w[v] - r[v].w) <= refs[i].tolerance * (0.1 + fabs(r[v].w))))
            fail_msg("%s: w[%d] is %.9g after %d updates, reference %.9g", o->name, v, (double)w[v],
                     STEPS, r[v].w);
}

static void test_every_rule_follows_its_formula(void **state) {
    (void)state;
    const struct knobs plain = {.lr = 0.03, .clip = 1e30, .mu = 0.8, .beta = 1},
                       full = {.lr = 0.02,
                               .l1 = 1e-3,
                               .l2 = 0.01,
                               .clip = 0.03,
                               .mu = 0.9,
                               .beta = 0.5};
    size_t n = 0;
    while (ps_optim_at(n))
        n++;
    assert_int_equal(n, N_REFS); /* a new row of the table needs a reference here */
    for (size_t i = 0; i < N_REFS; i++) {
        run_rule(i, &plain);
        run_rule(i, &full);
    }
    assert_null(ps_optim_find("no such"));
}

/* --- settings and schedules --- */

static double rate(const char *text, uint64_t step, uint64_t samples, uint64_t pass) {
    struct ps_optim_conf c;
    struct pd_err err = {0};
    const struct ps_schedule_at at = {step, samples, pass};
    if (ps_optim_conf_parse(&c, text, &err))
        fail_msg("%s: %s", text, err.msg);
    return ps_learning_rate(&c, &at);
}

static void near(double a, double b) {
    if (fabs(a - b) > 1e-12 * (1 + fabs(b)))
        fail_msg("%.15g is not %.15g", a, b);
}

static void test_learning_rate_schedules(void **state) {
    (void)state;
    near(rate("sgd learning_rate=0.5", 10, 1000, 3), 0.5);
    const char *poly = "sgd learning_rate=0.5 learning_rate_schedule=poly "
                       "learning_rate_decay_a=0.01 learning_rate_decay_b=0.75";
    near(rate(poly, 0, 0, 0), 0.5);
    near(rate(poly, 9, 300, 0), 0.5 * pow(1 + 0.01 * 300, -0.75));
    const char *e = "sgd learning_rate=0.5 learning_rate_schedule=exp learning_rate_decay_a=0.9 "
                    "learning_rate_decay_b=100";
    near(rate(e, 9, 250, 0), 0.5 * pow(0.9, 2.5));
    const char *d = "sgd learning_rate=0.5 learning_rate_schedule=discexp "
                    "learning_rate_decay_a=0.9 learning_rate_decay_b=100";
    near(rate(d, 9, 250, 0), 0.5 * 0.81);
    const char *l = "sgd learning_rate=0.5 learning_rate_schedule=linear "
                    "learning_rate_decay_a=0.001 learning_rate_decay_b=0.1";
    near(rate(l, 9, 250, 0), 0.25);
    near(rate(l, 9, 2500, 0), 0.1);
    const char *m = "sgd learning_rate=0.5 learning_rate_schedule=manual "
                    "learning_rate_args=100:1,200:0.5,300:0.1";
    near(rate(m, 0, 100, 0), 0.5);
    near(rate(m, 0, 101, 0), 0.25);
    near(rate(m, 0, 1000, 0), 0.05);
    const char *pm =
        "sgd learning_rate=0.5 learning_rate_schedule=pass_manual learning_rate_args=0:1,2:0.2";
    near(rate(pm, 0, 9999, 0), 0.5);
    near(rate(pm, 0, 9999, 1), 0.1);
    const char *c = "sgd learning_rate=0.5 learning_rate_schedule=cosine warmup_steps=10 "
                    "total_steps=110 learning_rate_decay_b=0.1";
    near(rate(c, 0, 0, 0), 0.05);
    near(rate(c, 4, 0, 0), 0.25);
    near(rate(c, 10, 0, 0), 0.5);
    near(rate(c, 60, 0, 0), 0.5 * (0.1 + 0.9 * 0.5));
    near(rate(c, 500, 0, 0), 0.05);
}

static void test_settings_as_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *want; /* the expected message; NULL: accepted */
    } row[] = {
        {"adam learning_rate=0.001 beta1=0.8", NULL},
        {"momentum momentum=0.5 learning_rate_schedule=manual learning_rate_args=10:1,20:0.1",
         NULL},
        {"madam", "there is no optimizer 'madam', did you mean 'adam'?"},
        {"adam beta3=1", "no setting 'beta3', did you mean 'beta1'?"},
        {"adam beta1=1", "beta1 is a number from 0 to"},
        {"adam beta1=x", "not 'x'"},
        {"adam beta1", "has no value"},
        {"sgd learning_rate_schedule=stairs", "one of constant, poly"},
        {"sgd learning_rate_schedule=poly",
         "needs learning_rate_decay_a and learning_rate_decay_b"},
        {"sgd learning_rate_schedule=manual", "needs learning_rate_args"},
        {"sgd learning_rate_args=20:1,10:2", "ascending"},
        {"sgd learning_rate_schedule=cosine", "needs total_steps"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct ps_optim_conf c, again;
        struct pd_err err = {0};
        int rc = ps_optim_conf_parse(&c, row[i].text, &err);
        if (row[i].want) {
            if (rc != PD_ECONF || !strstr(err.msg, row[i].want))
                fail_msg("%s: %d %s", row[i].text, rc, err.msg);
            continue;
        }
        struct pd_buf b;
        pd_buf_init(&b);
        assert_int_equal(rc, 0);
        ps_optim_conf_text(&c, &b);
        assert_int_equal(ps_optim_conf_parse(&again, (char *)b.data, &err), 0);
        assert_memory_equal(&c, &again, sizeof c);
        pd_buf_release(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule_follows_its_formula),
        cmocka_unit_test(test_learning_rate_schedules),
        cmocka_unit_test(test_settings_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
