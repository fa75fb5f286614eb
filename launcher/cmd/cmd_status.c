/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_status.c - paddlectl status: shows one job node by node, as its agents report it now. */
#include "base/json_text.h"
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/view/progress.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/text/when.h"

enum { ASK_MS = 10000, CPU_MS = 400 }; /* CPU_MS: CPU use is measured over this time */

struct asked { /* the answers of a host; index: host of conf.ini */
    struct ask_all_node *n;
    json_t *body, *result;
    struct ag_status_answer status; /* of body; without a body zeros */
    json_t *before; /* the processes CPU_MS earlier; NULL: only one request was sent */
    int64_t before_us;
    uv_timer_t again;
    int has_timer;
};

struct status_cmd {
    int json;
    struct asked *asked;
};

static int64_t int_of(const json_t *o, const char *key) {
    return json_integer_value(json_object_get(o, key));
}

/* --- requests --- */

static void request_status(struct asked *a);
static void on_again(uv_timer_t *t) {
    struct asked *a = t->data;
    if (a->n->link && !a->n->over)
        request_status(a);
}

static int runs(const struct node_process *p) { return !strcmp(p->state, "running"); }

/* Process i of the list; zeros and empty texts if there is none. */
static struct node_process process_at(const json_t *processes, size_t i) {
    struct node_process p;
    if (wire_get(&wire_node_process, &p, json_array_get(processes, i), NULL))
        (void)wire_get(&wire_node_process, &p, NULL, NULL);
    return p;
}

static int take_status(struct ask_all_node *n, json_t *body, struct pd_err *err) {
    struct asked *a = &((const struct status_cmd *)n->g->arg)->asked[n->id];
    struct ag_status_answer m;
    int rc = wire_get(&wire_ag_status_answer, &m, body, err), n_running = 0;
    if (rc)
        return rc;
    json_decref(a->body);
    a->body = json_incref(body);
    a->status = m;
    for (size_t i = 0; i < json_array_size(m.processes); i++) {
        struct node_process p = process_at(m.processes, i);
        n_running += runs(&p);
    }
    if (a->before || !n_running) {
        ask_all_done(n);
        return 0;
    }
    a->before = json_incref(m.processes);
    a->before_us = m.now_us;
    uv_timer_start(&a->again, on_again, CPU_MS, 0);
    return 0;
}

static void request_status(struct asked *a) {
    ask_all_request(a->n, WIRE_AG_STATUS, json_object(), ASK_MS, "asking for the status",
                    take_status);
}

static void on_connected(struct ask_all_node *n) {
    const struct status_cmd *s = n->g->arg;
    struct asked *a = &s->asked[n->id];
    a->n = n;
    uv_timer_init(&n->g->c->loop, &a->again);
    a->again.data = a;
    a->has_timer = 1;
    request_status(a);
}

static void on_frame(struct ask_all_node *n, const struct wire_frame *f, json_t *body) {
    struct asked *a = &((const struct status_cmd *)n->g->arg)->asked[n->id];
    if (f->type == WIRE_AG_RESULT && !a->result)
        a->result = json_incref(body);
}

/* The CPU time of process i between the two answers, in percent of one CPU; -1: not known. */
static double cpu_percent(const struct asked *a, size_t i) {
    int64_t us = a->status.now_us - a->before_us;
    struct node_process p = process_at(a->status.processes, i), old = process_at(a->before, i);
    if (!a->before || us <= 0 || old.pid != p.pid || !runs(&p))
        return -1;
    return (double)(p.cpu_ms - old.cpu_ms) * 1e5 / (double)us;
}

/* --- the job as a whole --- */

/* The node of the head: the highest one that an answer names. Heads before it are lost. */
static int64_t head_node(const struct status_cmd *s, const struct ask_all *g) {
    int64_t node = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (s->asked[i].body && s->asked[i].status.head > node)
            node = s->asked[i].status.head;
    return node;
}

