/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h. */
#include "launcher/view/live.h"

#include "launcher/text/term.h"
#include "launcher/text/when.h"
#include "launcher/view/trainers.h"

enum {
    PIPE_PROGRESS_MS = 5000,
    DRAW_MS = VIEW_LIVE_MS,
    REFRESH_MS = 1000, /* without an event */
    ETA_AFTER_MS = 3000,
    BAR_MIN = 8,
    BAR_MAX = 40,
    ROWS_MAX = 4, /* rows of nodes */
    /* with more nodes than this, only the slowest are shown */
    SHOWN_MAX = 48,
    SLOWEST = 5,
    RED = 31,
    YELLOW = 33,
    BOLD = 1,
};

struct live {
    uv_loop_t *loop;
    struct view *view;
    const char *const *names;
    unsigned n, n_restarts;
    struct trainers *trainers;
    int closed, is_drawn, was_restarting;
    /* of a pipe: the last line of progress; the length of the stall that was last printed */
    uint64_t pipe_ms, pipe_stalled_ms;
    char note[200];
    uv_timer_t tick;
    uv_signal_t winch;
};

/* "" until there is enough data for an estimate. */
static void eta_text(const struct trainers_summary *sum, uint64_t now_ms, char *out, size_t cap) {
    uint64_t ms = now_ms - sum->first_ms;
    *out = 0;
    if (sum->done < 0 || sum->first_done < 0 || ms < ETA_AFTER_MS ||
        sum->done - sum->first_done < 0.002 || sum->done >= 1)
        return;
    char span[40];
    when_span(span, sizeof span,
              (uint64_t)((1 - sum->done) / (sum->done - sum->first_done) * (double)ms * 1000));
    pd_fmt(out, cap, "ETA %s", span);
}

/* "stalled 12 s, waiting for gpu-03" */
static void put_stall(const struct live *l, const struct trainers_summary *sum, struct pd_buf *b) {
    pd_put_fmt(b, "stalled %llu s", (unsigned long long)sum->stalled_ms / 1000);
    const char *before = ", waiting for ";
    for (unsigned i = 0; i < sum->n_waits_for && i < TRAINERS_NAMED; i++, before = ", ")
        pd_put_fmt(b, "%s%s", before, l->names[sum->waits_for[i]]);
    if (sum->n_waits_for > TRAINERS_NAMED)
        pd_put_fmt(b, " and %u more", sum->n_waits_for - TRAINERS_NAMED);
    if (*sum->servers)
        pd_put_fmt(b, "%s%s", before, sum->servers);
}

/* --- the block --- */

static size_t columns(const char *text) { return term_columns(text, strlen(text)); }

