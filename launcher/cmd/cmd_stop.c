/* cmd_stop.c - paddlectl stop: which jobs run, then end one of them on all its nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/cmd/cmd.h"
#include "launcher/cluster/gather.h"

enum { ASK_MS = 30000, GRACE_MS = 1000, JOBS_MAX = 64 };

static int on_list(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct gather_node *n = arg;
    (void)l;
    (void)f;
    if (err) {
        gather_fail(n, err);
        return 1;
    }
    n->data = json_incref(json_object_get(body, "jobs"));
    gather_done(n);
    return 1;
}

static void ask(struct gather_node *n, unsigned type, json_t *body, uint64_t ms, const char *what, link_answer answer) {
    struct pd_err err = {0};
    if (!link_request(n->link, type, body, NULL, 0, ms, what, answer, n))
        return;
    pd_fail(&err, PD_ENOMEM, "out of memory");
    gather_fail(n, &err);
}

static void list(struct gather_node *n) { ask(n, WIRE_AG_LIST, json_object(), ASK_MS, "listing jobs", on_list); }

static int on_stopped(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct gather_node *n = arg;
    (void)l;
    (void)f;
    (void)body;
    if (err)
        gather_fail(n, err);
    else
        gather_done(n);
    return 1;
}

static void stop(struct gather_node *n) {
    ask(n, WIRE_AG_STOP, json_pack("{s:i, s:s}", "grace_ms", GRACE_MS, "reason", "paddlectl stop"), ASK_MS,
        "ending the processes", on_stopped);
}

static int is_over(const char *state) {
    static const char *const over[] = {"done", "failed", "stopped", "lost"};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (!strcmp(state, over[i]))
            return 1;
    return 0;
}

/* 1: this node runs the job; 0: it has it, but it is over; -1: it doesn't have it. */
static int runs(const struct gather_node *n, const char *job) {
    size_t i;
    json_t *e;
    json_array_foreach(n->data, i, e) {
        const char *id = json_string_value(json_object_get(e, "job")), *state = json_string_value(json_object_get(e, "state"));
        if (id && !strcmp(id, job))
            return json_integer_value(json_object_get(e, "pid")) > 0 && !(state && is_over(state));
    }
    return -1;
}

/* Names of all jobs that run anywhere, each once. */
static int running(const struct gather *g, char out[JOBS_MAX][64]) {
    int n = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        size_t k;
        json_t *e;
        json_array_foreach(g->nodes[i].data, k, e) {
            const char *id = json_string_value(json_object_get(e, "job"));
            int known = !id || strlen(id) > 63 || n == JOBS_MAX || runs(&g->nodes[i], id) != 1;
            for (int j = 0; j < n && !known; j++)
                known = !strcmp(out[j], id);
            if (!known)
                strcpy(out[n++], id);
        }
    }
    return n;
}

static int choose(const struct gather *g, const char *want, char job[64], struct pd_err *err) {
    char jobs[JOBS_MAX][64], names[600] = "";
    int n = running(g, jobs), state = -1;
    if (want) {
        if (pd_fmt(job, 64, "%s", want))
            return pd_fail(err, PD_EUSAGE, "'%s' is not a job's id", want);
        for (size_t i = 0; i < g->c->hosts.n; i++)
            state = runs(&g->nodes[i], want) > state ? runs(&g->nodes[i], want) : state;
        if (state < 0)
            return pd_fail(err, PD_ENOENT, "no host of conf.ini has a job %s", want);
        return 0;
    }
    if (!n)
        return pd_fail(err, PD_ENOENT, "no job is running");
    for (int i = 0; i < n; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %.63s", jobs[i]);
    if (n > 1)
        return pd_fail(err, PD_EUSAGE, "%d jobs are running, say which:%s", n, names);
    strcpy(job, jobs[0]);
    return 0;
}

static int stop_job(const struct pd_options *o, const char *want, struct pd_err *err) {
    struct cluster c;
    struct gather g;
    char job[64];
    int status = 0, n = 0, rc = cluster_init(&c, o, err);
    if (rc)
        return rc;
    rc = gather_init(&g, &c, err);
    if (!rc && gather_run(&g, list, NULL))
        status = gather_say(&g); /* go on with the hosts that answered, but don't claim success */
    if (!rc && !g.interrupted)
        rc = choose(&g, want, job, err);
    if (!rc && !g.interrupted) {
        for (size_t i = 0; i < c.hosts.n; i++) {
            g.nodes[i].skip = g.nodes[i].err.code || runs(&g.nodes[i], job) != 1;
            n += !g.nodes[i].skip;
            pd_err_clear(&g.nodes[i].err);
        }
        c.env.job = job;
        if (gather_run(&g, stop, NULL))
            status = gather_say(&g);
        if (n)
            printf("%s: stopped on %d node%s\n", job, n, n == 1 ? "" : "s");
        else
            printf("%s is over already\n", job);
    }
    gather_release(&g);
    cluster_release(&c);
    return rc ? rc : status;
}

int cmd_stop(int argc, char **argv) {
    static const struct cmd_line line = {
        .usage = "paddlectl stop [options] [JOB]\n"
                 "Ends the processes of a job on all hosts of conf.ini. Without JOB: of the only one that runs.",
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = stop_job(&o, n_rest ? rest[0] : NULL, &err);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
