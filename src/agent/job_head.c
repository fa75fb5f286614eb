/* SPDX-License-Identifier: Apache-2.0 */
/* job_head.c - this node becomes the head, or follows a new one. AG_JOB_HEAD: paddlectl has given
 * the head up, and lets another node take its part. In a detached job the nodes choose
 * (job_vote.c). Ids of heads ascend, because the earlier ones are lost, so an old request has no
 * effect. */
#include "agent/job_internal.h"

/* A stop that saves may not have reached the head that was lost. No trainer that could save is left
 * of that attempt, so it becomes a plain stop. */
static void stop_if_told(struct ag_job *j) {
    struct hd_stop_job s;
    char reason[WIRE_MAX_REASON + 100];
    if (!j->save_stop || wire_get(&wire_hd_stop_job, &s, j->save_stop, NULL))
        return;
    snprintf(reason, sizeof reason, "%s; nothing was saved, because the node of the head was lost",
             s.reason);
    pd_warn(ag_job_log(j), "%s", reason);
    head_stop(j->head, (unsigned)s.grace_ms, reason);
}

int ag_job_become_head(struct ag_job *j, const struct ag_job_head *m, json_t *peers,
                       struct pd_err *err) {
    const int lost = j->head_node;
    struct ag_head *head = NULL;
    int rc = ag_job_make_head(j, peers, &head, err);
    if (!rc && peer_link_lead(j->link))
        rc = pd_oom(err, "the head of a job");
    if (rc) {
        head_free(head);
        json_decref(peers);
        return rc;
    }
    json_decref(j->peers);
    j->peers = peers;
    j->head = head;
    j->head_node = j->spec.node;
    j->waits = 0;
    j->ran = j->started = 1;
    election_lead(&j->election);
    j->keep_due = 1;
    head_take_over(head, lost, m->lost, (int)j->restarts, m->passes);
    ag_job_save_state(j);
    ag_job_join_head(j);
    file_announce(j->data);
    stop_if_told(j);
    return 0;
}

void ag_job_follow_head(struct ag_job *j, int head, json_t *peers) {
    pd_warn(ag_job_log(j), "node %d is the head in place of node %d", head, j->head_node);
    j->head_node = head;
    j->waits = 0;
    peer_link_join(j->link, head, json_array_get(peers, 0));
    json_decref(j->peers);
    j->peers = peers;
    election_follow(&j->election, head, pd_mono_ns() / 1000000u);
    ag_job_save_state(j);
}

int ag_job_has_entries(const struct ag_job *j, const struct ag_job_head *m, struct pd_err *err) {
    const size_t n = json_array_size(m->nodes);
    struct job_peer peer;
    if (m->head == j->spec.node ? n != (size_t)j->spec.n_nodes : n != 1)
        return pd_fail(err, PD_EPROTO, "AG_JOB_HEAD: %zu nodes", n), 0;
    for (size_t i = 0; i < n; i++)
        if (wire_get(&wire_job_peer, &peer, json_array_get(m->nodes, i), err))
            return 0;
    return 1;
}

int ag_job_on_head(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct ag_job *j = ag_job_usable(c, err);
    struct ag_job_head m;
    if (!j || wire_get(&wire_ag_job_head, &m, body, err) || !ag_job_has_entries(j, &m, err))
        return err->code;
    if (j->result || j->ending || (*j->end_status && !j->restarting))
        return pd_fail(err, PD_EHOST, "the job has ended on node %d", j->spec.node);
    if (m.head == j->head_node) /* repeated after a lost connection */
        return client_answer(c, f, json_object(), err);
    if (!j->spec.job.attached)
        return pd_fail(err, PD_EHOST, "the job is detached: its nodes choose the head");
    if (!client_renews(c))
        return pd_fail(err, PD_EHOST, "another paddlectl keeps the job");
    if (m.head < j->head_node || m.head >= j->spec.n_nodes || j->head || !j->peers)
        return pd_fail(err, PD_EPROTO, "AG_JOB_HEAD: node %d is the head", j->head_node);
    json_t *peers = json_deep_copy(m.nodes);
    if (!peers)
        return pd_oom(err, "a request about the job");
    if (m.head == j->spec.node)
        ag_job_become_head(j, &m, peers, err);
    else
        ag_job_follow_head(j, (int)m.head, peers);
    return err->code ? err->code : client_answer(c, f, json_object(), err);
}

uint64_t ag_job_calm_ms(const struct ag_job *j) {
    enum { PART = 10, LEAST_MS = 200, MOST_MS = 1000 };
    const struct job_spec *s = &j->spec.job;
    const uint64_t lease =
        s->attach_lease_ms < s->detach_lease_ms ? s->attach_lease_ms : s->detach_lease_ms;
    if (!ag_job_is_live(j) || !j->started || j->result || j->ending || j->waits ||
        (!ag_job_is_head(j) && !peer_link_is_joined(j->link)) || lease / PART < LEAST_MS)
        return 0;
    /* The leases of an election are parts of these. */
    return head_may_be_chosen(&j->spec) ? LEAST_MS
           : lease / PART < MOST_MS     ? lease / PART
                                        : MOST_MS;
}
