/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_dispatch.c - paddlectl dispatch: deploys the workspace to ROOT/workspaces/NAME-HASH on every
 * node. */
#include "base/memory_use.h"
#include "launcher/link/ask_all.h"
#include "launcher/cmd/cmd.h"
#include "launcher/dispatch/bar_keys.h"
#include "launcher/dispatch/cache.h"
#include "launcher/dispatch/dispatch.h"
#include "launcher/dispatch/listing.h"

enum { PATIENCE_MS = 3000 };

struct dispatch_cmd {
    const struct pd_options *o;
    struct ask_all *g;
    struct dispatch *d;
    struct view *view; /* on stderr, since stdout gets the path */
    struct bar bar;
    struct bar_keys keys;
    struct pd_err broken;
    char name[100];
    int json, dry_run;
};

/* --- the conversation with each host --- */

static void on_connected(struct ask_all_node *n) {
    struct dispatch_cmd *c = n->g->arg;
    dispatch_add_node(c->d, n->id, n->link, DISPATCH_ALL);
}

/* Keep the connection: the node may still relay to others. */
static void on_done(void *arg, int node) {
    struct dispatch_cmd *c = arg;
    ask_all_keep(&c->g->nodes[node]);
}

static void on_failed(void *arg, int node, const struct pd_err *err) {
    struct dispatch_cmd *c = arg;
    ask_all_fail(&c->g->nodes[node], err);
}

static void on_broken(void *arg, const struct pd_err *err) {
    struct dispatch_cmd *c = arg;
    c->broken = *err;
    ask_all_interrupt(c->g); /* also ends log-ins that are under way */
}

static void on_scanned(void *arg, int package) {
    struct dispatch_cmd *c = arg;
    char *text = listing_of_large(dispatch_scan(c->d, package));
    if (text && c->view)
        view_printf(c->view, "%s", text);
    free(text);
}

static void on_change(void *arg) {
    struct dispatch_cmd *c = arg;
    bar_update(&c->bar, c->d, uv_now(&c->g->c->loop));
}

static void on_closed(struct ask_all_node *n) {
    struct dispatch_cmd *c = n->g->arg;
    dispatch_remove_node(c->d, n->id);
}

static void put_object(void *arg, json_t *o) {
    (void)arg;
    cmd_print_json_line(o);
}

/* --- the report --- */

/* The path for `run --job_workspace`: with ~ and %n as in root_dir, or relative to root_dir if the
 * nodes have different ones. */
static void path_of(const struct client_env *c, const char *name, const struct scan *s,
                    char out[PATH_MAX]) {
    char hex[2 * OBJECT_ID + 1];
    struct object_id id;
    size_t n;
    const char *root = c->hosts.v[0].root_dir;
    for (size_t i = 1; i < c->hosts.n && root; i++)
        root = strcmp(root, c->hosts.v[i].root_dir) ? NULL : root;
    scan_root(s, &id, &n);
    object_hex(&id, hex);
    snprintf(out, PATH_MAX, "%s%sworkspaces/%s-%.16s", root ? root : "", root ? "/" : "", name,
             hex);
}

static int report(const struct dispatch_cmd *c) {
    const struct ask_all *g = c->g;
    const struct scan *s = dispatch_scan(c->d, 0);
    struct dispatch_progress p;
    struct scan_totals t;
    char path[PATH_MAX];
    json_t *sent = json_array(), *had = json_array(), *bad = json_array();
    int n_bad = 0, rc = 0;
    path_of(g->c, c->name, s, path);
    scan_get_totals(s, &t);
    dispatch_get_progress(c->d, &p);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct ask_all_node *n = &g->nodes[i];
        n_bad += n->err.code != 0;
        json_array_append_new(n->err.code                             ? bad
                              : dispatch_had_package(c->d, (int)i, 0) ? had
                                                                      : sent,
                              json_string(n->host->label));
    }
    if (c->json)
        rc = cmd_print_json_line(json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:{s:I, s:I}, s:b, s:O, s:O, s:O}", "event",
            "result", "path", path, "files", (json_int_t)t.files, "bytes", (json_int_t)t.bytes,
            "sent_bytes", (json_int_t)p.sent, "agent_bytes",
            (json_int_t)seeding_sent(g->c->env.seeding), "bypassed", p.n_bypassed, "peak_memory",
            "launcher", (json_int_t)pd_peak_memory(), "agents", (json_int_t)p.agent_peak, "dry_run",
            0, "sent", sent, "had", had, "failed", bad));
    else if (!n_bad)
        puts(path);
    json_decref(sent);
    json_decref(had);
    json_decref(bad);
    if (!n_bad)
        listing_remember(s, c->o->job_dispatch_package);
    return rc;
}

