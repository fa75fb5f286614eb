/* cmd_dispatch.c - paddlectl dispatch: the workspace to ROOT/workspaces/NAME-HASH of every node. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/cmd/cmd.h"
#include "launcher/cluster/gather.h"
#include "launcher/cluster/package.h"

enum { ASK_MS = 30000 };

struct dispatch {
    struct package package;
    int json, dry_run;
};

static int on_answer(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct gather_node *n = arg;
    const struct package *p = &((const struct dispatch *)n->g->arg)->package;
    struct pd_err e = {0};
    (void)l;
    if (err) {
        e = *err;
    } else if (f->type == WIRE_AG_PKG_QUERY && !json_is_true(json_object_get(body, "have"))) {
        if (!package_send(n->link, p, "sending the workspace", on_answer, n))
            return 1;
        pd_fail(&e, PD_ENOMEM, "out of memory");
    } else if (f->type == WIRE_AG_PKG_QUERY) {
        n->text = pd_strdup("had");
    }
    if (e.code)
        gather_fail(n, &e);
    else
        gather_done(n);
    return 1;
}

static void talk(struct gather_node *n) {
    const struct package *p = &((const struct dispatch *)n->g->arg)->package;
    struct pd_err err = {0};
    if (link_request(n->link, WIRE_AG_PKG_QUERY, json_pack("{s:s, s:s, s:s}", "kind", p->kind, "name", p->name, "hash", p->hash),
                     NULL, 0, ASK_MS, "asking for the workspace", on_answer, n)) {
        pd_fail(&err, PD_ENOMEM, "out of memory");
        gather_fail(n, &err);
    }
}

/* As run takes it for all nodes: with ~ and %n, or relative to root_dir when that differs. */
static void path_of(const struct cluster *c, const struct package *p, char out[PATH_MAX]) {
    const char *root = c->hosts.v[0].root_dir;
    for (size_t i = 1; i < c->hosts.n && root; i++)
        root = strcmp(root, c->hosts.v[i].root_dir) ? NULL : root;
    snprintf(out, PATH_MAX, "%s%sworkspaces/%s-%s", root ? root : "", root ? "/" : "", p->name, p->hash);
}

/* `text` of a node: it had the package already. */
static int report(const struct gather *g, const struct dispatch *d) {
    char path[PATH_MAX];
    json_t *sent = json_array(), *had = json_array(), *bad = json_array();
    int n_bad = 0;
    path_of(g->c, &d->package, path);
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct gather_node *n = &g->nodes[i];
        n_bad += n->err.code != 0;
        json_array_append_new(n->err.code ? bad : n->text ? had : sent, json_string(n->host->label));
    }
    int rc = 0;
    if (d->json)
        rc = cmd_print_json(json_pack("{s:s, s:I, s:I, s:I, s:b, s:O, s:O, s:O}", "path", path, "files",
                                      (json_int_t)d->package.packed.files, "bytes", (json_int_t)d->package.packed.bytes, "packed_bytes",
                                      (json_int_t)d->package.packed.packed, "dry_run", d->dry_run, "sent", sent, "had", had, "failed", bad));
    else if (d->dry_run)
        printf("would send %s to %zu host%s: %llu files, %llu bytes, %llu packed, to %s\n", g->c->opts->job_dispatch_package,
               g->c->hosts.n, g->c->hosts.n == 1 ? "" : "s", (unsigned long long)d->package.packed.files,
               (unsigned long long)d->package.packed.bytes, (unsigned long long)d->package.packed.packed, path);
    else if (!n_bad)
        puts(path);
    json_decref(sent);
    json_decref(had);
    json_decref(bad);
    return rc;
}

static int dispatch(const struct pd_options *o, struct dispatch *d, struct pd_err *err) {
    struct cluster c;
    struct gather g;
    int rc, status = 0, bad;
    if (!*o->job_dispatch_package)
        return pd_fail(err, PD_ECONF, "give job_dispatch_package: the workspace, a folder or tar archive here");
    if ((rc = cluster_init(&c, o, err)))
        return rc;
    rc = package_workspace(&d->package, "deploy", o->job_dispatch_package, err);
    if (rc) {
        pd_err_prefix(err, "%s", option_where(o, "job_dispatch_package"));
        cluster_release(&c);
        return rc;
    }
    if (!(rc = gather_init(&g, &c, err))) {
        bad = d->dry_run ? 0 : gather_run(&g, talk, d);
        status = g.interrupted ? 0 : report(&g, d);
        if (bad || g.interrupted)
            status = gather_say(&g);
        gather_release(&g);
    }
    package_release(&d->package);
    cluster_release(&c);
    return rc ? rc : status;
}

int cmd_dispatch(int argc, char **argv) {
    struct dispatch d = {.package.fd = -1};
    const struct pd_extra extra[] = {
        {"dry_run", &d.dry_run, NULL, "say what would be sent, and do nothing"},
        CMD_JSON(&d.json),
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl dispatch [options]\n"
                 "Deploys job_dispatch_package to every host, below root_dir, and prints its path there, for\n"
                 "'paddlectl run --job_workspace=PATH'. A host that has it already gets nothing.",
        .examples = "paddlectl run --job_workspace=\"$(paddlectl dispatch)\"\tdeploy once, run often\n",
        .extra = extra,
        .sections = "cluster ssh job",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = dispatch(&o, &d, &err);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
