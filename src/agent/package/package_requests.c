/* SPDX-License-Identifier: Apache-2.0 */
/* package_requests.c - a client's requests about packages: DS_BEGIN, DS_SOURCE, DS_OBJECT,
 * DS_ABORT. DS_SERVE is in package_serve.c. */
#include "agent/package/package.h"
#include "pack/object/manifest.h"
#include "wire/msg.h"

static const char packed_worker[] = "packed-worker"; /* the kind of a compressed worker */

static struct client_packages *packages_of(struct client *c) {
    struct client_packages *all = client_state(c, &package_service);
    all->c = c;
    all->kept = client_context(c, &package_service);
    return all;
}

static struct package *by_req(struct client *c, uint64_t req) {
    struct package *d = packages_of(c)->first;
    while (d && (d->req != req || d->dead))
        d = d->next;
    return d;
}

static int on_source(struct client *c, const struct wire_frame *f, const json_t *body,
                     struct pd_err *err) {
    struct package *d = by_req(c, f->req);
    struct ds_source m;
    if (!d)
        return pd_fail(err, PD_EPROTO, "DS_SOURCE of no package");
    if (wire_get(&wire_ds_source, &m, body, err))
        return err->code;
    if (!m.launcher && (f->n_sec < 2 || f->len[1] != WIRE_KEY_BYTES))
        return pd_fail(err, PD_EPROTO, "DS_SOURCE: a node needs a secret");
    client_send(c, f->type, f->req, json_object());
    if (!package_is_over(d))
        package_set_source(d, &m, m.launcher ? NULL : f->sec[1]);
    return 0;
}

static int on_object(struct client *c, const struct wire_frame *f, const json_t *body,
                     struct pd_err *err) {
    struct package *d = by_req(c, f->req);
    (void)body;
    if (!d || f->n_sec < 2 ||
        f->total > PACKAGE_FRAME + OBJECT_MAX + OBJECT_HEADER +
                       4 * WIRE_HEADER) /* the whole frame is kept, so its total size counts */
        return d ? pd_fail(err, PD_EPROTO, "DS_OBJECT: %zu bytes are too many",
                           f->n_sec < 2 ? (size_t)0 : (size_t)f->total)
                 : 0;
    if (package_is_over(d) || d->dead || !f->len[1])
        return 0;
    struct wire_frame *ours = client_take_frame(c);
    package_put(d, &(struct package_input){.what = PACKAGE_IN_RECORDS,
                                           .frame = ours,
                                           .p = ours->data + (f->sec[1] - f->data),
                                           .n = f->len[1]});
    return 0;
}

/* The client is the source of the package and can't continue. */
static void on_object_error(struct client *c, uint64_t req, const struct pd_err *e) {
    struct package *d = by_req(c, req);
    if (d && d->source == PACKAGE_LAUNCHER)
        package_fail(d, e); /* no other source can have the objects */
}

static int on_abort(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct package *d = by_req(c, f->req);
    (void)body;
    (void)err;
    if (d)
        package_fail(d, &(struct pd_err){.code = PD_ECANCELED, .msg = "given up by the client"});
    return 0;
}

/* --- the beginning and the end --- */

static int set_target(struct package *d, const char *kind, const char *name, struct pd_err *err) {
    const struct agent_core *core = client_core(d->all->c);
    const char *root = core->paths.root;
    char hex[2 * OBJECT_ID + 1], dir[PATH_MAX];
    struct package_work *w = &d->w;
    int packed = !strcmp(kind, packed_worker);
    for (w->kind = 0;
         w->kind < N_PACKAGE_KINDS && !packed && strcmp(kind, package_kind_names[w->kind]);
         w->kind++)
        ;
    if (w->kind == N_PACKAGE_KINDS)
        return pd_fail(err, PD_EPROTO, "there is no package kind '%.40s'", kind);
    if ((w->kind == PACKAGE_WORKSPACE || w->kind == PACKAGE_DATA || w->kind == PACKAGE_RESUME) &&
        core->mode != AGENT_JOB)
        return pd_fail(err, PD_EPROTO, "a package of kind %s belongs to a job", kind);
    if ((w->kind == PACKAGE_DEPLOY || w->kind == PACKAGE_RESUME) && !node_paths_name_ok(name))
        return pd_fail(err, PD_EPROTO, "'%.80s' is not a package's name", name);
    object_hex(&d->root_id, hex);
    int bad =
        w->kind == PACKAGE_WORKSPACE ? pd_fmt(dir, sizeof dir, "%s", core->paths.dir) ||
                                           pd_fmt(w->target, sizeof w->target, "%s/workspace", dir)
        : w->kind == PACKAGE_DATA
            ? pd_fmt(dir, sizeof dir, "%s", core->paths.dir) ||
                  pd_fmt(w->target, sizeof w->target, "%s/data-%s", dir, hex) ||
                  pd_fmt(w->lies_in, sizeof w->lies_in, "%s/workspace", dir)
        : w->kind == PACKAGE_RESUME ? pd_fmt(dir, sizeof dir, "%s/resume", core->paths.dir) ||
                                          pd_fmt(w->target, sizeof w->target, "%s/%s", dir, name)
        : w->kind == PACKAGE_DEPLOY
            ? pd_fmt(dir, sizeof dir, "%s/workspaces", root) ||
                  pd_fmt(w->target, sizeof w->target, "%s/%s-%.16s", dir, name, hex)
            : pd_fmt(dir, sizeof dir, "%s/.paddlectl/bin", root) ||
                  pd_fmt(w->target, sizeof w->target, "%s/worker-%s", dir, hex) ||
                  (packed && pd_fmt(w->packed, sizeof w->packed, "%s/packed-worker-%s", dir, hex));
    if (bad)
        return pd_fail(err, PD_EIO, "path too long: %s", root);
    int rc = node_paths_check_private(root, 1, err);
    return rc ? rc : pd_mkdirs(dir, 0755, err);
}

