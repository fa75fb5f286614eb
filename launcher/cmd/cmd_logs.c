/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_logs.c - paddlectl logs: shows the logs of a running or ended job, all nodes merged by time.
 */
#include "launcher/cmd/cmd.h"
#include "launcher/job/find.h"
#include "launcher/follow/follow.h"
#include "launcher/text/fold_lines.h"
#include "launcher/text/when.h"

enum { QUICK_WAIT_MS = 150, FLUSH_MS = 5000, GATHER_MS = 1000 };

struct logs_cmd {
    int follow, json, timestamps, fold, no_fold, verbose, stats;
    const char *want, *nodes, *roles, *since, *until, *tail, *grep, *colour;
    struct view *view;
    struct follow *f;
    struct follow_node *names; /* index: host of conf.ini */
    char *asked;               /* index: host; 1: --node names the host, or is not given */
    struct ask_all *g;
    uint64_t lease_ms;
    int broken;
    uv_timer_t gather; /* runs while hosts that are gone wait to be named together */
};

/* --- which nodes --- */

static int add_item(struct logs_cmd *m, const struct client_env *c, const struct found_job *job,
                    const char *text, struct pd_err *err) {
    struct host_item item;
    int n = 0;
    host_item_read(&item, text);
    for (size_t i = 0; i < c->hosts.n; i++)
        if (host_item_matches(&item, &c->hosts.v[i], job->host[i].node)) {
            m->asked[i] = 1;
            n++;
        }
    return n ? 0
             : pd_fail(err, PD_EUSAGE, "--node: %s has no node %s%s", job->id,
                       item.is_ids ? "" : "on ", text);
}

/* Set m->asked: the hosts whose logs are shown. */
static int choose_nodes(struct logs_cmd *m, const struct client_env *c, const struct found_job *job,
                        struct pd_err *err) {
    struct expanded x;
    m->asked = pd_calloc(c->hosts.n, 1);
    if (!m->asked)
        return pd_oom(err, "the logs of a job");
    if (!m->nodes) {
        memset(m->asked, 1, c->hosts.n);
        return 0;
    }
    int rc = expand_hosts(&x, m->nodes, "--node", c->opts, NULL, 1, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < x.n && !rc; i++)
        rc = add_item(m, c, job, x.v[i].text, err);
    expanded_release(&x);
    return rc;
}

static int choose_roles(const struct logs_cmd *m, unsigned *streams, struct pd_err *err) {
    static const struct {
        const char *name;
        unsigned bits;
    } roles[] = {{"pserver", FOLLOW_SERVER_LOG},
                 {"trainer", FOLLOW_TRAIN_LOG},
                 {"all", FOLLOW_SERVER_LOG | FOLLOW_TRAIN_LOG}};
    *streams = 0;
    for (const char *p = m->roles ? m->roles : "all"; *p;) {
        size_t n = strcspn(p, ","), i = 0, k = sizeof roles / sizeof roles[0];
        while (i < k && (strlen(roles[i].name) != n || strncmp(roles[i].name, p, n)))
            i++;
        if (i == k)
            return pd_fail(err, PD_EUSAGE, "--role must be trainer, pserver or both, not '%.*s'",
                           (int)n, p);
        *streams |= roles[i].bits;
        p += n + (p[n] == ',');
    }
    return *streams ? 0 : pd_fail(err, PD_EUSAGE, "--role must be trainer, pserver or both");
}

/* --- the exchange with the nodes --- */

/* Called for a new link, and again when a lost link is open again. */
static void on_connected(struct ask_all_node *n) {
    struct logs_cmd *m = n->g->arg;
    link_keep(n->link, m->lease_ms);
    follow_begin(m->f, (unsigned)n->id, n->link);
}

static void on_frame(struct ask_all_node *n, const struct wire_frame *f, json_t *body) {
    struct logs_cmd *m = n->g->arg;
    follow_frame(m->f, (unsigned)n->id, f, body);
}

static void print_gone(void *arg, const char *before, const char *who, const char *text,
                       size_t n_hosts) {
    struct logs_cmd *m = arg;
    (void)before;
    (void)n_hosts;
    view_printf(m->view, "%s: %s", who, text);
}

