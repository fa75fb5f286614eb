/* SPDX-License-Identifier: Apache-2.0 */
/* shard_models.c - the checkpoints on this server's disk: lists them, verifies them, and sends and
 * receives their bytes. These requests are answered at once at any step of the shard. Repeating
 * them does no harm. */
#include "model/model.h"
#include "ps/shard/shard_internal.h"

enum { MANIFEST_MAX = 256 << 20, LIST_MAX = 4096 };

/* Checks the name of a file in a model's folder. */
static int check_file(const char *file, struct pd_err *err) {
    return !*file || *file == '.' || strchr(file, '/')
               ? pd_fail(err, PD_EPROTO, "not the name of a part")
               : 0;
}

/* Opens a regular file, and never what a link leads to. */
static int open_file(const char *path, int flags, struct stat *st) {
    return pd_open_regular(path, flags | O_NOFOLLOW, 0644, st);
}

/* --- list and verify --- */

static int append_model(const struct ps_shard *s, const char *dir, const char *name,
                        struct pd_buf *out) {
    char path[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text = {0}, present = {0};
    struct pd_err ignored = {0};
    int ok = !pd_fmt(path, sizeof path, "%s/%s/manifest.json", dir, name) && !access(path, F_OK) &&
             !pd_read_regular(path, MANIFEST_MAX, &text, &ignored) &&
             !model_manifest_parse(&m, (const char *)text.data, text.len, &ignored);
    if (ok) {
        for (size_t i = 0; i < m.n_parts; i++) {
            struct stat st;
            pd_put_u8(&present,
                      !pd_fmt(path, sizeof path, "%s/%s/%s", dir, name, m.parts[i].file) &&
                          !stat(path, &st) && (uint64_t)st.st_size == m.parts[i].bytes);
        }
        struct ps_msg_model_entry e = {.name = name,
                                       .step = m.step,
                                       .pass = m.optimizer_state ? m.resume.pass : m.pass + 1,
                                       .batch = m.resume.batch,
                                       .full = m.optimizer_state != 0,
                                       .n_parts = (uint32_t)m.n_parts,
                                       .present = present.data};
        model_hash(text.data, text.len, e.hash);
        ps_append_model_entry(out, &e);
        out->failed |= present.failed;
    } else if (ignored.code) {
        pd_warn(s->opts.log, "%s is no saved model: %s", path, ignored.msg);
    }
    model_manifest_release(&m);
    pd_buf_release(&text);
    pd_buf_release(&present);
    return ok;
}

static int on_models(struct ps_shard *s, const struct ps_body *b, struct ps_body *out,
                     struct pd_err *err) {
    char asked[PATH_MAX], dir[PATH_MAX];
    struct ps_msg_models q;
    struct ps_msg_model_list list = {0};
    struct pd_buf models = {0};
    int rc = ps_get_models(b, &q, err);
    if (!rc &&
        (strchr(q.name, '/') || pd_fmt(asked, sizeof asked, "%s/%s", *q.dir ? q.dir : ".", q.name)))
        rc = pd_fail(err, PD_EPROTO, "a malformed PS_MODELS");
    if (!rc) /* a server may be allowed to read a model, but not its neighbours */
        rc = shard_folder(s, SHARD_READS, asked, dir, err);
    if (rc)
        return rc;
    *strrchr(dir, '/') = 0;
    DIR *d = *q.name ? NULL : opendir(dir);
    if (*q.name)
        list.n_models = (uint32_t)append_model(s, dir, q.name, &models);
    for (const struct dirent *e; d && list.n_models < LIST_MAX && (e = readdir(d));)
        if (pd_starts_with(e->d_name, "pass-"))
            list.n_models += (uint32_t)append_model(s, dir, e->d_name, &models);
    pd_closedir(d);
    list.models = models.data;
    list.models_bytes = models.len;
    ps_put_model_list(out, &list);
    out->head->failed |= models.failed;
    pd_buf_release(&models);
    return 0;
}

static int on_verify(struct ps_shard *s, const struct ps_body *b, struct ps_body *out,
                     struct pd_err *err) {
    char folder[PATH_MAX];
    struct ps_msg_verify q;
    struct pd_err why = {0};
    struct model *m = NULL;
    int rc = ps_get_verify(b, &q, err);
    if (!rc)
        rc = shard_folder(s, SHARD_READS, q.folder, folder, err);
    if (rc)
        return rc;
    rc = model_open(&m, folder, &why);
    if (!rc)
        rc = *q.file ? model_verify_part(m, q.file, &why) : model_verify_present(m, &why);
    model_close(m);
    ps_put_verified(out,
                    &(struct ps_msg_verified){.code = (uint32_t)-rc, .message = rc ? why.msg : ""});
    return 0;
}

/* --- bytes --- */

/* Answers here, not in shard_models, since the answer points to the bytes in `mem`. */
static int on_read(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                   const struct ps_body *b, struct pd_err *err) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct ps_msg_read q;
    int rc = ps_get_read(b, &q, err);
    if (!rc)
        rc = check_file(q.file, err);
    if (!rc)
        rc = shard_folder(s, SHARD_READS, q.folder, folder, err);
    if (rc)
        return rc;
    if (pd_fmt(path, sizeof path, "%s/%s", folder, q.file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    struct stat st;
    void *mem = pd_malloc(q.n);
    int fd = open_file(path, O_RDONLY, &st);
    ssize_t got = -1;
    if (!mem)
        rc = pd_fail(err, PD_ENOMEM, "no memory to read %s", path);
    else if (fd < 0 || (got = pread(fd, mem, q.n, (off_t)q.offset)) < 0)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    if (!rc) {
        struct ps_body out = shard_body(s);
        ps_put_piece(&out, &(struct ps_msg_piece){
                               .size = (uint64_t)st.st_size, .data = mem, .n_data = (size_t)got});
        rc = shard_answer(s, trainer, f, &out, err);
    }
    pd_close(fd);
    free(mem);
    return rc;
}

/* 1: the file exists, has `size` bytes, and has these n bytes at `offset`. */
static int file_has_bytes(const char *path, uint64_t offset, uint64_t size, const uint8_t *p,
                          size_t n) {
    struct stat st;
    uint8_t *mem = pd_malloc(n);
    int fd = mem ? open_file(path, O_RDONLY, &st) : -1;
    int yes = fd >= 0 && (uint64_t)st.st_size == size &&
              pread(fd, mem, n, (off_t)offset) == (ssize_t)n && !memcmp(mem, p, n);
    pd_close(fd);
    free(mem);
    return yes;
}

/* Writes a piece. The file gets its name when it is complete. manifest.json is sent last and makes
 * the folder a model. */
static int on_store(struct ps_shard *s, const struct ps_body *b, struct pd_err *err) {
    char folder[PATH_MAX], path[PATH_MAX], aside[PATH_MAX];
    struct ps_msg_store q;
    int rc = ps_get_store(b, &q, err);
    if (!rc)
        rc = check_file(q.file, err);
    if (!rc)
        rc = shard_folder(s, SHARD_WRITES, q.folder, folder, err);
    struct stat st;
    const char *file = q.file;
    const uint64_t offset = q.offset, size = q.size, n = q.n_data;
    if (rc || offset > size || n > size - offset)
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_STORE");
    if (pd_fmt(path, sizeof path, "%s/%s", folder, file) ||
        pd_fmt(aside, sizeof aside, "%s/.%s.tmp", folder, file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    rc = offset ? 0 : pd_mkdirs(folder, 0755, err);
    if (rc)
        return rc;
    int fd = open_file(aside, O_WRONLY | (offset ? 0 : O_CREAT | O_TRUNC), &st);
    if (fd < 0 && errno == ENOENT && offset && offset + n == size &&
        file_has_bytes(path, offset, size, q.data, n))
        return 0; /* a repeated last piece */
    if (fd < 0 || lseek(fd, (off_t)offset, SEEK_SET) < 0 || pd_write_all(fd, q.data, n) ||
        (offset + n == size && fsync(fd)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", aside);
    if (!rc &&
        offset + n <
            size) /* starts writeback early, so that the final fsync has little left to write */
        (void)sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
    pd_close(fd);
    if (!rc && offset + n == size && rename(aside, path))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot rename %s to %s", aside, path);
    return !rc && offset + n == size ? pd_fsync_dir(folder, err) : rc;
}

/* 1: the manifest at `folder` lists this file, and the file exists with the right size. */
static int has_file(const char *folder, const struct model_part *want, struct stat *st) {
    char path[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text = {0};
    struct pd_err ignored = {0};
    int yes = 0;
    if (!pd_fmt(path, sizeof path, "%s/manifest.json", folder) &&
        !pd_read_regular(path, MANIFEST_MAX, &text, &ignored) &&
        !model_manifest_parse(&m, (const char *)text.data, text.len, &ignored))
        for (size_t i = 0; i < m.n_parts; i++)
            yes |= !strcmp(m.parts[i].file, want->file) && m.parts[i].bytes == want->bytes &&
                   !memcmp(m.parts[i].hash, want->hash, sizeof want->hash);
    yes = yes && !pd_fmt(path, sizeof path, "%s/%s", folder, want->file) && !lstat(path, st) &&
          S_ISREG(st->st_mode) && (uint64_t)st->st_size == want->bytes;
    model_manifest_release(&m);
    pd_buf_release(&text);
    return yes;
}

/* Links a file of an older model into a folder. The answer is 0 if the older model has no such
 * file, or the file system has no links. */
static int on_link(struct ps_shard *s, const struct ps_body *b, struct ps_body *out,
                   struct pd_err *err) {
    char folder[PATH_MAX], older[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    struct ps_msg_link q;
    struct model_part part = {0};
    struct stat st, there;
    int rc = ps_get_link(b, &q, err);
    if (!rc)
        rc = check_file(q.file, err);
    if (!rc)
        rc = shard_folder(s, SHARD_WRITES, q.folder, folder, err);
    if (!rc)
        rc = shard_folder(s, SHARD_READS, q.older, older, err);
    if (rc)
        return rc;
    part.bytes = q.size;
    memcpy(part.file, q.file_text, sizeof part.file);
    memcpy(part.hash, q.hash, sizeof part.hash);
    if (pd_fmt(from, sizeof from, "%s/%s", older, part.file) ||
        pd_fmt(to, sizeof to, "%s/%s", folder, part.file))
        return pd_fail(err, PD_EIO, "path too long: %s", folder);
    rc = pd_mkdirs(folder, 0755, err);
    if (rc)
        return rc;
    int yes = has_file(older, &part, &st);
    if (yes && (lstat(to, &there) || there.st_dev != st.st_dev || there.st_ino != st.st_ino)) {
        (void)unlink(to); /* a file of a save that failed */
        yes = !pd_fault("ps.link") && !link(from, to);
    }
    ps_put_linked(out, &(struct ps_msg_linked){.linked = (uint32_t)yes});
    return yes ? pd_fsync_dir(folder, err) : 0;
}

static int on_remove(struct ps_shard *s, const struct ps_body *b, struct pd_err *err) {
    char dir[PATH_MAX], path[PATH_MAX], away[PATH_MAX];
    struct ps_msg_remove q;
    int rc = ps_get_remove(b, &q, err);
    if (!rc)
        rc = shard_folder(s, SHARD_WRITES, q.dir, dir, err);
    const char *name = q.name;
    if (rc || !pd_starts_with(name, "pass-") || strchr(name, '/'))
        return rc ? rc : pd_fail(err, PD_EPROTO, "a malformed PS_REMOVE");
    if (pd_fmt(path, sizeof path, "%s/%s", *dir ? dir : ".", name) ||
        pd_fmt(away, sizeof away, "%s/.%s.old", *dir ? dir : ".", name))
        return pd_fail(err, PD_EIO, "path too long: %s", dir);
    rc = pd_rm_tree(away, err);
    if (!rc && rename(path, away)) /* so that the model never exists in part */
        return errno == ENOENT ? 0 : pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", path);
    return rc ? rc : pd_rm_tree(away, err);
}

int shard_models(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                 struct pd_err *err) {
    const struct ps_body b = ps_body_of(f);
    struct ps_body out = shard_body(s);
    int rc;
    ps_put_empty(&out, &(struct ps_msg_empty){});
    switch (f->type) {
    case WIRE_PS_READ:
        return on_read(s, trainer, f, &b, err);
    case WIRE_PS_MODELS:
        rc = on_models(s, &b, &out, err);
        break;
    case WIRE_PS_VERIFY:
        rc = on_verify(s, &b, &out, err);
        break;
    case WIRE_PS_STORE:
        rc = on_store(s, &b, err);
        break;
    case WIRE_PS_LINK:
        rc = on_link(s, &b, &out, err);
        break;
    default:
        rc = on_remove(s, &b, err);
        break;
    }
    return rc ? rc : shard_answer(s, trainer, f, &out, err);
}

int shard_is_about_models(uint16_t type) {
    return (type >= WIRE_PS_MODELS && type <= WIRE_PS_REMOVE) || type == WIRE_PS_LINK;
}
