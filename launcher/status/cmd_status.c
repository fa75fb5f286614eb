/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - paddlectl status: shows one job node by node, as its agents report it now. */
#include "base/json_text.h"
#include "launcher/status/answers.h"
#include "launcher/cmd/cmd.h"
#include "launcher/view/progress.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/text/when.h"

struct status_cmd {
    int json;
};

static int64_t int_of(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

static void print_failure(const json_t *f, int64_t later, const char *host) {
    int64_t code = int_of(f, "exit_code"), sig = int_of(f, "signal");
    const char *role = pd_json_text(f, "role"), *reason = pd_json_text(f, "reason");
    printf("first failure: %s", host);
    if (*role && strcmp(role, "agent"))
        printf(", %s %lld", role, (long long)int_of(f, "rank"));
    if (sig > 0)
        printf(": ended by signal %lld (%s)", (long long)sig, strsignal((int)sig));
    else if (code > 0)
        printf(": exit status %lld", (long long)code);
    printf("%s%s\n", *reason ? ": " : "", reason);
    for (const char *p = pd_json_text(f, "last_lines"); *p;) {
        size_t n = strcspn(p, "\n");
        printf("    | %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    if (later > 0)
        printf("  %lld other failure%s followed\n", (long long)later, later == 1 ? "" : "s");
}

static void print_lost(const struct answers *s) {
    struct fold_line *v = pd_calloc(s->g->c->hosts.n, sizeof *v);
    int64_t id;
    for (size_t i = 0; v && i < s->g->c->hosts.n; i++)
        v[i] = (struct fold_line){.before = "lost: ",
                                  .name = s->g->nodes[i].host->label,
                                  .text = answers_lost_why(s, i, &id)};
    if (v)
        fold_lines(v, s->g->c->hosts.n, fold_print, stdout);
    free(v);
}

static void print_head(const struct answers *s) {
    const struct node_answer *head = answers_head(s);
    char text[200], span[40] = "", when[40] = "";
    struct progress p;
    struct tm tm;
    int64_t later;
    time_t at = (time_t)(s->job->started_us / 1000000);
    uint64_t end = s->job->ended_us > 0 ? (uint64_t)s->job->ended_us : pd_wall_us();
    const char *state = head ? head->status.state : s->job->state;
    if (at && localtime_r(&at, &tm))
        strftime(when, sizeof when, "started %Y-%m-%d %H:%M:%S", &tm);
    if (at && end > (uint64_t)s->job->started_us)
        when_span(span, sizeof span, end - (uint64_t)s->job->started_us);
    printf("%s%s%s%s: %s%s%s, %d node%s\n", s->job->id, *s->job->name ? " (" : "", s->job->name,
           *s->job->name ? ")" : "", s->job->n_running ? s->job->state : state,
           *span ? s->job->n_running ? " for " : " after " : "", span, s->job->n_nodes,
           s->job->n_nodes == 1 ? "" : "s");
    if (*when || *s->job->user)
        printf("%s%s%s%s\n", when, *when && *s->job->user ? " by " : "", s->job->user,
               !s->job->n_running ? ""
               : s->job->attached ? ", attached"
                                  : ", detached");
    if (head && (s->job->n_running || !strcmp(state, "lost")))
        printf("now: %s%s%s\n", state, *head->status.text ? ": " : "", head->status.text);
    if (head && head->status.head)
        printf("head: node %lld\n", (long long)head->status.head);
    print_lost(s);
    json_t *event = answers_progress(s);
    if (event && !progress_parse(&p, event)) {
        if (!s->job->n_running)
            progress_over(&p, state);
        progress_text(&p, text, sizeof text);
        printf("progress: %s\n", text);
    }
    json_t *f = answers_failure(s, &later);
    if (f) {
        const char *host = pd_json_text(f, "host");
        for (size_t i = 0; i < s->g->c->hosts.n; i++)
            if (s->job->host[i].has_job && s->job->host[i].node == int_of(f, "node"))
                host = s->g->nodes[i].host->label;
        print_failure(f, later, host);
    }
}

/* --- the nodes --- */

static void state_of_process(char *out, size_t cap, const struct node_process *p) {
    if (answers_runs(p))
        pd_fmt(out, cap, "%s", p->stopped ? "stopped" : p->listening ? "serving" : "running");
    else if (p->signal > 0)
        pd_fmt(out, cap, "signal %lld", (long long)p->signal);
    else if (p->exit_code >= 0)
        pd_fmt(out, cap, "exit %lld", (long long)p->exit_code);
    else
        pd_fmt(out, cap, "ended");
}

static void add_process(struct table *t, const struct node_answer *a, const char *id,
                        const char *host, const char *state, size_t i, const char *restarts,
                        const char *speed, const char *waits) {
    const struct node_process p = answers_process(a->status.processes, i);
    char who[32], how[32], pid[16], cpus[64], rss[16] = "", cpu[16] = "", threads[16] = "",
                                              up[40] = "", port[16] = "";
    int64_t end = answers_runs(&p) || !p.ended_us ? a->status.now_us : p.ended_us;
    double percent = answers_cpu_percent(a, i);
    int bound = *p.bind && strcmp(p.bind, "none");
    pd_fmt(who, sizeof who, "%.16s %lld", p.role, (long long)p.rank);
    state_of_process(how, sizeof how, &p);
    pd_fmt(pid, sizeof pid, "%lld", (long long)p.pid);
    if (pd_fmt(cpus, sizeof cpus, "%s%s%s", p.cpus, bound ? " " : "", bound ? p.bind : ""))
        pd_fmt(cpus, sizeof cpus, "many");
    if (answers_runs(&p)) {
        table_bytes(rss, sizeof rss, (double)p.rss_bytes);
        pd_fmt(threads, sizeof threads, "%lld", (long long)p.threads);
    }
    if (percent >= 0)
        pd_fmt(cpu, sizeof cpu, "%.0f%%", percent);
    if (p.port > 0)
        pd_fmt(port, sizeof port, "%lld", (long long)p.port);
    if (p.started_us > 0 && end > p.started_us)
        when_span(up, sizeof up, (uint64_t)(end - p.started_us));
    const char *const row[] = {id,  host, state,   who, how,      pid,   port, cpus,
                               rss, cpu,  threads, up,  restarts, speed, waits};
    table_row(t, row);
}

static void add_node(struct table *t, const struct answers *s, const struct ask_all_node *n) {
    const struct node_answer *a = &s->v[n->id];
    int64_t lost_id = 0;
    const char *lost = answers_lost_why(s, (size_t)n->id, &lost_id);
    char id[16] = "", restarts[16] = "", speed[80] = "", waits[16] = "";
    struct progress p;
    size_t n_processes = json_array_size(a->status.processes);
    if (s->job->host[n->id].node < 0 && lost)
        pd_fmt(id, sizeof id, "%lld", (long long)lost_id);
    else if (s->job->host[n->id].node >= 0)
        pd_fmt(id, sizeof id, "%d", s->job->host[n->id].node);
    if (!a->body || lost) {
        const char *const row[TABLE_COLUMNS] = {id, n->host->label, lost ? "lost" : "unreachable"};
        table_row(t, row);
        return;
    }
    if (a->status.restarts > 0)
        pd_fmt(restarts, sizeof restarts, "%lld", (long long)a->status.restarts);
    if (!progress_parse(&p, a->status.progress) && p.own_rate >= 0) {
        snprintf(speed, sizeof speed, "%.0f %s/s", p.own_rate, p.unit);
        if (p.wait >= 0)
            snprintf(waits, sizeof waits, "%.0f %%", p.wait * 100);
    }
    if (!n_processes) {
        const char *const row[TABLE_COLUMNS] = {id, n->host->label, a->status.state};
        table_row(t, row);
    }
    for (size_t i = 0; i < n_processes; i++) {
        const struct node_process q = answers_process(a->status.processes, i);
        int trains = !strcmp(q.role, "trainer") && answers_runs(&q);
        add_process(t, a, i ? "" : id, i ? "" : n->host->label, i ? "" : a->status.state, i,
                    i ? "" : restarts, trains ? speed : "", trains ? waits : "");
    }
}

static void print_nodes(const struct answers *s) {
    static const char *const heads[] = {"NODE",    "HOST", "STATE",    "PROCESS", "IS",
                                        "PID",     "PORT", "CPUS",     "MEMORY",  "CPU",
                                        "THREADS", "FOR",  "RESTARTS", "SPEED",   "WAITS"};
    struct table t;
    table_init(&t, sizeof heads / sizeof heads[0], "r....rr.rrr.r.r");
    table_fit(&t, term_limit(STDOUT_FILENO), "kghmlfjion");
    table_row(&t, heads);
    for (size_t i = 0; i < s->g->c->hosts.n; i++)
        if (!s->g->nodes[i].skip || s->g->nodes[i].err.code)
            add_node(&t, s, &s->g->nodes[i]);
    printf("\n");
    table_print(&t, stdout);
    table_release(&t);
}

static json_t *or_null(json_t *o) { return o ? json_incref(o) : json_null(); }

static int print_json(const struct answers *s) {
    const struct node_answer *head = answers_head(s);
    json_t *nodes = json_array(), *bad = json_array();
    int64_t later;
    for (size_t i = 0; i < s->g->c->hosts.n; i++) {
        const struct ask_all_node *n = &s->g->nodes[i];
        struct node_answer *a = &s->v[i];
        if (n->err.code)
            json_array_append_new(
                bad, json_pack("{s:s, s:s}", "host", n->host->label, "error", n->err.msg));
        if (!a->body)
            continue;
        json_t *o = json_copy(a->body), *p;
        size_t k;
        json_object_set_new(o, "host", json_string(n->host->label));
        json_array_foreach (json_object_get(o, "processes"), k, p) {
            double percent = answers_cpu_percent(a, k);
            json_object_set_new(p, "cpu_percent", percent >= 0 ? json_real(percent) : json_null());
        }
        json_array_append_new(nodes, o);
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:i, s:I, s:I}", "job", s->job->id,
                          "user", s->job->user, "state", head ? head->status.state : s->job->state,
                          "text", head ? head->status.text : "", "running", s->job->n_running > 0,
                          "attached", s->job->attached, "n_nodes", s->job->n_nodes, "started_us",
                          (json_int_t)s->job->started_us, "ended_us", (json_int_t)s->job->ended_us);
    json_object_set_new(o, "progress", or_null(answers_progress(s)));
    json_object_set_new(o, "first_failure", or_null(answers_failure(s, &later)));
    json_object_set_new(o, "later_failures", json_integer(later));
    json_object_set_new(o, "lost", or_null(head ? head->status.lost : NULL));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "unreachable", bad);
    return cmd_print_json(o);
}

/* --- the command --- */

static int report(struct answers *s, struct pd_err *err) {
    const struct status_cmd *cmd = s->arg;
    s->on_answer = answers_twice;
    int rc = answers_run(s, 0, err), status = 0;
    if (rc)
        return rc;
    if (cmd->json) {
        status = print_json(s);
    } else {
        print_head(s);
        print_nodes(s);
        fflush(stdout);
    }
    return ask_all_n_failed(s->g) ? ask_all_report(s->g) : status;
}

static int status_of(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    return answers_main(o, want, report, arg, err);
}

int cmd_status(int argc, char **argv) {
    struct status_cmd s = {0};
    const struct pd_extra_option extra[] = {CMD_JSON(&s.json), {0}};
    const struct cmd_line line = {
        .usage = "paddlectl status [options] [JOB]\n"
                 "Shows the present state of a job: its current phase and the nodes that it waits "
                 "for, the progress, the first failure, and every process with CPUs, memory and "
                 "speed. Without JOB: the only running job, else the newest job.",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, status_of, &s);
}
