/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ps.c - paddlectl ps: lists the jobs of the hosts, one line each. */
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/view/progress.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/text/when.h"

struct ps_cmd {
    int running, json;
};

/* The columns in the order in which a narrow terminal lacks them (table_fit). */
static const char *const heads[] = {"JOB", "NAME", "USER", "STATE", "NODES",  "STARTED",
                                    "FOR", "MODE", "PASS", "DONE",  "METRIC", "SPEED"};
static const char leaving[] = "hclfeibgkj";

static void add_job(struct table *t, const struct found_job *j) {
    char nodes[32], started[24] = "", span[32] = "", pass[48] = "", percent[16] = "",
                    metric[80] = "", speed[60] = "";
    struct progress p;
    struct tm tm;
    time_t at = (time_t)(j->started_us / 1000000);
    uint64_t end = j->ended_us > 0 ? (uint64_t)j->ended_us : j->n_running ? pd_wall_us() : 0;
    pd_fmt(nodes, sizeof nodes, "%d/%d", j->n_running ? j->n_running : j->n_having,
           j->n_nodes ? j->n_nodes : j->n_having);
    if (at && localtime_r(&at, &tm))
        strftime(started, sizeof started, "%Y-%m-%d %H:%M", &tm);
    if (at && end > (uint64_t)j->started_us)
        when_span(span, sizeof span, end - (uint64_t)j->started_us);
    if (j->progress && !progress_parse(&p, j->progress)) {
        if (!j->n_running)
            progress_over(&p, j->state);
        pd_fmt(pass, sizeof pass, p.num_passes ? "%lld/%lld" : "%lld", (long long)p.pass + 1,
               (long long)p.num_passes);
        progress_percent(&p, percent, sizeof percent);
        progress_metric(&p, metric, sizeof metric);
        if (p.rate >= 0)
            pd_fmt(speed, sizeof speed, "%.0f %s/s", p.rate, p.unit);
    }
    const char *const row[] = {
        j->id, j->name, j->user, j->state,
        nodes, started, span,    !j->n_running ? "" : j->attached ? "attached" : "detached",
        pass,  percent, metric,  speed};
    table_row(t, row);
}

/* Text from a node for the terminal: control characters become '?'. */
static const char *shown(const char *text, char out[300]) {
    const size_t n = pd_utf8_valid(text, strlen(text) < 300 ? strlen(text) : 299);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)((unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i]);
    out[n] = 0;
    return out;
}

/* A running job that has lost nodes: which, why, and where the head is now. */
static void print_lost(const struct found_job *j, const struct client_env *c) {
    char host[300], reason[300];
    struct lost_node lost;
    const json_t *v;
    size_t i;
    json_array_foreach (j->lost, i, v)
        if (!wire_get(&wire_lost_node, &lost, v, NULL))
            printf("%s: %s (node %d) is lost: %s\n", j->id, shown(lost.host, host), (int)lost.node,
                   shown(lost.reason, reason));
    if (j->few_copies) {
        char bytes[16];
        table_bytes(bytes, sizeof bytes, (double)j->few_bytes);
        printf("%s: %lld data files (%s) have fewer copies than data_copies\n", j->id,
               (long long)j->few_copies, bytes);
    }
    for (i = 0; j->head && i < c->hosts.n; i++)
        if (j->host[i].node == j->head)
            printf("%s: %s (node %d) is the head now\n", j->id, c->hosts.v[i].label, j->head);
}

static void print_table(const struct ps_cmd *p, const struct client_env *c,
                        const struct found *found) {
    struct table t;
    table_init(&t, sizeof heads / sizeof heads[0], ".........r");
    table_fit(&t, term_limit(STDOUT_FILENO), leaving);
    table_row(&t, heads);
    for (size_t i = 0; i < found->n; i++)
        if (!p->running || found->v[i].n_running)
            add_job(&t, &found->v[i]);
    if (t.n > 1)
        table_print(&t, stdout);
    else
        fprintf(stderr, "paddlectl: no job is %s on the %shosts of conf.ini\n",
                p->running ? "running" : "known", found->n_unreachable ? "reachable " : "");
    table_release(&t);
    for (size_t i = 0; i < found->n; i++)
        if (found->v[i].n_running)
            print_lost(&found->v[i], c);
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
            json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:I, s:I}", "job", j->id, "name",
                      j->name, "user", j->user, "state", j->state, "nodes_running", j->n_running,
                      "nodes_here", j->n_having, "n_nodes", j->n_nodes, "attached", j->attached,
                      "started_us", (json_int_t)j->started_us, "ended_us", (json_int_t)j->ended_us);
        json_object_set_new(o, "head", json_integer(j->head));
        json_object_set_new(o, "lost", j->lost ? json_incref(j->lost) : json_array());
        json_object_set_new(o, "few_copies", json_integer(j->few_copies));
        json_object_set_new(o, "few_bytes", json_integer(j->few_bytes));
        json_object_set_new(o, "progress", j->progress ? json_incref(j->progress) : json_null());
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
    int status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, 1, &found, err);
    if (!rc) {
        bad = unreachable(&g);
        status = ask_all_n_failed(&g) ? ask_all_report(&g) : 0;
    }
    if (!rc && g.interrupted)
        rc = pd_fail(err, PD_ECANCELED, "interrupted");
    else if (!rc && p->json)
        status =
            cmd_print_json(json_pack("{s:o, s:O}", "jobs", as_json(p, &found), "unreachable", bad))
                ? 1
                : status;
    else if (!rc)
        print_table(p, &c, &found);
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
            "Lists the jobs on the hosts of conf.ini, the newest first: name, user, state, number "
            "of "
            "nodes, start time, duration, progress and last metric. A job is 'preparing' before it "
            "is set up, and 'lost' if its agents ended without a result. Lines below the table "
            "name the "
            "lost nodes of running jobs and why, data files with fewer copies than data_copies, "
            "and a head that has moved. A narrow terminal "
            "lacks "
            "some columns; a pipe gets all.",
        .extra = extra,
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, list_jobs, &p);
}
