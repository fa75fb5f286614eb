/* SPDX-License-Identifier: Apache-2.0 */
/* job_attach.c - paddlectl attach: finds a job on the nodes and follows it as `paddlectl run` does.
 * The links that found the job are kept for following it. */
#include "launcher/job/find.h"
#include "launcher/job/job_internal.h"

/* Fill in the nodes of the job that are among the hosts, and take over their links. */
static int take_job(struct job *j, struct ask_all *g, const struct found_job *f,
                    struct pd_err *err) {
    int most = f->n_nodes;
    find_join(g, f, 0);
    for (int i = 0; i < j->n_hosts; i++)
        most = f->host[i].has_job && f->host[i].node >= most ? f->host[i].node + 1 : most;
    struct job_node **by_id = pd_calloc((size_t)most + 1, sizeof *by_id);
    if (!by_id)
        return pd_oom(err, "the job's nodes");
    free(j->by_id);
    j->by_id = by_id;
    j->n_nodes = most;
    memcpy(j->id, f->id, sizeof j->id);
    j->c.env.job = j->id;
    for (int i = 0; i < j->n_hosts; i++) {
        struct job_node *n = &j->nodes[i];
        n->id = f->host[i].node;
        n->err = g->nodes[i].err; /* unreachable: the job may also run there */
        if (g->nodes[i].skip) {
            n->step = n->err.code ? NODE_GONE : NODE_LEFT_OUT;
            continue;
        }
        if (n->id >= 0)
            by_id[n->id] = n;
        n->link = g->nodes[i].link;
        g->nodes[i].link = NULL;
    }
    return 0;
}

static int find_job(struct job *j, const char *want, struct pd_err *err) {
    struct ask_all *g = j->search = pd_calloc(1, sizeof *j->search);
    struct found found = {0};
    const struct found_job *job;
    int rc = g ? ask_all_init(g, &j->c, err) : pd_oom(err, "the job's nodes"), bad = 0;
    if (!rc)
        rc = find_jobs(g, 0, &found, err);
    if (!rc)
        rc = find_choose(&found, want, FIND_RUNNING, &job, err);
    if (!rc)
        rc = take_job(j, g, job, err);
    for (int i = 0; rc && g && g->nodes && i < j->n_hosts; i++)
        bad += g->nodes[i].err.code != 0;
    if (bad && !g->interrupted) { /* the job may be on an unreachable host */
        ask_all_report(g);
        if (rc == PD_ENOENT)
            rc = err->code = PD_EHOST;
    }
    if (!rc)
        ask_all_leave(g);
    find_release(&found);
    return rc;
}

int job_attach(const struct pd_options *opts, const struct job_flags *flags, const char *want) {
    struct job *j = NULL;
    struct pd_err err = {0};
    int rc = job_new(&j, opts, flags, 0, &err), status;
    if (!rc) {
        j->joined = 1;
        job_owner_begin(j);
        rc = find_job(j, want, &err);
    }
    if (rc) {
        dprintf(STDERR_FILENO, "paddlectl: %s\n", err.msg);
        status = pd_code_exit_status(rc);
    } else {
        status = job_loop(j, JOB_JOIN);
    }
    if (j)
        job_free(j);
    return status;
}
