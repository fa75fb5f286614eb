/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - see scan.h: the tables of a package, its manifest, and its contents. */
#include "pack/scan/scan_internal.h"

#include "pack/store/file_pieces.h"

/* --- tables --- */

int scan_fail_memory(const struct scan *s, struct pd_err *err) {
    return pd_fail(err, PD_ENOMEM, "packing %s: out of memory", s->top);
}

int scan_check_cancel(const struct scan *s, struct pd_err *err) {
    return atomic_load(&s->cancelled) ? pd_fail(err, PD_ECANCELED, "interrupted") : 0;
}

int scan_put_name(struct scan *s, const char *text, size_t n, uint64_t *at, struct pd_err *err) {
    *at = s->names.len;
    if (s->names.len + n > MANIFEST_PATH_BYTES)
        return pd_fail(err, PD_EDATA, "%s has more than %d MB of names", s->top,
                       MANIFEST_PATH_BYTES >> 20);
    pd_put(&s->names, text, n);
    pd_put_u8(&s->names, 0);
    return s->names.failed ? scan_fail_memory(s, err) : 0;
}

int scan_add_entry(struct scan *s, const struct scan_entry *e, struct pd_err *err) {
    if (s->n_entries == MANIFEST_ENTRIES)
        return pd_fail(err, PD_EDATA, "%s has more than %d files, folders and links", s->top,
                       MANIFEST_ENTRIES);
    if (pd_grow(s->entries, s->cap_entries, s->n_entries + 1))
        return scan_fail_memory(s, err);
    s->entries[s->n_entries++] = *e;
    atomic_fetch_add(&s->seen, 1);
    return 0;
}

static size_t slot_of(const struct scan *s, const struct object_id *id) {
    size_t k = object_hash64(id) & (s->table_size - 1);
    while (s->table[k] && !object_same(&s->objects[s->table[k] - 1].id, id))
        k = (k + 1) & (s->table_size - 1);
    return k;
}

static int grow_objects(struct scan *s) {
    size_t cap = s->cap_objects ? 2 * s->cap_objects : 256;
    uint32_t *t = pd_calloc(2 * cap, sizeof *t);
    if (!t || pd_grow(s->objects, s->cap_objects, cap)) {
        free(t);
        return PD_ENOMEM;
    }
    free(s->table);
    s->table = t;
    s->table_size = 2 * cap;
    for (size_t i = 0; i < s->n_objects; i++)
        s->table[slot_of(s, &s->objects[i].id)] = (uint32_t)i + 1;
    return 0;
}

int scan_put_object(struct scan *s, const struct object_id *id, uint32_t raw_len, uint32_t entry,
                    uint64_t off, uint32_t *object) {
    if (s->n_objects == s->cap_objects && grow_objects(s))
        return PD_ENOMEM;
    size_t k = slot_of(s, id);
    if (!s->table[k]) {
        s->objects[s->n_objects++] = (struct scan_object){*id, raw_len, entry, off};
        s->table[k] = (uint32_t)s->n_objects;
        s->totals.object_bytes += raw_len;
    }
    *object = s->table[k] - 1;
    return 0;
}

int scan_put_piece(struct scan *s, uint64_t off, uint32_t object, uint32_t obj_off, uint32_t len) {
    if (pd_grow(s->pieces, s->cap_pieces, s->n_pieces + 1))
        return PD_ENOMEM;
    s->pieces[s->n_pieces++] = (struct scan_piece){off, object, obj_off, len};
    return 0;
}

int scan_put_member(struct scan *s, uint32_t entry) {
    if (pd_grow(s->members, s->cap_members, s->n_members + 1))
        return PD_ENOMEM;
    s->members[s->n_members++] = entry;
    return 0;
}

int scan_refuse(struct scan *s, const char *path, const char *why, struct pd_err *err) {
    if (!(s->flags & SCAN_OUTPUTS))
        return pd_fail(err, PD_EDATA, "cannot pack %.300s/%.400s: %s", s->top, path, why);
    if (!s->totals.skipped++)
        pd_fmt(s->first_skipped, sizeof s->first_skipped, "%.150s: %.90s", path, why);
    return 0;
}

/* --- the package --- */

