/* SPDX-License-Identifier: Apache-2.0 */
/* job_requests.c - requests of clients: AG_JOB_SETUP, AG_JOB_PEERS, AG_JOB_RUN, AG_STOP. job_head.c
 * has AG_JOB_HEAD. */
#include <sodium.h>

#include "agent/package/package.h"
#include "agent/host/facts.h"
#include "agent/job_internal.h"
#include "wire/msg.h"

/* --- the set-up --- */

static void on_child(uv_signal_t *h, int sig) {
    (void)sig;
    node_reap(((struct ag_job *)h->data)->node);
}

_Static_assert((int)JOB_SPEC_MAX_LOG_KEEP <= (int)LOGS_KEEP_MAX,
               "a job may keep more log files than struct log_file has places for");

static int open_logs(struct ag_job *j, struct pd_err *err) {
    int rc = logs_open(&j->logs, j->o.core->paths.dir, 0, err);
    if (rc)
        return rc;
    j->logs_open = 1;
    logs_limit(&j->logs, j->spec.job.log_max_size, j->spec.job.log_keep);
    pd_log_limit(ag_job_log(j), j->spec.job.log_max_size, j->spec.job.log_keep);
    *j->o.logs = (struct log_source){&j->logs, j->spec.node};
    return 0;
}

static int open_files(struct ag_job *j, struct pd_err *err) {
    const struct file_fetch_opts o = {.core = j->o.core,
                                      .spec = &j->spec,
                                      .self = &j->self,
                                      .kept = j->o.kept,
                                      .io = &ag_job_file_io,
                                      .arg = j};
    if (j->spec.data_apart)
        return file_fetch_new(&j->data, &o, err);
    kept_data_unlock(j->o.kept); /* no process of this job will ask for data files */
    return 0;
}

static int open_link(struct ag_job *j, struct pd_err *err) {
    const struct spec *s = &j->spec;
    /* after the ports that the pservers prefer; the nodes of one machine do not all try the same */
    int from = s->job.port ? s->job.port + s->job.ports_num + s->job.ports_num_for_sparse +
                                 (s->job.local ? s->node : 0)
                           : 0;
    const struct peer_link_opts o = {.core = j->o.core,
                                     .self = &j->self,
                                     .n_nodes = s->n_nodes,
                                     .local = (int)s->job.local,
                                     .from_port = from > 65000 ? s->job.port : from,
                                     .takers = j->data != NULL,
                                     .n_voters = head_may_be_chosen(s) ? ELECTION_VOTERS : 0,
                                     .lease_ms = s->job.detach_lease_ms,
                                     .events = &ag_job_peer_events,
                                     .arg = j};
    return peer_link_new(&j->link, &o, &j->port, err);
}

/* Opens the parts of the job. ag_job_close closes them, also when the set-up fails. */
static int open_parts(struct ag_job *j, json_t *body, struct pd_err *err) {
    const struct agent_core *core = j->o.core;
    int rc = spec_parse(&j->spec, body, core->paths.job, err);
    j->self.node = j->spec.node;
    j->self.plain = !j->spec.job.encrypt;
    if (!rc)
        rc = facts_addrs(j->spec.job.local ? FACTS_LOOPBACK : j->spec.job.nic, &j->addrs, err);
    if (!rc)
        rc = node_paths_write_node(&core->paths, j->spec.node, err);
    if (!rc)
        rc = node_lay_out(&core->paths, &j->spec, j->self.key, err);
    if (!rc)
        rc = open_logs(j, err);
    if (!rc)
        rc = node_new(&j->node, &j->o.core->loop, &core->paths, &j->spec, &j->logs, &core->log,
                      &ag_job_node_io, j, err);
    if (!rc)
        rc = open_files(j, err);
    if (!rc)
        rc = open_link(j, err);
    if (!rc)
        ag_vote_init(j);
    return rc;
}

static int answer_setup(struct client *c, const struct ag_job *j, const struct wire_frame *f,
                        struct pd_err *err) {
    const json_t *first = json_array_get(j->addrs, 0);
    return client_answer(
        c, f,
        wire_put(&wire_ag_job_setup_answer,
                 &(struct ag_job_setup_answer){
                     .addrs = j->addrs,
                     .port = j->port,
                     .nic_addr = *j->spec.job.nic ? json_string_value(first) : ""}),
        err);
}