/* The head's answer, else that of the node with the lowest id. NULL: no answers. */
static const struct asked *head_of(const struct status_cmd *s, const struct ask_all *g) {
    const struct asked *best = NULL;
    const int64_t head = head_node(s, g);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct asked *a = &s->asked[i];
        if (a->body && (!best || a->status.node == head ||
                        (best->status.node != head && a->status.node < best->status.node)))
            best = a;
    }
    return best;
}

/* Why the head says that the job continues without this host, and its id there; NULL: the host is
 * not lost. An unreachable host has no known node id and is compared by name. */
static const char *lost_why(const struct status_cmd *s, const struct ask_all *g,
                            const struct found_job *job, int host, int64_t *id) {
    const struct asked *head = head_of(s, g);
    const json_t *v;
    struct lost_node lost;
    size_t i;
    json_array_foreach (head ? head->status.lost : NULL, i, v)
        if (!wire_get(&wire_lost_node, &lost, v, NULL) &&
            (job->host[host].node >= 0 ? job->host[host].node == lost.node
                                       : !strcmp(lost.host, g->nodes[host].host->label))) {
            *id = lost.node;
            return lost.reason;
        }
    return NULL;
}

static int is_lost(const struct status_cmd *s, const struct ask_all *g, const struct found_job *job,
                   size_t host) {
    int64_t id;
    return lost_why(s, g, job, (int)host, &id) != NULL;
}

/* The progress event of the lowest rank, without lost hosts; NULL: none. */
static json_t *progress_of(const struct status_cmd *s, const struct ask_all *g,
                           const struct found_job *job) {
    json_t *best = NULL;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        json_t *p = s->asked[i].status.progress;
        if (p && (!best || int_of(p, "rank") < int_of(best, "rank")) && !is_lost(s, g, job, i))
            best = p;
    }
    return best;
}

/* The first failure of the job: the head's report if there is one, else any node's. */
static json_t *failure_of(const struct status_cmd *s, const struct ask_all *g,
                          const struct found_job *job, int64_t *later) {
    json_t *best = NULL;
    const int64_t head = head_node(s, g);
    *later = 0;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        json_t *f = json_object_get(s->asked[i].result, "first_failure");
        if (!json_is_object(f) || (best && int_of(s->asked[i].result, "node") != head) ||
            is_lost(s, g, job, i))
            continue;
        best = f;
        *later = int_of(s->asked[i].result, "later_failures");
    }
    return best;
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

static void print_lost(const struct status_cmd *s, const struct ask_all *g,
                       const struct found_job *job) {
    struct fold_line *v = pd_calloc(g->c->hosts.n, sizeof *v);
    int64_t id;
    for (size_t i = 0; v && i < g->c->hosts.n; i++)
        v[i] = (struct fold_line){.before = "lost: ",
                                  .name = g->nodes[i].host->label,
                                  .text = lost_why(s, g, job, (int)i, &id)};
    if (v)
        fold_lines(v, g->c->hosts.n, fold_print, stdout);
    free(v);
}

static void print_head(const struct status_cmd *s, const struct ask_all *g,
                       const struct found_job *job) {
    const struct asked *head = head_of(s, g);
    char text[200], span[40] = "", when[40] = "";
    struct progress p;
    struct tm tm;
    int64_t later;
    time_t at = (time_t)(job->started_us / 1000000);
    uint64_t end = job->ended_us > 0 ? (uint64_t)job->ended_us : pd_wall_us();
    const char *state = head ? head->status.state : job->state;
    if (at && localtime_r(&at, &tm))
        strftime(when, sizeof when, "started %Y-%m-%d %H:%M:%S", &tm);
    if (at && end > (uint64_t)job->started_us)
        when_span(span, sizeof span, end - (uint64_t)job->started_us);
    printf("%s%s%s%s: %s%s%s, %d node%s\n", job->id, *job->name ? " (" : "", job->name,
           *job->name ? ")" : "", job->n_running ? job->state : state,
           *span ? job->n_running ? " for " : " after " : "", span, job->n_nodes,
           job->n_nodes == 1 ? "" : "s");
    if (*when || *job->user)
        printf("%s%s%s%s\n", when, *when && *job->user ? " by " : "", job->user,
               !job->n_running ? ""
               : job->attached ? ", attached"
                               : ", detached");
    if (head && (job->n_running || !strcmp(state, "lost")))
        printf("now: %s%s%s\n", state, *head->status.text ? ": " : "", head->status.text);
    if (head && head->status.head)
        printf("head: node %lld\n", (long long)head->status.head);
    print_lost(s, g, job);
    json_t *event = progress_of(s, g, job);
    if (event && !progress_parse(&p, event)) {
        if (!job->n_running)
            progress_over(&p, state);
        progress_text(&p, text, sizeof text);
        printf("progress: %s\n", text);
    }
    json_t *f = failure_of(s, g, job, &later);
    if (f) {
        const char *host = pd_json_text(f, "host");
        for (size_t i = 0; i < g->c->hosts.n; i++)
            if (job->host[i].has_job && job->host[i].node == int_of(f, "node"))
                host = g->nodes[i].host->label;
        print_failure(f, later, host);
    }
}