int scan_open_top(struct scan **out, const char *path, const char *what, unsigned flags,
                  struct pd_err *err) {
    struct scan *s = pd_calloc(1, sizeof *s);
    if (!s || !(s->top = pd_strdup(path))) {
        free(s);
        return pd_fail(err, PD_ENOMEM, "packing %s: out of memory", path);
    }
    s->flags = flags;
    s->added_fd = -1;
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0) {
        int no = errno, rc = pd_fail_errno(err, no == ENOENT || no == ENOTDIR ? PD_ENOENT : PD_EIO,
                                           no, "cannot read %s%s", what, path);
        scan_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int scan_new_folder(struct scan **out, const char *path, unsigned flags, struct pd_err *err) {
    int rc = scan_open_top(out, path, "the folder ", flags, err);
    if (!rc)
        (*out)->list = scan_list_folder;
    return rc;
}

int scan_new_file(struct scan **out, const char *path, const char *name, struct pd_err *err) {
    struct scan *s = NULL;
    struct stat st;
    int rc = scan_open_top(&s, path, "", 0, err);
    if (rc)
        return rc;
    s->is_file = 1;
    if (fstat(s->fd, &st) || !S_ISREG(st.st_mode))
        rc = pd_fail(err, PD_EIO, "%s is no regular file", path);
    if (!rc)
        rc = scan_list_file(s, name, err);
    if (rc)
        scan_free(s);
    else
        *out = s;
    return rc;
}

void scan_free(struct scan *s) {
    if (!s)
        return;
    pd_close(s->fd);
    pd_close(s->added_fd);
    free(s->top);
    free(s->cache_file);
    pd_buf_release(&s->names);
    pd_buf_release(&s->manifest);
    free(s->entries);
    free(s->pieces);
    free(s->objects);
    free(s->table);
    free(s->members);
    free(s->ignored);
    free(s->kept);
    free(s);
}

void scan_keep(struct scan *s, int (*keep)(void *arg, const char *path, int is_folder), void *arg) {
    s->keep = keep;
    s->keep_arg = arg;
}

void scan_on_listed(struct scan *s, int (*listed)(void *arg, struct scan *s, struct pd_err *err),
                    void *arg) {
    s->on_listed = listed;
    s->listed_arg = arg;
}

int scan_nameless_file(struct pd_err *err) {
    const char *dir = getenv("TMPDIR");
    char path[PATH_MAX];
    if (!dir || !*dir)
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (pd_fmt(path, sizeof path, "%s/paddlectl-XXXXXX", dir))
        return pd_fail(err, PD_EIO, "TMPDIR is too long");
    fd = mkostemp(path, O_CLOEXEC); /* for file systems without O_TMPFILE */
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a temporary file in %s", dir);
    unlink(path);
    return fd;
}

int scan_add_file(struct scan *s, const char *name, const void *p, size_t n, struct pd_err *err) {
    struct scan_entry e = {.type = MANIFEST_FILE,
                           .mode = 0644,
                           .path_len = (uint32_t)strlen(name),
                           .size = n,
                           .added = 1};
    size_t at = 0;
    int rc = 0;
    if (s->added_fd < 0 && (s->added_fd = scan_nameless_file(err)) < 0)
        return s->added_fd;
    off_t end = lseek(s->added_fd, 0, SEEK_END);
    if (end < 0 || pd_write_all(s->added_fd, p, n))
        return pd_fail_errno(err, PD_EIO, errno, "cannot write a temporary file (TMPDIR)");
    e.spool = (uint64_t)end;
    while (at < s->n_entries && manifest_path_cmp(scan_name(s, s->entries[at].path), name) < 0)
        at++;
    if (at < s->n_entries && !strcmp(scan_name(s, s->entries[at].path), name)) {
        if (s->entries[at].type == MANIFEST_FOLDER)
            return pd_fail(err, PD_EDATA,
                           "%s/%s must not be a folder: it is a file that the package itself needs",
                           s->top, name);
        e.path = s->entries[at].path;
        s->entries[at] = e;
        return 0;
    }
    rc = scan_put_name(s, name, e.path_len, &e.path, err);
    if (!rc)
        rc = scan_add_entry(s, &e, err);
    if (rc)
        return rc;
    memmove(&s->entries[at + 1], &s->entries[at], (s->n_entries - 1 - at) * sizeof *s->entries);
    s->entries[at] = e;
    return 0;
}

void scan_set_cache(struct scan *s, const char *file) {
    free(s->cache_file);
    s->cache_file = s->is_archive || s->is_file ? NULL : pd_strdup(file);
}

void scan_cancel(struct scan *s) { atomic_store(&s->cancelled, 1); }

void scan_progress(const struct scan *s, uint64_t *entries, uint64_t *hashed, uint64_t *total) {
    *entries = atomic_load(&s->seen);
    *hashed = atomic_load(&s->hashed);
    *total = atomic_load(&s->total);
}

/* Decides which entries are in the package. The entries of a folder follow the folder, so an
 * omitted folder hides the entries after it. */
static int select_entries(struct scan *s, struct pd_err *err) {
    const char *hidden = NULL;
    size_t hidden_len = 0;
    uint64_t total = 0;
    free(s->kept);
    if (!(s->kept = pd_malloc(s->n_entries + 1)))
        return scan_fail_memory(s, err);
    for (size_t i = 0; i < s->n_entries; i++) {
        const char *path = scan_name(s, s->entries[i].path);
        int inside = hidden && !strncmp(path, hidden, hidden_len) && path[hidden_len] == '/';
        s->kept[i] = !inside && (!s->keep ||
                                 s->keep(s->keep_arg, path, s->entries[i].type == MANIFEST_FOLDER));
        if (!inside && !s->kept[i]) {
            hidden = path;
            hidden_len = strlen(path);
        }
        total += s->entries[i].size;
    }
    atomic_store(&s->total, total);
    return 0;
}

static int to_manifest(void *arg, const struct object_id *id, const void *raw, size_t n,
                       struct pd_err *err) {
    struct scan *s = arg;
    uint32_t object;
    size_t before = s->n_objects;
    if (scan_put_object(s, id, (uint32_t)n, FROM_MANIFEST, s->manifest.len, &object))
        return scan_fail_memory(s, err);
    if (s->n_objects > before)
        pd_put(&s->manifest, raw, n);
    return s->manifest.failed ? scan_fail_memory(s, err) : 0;
}

static int write_entry(struct scan *s, struct manifest_writer *w, const struct scan_entry *e,
                       struct pd_err *err) {
    struct manifest_entry m = {.type = e->type,
                               .path = scan_name(s, e->path),
                               .path_len = e->path_len,
                               .mode = e->mode,
                               .mtime_ns = e->mtime_ns,
                               .size = e->type == MANIFEST_FILE ? e->size : 0,
                               .target = e->type == MANIFEST_LINK ? scan_name(s, e->target) : NULL};
    int rc = manifest_add(w, &m, err);
    for (uint32_t i = 0; i < e->n_pieces && !rc && e->type == MANIFEST_FILE; i++) {
        const struct scan_piece *p = &s->pieces[e->first_piece + i];
        const struct scan_object *o = &s->objects[p->object];
        struct manifest_extent x = {.id = o->id,
                                    .raw_len = o->raw_len,
                                    .obj_off = p->obj_off,
                                    .len = p->len,
                                    .file_off = p->off};
        rc = manifest_add_extent(w, &x, err);
    }
    return rc;
}

/* Writes the manifest of the kept entries; *files is the number of files. */
static int write_manifest(struct scan *s, const uint8_t *kept, struct scan_root *out,
                          uint64_t *files, struct pd_err *err) {
    struct manifest_writer *w = NULL;
    int rc = manifest_writer_new(&w, to_manifest, s, err);
    out->entries = out->bytes = *files = 0;
    for (size_t i = 0; i < s->n_entries && !rc; i++) {
        const struct scan_entry *e = &s->entries[i];
        if (!kept[i])
            continue;
        out->entries++;
        *files += e->type == MANIFEST_FILE;
        out->bytes += e->type == MANIFEST_FILE ? e->size : 0;
        rc = write_entry(s, w, e, err);
    }
    if (!rc)
        rc = manifest_finish(w, &out->id, out->raw, &out->n, err);
    manifest_writer_free(w);
    if (rc)
        pd_err_prefix(err, "packing %.300s", s->top);
    return rc;
}

/* Keeps the folders of kept entries. Entries follow their folder, so the loop runs from the end. */
static void keep_folders(const struct scan *s, uint8_t *kept) {
    const char *below = NULL; /* the last kept entry */
    for (size_t i = s->n_entries; i-- > 0;) {
        const char *path = scan_name(s, s->entries[i].path);
        size_t n = s->entries[i].path_len;
        if (s->entries[i].type == MANIFEST_FOLDER && below && !strncmp(below, path, n) &&
            below[n] == '/')
            kept[i] = 1;
        if (kept[i])
            below = path;
    }
}

int scan_pick(struct scan *s, int (*pick)(void *arg, size_t item), void *arg, struct scan_root *out,
              struct pd_err *err) {
    uint8_t *kept = pd_malloc(s->n_entries + 1);
    uint64_t files;
    if (!kept)
        return scan_fail_memory(s, err);
    for (size_t i = 0; i < s->n_entries; i++)
        kept[i] = s->kept[i] && pick(arg, i);
    keep_folders(s, kept);
    int rc = write_manifest(s, kept, out, &files, err);
    free(kept);
    if (!rc)
        s->totals.objects = s->n_objects;
    return rc;
}

int scan_run(struct scan *s, struct pd_err *err) {
    struct pd_err own = {0};
    int rc = 0;
    if (!s->listed && !s->is_file)
        rc = s->list(s, &own);
    if (!rc && !s->listed && s->on_listed)
        rc = s->on_listed(s->listed_arg, s, &own);
    s->listed |= !rc;
    if (!rc)
        rc = select_entries(s, &own);
    if (!rc)
        rc = scan_hash_all(s, &own);
    if (!rc)
        rc = write_manifest(s, s->kept, &s->root, &s->totals.files, &own);
    if (rc)
        return pd_fail(err, rc, "%s", own.msg);
    s->totals.entries = s->root.entries;
    s->totals.bytes = s->root.bytes;
    s->totals.objects = s->n_objects;
    return 0;
}

/* --- results --- */

void scan_get_totals(const struct scan *s, struct scan_totals *t) { *t = s->totals; }
const char *scan_first_skipped(const struct scan *s) { return s->first_skipped; }

const uint8_t *scan_root(const struct scan *s, struct object_id *id, size_t *n) {
    *id = s->root.id;
    *n = s->root.n;
    return s->root.raw;
}

long scan_find(const struct scan *s, const struct object_id *id) {
    return s->table_size ? (long)s->table[slot_of(s, id)] - 1 : -1;
}

uint32_t scan_raw_len(const struct scan *s, long object) { return s->objects[object].raw_len; }
const struct object_id *scan_object_id(const struct scan *s, long object) {
    return &s->objects[object].id;
}

size_t scan_n_items(const struct scan *s) { return s->n_entries; }

void scan_item(const struct scan *s, size_t i, struct scan_item *out) {
    const struct scan_entry *e = &s->entries[i];
    *out = (struct scan_item){scan_name(s, e->path),
                              e->type,
                              e->type == MANIFEST_FILE ? e->size : 0,
                              e->mtime_ns,
                              e->mode,
                              e->type == MANIFEST_LINK ? scan_name(s, e->target) : "",
                              s->kept && s->kept[i] && !e->added};
}

void scan_item_objects(const struct scan *s, size_t i, void (*each)(void *arg, long object),
                       void *arg) {
    const struct scan_entry *e = &s->entries[i];
    for (uint32_t k = 0; k < e->n_pieces && e->type == MANIFEST_FILE; k++)
        each(arg, (long)s->pieces[e->first_piece + k].object);
}

int scan_item_pieces(const struct scan *s, size_t i, struct file_pieces *out) {
    const struct scan_entry *e = &s->entries[i];
    int rc = 0;
    out->n = 0;
    out->size = e->size;
    out->mtime_ns = e->mtime_ns;
    out->mode = e->mode;
    for (uint32_t k = 0; k < e->n_pieces && !rc; k++) {
        const struct scan_piece *p = &s->pieces[e->first_piece + k];
        const struct scan_object *o = &s->objects[p->object];
        rc = p->obj_off || p->len != o->raw_len ? PD_EDATA
                                                : file_pieces_add(out, &o->id, p->len, p->off);
    }
    return rc;
}

size_t scan_largest(const struct scan *s, size_t *items, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_entries; i++) {
        size_t k = n;
        if (s->entries[i].type != MANIFEST_FILE || !s->kept[i])
            continue;
        while (k && s->entries[items[k - 1]].size < s->entries[i].size)
            k--;
        if (k >= max)
            continue;
        n += n < max;
        memmove(items + k + 1, items + k, (n - k - 1) * sizeof *items);
        items[k] = i;
    }
    return n;
}

const char *scan_ignored(const struct scan *s, size_t i, uint64_t *bytes) {
    if (i >= s->n_ignored)
        return NULL;
    *bytes = s->ignored[i].bytes;
    return scan_name(s, s->ignored[i].path);
}
