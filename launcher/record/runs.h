/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - the records below a folder of outputs.
 *
 * runs_load gives the figures of all runs, which tables show and sort by. It keeps them in the
 * index OUTPUTS/.runs.index (runs_index.c). The complete record of a run is read when it is asked
 * for: runs_find, run_read. */
#pragma once

#include "launcher/record/record.h"

struct run {
    char job[80];
    /* running: a paddlectl follows the job; done, failed, stopped, lost: it has ended; detached: it
     * goes on without a paddlectl; unknown: the paddlectl of the record ended without a word */
    char state[24];
    int64_t started_ms;
    int64_t n_passes;        /* complete ones */
    struct pd_bytes figures; /* read by run_number, run_text and run_metric */
    void *own;               /* NULL, or the memory of `figures` */
    /* After run_read. */
    json_t *record; /* run.json */
    /* Events, or NULL: the last test, the test of the best pass, the end of trainer 0's last pass.
     */
    json_t *test, *best, *pass;
};

struct runs {
    char outputs[PATH_MAX];
    struct run *v;
    size_t n, cap;
    struct run_bad { /* records that cannot be read */
        char text[500];
    } * bad;
    size_t n_bad, cap_bad;
    struct pd_buf index; /* figures of runs lie in it */
};

/* Finds all records below `outputs`, the newest first. No folder, no runs. */
int runs_load(struct runs *out, const char *outputs, struct pd_err *err);
/* The same without figures of events, which a record that is being written has only in its
 * metrics.jsonl. The time does not grow with the length of this file. It writes no index. */
int runs_list(struct runs *out, const char *outputs, struct pd_err *err);
void runs_release(struct runs *r);
/* The run whose id is `want`, or the only one whose id ends with it or whose name it is; "latest":
 * the newest. Its record has been read. */
int runs_find(const struct runs *r, const char *want, const struct run **out, struct pd_err *err);
/* Reads the record of v[i], if it has not been read. */
int run_read(const struct runs *r, size_t i, struct pd_err *err);
/* The pass of an event, counted from 1; 0: it is of no pass. */
int64_t run_pass(const json_t *event);
/* The number that `key` names: seconds, passes, rate, cost, best, last, test.NAME of the last test,
 * or NAME of the last pass; also hosts, num_passes, pass, best_pass. NAN: the run has none. */
double run_number(const struct run *r, const char *key);
/* name; by, better: of the last test; best_by; unit: of rate. "": the run has none. */
const char *run_text(const struct run *r, const char *key);
/* A metric of the last test: the k-th; NULL: there are fewer. */
const char *run_metric(const struct run *r, size_t k);