/* --- the command --- */

/* "word2vec" of "./word2vec/" or "/w/word2vec.tar.gz"; characters that agents refuse in names
 * become '_'. */
static void name_of(const char *path, char *out, size_t cap) {
    char full[PATH_MAX];
    if (!realpath(path, full))
        pd_fmt(full, sizeof full, "%s", path);
    const char *base = strrchr(full, '/');
    base = base ? base + 1 : full;
    size_t n = 0;
    const char *dot = strstr(base, ".tar");
    for (const char *s = base; *s && s != dot && n < cap - 1; s++)
        out[n++] = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", *s)
                       ? *s
                       : '_';
    out[n] = 0;
    if (!n || *out == '.')
        pd_fmt(out, cap, "workspace");
}

static void close_view(struct dispatch_cmd *c) {
    if (c->view)
        view_free(c->view, PATIENCE_MS);
    c->view = c->bar.view = NULL;
}

static int run(struct dispatch_cmd *c, struct ask_all *g, struct scan *scan, struct pd_err *err) {
    const struct dispatch_conf conf = {.loop = &g->c->loop,
                                       .n_nodes = (int)g->c->hosts.n,
                                       .relay = c->o->relay == PD_RELAY_AUTO,
                                       .encrypt = c->o->encrypt != PD_ENCRYPT_OFF,
                                       .local = client_env_is_local(g->c),
                                       .port = (int)c->o->port,
                                       .store_limit = (uint64_t)c->o->store_limit,
                                       .silence_ms = (uint64_t)(c->o->silence_timeout * 1000),
                                       .at_once = 1,
                                       .on_done = on_done,
                                       .on_failed = on_failed,
                                       .on_broken = on_broken,
                                       .on_scanned = on_scanned,
                                       .on_change = on_change,
                                       .arg = c};
    int rc = view_new(&c->view, STDERR_FILENO, VIEW_COLOUR_AUTO, err), status = 0;
    if (rc || (rc = dispatch_new(&c->d, &conf, err))) {
        scan_free(scan);
    } else if ((rc = dispatch_add(c->d, "deploy", c->name, scan, err)) >= 0) {
        bar_init(&c->bar, c->view, c->json ? put_object : NULL, c, uv_now(&g->c->loop));
        g->on_closed = on_closed;
        rc = bar_keys_open(&c->keys, &c->bar, g, "dispatch", err);
        int bad = rc ? 0 : ask_all_run(g, on_connected, c);
        bar_keys_close(&c->keys);
        bar_end(&c->bar, c->d, uv_now(&g->c->loop));
        close_view(c); /* the bar is gone before the result is written */
        if (c->broken.code)
            rc = pd_fail(err, c->broken.code, "%s", c->broken.msg);
        if (!rc && !g->interrupted && dispatch_is_scanned(c->d, 0))
            status = report(c);
        if (!rc && (bad || g->interrupted))
            status = ask_all_report(g);
        dispatch_cancel(c->d);
    }
    close_view(c);
    return rc ? rc : status;
}

