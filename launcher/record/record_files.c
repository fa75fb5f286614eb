/* SPDX-License-Identifier: Apache-2.0 */
/* record_files.c - see record_files.h. */
#include "launcher/record/record_files.h"

#include <sodium.h>

#include "base/json_text.h"
#include "launcher/record/record_internal.h"
#include "pack/object/chunker.h"
#include "pack/object/path.h"

static int kept_path(const char *outputs, const char *id, const char *end, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/.files/%.2s/%s%s", outputs, id, id, end);
}

/* --- keep ---
 *
 * New contents are written as ID.new. After all of them are on the disk, they get their names: so a
 * file of a name is whole, also after a power cut. */

struct kept_files {
    const char *outputs;
    struct pd_buf lines;
    uint8_t *buf;
    uint64_t bytes;
    int is_unlisted; /* an entry cannot be listed: then none is */
    struct kept_id {
        char hex[2 * OBJECT_ID + 1];
    } * added; /* written as ID.new */
    size_t n_added, cap_added;
};

static int keep_contents(struct kept_files *k, size_t n, char id[2 * OBJECT_ID + 1],
                         struct pd_err *err) {
    char path[PATH_MAX], folder[PATH_MAX];
    struct object_id hash;
    struct stat st;
    object_id_of(&hash, k->buf, n);
    object_hex(&hash, id);
    if (kept_path(k->outputs, id, ".new", path) || kept_path(k->outputs, id, "", folder))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", k->outputs);
    if (!stat(folder, &st) && (size_t)st.st_size == n)
        return 0;
    if (pd_grow(k->added, k->cap_added, k->n_added + 1))
        return pd_oom(err, "the files of a record");
    *strrchr(folder, '/') = 0;
    int rc = pd_mkdirs(folder, 0700, err);
    if (!rc)
        rc = pd_write_file_quick(path, k->buf, n, 0600, err);
    if (!rc)
        memcpy(k->added[k->n_added++].hex, id, sizeof k->added->hex);
    return rc;
}

/* Another run may have added the same contents meanwhile. */
static int name_contents(const struct kept_files *k, struct pd_err *err) {
    char from[PATH_MAX], to[PATH_MAX];
    const int fd = k->n_added ? open(k->outputs, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = 0;
    if (k->n_added && (fd < 0 || syncfs(fd)))
        rc = pd_fail_errno(err, PD_EIO, errno, "%s", k->outputs);
    pd_close(fd);
    for (size_t i = 0; i < k->n_added && !rc; i++)
        if (!kept_path(k->outputs, k->added[i].hex, ".new", from) &&
            !kept_path(k->outputs, k->added[i].hex, "", to) && rename(from, to) &&
            (errno != ENOENT || access(to, F_OK)))
            rc = pd_fail_errno(err, PD_EIO, errno, "%s", to);
    return rc;
}

struct pieces_hash {
    const struct scan *scan;
    crypto_generichash_state st;
};

static void hash_object(void *arg, long object) {
    struct pieces_hash *h = arg;
    crypto_generichash_update(&h->st, scan_object_id(h->scan, object)->b, OBJECT_ID);
}

/* Small files share objects with their neighbours, which says nothing of their contents. */
static void hash_pieces(const struct scan *s, size_t i, const struct scan_item *item,
                        char hex[2 * OBJECT_ID + 1]) {
    struct pieces_hash h = {.scan = s};
    struct object_id out;
    if (item->type != MANIFEST_FILE || item->size < CHUNKER_SMALL)
        return;
    crypto_generichash_init(&h.st, NULL, 0, sizeof out);
    scan_item_objects(s, i, hash_object, &h);
    crypto_generichash_final(&h.st, out.b, sizeof out);
    object_hex(&out, hex);
}

/* -1: the path is not UTF-8 text, or no memory. */
static int put_entry(struct pd_buf *out, const struct scan_item *i, const char *id,
                     const char *pieces, int is_data) {
    static const char *const types[] = {
        [MANIFEST_FILE] = "file", [MANIFEST_FOLDER] = "folder", [MANIFEST_LINK] = "link"};
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:s*, s:s*, s:s*, s:o*}", "path", i->path, "type",
                  types[i->type], "mode", (int)i->mode, "mtime_ns", (json_int_t)i->mtime_ns, "size",
                  (json_int_t)i->size, "id", *id ? id : NULL, "pieces", *pieces ? pieces : NULL,
                  "target", *i->target ? i->target : NULL, "data", is_data ? json_true() : NULL);
    char *text = o ? json_dumps(o, RECORD_LINE) : NULL;
    if (text)
        pd_put_fmt(out, "%s\n", text);
    json_decref(o);
    free(text);
    return text ? 0 : -1;
}

