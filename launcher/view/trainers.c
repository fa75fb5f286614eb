/* SPDX-License-Identifier: Apache-2.0 */
/* trainers.c - see trainers.h. */
#include "launcher/view/trainers.h"

enum {
    FIRST_PERIOD_MS = 1000, /* taken for the unknown period of a trainer's first event */
    JUDGE_AFTER_MS = 5000,  /* data of a trainer before it may be called slow */
    SILENT_MS = 10000,
    STALL_MS = 5000,
    STALL_PERIODS = 4, /* a job with long steps stalls after so many periods without an event */
    WAITS_MS = 3000,   /* a waiting trainer says so every second */
    BUSY_MS = 10000,   /* tests and saves: a batch of a test may take this long */
};

/* One second of a trainer. */
struct second {
    uint64_t at_s;
    double ms, waited_ms, units;
};

struct trainer {
    struct trainer_view v;
    struct second window[TRAINERS_WINDOW_S];
    /* times of the last event; of the last with progress; with a rate; that shows work */
    uint64_t event_ms, progress_ms, rated_ms, worked_ms;
    double period_ms;   /* usual time between progress events; 0: unknown */
    struct doing doing; /* the last event of this kind, of doing_ms */
    uint64_t doing_ms;
};

struct trainers {
    unsigned n, n_known;
    uint64_t first_ms;
    double first_done;
    struct trainer *t;
    double *rates, *waits; /* [n] sorted, of the trainers that are compared */
};

/* --- events --- */

static int is_training(const struct doing *d) { return !strcmp(d->what, "training"); }

/* 1: the trainer is at work, but not on steps. To save and to load is to wait for servers. */
static int is_busy(const struct trainer *t, uint64_t now_ms) {
    return t->doing_ms > t->progress_ms && now_ms - t->doing_ms < BUSY_MS &&
           !is_training(&t->doing) &&
           (!t->doing.waited_ms || !strcmp(t->doing.what, "saving") ||
            !strcmp(t->doing.what, "loading"));
}

static double done_of(const struct progress *p) {
    return p->num_passes && p->fraction >= 0
               ? ((double)p->pass + p->fraction) / (double)p->num_passes
               : -1;
}

static void add_to_window(struct trainer *t, const struct progress *p, uint64_t now_ms) {
    const uint64_t now_s = now_ms / 1000;
    struct second *s = &t->window[now_s % TRAINERS_WINDOW_S];
    double period = t->rated_ms ? (double)(now_ms - t->rated_ms) : FIRST_PERIOD_MS;
    period = fmin(period, TRAINERS_WINDOW_S * 1000);
    if (s->at_s != now_s)
        *s = (struct second){.at_s = now_s};
    s->ms += period;
    s->units += p->own_rate * period / 1000;
    s->waited_ms += fmax(p->wait, 0) * period;
    t->rated_ms = now_ms;
}

static void take_progress(struct trainers *all, struct trainer *t, const struct progress *p,
                          uint64_t now_ms) {
    if (!t->v.known) {
        *t = (struct trainer){.v.known = 1};
        all->n_known++;
    } else if (t->doing_ms <= t->progress_ms) { /* it did nothing else since its last progress */
        double period = (double)(now_ms - t->progress_ms);
        t->period_ms = t->period_ms > 0 ? 0.8 * t->period_ms + 0.2 * period : period;
    }
    if (p->own_rate >= 0)
        add_to_window(t, p, now_ms);
    t->v.last = *p;
    t->event_ms = t->progress_ms = t->worked_ms = now_ms;
    if (!all->first_ms) {
        all->first_ms = now_ms ? now_ms : 1;
        all->first_done = done_of(p);
    }
}

int trainers_event(struct trainers *all, unsigned node, const char *json, size_t n,
                   uint64_t now_ms) {
    struct progress p;
    json_t *e = node < all->n ? json_loadb(json, n, 0, NULL) : NULL;
    if (!e)
        return 0;
    struct trainer *t = &all->t[node];
    int shown = 1;
    if (!progress_parse(&p, e)) {
        take_progress(all, t, &p, now_ms);
    } else if (t->v.known && !progress_take_test(&t->v.last, e)) {
        t->event_ms = now_ms;
    } else if (t->v.known && !doing_parse(&t->doing, e)) {
        t->event_ms = t->doing_ms = now_ms;
        if (is_busy(t, now_ms))
            t->worked_ms = now_ms;
    } else {
        shown = 0;
    }
    json_decref(e);
    return shown;
}