/* Hosts that were lost for the same reason within a second are one line. */
static void say_gone(struct logs_cmd *m) {
    const size_t n = m->g->c->hosts.n;
    struct fold_line *v = pd_calloc(n, sizeof *v);
    for (size_t i = 0; i < n && v; i++)
        v[i] = (struct fold_line){.name = m->names[i].host, .text = m->g->nodes[i].text};
    if (v)
        fold_lines(v, n, print_gone, m);
    free(v);
    for (size_t i = 0; i < n; i++) {
        free(m->g->nodes[i].text);
        m->g->nodes[i].text = NULL;
    }
}

static void on_gathered(uv_timer_t *t) { say_gone(t->data); }

static void note_gone(struct logs_cmd *m, size_t node, const char *why) {
    struct ask_all_node *n = &m->g->nodes[node];
    free(n->text);
    n->text = pd_strdup(why);
    if (!uv_is_active((uv_handle_t *)&m->gather))
        uv_timer_start(&m->gather, on_gathered, GATHER_MS, 0);
}

static void on_gone(struct ask_all_node *n, int again, const struct pd_err *why) {
    struct logs_cmd *m = n->g->arg;
    if (again) {
        follow_lost(m->f, (unsigned)n->id);
        return;
    }
    if (!n->g->interrupted && !m->broken)
        note_gone(m, (size_t)n->id, why->msg);
    follow_gone(m->f, (unsigned)n->id);
}

static void on_done(void *arg, unsigned node) {
    struct logs_cmd *m = arg;
    ask_all_done(&m->g->nodes[node]); /* no effect on a node that has failed */
}

static void on_fail(void *arg, unsigned node, const struct pd_err *err) {
    struct logs_cmd *m = arg;
    note_gone(m, node, err->msg);
    ask_all_fail(&m->g->nodes[node], err);
}

/* The reader has closed the output (`paddlectl logs | head`): end all nodes without an error. */
static void on_broken(void *arg) {
    struct logs_cmd *m = arg;
    m->broken = 1;
    for (size_t i = 0; i < m->g->c->hosts.n; i++)
        ask_all_done(&m->g->nodes[i]);
}

static int open_follow(struct logs_cmd *m, struct ask_all *g, const struct follow_opts *o,
                       struct pd_err *err) {
    enum view_colour colour;
    int rc = view_colour_parse(&colour, m->colour, err);
    if (!rc)
        rc = view_new(&m->view, STDOUT_FILENO, m->json ? VIEW_COLOUR_NEVER : colour, err);
    if (rc)
        return rc;
    view_printf_to_stderr(m->view);
    m->names = pd_calloc(g->c->hosts.n, sizeof *m->names);
    if (!m->names)
        return pd_oom(err, "the logs of a job");
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        g->nodes[i].skip |= !m->asked[i];
        m->names[i] =
            (struct follow_node){.host = g->nodes[i].host->label, .skip = g->nodes[i].skip};
    }
    struct follow_opts fo = *o;
    fo.view = m->view;
    fo.nodes = m->names;
    fo.show.fold |= view_is_live(m->view) && !m->json && !m->no_fold;
    return follow_new(&m->f, &fo, err);
}

/* Follow until all lines are shown, the reader is gone, or Ctrl-C. */
static void show_all(struct logs_cmd *m, struct ask_all *g) {
    g->on_frame = on_frame;
    g->on_gone = on_gone;
    uv_timer_init(&g->c->loop, &m->gather);
    uv_unref((uv_handle_t *)&m->gather);
    m->gather.data = m;
    ask_all_run(g, on_connected, m);
    while (!g->interrupted && !m->broken && (!follow_is_shown(m->f) || view_backlog(m->view)))
        uv_run(&g->c->loop, UV_RUN_ONCE);
    say_gone(m);
    uv_close((uv_handle_t *)&m->gather, NULL);
    follow_close(m->f);
}

