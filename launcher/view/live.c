/* live.c - see live.h. */
#include "launcher/view/live.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "launcher/view/progress.h"
#include "launcher/text/when.h"

enum {
    PIPE_PROGRESS_MS = 5000,
    DRAW_MS = VIEW_LIVE_MS,
    /* REFRESH_MS applies without an event */
    REFRESH_MS = 1000,
    SILENT_MS = 10000,
    ETA_AFTER_MS = 3000,
    BAR_MIN = 8,
    BAR_MAX = 40,
    ROWS_MAX = 4, /* rows of nodes */
    /* with more nodes than this, only the slowest are shown */
    SHOWN_MAX = 48,
    SLOWEST = 8,
};

struct live_trainer {
    struct progress p;
    int known, slow, silent;
    uint64_t at_ms;
};

struct live {
    uv_loop_t *loop;
    struct view *view;
    const char *const *names;
    unsigned n;
    struct live_trainer *t;
    unsigned n_known, n_restarts;
    int closed, has_handles, was_restarting;
    uint64_t pipe_ms;
    /* fraction of the whole job that was done at the first event */
    double first_done;
    uint64_t first_ms; /* time of the first event; 0: none yet */
    uv_timer_t tick;
    uv_signal_t winch;
};

/* --- what the events say together --- */

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, unsigned n) {
    qsort(v, n, sizeof *v, by_number);
    return n ? v[n / 2] : 0;
}

/* Mark the slow trainers, and those that are silent while others are not. */
static void mark_slow(struct live *l) {
    double *rate = pd_calloc(l->n, sizeof *rate), *wait = pd_calloc(l->n, sizeof *wait);
    unsigned k = 0, talks = 0;
    uint64_t now = uv_now(l->loop);
    for (unsigned i = 0; rate && wait && i < l->n; i++) {
        struct live_trainer *t = &l->t[i];
        t->slow = 0;
        t->silent = t->known && now - t->at_ms >= SILENT_MS;
        talks += t->known && !t->silent;
        if (!t->known || t->silent || t->p.own_rate < 0)
            continue;
        rate[k] = t->p.own_rate;
        wait[k++] = t->p.wait;
    }
    double rates = rate && wait ? median(rate, k) : 0, waits = rate && wait ? median(wait, k) : 0;
    for (unsigned i = 0; i < l->n; i++) {
        struct live_trainer *t = &l->t[i];
        /* all trainers are silent: they test, or save */
        t->silent &= talks > 0;
        if (k > 1 && t->known && !t->silent && t->p.own_rate >= 0)
            t->slow = t->p.own_rate < 0.7 * rates || (t->p.wait >= 0 && t->p.wait < waits - 0.2);
    }
    free(rate);
    free(wait);
}

/* The job's progress: that of the trainer with the lowest rank, with the smallest fraction of all
 * trainers. */
static int summary(const struct live *l, struct progress *out) {
    const struct live_trainer *first = NULL;
    double fraction = 2, rates = 0;
    int all_rates = 1;
    for (unsigned i = 0; i < l->n; i++) {
        const struct live_trainer *t = &l->t[i];
        if (!t->known)
            continue;
        if (!first || t->p.rank < first->p.rank)
            first = t;
        all_rates &= t->p.own_rate >= 0;
        rates += t->p.own_rate;
    }
    if (!first)
        return -1;
    *out = first->p;
    for (unsigned i = 0; i < l->n; i++) {
        const struct live_trainer *t = &l->t[i];
        if (t->known && t->p.pass == out->pass)
            fraction = fmin(fraction, t->p.fraction);
    }
    out->fraction = fraction <= 1 ? fraction : -1;
    if (all_rates)
        out->rate = rates;
    return 0;
}

static double done_of(const struct progress *p) {
    return p->num_passes && p->fraction >= 0
               ? ((double)p->pass + p->fraction) / (double)p->num_passes
               : -1;
}

