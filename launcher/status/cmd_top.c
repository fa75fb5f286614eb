/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_top.c - paddlectl top: the processes of a job, those first that hold the others up, again and
 * again.
 *
 *     AG_STATUS of each node ──▶ answers ──▶ rows, sorted ──▶ a live block, or one table */
#include "base/json_text.h"
#include "launcher/status/answers.h"
#include "launcher/cmd/cmd.h"
#include "launcher/status/top_rows.h"
#include "launcher/text/table.h"
#include "launcher/text/term.h"
#include "launcher/view/keys.h"
#include "launcher/view/progress.h"

enum { END_MS = 2000 };

struct top {
    int once;
    const char *delay, *sort;
    double delay_s;
    enum top_sort by;
    struct answers *s;
    /* On a terminal. */
    struct view *view; /* NULL: one table is printed */
    struct suspend suspend;
    uv_timer_t draw;
    int is_stopped; /* the user has pressed q */
};

/* --- the picture --- */

static size_t collect(const struct top *t, struct top_row *rows, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++) {
        const struct node_answer *a = &t->s->v[i];
        int64_t lost_id;
        struct progress p;
        const int has_progress = a->body && !progress_parse(&p, a->status.progress);
        if (!a->body || answers_lost_why(t->s, i, &lost_id))
            continue;
        for (size_t k = 0; k < json_array_size(a->status.processes) && n < cap; k++) {
            const struct node_process q = answers_process(a->status.processes, k);
            const int trains = !strcmp(q.role, "trainer") && answers_runs(&q);
            struct top_row *r = &rows[n++];
            *r = (struct top_row){.node = a->status.node,
                                  .host = t->s->g->nodes[i].host->label,
                                  .is_running = answers_runs(&q),
                                  .is_trainer = trains,
                                  .is_stopped = q.stopped != 0,
                                  .rank = q.rank,
                                  .pid = q.pid,
                                  .threads = q.threads,
                                  .memory = q.rss_bytes,
                                  .cpu = answers_cpu_percent(a, k),
                                  .wait = -1,
                                  .rate = -1,
                                  .age_s = -1};
            pd_fmt(r->role, sizeof r->role, "%.15s", q.role);
            if (!trains || !has_progress || p.rank != q.rank)
                continue;
            r->wait = p.wait;
            r->rate = p.own_rate;
            r->pass = p.pass + 1;
            r->batch = p.batch;
            pd_fmt(r->unit, sizeof r->unit, "%s", p.unit);
            r->age_s = (double)a->status.now_us / 1e6 -
                       json_number_value(json_object_get(a->status.progress, "t")) / 1e3;
        }
    }
    top_rows_sort(rows, n, t->by);
    return n;
}

static void add_row(struct table *t, const struct top_row *r) {
    char node[16], process[32], pid[16], cpu[16] = "", memory[16] = "", threads[16] = "",
                                         speed[80] = "", waits[16] = "", at[40] = "";
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
    table_row(t, (const char *const[TABLE_COLUMNS]){node, r->host, process,
                                                    !r->is_running  ? "ended"
                                                    : r->is_stopped ? "stopped"
                                                                    : "running",
                                                    pid, cpu, memory, threads, speed, waits, at});
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
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++) {
        const struct ask_all_node *a = &t->s->g->nodes[i];
        if (a->err.code && a->err.code != PD_ECANCELED && !t->s->v[i].result)
            fprintf(f, "%s does not answer: %.150s\n", a->host->label, a->err.msg);
    }
}

/* Lines of at most `width` columns; 0: any. */
static int put_picture(const struct top *t, int width, FILE *f) {
    static const char *const heads[] = {"NODE",   "HOST",    "PROCESS", "IS",    "PID", "CPU",
                                        "MEMORY", "THREADS", "SPEED",   "WAITS", "AT"};
    size_t cap = 1;
    for (size_t i = 0; i < t->s->g->c->hosts.n; i++)
        cap += json_array_size(t->s->v[i].status.processes);
    struct top_row *rows = pd_calloc(cap, sizeof *rows);
    if (!rows)
        return -1;
    const size_t n = collect(t, rows, cap);
    struct table table;
    put_head(t, rows, n, f);
    table_init(&table, sizeof heads / sizeof heads[0], "r...rrrrrrr");
    table_fit(&table, width, "hdekgf");
    table_row(&table, heads);
    for (size_t i = 0; i < n; i++)
        add_row(&table, &rows[i]);
    table_print(&table, f);
    table_release(&table);
    free(rows);
    return 0;
}

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

/* --- the terminal --- */

static void on_draw(uv_timer_t *timer) {
    struct top *t = timer->data;
    keys_check(t->suspend.keys);
    draw(t);
}

static void on_key(void *arg, char key) {
    struct top *t = arg;
    if (key == 'q') {
        t->is_stopped = 1;
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
    uv_timer_init(loop, &t->draw);
    t->draw.data = t;
    uv_timer_start(&t->draw, on_draw, ANSWERS_CPU_MS, (uint64_t)(t->delay_s * 1000));
    uv_unref((uv_handle_t *)&t->draw);
    return rc;
}

static void close_terminal(struct top *t) {
    if (!t->view)
        return;
    view_live(t->view, "", 0);
    keys_close(t->suspend.keys);
    suspend_close(&t->suspend);
    uv_close((uv_handle_t *)&t->draw, NULL);
    view_free(t->view, END_MS);
    t->view = NULL;
}

/* --- the command --- */

static void on_answer(struct node_answer *a) {
    const struct top *t = a->s->arg;
    if (t->view)
        answers_again(a, (uint64_t)(t->delay_s * 1000));
    else if (a->before || !answers_n_running(a))
        ask_all_done(a->n);
    else
        answers_again(a, ANSWERS_CPU_MS);
}

static void on_result(struct node_answer *a) {
    if (!a->n->over)
        ask_all_done(a->n);
}

static int watch(struct answers *s, struct pd_err *err) {
    struct top *t = s->arg;
    t->s = s;
    if (!s->job->n_running)
        return pd_fail(err, PD_EUSAGE, "%s does not run; 'paddlectl status %s' shows how it ended",
                       s->job->id, s->job->id);
    s->on_answer = on_answer;
    s->on_result = on_result;
    if (!t->once && term_is_live(STDOUT_FILENO) && open_terminal(t, err)) {
        close_terminal(t);
        return err->code;
    }
    const int live = t->view != NULL;
    const int rc = answers_run(s, 1, err);
    close_terminal(t);
    if (rc && !t->is_stopped)
        return rc;
    pd_err_clear(err);
    if (put_picture(t, term_limit(STDOUT_FILENO), stdout))
        return pd_oom(err, "the table");
    fflush(stdout);
    if (live && !t->is_stopped)
        fprintf(stderr, "paddlectl: the job is over; 'paddlectl status %s' shows how it ended\n",
                s->job->id);
    return !live && ask_all_n_failed(s->g) ? ask_all_report(s->g) : 0;
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
                 "--sort=speed. AT is the pass and the batch.\n",
        .examples = "paddlectl top\tthe job that runs\n"
                    "paddlectl top --once --sort=memory\twhich process needs most memory\n",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, top_of, &t);
}