static int run(struct logs_cmd *m, struct ask_all *g, const struct found_job *job,
               struct follow_opts *o, struct pd_err *err) {
    int bad = 0, status = 0, n;
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        if (!m->asked[i])
            pd_err_clear(&g->nodes[i].err);
        bad += g->nodes[i].err.code != 0;
    }
    if (bad) /* before the logs, not after them */
        ask_all_report(g);
    n = find_join(g, job, 0);
    if (n < job->n_nodes && !bad && !m->nodes) {
        fprintf(stderr, "paddlectl: %s has %d nodes, of which %d %s on the hosts of conf.ini\n",
                job->id, job->n_nodes, n, n == 1 ? "is" : "are");
        bad++;
    }
    int rc = open_follow(m, g, o, err);
    if (!rc) {
        show_all(m, g);
        follow_flush(m->f);
        if (m->stats)
            fprintf(stderr, "paddlectl: at most %zu bytes of logs were held\n",
                    follow_peak_bytes(m->f));
        for (size_t i = 0; i < g->c->hosts.n; i++)
            bad += !g->nodes[i].skip && g->nodes[i].err.code && !m->broken;
        status = g->interrupted ? pd_code_exit_status(PD_ECANCELED)
                 : bad          ? pd_code_exit_status(PD_EHOST)
                                : 0;
        int why = view_why_broken(m->view);
        if (why && why != EPIPE) /* EPIPE: the reader has closed the pipe, which is no error */
            rc = pd_fail(err, PD_EFAIL, "the logs cannot be written: %s", strerror(why));
    }
    view_free(m->view, g->interrupted ? QUICK_WAIT_MS : FLUSH_MS);
    return rc ? rc : status;
}

static int logs_of(struct logs_cmd *m, const struct pd_options *opts, struct follow_opts *o,
                   struct pd_err *err) {
    struct client_env c;
    struct ask_all g;
    struct found found = {0};
    const struct found_job *job;
    int rc = client_env_init(&c, opts, err);
    if (rc)
        return rc;
    rc = ask_all_init(&g, &c, err);
    m->g = &g;
    o->loop = &c.loop;
    o->n_nodes = (unsigned)c.hosts.n;
    o->arg = m;
    if (!rc)
        rc = find_jobs(&g, 0, &found, err);
    if (!rc && (rc = find_choose(&found, m->want, FIND_NEWEST, &job, err)) && rc == PD_ENOENT &&
        ask_all_n_failed(&g)) {
        ask_all_report(&g); /* the job may be on an unreachable host */
        rc = err->code = PD_EHOST;
    }
    if (!rc)
        rc = choose_nodes(m, &c, job, err);
    if (!rc)
        rc = run(m, &g, job, o, err);
    find_release(&found);
    ask_all_release(&g);
    follow_free(m->f); /* ask_all_release has closed its handles */
    client_env_release(&c);
    free(m->names);
    free(m->asked);
    return rc;
}

/* Check all options before the first connection. */
static int read_options(struct logs_cmd *m, struct follow_opts *o, struct pd_err *err) {
    uint64_t now_us = pd_wall_us(), tail = 0;
    enum view_colour colour;
    int rc = view_colour_parse(&colour, m->colour, err);
    if (!rc)
        rc = choose_roles(m, &o->streams, err);
    if (!rc && m->since)
        rc = when_parse(m->since, "--since", now_us, &o->show.since_us, err);
    if (!rc && m->until)
        rc = when_parse(m->until, "--until", now_us, &o->show.until_us, err);
    if (!rc && m->tail && (pd_parse_u64(m->tail, SHOW_TAIL_MAX, &tail) || !tail))
        rc = pd_fail(err, PD_EUSAGE, "--tail must be a number of lines, 1..%d, not '%s'",
                     SHOW_TAIL_MAX, m->tail);
    if (!rc && m->json && m->fold)
        rc = pd_fail(err, PD_EUSAGE,
                     "--json reports each line of each node; --json and --fold exclude each other");
    if (!rc && m->fold && m->no_fold)
        rc = pd_fail(err, PD_EUSAGE, "--fold and --no-fold exclude each other");
    if (!rc && m->follow && m->until)
        rc = pd_fail(err, PD_EUSAGE, "--follow and --until exclude each other");
    if (rc)
        return rc;
    o->show.tail = (unsigned)tail;
    o->show.json = m->json;
    o->show.fold = m->fold;
    o->show.verbose = m->verbose;
    o->show.timestamps = m->timestamps;
    o->show.grep = m->grep;
    o->only_history = !m->follow;
    o->onlooker = 1;
    o->on_done = on_done;
    o->on_fail = on_fail;
    o->on_broken = on_broken;
    return show_check(&o->show, err);
}

