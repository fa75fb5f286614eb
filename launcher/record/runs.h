/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - the records below a folder of outputs. */
#pragma once

#include "launcher/record/record.h"

struct run {
    char job[80];
    json_t *record; /* run.json */
    /* running: a paddlectl follows the job; done, failed, stopped, lost: it has ended; detached: it
     * goes on without a paddlectl; unknown: the paddlectl of the record ended without a word */
    char state[24];
    /* Events, or NULL: the last test, the test of the best pass, the end of trainer 0's last pass.
     */
    json_t *test, *best, *pass;
    int64_t n_passes; /* complete ones */
};

struct runs {
    struct run *v;
    size_t n, cap;
    struct run_bad { /* records that cannot be read */
        char text[500];
    } * bad;
    size_t n_bad, cap_bad;
};

/* Reads all records below `outputs`, the newest first. No folder, no runs. */
int runs_load(struct runs *out, const char *outputs, struct pd_err *err);
void runs_release(struct runs *r);
/* The run whose id is `want`, or the only one whose id ends with it or whose name it is; "latest":
 * the newest. */
int runs_find(const struct runs *r, const char *want, const struct run **out, struct pd_err *err);
/* The pass of an event, counted from 1; 0: it is of no pass. */
int64_t run_pass(const json_t *event);
/* The number that `key` names: seconds, passes, rate, cost, best, last, test.NAME of the last test,
 * or NAME of the last pass. NAN: the run has none. */
double run_number(const struct run *r, const char *key);
