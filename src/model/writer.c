/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - writes one part of a model and hashes it meanwhile; stages and commits the model's
 * folder. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "model/model_internal.h"
#include "model/model.h"
#include "model/outfile.h"

enum { MANIFEST_MAX = 256 << 20 };

struct file_section {
    uint64_t offset, bytes;
};

struct model_writer {
    struct outfile out;
    char file[MODEL_FILE_MAX + 1];
    XXH3_state_t *hash;
    size_t n_buf;                  /* bytes in the room of `out` */
    uint64_t at, total, rows;      /* at: bytes received so far */
    struct file_section *sections; /* the non-empty sections, in file order */
    size_t n_sections, cur;
};

static void writer_free(struct model_writer *w) {
    outfile_release(&w->out);
    XXH3_freeState(w->hash);
    free(w->sections);
    free(w);
}

void model_writer_abort(struct model_writer *w) {
    if (!w)
        return;
    if (w->out.fd >= 0)
        unlink(w->out.path);
    writer_free(w);
}

static int flush(struct model_writer *w, struct pd_err *err) {
    XXH3_128bits_update(w->hash, outfile_room(&w->out), w->n_buf);
    int rc = outfile_write(&w->out, w->n_buf, err);
    w->n_buf = 0;
    return rc;
}

static int write_bytes(struct model_writer *w, const void *p, uint64_t n, struct pd_err *err) {
    const uint8_t *s = p;
    while (n) {
        uint8_t *to = outfile_room(&w->out) + w->n_buf;
        size_t k = OUTFILE_BUFFER - w->n_buf < n ? OUTFILE_BUFFER - w->n_buf : (size_t)n;
        if (s) {
            memcpy(to, s, k);
            s += k;
        } else {
            memset(to, 0, k);
        }
        w->n_buf += k;
        w->at += k;
        n -= k;
        int rc = w->n_buf == OUTFILE_BUFFER ? flush(w, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static uint64_t place(struct model_writer *w, uint64_t bytes) {
    uint64_t off = w->total;
    if (bytes)
        w->sections[w->n_sections++] = (struct file_section){off, bytes};
    w->total = model_align(off + bytes);
    return off;
}

static int has_keys(enum model_kind kind) {
    return kind == MODEL_TABLE || kind == MODEL_CHANGES || kind == MODEL_WAITING;
}

static int put_head(struct model_writer *w, const struct model_entry *e, size_t n,
                    struct pd_err *err) {
    struct pd_buf b = {0};
    uint32_t flags = 0;
    w->total = MODEL_HEADER + n * MODEL_ENTRY;
    if (pd_buf_reserve(&b, w->total)) {
        pd_buf_release(&b);
        return pd_fail(err, PD_ENOMEM, "no memory to write %s", w->out.path);
    }
    memset(b.data, 0, w->total);
    b.len = MODEL_HEADER;
    for (size_t i = 0; i < n; i++) {
        b.len = MODEL_HEADER + i * MODEL_ENTRY;
        memcpy(b.data + b.len, e[i].name, strlen(e[i].name));
        b.len += 128;
        pd_put_u32(&b, e[i].kind);
        pd_put_u32(&b, e[i].dim);
        pd_put_u64(&b, e[i].first);
        pd_put_u64(&b, e[i].count);
        pd_put_u64(&b, has_keys(e[i].kind) ? place(w, e[i].count * 8) : 0);
        pd_put_u64(&b, place(w, e[i].count * e[i].dim * 4));
        pd_put_u64(&b, e[i].state_width ? place(w, e[i].count * e[i].state_width * 4) : 0);
        pd_put_u32(&b, e[i].state_width);
        flags |= e[i].state_width || e[i].kind == MODEL_HISTORY ? MODEL_F_STATE : 0;
        w->rows += has_keys(e[i].kind) ? e[i].count : 0;
    }
    b.len = 0;
    pd_put(&b, MODEL_MAGIC, 8);
    pd_put_u32(&b, MODEL_VERSION);
    pd_put_u32(&b, flags);
    pd_put_u32(&b, (uint32_t)n);
    pd_put_u32(&b, 0);
    pd_put_u64(&b, w->total);
    w->out.total = w->total;
    int rc = write_bytes(w, b.data, MODEL_HEADER + n * MODEL_ENTRY, err);
    pd_buf_release(&b);
    return rc;
}

int model_writer_new(struct model_writer **out, const char *folder, const char *file,
                     const struct model_entry *entries, size_t n, struct pd_err *err) {
    struct model_writer *w = pd_calloc(1, sizeof *w);
    if (!w)
        return pd_fail(err, PD_ENOMEM, "no memory to write %s/%s", folder, file);
    char path[PATH_MAX];
    int rc = 0;
    w->out.fd = -1;
    w->sections = pd_calloc(3 * n, sizeof *w->sections);
    w->hash = pd_fault("alloc") ? NULL : XXH3_createState();
    if (!w->sections || !w->hash)
        rc = pd_fail(err, PD_ENOMEM, "no memory to write %s/%s", folder, file);
    else if (pd_fmt(path, sizeof path, "%s/%s", folder, file) ||
             pd_fmt(w->file, sizeof w->file, "%s", file))
        rc = pd_fail(err, PD_EIO, "path too long: %s/%s", folder, file);
    if (!rc)
        rc = outfile_open(&w->out, path, err);
    if (!rc) {
        XXH3_128bits_reset(w->hash);
        rc = put_head(w, entries, n, err);
    }
    if (!rc)
        rc = outfile_settle(&w->out, err); /* the header may fill several buffers */
    if (rc)
        model_writer_abort(w);
    else
        *out = w;
    return rc;
}

int model_writer_put(struct model_writer *w, const void *p, size_t bytes, struct pd_err *err) {
    const uint8_t *s = p;
    int rc = 0;
    while (bytes && !rc) {
        if (w->cur == w->n_sections)
            return pd_fail(err, PD_EFAIL, "%s: more bytes than announced", w->out.path);
        const struct file_section *c = &w->sections[w->cur];
        if (w->at < c->offset)
            rc = write_bytes(w, NULL, c->offset - w->at, err); /* the gap */
        uint64_t left = c->offset + c->bytes - w->at, k = bytes < left ? bytes : left;
        if (!rc)
            rc = write_bytes(w, s, k, err);
        s += k;
        bytes -= k;
        w->cur += k == left;
    }
    return rc;
}

int model_writer_room(struct model_writer *w, void **to, size_t *room, struct pd_err *err) {
    if (w->cur == w->n_sections)
        return pd_fail(err, PD_EFAIL, "%s: more bytes than announced", w->out.path);
    const struct file_section *c = &w->sections[w->cur];
    const int rc =
        w->at < c->offset ? write_bytes(w, NULL, c->offset - w->at, err) : 0; /* the gap */
    if (rc)
        return rc;
    const uint64_t left = c->offset + c->bytes - w->at;
    const size_t free_bytes = OUTFILE_BUFFER - w->n_buf;
    *room = free_bytes < left ? free_bytes : (size_t)left;
    *to = outfile_room(&w->out) + w->n_buf;
    return 0;
}

int model_writer_filled(struct model_writer *w, size_t bytes, struct pd_err *err) {
    const struct file_section *c = &w->sections[w->cur];
    w->n_buf += bytes;
    w->at += bytes;
    w->cur += w->at == c->offset + c->bytes;
    return w->n_buf == OUTFILE_BUFFER ? flush(w, err) : 0;
}

int model_writer_seal(struct model_writer *w, struct model_part *part, struct pd_err *err) {
    int rc = 0;
    if (w->cur != w->n_sections)
        rc = pd_fail(err, PD_EFAIL, "%s: fewer bytes than announced", w->out.path);
    if (!rc)
        rc = write_bytes(w, NULL, w->total - w->at, err);
    if (!rc)
        rc = flush(w, err);
    if (!rc)
        rc = outfile_sync(&w->out, err);
    if (rc) {
        unlink(w->out.path);
        return rc;
    }
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(w->hash));
    *part = (struct model_part){.bytes = w->total, .rows = w->rows};
    memcpy(part->file, w->file, sizeof w->file);
    memcpy(part->hash, c.digest, sizeof part->hash);
    return 0;
}

int model_writer_fd(const struct model_writer *w) { return w->out.fd; }

void model_writer_free(struct model_writer *w) {
    if (w)
        writer_free(w);
}

int model_writer_end(struct model_writer *w, struct model_part *part, struct pd_err *err) {
    int rc = model_writer_seal(w, part, err);
    writer_free(w);
    return rc;
}

/* --- the folder --- */

int model_layer_name(const char *base, uint32_t layer, char file[MODEL_FILE_MAX + 1]) {
    size_t stem = strlen(base) - strlen(".bin");
    return pd_fmt(file, MODEL_FILE_MAX + 1, "%.*s.delta-%05u.bin", (int)stem, base, layer);
}

int model_is_layer_of(const char *file, const char *base) {
    size_t stem = strlen(base) - strlen(".bin");
    return !strcmp(file, base) ||
           (!strncmp(file, base, stem) && pd_starts_with(file + stem, ".delta-"));
}

int model_staging_path(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                       struct pd_err *err) {
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 200)
        return pd_fail(err, PD_EUSAGE, "'%s' cannot be the name of a model's folder", name);
    if (pd_fmt(path, PATH_MAX, "%s/.%s.tmp-%016llx", *dir ? dir : ".", name,
               (unsigned long long)tag))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", dir, name);
    return 0;
}

int model_make_staging(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                       struct pd_err *err) {
    int rc = model_staging_path(dir, name, tag, path, err);
    return rc ? rc : pd_mkdirs(path, 0755, err);
}

/* Another process that shares the folder was first: fine if it is the same model. */
static int committed_already(const char *final, const void *manifest, size_t n,
                             struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    if (pd_fmt(path, sizeof path, "%s/manifest.json", final))
        return pd_fail(err, PD_EIO, "path too long: %s", final);
    int rc = pd_read_file(path, MANIFEST_MAX, &b, err);
    if (!rc && (b.len != n || memcmp(b.data, manifest, n)))
        rc = pd_fail(err, PD_EFAIL, "%s is another model than the one just written", final);
    pd_buf_release(&b);
    return rc;
}

/* Replaces an older folder by the staged folder. The two are exchanged, so there is a complete
 * model at every moment. */
static int move_into_place(const char *staged, const char *final, struct pd_err *err) {
    if (!rename(staged, final))
        return 0;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return pd_fail_errno(err, PD_EIO, errno, "cannot rename %s to %s", staged, final);
    if (!renameat2(AT_FDCWD, staged, AT_FDCWD, final, RENAME_EXCHANGE))
        return pd_rm_tree(staged, err);
    /* The file system cannot exchange folders: remove the older one first. */
    int rc = pd_rm_tree(final, err);
    if (!rc && rename(staged, final))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot rename %s to %s", staged, final);
    return rc;
}

int model_commit(const char *dir, const char *name, uint64_t tag, const void *manifest, size_t n,
                 struct pd_err *err) {
    char staged[PATH_MAX], final[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (!*dir)
        dir = ".";
    int rc = model_staging_path(dir, name, tag, staged, err);
    if (rc)
        return rc;
    if (pd_fmt(final, sizeof final, "%s/%s", dir, name) ||
        pd_fmt(path, sizeof path, "%s/manifest.json", staged))
        return pd_fail(err, PD_EIO, "path too long: %s/%s", dir, name);
    if (stat(staged, &st) && errno == ENOENT)
        return committed_already(final, manifest, n, err);
    rc = pd_write_file_atomic(path, manifest, n, 0644, err);
    if (!rc && pd_fault("model.commit"))
        rc = pd_fail(err, PD_EFAIL, "fault: model.commit");
    if (!rc)
        rc = move_into_place(staged, final, err);
    if (!rc)
        rc = pd_fsync_dir(dir, err);
    if (!rc && !pd_fmt(path, sizeof path, ".%s.", name))
        pd_rm_stale(dir, path);
    return rc;
}