static void init_job(struct ag_job *j, const uint8_t *key) {
    struct agent_core *core = j->o.core;
    j->set_up = 1;
    j->posts_end = &j->posts;
    memcpy(j->self.job, core->paths.job, sizeof j->self.job);
    pd_secret_pages(&j->self, sizeof j->self);
    memcpy(j->self.key, key, sizeof j->self.key);
    randombytes_buf(&j->self.incarnation, sizeof j->self.incarnation);
    facts_net_id(j->net_id);
    facts_machine(j->machine);
    uv_timer_init(&core->loop, &j->post_timer);
    uv_timer_init(&core->loop, &j->log_timer);
    uv_signal_init(&core->loop, &j->on_child);
    j->post_timer.data = j->log_timer.data = j->on_child.data = j;
    j->started_us = pd_wall_us();
}

static int take_setup(struct client *c, const struct wire_frame *f, const json_t *body,
                      struct pd_err *err) {
    struct ag_job *j = client_context(c, &ag_job_service);
    struct ag_job_setup m;
    if (client_over(c, err))
        return err->code;
    if (!j)
        return pd_fail(err, PD_EPROTO, "AG_JOB_SETUP: this agent runs no job");
    if (f->n_sec < 2 || f->len[1] != sizeof j->self.key)
        return pd_fail(err, PD_EPROTO, "AG_JOB_SETUP: section 1 is not a key of 32 bytes");
    if (ag_job_is_live(j) && !sodium_memcmp(j->self.key, f->sec[1], sizeof j->self.key))
        /* The client repeats the request because its connection broke before the answer. */
        return answer_setup(c, j, f, err);
    if (j->set_up)
        return pd_fail(err, PD_EEXIST, "the job was set up already");
    if (wire_get(&wire_ag_job_setup, &m, body, err))
        return err->code;
    json_t *copy = json_deep_copy(body);
    if (!copy)
        return pd_oom(err, "a request about the job");
    init_job(j, f->sec[1]);
    int rc = open_parts(j, copy, err);
    json_decref(copy);
    if (rc) {
        j->quitting = 1;
        ag_job_quit(j, 0); /* a node that can't be set up does not try again */
        return rc;
    }
    clients_set_lease(j->o.clients, (unsigned)j->spec.job.attach_lease_ms);
    if (j->spec.job.attached) {
        clients_set_owner(j->o.clients, m.owner);
        client_show_token(c, m.owner, 0, "");
    }
    /* All nodes have their packages; a pserver may need the port on which this node served them. */
    packages_drop(c);
    ag_job_save_state(j);
    uv_signal_start(&j->on_child, on_child, SIGCHLD);
    pd_info(ag_job_log(j), "node %d of %d, port %d", j->spec.node, j->spec.n_nodes, j->port);
    return answer_setup(c, j, f, err);
}

static int on_setup(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    int rc = take_setup(c, f, body, err);
    client_forget_key(c, f);
    return rc;
}

/* --- the run, and a stop --- */

struct ag_job *ag_job_usable(const struct client *c, struct pd_err *err) {
    struct ag_job *j = client_context(c, &ag_job_service);
    if (j && ag_job_is_live(j))
        return j;
    pd_fail(err, PD_EPROTO, "the job is not set up");
    return NULL;
}

int ag_job_make_head(struct ag_job *j, json_t *peers, struct ag_head **out, struct pd_err *err) {
    return head_new(out, &j->o.core->loop, &j->spec, peers, ag_job_log(j), &ag_job_head_io, j, err);
}

void ag_job_join_head(struct ag_job *j) {
    json_t *own = ag_job_join_body(j);
    head_joined(j->head, j->spec.node, own);
    json_decref(own);
}

static int begin_head(struct ag_job *j, struct pd_err *err) {
    int rc = ag_job_make_head(j, j->peers, &j->head, err);
    if (rc)
        return rc;
    ag_job_join_head(j);
    peer_link_replay(j->link);
    return 0;
}

