/* SPDX-License-Identifier: Apache-2.0 */
/* charts.h - the pictures of runs: one for each metric that has values. */
#pragma once

#include "launcher/plot/curves.h"

enum { CHARTS_HEIGHT = 15 };

/* Zeros: nothing. */
struct charts {
    const char *metric[CURVES_METRICS]; /* borrowed */
    size_t n_metrics;
    const char *x; /* "pass", "time" or NULL: pass, if all events have one */
    int ascii;
    size_t n;
    struct chart_run {
        char dir[PATH_MAX], label[200];
        struct curves *curves;
    } v[PLOT_CURVES];
};

/* Adds the run with this record; the metrics are set. */
int charts_add(struct charts *c, const char *dir, const char *label, struct pd_err *err);
void charts_release(struct charts *c);
/* As curves_read, for all runs. */
int charts_read(struct charts *c, int *more, struct pd_err *err);
/* Says on standard error what is wrong with the records. */
void charts_warn(const struct charts *c);
int charts_has_values(struct charts *c, size_t metric);
/* Appends the pictures, in the width of stdout's terminal or COLUMNS. lines: as many pictures as
 * fit into so many, at least one; 0: no limit. */
int charts_draw(struct charts *c, int lines, struct pd_buf *out, struct pd_err *err);