void trainers_remove(struct trainers *all, unsigned node) {
    all->n_known -= all->t[node].v.known != 0;
    all->t[node] = (struct trainer){0};
}

/* --- rates and shares of waiting --- */

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of n sorted numbers without one that equals v. */
static double median_of_others(const double *sorted, unsigned n, double v) {
    unsigned skip = 0, m = n - 1;
    while (skip < m && sorted[skip] < v)
        skip++;
    double high = sorted[m / 2 + (m / 2 >= skip)];
    if (m % 2)
        return high;
    return (high + sorted[m / 2 - 1 + (m / 2 - 1 >= skip)]) / 2;
}

/* Sums the window of a trainer. Time without an event counts, so a rate falls to 0. Returns the
 * milliseconds that the trainer's events cover. */
static double sum_window(struct trainer *t, uint64_t now_ms, double *wait) {
    double ms = 0, units = 0, waited = 0;
    for (int i = 0; i < TRAINERS_WINDOW_S; i++)
        if (t->window[i].at_s + TRAINERS_WINDOW_S > now_ms / 1000) {
            ms += t->window[i].ms;
            units += t->window[i].units;
            waited += t->window[i].waited_ms;
        }
    double quiet = t->rated_ms ? (double)(now_ms - t->rated_ms) : 0, usual = 2 * t->period_ms;
    double all_ms = ms + (quiet > fmax(usual, 2000) ? quiet : 0);
    t->v.rate = !t->rated_ms ? -1 : all_ms > 0 ? units / all_ms * 1000 : 0;
    *wait = ms > 0 ? waited / ms : 0;
    return ms;
}

/* Marks the slow trainers among those with enough data. */
static void mark_slow(struct trainers *all, uint64_t now_ms) {
    unsigned n = 0;
    double wait;
    for (unsigned i = 0; i < all->n; i++) {
        struct trainer *t = &all->t[i];
        if (!t->v.known || sum_window(t, now_ms, &wait) < JUDGE_AFTER_MS)
            continue;
        all->rates[n] = t->v.rate;
        all->waits[n++] = wait;
    }
    if (n < 2)
        return;
    qsort(all->rates, n, sizeof *all->rates, by_number);
    qsort(all->waits, n, sizeof *all->waits, by_number);
    for (unsigned i = 0; i < all->n; i++) {
        struct trainer *t = &all->t[i];
        if (!t->v.known || sum_window(t, now_ms, &wait) < JUDGE_AFTER_MS)
            continue;
        double rate = median_of_others(all->rates, n, t->v.rate),
               others_wait = median_of_others(all->waits, n, wait) - wait;
        if (others_wait >= 0.2 && t->v.rate <= 1.05 * rate)
            t->v.others_wait = others_wait;
        else if (t->v.rate < 0.7 * rate)
            t->v.relative_rate = t->v.rate / rate;
        else
            continue;
        t->v.mark = TRAINER_SLOW;
    }
}

/* --- a job that stands still --- */

/* 1: the trainer waits for servers. */
static int waits(const struct trainer *t, uint64_t now_ms) {
    return t->doing_ms > t->progress_ms && now_ms - t->doing_ms < WAITS_MS &&
           t->doing.waited_ms >= 1000;
}

/* Returns for how long no trainer has worked; 0: not long enough to say so. */
static uint64_t stalled_for(const struct trainers *all, uint64_t now_ms) {
    uint64_t last = 0;
    double limit = STALL_MS;
    for (unsigned i = 0; i < all->n; i++) {
        const struct trainer *t = &all->t[i];
        if (!t->v.known)
            continue;
        if (is_busy(t, now_ms))
            return 0;
        last = t->worked_ms > last ? t->worked_ms : last;
        limit = fmax(limit, STALL_PERIODS * t->period_ms);
    }
    return last && (double)(now_ms - last) >= limit ? now_ms - last : 0;
}

/* Finds for whom a stalled job waits: the trainers that do not wait themselves; if all wait, the
 * servers without an answer. */
