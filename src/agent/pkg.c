/* pkg.c - packages that arrive, and the question whether one is there. docs/protocol.md, "Packages". */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/session.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"
#include "pack/pack.h"
#include "wire/msg.h"

enum kind { KIND_WORKER, KIND_DEPLOY, KIND_WORKSPACE, N_KINDS };
static const char *const kind_names[N_KINDS] = {"worker", "deploy", "workspace"};

struct pkg_in {
    struct session *s;
    uint64_t req;
    enum kind kind;
    char hash[65];
    char dir[PATH_MAX];    /* where it is spooled and unpacked: the target's own file system */
    char target[PATH_MAX]; /* what it becomes */
    struct pack_spool *spool;
    uv_work_t work;
    struct pack_result res;
    struct pd_err err;
};

/* Kind, name and hash from a message into paths. */
static int where(const struct agent *ag, const json_t *body, struct pkg_in *p, struct pd_err *err) {
    const char *kind = msg_str(body, "kind"), *name = msg_str(body, "name"), *hash = msg_str(body, "hash");
    size_t n = strlen(hash);
    for (p->kind = 0; p->kind < N_KINDS && strcmp(kind, kind_names[p->kind]); p->kind++)
        ;
    if (p->kind == N_KINDS)
        return pd_fail(err, PD_EPROTO, "there is no package kind '%.40s'", kind);
    if (p->kind == KIND_WORKSPACE) {
        if (ag->mode != AGENT_JOB)
            return pd_fail(err, PD_EPROTO, "a workspace belongs to a job");
        int bad = pd_fmt(p->dir, sizeof p->dir, "%s", ag->place.dir) ||
                  pd_fmt(p->target, sizeof p->target, "%s/workspace", ag->place.dir);
        return bad ? pd_fail(err, PD_EIO, "path too long: %s", ag->place.dir) : 0;
    }
    if (n < 8 || n > 64 || hash[strspn(hash, "0123456789abcdef")] || (p->kind == KIND_WORKER && n != 64))
        return pd_fail(err, PD_EPROTO, "package %s: '%.70s' is not a hash", kind, hash);
    if (p->kind == KIND_DEPLOY && !place_name_ok(name))
        return pd_fail(err, PD_EPROTO, "'%.80s' is not a package's name", name);
    memcpy(p->hash, hash, n + 1);
    const char *root = ag->place.root;
    int bad = p->kind == KIND_WORKER ? pd_fmt(p->dir, sizeof p->dir, "%s/.paddlectl/bin", root) ||
                                           pd_fmt(p->target, sizeof p->target, "%s/.paddlectl/bin/worker-%s", root, hash)
                                     : pd_fmt(p->dir, sizeof p->dir, "%s/workspaces", root) ||
                                           pd_fmt(p->target, sizeof p->target, "%s/workspaces/%s-%s", root, name, hash);
    return bad ? pd_fail(err, PD_EIO, "path too long: %s", root) : 0;
}

int pkg_on_query(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct pkg_in p = {0};
    struct stat st;
    int rc = where(s->ag, body, &p, err);
    if (rc)
        return rc;
    int have = !stat(p.target, &st) && (p.kind == KIND_WORKER ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode));
    return msg_send(s->conn, f->type, f->req,
                    json_pack("{s:b, s:o}", "have", have, "path", msg_text(p.target, strlen(p.target))));
}

static void pkg_free(struct pkg_in *p) {
    pack_spool_free(p->spool);
    free(p);
}

void pkg_drop(struct session *s) {
    if (s->in)
        pkg_free(s->in);
    s->in = NULL;
}

/* Give the package that is arriving up; its error is the answer to its end. */
static void give_up(struct session *s, struct pd_err *err) {
    pd_warn(&s->ag->log, "package %s: %s", kind_names[s->in->kind], err->msg);
    net_send_error(s->conn, WIRE_AG_PKG_END, s->in->req, err);
    pkg_drop(s);
}

int pkg_on_begin(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    if (s->in)
        return pd_fail(err, PD_EPROTO, "a package began before the last one had ended");
    struct pkg_in *p = pd_calloc(1, sizeof *p);
    if (!p)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    p->s = s;
    p->req = f->req;
    struct pd_err why = {0};
    int rc = where(s->ag, body, p, &why);
    if (!rc)
        rc = pd_mkdirs(p->dir, 0755, &why);
    if (!rc)
        rc = pack_spool_new(&p->spool, p->dir, &why);
    s->in = p;
    if (rc)
        give_up(s, &why);
    return 0;
}

