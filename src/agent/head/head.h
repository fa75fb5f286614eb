/* head.h - the coordinator of a job, on node 0: one state machine over all nodes.
 *
 *   idle ─▶ connecting ─▶ probing ─▶ binding ─▶ pservers ─▶ trainers ─▶ ending ─▶ closing ─▶ over
 *           all agents    addresses  ports      all listen   all exit 0  pservers   HD_END
 *           have joined   that work                                      end by     everywhere
 *                                                                        themselves
 *   any state            failure or stop                          ─▶ closing
 *   pservers, trainers   a process failed, restarts are left      ─▶ restarting (HD_END) ─▶ binding
 *   trainers             a stop that saves                        ─▶ saving ─▶ ending
 *
 * The head opens no connection and starts no process. It sends HD_ messages through `io` and is
 * told what comes back; tests do the same with made-up nodes.
 *
 * A node whose connection breaks may join again within the lease; requests without an answer are
 * then sent again. A node that does not come back is lost. The job ends, or, where it may be
 * restarted, goes on without that node: restarting, then binding with other roles (roles.h). Node 0
 * can't be lost: the head runs there.
 *
 * The first failure is the job's. A failure within FAILURE_WINDOW_MS of it may replace it: a
 * process that was killed explains those that lost their peer, and on one machine the earlier exit
 * counts.
 */
#ifndef PD_AGENT_HEAD_H
#define PD_AGENT_HEAD_H

#include <jansson.h>
#include <uv.h>

#include "agent/core/spec.h"
#include "base/log.h"

struct ag_head;

struct head_io {
    /* To a node; takes `body` over. Only to nodes that have joined. */
    void (*send)(void *arg, int node, uint16_t type, uint64_t req, json_t *body);
    void (*state)(void *arg, const char *state, const char *text);
    /* The end: status "done", "failed" or "stopped"; first_failure may be NULL (borrowed). Comes
     * once. */
    void (*over)(void *arg, const char *status, const json_t *first_failure, int later);
};

/* `peers`: AG_JOB_PEERS' array; both it and the spec outlive the head. */
int head_new(struct ag_head **out, uv_loop_t *loop, const struct spec *s, json_t *peers,
             const struct pd_log *log, const struct head_io *io, void *arg, struct pd_err *err);
void head_free(struct ag_head *h); /* NULL is fine; the loop has to run once more */

void head_run(struct ag_head *h);                                  /* AG_JOB_RUN; twice is once */
void head_joined(struct ag_head *h, int node, const json_t *body); /* HD_JOIN */
void head_lost(struct ag_head *h, int node);                       /* its connection broke */
/* An answer or a message of a node; `refused` instead of a body when it carries an error. */
void head_message(struct ag_head *h, int node, uint16_t type, uint64_t req, const json_t *body,
                  const struct pd_err *refused);
/* End the job: stopped, or failed with this reason (of a node, -1: of no node). */
void head_stop(struct ag_head *h, unsigned grace_ms, const char *reason);
void head_fail(struct ag_head *h, int node, const char *reason);
/* As head_stop, but the trainers first save the model and end by themselves, within save_ms. A
 * head_stop cuts that short. Without a running trainer it is head_stop. */
void head_save(struct ag_head *h, unsigned save_ms, unsigned grace_ms, const char *reason);
/* Nodes that the job went on without: array of {node, host, reason}; borrowed. */
const json_t *head_lost_nodes(const struct ag_head *h);
/* Where other nodes reach this node, the address that a peer has reached first. A new reference. */
json_t *head_addrs(const struct ag_head *h, int node);
int head_has(const struct ag_head *h, int node); /* its agent has joined and is connected */
/* The last model of a trainer that ended with 0; "": none. */
const char *head_saved(const struct ag_head *h);
/* As head_fail with another grace period, but does not wait for a failure that may explain this
 * one, and not long for silent nodes. */
void head_abort(struct ag_head *h, unsigned grace_ms, int node, const char *reason);

#endif
