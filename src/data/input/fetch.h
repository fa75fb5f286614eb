/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - requests for data files that are not on this node (data_layout = dispatched). A request
 * goes to the node's agent over PADDLE_DATA_FD; the agent (src/agent/files) fetches the file from
 * another node. Any thread may call these functions. A blocking call returns when the agent
 * answers. The agent always answers: it tries every source, then reports which nodes it asked and
 * why each failed. */
#pragma once

#include "data/input/input.h"

struct data_fetch;

/* `fd` is a stream socket to the agent; the caller keeps it and closes it. */
int data_fetch_new(struct data_fetch **out, int fd, struct pd_err *err);
void data_fetch_free(struct data_fetch *f); /* NULL is fine */

/* BLOCKS until `path`, relative to the workspace, is on this node. 0, or PD_E* with the nodes that
 * were asked. */
int data_fetch_wait(struct data_fetch *f, const char *path, struct pd_err *err);
/* Prefetch: asks for `path` if the file is not on this node. Never blocks and ignores failures. `f`
 * may be NULL. */
void data_fetch_prefetch(struct data_fetch *f, const char *path);

/* data_fetch_wait for a file of the workspace that is missing. Does nothing if `f` is NULL, the
 * path is absolute, or the file exists; opening the file then reports what is wrong. */
int data_fetch_ensure(struct data_fetch *f, const char *path, struct pd_err *err);
/* data_fetch_ensure, then data_input_open. */
int data_fetch_open(struct data_fetch *f, struct data_input **out, const char *path,
                    const char *shown, struct pd_err *err);
