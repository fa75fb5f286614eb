/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_clean.c - paddlectl clean: removes the files of earlier jobs from the hosts. */
#include "base/json_text.h"
#include "launcher/link/ask_all.h"
#include "launcher/cmd/cmd.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/table.h"

enum { CLEAN_MS = 600000 };

struct clean_cmd {
    int keep, workspaces, dry_run, json;
    int64_t store_limit;
};

static int take_cleaned(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    (void)err;
    n->data = json_incref(body);
    ask_all_done(n);
    return 0;
}

static void on_connected(struct ask_all_node *n) {
    const struct clean_cmd *c = n->g->arg;
    ask_all_request(n, WIRE_AG_CLEAN,
                    wire_put(&wire_ag_clean, &(struct ag_clean){.keep = c->keep,
                                                                .workspaces = c->workspaces,
                                                                .dry_run = c->dry_run,
                                                                .store_limit = c->store_limit}),
                    CLEAN_MS, "removing what earlier jobs left", take_cleaned);
}

/* Write "3 jobs", the number of removed things of this kind, to `out`. Returns the number. */
static int count(const json_t *removed, const char *kind, char *out, size_t cap) {
    const json_t *e;
    size_t i;
    int n = 0;
    json_array_foreach (removed, i, e)
        n += !strcmp(pd_json_text(e, "kind"), kind);
    pd_fmt(out, cap, "%d %s%s", n, kind, n == 1 ? "" : "s");
    return n;
}

/* The text of a host's report: a line, and with --dry-run a line for each thing. The caller frees
 * it. */