static int keep_all(struct kept_files *k, const struct scan *s, int is_data, struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < scan_n_items(s) && !rc; i++) {
        struct scan_item item;
        char id[2 * OBJECT_ID + 1] = "", pieces[2 * OBJECT_ID + 1] = "";
        scan_item(s, i, &item);
        if (!item.kept)
            continue;
        if (item.type == MANIFEST_FILE && item.size <= RECORD_FILE_MAX &&
            k->bytes + item.size <= RECORD_FILES_MAX) {
            k->bytes += item.size;
            /* The user may write the next version already: then the file is listed only. */
            struct pd_err why = {0};
            rc = scan_item_read(s, i, k->buf, (size_t)item.size, &why);
            if (rc == PD_EDATA || rc == PD_ENOENT || (!rc && scan_item_has_changed(s, i)))
                rc = 0;
            else
                rc = rc ? pd_err_copy(err, &why) : keep_contents(k, (size_t)item.size, id, err);
        }
        if (!*id)
            hash_pieces(s, i, &item, pieces);
        if (!rc && put_entry(&k->lines, &item, id, pieces, is_data))
            k->is_unlisted = 1;
    }
    return rc;
}

int record_files_keep(const char *outputs, const char *dir, const struct scan *workspace,
                      const struct scan *data, struct pd_err *err) {
    char path[PATH_MAX];
    struct kept_files k = {.outputs = outputs};
    struct pd_err ignored = {0};
    if (scan_n_items(workspace) + (data ? scan_n_items(data) : 0) > RECORD_ENTRIES_MAX)
        return 0;
    if (!(k.buf = pd_malloc(RECORD_FILE_MAX)))
        return pd_oom(err, "the files of a record");
    pd_put_fmt(&k.lines, "{\"version\":%d}\n", RECORD_VERSION);
    int rc = keep_all(&k, workspace, 0, err);
    if (!rc && data)
        rc = keep_all(&k, data, 1, err);
    if (!rc && k.lines.failed)
        rc = pd_oom(err, "the files of a record");
    if (name_contents(&k, rc ? &ignored : err) && !rc)
        rc = err->code;
    if (!rc && !k.is_unlisted && !(rc = record_path(dir, "workspace.jsonl", path, err)))
        rc = pd_write_file_quick(path, k.lines.data, k.lines.len, 0600, err);
    pd_buf_release(&k.lines);
    free(k.added);
    free(k.buf);
    return rc;
}

/* --- read --- */

