/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - the job on this node: ports, processes, their logs, their end. The head's messages
 * control the node, over TCP or within node 0. The node answers with messages.
 *
 *     HD_BIND ─▶ sockets bound      HD_START ─▶ process runs ─▶ HD_READY (a pserver's port accepts)
 *     HD_END  ─▶ TERM, KILL ─▶ answer once no process is left      any exit ─▶ HD_EXITED
 *     HD_END{restart}: the same, then the node is unbound      HD_STOP ─▶ NODE_STOP
 *
 * After a broken connection to the head a message may come twice. The node then answers again
 * without repeating the action. */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "agent/logs/logs.h"
#include "agent/core/node_paths.h"
#include "agent/core/spec.h"

struct ag_node;

struct node_io {
    /* Sends a message to the head. `req` is the answered request's, or 0. Takes `body` over. */
    void (*send)(void *arg, uint16_t type, uint64_t req, json_t *body);
    void (*refuse)(void *arg, uint16_t type, uint64_t req, const struct pd_err *e);
    void (*log_grew)(void *arg); /* a log stream has new bytes, or is complete */
    /* Returns a descriptor over which our trainer asks for data files (agent/files/file_fetch.h);
     * the caller closes it. -1: there is none; if that is an error, err is set. The pointer may be
     * NULL. */
    int (*data_channel)(void *arg, struct pd_err *err);
};

/* All objects passed by pointer must outlive the node. The calling process must be a sub-reaper. 0
 * or PD_ENOMEM. */
int node_new(struct ag_node **out, uv_loop_t *loop, const struct node_paths *p,
             const struct spec *s, struct logs *logs, const struct pd_log *log,
             const struct node_io *io, void *arg, struct pd_err *err);
/* NULL is allowed. No process may be left. The memory is freed in the loop's next run. */
void node_free(struct ag_node *n);

/* Prepare the job's folder for the processes: workspace, link to output, key file. 0 or PD_E*. */
int node_lay_out(const struct node_paths *p, const struct spec *s, const uint8_t key[32],
                 struct pd_err *err);

/* HD_BIND, HD_START, HD_SAVE, HD_STOP, HD_END. */
void node_message(struct ag_node *n, uint16_t type, uint64_t req, const json_t *body);

/* SIGCHLD came: reap every process that ended, whether the agent started or adopted it. */
void node_reap(struct ag_node *n);

/* Called periodically with the time since the last call. A process that has been stopped (SIGSTOP)
 * for spec.job.heartbeat_ms is killed, and the head handles that failure (on_failure). Without this
 * check its peers would wait for ever, because a stopped process keeps its connections open. Only
 * the time passed to this function counts. */
void node_tick(struct ag_node *n, uint64_t passed_ms);

/* A wait for an end of the processes. The caller sets done and arg, and keeps the struct until
 * `done` is called: an end needs no memory. */
struct end_waiter {
    void (*done)(void *);
    void *arg;
    int for_restart; /* waits for the end before a restart; others wait for the final end */
    struct end_waiter *next;
};

/* Ends every process of the job on this node. The head, a client, a lease and a signal all use this
 * function. w->done is called when no process is left, never from inside this call; w may be NULL.
 * A call during an end joins that end: the shorter grace period counts, and any other kind turns a
 * restart into the final end.
 *
 *     NODE_END      TERM to all, KILL after the grace period
 *     NODE_STOP     stops a healthy job in an order in which no process reports a lost peer. All
 *                   processes except the pserver get TERM and have the grace period. Our pserver is
 *                   told of the stop (SIGUSR1). It gets TERM with the NODE_END that follows when no
 *                   trainer is left on any node, or a moment after the grace period
 *     NODE_RESTART  as NODE_END, in the middle of the job: HD_BIND and HD_START come again */
enum node_end { NODE_END, NODE_STOP, NODE_RESTART };
void node_end(struct ag_node *n, enum node_end kind, unsigned grace_ms, struct end_waiter *w);
/* Calls w->done when the final end is complete. This function ends no process itself. */
void node_when_ended(struct ag_node *n, struct end_waiter *w);

/* Adds `ready` and `exited` to the body of an HD_JOIN, which repeats them after a broken
 * connection. */
void node_describe(const struct ag_node *n, struct hd_join *join);

/* The started processes as AG_STATUS lists them, without the kernel's values (memory, CPU time). A
 * new reference. */
json_t *node_processes(const struct ag_node *n);
