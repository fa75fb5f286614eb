/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_decay.c - see lazy_decay.h. */
#include "ps/table/lazy_decay.h"

/* e^LOG_P_LEAST is 0 as a float. log_p is bounded by it, so that q stays finite. The list begins
 * anew long before that bound, unless fewer than FEW updates reach it. */
#define LOG_P_LEAST (-600.0)
#define LOG_P_SMALL (-300.0)
enum { FEW = 256, MANY = 1 << 20 }; /* updates; MANY take 16 MiB */

int ps_lazy_decay_init(struct ps_lazy_decay *d, float l1, float l2) {
    memset(d, 0, sizeof *d);
    d->l1 = (double)l1;
    d->l2 = (double)l2;
    if (!ps_lazy_decay_active(d))
        return 0;
    d->cap = 1024;
    d->at = pd_malloc(d->cap * sizeof *d->at);
    if (!d->at)
        return PD_ENOMEM;
    d->at[0] = (struct ps_lazy_decay_at){0, 0};
    return 0;
}

void ps_lazy_decay_release(struct ps_lazy_decay *d) {
    free(d->at);
    memset(d, 0, sizeof *d);
}

int ps_lazy_decay_update(struct ps_lazy_decay *d, double lr) {
    if (!ps_lazy_decay_active(d))
        return 0;
    if (pd_grow(d->at, d->cap, (size_t)d->n + 2))
        return PD_ENOMEM;
    const struct ps_lazy_decay_at *last = &d->at[d->n];
    double a = 1 - lr * d->l2, log_p = last->log_p + (a > 0 ? log(a) : LOG_P_LEAST);
    if (log_p < LOG_P_LEAST)
        log_p = LOG_P_LEAST;
    d->at[++d->n] = (struct ps_lazy_decay_at){log_p, last->q + lr * d->l1 * exp(-log_p)};
    return 0;
}

int ps_lazy_decay_is_long(const struct ps_lazy_decay *d) {
    return ps_lazy_decay_active(d) &&
           (d->n >= MANY || (d->n >= FEW && d->at[d->n].log_p < LOG_P_SMALL));
}

/* Sets log_p and q of at[0] so that ps_lazy_decay_catch_up from 0 gives the same result as before.
 * With P = e^log_p of the last update, differences of q are multiplied by P. */
void ps_lazy_decay_begin_anew(struct ps_lazy_decay *d) {
    const struct ps_lazy_decay_at *last = &d->at[d->n];
    const double log_p = d->at[0].log_p - last->log_p,
                 q = (d->at[0].q - last->q) * exp(last->log_p);
    d->at[0] = (struct ps_lazy_decay_at){log_p < -LOG_P_LEAST ? log_p : -LOG_P_LEAST, q};
    d->at[1] = (struct ps_lazy_decay_at){0, 0};
    d->n = 1;
}

int ps_lazy_decay_restore(struct ps_lazy_decay *d, const struct ps_lazy_decay_at *at, uint32_t n) {
    if (!ps_lazy_decay_active(d))
        return 0;
    struct ps_lazy_decay_at *p = pd_realloc(d->at, ((size_t)n + 1024) * sizeof *p);
    if (!p)
        return PD_ENOMEM;
    memcpy(p, at, ((size_t)n + 1) * sizeof *p);
    d->at = p;
    d->n = n;
    d->cap = (size_t)n + 1024;
    return 0;
}

void ps_lazy_decay_catch_up(const struct ps_lazy_decay *d, uint32_t from, float *w, size_t n) {
    if (!ps_lazy_decay_active(d) || from >= d->n)
        return;
    const struct ps_lazy_decay_at *s = &d->at[from], *t = &d->at[d->n];
    float keep = (float)exp(t->log_p - s->log_p), less = (float)(exp(t->log_p) * (t->q - s->q));
    for (size_t i = 0; i < n; i++) {
        float v = fabsf(w[i]) * keep - less;
        w[i] = copysignf(v > 0 ? v : 0, w[i]);
    }
}
