/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.c - see canvas.h. */
#include "launcher/plot/canvas.h"

int canvas_init(struct canvas *c, int columns, int rows) {
    *c = (struct canvas){.columns = columns, .rows = rows};
    c->cell = pd_calloc((size_t)columns * (size_t)rows, sizeof *c->cell);
    return c->cell ? 0 : PD_ENOMEM;
}

void canvas_release(struct canvas *c) { free(c->cell); }

char canvas_letter_of(unsigned curve) { return (char)('a' + curve % 26); }

static struct canvas_cell *cell_at(struct canvas *c, int x, int y) {
    return x < 0 || y < 0 || x >= c->columns * CANVAS_X || y >= c->rows * CANVAS_Y
               ? NULL
               : &c->cell[y / CANVAS_Y * c->columns + x / CANVAS_X];
}

static void dot(struct canvas *c, int x, int y, unsigned curve) {
    static const uint8_t bit[CANVAS_Y][CANVAS_X] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
    struct canvas_cell *cell = cell_at(c, x, y);
    if (!cell)
        return;
    cell->dots |= (uint8_t)(1 << bit[y % CANVAS_Y][x % CANVAS_X]);
    cell->curve = (uint8_t)curve;
}

/* The longer side has a dot at each step; the other one is rounded to the nearest. */
void canvas_line(struct canvas *c, int x0, int y0, int x1, int y1, unsigned curve) {
    const int dx = x1 - x0, dy = y1 - y0;
    const int n = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
    for (int i = 0; i <= n; i++)
        dot(c, n ? x0 + (int)lround((double)dx * i / n) : x0,
            n ? y0 + (int)lround((double)dy * i / n) : y0, curve);
}

void canvas_letter(struct canvas *c, int x, int y, unsigned curve) {
    struct canvas_cell *cell = cell_at(c, x, y);
    if (!cell)
        return;
    cell->letter = canvas_letter_of(curve);
    cell->curve = (uint8_t)curve;
}

const char *canvas_colour(const struct canvas *c, unsigned curve) {
    static const char *const colours[CANVAS_COLOURS] = {"\033[36m", "\033[33m", "\033[35m",
                                                        "\033[32m", "\033[34m", "\033[31m"};
    return c->colour ? colours[curve % CANVAS_COLOURS] : "";
}

static void put_cell(const struct canvas *c, const struct canvas_cell *cell, struct pd_buf *out) {
    enum { UPPER = 1 | 2 | 8 | 16 };
    if (cell->letter)
        pd_put_u8(out, (uint8_t)cell->letter);
    else if (!cell->dots)
        pd_put_u8(out, ' ');
    else if (c->utf8) /* U+2800 + dots */
        pd_put(out,
               (const uint8_t[]){0xe2, (uint8_t)(0xa0 | cell->dots >> 6),
                                 (uint8_t)(0x80 | (cell->dots & 0x3f))},
               3);
    else if (c->letters)
        pd_put_u8(out, (uint8_t)canvas_letter_of(cell->curve));
    else
        pd_put_u8(out, !(cell->dots & ~UPPER) ? '\'' : !(cell->dots & UPPER) ? '.' : ':');
}

void canvas_put_row(const struct canvas *c, int row, struct pd_buf *out) {
    const struct canvas_cell *v = &c->cell[row * c->columns];
    int end = c->columns, colour = -1;
    while (end && !v[end - 1].dots && !v[end - 1].letter)
        end--;
    for (int i = 0; i < end; i++) {
        if (c->colour && (v[i].dots || v[i].letter) && v[i].curve != colour) {
            colour = v[i].curve;
            pd_put_fmt(out, "%s", canvas_colour(c, (unsigned)colour));
        }
        put_cell(c, &v[i], out);
    }
    if (colour >= 0)
        pd_put_fmt(out, "\033[m");
}
