/* cmd_dispatch.c - paddlectl dispatch: the workspace to ROOT/workspaces/NAME-HASH of every node. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/cmd/cmd.h"
#include "launcher/cluster/gather.h"
#include "launcher/cluster/package.h"

enum { ASK_MS = 30000 };

static int on_answer(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct gather_node *n = arg;
    const struct package *p = n->g->arg;
    struct pd_err e = {0};
    (void)l;
    if (err) {
        e = *err;
    } else if (f->type == WIRE_AG_PKG_QUERY && !json_is_true(json_object_get(body, "have"))) {
        if (!package_send(n->link, p, "sending the workspace", on_answer, n))
            return 1;
        pd_fail(&e, PD_ENOMEM, "out of memory");
    }
    if (e.code)
        gather_fail(n, &e);
    else
        gather_done(n);
    return 1;
}

static void talk(struct gather_node *n) {
    const struct package *p = n->g->arg;
    struct pd_err err = {0};
    if (link_request(n->link, WIRE_AG_PKG_QUERY, json_pack("{s:s, s:s, s:s}", "kind", p->kind, "name", p->name, "hash", p->hash),
                     NULL, 0, ASK_MS, "asking for the workspace", on_answer, n)) {
        pd_fail(&err, PD_ENOMEM, "out of memory");
        gather_fail(n, &err);
    }
}

/* As run takes it for all nodes: with ~ and %n, or relative to root_dir when that differs. */
static void say_path(const struct cluster *c, const struct package *p) {
    const char *root = c->hosts.v[0].root_dir;
    for (size_t i = 1; i < c->hosts.n && root; i++)
        root = strcmp(root, c->hosts.v[i].root_dir) ? NULL : root;
    printf("%s%sworkspaces/%s-%s\n", root ? root : "", root ? "/" : "", p->name, p->hash);
}

static int dispatch(const struct pd_options *o, struct pd_err *err) {
    struct cluster c;
    struct gather g;
    struct package p;
    int rc, status = 0;
    if (!*o->job_dispatch_package)
        return pd_fail(err, PD_ECONF, "give job_dispatch_package: the workspace, a folder or tar archive here");
    if ((rc = cluster_init(&c, o, err)))
        return rc;
    rc = package_workspace(&p, "deploy", o->job_dispatch_package, err);
    if (rc) {
        pd_err_prefix(err, "%s", option_where(o, "job_dispatch_package"));
        cluster_release(&c);
        return rc;
    }
    if (!(rc = gather_init(&g, &c, err))) {
        if (gather_run(&g, talk, &p))
            status = gather_say(&g);
        else
            say_path(&c, &p);
        gather_release(&g);
    }
    package_release(&p);
    cluster_release(&c);
    return rc ? rc : status;
}

int cmd_dispatch(int argc, char **argv) {
    static const struct cmd_line line = {
        .usage = "paddlectl dispatch [options]\n"
                 "Deploys job_dispatch_package to every host, below root_dir, and prints its path there, for\n"
                 "'paddlectl run --job_workspace=PATH'. A host that has it already gets nothing.",
        .examples = "paddlectl run --job_workspace=\"$(paddlectl dispatch)\"\tdeploy once, run often\n",
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
    rc = dispatch(&o, &err);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
