/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h - what a job's trainers report of its passes: the events "test" and "saved". Node 0
 * keeps them in JOB/passes, one JSON object a line, so they outlive the job and its rotated logs.
 *
 *     trainer ─ event ─▶ its agent ─ HD_PASS ─▶ node 0 ─┬─▶ JOB/passes ─▶ AG_MODELS
 *                                                       └─▶ struct passes ─▶ AG_RESULT, result.json
 */
#pragma once

#include <jansson.h>

#include "agent/core/node_paths.h"

struct passes {
    json_t *test;    /* the last test; NULL: none */
    json_t *best;    /* the test of the best pass, by the value that its event names; NULL: none */
    char saved[200]; /* the last model, relative to the workspace; "": none */
    int no_state;    /* training cannot continue from it */
};

void passes_release(struct passes *s);
void passes_take(struct passes *s, const json_t *event);
int passes_append(const struct node_paths *p, const json_t *event, struct pd_err *err);
int passes_saved_state(const struct passes *s); /* 1: training can continue from `saved` */
/* Sets "saved", "saved_state", "test" and "best" of a result. */
void passes_describe(const struct passes *s, json_t *result);
/* The tests of complete passes, in any order: an array of [pass, value]; *by and *better are those
 * of the last test. A repeated pass has its last value. NULL: there is none, or no memory. */
json_t *passes_values(const struct node_paths *p, char by[80], char better[8]);