/* Entries that could leave the folder, or that no workspace has, are refused. */
static void add_entry(void *arg, json_t *o) {
    struct record_files *f = arg;
    struct record_file e = {0};
    struct object_id id;
    char clean[PATH_MAX];
    const char *path = pd_json_text(o, "path"), *type = pd_json_text(o, "type");
    if (!*path) /* the version */
        return;
    e.type = !strcmp(type, "file")     ? MANIFEST_FILE
             : !strcmp(type, "folder") ? MANIFEST_FOLDER
                                       : MANIFEST_LINK;
    e.mode = (unsigned)json_integer_value(json_object_get(o, "mode")) & 01777;
    e.mtime_ns = json_integer_value(json_object_get(o, "mtime_ns"));
    e.size = (uint64_t)json_integer_value(json_object_get(o, "size"));
    if (pack_clean_path(path, clean, NULL) || strcmp(clean, path) ||
        (e.type == MANIFEST_LINK && pack_check_link(path, pd_json_text(o, "target"), NULL)) ||
        (*pd_json_text(o, "id") && pd_unhex(&id, sizeof id, pd_json_text(o, "id"))) ||
        (*pd_json_text(o, "pieces") && pd_unhex(&id, sizeof id, pd_json_text(o, "pieces"))) ||
        pd_grow(f->v, f->cap, f->n + 1)) {
        f->failed = 1;
        return;
    }
    pd_fmt(e.id, sizeof e.id, "%s", pd_json_text(o, "id"));
    pd_fmt(e.pieces, sizeof e.pieces, "%s", pd_json_text(o, "pieces"));
    e.is_data = json_is_true(json_object_get(o, "data"));
    e.path = pd_strdup(path);
    e.target = pd_strdup(pd_json_text(o, "target"));
    f->failed |= !e.path || !e.target;
    f->v[f->n++] = e;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct record_file *)a)->path, ((const struct record_file *)b)->path);
}

/* Folders are both in the workspace and among its data. */
static void sort(struct record_files *f) {
    size_t n = 0;
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_path);
    for (size_t i = 0; i < f->n; i++) {
        if (n && !strcmp(f->v[n - 1].path, f->v[i].path)) {
            free(f->v[i].path);
            free(f->v[i].target);
        } else {
            f->v[n++] = f->v[i];
        }
    }
    f->n = n;
}

int record_files_read(struct record_files *out, const char *dir, struct pd_err *err) {
    char path[PATH_MAX];
    *out = (struct record_files){0};
    int rc = record_path(dir, "workspace.jsonl", path, err);
    if (!rc)
        rc = record_each_line(path, NULL, add_entry, out, err);
    if (!rc && out->failed)
        rc = pd_fail(err, PD_EDATA, "%s: the list of files is damaged", path);
    if (rc)
        record_files_release(out);
    else
        sort(out);
    return rc;
}

void record_files_release(struct record_files *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].path);
        free(f->v[i].target);
    }
    free(f->v);
    *f = (struct record_files){0};
}

const struct record_file *record_files_find(const struct record_files *f, const char *path) {
    const struct record_file key = {.path = (char *)(uintptr_t)path};
    return f->n ? bsearch(&key, f->v, f->n, sizeof *f->v, by_path) : NULL;
}

int record_file_is_equal(const struct record_file *a, const struct record_file *b) {
    if (*a->id && *b->id)
        return !strcmp(a->id, b->id);
    if (a->size != b->size)
        return 0;
    if (*a->pieces && *b->pieces)
        return !strcmp(a->pieces, b->pieces);
    return a->mtime_ns == b->mtime_ns ? 1 : -1;
}

void record_files_hash(const struct record_files *f, int is_data, char hex[2 * OBJECT_ID + 1]) {
    crypto_generichash_state st;
    struct object_id out;
    char text[PATH_MAX];
    crypto_generichash_init(&st, NULL, 0, sizeof out);
    for (size_t i = 0; i < f->n; i++) {
        const struct record_file *e = &f->v[i];
        const int is_known = *e->id || *e->pieces || e->type != MANIFEST_FILE;
        if (e->is_data != is_data)
            continue;
        crypto_generichash_update(&st, (const uint8_t *)e->path, strlen(e->path) + 1);
        crypto_generichash_update(&st, (const uint8_t *)e->target, strlen(e->target) + 1);
        snprintf(text, sizeof text, "%d %o %" PRIu64 " %s%s %" PRId64, (int)e->type, e->mode,
                 e->type == MANIFEST_FILE ? e->size : 0, e->id, e->pieces,
                 is_known ? 0 : e->mtime_ns);
        crypto_generichash_update(&st, (const uint8_t *)text, strlen(text) + 1);
    }
    crypto_generichash_final(&st, out.b, sizeof out);
    object_hex(&out, hex);
}

