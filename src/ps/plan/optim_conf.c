/* SPDX-License-Identifier: Apache-2.0 */
/* optim_conf.c - see optim_conf.h. Schedules: docs/sources.md#learning-rate-schedules. */
#include "ps/plan/optim_conf.h"

#include "ps/plan/optim.h"

/* --- schedules: the factor of the learning rate, one row each --- */

static double constant(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    (void)c;
    (void)at;
    return 1;
}

static double poly(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return pow(1 + c->decay_a * (double)at->samples, -c->decay_b);
}

static double exponential(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return pow(c->decay_a, (double)at->samples / c->decay_b);
}

static double discexp(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return pow(c->decay_a, floor((double)at->samples / c->decay_b));
}

/* decay_a is subtracted per sample, and decay_b is the lower limit. Both are rates, so the result
 * is divided by the learning rate. */
static double linear(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return fmax(c->learning_rate - c->decay_a * (double)at->samples, c->decay_b) / c->learning_rate;
}

static double point(const struct ps_optim_conf *c, double at) {
    for (uint32_t i = 0; i < c->n_points; i++)
        if (at <= c->at[i])
            return c->factor[i];
    return c->factor[c->n_points - 1];
}

static double manual(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return point(c, (double)at->samples);
}
static double pass_manual(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    return point(c, (double)at->pass);
}

static double cosine(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    double begin = c->warmup_steps, done = ((double)at->step - begin) / (c->total_steps - begin);
    done = done < 0 ? 0 : done > 1 ? 1 : done;
    return c->decay_b + (1 - c->decay_b) * 0.5 * (1 + cos(M_PI * done));
}

enum needs { NEEDS_NOTHING = 0, NEEDS_A = 1, NEEDS_B = 2, NEEDS_POINTS = 4, NEEDS_TOTAL = 8 };

static const struct {
    const char *name;
    double (*factor)(const struct ps_optim_conf *c, const struct ps_schedule_at *at);
    unsigned needs; /* enum needs: settings that the schedule requires */
    const char *text;
} schedules[] = {
    {"constant", constant, NEEDS_NOTHING, "1"},
    {"poly", poly, NEEDS_A | NEEDS_B, "(1 + a s)^-b"},
    {"exp", exponential, NEEDS_A | NEEDS_B, "a^(s/b)"},
    {"discexp", discexp, NEEDS_A | NEEDS_B, "a^floor(s/b)"},
    {"linear", linear, NEEDS_A, "max(learning_rate - a s, b) / learning_rate"},
    {"manual", manual, NEEDS_POINTS,
     "the factor of the first `where` of learning_rate_args that s is not beyond, then the last"},
    {"pass_manual", pass_manual, NEEDS_POINTS, "as manual, with the pass in place of s"},
    {"cosine", cosine, NEEDS_TOTAL,
     "b + (1-b) (1 + cos(pi x))/2, x from 0 at warmup_steps to 1 at total_steps"},
};
enum { N_SCHEDULES = sizeof schedules / sizeof schedules[0] };

static int find_schedule(const char *name) {
    for (int i = 0; i < N_SCHEDULES; i++)
        if (!strcmp(schedules[i].name, name))
            return i;
    return -1;
}

double ps_learning_rate(const struct ps_optim_conf *c, const struct ps_schedule_at *at) {
    double warm =
        (double)at->step + 1 < c->warmup_steps ? ((double)at->step + 1) / c->warmup_steps : 1;
    return c->learning_rate * warm * schedules[find_schedule(c->schedule)].factor(c, at);
}

/* --- settings --- */