/* "" until there is enough data for an estimate. */
static void eta_text(const struct live *l, const struct progress *p, char *out, size_t cap) {
    double done = done_of(p);
    uint64_t ms = uv_now(l->loop) - l->first_ms;
    *out = 0;
    if (done < 0 || l->first_done < 0 || ms < ETA_AFTER_MS || done - l->first_done < 0.002 ||
        done >= 1)
        return;
    char span[40];
    when_span(span, sizeof span,
              (uint64_t)((1 - done) / (done - l->first_done) * (double)ms * 1000));
    pd_fmt(out, cap, "  ETA %s", span);
}

/* --- the block --- */

/* Append `text`, as far as the columns left allow. All text here is ASCII. */
static void add_text(struct pd_buf *b, size_t *left, const char *text) {
    size_t n = strlen(text);
    n = n < *left ? n : *left;
    pd_put(b, text, n);
    *left -= n;
}

static void add_bar(struct pd_buf *b, size_t *left, double fraction, size_t room) {
    size_t bar = room < BAR_MAX ? room : BAR_MAX, full = (size_t)(fraction * (double)bar);
    char text[BAR_MAX + 4];
    if (room < BAR_MIN)
        return;
    text[0] = '[';
    for (size_t i = 0; i < bar; i++)
        text[1 + i] = i < full ? '=' : i == full ? '>' : '-';
    memcpy(text + 1 + bar, "] ", 3);
    add_text(b, left, text);
}

static void add_first_line(const struct live *l, struct pd_buf *b, const struct progress *p,
                           size_t width) {
    char pass[60], eta[60], figures[300] = "", percent[16] = "";
    size_t left = width, n = 0;
    if (p->num_passes)
        pd_fmt(pass, sizeof pass, "pass %lld/%lld ", (long long)p->pass + 1,
               (long long)p->num_passes);
    else
        pd_fmt(pass, sizeof pass, "pass %lld ", (long long)p->pass + 1);
    eta_text(l, p, eta, sizeof eta);
    if (p->fraction >= 0)
        pd_fmt(percent, sizeof percent, "%3.0f %%", floor(p->fraction * 100));
    else
        pd_fmt(percent, sizeof percent, "batch %lld", (long long)p->batch);
#define FIGURE(...) \
    (n += n < sizeof figures ? (size_t)snprintf(figures + n, sizeof figures - n, __VA_ARGS__) : 0)
    if (!isnan(p->cost))
        FIGURE("  cost %.4g", p->cost);
    for (int i = 0; i < p->n_metrics; i++)
        FIGURE("  %s %.4g", p->metric[i].name, p->metric[i].value);
    if (p->rate >= 0)
        FIGURE("  %.0f %s/s", p->rate, p->unit);
    if (l->n_restarts)
        FIGURE("  %u restart%s", l->n_restarts, l->n_restarts == 1 ? "" : "s");
#undef FIGURE
    size_t others = strlen(pass) + strlen(percent) + strlen(eta) + strlen(figures) + 3;
    add_text(b, &left, pass);
    if (p->fraction >= 0)
        add_bar(b, &left, p->fraction, others < width ? width - others : 0);
    add_text(b, &left, percent);
    add_text(b, &left, eta);
    add_text(b, &left, figures);
}

static void cell_of(const struct live *l, unsigned i, char *out, size_t cap) {
    const struct live_trainer *t = &l->t[i];
    if (t->silent)
        snprintf(out, cap, "%s silent for %llu s", l->names[i],
                 (unsigned long long)(uv_now(l->loop) - t->at_ms) / 1000);
    else if (t->p.own_rate >= 0)
        snprintf(out, cap, "%s %.0f/s%s", l->names[i], t->p.own_rate, t->slow ? ", slow" : "");
    else
        snprintf(out, cap, "%s", l->names[i]);
}

