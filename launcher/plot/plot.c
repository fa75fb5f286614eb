/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - see plot.h. */
#include "launcher/plot/plot.h"

#include "launcher/plot/axis.h"
#include "launcher/plot/canvas.h"
#include "launcher/text/term.h"

enum { LEAST_COLUMNS = 8, LEAST_ROWS = 2, LINES_A_TICK = 3, COLUMNS_A_TICK = 8 };

struct frame {
    struct axis x, y;
    struct canvas canvas;
    int margin; /* columns left of the axis */
    const char *corner, *line, *tick_x, *tick_y, *side;
};

static void bounds(const struct plot_curve *v, size_t n, double b[4]) {
    int any = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < v[i].n; k++) {
            const struct plot_point p = v[i].v[k];
            b[0] = any ? fmin(b[0], p.x) : p.x;
            b[1] = any ? fmax(b[1], p.x) : p.x;
            b[2] = any ? fmin(b[2], p.y) : p.y;
            b[3] = any ? fmax(b[3], p.y) : p.y;
            any = 1;
        }
}

static void draw_curve(struct frame *f, const struct plot_curve *curve, unsigned i, int lettered) {
    const int w = f->canvas.columns * CANVAS_X, h = f->canvas.rows * CANVAS_Y;
    int x0 = 0, y0 = 0;
    for (size_t k = 0; k < curve->n; k++) {
        const int x = axis_dot(&f->x, curve->v[k].x, w),
                  y = h - 1 - axis_dot(&f->y, curve->v[k].y, h);
        canvas_line(&f->canvas, k ? x0 : x, k ? y0 : y, x, y, i);
        x0 = x;
        y0 = y;
    }
    if (lettered && curve->n) /* at its end, which says the most */
        canvas_letter(&f->canvas, x0, y0, i);
}

static void put_text(struct pd_buf *out, const char *s, int columns) {
    pd_put(out, s, term_fit(s, strlen(s), columns > 0 ? (size_t)columns : 0));
}

static void put_rows(const struct frame *f, struct pd_buf *out) {
    const struct canvas *c = &f->canvas;
    for (int row = 0; row < c->rows; row++) {
        const char *text = NULL;
        for (size_t k = 0; k < f->y.n; k++) {
            const int h = c->rows * CANVAS_Y;
            if ((h - 1 - axis_dot(&f->y, f->y.at[k], h)) / CANVAS_Y == row)
                text = f->y.text[k];
        }
        pd_put_fmt(out, "%*s %s", f->margin - 1, text ? text : "", text ? f->tick_y : f->side);
        canvas_put_row(c, row, out);
        pd_put_u8(out, '\n');
    }
}

/* The numbers below the axis, as far as they do not touch. */
static void put_x_axis(const struct frame *f, struct pd_buf *out) {
    const int w = f->canvas.columns;
    char line[2048] = "";
    int used = 0;
    pd_put_fmt(out, "%*s%s", f->margin, "", f->corner);
    for (int i = 0; i < w; i++) {
        int is = 0;
        for (size_t k = 0; k < f->x.n; k++)
            is |= axis_dot(&f->x, f->x.at[k], w * CANVAS_X) / CANVAS_X == i;
        pd_put_fmt(out, "%s", is ? f->tick_x : f->line);
    }
    pd_put_u8(out, '\n');
    const int whole = w < (int)sizeof line - 1 ? w : (int)sizeof line - 1;
    memset(line, ' ', (size_t)whole);
    for (size_t k = 0; k < f->x.n; k++) {
        const int len = (int)strlen(f->x.text[k]);
        int at = axis_dot(&f->x, f->x.at[k], w * CANVAS_X) / CANVAS_X - (len - 1) / 2;
        at = at < 0 ? 0 : at;
        if (at + len > whole || (used && at <= used))
            continue;
        memcpy(line + at, f->x.text[k], (size_t)len);
        used = at + len;
    }
    pd_put_fmt(out, "%*s %.*s\n", f->margin, "", used, line);
}

static void put_legend(const struct frame *f, const struct plot_curve *v, size_t n,
                       const struct plot_style *s, struct pd_buf *out) {
    for (size_t i = 0; i < n; i++) {
        char last[40] = "no values";
        if (v[i].n)
            snprintf(last, sizeof last, "%.6g", v[i].v[v[i].n - 1].y);
        const char *colour = canvas_colour(&f->canvas, (unsigned)i);
        pd_put_fmt(out, "%s%c%s  ", colour, n > 1 ? canvas_letter_of((unsigned)i) : ' ',
                   *colour ? "\033[m" : "");
        const int left = s->width - 5 - (int)strlen(last);
        put_text(out, v[i].label, left);
        pd_put_fmt(out, "  %s\n", last);
    }
}

static int margin_of(const struct axis *a) {
    size_t w = 0;
    for (size_t k = 0; k < a->n; k++)
        w = strlen(a->text[k]) > w ? strlen(a->text[k]) : w;
    return (int)w + 1;
}

int plot_draw(struct pd_buf *out, const struct plot_curve *v, size_t n,
              const struct plot_style *s) {
    double b[4] = {0, 1, 0, 1};
    struct frame f = {.corner = "+", .line = "-", .tick_x = "+", .tick_y = "+", .side = "|"};
    if (s->utf8) {
        f.corner = "└";
        f.line = "─";
        f.tick_x = "┬";
        f.tick_y = "┤";
        f.side = "│";
    }
    int rows = s->height - 3 - (int)n; /* title, axis, its numbers, legend */
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
    bounds(v, n, b);
    axis_init(&f.y, b[2], b[3], (size_t)(rows / LINES_A_TICK + 2));
    f.margin = margin_of(&f.y);
    int columns = s->width - f.margin - 1;
    columns = columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns;
    const int ticks = columns / COLUMNS_A_TICK;
    axis_init(&f.x, b[0], b[1], (size_t)(ticks < 2 ? 2 : ticks > 20 ? 20 : ticks));
    if (canvas_init(&f.canvas, columns, rows))
        return PD_ENOMEM;
    f.canvas.utf8 = s->utf8;
    f.canvas.colour = s->colour;
    f.canvas.letters = n > 1;
    for (size_t i = 0; i < n; i++)
        draw_curve(&f, &v[i], (unsigned)i, 0);
    for (size_t i = 0; i < n && n > 1; i++) { /* letters stay above lines */
        const struct plot_curve end = {v[i].label, v[i].n ? &v[i].v[v[i].n - 1] : NULL,
                                       v[i].n ? 1 : 0};
        draw_curve(&f, &end, (unsigned)i, 1);
    }
    pd_put_fmt(out, "%*s", f.margin, "");
    char title[200];
    snprintf(title, sizeof title, "%.150s by %.40s", s->title, s->x_title);
    put_text(out, title, s->width - f.margin);
    pd_put_u8(out, '\n');
    put_rows(&f, out);
    put_x_axis(&f, out);
    put_legend(&f, v, n, s, out);
    canvas_release(&f.canvas);
    return out->failed ? PD_ENOMEM : 0;
}
