/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_places.c - see cmd_places.h. */
#include "launcher/cmd/cmd_places.h"

#include "launcher/cmd/cmd.h"
#include "launcher/outputs/outputs.h"

static int has_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    return !pd_fmt(path, sizeof path, "%s/%s", folder, name) && !access(path, F_OK);
}

/* The folder that `paddlectl run` sends, ./workspace, or the current folder. */
static void find_workspace(struct cmd_places *p, const struct pd_options *o) {
    struct stat st;
    const char *given = o->job_dispatch_package;
    if (*given && !stat(given, &st) && S_ISDIR(st.st_mode))
        pd_fmt(p->workspace, sizeof p->workspace, "%s", given);
    else
        pd_fmt(p->workspace, sizeof p->workspace, "%s",
               has_file("workspace", "train.ini") ? "workspace" : ".");
}

/* The newest model of the jobs, or else of a training by hand in the workspace. */
static int find_model(struct cmd_places *p, const struct pd_options *o, struct pd_err *err) {
    char by_hand[PATH_MAX];
    struct pd_err none = {0};
    if (!outputs_newest_model(o->outputs, p->model, sizeof p->model, &none) ||
        (!pd_fmt(by_hand, sizeof by_hand, "%s/output", p->workspace) &&
         !outputs_newest_model(by_hand, p->model, sizeof p->model, &none)))
        return 0;
    return pd_fail(err, PD_EUSAGE, "no model given, and %s has none: use --model=FOLDER",
                   o->outputs);
}

int cmd_find_places(struct cmd_places *p, struct pd_err *err) {
    struct pd_options o;
    char root[PATH_MAX];
    const int given = *p->model, has_workspace = *p->workspace;
    if (given && !has_file(p->model, "manifest.json") &&
        !pd_fmt(root, sizeof root, "%s", p->model) &&
        outputs_newest_model(root, p->model, sizeof p->model, err))
        return err->code;
    if (given && has_workspace)
        return 0;
    int rc = pd_options_init(&o, err);
    if (!rc && (p->conf || !access("conf.ini", F_OK)))
        rc = pd_options_read_conf(&o, p->conf ? p->conf : "conf.ini", err);
    if (!rc && !has_workspace)
        find_workspace(p, &o);
    if (!rc && !given)
        rc = find_model(p, &o, err);
    pd_options_release(&o);
    if (!rc && (!given || strcmp(p->workspace, ".")))
        fprintf(stderr, "paddlectl: model %s, workspace %s\n", p->model, p->workspace);
    return rc;
}
