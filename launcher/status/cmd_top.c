/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_top.c - paddlectl top: the processes of a job, those first that hold the others up, again and
 * again.
 *
 *     AG_STATUS of each node ──▶ answers ──▶ rows, sorted ──▶ a live block, one table, or JSON */
#include "base/json_text.h"
#include "launcher/status/answers.h"
#include "launcher/cmd/cmd.h"
#include "launcher/status/top_rows.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/view/keys.h"
#include "launcher/view/progress.h"

enum {
    DRAW_MS = 1000, /* between two pictures, at most */
    END_MS = 2000   /* for the last one on a slow terminal */
};

struct top {
    int once, json;
    const char *delay, *sort;
    double delay_s;
    enum top_sort by;
    struct answers *s;
    struct view *view; /* NULL: no block is drawn */
    struct suspend suspend;
    uv_timer_t draw;
    int has_quit; /* the user has pressed q */
    int status;   /* JSON cannot be written, or nobody reads it: the exit status */
};

/* --- the picture --- */

static double number(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) && json_number_value(v) >= 0 ? json_number_value(v) : -1;
}

static int64_t count(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

/* The figures of the last event of a process: "progress" of a trainer, "serving" of a pserver. */
static void take_event(struct top_row *r, const json_t *event, int64_t now_us) {
    struct progress p;
    const char *table;
    json_t *rows = json_object_get(event, "rows"), *n;
    if (!r->is_running || count(event, "rank") != r->rank)
        return;
    r->age_s = (double)now_us / 1e6 - json_number_value(json_object_get(event, "t")) / 1e3;
    if (r->is_trainer && !progress_parse(&p, event)) {
        r->wait = p.wait;
        r->rate = p.own_rate;
        r->pass = p.pass + 1;
        r->batch = p.batch;
        pd_fmt(r->unit, sizeof r->unit, "%s", p.unit);
    }
    r->waiting = count(event, "waiting");
    r->queued = count(event, "queued");
    json_object_foreach (rows, table, n)
        r->rows = (r->rows < 0 ? 0 : r->rows) + json_integer_value(n);
    r->tables = rows;
    if (r->age_s > TOP_SILENT_S)
        return; /* nobody knows how fast it is now */
    r->sent = number(event, "sent_rate");
    r->received = number(event, "received_rate");
}

static size_t collect(const struct top *t, struct top_row *rows, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++) {
        const struct node_answer *a = &t->s->v[i];
        int64_t lost_id;
        if (!a->body || answers_lost_why(t->s, i, &lost_id))
            continue;
        for (size_t k = 0; k < json_array_size(a->status.processes) && n < cap; k++) {
            const struct node_process q = answers_process(a->status.processes, k);
            struct top_row *r = &rows[n++];
            *r = (struct top_row){.node = a->status.node,
                                  .host = t->s->g->nodes[i].host->label,
                                  .is_running = answers_runs(&q),
                                  .is_trainer = !strcmp(q.role, "trainer") && answers_runs(&q),
                                  .is_stopped = q.stopped != 0,
                                  .rank = q.rank,
                                  .pid = q.pid,
                                  .threads = q.threads,
                                  .memory = q.rss_bytes,
                                  .cpu = answers_cpu_percent(a, k),
                                  .wait = -1,
                                  .rate = -1,
                                  .age_s = -1,
                                  .sent = -1,
                                  .received = -1,
                                  .waiting = -1,
                                  .queued = -1,
                                  .rows = -1};
            pd_fmt(r->role, sizeof r->role, "%.15s", q.role);
            take_event(r, r->is_trainer ? a->status.progress : a->status.serving, a->status.now_us);
        }
    }
    top_rows_sort(rows, n, t->by);
    return n;
}

static void put_rate(char *out, size_t cap, double bytes) {
    if (bytes < 0)
        return;
    table_bytes(out, cap, bytes);
    pd_fmt(out + strlen(out), cap - strlen(out), "/s");
}

static const char *state_of(const struct top_row *r) {
    return !r->is_running ? "ended" : r->is_stopped ? "stopped" : "running";
}