/* --- the nodes --- */

static void state_of_process(char *out, size_t cap, const struct node_process *p) {
    if (runs(p))
        pd_fmt(out, cap, "%s", p->listening ? "serving" : "running");
    else if (p->signal > 0)
        pd_fmt(out, cap, "signal %lld", (long long)p->signal);
    else if (p->exit_code >= 0)
        pd_fmt(out, cap, "exit %lld", (long long)p->exit_code);
    else
        pd_fmt(out, cap, "ended");
}

static void add_process(struct table *t, const struct asked *a, const char *id, const char *host,
                        const char *state, size_t i, const char *restarts, const char *speed,
                        const char *waits) {
    const struct node_process p = process_at(a->status.processes, i);
    char who[32], how[32], pid[16], cpus[64], rss[16] = "", cpu[16] = "", threads[16] = "",
                                              up[40] = "", port[16] = "";
    int64_t end = runs(&p) || !p.ended_us ? a->status.now_us : p.ended_us;
    double percent = cpu_percent(a, i);
    int bound = *p.bind && strcmp(p.bind, "none");
    pd_fmt(who, sizeof who, "%.16s %lld", p.role, (long long)p.rank);
    state_of_process(how, sizeof how, &p);
    pd_fmt(pid, sizeof pid, "%lld", (long long)p.pid);
    if (pd_fmt(cpus, sizeof cpus, "%s%s%s", p.cpus, bound ? " " : "", bound ? p.bind : ""))
        pd_fmt(cpus, sizeof cpus, "many");
    if (runs(&p)) {
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

static void add_node(struct table *t, const struct status_cmd *s, const struct ask_all_node *n,
                     const struct found_job *job) {
    const struct asked *a = &s->asked[n->id];
    int64_t lost_id = 0;
    const char *lost = lost_why(s, n->g, job, n->id, &lost_id);
    char id[16] = "", restarts[16] = "", speed[80] = "", waits[16] = "";
    struct progress p;
    size_t n_processes = json_array_size(a->status.processes);
    if (job->host[n->id].node < 0 && lost)
        pd_fmt(id, sizeof id, "%lld", (long long)lost_id);
    else if (job->host[n->id].node >= 0)
        pd_fmt(id, sizeof id, "%d", job->host[n->id].node);
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
        const struct node_process q = process_at(a->status.processes, i);
        int trains = !strcmp(q.role, "trainer") && runs(&q);
        add_process(t, a, i ? "" : id, i ? "" : n->host->label, i ? "" : a->status.state, i,
                    i ? "" : restarts, trains ? speed : "", trains ? waits : "");
    }
}

static void print_nodes(const struct status_cmd *s, const struct ask_all *g,
                        const struct found_job *job) {
    static const char *const heads[] = {"NODE",    "HOST", "STATE",    "PROCESS", "IS",
                                        "PID",     "PORT", "CPUS",     "MEMORY",  "CPU",
                                        "THREADS", "FOR",  "RESTARTS", "SPEED",   "WAITS"};
    struct table t;
    table_init(&t, sizeof heads / sizeof heads[0], "r....rr.rrr.r.r");
    table_fit(&t, term_limit(STDOUT_FILENO), "kghmlfjion");
    table_row(&t, heads);
    for (size_t i = 0; i < g->c->hosts.n; i++)
        if (!g->nodes[i].skip || g->nodes[i].err.code)
            add_node(&t, s, &g->nodes[i], job);
    printf("\n");
    table_print(&t, stdout);
    table_release(&t);
}

static json_t *or_null(json_t *o) { return o ? json_incref(o) : json_null(); }

static int print_json(const struct status_cmd *s, const struct ask_all *g,
                      const struct found_job *job) {
    const struct asked *head = head_of(s, g);
    json_t *nodes = json_array(), *bad = json_array();
    int64_t later;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct ask_all_node *n = &g->nodes[i];
        struct asked *a = &s->asked[i];
        if (n->err.code)
            json_array_append_new(
                bad, json_pack("{s:s, s:s}", "host", n->host->label, "error", n->err.msg));
        if (!a->body)
            continue;
        json_t *o = json_copy(a->body), *p;
        size_t k;
        json_object_set_new(o, "host", json_string(n->host->label));
        json_array_foreach (json_object_get(o, "processes"), k, p) {
            double percent = cpu_percent(a, k);
            json_object_set_new(p, "cpu_percent", percent >= 0 ? json_real(percent) : json_null());
        }
        json_array_append_new(nodes, o);
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:i, s:I, s:I}", "job", job->id, "user",
                          job->user, "state", head ? head->status.state : job->state, "text",
                          head ? head->status.text : "", "running", job->n_running > 0, "attached",
                          job->attached, "n_nodes", job->n_nodes, "started_us",
                          (json_int_t)job->started_us, "ended_us", (json_int_t)job->ended_us);
    json_object_set_new(o, "progress", or_null(progress_of(s, g, job)));
    json_object_set_new(o, "first_failure", or_null(failure_of(s, g, job, &later)));
    json_object_set_new(o, "later_failures", json_integer(later));
    json_object_set_new(o, "lost", or_null(head ? head->status.lost : NULL));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "unreachable", bad);
    return cmd_print_json(o);
}

