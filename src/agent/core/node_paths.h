/* node_paths.h - where a node keeps things (docs/design.md, "On a node"), and the making of a job's
 * folder.
 *
 *     ROOT/.paddlectl/bin/            executables by hash
 *     ROOT/workspaces/NAME-HASH/      what `paddlectl dispatch` deployed
 *     ROOT/JOB/{workspace,output,log,nodefile,result.json}
 *     ROOT/JOB/.agent/{sock,key,pid}  0700; sock and key are gone when the agent is
 *     ROOT/JOB/.agent/{state.json,*.idx}  what is known of the job and its logs, also afterwards
 */
#ifndef PD_AGENT_NODE_PATHS_H
#define PD_AGENT_NODE_PATHS_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"

struct node_paths {
    char root[PATH_MAX / 2];     /* absolute, without a slash at the end */
    char job[64];                /* "" without a job */
    char dir[PATH_MAX / 2 + 80]; /* ROOT/JOB; "" without a job */
};

/* `root` is absolute or begins with "~/" (or is "~"). Other paths are refused (PD_EUSAGE), since
 * they mean different folders under sshd and under a shell. `job` may be NULL. Creates nothing. */
int node_paths_init(struct node_paths *p, const char *root, const char *job, struct pd_err *err);

/* A name that is safe as a single path component: [A-Za-z0-9._-]+, not beginning with a dot, at
 * most 63 bytes. */
int node_paths_name_ok(const char *s);

/* Creates ROOT/JOB and its contents, mode 0700; writes `node` (-1: unknown) to nodefile. PD_EEXIST,
 * with the ids of both nodes, if another agent has created it. After a failure nothing is left. */
int node_paths_make_job(const struct node_paths *p, int node, struct pd_err *err);

/* "DIR/name" into `out`; too long is PD_EIO. */
int node_paths_join(const char *dir, const char *name, char out[PATH_MAX], struct pd_err *err);

int node_paths_write_node(const struct node_paths *p, int node, struct pd_err *err);
int node_paths_read_node(const struct node_paths *p); /* -1: not there yet */

int node_paths_read_pid(const struct node_paths *p); /* the agent's; 0: it has none, or is gone */

/* Reads the status in result.json: "done", "failed", "stopped"; "" without a result. */
void node_paths_read_status(const struct node_paths *p, char status[16]);

/* Connect to the job's socket: a descriptor, or -1 when no agent listens. Never waits. */
int node_paths_connect(const struct node_paths *p);

#endif
