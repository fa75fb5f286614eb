/* SPDX-License-Identifier: Apache-2.0 */
/* record_internal.h - declarations that the files of this folder share. */
#pragma once

#include "launcher/record/record.h"

#define RECORD_LINE (JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9))

/* The caller keeps the event. */
typedef void record_line(void *arg, json_t *event);

int record_path(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err);
/* As record_open; if there is no record, one without settings begins. */
int record_lock(struct record **out, const char *dir, struct pd_err *err);
json_t *record_run(const struct record *r); /* the members of run.json */

/* Milliseconds since 1970; 0: the event has no time that can be right. */
static inline json_int_t record_time(const json_t *event) {
    const json_int_t t = json_integer_value(json_object_get(event, "t"));
    return t > 0 && t < (json_int_t)1 << 53 ? t : 0;
}
/* 1: the end of a pass, with the figures of the job. */
static inline int record_is_pass(const json_t *event) {
    const char *ev = json_string_value(json_object_get(event, "ev"));
    return ev && !strcmp(ev, "pass") && json_object_get(event, "samples");
}
/* A new object: the event, behind its time, node and host (which may be NULL). NULL: no memory. */
json_t *record_of_node(json_t *event, int node, const char *host);
/* Calls `on_line` for each line that is an object. The others are skipped: a line may be cut off.
 * `p`: NULL, or where to begin; it becomes the end of the last complete line. */
int record_each_line(const char *path, struct record_place *p, record_line *on_line, void *arg,
                     struct pd_err *err);
