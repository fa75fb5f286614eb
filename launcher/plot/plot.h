/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h - curves over one axis, as lines of text:
 *
 *         cost by pass
 *     2.0 ┤⠑⢄
 *     1.0 ┤  ⠑⠒⠤⠤⠤a
 *         └┬──────┬
 *          0      1
 *     a  JOB...  0.93
 *
 * With several curves, a letter is at the end of each. */
#pragma once

struct plot_point {
    double x, y; /* finite; the order of x is that of the line */
};

struct plot_curve {
    const char *label; /* for the legend */
    const struct plot_point *v;
    size_t n;
};

struct plot_style {
    int width, height; /* of the whole picture, in columns and lines */
    int utf8, colour;
    const char *title, *x_title;
};

enum { PLOT_CURVES = 26, PLOT_LEAST_HEIGHT = 5 };

/* Appends the lines of the picture; each ends with a newline. The legend has a line for each curve,
 * also for those without a point, and is part of the height as far as it fits. 0 or PD_ENOMEM. */
int plot_draw(struct pd_buf *out, const struct plot_curve *v, size_t n, const struct plot_style *s);