static void add_row(struct table *t, const struct top_row *r) {
    char node[16], process[32], pid[16], cpu[16] = "", memory[16] = "", threads[16] = "",
                                         speed[80] = "", waits[16] = "", at[40] = "", sent[24] = "",
                                         received[24] = "", queue[40] = "", rows[24] = "";
    pd_fmt(node, sizeof node, "%lld", (long long)r->node);
    pd_fmt(process, sizeof process, "%s %lld", r->role, (long long)r->rank);
    pd_fmt(pid, sizeof pid, "%lld", (long long)r->pid);
    if (r->is_running) {
        table_bytes(memory, sizeof memory, (double)r->memory);
        pd_fmt(threads, sizeof threads, "%lld", (long long)r->threads);
    }
    if (r->cpu >= 0)
        pd_fmt(cpu, sizeof cpu, "%.0f%%", r->cpu);
    if (r->rate >= 0)
        snprintf(speed, sizeof speed, "%.0f %s/s", r->rate, r->unit);
    if (r->wait >= 0)
        snprintf(waits, sizeof waits, "%.0f %%", r->wait * 100);
    if (r->batch > 0)
        snprintf(at, sizeof at, "%lld:%lld", (long long)r->pass, (long long)r->batch);
    put_rate(sent, sizeof sent, r->sent);
    put_rate(received, sizeof received, r->received);
    if (r->waiting >= 0)
        pd_fmt(queue, sizeof queue, "%lld", (long long)r->waiting);
    if (r->queued > 0) {
        pd_fmt(queue + strlen(queue), sizeof queue - strlen(queue), " + ");
        table_bytes(queue + strlen(queue), sizeof queue - strlen(queue), (double)r->queued);
    }
    if (r->rows >= 0)
        pd_fmt(rows, sizeof rows, "%lld", (long long)r->rows);
    table_row(t, (const char *const[TABLE_COLUMNS]){node, r->host, process, state_of(r), pid, cpu,
                                                    memory, threads, speed, waits, sent, received,
                                                    queue, rows, at});
}

static const char *host_error(const struct top *t, size_t host) {
    const struct ask_all_node *a = &t->s->g->nodes[host];
    return a->err.code && a->err.code != PD_ECANCELED && !t->s->v[host].result ? a->err.msg : NULL;
}

static void put_head(const struct top *t, const struct top_row *rows, size_t n, FILE *f) {
    const struct found_job *job = t->s->job;
    const struct node_answer *head = answers_head(t->s);
    json_t *event = answers_progress(t->s);
    struct progress p;
    char text[300];
    fprintf(f, "%s%s%s%s: %s, %d node%s\n", job->id, *job->name ? " (" : "", job->name,
            *job->name ? ")" : "", head ? head->status.state : job->state, job->n_nodes,
            job->n_nodes == 1 ? "" : "s");
    if (event && !progress_parse(&p, event)) {
        progress_text(&p, text, sizeof text);
        fprintf(f, "%s\n", text);
    }
    top_rows_verdict(rows, n, text, sizeof text);
    fprintf(f, "%s%s", text, *text ? "\n" : "");
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++)
        if (host_error(t, i))
            fprintf(f, "%s does not answer: %.150s\n", t->s->g->nodes[i].host->label,
                    host_error(t, i));
}

/* All rows, sorted; the caller frees them. */
static struct top_row *all_rows(const struct top *t, size_t *n) {
    size_t cap = 1;
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++)
        cap += json_array_size(t->s->v[i].status.processes);
    struct top_row *rows = pd_calloc(cap, sizeof *rows);
    *n = rows ? collect(t, rows, cap) : 0;
    return rows;
}

/* Lines of at most `width` columns; 0: any. */
static int put_picture(const struct top *t, int width, FILE *f) {
    static const char *const heads[] = {"NODE", "HOST",     "PROCESS", "IS",    "PID",
                                        "CPU",  "MEMORY",   "THREADS", "SPEED", "WAITS",
                                        "SENT", "RECEIVED", "QUEUE",   "ROWS",  "AT"};
    size_t n;
    struct top_row *rows = all_rows(t, &n);
    struct table table;
    if (!rows)
        return -1;
    put_head(t, rows, n, f);
    table_init(&table, sizeof heads / sizeof heads[0], "r...rrrrrrrrrrr");
    table_fit(&table, width, "hdeomnlkgf");
    table_row(&table, heads);
    for (size_t i = 0; i < n; i++)
        add_row(&table, &rows[i]);
    table_print(&table, f);
    table_release(&table);
    free(rows);
    return 0;
}

/* --- JSON --- */

static json_t *known(double v) { return v >= 0 ? json_real(v) : json_null(); }
static json_t *counted(int64_t v) { return v >= 0 ? json_integer((json_int_t)v) : json_null(); }

