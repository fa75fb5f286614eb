/* node.h - the job on this node: ports, processes, their logs, their end. The head's messages tell
 * the node what to do (over TCP, or directly on the head's own node); it answers with messages.
 *
 *     HD_BIND ─▶ sockets bound      HD_START ─▶ process runs ─▶ HD_READY (a pserver's port accepts)
 *     HD_END  ─▶ TERM, KILL ─▶ answer once no process is left      any exit ─▶ HD_EXITED
 *     HD_END{restart}: the same, then as if nothing had been bound      HD_STOP ─▶ NODE_STOP
 *
 * After a broken connection to the head a message may come twice; what was done is not done again.
 */
#ifndef PD_AGENT_NODE_H
#define PD_AGENT_NODE_H

#include <jansson.h>
#include <uv.h>

#include "agent/logs/logs.h"
#include "agent/core/node_paths.h"
#include "agent/core/spec.h"
#include "base/log.h"

struct ag_node;

struct node_io {
    /* A message for the head. `req` is 0, or that of the request this answers. Takes `body` over.
     */
    void (*send)(void *arg, uint16_t type, uint64_t req, json_t *body);
    void (*refuse)(void *arg, uint16_t type, uint64_t req, const struct pd_err *e);
    void (*log_grew)(void *arg); /* a stream has new bytes, or became complete */
    /* A descriptor over which our trainer asks for data files (agent/files/file_fetch.h), which
     * becomes the callee's; -1: none, and err says why if there should be one. NULL: none. */
    int (*data_channel)(void *arg, struct pd_err *err);
};

/* Everything the pointers lead to outlives the node. The calling process is a sub-reaper. */
int node_new(struct ag_node **out, uv_loop_t *loop, const struct node_paths *p,
             const struct spec *s, struct logs *logs, const struct pd_log *log,
             const struct node_io *io, void *arg, struct pd_err *err);
/* NULL is fine; no process may be left; the loop has to run once more. */
void node_free(struct ag_node *n);

/* Lay out the job's folder for the processes: workspace, link to output, key file. */
int node_lay_out(const struct node_paths *p, const struct spec *s, const uint8_t key[32],
                 struct pd_err *err);

/* HD_BIND, HD_START, HD_SAVE, HD_STOP, HD_END. */
void node_message(struct ag_node *n, uint16_t type, uint64_t req, const json_t *body);

/* SIGCHLD came: reap what ended, ours and adopted. */
void node_reap(struct ag_node *n);

/* Now and then, with the time since the last call: a process that has been stopped for
 * spec.job.heartbeat_ms is killed, so that it has failed and the head decides (on_failure). Its
 * peers would not miss it otherwise, since its connections stand. Time counts only in calls. */
void node_tick(struct ag_node *n, uint64_t passed_ms);

/* Ends every process of the job on this node. Nothing else ends them: the head, a client, a lease
 * and a signal all lead here. `done` (may be NULL) is called once no process is left, never from
 * inside this call. A call during an end joins that end: the shorter grace period counts, and any
 * other kind turns a restart into the last end.
 *
 *     NODE_END      TERM to all, KILL after the grace period
 *     NODE_STOP     a healthy job is stopped, in an order in which no process reports a lost peer:
 *                   trainers, and other processes that are no pserver, have the grace period. The
 *                   pserver of this node is told of the stop. It gets TERM with NODE_END, which
 *                   comes when no trainer is left on any node, or a moment after the grace period
 *     NODE_RESTART  as NODE_END, in the middle of the job: HD_BIND and HD_START come again */
enum node_end { NODE_END, NODE_STOP, NODE_RESTART };
void node_end(struct ag_node *n, enum node_end kind, unsigned grace_ms, void (*done)(void *),
              void *arg);
/* `done` is called when the last end, of whoever, is complete; ends nothing itself. */
void node_when_ended(struct ag_node *n, void (*done)(void *), void *arg);

/* What HD_JOIN repeats after a broken connection: `ready` and `exited`. */
void node_describe(const struct ag_node *n, struct hd_join *join);

/* The processes that were started, as AG_STATUS lists them, without what only the kernel knows
 * (memory, CPU time). */
json_t *node_processes(const struct ag_node *n);

#endif
