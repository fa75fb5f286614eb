/* head.h - the coordinator of a job, on node 0: one state machine over all nodes.
 *
 *   idle ─▶ connecting ─▶ probing ─▶ binding ─▶ pservers ─▶ trainers ─▶ ending ─▶ closing ─▶ over
 *           all agents    addresses  ports      all listen   all exit 0  pservers   HD_END
 *           have joined   that work                                      end by     everywhere
 *                                                                        themselves
 * A failure or a stop leads from any state to closing; with restarts a process's failure leads from
 * pservers and trainers over restarting (HD_END everywhere) back to binding; a stop that saves from
 * trainers over saving to ending. It neither opens connections nor starts processes: it sends HD_
 * messages through `io` and is told what comes back, which is also how it is tested. A node whose
 * connection breaks may join again within the lease: requests that were not answered are sent
 * again. One that does not is lost; the job ends, or, where it may be restarted, goes on without
 * it: restarting, then binding with other roles (roles.h). Node 0 has no such end: the head is
 * there.
 *
 * The first failure is the one that is reported. Failures within FAILURE_WINDOW_MS of it may still
 * replace it: a process that was killed explains those that lost their peer, and on one machine the
 * earlier exit counts.
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
void head_joined(struct ag_head *h, int node, const json_t *join); /* HD_JOIN */
void head_lost(struct ag_head *h, int node);                       /* its connection broke */
/* An answer or a message of a node; `refused` instead of a body when it carries an error. */
void head_message(struct ag_head *h, int node, uint16_t type, uint64_t req, const json_t *body,
                  const struct pd_err *refused);
/* End the job: stopped, or failed with this reason (of a node, -1: of none). */
void head_stop(struct ag_head *h, unsigned grace_ms, const char *reason);
void head_fail(struct ag_head *h, int node, const char *reason);
/* Stopped, but the trainers first save the model and end by themselves, for which they have
 * `save_ms`. A head_stop cuts that short. Where no trainer runs it is head_stop. */
void head_save(struct ag_head *h, unsigned save_ms, unsigned grace_ms, const char *reason);
/* Those that the job went on without: array of {node, host, reason}; borrowed. */
const json_t *head_lost_nodes(const struct ag_head *h);
/* Where other nodes reach this one: the address that a peer has reached first. A new reference. */
json_t *head_addrs(const struct ag_head *h, int node);
int head_has(const struct ag_head *h,
             int node); /* its agent has joined, and its connection is there */
const char *head_saved(
    const struct ag_head *h); /* the last model of a trainer that has ended well, or "" */
/* The same as head_fail without waiting for what may explain it, nor long for nodes that are
 * silent, and with another grace. */
void head_abort(struct ag_head *h, unsigned grace_ms, int node, const char *reason);

#endif