static json_t *row_json(const struct top_row *r) {
    json_t *o = json_pack("{s:I, s:s, s:s, s:I, s:s, s:I}", "node", (json_int_t)r->node, "host",
                          r->host, "role", r->role, "rank", (json_int_t)r->rank, "state",
                          state_of(r), "pid", (json_int_t)r->pid);
    const struct {
        const char *key;
        json_t *v;
    } more[] = {{"cpu_percent", known(r->cpu)},
                {"rss_bytes", counted(r->is_running ? r->memory : -1)},
                {"threads", counted(r->is_running ? r->threads : -1)},
                {"own_rate", known(r->rate)},
                {"unit", *r->unit ? json_string(r->unit) : json_null()},
                {"wait", known(r->wait)},
                {"pass", counted(r->pass - 1)},
                {"batch", counted(r->pass ? r->batch : -1)},
                {"event_age_s", known(r->age_s)},
                {"sent_rate", known(r->sent)},
                {"received_rate", known(r->received)},
                {"waiting", counted(r->waiting)},
                {"queued", counted(r->queued)},
                {"rows", r->tables ? json_incref(r->tables) : json_null()}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        json_object_set_new(o, more[i].key, more[i].v);
    return o;
}

static int print_json(const struct top *t) {
    const struct found_job *job = t->s->job;
    const struct node_answer *head = answers_head(t->s);
    json_t *progress = answers_progress(t->s), *processes = json_array(), *bad = json_array();
    char verdict[300] = "";
    size_t n;
    struct top_row *rows = all_rows(t, &n);
    top_rows_verdict(rows, n, verdict, sizeof verdict);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(processes, row_json(&rows[i]));
    free(rows);
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++)
        if (host_error(t, i))
            json_array_append_new(bad,
                                  json_pack("{s:s, s:s}", "host", t->s->g->nodes[i].host->label,
                                            "error", host_error(t, i)));
    json_t *o =
        json_pack("{s:I, s:s, s:s, s:s, s:i, s:O?, s:s, s:o, s:o}", "t",
                  (json_int_t)(pd_wall_us() / 1000), "job", job->id, "name", job->name, "state",
                  head ? head->status.state : job->state, "n_nodes", job->n_nodes, "progress",
                  progress, "verdict", verdict, "processes", processes, "unreachable", bad);
    return cmd_print_json_line(o);
}

/* --- the terminal --- */

/* The first lines of the text that fit on the screen, none wider than it. */
static void show(const struct top *t, const char *text, size_t n) {
    struct pd_buf b = {0};
    const size_t width = (size_t)view_width(t->view) - 1;
    int lines = view_height(t->view) - 2;
    for (const char *s = text, *end = text + n; s < end && lines > 0; lines--) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        const size_t len = (size_t)((stop ? stop : end) - s);
        pd_put(&b, b.len ? "\n" : "", b.len != 0);
        pd_put(&b, s, term_fit(s, len, width));
        s += len + 1;
    }
    view_live(t->view, (const char *)b.data, b.failed ? 0 : b.len);
    pd_buf_release(&b);
}

static void draw(struct top *t) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return;
    const int rc = put_picture(t, view_width(t->view) - 1, f);
    if (!fclose(f) && !rc)
        show(t, text, n);
    free(text);
}

static void on_draw(uv_timer_t *timer) {
    struct top *t = timer->data;
    if (!t->json) {
        keys_check(t->suspend.keys);
        draw(t);
        return;
    }
    t->status = print_json(t);
    if (!t->status && cmd_reader_is_gone())
        t->status = 128 + SIGPIPE;
    if (t->status)
        ask_all_interrupt(t->s->g);
}

static uint64_t delay_ms(const struct top *t) { return (uint64_t)(t->delay_s * 1000); }

/* Answers come when they come, so a picture is never much older than they are. The first JSON line
 * waits for two answers, between which CPU use is measured. */
static void start_drawing(struct top *t) {
    const uint64_t delay = delay_ms(t);
    uv_timer_init(&t->s->g->c->loop, &t->draw);
    t->draw.data = t;
    uv_timer_start(&t->draw, on_draw, t->json ? 3 * ANSWERS_CPU_MS : ANSWERS_CPU_MS,
                   t->json || delay < DRAW_MS ? delay : DRAW_MS);
    uv_unref((uv_handle_t *)&t->draw);
}

static void on_key(void *arg, char key) {
    struct top *t = arg;
    if (key == 'q') {
        t->has_quit = 1;
        ask_all_interrupt(t->s->g);
    } else if (key == '\f') {
        view_clear(t->view);
    }
}

static void on_stop(void *arg, int signum) {
    (void)arg;
    (void)signum;
}

static void on_resume(void *arg, int by_key) {
    struct top *t = arg;
    (void)by_key;
    keys_check(t->suspend.keys);
    draw(t);
}

static int open_terminal(struct top *t, struct pd_err *err) {
    uv_loop_t *loop = &t->s->g->c->loop;
    int rc = view_new(&t->view, STDOUT_FILENO, VIEW_COLOUR_AUTO, err);
    if (rc)
        return rc;
    t->suspend =
        (struct suspend){.view = t->view, .on_stop = on_stop, .on_resume = on_resume, .arg = t};
    rc = keys_new(&t->suspend.keys, loop, on_key, t, err);
    suspend_open(&t->suspend, loop);
    return rc;
}

