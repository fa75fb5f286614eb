/* SPDX-License-Identifier: Apache-2.0 */
/* node_paths.h - the files of a node (docs/design.md, "On a node"), and the creation of a job's
 * folder.
 *
 *     ROOT/.paddlectl/bin/            executables by hash; .paddlectl has mode 0700
 *     ROOT/workspaces/NAME-HASH/      deployed by `paddlectl dispatch`
 *     ROOT/JOB/{workspace,output,log,nodefile,result.json}
 *     ROOT/JOB/.agent/{sock,key,pid}  0700; sock and key are removed when the agent ends
 *     ROOT/JOB/.agent/result          room on the disk, which becomes result.json
 *     ROOT/JOB/.agent/{state.json,*.idx}  state of the job and its logs, kept after its end */
#pragma once

#include <jansson.h>

struct node_paths {
    char root[PATH_MAX / 2];     /* absolute, without a slash at the end */
    char job[64];                /* "" without a job */
    char dir[PATH_MAX / 2 + 80]; /* ROOT/JOB; "" without a job */
};

/* `root` is absolute, is "~", or begins with "~/". Other paths are refused (PD_EUSAGE), because
 * they mean different folders under sshd and under a shell. `job` may be NULL. Creates no files. */
int node_paths_init(struct node_paths *p, const char *root, const char *job, struct pd_err *err);

/* A name that is safe as a single path component: [A-Za-z0-9._-]+, not beginning with a dot, at
 * most 63 bytes. */
int node_paths_name_ok(const char *s);

/* Creates ROOT/JOB (mode 0700) and its folders, and writes `node` (-1: unknown) to nodefile. If
 * another agent has created ROOT/JOB, the call fails with PD_EEXIST and names both nodes. After a
 * failure no file of this call is left. */
int node_paths_make_job(const struct node_paths *p, int node, struct pd_err *err);

/* Checks ROOT/.paddlectl, which must be private (pd_private_dir). If it is missing, the call makes
 * it, or does nothing if `make` is 0. */
int node_paths_check_private(const char *root, int make, struct pd_err *err);

/* Writes "DIR/name" to `out`. PD_EIO if the path is too long. */
int node_paths_join(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err);

int node_paths_write_node(const struct node_paths *p, int node, struct pd_err *err);
int node_paths_read_node(const struct node_paths *p); /* -1: there is no nodefile yet */

int node_paths_read_pid(const struct node_paths *p); /* the agent's pid; 0: no pid file */

/* A JSON object of the job's folder, a new reference; NULL: there is none. Another user may have
 * made the folder, so it must be a regular file of a limited size. */
json_t *node_paths_load_json(const struct node_paths *p, const char *name);
/* Reads the status from result.json: "done", "failed" or "stopped"; "" without a result. */
void node_paths_read_status(const struct node_paths *p, char status[16]);

/* 1: an agent listens on the job's socket, be it stopped. Does not wait. */
int node_paths_has_listener(const struct node_paths *p);
/* Connects to the job's socket. Returns a descriptor, or -1 if no agent listens. Waits at most 5 s,
 * for an agent that is stopped and whose backlog is full. */
int node_paths_connect(const struct node_paths *p);
/* The same for an agent of this user, with a descriptor that does not block. Does not wait. */
int node_paths_connect_own(const struct node_paths *p);