/* Sort key for the choice of trainers that are shown; larger is worse. */
static double badness(const struct live_trainer *t) {
    if (t->silent)
        return 1e12;
    return (t->slow ? 1e6 : 0) - (t->p.wait >= 0 ? t->p.wait : 0) - 1e-9 * t->p.own_rate;
}

/* Choose the trainers to show, in the order of nodes; of too many the worst. */
static unsigned choose_trainers(const struct live *l, unsigned *out, unsigned max) {
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++)
        if (l->t[i].known && l->n_known <= max)
            out[n++] = i;
    if (n)
        return n;
    for (unsigned i = 0; i < l->n; i++) {
        if (!l->t[i].known)
            continue;
        unsigned at = n < SLOWEST ? n++ : SLOWEST;
        while (at > 0 && badness(&l->t[i]) > badness(&l->t[out[at - 1]])) {
            if (at < SLOWEST)
                out[at] = out[at - 1];
            at--;
        }
        if (at < SLOWEST)
            out[at] = i;
    }
    return n;
}

/* Add lines with at most `max` trainers. -1: they need more rows. */
static int add_nodes(const struct live *l, struct pd_buf *b, size_t width, size_t rows,
                     unsigned max) {
    unsigned shown[SHOWN_MAX], n = choose_trainers(l, shown, max);
    int colour = view_has_colour(l->view);
    char cell[400], head[60] = "";
    size_t left = width, used = 0;
    if (n < l->n_known || !max)
        pd_fmt(head, sizeof head, "slowest of %u:", l->n_known);
    for (unsigned i = 0; i < n; i++) {
        const struct live_trainer *t = &l->t[shown[i]];
        cell_of(l, shown[i], cell, sizeof cell);
        size_t need = strlen(cell) + (left < width ? 2 : 0);
        if (!used || need > left) {
            if (used == rows)
                return -1;
            pd_put_u8(b, '\n');
            used++;
            left = width;
            if (used == 1 && *head)
                add_text(b, &left, head);
        }
        if (left < width)
            add_text(b, &left, "  ");
        if (colour && (t->slow || t->silent))
            pd_put_fmt(b, "\033[%dm", t->silent ? 31 : 33);
        add_text(b, &left, cell);
        if (colour && (t->slow || t->silent))
            pd_put(b, "\033[m", 3);
    }
    return 0;
}

static void draw(struct live *l) {
    struct progress p;
    struct pd_buf b;
    size_t width = (size_t)view_width(l->view) - 1, height = (size_t)view_height(l->view);
    pd_buf_init(&b);
    mark_slow(l);
    if (!summary(l, &p)) {
        add_first_line(l, &b, &p, width);
        size_t rows = height < 8 ? 0 : height / 4 < ROWS_MAX ? height / 4 : ROWS_MAX, first = b.len;
        if (l->n_known > 1 && rows && add_nodes(l, &b, width, rows, SHOWN_MAX)) {
            b.len = first;
            /* show only the slowest */
            add_nodes(l, &b, width, rows, 0);
        }
    }
    if (!b.failed)
        view_live(l->view, (const char *)b.data, b.len);
    pd_buf_release(&b);
}

static void on_tick(uv_timer_t *t) {
    struct live *l = t->data;
    draw(l);
    uv_timer_start(t, on_tick, REFRESH_MS, 0);
}

static void draw_soon(struct live *l) {
    if (!uv_is_active((uv_handle_t *)&l->tick) || uv_timer_get_due_in(&l->tick) > DRAW_MS)
        uv_timer_start(&l->tick, on_tick, DRAW_MS, 0);
}

static void on_winch(uv_signal_t *s, int signum) {
    struct live *l = s->data;
    (void)signum;
    if (l->first_ms)
        draw_soon(l);
}

/* --- a pipe --- */

