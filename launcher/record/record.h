/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - the record of a run: its settings, hosts and results (docs/records.md).
 *
 *     outputs/<job id>/run.json         settings, hosts, times, state, result
 *                      metrics.jsonl    one event a line
 *                      conf.ini, train.ini   as they were
 *
 * The paddlectl that runs the job, or follows it, writes the record and holds a lock on the
 * folder meanwhile. A record that cannot be written is a warning, and the job goes on: the
 * nodes keep the events, and `paddlectl fetch --log` completes the record. */
#pragma once

#include <jansson.h>

enum { RECORD_VERSION = 1, RECORD_MODE = 0644 };

struct record;

/* Creates the folder `dir` and the record in it. `run` is stolen: the members of run.json.
 * PD_EEXIST: another process writes this record. */
int record_new(struct record **out, const char *dir, json_t *run, struct pd_err *err);
/* Continues the record that is in `dir`. PD_ENOENT: there is none; PD_EEXIST as above. */
int record_open(struct record **out, const char *dir, struct pd_err *err);
/* Writes one of the files that were used. */
void record_file(struct record *r, const char *name, const void *p, size_t n, mode_t mode);
/* Writes an event of a node: a line of its stream "events" (docs/protocol.md), n bytes. Events that
 * repeat earlier ones are left out (record_keeps). `r` may be NULL in these two. */
void record_event(struct record *r, int node, const char *host, const char *json, size_t n);
/* Writes an event of paddlectl itself, without the time. `o` is stolen. */
void record_note(struct record *r, json_t *o);
/* Adds the members of `more` (stolen) to run.json, releases `r`, and returns the first error of the
 * record. */
int record_end(struct record *r, json_t *more, struct pd_err *err);

/* Reads run.json into *run, which the caller releases. PD_ENOENT: `dir` has no record. PD_EDATA: it
 * is damaged, or of another version. */
int record_read_run(const char *dir, json_t **run, struct pd_err *err);
/* Adds the settings of the run to `into`: "SECTION.KEY", as for --set, -> value. They are those of
 * train.ini in `dir`, and over them those of conf.ini and the command line (`run`: run.json). A
 * record without train.ini has none of its settings. */
int record_settings(json_t *into, const char *dir, const json_t *run, struct pd_err *err);
/* Calls `on_event` for each event of metrics.jsonl that can be read. */
int record_read_metrics(const char *dir, void (*on_event)(void *arg, json_t *event), void *arg,
                        struct pd_err *err);
/* A place in metrics.jsonl, and what the lines before it were; zeros: its beginning. */
struct record_place {
    uint64_t at, inode;
    uint64_t n_lines, n_bad; /* complete lines; those of them that cannot be read */
    int64_t version;         /* that the file names; 0: none yet */
};
/* 1, and *p is the beginning: metrics.jsonl is no longer the file that was read until *p. */
int record_changed(const char *dir, struct record_place *p);
/* As record_read_metrics, from *p on, which becomes the end of the last complete line. */
int record_read_more(const char *dir, struct record_place *p,
                     void (*on_event)(void *arg, json_t *event), void *arg, struct pd_err *err);
/* Calls `say` for each thing that is wrong with metrics.jsonl, which was read until *p. */
void record_damage(const char *dir, const struct record_place *p,
                   void (*say)(void *arg, const char *text), void *arg);
int record_is_written(const char *dir); /* 1: a process writes this record now */

/* The progress of each node in the record, and what its pserver serves. */
struct record_thin {
    struct record_node {
        struct record_kept {
            int64_t first_ms, last_ms; /* 0: none yet */
        } progress, serving;           /* times of such events that were kept */
        int64_t from_ms;               /* the record that is continued has events until then */
    } * v;
    size_t n, cap;
};
/* 1: the event belongs into the record. Progress has at least a thousandth of the time so far
 * between two lines, and 250 ms: a run of a week has some 10,000 lines a node. Likewise "serving".
 * "doing" is left out. */
int record_keeps(struct record_thin *t, int node, const json_t *event);
void record_thin_release(struct record_thin *t);

/* Makes metrics.jsonl in `dir` anew of the nodes' files dir/log/node-N/events*, and adds the
 * members of `more` (stolen) to run.json. Notes of paddlectl stay. PD_EEXIST as above. */
int record_complete(const char *dir, json_t *more, struct pd_err *err);