#define F(field) offsetof(struct ps_optim_conf, field)
static const struct setting {
    const char *name;
    size_t field;
    double min, max, def; /* def NAN: ps_optim_find(name)'s epsilon or decay */
    const char *text;
} settings[] = {
    {"learning_rate", F(learning_rate), 0, 1e6, 0.01, "always given; layers may have a factor"},
    {"epsilon", F(epsilon), 0, 1e6, NAN, "added to the denominator"},
    {"momentum", F(momentum), 0, 1, 0.9, "momentum, nesterov: share kept of the last step"},
    {"decay", F(decay), 0, 1, NAN, "decayed_adagrad, adadelta, rmsprop: share kept of the squares"},
    {"beta1", F(beta1), 0, 0.999999999, 0.9, "adam, adamax: share kept of the mean gradient"},
    {"beta2", F(beta2), 0, 0.999999999, 0.999, "adam, adamax: share kept of the squares"},
    {"beta", F(beta), 0, 1e6, 1, "ftrl: added to the root in the denominator"},
    {"clip_value", F(clip_value), 0, 1e30, 0, "bound on each value of a mean gradient; 0: none"},
    {"clip_norm", F(clip_norm), 0, 1e30, 0,
     "bound on the norm of a trainer's mean gradient of all parameters; 0: none"},
    {"learning_rate_decay_a", F(decay_a), 0, 1e30, 0, "a of the schedule"},
    {"learning_rate_decay_b", F(decay_b), 0, 1e30, 0, "b of the schedule"},
    {"warmup_steps", F(warmup_steps), 0, 1e15, 0,
     "updates in which the learning rate rises to its value"},
    {"total_steps", F(total_steps), 0, 1e15, 0, "cosine: updates until its end"},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };
#undef F

static double *field(const struct ps_optim_conf *c, const struct setting *s) {
    return (double *)(void *)((char *)(uintptr_t)c + s->field);
}

static double default_value(const struct setting *s, const struct ps_optim *o) {
    if (!isnan(s->def))
        return s->def;
    return strcmp(s->name, "decay") ? o->epsilon : o->decay;
}

int ps_optim_conf_init(struct ps_optim_conf *c, const char *name, struct pd_err *err) {
    char known[300] = "", text[340];
    const struct ps_optim *o = ps_optim_find(name);
    for (size_t i = 0; !o && ps_optim_at(i); i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", ps_optim_at(i)->name);
    }
    if (!o)
        return pd_fail(err, PD_ECONF, "there is no optimizer '%.60s'%s", name,
                       pd_suggest(text, sizeof text, name, known));
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", o->name);
    pd_fmt(c->schedule, sizeof c->schedule, "constant");
    for (int i = 0; i < N_SETTINGS; i++)
        *field(c, &settings[i]) = default_value(&settings[i], o);
    return 0;
}

static int set_schedule(struct ps_optim_conf *c, const char *value, struct pd_err *err) {
    char known[200] = "";
    for (int i = 0; i < N_SCHEDULES; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", schedules[i].name);
    }
    if (find_schedule(value) < 0)
        return pd_fail(err, PD_ECONF, "learning_rate_schedule is one of %s, not '%.60s'", known,
                       value);
    snprintf(c->schedule, sizeof c->schedule, "%s", value);
    return 0;
}

/* Parses "1000:1.0,2000:0.5". The points ascend. */
static int set_points(struct ps_optim_conf *c, const char *value, struct pd_err *err) {
    uint32_t n = 0;
    for (const char *p = value; *p;) {
        char word[80];
        size_t k = strcspn(p, ",");
        char *colon;
        if (k >= sizeof word)
            return pd_fail(err, PD_ECONF, "learning_rate_args: '%.40s...' is too long", p);
        memcpy(word, p, k);
        word[k] = 0;
        colon = strchr(word, ':');
        if (colon)
            *colon = 0;
        char *first = word + strspn(word, " \t");
        if (n == PS_SCHEDULE_POINTS || !colon || pd_parse_f64(first, 0, 1e18, &c->at[n]) ||
            pd_parse_f64(colon + 1 + strspn(colon + 1, " \t"), 0, 1e6, &c->factor[n]) ||
            (n && c->at[n] <= c->at[n - 1]))
            return pd_fail(err, PD_ECONF,
                           "learning_rate_args is a list of at most %d ascending 'where:factor', "
                           "as 1000:1.0,2000:0.5; "
                           "not '%.100s'",
                           PS_SCHEDULE_POINTS, value);
        n++;
        p += k + (p[k] == ',');
    }
    c->n_points = n;
    return 0;
}