/* Print "progress | pass 1/2 41 %, batch 300, cost 4.1, 12300 words/s, slow: gpu-03". */
static void print_progress(struct live *l) {
    struct progress p;
    char text[300];
    uint64_t now = uv_now(l->loop);
    struct pd_buf b;
    if ((l->pipe_ms && now - l->pipe_ms < PIPE_PROGRESS_MS) || summary(l, &p) ||
        view_backlog(l->view) > VIEW_ROOM)
        return;
    l->pipe_ms = now;
    mark_slow(l);
    progress_text(&p, text, sizeof text);
    pd_buf_init(&b);
    pd_put_fmt(&b, "progress | %s", text);
    const char *before = ", slow: ";
    for (unsigned i = 0, n = 0; i < l->n && n < SLOWEST; i++)
        if (l->t[i].slow || l->t[i].silent) {
            pd_put_fmt(&b, "%s%s", before, l->names[i]);
            before = ", ";
            n++;
        }
    pd_put_u8(&b, '\n');
    if (!b.failed)
        view_put(l->view, b.data, b.len);
    pd_buf_release(&b);
}

/* --- from outside --- */

void live_event(struct live *l, unsigned node, const char *json, size_t n) {
    struct progress p;
    json_t *e = node < l->n ? json_loadb(json, n, 0, NULL) : NULL;
    int rc = e ? progress_parse(&p, e) : -1;
    json_decref(e);
    if (rc || l->closed)
        return;
    struct live_trainer *t = &l->t[node];
    double rate = t->p.own_rate, wait = t->p.wait;
    int known = t->known;
    t->p = p;
    /* some events lack the rate: keep the last one */
    if (known && p.own_rate < 0) {
        t->p.own_rate = rate;
        t->p.wait = wait;
    }
    l->n_known += !known;
    t->known = 1;
    t->at_ms = uv_now(l->loop);
    if (!l->first_ms) {
        l->first_ms = t->at_ms ? t->at_ms : 1;
        l->first_done = done_of(&p);
    }
    if (view_is_live(l->view))
        draw_soon(l);
    else
        print_progress(l);
}

void live_remove_trainer(struct live *l, unsigned node) {
    l->n_known -= l->t[node].known != 0;
    l->t[node].known = 0;
}

void live_state(struct live *l, const char *state) {
    int restarting = !strcmp(state, "restarting");
    l->n_restarts += restarting && !l->was_restarting;
    l->was_restarting = restarting;
    if (l->first_ms && view_is_live(l->view) && !l->closed)
        draw_soon(l);
}

int live_new(struct live **out, uv_loop_t *loop, struct view *v, const char *const *names,
             unsigned n_nodes, struct pd_err *err) {
    struct live *l = pd_calloc(1, sizeof *l);
    if (l)
        l->t = pd_calloc(n_nodes ? n_nodes : 1, sizeof *l->t);
    if (!l || !l->t) {
        free(l);
        return pd_oom(err, "the live view");
    }
    l->loop = loop;
    l->view = v;
    l->names = names;
    l->n = n_nodes;
    if (view_is_live(v)) {
        uv_timer_init(loop, &l->tick);
        uv_signal_init(loop, &l->winch);
        l->tick.data = l->winch.data = l;
        uv_signal_start(&l->winch, on_winch, SIGWINCH);
        l->has_handles = 1;
    }
    *out = l;
    return 0;
}

void live_close(struct live *l) {
    struct progress p;
    char text[300], line[320];
    if (l->closed)
        return;
    l->closed = 1;
    if (!l->has_handles)
        return;
    uv_close((uv_handle_t *)&l->tick, NULL);
    uv_close((uv_handle_t *)&l->winch, NULL);
    view_live(l->view, "", 0);
    if (!summary(l, &p)) {
        progress_text(&p, text, sizeof text);
        view_put(l->view, line, (size_t)snprintf(line, sizeof line, "%s\n", text));
    }
}

void live_free(struct live *l) {
    if (l)
        free(l->t);
    free(l);
}