/* --- the command --- */

static int report(struct status_cmd *s, struct ask_all *g, const struct found_job *job,
                  struct pd_err *err) {
    s->asked = pd_calloc(g->c->hosts.n, sizeof *s->asked);
    if (!s->asked)
        return pd_oom(err, "the state of a job");
    find_join(g, job, 0);
    g->on_frame = on_frame;
    ask_all_run(g, on_connected, s);
    if (g->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    int bad = ask_all_n_failed(g), status = 0;
    if (s->json) {
        status = print_json(s, g, job);
    } else {
        print_head(s, g, job);
        print_nodes(s, g, job);
        fflush(stdout);
    }
    return bad ? ask_all_report(g) : status;
}

static void release(struct status_cmd *s, size_t n, struct ask_all *g) {
    for (size_t i = 0; s->asked && i < n; i++) {
        if (s->asked[i].has_timer)
            uv_close((uv_handle_t *)&s->asked[i].again, NULL);
        json_decref(s->asked[i].body);
        json_decref(s->asked[i].result);
        json_decref(s->asked[i].before);
    }
    ask_all_release(g); /* runs the loop once more, which closes the timers */
    free(s->asked);
}

static int status_of(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct status_cmd *s = arg;
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    const struct found_job *job;
    int rc = client_env_init(&c, o, err), status = 0;
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    if (!rc)
        rc = find_jobs(&g, 0, &found, err);
    if (!rc && (rc = find_choose(&found, want, FIND_RUNNING, &job, err)) == PD_ENOENT && !want) {
        pd_err_clear(err);
        rc = find_choose(&found, NULL, FIND_NEWEST, &job, err);
    }
    if (rc == PD_ENOENT && ask_all_n_failed(&g)) {
        ask_all_report(&g); /* the job may be on an unreachable host */
        err->code = rc = PD_EHOST;
    }
    if (!rc)
        status = report(s, &g, job, err);
    find_release(&found);
    release(s, c.hosts.n, &g);
    client_env_release(&c);
    return rc ? rc : status;
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