/* Replace the usual short options -f, -n N and -nN by their long forms. */
static char **long_forms(int *argc, char **argv) {
    char **v = pd_calloc((size_t)*argc * 2 + 1, sizeof *v);
    int n = 0;
    for (int i = 0; v && i < *argc; i++) {
        if (!strcmp(argv[i], "-f")) {
            v[n++] = (char *)(uintptr_t) "--follow";
        } else if (!strncmp(argv[i], "-n", 2)) {
            v[n++] = (char *)(uintptr_t) "--tail";
            if (argv[i][2])
                v[n++] = argv[i] + 2;
        } else {
            v[n++] = argv[i];
        }
    }
    *argc = v ? n : *argc;
    return v;
}

int cmd_logs(int argc, char **argv) {
    struct logs_cmd m = {0};
    struct follow_opts fo = {0};
    const struct pd_extra_option extra[] = {
        {"follow", &m.follow, NULL, "continue until the job ends (also -f)"},
        {"tail=LINES", NULL, &m.tail,
         "show the last LINES lines (also -n LINES), with --follow also all later lines"},
        {"since=TIME", NULL, &m.since,
         "show only lines after TIME: 10m, 1h30m (ago), 2026-11-21T10:00, 10:00 or @SECONDS"},
        {"until=TIME", NULL, &m.until, "show only lines before TIME"},
        {"node=LIST", NULL, &m.nodes,
         "show only these nodes: ids (0-3,7) or hosts (gpu-[01-04], gpu-1*, @GROUP)"},
        {"role=trainer|pserver", NULL, &m.roles, "show only the output of trainers or of pservers"},
        {"grep=REGEX", NULL, &m.grep, "show only lines that match (POSIX extended)"},
        {"fold", &m.fold, NULL,
         "show a line once that several nodes write within half a second, with all their names; "
         "the default on a terminal"},
        {"no_fold", &m.no_fold, NULL, "show equal lines of several nodes separately"},
        {"verbose", &m.verbose, NULL, "keep date, source file and line of log lines on a terminal"},
        {"timestamps", &m.timestamps, NULL, "show the time of arrival before each line"},
        {"color=auto|always|never", NULL, &m.colour,
         "colour the names of nodes; auto: on a terminal, unless NO_COLOR is set"},
        {"stats", &m.stats, NULL, "report at the end how much memory the lines needed"},
        {"json", &m.json, NULL,
         "print one JSON object per line: time, node, host, role, stream, offset, text"},
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl logs [options] [JOB]\n"
            "Shows the logs of a running or ended job, from any machine. The lines of all nodes "
            "are merged by the time at which the agents received them. JOB is the beginning or end "
            "of "
            "an id, or the name of a job. Without JOB: the only running job, else the newest job.",
        .examples =
            "paddlectl logs -f\tfollow the newest job\n"
            "paddlectl logs --role=trainer --since=10m --grep='nan|inf'\tsearches for problems\n"
            "paddlectl logs --fold --node=0-3 latest\tshows equal lines of four nodes once\n",
        .extra = extra,
        .who = PD_LAUNCHER,
        .max_rest = 1,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    char **words = long_forms(&argc, argv);
    int n_rest, rc = cmd_parse(&line, argc, words ? words : argv, &o, rest, &n_rest);
    if (rc == CMD_GO_ON) {
        m.want = n_rest ? rest[0] : NULL;
        m.lease_ms = (uint64_t)(o.attach_lease * 1000);
        rc = read_options(&m, &fo, &err);
        if (!rc)
            rc = logs_of(&m, &o, &fo, &err);
        pd_options_release(&o);
    }
    free(words);
    return err.code ? cmd_fail(&err) : rc;
}
