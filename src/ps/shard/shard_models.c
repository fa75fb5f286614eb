/* shard_models.c - the checkpoints on this server's disk: what there is, whether it is whole, its bytes, for whoever lacks them.
 * These requests are answered at once, whatever step the shard is at, and do no harm when they come twice.
 */
#include <dirent.h>
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
#include "model/model.h"
#include "ps/shard/shard_int.h"

enum { MANIFEST_MAX = 256 << 20, LIST_MAX = 4096 };

static int answer2(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, const struct pd_buf *head, const void *p, size_t n,
                   struct pd_err *err) {
    struct iovec io[2] = {{head->data, head->len}, {(void *)(uintptr_t)p, n}};
    if (head->failed)
        return pd_fail(err, PD_ENOMEM, "no memory for an answer");
    s->ops.answer(s->arg, trainer, f->type, f->req, io, p ? 2 : 1, NULL, NULL);
    return 0;
}

/* A file's name inside a model's folder. */
static int file_name(struct pd_rd *r, char file[MODEL_FILE_MAX + 1], struct pd_err *err) {
    pd_get_str(r, file, MODEL_FILE_MAX + 1);
    return r->failed || !*file || *file == '.' || strchr(file, '/') ? pd_fail(err, PD_EPROTO, "not the name of a part") : 0;
}

/* --- what there is --- */

