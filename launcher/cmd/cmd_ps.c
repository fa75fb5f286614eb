/* cmd_ps.c - paddlectl ps: lists the jobs of the hosts, one line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/str.h"
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/view/progress.h"
#include "launcher/text/table.h"
#include "launcher/text/when.h"

/* PROGRESS_JOBS: ps asks only the first so many running jobs for their progress. */
enum { ASK_MS = 10000, PROGRESS_JOBS = 16 };

struct ps_cmd {
    int running, json;
    json_t **progress; /* index: job; NULL: not known */
};

struct progress_answer {
    json_t *progress;
};

static int on_status(struct link *l, const struct wire_frame *f, json_t *body,
                     const struct pd_err *err, void *arg) {
    struct ask_all_node *n = arg;
    struct progress_answer *a = n->g->arg;
    (void)l;
    (void)f;
    if (!err && json_is_object(json_object_get(body, "progress"))) {
        json_decref(a->progress);
        a->progress = json_incref(json_object_get(body, "progress"));
    }
    ask_all_done(n); /* an error here means that the job has just ended */
    return 1;
}

static void on_connected(struct ask_all_node *n) {
    if (link_request(n->link, WIRE_AG_STATUS, json_object(), NULL, 0, ASK_MS,
                     "asking for the status", on_status, n))
        ask_all_done(n);
}

/* The progress of a job, from its running node with the lowest id; NULL if no node runs it. */
static json_t *ask_progress(struct ask_all *g, const struct found_job *job) {
    struct progress_answer a = {0};
    int first = -1;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (job->host[i].runs && (first < 0 || job->host[i].node < job->host[first].node))
            first = (int)i;
    if (first < 0)
        return NULL;
    find_join(g, job, 1);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        g->nodes[i].skip = (int)i != first;
        if ((int)i == first)
            pd_err_clear(&g->nodes[i].err);
    }
    ask_all_run(g, on_connected, &a);
    return a.progress;
}

static void print_table(const struct ps_cmd *p, const struct found *found) {
    static const char *const heads[] = {"JOB",     "USER", "STATE", "NODES",
                                        "STARTED", "FOR",  "MODE",  "PROGRESS"};
    struct table t;
    table_init(&t, 8, NULL);
    table_row(&t, heads);
    for (size_t i = 0; i < found->n; i++) {
        const struct found_job *j = &found->v[i];
        char nodes[32], started[24] = "", span[32] = "", progress[160] = "";
        struct progress how;
        struct tm tm;
        time_t at = (time_t)(j->started_us / 1000000);
        uint64_t end = j->ended_us > 0 ? (uint64_t)j->ended_us : j->n_running ? pd_wall_us() : 0;
        if (p->running && !j->n_running)
            continue;
        pd_fmt(nodes, sizeof nodes, "%d/%d", j->n_running ? j->n_running : j->n_having,
               j->n_nodes ? j->n_nodes : j->n_having);
        if (at && localtime_r(&at, &tm))
            strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S", &tm);
        if (at && end > (uint64_t)j->started_us)
            when_span(span, sizeof span, end - (uint64_t)j->started_us);
        if (p->progress[i] && !progress_parse(&how, p->progress[i]))
            progress_text(&how, progress, sizeof progress);
        const char *const row[] = {j->id,
                                   j->user,
                                   j->state,
                                   nodes,
                                   started,
                                   span,
                                   !j->n_running ? ""
                                   : j->attached ? "attached"
                                                 : "detached",
                                   progress};
        table_row(&t, row);
    }
    if (t.n > 1)
        table_print(&t, stdout);
    else
        fprintf(stderr, "paddlectl: no job is %s the hosts of conf.ini\n",
                p->running ? "running on" : "known on");
    table_release(&t);
}

static json_t *unreachable(const struct ask_all *g) {
    json_t *bad = json_array();
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (g->nodes[i].err.code)
            json_array_append_new(bad, json_pack("{s:s, s:s}", "host", g->nodes[i].host->label,
                                                 "error", g->nodes[i].err.msg));
    return bad;
}

static json_t *as_json(const struct ps_cmd *p, const struct found *found) {
    json_t *jobs = json_array();
    for (size_t i = 0; i < found->n; i++) {
        const struct found_job *j = &found->v[i];
        if (p->running && !j->n_running)
            continue;
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:I, s:I}", "job", j->id, "user",
                      j->user, "state", j->state, "nodes_running", j->n_running, "nodes_here",
                      j->n_having, "n_nodes", j->n_nodes, "attached", j->attached, "started_us",
                      (json_int_t)j->started_us, "ended_us", (json_int_t)j->ended_us);
        json_object_set_new(o, "progress",
                            p->progress[i] ? json_incref(p->progress[i]) : json_null());
        json_array_append_new(jobs, o);
    }
    return jobs;
}

static int list_jobs(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct ps_cmd *p = arg;
    (void)want;
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    json_t *bad = NULL;
    int n_asked = 0, status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, &found, err);
    if (!rc && !(p->progress = pd_calloc(found.n + 1, sizeof *p->progress)))
        rc = pd_oom(err, "a list of jobs");
    if (!rc) {
        bad = unreachable(&g);
        status = ask_all_n_failed(&g) ? ask_all_report(&g) : 0;
    }
    for (size_t i = 0; !rc && i < found.n && !g.interrupted && n_asked < PROGRESS_JOBS; i++)
        if (found.v[i].n_running) {
            p->progress[i] = ask_progress(&g, &found.v[i]);
            n_asked++;
        }
    if (!rc && g.interrupted)
        rc = pd_fail(err, PD_ECANCELED, "interrupted");
    else if (!rc && p->json)
        status =
            cmd_print_json(json_pack("{s:o, s:O}", "jobs", as_json(p, &found), "unreachable", bad))
                ? 1
                : status;
    else if (!rc)
        print_table(p, &found);
    for (size_t i = 0; p->progress && i < found.n; i++)
        json_decref(p->progress[i]);
    free(p->progress);
    json_decref(bad);
    find_release(&found);
    ask_all_release(&g);
    client_env_release(&c);
    return rc ? rc : status;
}

int cmd_ps(int argc, char **argv) {
    struct ps_cmd p = {0};
    const struct pd_extra_option extra[] = {
        {"running", &p.running, NULL, "list running jobs only"},
        CMD_JSON(&p.json),
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl ps [options]\n"
            "Lists the jobs on the hosts of conf.ini, the newest first: user, state, number of "
            "nodes, start time and progress. A job is 'lost' if its agents ended without a result.",
        .extra = extra,
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, list_jobs, &p);
}