int record_file_at_hand(const struct record_file *f, const char *outputs, const char *workspace,
                        char path[PATH_MAX]) {
    struct stat st;
    if (*f->id)
        return !kept_path(outputs, f->id, "", path) && !access(path, R_OK);
    return workspace && !pd_fmt(path, PATH_MAX, "%s/%s", workspace, f->path) && !lstat(path, &st) &&
           S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size &&
           st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec == f->mtime_ns;
}

/* --- restore --- */

static int copy(const char *from, const char *to, struct pd_err *err) {
    enum { PART = 1 << 16 };
    uint8_t part[PART];
    ssize_t n = 0;
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return pd_fail_errno(err, PD_EIO, errno, "%s", from);
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int bad = out < 0;
    while (!bad && (n = read(in, part, sizeof part)) > 0)
        bad = pd_write_all(out, part, (size_t)n) != 0;
    const int why = errno;
    pd_close(in);
    pd_close(out);
    return bad || n < 0 ? pd_fail_errno(err, PD_EIO, why, "%s", bad ? to : from) : 0;
}

/* A disk may damage kept contents: they must have their id. */
static int copy_kept(const char *from, const char *id, const char *to, struct pd_err *err) {
    struct pd_buf b = {0};
    struct object_id hash;
    char found[2 * OBJECT_ID + 1];
    int rc = pd_read_regular(from, RECORD_FILE_MAX + 1, &b, err);
    if (!rc) {
        object_id_of(&hash, b.data, b.len);
        object_hex(&hash, found);
        rc = strcmp(found, id) ? pd_fail(err, PD_EDATA, "%s is damaged: remove it", from)
                               : pd_write_file_quick(to, b.data, b.len, 0600, err);
    }
    pd_buf_release(&b);
    return rc;
}

static int set_times(const struct record_file *f, const char *path, struct pd_err *err) {
    const int64_t s = 1000000000;
    const int64_t nsec = (f->mtime_ns % s + s) % s; /* also before 1970 */
    const struct timespec t = {.tv_sec = (f->mtime_ns - nsec) / s, .tv_nsec = nsec};
    return (f->type != MANIFEST_LINK && chmod(path, f->mode)) ||
                   utimensat(AT_FDCWD, path, (const struct timespec[]){t, t}, AT_SYMLINK_NOFOLLOW)
               ? pd_fail_errno(err, PD_EIO, errno, "%s", path)
               : 0;
}

static int restore(const struct record_file *f, const char *outputs, const char *workspace,
                   const char *path, int *missing, struct pd_err *err) {
    char from[PATH_MAX];
    *missing = 0;
    if (f->type == MANIFEST_FOLDER)
        return pd_mkdirs(path, 0700, err);
    if (f->type == MANIFEST_LINK)
        return symlink(f->target, path) ? pd_fail_errno(err, PD_EIO, errno, "%s", path) : 0;
    if (!record_file_at_hand(f, outputs, workspace, from)) {
        *missing = 1;
        return 0;
    }
    return *f->id ? copy_kept(from, f->id, path, err) : copy(from, path, err);
}

int record_files_restore(const struct record_files *f, const char *outputs, const char *workspace,
                         const char *to, size_t *n_missing, char missing[PATH_MAX],
                         struct pd_err *err) {
    char path[PATH_MAX];
    int rc = pd_mkdirs(to, 0777, err), is_missing;
    *n_missing = 0;
    *missing = 0;
    for (size_t i = 0; i < f->n && !rc; i++) {
        if (pd_fmt(path, sizeof path, "%s/%s", to, f->v[i].path))
            return pd_fail(err, PD_EUSAGE, "%s: the path is too long", to);
        rc = restore(&f->v[i], outputs, workspace, path, &is_missing, err);
        if (is_missing && !(*n_missing)++)
            pd_fmt(missing, PATH_MAX, "%s", f->v[i].path);
    }
    for (size_t i = f->n; i-- > 0 && !rc;) { /* folders get their times after their contents */
        struct stat st;
        if (!pd_fmt(path, sizeof path, "%s/%s", to, f->v[i].path) && !lstat(path, &st))
            rc = set_times(&f->v[i], path, err);
    }
    return rc;
}