/* str name, u64 step, u64 pass, u64 batch, u32 has the optimizer's state, 16 bytes: hash of the manifest, u32 n, n times u8: is the part here, of that size? */
static int put_one(const struct ps_shard *s, const char *dir, const char *name, struct pd_buf *out) {
    char path[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text;
    struct pd_err ignored = {0};
    uint8_t hash[16];
    pd_buf_init(&text);
    int ok = !pd_fmt(path, sizeof path, "%s/%s/manifest.json", dir, name) && !access(path, F_OK) &&
             !pd_read_file(path, MANIFEST_MAX, &text, &ignored) &&
             !model_manifest_parse(&m, (const char *)text.data, text.len, &ignored);
    if (ok) {
        model_hash(text.data, text.len, hash);
        pd_put_str(out, name);
        pd_put_u64(out, m.step);
        pd_put_u64(out, m.optimizer_state ? m.resume.pass : m.pass + 1);
        pd_put_u64(out, m.resume.batch);
        pd_put_u32(out, m.optimizer_state != 0);
        pd_put(out, hash, sizeof hash);
        pd_put_u32(out, (uint32_t)m.n_parts);
        for (size_t i = 0; i < m.n_parts; i++) {
            struct stat st;
            pd_put_u8(out, !pd_fmt(path, sizeof path, "%s/%s/%s", dir, name, m.parts[i].file) && !stat(path, &st) &&
                               (uint64_t)st.st_size == m.parts[i].bytes);
        }
    }
    else if (ignored.code)
        pd_warn(s->opts.log, "%s is no saved model: %s", path, ignored.msg);
    model_manifest_release(&m);
    pd_buf_release(&text);
    return ok;
}

/* sec 0: str dir, str name ("": all whose names begin with pass-). Answer: u32 n, n times what put_one says. */
static int list(struct ps_shard *s, struct pd_rd *r, struct pd_buf *out, struct pd_err *err) {
    char dir[PATH_MAX], name[256];
    uint32_t n = 0;
    int rc = shard_folder(s, r, dir, err);
    pd_get_str(r, name, sizeof name);
    if (rc || !pd_rd_done(r) || strchr(name, '/'))
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_MODELS");
    if (!*dir)
        pd_fmt(dir, sizeof dir, ".");
    pd_put_u32(out, 0);
    DIR *d = *name ? NULL : opendir(dir);
    if (*name)
        n = (uint32_t)put_one(s, dir, name, out);
    for (const struct dirent *e; d && n < LIST_MAX && (e = readdir(d));)
        if (pd_starts(e->d_name, "pass-"))
            n += (uint32_t)put_one(s, dir, e->d_name, out);
    if (d)
        closedir(d);
    if (!out->failed)
        memcpy(out->data, &n, sizeof n);
    return 0;
}

/* sec 0: str folder, str file ("": all that is here). Answer: u32 code (0: it is whole), str what is not. */
static int verify(struct ps_shard *s, struct pd_rd *r, struct pd_buf *out, struct pd_err *err) {
    char folder[PATH_MAX], file[MODEL_FILE_MAX + 1];
    struct pd_err why = {0};
    struct model *m = NULL;
    int rc = shard_folder(s, r, folder, err);
    pd_get_str(r, file, sizeof file);
    if (rc || !pd_rd_done(r))
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_VERIFY");
    rc = model_open(&m, folder, &why);
    if (!rc)
        rc = *file ? model_verify_part(m, file, &why) : model_verify_here(m, &why);
    model_close(m);
    pd_put_u32(out, (uint32_t)-rc);
    pd_put_str(out, rc ? why.msg : "");
    return 0;
}

/* --- bytes --- */

/* sec 0: str folder, str file, u64 offset, u32 n. Answer: u64 size of the file; sec 1: its bytes from there, at most n. */
static int read_file(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_rd *r, struct pd_err *err) {
    char folder[PATH_MAX], file[MODEL_FILE_MAX + 1], path[PATH_MAX];
    int rc = shard_folder(s, r, folder, err);
    if (!rc)
        rc = file_name(r, file, err);
    uint64_t offset = pd_get_u64(r);
    uint32_t n = pd_get_u32(r);
    if (rc || !pd_rd_done(r) || n > PS_PIECE)
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_READ");
    if (pd_fmt(path, sizeof path, "%s/%s", folder, file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    struct stat st;
    struct pd_buf head;
    void *mem = pd_malloc(n);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    pd_buf_init(&head);
    if (!mem)
        rc = pd_fail(err, PD_ENOMEM, "no memory to read %s", path);
    else if (fd < 0 || fstat(fd, &st) || (got = pread(fd, mem, n, (off_t)offset)) < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    if (!rc) {
        pd_put_u64(&head, (uint64_t)st.st_size);
        rc = answer2(s, trainer, f, &head, mem, (size_t)got, err);
    }
    if (fd >= 0)
        close(fd);
    free(mem);
    pd_buf_release(&head);
    return rc;
}

/* Is the file there, of that size, with these bytes? */
static int has(const char *path, uint64_t offset, uint64_t size, const uint8_t *p, size_t n) {
    struct stat st;
    uint8_t *mem = pd_malloc(n);
    int fd = mem ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    int yes = fd >= 0 && !fstat(fd, &st) && (uint64_t)st.st_size == size && pread(fd, mem, n, (off_t)offset) == (ssize_t)n && !memcmp(mem, p, n);
    if (fd >= 0)
        close(fd);
    free(mem);
    return yes;
}

/* sec 0: str folder, str file, u64 offset, u64 size of the file; sec 1: its bytes from there. The file is there when it is whole;
 * manifest.json comes last, and makes the folder a model. Answer: nothing. */
static int store(struct ps_shard *s, const struct wire_frame *f, struct pd_rd *r, struct pd_err *err) {
    char folder[PATH_MAX], file[MODEL_FILE_MAX + 1], path[PATH_MAX], aside[PATH_MAX];
    int rc = shard_folder(s, r, folder, err);
    if (!rc)
        rc = file_name(r, file, err);
    uint64_t offset = pd_get_u64(r), size = pd_get_u64(r), n = f->len[1];
    if (rc || !pd_rd_done(r) || offset > size || n > size - offset)
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_STORE");
    if (pd_fmt(path, sizeof path, "%s/%s", folder, file) || pd_fmt(aside, sizeof aside, "%s/.%s.tmp", folder, file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    rc = offset ? 0 : pd_mkdirs(folder, 0755, err);
    if (rc)
        return rc;
    int fd = open(aside, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (offset ? 0 : O_CREAT | O_TRUNC), 0644);
    if (fd < 0 && errno == ENOENT && offset && offset + n == size && has(path, offset, size, f->sec[1], n))
        return 0; /* the last piece, a second time */
    if (fd < 0 || lseek(fd, (off_t)offset, SEEK_SET) < 0 || pd_write_all(fd, f->sec[1], n) || (offset + n == size && fsync(fd)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", aside);
    if (!rc && offset + n < size) /* so that little is left to be written when the last piece is synced */
        (void)sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
    if (fd >= 0)
        close(fd);
    if (!rc && offset + n == size && rename(aside, path))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot rename %s to %s", aside, path);
    return !rc && offset + n == size ? pd_fsync_dir(folder, err) : rc;
}

/* Has the model at `folder` this file, as its manifest says and by its size? */
static int has_file(const char *folder, const struct model_part *want, struct stat *st) {
    char path[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text;
    struct pd_err ignored = {0};
    int yes = 0;
    pd_buf_init(&text);
    if (!pd_fmt(path, sizeof path, "%s/manifest.json", folder) && !pd_read_file(path, MANIFEST_MAX, &text, &ignored) &&
        !model_manifest_parse(&m, (const char *)text.data, text.len, &ignored))
        for (size_t i = 0; i < m.n_parts; i++)
            yes |= !strcmp(m.parts[i].file, want->file) && m.parts[i].bytes == want->bytes &&
                   !memcmp(m.parts[i].hash, want->hash, sizeof want->hash);
    yes = yes && !pd_fmt(path, sizeof path, "%s/%s", folder, want->file) && !lstat(path, st) && S_ISREG(st->st_mode) &&
          (uint64_t)st->st_size == want->bytes;
    model_manifest_release(&m);
    pd_buf_release(&text);
    return yes;
}

/* sec 0: str folder, str file, str older folder, u64 size of the file, 16 bytes of hash. Answer: u32 1: a link to the older one's is
 * there; 0: it has no such file, or the file system no links. */
static int link_older(struct ps_shard *s, struct pd_rd *r, struct pd_buf *out, struct pd_err *err) {
    char folder[PATH_MAX], older[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    struct model_part part = {0};
    struct stat st, there;
    int rc = shard_folder(s, r, folder, err);
    if (!rc)
        rc = file_name(r, part.file, err);
    if (!rc)
        rc = shard_folder(s, r, older, err);
    part.bytes = pd_get_u64(r);
    const uint8_t *hash = pd_get(r, sizeof part.hash);
    if (rc || !pd_rd_done(r))
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_LINK");
    memcpy(part.hash, hash, sizeof part.hash);
    if (pd_fmt(from, sizeof from, "%s/%s", older, part.file) || pd_fmt(to, sizeof to, "%s/%s", folder, part.file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    rc = pd_mkdirs(folder, 0755, err);
    if (rc)
        return rc;
    int yes = has_file(older, &part, &st);
    if (yes && (lstat(to, &there) || there.st_dev != st.st_dev || there.st_ino != st.st_ino)) {
        (void)unlink(to); /* of a save that came to nothing */
        yes = !pd_fault("ps.link") && !link(from, to);
    }
    pd_put_u32(out, (uint32_t)yes);
    return yes ? pd_fsync_dir(folder, err) : 0;
}

/* sec 0: str dir, str name. Answer: nothing. */
static int remove_model(struct ps_shard *s, struct pd_rd *r, struct pd_err *err) {
    char dir[PATH_MAX], name[256], path[PATH_MAX], away[PATH_MAX];
    int rc = shard_folder(s, r, dir, err);
    pd_get_str(r, name, sizeof name);
    if (rc || !pd_rd_done(r) || !pd_starts(name, "pass-") || strchr(name, '/'))
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_REMOVE");
    if (pd_fmt(path, sizeof path, "%s/%s", *dir ? dir : ".", name) || pd_fmt(away, sizeof away, "%s/.%s.old", *dir ? dir : ".", name))
        return pd_fail(err, PD_EIO, "path too long: %s", dir);
    rc = pd_rm_tree(away, err);
    if (!rc && rename(path, away)) /* so that it is never there in part */
        return errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", path);
    return rc ? rc : pd_rm_tree(away, err);
}

int shard_models(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err) {
    struct pd_rd r;
    struct pd_buf out;
    int rc;
    pd_buf_init(&out);
    pd_rd_init(&r, f->sec[0], f->len[0]);
    switch (f->type) {
    case WIRE_PS_READ: return read_file(s, trainer, f, &r, err);
    case WIRE_PS_MODELS: rc = list(s, &r, &out, err); break;
    case WIRE_PS_VERIFY: rc = verify(s, &r, &out, err); break;
    case WIRE_PS_STORE: rc = store(s, f, &r, err); break;
    case WIRE_PS_LINK: rc = link_older(s, &r, &out, err); break;
    default: rc = remove_model(s, &r, err); break;
    }
    if (!rc)
        rc = answer2(s, trainer, f, &out, NULL, 0, err);
    pd_buf_release(&out);
    return rc;
}

int shard_is_about_models(uint16_t type) { return (type >= WIRE_PS_MODELS && type <= WIRE_PS_REMOVE) || type == WIRE_PS_LINK; }