static void find_awaited(struct trainers *all, uint64_t now_ms, struct trainers_summary *out) {
    unsigned n_waiting = 0;
    for (unsigned i = 0; i < all->n; i++) {
        const struct trainer *t = &all->t[i];
        if (!t->v.known || !waits(t, now_ms))
            continue;
        n_waiting++;
        if (*t->doing.servers &&
            (!*out->servers || strlen(t->doing.servers) < strlen(out->servers)))
            out->servers = t->doing.servers;
    }
    if (n_waiting == all->n_known || (!n_waiting && all->n_known > 1))
        return;
    out->servers = "";
    for (unsigned i = 0; i < all->n; i++) {
        struct trainer *t = &all->t[i];
        if (!t->v.known || waits(t, now_ms))
            continue;
        t->v.mark = TRAINER_STALLED;
        if (out->n_waits_for < TRAINERS_NAMED)
            out->waits_for[out->n_waits_for] = i;
        out->n_waits_for++;
    }
}

/* --- all together --- */

static void mark_silent(struct trainers *all, uint64_t now_ms) {
    unsigned n_heard = 0;
    for (unsigned i = 0; i < all->n; i++)
        n_heard += all->t[i].v.known && now_ms - all->t[i].event_ms < SILENT_MS;
    for (unsigned i = 0; i < all->n && n_heard; i++)
        if (all->t[i].v.known && now_ms - all->t[i].event_ms >= SILENT_MS)
            all->t[i].v.mark = TRAINER_SILENT;
}

/* The first trainer's progress, the smallest fraction, and the sum of the rates. */
static void sum_up(const struct trainers *all, const struct trainer *first,
                   struct trainers_summary *out) {
    double fraction = 2, rate = 0;
    int all_rated = 1;
    out->p = first->v.last;
    for (unsigned i = 0; i < all->n; i++) {
        const struct trainer *t = &all->t[i];
        if (!t->v.known)
            continue;
        if (t->v.last.pass == out->p.pass)
            fraction = fmin(fraction, t->v.last.fraction);
        all_rated &= t->v.rate >= 0;
        rate += fmax(t->v.rate, 0);
        out->n_marked += t->v.mark != TRAINER_WELL;
    }
    out->p.fraction = fraction <= 1 ? fraction : -1;
    if (all_rated)
        out->p.rate = rate;
    if (out->stalled_ms)
        out->p.rate = 0;
    out->done = done_of(&out->p);
    if (first->doing_ms > first->progress_ms && !is_training(&first->doing) && !out->stalled_ms)
        out->doing = first->doing.what;
}

int trainers_look(struct trainers *all, uint64_t now_ms, struct trainers_summary *out) {
    const struct trainer *first = NULL;
    double wait;
    for (unsigned i = 0; i < all->n; i++) {
        struct trainer *t = &all->t[i];
        if (!t->v.known)
            continue;
        t->v.mark = TRAINER_WELL;
        t->v.others_wait = t->v.relative_rate = -1;
        t->v.silent_ms = now_ms - t->event_ms;
        sum_window(t, now_ms, &wait);
        if (!first || t->v.last.rank < first->v.last.rank)
            first = t;
    }
    if (!first)
        return 0;
    *out = (struct trainers_summary){.first_ms = all->first_ms,
                                     .first_done = all->first_done,
                                     .n_known = all->n_known,
                                     .servers = "",
                                     .stalled_ms = stalled_for(all, now_ms)};
    if (out->stalled_ms) {
        for (unsigned i = 0; i < all->n; i++)
            all->t[i].v.rate = fmin(all->t[i].v.rate, 0);
        find_awaited(all, now_ms, out);
    } else {
        mark_slow(all, now_ms);
        mark_silent(all, now_ms);
    }
    sum_up(all, first, out);
    return 1;
}

const struct trainer_view *trainers_at(const struct trainers *all, unsigned node) {
    return &all->t[node].v;
}

int trainers_new(struct trainers **out, unsigned n_nodes, struct pd_err *err) {
    struct trainers *all = pd_calloc(1, sizeof *all);
    if (!all)
        return pd_oom(err, "the progress of trainers");
    all->n = n_nodes;
    all->t = pd_calloc(n_nodes, sizeof *all->t);
    all->rates = pd_calloc(n_nodes, sizeof *all->rates);
    all->waits = pd_calloc(n_nodes, sizeof *all->waits);
    if (!all->t || !all->rates || !all->waits) {
        trainers_free(all);
        return pd_oom(err, "the progress of trainers");
    }
    *out = all;
    return 0;
}

void trainers_free(struct trainers *all) {
    if (!all)
        return;
    free(all->t);
    free(all->rates);
    free(all->waits);
    free(all);
}
