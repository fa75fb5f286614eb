/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - the result of a job on this node: result.json, which outlives the agent. */
#pragma once

#include <jansson.h>

#include "agent/core/node_paths.h"

/* {job, node, status, first_failure, later_failures}: the body of AG_RESULT, a new reference.
 * `first_failure` may be NULL and is copied. Returns NULL if out of memory. */
json_t *result_make(const struct node_paths *p, int node, const char *status,
                    const json_t *first_failure, int later);
/* A first_failure of the agent itself, a new reference. NULL: out of memory. */
json_t *result_reason(int node, const char *host, const char *reason);

/* Takes the room of a result on the disk, so that a disk that fills up later holds the result. */
int result_reserve(const struct node_paths *p, struct pd_err *err);
/* For the end of the job on this node. Also removes the remains of killed saves in output/. */
int result_write(const struct node_paths *p, const json_t *result, struct pd_err *err);
json_t *result_read(const struct node_paths *p); /* a new reference; NULL: no result */
/* Why a job whose agent is gone may have left no result: a phrase to append, or "". */
const char *result_why_missing(const struct node_paths *p);
/* For the guardian, after the agent has died: writes a failed result if there is none. */
void result_write_if_missing(const struct node_paths *p, const char *reason);