int pkg_on_data(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    (void)body;
    (void)err;
    struct pd_err why = {0};
    if (s->in && f->req == s->in->req && f->n_sec > 1 && pack_spool_write(s->in->spool, f->sec[1], f->len[1], &why))
        give_up(s, &why);
    return 0; /* the rest of a package that was given up */
}

/* The one regular file of an unpacked worker package, which must have the hash that names it. */
static int take_executable(struct pkg_in *p, const char *tree, struct pd_err *err) {
    char file[PATH_MAX], hex[65];
    DIR *d = opendir(tree);
    struct dirent *e, *only = NULL;
    int n = 0, rc = 0;
    *file = 0;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            only = e;
            n++;
            if (pd_fmt(file, sizeof file, "%s/%s", tree, only->d_name))
                n = 99;
        }
    if (d)
        closedir(d);
    struct stat st;
    if (n != 1 || lstat(file, &st) || !S_ISREG(st.st_mode))
        return pd_fail(err, PD_EDATA, "a worker package holds one file, and nothing else");
    rc = pack_sha256_file(file, hex, err);
    if (!rc && strcmp(hex, p->hash))
        rc = pd_fail(err, PD_EDATA, "the worker has SHA-256 %s instead of %s", hex, p->hash);
    if (!rc && (chmod(file, 0755) || rename(file, p->target)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot store %s", p->target);
    return rc;
}

/* On a thread of the pool. */
static void unpack(uv_work_t *w) {
    struct pkg_in *p = w->data;
    const struct pack_limits keep = {.durable = p->kind != KIND_WORKSPACE};
    if (p->kind != KIND_WORKER) {
        pack_spool_extract(p->spool, p->target, &keep, &p->res, &p->err);
        if (p->kind == KIND_DEPLOY && p->err.code == PD_EEXIST)
            pd_err_clear(&p->err); /* another session was faster: the same name and hash, the same tree */
        return;
    }
    char tree[PATH_MAX];
    if (pd_fmt(tree, sizeof tree, "%s/.worker-%d-%llx", p->dir, (int)getpid(), (unsigned long long)pd_mono_ns())) {
        pd_fail(&p->err, PD_EIO, "path too long: %s", p->dir);
        return;
    }
    if (!pack_spool_extract(p->spool, tree, &keep, &p->res, &p->err))
        take_executable(p, tree, &p->err);
    pd_rm_tree(tree, NULL);
    if (!p->err.code)
        pd_fsync_dir(p->dir, &p->err);
}

static void on_unpacked(uv_work_t *w, int status) {
    struct pkg_in *p = w->data;
    struct session *s = p->s;
    if (status)
        pd_fail(&p->err, PD_ECANCELED, "the agent is ending");
    s->ag->n_unpacking--;
    s->ag->last_client_ns = pd_mono_ns();
    if (p->err.code)
        pd_warn(&s->ag->log, "package %s: %s", kind_names[p->kind], p->err.msg);
    else
        pd_info(&s->ag->log, "package %s: %llu entries, %llu bytes in %s", kind_names[p->kind],
                (unsigned long long)p->res.files, (unsigned long long)p->res.bytes, p->target);
    if (s->conn && p->err.code)
        net_send_error(s->conn, WIRE_AG_PKG_END, p->req, &p->err);
    else if (s->conn)
        msg_send(s->conn, WIRE_AG_PKG_END, p->req,
                 json_pack("{s:o, s:I, s:I}", "path", msg_text(p->target, strlen(p->target)), "files",
                           (json_int_t)p->res.files, "bytes", (json_int_t)p->res.bytes));
    pkg_free(p);
    session_unref(s);
}

int pkg_on_end(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    struct pkg_in *p = s->in;
    (void)err;
    if (!p || f->req != p->req)
        return 0; /* it was given up, and the answer sent */
    struct pd_err why = {0};
    uint64_t bytes = (uint64_t)msg_int(body, "bytes", 0, INT64_MAX, -1);
    int rc = pack_spool_verify(p->spool, msg_str(body, "sha256"), bytes, &why);
    p->work.data = p;
    if (!rc && uv_queue_work(&s->ag->loop, &p->work, unpack, on_unpacked))
        rc = pd_fail(&why, PD_ENOMEM, "cannot start a thread");
    if (rc) {
        give_up(s, &why);
        return 0;
    }
    s->in = NULL;
    s->refs++;
    s->ag->n_unpacking++;
    return 0;
}
