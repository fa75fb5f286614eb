/* job_attach.c - paddlectl attach: find a job on the nodes, and follow it as its launcher does. The
 * links that found it go on with it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/job/find.h"
#include "launcher/job/job_internal.h"

/* The job's nodes among the hosts; a link that was kept is handed over. */
static int take_job(struct job *j, struct ask_all *g, const struct found_job *f,
                    struct pd_err *err) {
    int most = f->n_nodes;
    find_join(g, f, 0);
    for (int i = 0; i < j->n_hosts; i++)
        most = f->at[i].here && f->at[i].node >= most ? f->at[i].node + 1 : most;
    struct node **by_id = pd_calloc((size_t)most + 1, sizeof *by_id);
    if (!by_id)
        return pd_oom(err, "the job's nodes");
    free(j->by_id);
    j->by_id = by_id;
    j->n_nodes = most;
    memcpy(j->id, f->id, sizeof j->id);
    j->c.env.job = j->id;
    for (int i = 0; i < j->n_hosts; i++) {
        struct node *n = &j->nodes[i];
        n->id = f->at[i].node;
        n->err = g->nodes[i].err; /* a host that could not be asked: the job may run there, too */
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

static int look_for(struct job *j, const char *want, struct pd_err *err) {
    struct ask_all *g = j->search = pd_calloc(1, sizeof *j->search);
    struct found found = {0};
    const struct found_job *job;
    int rc = g ? ask_all_init(g, &j->c, err) : pd_oom(err, "the job's nodes"), bad = 0;
    if (!rc)
        rc = find_jobs(g, &found, err);
    if (!rc)
        rc = find_choose(&found, want, FIND_RUNNING, &job, err);
    if (!rc)
        rc = take_job(j, g, job, err);
    for (int i = 0; rc && g && g->nodes && i < j->n_hosts; i++)
        bad += g->nodes[i].err.code != 0;
    if (bad && !g->interrupted) { /* not found where we could look */
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
    int rc = job_new(&j, opts, flags, &err), status;
    if (!rc) {
        j->joined = 1;
        rc = look_for(j, want, &err);
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