static int dry_run(const struct dispatch_cmd *c, const struct client_env *cl, struct scan *scan,
                   struct pd_err *err) {
    char path[PATH_MAX];
    struct scan_totals t;
    int rc = scan_run(scan, err);
    if (!rc) {
        scan_get_totals(scan, &t);
        path_of(cl, c->name, scan, path);
        if (c->json) {
            json_t *o = listing_json(scan, c->o->job_dispatch_package);
            json_object_set_new(o, "path", json_string(path));
            json_object_set_new(o, "n_files", json_integer((json_int_t)t.files));
            json_object_set_new(o, "bytes", json_integer((json_int_t)t.bytes));
            json_object_set_new(o, "dry_run", json_true());
            rc = cmd_print_json(o);
        } else {
            listing_print(scan, c->o->job_dispatch_package, stdout);
            printf("would send %s to %zu host%s: %llu files, %llu bytes, to %s\n",
                   c->o->job_dispatch_package, cl->hosts.n, cl->hosts.n == 1 ? "" : "s",
                   (unsigned long long)t.files, (unsigned long long)t.bytes, path);
        }
    }
    scan_free(scan);
    return rc;
}

static int dispatch(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    struct dispatch_cmd *c = arg;
    (void)want;
    struct client_env cl;
    struct ask_all g;
    struct scan *scan;
    char hashed[PATH_MAX];
    int rc;
    c->o = o;
    c->g = &g;
    if (!*o->job_dispatch_package)
        return pd_fail(err, PD_ECONF,
                       "job_dispatch_package is missing: give the workspace, a folder or tar "
                       "archive on this machine");
    if ((rc = (c->dry_run ? client_env_init_dry : client_env_init)(&cl, o, err)))
        return rc;
    client_env_warn_plain(o);
    name_of(o->job_dispatch_package, c->name, sizeof c->name);
    if ((rc = scan_new(&scan, o->job_dispatch_package, c->dry_run ? SCAN_IGNORED : 0, err))) {
        pd_err_prefix(err, "%s", option_source(o, "job_dispatch_package"));
        client_env_release(&cl);
        return rc;
    }
    if (!cache_file("hashed", o->job_dispatch_package, hashed))
        scan_set_cache(scan, hashed);
    if (c->dry_run) {
        rc = dry_run(c, &cl, scan, err);
    } else if ((rc = ask_all_init(&g, &cl, err))) {
        scan_free(scan);
    } else {
        rc = run(c, &g, scan, err);
        ask_all_release(&g);
        bar_keys_release(&c->keys);
        dispatch_free(c->d);
    }
    client_env_release(&cl);
    return rc;
}

int cmd_dispatch(int argc, char **argv) {
    struct dispatch_cmd c = {0};
    const struct pd_extra_option extra[] = {
        {"dry_run", &c.dry_run, NULL,
         "list the files by size with the reason (new, changed, ignored), and send nothing"},
        {"json", &c.json, NULL,
         "print one JSON object per line: progress (event: dispatch), then the result (event: "
         "result), with peak_memory of paddlectl and of the agents in bytes"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl dispatch [options]\n"
                 "Deploys job_dispatch_package to every host, below root_dir, and prints its path "
                 "for 'paddlectl run --job_workspace=PATH'. Nothing is sent to a host that already "
                 "has the workspace.",
        .about =
            "A host gets only the contents that it lacks. Files are split at content-defined "
            "boundaries into objects, which are compared by hash: after an edit of a large file "
            "some 64 kB are sent. The data leaves this machine once and is relayed from host to "
            "host. A relay that fails or is slow is bypassed, and hosts that cannot reach each "
            "other get the data from this machine over ssh (relay = off: all hosts do).\n"
            "\n"
            "Files that match .paddleignore (with the rules of .gitignore) are not sent; neither "
            "are .git and the workspace's output, unless .paddleignore has a line !.git or "
            "!/output. --dry-run compares with the last dispatch from this machine.",
        .examples = "paddlectl run --job_workspace=\"$(paddlectl dispatch)\"\tdeploys and runs in "
                    "one line\n"
                    "paddlectl dispatch --dry-run\tlists the files, the largest first\n",
        .extra = extra,
        .sections = "cluster ssh job",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, dispatch, &c);
}