static void close_terminal(struct top *t) {
    if (!t->view)
        return;
    view_live(t->view, "", 0);
    keys_close(t->suspend.keys);
    suspend_close(&t->suspend);
    view_free(t->view, END_MS);
    t->view = NULL;
}

/* --- the command --- */

static void on_answer(struct node_answer *a) {
    const struct top *t = a->s->arg;
    if (!a->s->is_live)
        answers_twice(a);
    else
        answers_again(a, a->before ? delay_ms(t) : ANSWERS_CPU_MS);
}

static void on_result(struct node_answer *a) {
    if (!a->n->over)
        ask_all_done(a->n);
}

static int is_over(const struct answers *s) {
    for (size_t i = 0; i < s->g->c->hosts.n; i++)
        if (s->v[i].result)
            return 1;
    return 0;
}

static int watch(struct answers *s, struct pd_err *err) {
    struct top *t = s->arg;
    t->s = s;
    if (!s->job->n_running)
        return pd_fail(err, PD_EUSAGE, "%s does not run; 'paddlectl status %s' shows how it ended",
                       s->job->id, s->job->id);
    s->on_answer = on_answer;
    s->on_result = on_result;
    s->is_live = !t->once && (t->json || term_is_live(STDOUT_FILENO));
    if (s->is_live && !t->json && open_terminal(t, err)) {
        close_terminal(t);
        return err->code;
    }
    if (s->is_live)
        start_drawing(t);
    const int rc = answers_run(s, 1, err);
    if (s->is_live)
        uv_close((uv_handle_t *)&t->draw, NULL);
    close_terminal(t);
    if (rc && !t->has_quit && !t->status)
        return rc;
    pd_err_clear(err);
    if (t->status || (t->json && (t->status = print_json(t))))
        return t->status;
    if (!t->json && put_picture(t, term_limit(STDOUT_FILENO), stdout))
        return pd_oom(err, "the table");
    fflush(stdout);
    if (t->has_quit || (s->is_live && is_over(s))) {
        if (!t->json && !t->has_quit)
            fprintf(stderr,
                    "paddlectl: the job is over; 'paddlectl status %s' shows how it ended\n",
                    s->job->id);
        return 0;
    }
    return ask_all_n_failed(s->g) ? ask_all_report(s->g) : 0;
}

static int top_of(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct top *t = arg;
    t->delay_s = 1;
    if (t->delay && pd_parse_f64(t->delay, 0.2, 3600, &t->delay_s))
        return pd_fail(err, PD_EUSAGE, "--delay=%.40s: give seconds, 0.2 to 3600", t->delay);
    if (top_sort_parse(t->sort, &t->by))
        return pd_fail(err, PD_EUSAGE, "--sort=%.40s: give wait, cpu, memory, speed or node",
                       t->sort);
    const int rc = answers_main(o, want, watch, t, err);
    keys_free(t->suspend.keys);
    return rc;
}

int cmd_top(int argc, char **argv) {
    struct top t = {0};
    const struct pd_extra_option extra[] = {
        {"delay=SECONDS", NULL, &t.delay, "time between two pictures; default: 1"},
        {"sort=wait", NULL, &t.sort,
         "the order: wait (those first that hold the others up), cpu, memory, speed (the slowest "
         "first), node; default: wait"},
        {"once", &t.once, NULL, "print one table, as for a pipe"},
        {"json", &t.json, NULL,
         "print one JSON object a line, again and again; with --once: one (docs/tuning.md)"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl top [options] [JOB]\n"
                 "Shows the processes of a job that runs, with CPU, memory, speed and the time "
                 "that they wait, again and again; those first that hold the others up. q or "
                 "Ctrl-C ends it; the job goes on. Without JOB: the only running job.",
        .about = "All trainers of a synchronous job have the same speed: the slow one is the one "
                 "that hardly waits while the others do. Before it come processes that are stopped "
                 "by a signal, and trainers whose last progress is more than 5 s older than that "
                 "of the others. With async, ssp and geo each trainer has a speed of its own: "
                 "--sort=speed. SENT and RECEIVED are bytes a second "
                 "between trainers and pservers. QUEUE of a pserver: requests that wait for a "
                 "step, and bytes of answers that trainers have not taken yet. ROWS: of its sparse "
                 "tables. AT is the pass and the batch.\n",
        .examples = "paddlectl top\tthe job that runs\n"
                    "paddlectl top --once --sort=memory\twhich process needs most memory\n"
                    "paddlectl top --json --delay=10 >figures\tfor a program\n",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, top_of, &t);
}
