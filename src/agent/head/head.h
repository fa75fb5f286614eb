/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - the coordinator of a job, on one node: one state machine over all nodes.
 *
 *   idle ─▶ connecting ─▶ probing ─▶ binding ─▶ pservers ─▶ trainers ─▶ ending ─▶ closing ─▶ over
 *           all agents    addresses  ports      all listen   all exit 0  pservers   HD_END
 *           have joined   that work                                      end by     everywhere
 *                                                                        themselves
 *   any state            failure or stop                          ─▶ closing
 *   pservers, trainers   a process failed, restarts are left      ─▶ restarting (HD_END) ─▶ binding
 *   trainers             a stop that saves                        ─▶ saving ─▶ ending
 *
 * The head opens no connection and starts no process. It sends HD_ messages through `io`; the owner
 * passes the answers to head_message. Tests use simulated nodes in the same way.
 *
 * A node whose connection breaks may join again within the lease; requests without an answer are
 * then sent again. A node that does not come back is lost. If the job may be restarted, it
 * continues without that node: restarting, then binding with other roles (roles.h). Otherwise the
 * job ends. The head runs on node 0. If node 0 is lost, another node creates a head, which enters
 * restarting at once (head_take_over).
 *
 * The first failure is the job's failure. A later failure replaces it if it comes within
 * FAILURE_WINDOW_MS and is a likelier cause. A killed process is a likelier cause than an exit
 * status. Between equal failures on one machine, the earlier exit wins.
 *
 * A process that ends because of another one (hd_exited.from) is a witness: the failure is the
 * other process's. Its own report replaces the witness's if it comes within HEARD_WINDOW_MS. */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "agent/core/spec.h"

struct ag_head;

struct head_io {
    /* Sends a message to a node. Takes `body` over. The head calls it only for nodes that have
     * joined. */
    void (*send)(void *arg, int node, uint16_t type, uint64_t req, json_t *body);
    void (*state)(void *arg, const char *state, const char *text);
    /* The job is over; called once. status: "done", "failed" or "stopped". first_failure is
     * borrowed and NULL if there was no failure; `later` counts the failures after it. */
    void (*over)(void *arg, const char *status, const json_t *first_failure, int later);
    /* A trainer reports a test or a saved model (passes.h). `body`: the HD_PASS of its node. */
    void (*pass)(void *arg, int node, const json_t *body, const json_t *event);
    /* 1: this node has heard paddlectl since that time (pd_mono_ns). */
    int (*heard)(void *arg, uint64_t since_ns);
};

/* `peers` is the array of AG_JOB_PEERS. `peers`, the spec and the log must outlive the head. 0 or
 * PD_ENOMEM. */
int head_new(struct ag_head **out, uv_loop_t *loop, const struct spec *s, json_t *peers,
             const struct pd_log *log, const struct head_io *io, void *arg, struct pd_err *err);
void head_free(struct ag_head *h); /* NULL is allowed. The memory is freed in the loop's next run */

void head_run(struct ag_head *h); /* AG_JOB_RUN; a second call has no effect */
/* In place of head_run: the job runs, and has lost its head on node `head`. `lost`: the lost nodes
 * as in head_lost_nodes, that one among them. `restarts`: how often the job was restarted, as far
 * as this node knows. `passes`: the reports of the passes so far, an array of {node, pass}; NULL:
 * none. The nodes must join again. */
void head_take_over(struct ag_head *h, int head, const json_t *lost, int restarts,
                    const json_t *passes);
/* This node leaves the job, and another one will take the head's part: the head becomes silent
 * without an end of the job. 0: the job can't continue so, and nothing has changed. fenced: this
 * head has lost its majority, so it must be silent in any case. */
int head_leave(struct ag_head *h, int fenced);
void head_joined(struct ag_head *h, int node, const json_t *body); /* HD_JOIN */
void head_lost(struct ag_head *h, int node);                       /* its connection broke */
/* A node's answer or message. If the node refused the request, `refused` holds its error and `body`
 * is NULL. */
void head_message(struct ag_head *h, int node, uint16_t type, uint64_t req, const json_t *body,
                  const struct pd_err *refused);
/* End the job: stopped, or failed with this reason. `node` is the node that failed. */
void head_stop(struct ag_head *h, unsigned grace_ms, const char *reason);
void head_fail(struct ag_head *h, int node, const char *reason);
/* As head_stop, but the trainers first save the model and end by themselves, within save_ms. A
 * later head_stop ends the saving at once. Without running trainers the call is a head_stop. */
void head_save(struct ag_head *h, unsigned save_ms, unsigned grace_ms, const char *reason);
void head_tell_state(struct ag_head *h); /* AG_STATE again: what it also says has changed */
/* The lost nodes, without which the job continued: an array of {node, host, reason}; borrowed. */
const json_t *head_lost_nodes(const struct ag_head *h);
/* The addresses at which other nodes reach this node. The address that a probe has reached comes
 * first. Returns a new reference. */
json_t *head_addrs(const struct ag_head *h, int node);
/* 1: if the job is detached and loses its head, its nodes choose another one (election.h). */
int head_may_be_chosen(const struct spec *s);
int head_has(const struct ag_head *h, int node); /* its agent has joined and is connected */
/* As head_fail, with another grace period. The head does not wait for a likelier failure, and waits
 * only briefly for silent nodes. */
void head_abort(struct ag_head *h, unsigned grace_ms, int node, const char *reason);