static char *report_of(const struct ask_all_node *n, int dry_run) {
    static const char *const kinds[] = {"job", "executable", "workspace"};
    const json_t *removed = json_object_get(n->data, "removed"), *e;
    char bytes[32], what[200] = "", one[60];
    size_t k, n_kept = json_array_size(json_object_get(n->data, "kept"));
    struct pd_buf b = {0};
    for (size_t j = 0; j < sizeof kinds / sizeof kinds[0]; j++)
        if (count(removed, kinds[j], one, sizeof one))
            pd_fmt(what + strlen(what), sizeof what - strlen(what), "%s%s", *what ? ", " : "", one);
    json_array_foreach (removed, k, e)
        if (!strcmp(pd_json_text(e, "kind"), "chunks")) /* "name" counts the packages */
            pd_fmt(what + strlen(what), sizeof what - strlen(what), "%s%.40s of the store",
                   *what ? ", " : "", pd_json_text(e, "name"));
    table_bytes(bytes, sizeof bytes, (double)json_integer_value(json_object_get(n->data, "freed")));
    pd_put_fmt(&b, "%s %s%s%s%s; %zu job%s kept", dry_run ? "would remove" : "removed",
               *what ? what : "nothing", *what ? " (" : "", *what ? bytes : "", *what ? ")" : "",
               n_kept, n_kept == 1 ? "" : "s");
    json_array_foreach (removed, k, e)
        if (dry_run)
            pd_put_fmt(&b, "\n  %s %s", pd_json_text(e, "kind"), pd_json_text(e, "name"));
    pd_put_u8(&b, 0);
    if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

/* The things that could not be removed from a host, a line for each; NULL: none. *n_failed counts
 * them. The caller frees it. */
static char *failed_of(const struct ask_all_node *n, int *n_failed) {
    const json_t *e;
    size_t k;
    struct pd_buf b = {0};
    json_array_foreach (json_object_get(n->data, "failed"), k, e) {
        pd_put_fmt(&b, "%s%s: %s", k ? "\n  " : "", pd_json_text(e, "path"),
                   pd_json_text(e, "error"));
        ++*n_failed;
    }
    if (b.len)
        pd_put_u8(&b, 0);
    if (b.len && !b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

/* Print the hosts' reports, equal ones once. Returns the number of things that could not be
 * removed. */
static int print_report(const struct ask_all *g, const struct clean_cmd *c) {
    const size_t n = g->c->hosts.n;
    struct fold_line *v = pd_calloc(2 * n, sizeof *v);
    int bad = 0;
    for (size_t i = 0; i < n && v; i++) {
        if (!g->nodes[i].data)
            continue;
        v[i] = (struct fold_line){.name = g->nodes[i].host->label,
                                  .text = report_of(&g->nodes[i], c->dry_run)};
        v[n + i] = (struct fold_line){.before = "paddlectl: ",
                                      .name = g->nodes[i].host->label,
                                      .text = failed_of(&g->nodes[i], &bad)};
    }
    if (v) {
        fold_lines(v, n, fold_print, stdout);
        fflush(stdout);
        fold_lines(v + n, n, fold_print, stderr);
    }
    for (size_t i = 0; i < 2 * n && v; i++)
        free((char *)(uintptr_t)v[i].text);
    free(v);
    return bad;
}

static int as_json(const struct ask_all *g) {
    json_t *hosts = json_array();
    int bad = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct ask_all_node *n = &g->nodes[i];
        json_t *o = n->data ? json_copy(n->data) : json_object();
        json_object_set_new(o, "host", json_string(n->host->label));
        if (n->err.code)
            json_object_set_new(o, "error", json_string(n->err.msg));
        bad += json_array_size(json_object_get(o, "failed")) > 0;
        json_array_append_new(hosts, o);
    }
    return cmd_print_json(json_pack("{s:o}", "hosts", hosts)) ? 1 : bad;
}

/* An engine that makes nodes gets back those on which no job runs. Their files go with them. */
static void give_back(struct ask_all *g, const struct clean_cmd *c, int only_show) {
    size_t n_busy = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        n_busy += json_array_size(json_object_get(g->nodes[i].data, "kept")) > 0;
    g->c->engine.unsure = ask_all_n_failed(g) && !g->interrupted;
    if (ask_all_n_failed(g) || g->interrupted)
        return;
    g->c->engine.dispose = !n_busy && !only_show;
    if (n_busy && !c->json)
        printf("a job runs on %zu of the %zu nodes: they stay\n", n_busy, g->c->hosts.n);
    else if (only_show && !c->json)
        printf("would delete the %zu nodes\n", g->c->hosts.n);
}

static int clean(const struct pd_options *o, struct clean_cmd *c, struct pd_err *err) {
    struct client_env cl;
    struct ask_all g;
    const int whole = engine_makes_nodes(o), only_show = c->dry_run;
    int bad = 0, rc = client_env_init(&cl, o, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &cl, err);
    if (!rc) {
        if (whole) { /* ask only what runs */
            c->keep = 0;
            c->dry_run = 1;
            for (size_t i = 0; i < cl.hosts.n; i++)
                g.nodes[i].skip = !engine_is_up(&cl.engine, i);
        }
        ask_all_run(&g, on_connected, c);
        if (whole)
            give_back(&g, c, only_show);
        bad = c->json ? as_json(&g) : whole ? 0 : print_report(&g, c);
        bad = ask_all_n_failed(&g) || g.interrupted ? ask_all_report(&g)
              : bad                                 ? pd_code_exit_status(PD_EHOST)
                                                    : 0;
    }
    ask_all_release(&g);
    client_env_release(&cl);
    return rc ? rc : bad;
}

int cmd_clean(int argc, char **argv) {
    struct clean_cmd c = {0};
    const char *keep = NULL;
    const struct pd_extra_option extra[] = {
        {"keep=N", NULL, &keep,
         "keep the N newest jobs that have ended; default: keep_jobs of conf.ini"},
        {"workspaces", &c.workspaces, NULL,
         "also remove deployed workspaces that no kept job uses and that are older than a day"},
        {"dry_run", &c.dry_run, NULL, "only show what would be removed"},
        CMD_JSON(&c.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl clean [options]\n"
                 "Removes the files of earlier jobs below root_dir on all hosts: the folders of "
                 "all but the newest jobs (with --keep=0 of all), executables older than a day, "
                 "and stored packages "
                 "beyond store_limit. Running jobs and packages in transfer are never touched.",
        .about = "Outputs that were not fetched are removed with their job: 'paddlectl ps' lists "
                 "the jobs, 'paddlectl fetch' copies their outputs. If the agent of a job was "
                 "killed, the processes that it left behind are ended first.\n"
                 "\n"
                 "With engine = kubernetes the command deletes the pods, unless a job runs on "
                 "them. A pod that does not run has no job. If a pod that runs does not answer, "
                 "the command of kubectl that deletes all is printed.\n",
        .examples = "paddlectl clean --dry-run\twhat would be removed\n"
                    "paddlectl clean --keep=0\tremoves all jobs that have ended\n",
        .extra = extra,
        .sections = "cluster.hosts cluster.root_dir ssh job.keep_jobs job.store_limit",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int64_t n = 0;
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    if (keep && pd_parse_i64(keep, 0, 10000, &n))
        rc = pd_fail(&err, PD_EUSAGE, "--keep must be a number from 0 to 10000, not '%s'", keep);
    c.keep = (int)(keep ? n : o.keep_jobs);
    c.store_limit = o.store_limit;
    if (!err.code)
        rc = clean(&o, &c, &err);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
