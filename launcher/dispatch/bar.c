/* SPDX-License-Identifier: Apache-2.0 */
/* bar.c - see bar.h. */
#include "launcher/dispatch/bar.h"

#include "launcher/text/term.h"

enum {
    NARROW = 60,
    LIVE_MS = 100,
    LINE_MS = 5000,
    FIRST_LINE_MS = 3000,
    OBJECT_MS = 1000,
    TELL_MS = 1000
};

const char *bar_bytes(uint64_t n, char out[24]) {
    if (n >= 1000000000)
        snprintf(out, 24, "%.1f GB", (double)n / 1e9);
    else if (n >= 1000000)
        snprintf(out, 24, "%.1f MB", (double)n / 1e6);
    else if (n >= 10000)
        snprintf(out, 24, "%.0f kB", (double)n / 1e3);
    else
        snprintf(out, 24, "%llu bytes", (unsigned long long)n);
    return out;
}

static const char *duration(uint64_t s, char out[24]) {
    if (s >= 5400)
        snprintf(out, 24, "%llu h", (unsigned long long)(s + 1800) / 3600);
    else if (s >= 90)
        snprintf(out, 24, "%llu min", (unsigned long long)(s + 30) / 60);
    else
        snprintf(out, 24, "%llu s", (unsigned long long)s);
    return out;
}

void bar_init(struct bar *b, struct view *view, void (*object)(void *arg, json_t *o), void *arg,
              uint64_t now_ms) {
    *b = (struct bar){
        .view = view, .object = object, .arg = arg, .began_ms = now_ms, .shown_ms = now_ms};
}

static void put_bar(struct pd_buf *b, double part, int cells) {
    int full = (int)(part * cells);
    pd_put_u8(b, '[');
    for (int i = 0; i < cells; i++)
        pd_put_u8(b, i < full ? '=' : i == full ? '>' : '-');
    pd_put_fmt(b, "] %3d %%  ", (int)(part * 100));
}

/* width 0: no terminal. */
static void put_line(struct pd_buf *b, const char *what, const struct dispatch_progress *p,
                     int width) {
    const int cells = width > 100 ? 30 : width > 70 ? width - 70 : 0;
    char x[24], y[24];
    if (!p->of && p->scanning && p->to_scan) {
        pd_put_fmt(b, "reading the workspace: %s of %s", bar_bytes(p->scanned, x),
                   bar_bytes(p->to_scan, y));
        return;
    }
    double part = p->most ? (double)p->least / (double)p->most : 0;
    part = part > 1 ? 1 : part;
    pd_put_fmt(b, "%s ", what);
    if (cells > 0)
        put_bar(b, part, cells);
    if (width && width < NARROW)
        pd_put_fmt(b, "%3d %%", (int)(part * 100));
    else
        pd_put_fmt(b, "%s of %s  %d of %d node%s", bar_bytes(p->least, x), bar_bytes(p->most, y),
                   p->n_done, p->n_nodes, p->n_nodes == 1 ? "" : "s");
    if (p->rate)
        pd_put_fmt(b, "  %s/s  ETA %s", bar_bytes(p->rate, x),
                   duration((p->most - p->least) / p->rate + 1, y));
    if (p->n_bypassed)
        pd_put_fmt(b, "  %d bypassed", p->n_bypassed);
}

static json_t *as_object(const char *event, const struct dispatch_progress *p, uint64_t ms) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:i, s:i, s:I}", "event", event,
                     "have", (json_int_t)p->least, "of", (json_int_t)p->most, "here",
                     (json_int_t)p->here, "rest", (json_int_t)p->rest, "nodes", p->n_nodes, "done",
                     p->n_done, "rate", (json_int_t)p->rate, "sent", (json_int_t)p->sent,
                     "bypassed", p->n_bypassed, "direct", p->n_direct, "ms", (json_int_t)ms);
}

void bar_wipe(struct bar *b) {
    if (b->is_shown)
        view_live(b->view, "", 0);
    b->is_shown = 0;
}

void bar_note(struct bar *b, const char *text, uint64_t until_ms) {
    snprintf(b->note, sizeof b->note, "%s", text);
    b->note_until_ms = until_ms;
}

void bar_update(struct bar *b, const struct dispatch *d, uint64_t now_ms) {
    struct dispatch_progress p;
    dispatch_get_progress(d, &p);
    bar_show(b, "dispatch", &p, now_ms);
}

void bar_show(struct bar *b, const char *what, const struct dispatch_progress *p, uint64_t now_ms) {
    struct pd_buf text = {0};
    int live = b->view && !b->object && view_is_live(b->view);
    uint64_t every = b->object ? OBJECT_MS : live ? LIVE_MS : b->n_lines ? LINE_MS : FIRST_LINE_MS;
    if (now_ms - b->shown_ms < every)
        return;
    b->shown_ms = now_ms;
    if (p->n_done == p->n_nodes && !p->scanning)
        return;
    if (b->object) {
        b->object(b->arg, as_object(what, p, now_ms - b->began_ms));
        return;
    }
    if (!b->view)
        return;
    int width = live ? view_width(b->view) - 1 : 0;
    put_line(&text, what, p, width);
    if (text.failed) {
        pd_buf_release(&text);
        return;
    }
    if (live) {
        text.len = term_fit((char *)text.data, text.len, (size_t)width);
        if (*b->note && now_ms < b->note_until_ms)
            pd_put_fmt(&text, "\n%.*s", (int)term_fit(b->note, strlen(b->note), (size_t)width),
                       b->note);
        view_live(b->view, (char *)text.data, text.len);
        b->is_shown = 1;
    } else {
        view_printf(b->view, "%.*s", (int)text.len, (char *)text.data);
    }
    b->n_lines++;
    pd_buf_release(&text);
}

void bar_end(struct bar *b, const struct dispatch *d, uint64_t now_ms) {
    struct dispatch_progress p;
    char x[24], y[24], z[24];
    dispatch_get_progress(d, &p);
    if (b->object) {
        b->object(b->arg, as_object("dispatched", &p, now_ms - b->began_ms));
        return;
    }
    if (!b->view)
        return;
    bar_wipe(b);
    if (!p.n_done && p.sent)
        view_printf(b->view, "the dispatch was interrupted; what has arrived is not sent again");
    else if (p.n_done && p.of && (p.rest || b->n_lines || now_ms - b->began_ms >= TELL_MS))
        view_printf(b->view, "dispatched %s to %d node%s in %.1f s; %s sent from here%s%s%s",
                    bar_bytes(p.most, x), p.n_done, p.n_done == 1 ? "" : "s",
                    (double)(now_ms - b->began_ms) / 1000, bar_bytes(p.sent, y),
                    p.rest ? "; an interrupted transfer had left " : "",
                    p.rest ? bar_bytes(p.rest, z) : "", p.rest ? " there" : "");
}