/* 1: there is room for one more package. If a client has PACKAGES_MAX packages, the call drops a
 * finished package without takers. The oldest package of data files goes first, because no other
 * node takes it; otherwise the oldest package. Many packages of data files come if hosts are left
 * out repeatedly, because each round has new shares (launcher/job/job_data.c). */
static int make_room(struct client *c) {
    struct package *gives = NULL;
    unsigned n = 0;
    for (struct package *d = packages_of(c)->first; d; d = d->next) { /* newest first */
        n += !d->dead;
        if (!d->dead && package_is_over(d) && !d->takers &&
            (!gives || d->w.kind == PACKAGE_DATA || gives->w.kind != PACKAGE_DATA))
            gives = d;
    }
    if (n < PACKAGES_MAX)
        return 1;
    if (gives)
        package_drop(gives);
    return gives != NULL;
}

/* Creates a package from the root object in section 1. NULL with err: out of memory. */
static struct package *new_package(struct client_packages *all, const struct wire_frame *f,
                                   struct pd_err *err) {
    struct package *d = pd_calloc(1, sizeof *d);
    struct manifest_node node;
    uint8_t *root = pd_malloc(f->len[1]);
    if (!d || !root) {
        free(d);
        free(root);
        pd_oom(err, "a package");
        return NULL;
    }
    memcpy(root, f->sec[1], f->len[1]);
    object_id_of(&d->root_id, root, f->len[1]);
    d->all = all;
    d->bytes = manifest_read_root(&node, root, f->len[1], NULL) ? 0 : node.data_bytes;
    d->req = f->req;
    d->source = PACKAGE_NO_SOURCE;
    d->inputs_end = &d->inputs;
    d->w.root = root;
    d->w.root_n = f->len[1];
    d->w.paths = client_core(all->c)->paths;
    return d;
}

static int on_begin(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    struct agent_core *core = client_core(c);
    struct stat st;
    struct ds_begin m;
    if (client_over(c, err) || wire_get(&wire_ds_begin, &m, body, err))
        return err->code;
    if (by_req(c, f->req) || (core->mode != AGENT_JOB && core->mode != AGENT_TOOL))
        return pd_fail(err, PD_EPROTO, "DS_BEGIN: no package here");
    if (f->n_sec < 2 || !f->len[1] || f->len[1] > MANIFEST_ROOT_MAX)
        return pd_fail(err, PD_EPROTO, "DS_BEGIN needs a root object");
    if (!make_room(c))
        return pd_fail(err, PD_EPROTO,
                       "DS_BEGIN: %d packages are on their way, and no further one is taken",
                       PACKAGES_MAX);
    struct package *d = new_package(packages_of(c), f, err);
    if (!d)
        return err->code;
    d->w.store_limit = (uint64_t)m.store_limit;
    int rc = set_target(d, m.kind, m.name, err);
    if (!rc && d->w.kind == PACKAGE_DATA)
        rc = kept_data_root(d->all->kept, d->w.root, d->w.root_n,
                            err); /* the root object leads to files that other nodes ask for */
    d->w.have = !rc && !lstat(d->w.target, &st) &&
                (d->w.kind == PACKAGE_WORKER ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode));
    rc = rc ? rc : package_start(d, err);
    if (rc) {
        package_work_release(&d->w);
        free(d);
        return rc;
    }
    if (d->w.have && d->w.kind == PACKAGE_DEPLOY)
        (void)utimensat(
            AT_FDCWD, d->w.target, NULL,
            AT_SYMLINK_NOFOLLOW); /* the package is in use: `clean` must treat it as new */
    client_send(c, f->type, f->req,
                wire_put(&wire_ds_begin_answer,
                         &(struct ds_begin_answer){.have = d->w.have, .path = d->w.target}));
    if (!d->w.have)
        package_next_turn(d);
    return 0;
}

void packages_drop(struct client *c) {
    package_serve_close(packages_of(c));
    for (struct package *d = packages_of(c)->first, *next; d; d = next) {
        next = d->next;
        if (!d->dead)
            package_drop(d);
    }
}

static int on_serve(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    return package_serve_begin(packages_of(c), f, body, err);
}

static const struct client_request requests[] = {
    {WIRE_DS_BEGIN, 0, 1, on_begin, NULL},
    {WIRE_DS_SOURCE, 0, 1, on_source, NULL},
    {WIRE_DS_OBJECT, 0, 0, on_object, on_object_error},
    {WIRE_DS_SERVE, 0, 1, on_serve, NULL},
    {WIRE_DS_ABORT, 0, 0, on_abort, NULL},
    {0},
};

const struct client_service package_service = {.name = "packages",
                                               .requests = requests,
                                               .state_size = sizeof(struct client_packages),
                                               .on_close = packages_drop};
