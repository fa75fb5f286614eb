/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.h - dots in the cells of a terminal: 2 x 4 in a cell, as braille characters
 *
 *     0 3     U+2800 + the sum of 1 << (number of a dot)
 *     1 4     Without UTF-8 a cell with one curve shows ' . or :, with several the letter
 *     2 5     of the curve that was drawn last.
 *     6 7
 */
#pragma once

enum { CANVAS_X = 2, CANVAS_Y = 4, CANVAS_COLOURS = 6 };

struct canvas_cell {
    uint8_t dots;
    char letter;   /* shown in place of the dots; 0: none */
    uint8_t curve; /* drawn last, from 0 */
};

struct canvas {
    int columns, rows;
    int utf8, colour, letters; /* letters: without UTF-8, cells show the curve's letter */
    struct canvas_cell *cell;
};

int canvas_init(struct canvas *c, int columns, int rows); /* 0 or PD_ENOMEM */
void canvas_release(struct canvas *c);
/* A line between two dots, (0, 0) is at the top left; dots outside of the canvas are left out. */
void canvas_line(struct canvas *c, int x0, int y0, int x1, int y1, unsigned curve);
/* The letter of a curve, in the cell of a dot. */
void canvas_letter(struct canvas *c, int x, int y, unsigned curve);
char canvas_letter_of(unsigned curve); /* a, b, c, ... */
/* The colour of a curve, "\033[..m"; "" without colours. */
const char *canvas_colour(const struct canvas *c, unsigned curve);
void canvas_put_row(const struct canvas *c, int row, struct pd_buf *out);
