/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the page of `paddlectl report`: one HTML file that needs no other.
 *
 *     run.json, metrics.jsonl, train.ini ──> report_data.c ──> JSON ──> report_page.c ──> HTML
 *                                            report_series.c: fewer points, as columns
 *
 * The page has the charts' library (dygraphs), page.css and page.js of this folder, and the JSON.
 */
#pragma once

#include "launcher/record/record.h"

/* --- numbers of events as columns --- */

/* The events of one kind and one process: "progress" of trainer 1. */
struct report_series;
struct report_many {
    struct report_series **v;
    size_t n, cap;
    /* Beyond the limits, and not shown: events of further processes, values of further keys. */
    size_t n_lost_events, n_lost_values;
    char lost_key[128]; /* the first such key */
};

/* The length of `s`, or of its first whole characters in at most `max` bytes. */
size_t report_cut(const char *s, size_t max);
/* 1: the event's numbers are a series: progress, pass, test, serving. */
int report_is_series(const char *ev);
/* A point of a series stands for one event or for several events in a row. It has the mean of
 * progress, and the last of others. */
int report_series_add(struct report_many *m, const json_t *event);
/* Most points of a series: of those of rank 0, and of the others. */
struct report_points {
    size_t chief, others;
};
/* An array of {"ev", "rank", "node", "host", "every", "cols": {KEY: [number or null, ...]}},
 * `every`: events of a point. `t` is in milliseconds since t0. NULL: no memory. */
json_t *report_series_json(const struct report_many *m, json_int_t t0, struct report_points max);
/* Which process a series is of; `host` is valid as long as the series. */
struct report_who {
    const char *ev, *host;
    json_int_t rank;
};
struct report_who report_series_who(const struct report_series *s);
/* The last value of the i-th column and its key, for example "cost" or "metrics.auc". 0: there are
 * fewer columns. */
int report_series_last(const struct report_series *s, size_t i, const char **key, double *value);
void report_series_release(struct report_many *m);

/* --- the data of a job --- */

struct report_job {
    char dir[PATH_MAX];
    json_t *run, *settings, *notes;
    struct report_many many;
    json_t *marks; /* events that are no series; `t` in milliseconds since 1970 */
    json_t *graph; /* the network, or NULL */
    json_int_t first_ms;
    size_t n_marks, n_lost, n_restarts; /* events that are no series; hosts; restarts */
    struct record_place place;          /* metrics.jsonl has been read until here */
    struct timespec run_time;           /* of run.json as it has been read */
    int no_memory;
};

/* Reads the record in `dir`. A part that cannot be read becomes a note. Only PD_ENOMEM. */
int report_job_read(struct report_job *j, const char *dir, struct pd_err *err);
/* Reads what is new in the record. *changed: 1 if anything is. */
int report_job_update(struct report_job *j, int *changed, struct pd_err *err);
/* The job as the page has it: a new reference. `state` is that of `paddlectl runs`, or NULL: as
 * run.json has it. NULL: no memory. */
json_t *report_job_json(const struct report_job *j, const char *state, struct report_points max,
                        struct pd_err *err);
void report_job_release(struct report_job *j);

/* As record_settings, without the values of environments and commands: they may be secrets. */
int report_settings(json_t *into, const char *dir, const json_t *run, struct pd_err *err);

/* --- the page --- */

/* The data of the page: {"paddlectl": version, "made_ms", "live", "jobs": [...], "notes": [...]},
 * with few digits. `live`: the page asks for "data" again. NULL: no memory; the caller frees the
 * text. */
char *report_data_text(const json_t *data);
/* Appends the page with this data in it. is_live: it may ask its server for more. */
int report_page(struct pd_buf *out, const char *data, int is_live, struct pd_err *err);