int ps_optim_conf_set(struct ps_optim_conf *c, const char *name, const char *value,
                      struct pd_err *err) {
    char known[500] = "learning_rate_schedule, learning_rate_args", text[540];
    if (!strcmp(name, "learning_rate_schedule"))
        return set_schedule(c, value, err);
    if (!strcmp(name, "learning_rate_args"))
        return set_points(c, value, err);
    for (int i = 0; i < N_SETTINGS; i++) {
        const struct setting *s = &settings[i];
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, ", %s", s->name);
        if (strcmp(s->name, name))
            continue;
        return pd_parse_f64(value, s->min, s->max, field(c, s))
                   ? pd_fail(err, PD_ECONF, "%s is a number from %g to %g, not '%.60s'", name,
                             s->min, s->max, value)
                   : 0;
    }
    return pd_fail(err, PD_ECONF, "an optimizer has no setting '%.60s'%s", name,
                   pd_suggest(text, sizeof text, name, known));
}

int ps_optim_conf_check(const struct ps_optim_conf *c, struct pd_err *err) {
    int k = find_schedule(c->schedule);
    if (k < 0 || !ps_optim_find(c->name))
        return pd_fail(err, PD_ECONF, "optimizer '%.30s' with schedule '%.15s'", c->name,
                       c->schedule);
    unsigned needs = schedules[k].needs;
    if ((needs & NEEDS_A && c->decay_a <= 0) || (needs & NEEDS_B && c->decay_b <= 0))
        return pd_fail(err, PD_ECONF,
                       "learning_rate_schedule = %s needs learning_rate_decay_a%s greater than 0",
                       c->schedule, needs & NEEDS_B ? " and learning_rate_decay_b" : "");
    if (!strcmp(c->schedule, "linear") && c->learning_rate <= 0)
        return pd_fail(err, PD_ECONF,
                       "learning_rate_schedule = linear needs a learning_rate greater than 0");
    if (needs & NEEDS_POINTS && !c->n_points)
        return pd_fail(err, PD_ECONF, "learning_rate_schedule = %s needs learning_rate_args",
                       c->schedule);
    if (needs & NEEDS_TOTAL && c->total_steps <= c->warmup_steps)
        return pd_fail(err, PD_ECONF,
                       "learning_rate_schedule = %s needs total_steps, more than warmup_steps",
                       c->schedule);
    return 0;
}

/* --- for the reference --- */

int ps_optim_setting(size_t i, struct ps_optim_setting *out) {
    if (i >= N_SETTINGS)
        return PD_ENOENT;
    const struct setting *s = &settings[i];
    *out = (struct ps_optim_setting){s->name, s->text, s->min, s->max, s->def};
    return 0;
}

int ps_schedule(size_t i, struct ps_schedule *out) {
    if (i >= N_SCHEDULES)
        return PD_ENOENT;
    *out = (struct ps_schedule){schedules[i].name, schedules[i].text};
    return 0;
}

/* --- as text --- */

void ps_optim_conf_text(const struct ps_optim_conf *c, struct pd_buf *out) {
    const struct ps_optim *o = ps_optim_find(c->name);
    pd_put_fmt(out, "%s", c->name);
    for (int i = 0; i < N_SETTINGS; i++)
        if (*field(c, &settings[i]) != default_value(&settings[i], o))
            pd_put_fmt(out, " %s=%.17g", settings[i].name, *field(c, &settings[i]));
    if (find_schedule(c->schedule))
        pd_put_fmt(out, " learning_rate_schedule=%s", c->schedule);
    for (uint32_t i = 0; i < c->n_points; i++)
        pd_put_fmt(out, "%s%.17g:%.17g", i ? "," : " learning_rate_args=", c->at[i], c->factor[i]);
    pd_put_u8(out, 0);
}

int ps_optim_conf_parse(struct ps_optim_conf *c, const char *text, struct pd_err *err) {
    char copy[PS_OPTIM_TEXT_MAX], *rest = copy;
    if (pd_fmt(copy, sizeof copy, "%s", text))
        return pd_fail(err, PD_ECONF, "the optimizer's settings are too long");
    const char *word = strsep(&rest, " ");
    int rc = ps_optim_conf_init(c, word, err);
    while (!rc && rest) {
        char *setting = strsep(&rest, " "), *eq = strchr(setting, '=');
        if (!*setting)
            continue;
        if (!eq)
            return pd_fail(err, PD_ECONF, "the optimizer's setting '%.60s' has no value", setting);
        *eq = 0;
        rc = ps_optim_conf_set(c, setting, eq + 1, err);
    }
    return rc ? rc : ps_optim_conf_check(c, err);
}