/* Append `text`, as far as the columns left allow. */
static void add_text(struct pd_buf *b, size_t *left, const char *text) {
    size_t n = term_fit(text, strlen(text), *left);
    pd_put(b, text, n);
    *left -= term_columns(text, n);
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

static void add_coloured(const struct live *l, struct pd_buf *b, size_t *left, int colour,
                         const char *text) {
    colour = view_has_colour(l->view) ? colour : 0;
    if (colour)
        pd_put_fmt(b, "\033[%dm", colour);
    add_text(b, left, text);
    if (colour)
        pd_put(b, "\033[m", 3);
}

/* The text behind the percentage, with its NUL: the stall, other work, or the time that is left. */
static void put_state(const struct live *l, const struct trainers_summary *sum, struct pd_buf *b) {
    char eta[60];
    pd_buf_init(b);
    if (sum->stalled_ms) {
        put_stall(l, sum, b);
    } else if (sum->doing) {
        pd_put_fmt(b, "%s", sum->doing);
    } else {
        eta_text(sum, uv_now(l->loop), eta, sizeof eta);
        pd_put_fmt(b, "%s", eta);
    }
    pd_put_u8(b, 0);
}

static void add_first_line(const struct live *l, struct pd_buf *b,
                           const struct trainers_summary *sum, size_t width) {
    const struct progress *p = &sum->p;
    char pass[60], figures[300] = "", percent[16] = "";
    size_t left = width, n = 0;
    struct pd_buf state;
    put_state(l, sum, &state);
    if (p->num_passes)
        pd_fmt(pass, sizeof pass, "pass %lld/%lld ", (long long)p->pass + 1,
               (long long)p->num_passes);
    else
        pd_fmt(pass, sizeof pass, "pass %lld ", (long long)p->pass + 1);
    if (p->fraction >= 0)
        pd_fmt(percent, sizeof percent, "%3.0f %%", floor(p->fraction * 100));
    else
        pd_fmt(percent, sizeof percent, "batch %lld", (long long)p->batch);
    const char *text = state.failed ? "" : (const char *)state.data, *gap = *text ? "  " : "";
#define FIGURE(...) \
    (n += n < sizeof figures ? (size_t)snprintf(figures + n, sizeof figures - n, __VA_ARGS__) : 0)
    if (sum->stalled_ms) /* first: a narrow terminal must show it */
        FIGURE("  0 %s/s", p->unit);
    if (!isnan(p->cost))
        FIGURE("  cost %.4g", p->cost);
    for (int i = 0; i < p->n_metrics; i++)
        FIGURE("  %s %.4g", p->metric[i].name, p->metric[i].value);
    if (p->rate >= 0 && !sum->doing && !sum->stalled_ms)
        FIGURE("  %.0f %s/s", p->rate, p->unit);
    if (l->n_restarts)
        FIGURE("  %u restart%s", l->n_restarts, l->n_restarts == 1 ? "" : "s");
#undef FIGURE
    /* A stall that does not fit has a line of its own. */
    if (sum->stalled_ms && strlen(pass) + strlen(percent) + 2 + columns(text) > width) {
        add_text(b, &left, pass);
        add_text(b, &left, percent);
        pd_put_u8(b, '\n');
        left = width;
        add_coloured(l, b, &left, YELLOW, text);
        pd_buf_release(&state);
        return;
    }
    size_t others = strlen(pass) + strlen(percent) + 2 + columns(text) + columns(figures) + 3;
    add_text(b, &left, pass);
    if (p->fraction >= 0)
        add_bar(b, &left, p->fraction, others < width ? width - others : 0);
    add_text(b, &left, percent);
    add_text(b, &left, gap);
    add_coloured(l, b, &left, sum->stalled_ms ? YELLOW : 0, text);
    add_text(b, &left, figures);
    pd_buf_release(&state);
}

static void cell_of(const struct live *l, unsigned i, char *out, size_t cap) {
    const struct trainer_view *t = trainers_at(l->trainers, i);
    char rate[40] = "", why[80] = "";
    if (t->rate >= 0)
        pd_fmt(rate, sizeof rate, " %.0f/s", t->rate);
    if (t->mark == TRAINER_SILENT)
        pd_fmt(why, sizeof why, " silent for %llu s", (unsigned long long)t->silent_ms / 1000);
    else if (t->mark == TRAINER_STALLED)
        pd_fmt(why, sizeof why, ", the others wait for it");
    else if (t->others_wait >= 0)
        pd_fmt(why, sizeof why, ", others wait for it %.0f %% of the time", t->others_wait * 100);
    else if (t->relative_rate >= 0)
        pd_fmt(why, sizeof why, ", %.0f %% of the others' rate", t->relative_rate * 100);
    snprintf(out, cap, "%s%s%s", l->names[i], t->mark == TRAINER_SILENT ? "" : rate, why);
}

/* Sort key for the choice of trainers that are shown; larger is worse. */
static double badness(const struct trainer_view *t) {
    return (double)t->mark * 1e12 + fmax(t->others_wait, 0) * 1e9 - t->rate;
}

/* Choose the trainers to show, in the order of nodes; of too many the worst. */
static unsigned choose_trainers(const struct live *l, unsigned n_known, unsigned *out,
                                unsigned max) {
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) {
        const struct trainer_view *t = trainers_at(l->trainers, i);
        if (!t->known)
            continue;
        if (n_known <= max) {
            out[n++] = i;
            continue;
        }
        unsigned at = n < SLOWEST ? n++ : SLOWEST;
        while (at > 0 && badness(t) > badness(trainers_at(l->trainers, out[at - 1]))) {
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
static int add_nodes(const struct live *l, struct pd_buf *b, const struct trainers_summary *sum,
                     size_t width, size_t rows, unsigned max) {
    unsigned shown[SHOWN_MAX], n = choose_trainers(l, sum->n_known, shown, max);
    char cell[400], head[80] = "";
    size_t left = width, used = 0;
    if (n < sum->n_known || !max)
        pd_fmt(head, sizeof head, "%u of %u slow or silent; slowest:", sum->n_marked, sum->n_known);
    for (unsigned i = 0; i < n; i++) {
        enum trainer_mark mark = trainers_at(l->trainers, shown[i])->mark;
        cell_of(l, shown[i], cell, sizeof cell);
        size_t need = columns(cell) + (left < width ? 2 : 0);
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
        add_coloured(l, b, &left,
                     mark == TRAINER_WELL     ? 0
                     : mark == TRAINER_SILENT ? RED
                                              : YELLOW,
                     cell);
    }
    return 0;
}

static void draw(struct live *l) {
    struct trainers_summary sum;
    struct pd_buf b = {0};
    size_t width = (size_t)view_width(l->view) - 1, height = (size_t)view_height(l->view);
    if (trainers_look(l->trainers, uv_now(l->loop), &sum)) {
        add_first_line(l, &b, &sum, width);
        size_t rows = height < 8 ? 0 : height / 4 < ROWS_MAX ? height / 4 : ROWS_MAX, first = b.len;
        if (sum.n_known > 1 && rows && add_nodes(l, &b, &sum, width, rows, SHOWN_MAX)) {
            b.len = first;
            /* show only the slowest */
            add_nodes(l, &b, &sum, width, rows, 0);
        }
    }
    if (*l->note) {
        if (b.len)
            pd_put_u8(&b, '\n');
        add_coloured(l, &b, &width, BOLD, l->note);
    }
    if (!b.failed)
        view_live(l->view, (const char *)b.data, b.len);
    pd_buf_release(&b);
}

/* --- a pipe --- */

static void put_line(struct live *l, struct pd_buf *b) {
    pd_put_u8(b, '\n');
    if (!b->failed)
        view_put(l->view, b->data, b->len);
    pd_buf_release(b);
}

/* Print "progress | pass 1/2 41 %, batch 300, cost 4.1, 12300 words/s, slow: gpu-03". */
static void print_progress(struct live *l, const struct trainers_summary *sum) {
    char text[300];
    struct pd_buf b = {0};
    l->pipe_ms = uv_now(l->loop);
    l->pipe_stalled_ms = 0;
    progress_text(&sum->p, text, sizeof text);
    pd_put_fmt(&b, "progress | %s%s%s", text, sum->doing ? ", " : "", sum->doing ? sum->doing : "");
    const char *before = ", slow: ";
    for (unsigned i = 0, n = 0; i < l->n && n < SLOWEST; i++)
        if (trainers_at(l->trainers, i)->mark != TRAINER_WELL) {
            pd_put_fmt(&b, "%s%s", before, l->names[i]);
            before = ", ";
            n++;
        }
    put_line(l, &b);
}

/* Print "progress | stalled 12 s, waiting for gpu-03". */
static void print_stall(struct live *l, const struct trainers_summary *sum) {
    struct pd_buf b = {0};
    l->pipe_stalled_ms = sum->stalled_ms;
    pd_put_fmt(&b, "progress | ");
    put_stall(l, sum, &b);
    put_line(l, &b);
}

/* A stall has a line when it begins, and each time that it has become twice as long. */
static void print_line(struct live *l, int has_event) {
    struct trainers_summary sum;
    if (view_backlog(l->view) > VIEW_ROOM || !trainers_look(l->trainers, uv_now(l->loop), &sum))
        return;
    if (sum.stalled_ms && sum.stalled_ms >= 2 * l->pipe_stalled_ms)
        print_stall(l, &sum);
    else if (!sum.stalled_ms && has_event &&
             (!l->pipe_ms || uv_now(l->loop) - l->pipe_ms >= PIPE_PROGRESS_MS))
        print_progress(l, &sum);
}

/* --- the clock --- */

static void on_tick(uv_timer_t *t) {
    struct live *l = t->data;
    if (l->is_drawn)
        draw(l);
    else
        print_line(l, 0);
    uv_timer_start(t, on_tick, REFRESH_MS, 0);
}

static void draw_soon(struct live *l) {
    if (!uv_is_active((uv_handle_t *)&l->tick) || uv_timer_get_due_in(&l->tick) > DRAW_MS)
        uv_timer_start(&l->tick, on_tick, DRAW_MS, 0);
}

static void on_winch(uv_signal_t *s, int signum) {
    (void)signum;
    draw_soon(s->data);
}

/* --- from outside --- */

void live_event(struct live *l, unsigned node, const char *json, size_t n) {
    if (l->closed || !trainers_event(l->trainers, node, json, n, uv_now(l->loop)))
        return;
    if (l->is_drawn)
        draw_soon(l);
    else
        print_line(l, 1);
    if (!uv_is_active((uv_handle_t *)&l->tick))
        uv_timer_start(&l->tick, on_tick, REFRESH_MS, 0);
}

void live_redraw(struct live *l) {
    if (l->is_drawn && !l->closed)
        draw_soon(l);
}

void live_note(struct live *l, const char *note) {
    pd_fmt(l->note, sizeof l->note, "%s", note);
    live_redraw(l);
}

void live_remove_trainer(struct live *l, unsigned node) { trainers_remove(l->trainers, node); }

void live_state(struct live *l, const char *state) {
    int restarting = !strcmp(state, "restarting");
    l->n_restarts += restarting && !l->was_restarting;
    l->was_restarting = restarting;
    if (l->is_drawn && !l->closed)
        draw_soon(l);
}

int live_new(struct live **out, uv_loop_t *loop, struct view *v, const char *const *names,
             unsigned n_nodes, struct pd_err *err) {
    struct live *l = pd_calloc(1, sizeof *l);
    if (!l)
        return pd_oom(err, "the live view");
    int rc = trainers_new(&l->trainers, n_nodes, err);
    if (rc) {
        free(l);
        return rc;
    }
    l->loop = loop;
    l->view = v;
    l->names = names;
    l->n = n_nodes;
    l->is_drawn = view_is_live(v);
    uv_timer_init(loop, &l->tick);
    uv_signal_init(loop, &l->winch);
    l->tick.data = l->winch.data = l;
    if (l->is_drawn)
        uv_signal_start(&l->winch, on_winch, SIGWINCH);
    *out = l;
    return 0;
}

void live_close(struct live *l) {
    struct trainers_summary sum;
    char text[300], line[320];
    if (l->closed)
        return;
    l->closed = 1;
    uv_close((uv_handle_t *)&l->tick, NULL);
    uv_close((uv_handle_t *)&l->winch, NULL);
    if (!l->is_drawn)
        return;
    view_live(l->view, "", 0);
    if (trainers_look(l->trainers, uv_now(l->loop), &sum)) {
        progress_text(&sum.p, text, sizeof text);
        view_put(l->view, line, (size_t)snprintf(line, sizeof line, "%s\n", text));
    }
}

void live_free(struct live *l) {
    if (l)
        trainers_free(l->trainers);
    free(l);
}
