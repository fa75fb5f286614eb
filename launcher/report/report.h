/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the page of `paddlectl report`: one HTML file that needs no other.
 *
 *     record.json, metrics.jsonl, train.ini ──> report_data.c ──> JSON ──> report_page.c ──> HTML
 *                                               report_series.c: fewer points, as columns
 *
 * The page has the charts' library (dygraphs), page.css and page.js of this folder, and the JSON.
 */
#pragma once

#include <jansson.h>

/* --- numbers of events as columns --- */

/* The events of one kind and one process: "progress" of trainer 1. */
struct report_series;
struct report_many {
    struct report_series **v;
    size_t n, cap;
};

/* 1: the event's numbers are a series: progress, pass, test. */
int report_series_takes(const char *ev);
/* First every event is counted, then every event is added. Each series gets at most `max` points:
 * a point stands for several events in a row, and has the mean of progress, the last of others. */
int report_series_count(struct report_many *m, const json_t *event);
int report_series_add(struct report_many *m, const json_t *event, json_int_t t0, size_t max);
/* An array of {"ev", "rank", "node", "host", "every", "cols": {KEY: [number or null, ...]}}. NULL:
 * no memory. `t` is in milliseconds since t0. */
json_t *report_series_json(struct report_many *m);
void report_series_release(struct report_many *m);

/* --- the data of a job --- */

struct report_job {
    char dir[PATH_MAX];
    const char *state; /* that of `paddlectl runs`, or NULL: as run.json has it */
    struct report_many many;
    json_t *out; /* of report_job_finish */
    json_t *notes;
    json_int_t first_ms;
    uint64_t n_events;
};

/* Reads the record in `dir`, and counts. What cannot be read becomes a note. Only PD_ENOMEM. */
int report_job_read(struct report_job *j, const char *dir, const char *state, struct pd_err *err);
/* Makes j->out, with at most max_points points for each series. */
int report_job_finish(struct report_job *j, size_t max_points, struct pd_err *err);
void report_job_release(struct report_job *j);

/* Adds settings to `into`: "SECTION.KEY" -> value, those of train.ini and over them those of
 * conf.ini and the command line. Values of [env] are left out: they may be secrets. */
int report_settings(json_t *into, const char *dir, const json_t *run, struct pd_err *err);

/* --- the page --- */

/* Appends the page. {"version", "jobs": [...], "notes": [...]} */
int report_page(struct pd_buf *out, const json_t *data, struct pd_err *err);
