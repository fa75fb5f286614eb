/* SPDX-License-Identifier: Apache-2.0 */
/* curves.h - the values of metrics in the record of a run, also while it is written. */
#pragma once

#include "launcher/plot/plot.h"
#include "launcher/record/record.h"

/* A metric: cost, rate, wait, an evaluator over the training data, test.cost, test.NAME; or "test":
 * the value of a test by which passes are judged. */
enum { CURVES_METRICS = 8 };

struct curves;
/* `dir`: the folder of the record; dir and metrics stay in use. */
int curves_new(struct curves **out, const char *dir, const char *const *metrics, size_t n,
               struct pd_err *err);
void curves_free(struct curves *c);
/* Takes what has been added to metrics.jsonl since the last call. *more: 1 if there was something.
 * No such file is no error. */
int curves_read(struct curves *c, int *more, struct pd_err *err);
/* As record_damage, for what has been read. */
void curves_damage(const struct curves *c, void (*say)(void *arg, const char *text), void *arg);
/* 1: all points have a position in passes. */
int curves_have_passes(const struct curves *c);
/* The points of metrics[i] in the order of time: x in passes, or in seconds since the first event.
 * They are valid until the next call for this metric. NULL: no memory. */
const struct plot_point *curves_points(struct curves *c, size_t i, int by_pass, size_t *n);
/* The name of the value by which passes are judged; "": no test yet. */
const char *curves_judge(const struct curves *c);
/* The names of all metrics that were seen, as keys. */
const json_t *curves_known(const struct curves *c);
