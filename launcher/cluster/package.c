/* package.c - packing and sending; see package.h. */
#include "launcher/cluster/package.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"

enum { AHEAD = 1 << 20, PATIENCE_MS = 120000, SLOWEST_BYTES_PER_MS = 100 };

static int nameless_file(struct pd_err *err) {
    const char *dir = getenv("TMPDIR");
    char path[4096];
    if (!dir || !*dir)
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (pd_fmt(path, sizeof path, "%s/paddlectl-XXXXXX", dir))
        return pd_fail(err, PD_EIO, "TMPDIR is too long");
    fd = mkostemp(path, O_CLOEXEC); /* a file system without O_TMPFILE */
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a temporary file in %s", dir);
    unlink(path);
    return fd;
}

static int to_file(void *arg, const void *p, size_t n, struct pd_err *err) {
    const struct package *pkg = arg;
    if (pd_write_all(pkg->fd, p, n))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write a temporary file (TMPDIR)");
    return 0;
}

/* "word2vec" of "./word2vec/" or "/w/word2vec.tar.gz", with only what an agent takes in a name. */
static void package_name(struct package *p, const char *path) {
    char full[PATH_MAX];
    if (!realpath(path, full))
        pd_fmt(full, sizeof full, "%s", path);
    const char *base = strrchr(full, '/');
    base = base ? base + 1 : full;
    size_t n = 0;
    const char *dot = strstr(base, ".tar");
    for (const char *s = base; *s && s != dot && n < sizeof p->name - 1; s++)
        p->name[n++] = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", *s) ? *s : '_';
    p->name[n] = 0;
    if (!n || p->name[0] == '.')
        pd_fmt(p->name, sizeof p->name, "workspace");
}

int package_workspace(struct package *p, const char *kind, const char *path, struct pd_err *err) {
    struct stat st;
    *p = (struct package){.kind = kind, .fd = -1};
    if (stat(path, &st))
        return pd_fail_errno(err, PD_ENOENT, errno, "cannot read the workspace %s", path);
    package_name(p, path);
    if ((p->fd = nameless_file(err)) < 0)
        return err->code;
    int rc;
    if (S_ISDIR(st.st_mode))
        rc = pack_tree(path, PACK_WORKSPACE, to_file, p, &p->packed, err);
    else if (pack_is_archive(path))
        rc = pack_archive(path, to_file, p, &p->packed, err);
    else
        rc = pd_fail(err, PD_ENOENT, "the workspace %s is neither a folder nor a tar archive", path);
    if (rc) {
        package_release(p);
        return rc;
    }
    pd_fmt(p->hash, sizeof p->hash, "%.16s", p->packed.sha256);
    return 0;
}

int package_worker_hash(struct package *p, const char *path, struct pd_err *err) {
    *p = (struct package){.kind = "worker", .fd = -1};
    pd_fmt(p->name, sizeof p->name, "paddle_worker");
    return pack_sha256_file(path, p->hash, err);
}

int package_worker_pack(struct package *p, const char *path, struct pd_err *err) {
    if (p->fd >= 0)
        return 0;
    if ((p->fd = nameless_file(err)) < 0)
        return err->code;
    int rc = pack_file(path, p->name, to_file, p, &p->packed, err);
    if (rc) {
        close(p->fd);
        p->fd = -1;
    }
    return rc;
}

void package_release(struct package *p) {
    if (p->kind && p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

/* --- sending --------------------------------------------------------------------------------------------- */

struct upload {
    const struct package *p;
    uint64_t req, sent;
    int ended; /* nothing more to send: END is out, or the answer came first */
    link_answer answer;
    void *arg;
};

static int on_end_answer(struct link *l, const struct wire_frame *f, json_t *body, const struct pd_err *err, void *arg) {
    struct upload *u = arg;
    link_on_drain(l, NULL, NULL);
    u->answer(l, f, body, err, u->arg);
    free(u);
    return 1;
}

static void send_more(struct link *l, void *arg) {
    struct upload *u = arg;
    static const size_t piece = WIRE_CHUNK;
    uint8_t *buf = u->ended ? NULL : pd_malloc(piece);
    while (buf && u->sent < u->p->packed.packed && link_queued(l) < AHEAD) {
        ssize_t n = pread(u->p->fd, buf, piece, (off_t)u->sent);
        if (n <= 0 || link_send(l, WIRE_AG_PKG_DATA, u->req, NULL, buf, (size_t)n))
            break; /* what is missing shows in the END's check */
        u->sent += (uint64_t)n;
    }
    free(buf);
    if (!u->ended && u->sent == u->p->packed.packed) {
        u->ended = 1;
        link_send(l, WIRE_AG_PKG_END, u->req,
                  json_pack("{s:s, s:I}", "sha256", u->p->packed.sha256, "bytes", (json_int_t)u->p->packed.packed), NULL, 0);
    }
}

int package_send(struct link *l, const struct package *p, const char *what, link_answer answer, void *arg) {
    struct upload *u = pd_calloc(1, sizeof *u);
    if (!u)
        return PD_ENOMEM;
    *u = (struct upload){.p = p, .answer = answer, .arg = arg};
    uint64_t patience = PATIENCE_MS + p->packed.packed / SLOWEST_BYTES_PER_MS;
    if (!(u->req = link_expect(l, WIRE_AG_PKG_END, patience, what, on_end_answer, u))) {
        free(u);
        return PD_ENOMEM;
    }
    link_on_drain(l, send_more, u);
    link_send(l, WIRE_AG_PKG_BEGIN, u->req, json_pack("{s:s, s:s, s:s}", "kind", p->kind, "name", p->name, "hash", p->hash),
              NULL, 0);
    send_more(l, u);
    return 0;
}