static int on_peers(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct ag_job *j = ag_job_usable(c, err);
    struct ag_job_peers m;
    struct job_peer peer;
    if (!j || wire_get(&wire_ag_job_peers, &m, body, err))
        return err->code;
    const int n = (int)json_array_size(m.nodes); /* only the head needs all nodes */
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = wire_get(&wire_job_peer, &peer, json_array_get(m.nodes, (size_t)i), err);
    if (rc)
        return rc;
    if (j->spec.node == 0 ? n != j->spec.n_nodes : n < 1)
        return pd_fail(err, PD_EPROTO, "AG_JOB_PEERS: it has to list %s",
                       j->spec.node ? "node 0 at least" : "all nodes");
    if (j->peers)
        return client_answer(c, f, json_object(), err);
    if (!(j->peers = json_deep_copy(m.nodes)))
        return pd_oom(err, "a request about the job");
    if (j->spec.node == 0)
        rc = begin_head(j, err);
    else
        peer_link_join(j->link, 0, json_array_get(j->peers, 0));
    return rc ? rc : client_answer(c, f, json_object(), err);
}

static int on_run(struct client *c, const struct wire_frame *f, const json_t *body,
                  struct pd_err *err) {
    struct ag_job *j = ag_job_usable(c, err);
    (void)body;
    if (!j)
        return err->code;
    if (!j->head)
        return pd_fail(err, PD_EPROTO, "AG_JOB_RUN goes to node 0, which knows its peers");
    j->ran = 1;
    client_send(c, f->type, f->req, json_object());
    head_run(j->head);
    return 0;
}

struct stop_request {
    struct ag_job *j;
    struct client *c;
    uint64_t req;
    struct end_waiter wait;
};

static void on_stopped(void *arg) {
    struct stop_request *r = arg;
    struct ag_job *j = r->j;
    client_send(r->c, WIRE_AG_STOP, r->req,
                wire_put(&wire_ag_stop_answer,
                         &(struct ag_stop_answer){.saved = j->passes.saved,
                                                  .saved_state = passes_saved_state(&j->passes)}));
    if (!j->head)
        ag_job_over_with_reason(j, j->ending ? "failed" : "stopped", j->ending ? j->failed : "");
    client_unref(r->c);
    free(r);
}

/* A stop that saves is decided for the whole job: the node asks the head, again when a broken
 * connection is made again, and ends with the job or by its lease. The head must hear of a stop
 * before the exits that it causes. */
static void stop(struct ag_job *j, struct hd_stop_job *s, struct stop_request *r) {
    const unsigned grace_ms = (unsigned)s->grace_ms;
    if (!*s->reason)
        s->reason = "stopped by a client";
    s->save = s->save && (j->head || j->ran);
    j->stopping |= !s->save;
    json_decref(j->save_stop);
    j->save_stop = s->save && !j->head ? wire_put(&wire_hd_stop_job, s) : NULL;
    if (s->save)
        node_when_ended(j->node, &r->wait);
    if (j->head && s->save)
        head_save(j->head, (unsigned)s->save_ms, grace_ms, s->reason);
    else if (j->head)
        head_stop(j->head, grace_ms, s->reason);
    else
        peer_link_send(j->link, PEER_HEAD, WIRE_HD_STOP_JOB, 0, wire_put(&wire_hd_stop_job, s));
    if (!s->save)
        node_end(j->node, NODE_STOP, grace_ms, &r->wait);
}

static int on_stop(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct ag_job *j = client_context(c, &ag_job_service);
    if (!j || !ag_job_is_live(j) || j->result) { /* no process runs here */
        client_send(c, f->type, f->req, json_object());
        if (j && !j->set_up)
            ag_job_quit(j, 0);
        return 0;
    }
    struct hd_stop_job s;
    if (wire_get(&wire_hd_stop_job, &s, body, err))
        return err->code;
    struct stop_request *r = pd_malloc(sizeof *r);
    if (!r)
        return pd_oom(err, "a request to stop");
    *r = (struct stop_request){j, c, f->req, {.done = on_stopped, .arg = r}};
    client_ref(c);
    stop(j, &s, r);
    return 0;
}

static const struct client_request requests[] = {
    {WIRE_AG_JOB_SETUP, 1, 1, on_setup, NULL}, {WIRE_AG_JOB_PEERS, 1, 1, on_peers, NULL},
    {WIRE_AG_JOB_RUN, 1, 0, on_run, NULL},     {WIRE_AG_JOB_HEAD, 1, 1, ag_job_on_head, NULL},
    {WIRE_AG_STOP, 1, 1, on_stop, NULL},       {0},
};

const struct client_service ag_job_service = {.name = "job", .requests = requests};
