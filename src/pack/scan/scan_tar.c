/* SPDX-License-Identifier: Apache-2.0 */
/* scan_tar.c - lists the entries of a tar archive. Contents go to a spool (a nameless file),
 * because an archive allows no random access. A separate file, because it needs gzip, bzip2 and xz,
 * which the programs of the nodes do not link. */
#include <archive.h>
#include <archive_entry.h>

#include "pack/object/path.h"
#include "pack/scan/scan_internal.h"

enum { SPOOL_ALIGN = 4096 };

static struct archive *open_tar(int fd, const char *name, struct pd_err *err) {
    struct archive *a = archive_read_new();
    if (!a) {
        pd_fail(err, PD_ENOMEM, "out of memory to read %s", name);
        return NULL;
    }
    /* Allow built-in filters only: a filter that would run an external program returns WARN. */
    if (archive_read_support_format_tar(a) || archive_read_support_filter_gzip(a) ||
        archive_read_support_filter_bzip2(a) || archive_read_support_filter_xz(a) ||
        archive_read_support_filter_zstd(a) || archive_read_open_fd(a, fd, 1 << 16)) {
        const char *why = archive_error_string(a);
        pd_fail(err, PD_EDATA, "cannot read archive %s: %s", name, why ? why : "unknown");
        archive_read_free(a);
        return NULL;
    }
    return a;
}

/* 1 if s->fd is a regular file and a tar archive. Reads from the beginning and seeks back to it. */
static int is_archive(const struct scan *s) {
    struct stat st;
    struct archive_entry *e;
    struct archive *a =
        fstat(s->fd, &st) || !S_ISREG(st.st_mode) ? NULL : open_tar(s->fd, s->top, NULL);
    if (!a)
        return 0;
    int r = archive_read_next_header(a, &e);
    archive_read_free(a);
    return (r == ARCHIVE_OK || r == ARCHIVE_WARN) && !lseek(s->fd, 0, SEEK_SET);
}

/* The header announces the size, and copy_data takes no more. A compressed archive may announce
 * thousands of times its own size. */
static int fits_disk(const struct scan *s, struct archive_entry *in, const struct scan_entry *e,
                     int spool, struct pd_err *err) {
    char what[2 * PATH_MAX];
    /* If one block is the whole file, reset frees it, and next would read it. */
    const int blocks = archive_entry_sparse_reset(in);
    uint64_t bytes = blocks ? 0 : e->size;
    for (la_int64_t at, n; blocks && !archive_entry_sparse_next(in, &at, &n);)
        bytes += (uint64_t)n;
    (void)pd_fmt(what, sizeof what, "%s in archive %s", scan_name(s, e->path), s->top);
    return pd_disk_room(spool, "the disk of TMPDIR", what, bytes, 0, err);
}

static int copy_data(struct scan *s, struct archive *a, int spool, uint64_t *end,
                     struct scan_entry *e, struct pd_err *err) {
    e->spool = (*end + SPOOL_ALIGN - 1) / SPOOL_ALIGN * SPOOL_ALIGN;
    *end = e->spool + e->size;
    for (;;) {
        const void *p;
        size_t n;
        la_int64_t off;
        int r = archive_read_data_block(a, &p, &n, &off);
        if (r == ARCHIVE_EOF)
            break;
        if (r < ARCHIVE_WARN || off < 0 || (uint64_t)off + n > e->size)
            return pd_fail(err, PD_EDATA, "archive %s is damaged: %s", s->top,
                           archive_error_string(a) ? archive_error_string(a)
                                                   : "sizes do not agree");
        int rc = scan_check_cancel(s, err);
        for (size_t done = 0; !rc && done < n;) {
            ssize_t k = pwrite(spool, (const char *)p + done, n - done,
                               (off_t)(e->spool + (uint64_t)off + done));
            if (k < 0 && errno != EINTR)
                rc = pd_fail_errno(err, PD_EIO, errno, "cannot write a temporary file (TMPDIR)");
            done += k > 0 ? (size_t)k : 0;
        }
        if (rc)
            return rc;
    }
    return ftruncate(spool, (off_t)*end)
               ? pd_fail_errno(err, PD_EIO, errno, "cannot write a temporary file (TMPDIR)")
               : 0;
}

/* Finds the target of a hard link: the last entry of that name so far, whose contents it shares. */
static int find_entry(const struct scan *s, const char *path, struct scan_entry *out) {
    for (size_t i = s->n_entries; i-- > 0;)
        if (s->entries[i].type == MANIFEST_FILE &&
            !strcmp(scan_name(s, s->entries[i].path), path)) {
            *out = s->entries[i];
            return 1;
        }
    return 0;
}

static int take_type(struct scan *s, struct archive_entry *in, const char *path,
                     struct scan_entry *e, struct pd_err *err) {
    char other[PATH_MAX];
    const char *hard = archive_entry_hardlink(in), *sym = archive_entry_symlink(in);
    unsigned type = archive_entry_filetype(in), perm = archive_entry_perm(in);
    struct scan_entry first;
    e->mode = perm & (type == AE_IFDIR ? 01777u : 0777u);
    if (hard) {
        int rc = pack_clean_path(hard, other, err);
        if (!rc && !find_entry(s, other, &first))
            rc = pd_fail(err, PD_EDATA, "%s is a hard link to %s, which is not an earlier file",
                         path, other);
        if (!rc) {
            first.path = e->path;
            first.path_len = e->path_len;
            *e = first;
        }
        return rc;
    }
    e->mtime_ns = archive_entry_mtime(in) * INT64_C(1000000000) + archive_entry_mtime_nsec(in);
    if (type == AE_IFLNK) {
        e->type = MANIFEST_LINK;
        e->mode = 0777;
        int rc = pack_check_link(path, sym ? sym : "", err);
        return rc ? rc : scan_put_name(s, sym, strlen(sym), &e->target, err);
    }
    if (type == AE_IFDIR) {
        e->type = MANIFEST_FOLDER;
        return 0;
    }
    if (type != AE_IFREG)
        return pd_fail(err, PD_EDATA, "%s is neither a regular file nor a folder nor a link", path);
    if (perm & 06000)
        return pd_fail(err, PD_EDATA, "%s has a set-id bit", path);
    e->type = MANIFEST_FILE;
    e->size = (uint64_t)archive_entry_size(in);
    if (archive_entry_size(in) < 0 || e->size > MANIFEST_BYTES)
        return pd_fail(err, PD_EDATA, "%s has an impossible size", path);
    return 0;
}

static int take_entry(struct scan *s, struct archive *a, struct archive_entry *in, int spool,
                      uint64_t *end, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_err why = {0};
    struct scan_entry e = {0};
    const char *name = archive_entry_pathname(in);
    int rc = name ? pack_clean_path(name, path, &why)
                  : pd_fail(&why, PD_EDATA, "an entry has no usable name");
    if (!rc && !*path)
        return 0;
    if (!rc) {
        e.path_len = (uint32_t)strlen(path);
        rc = scan_put_name(s, path, e.path_len, &e.path, &why);
    }
    if (!rc)
        rc = take_type(s, in, path, &e, &why);
    if (rc)
        return pd_fail(err, rc, "archive %s: %s", s->top, why.msg);
    if (e.type == MANIFEST_FILE && !archive_entry_hardlink(in) && !(s->flags & SCAN_NAMES)) {
        rc = fits_disk(s, in, &e, spool, err);
        rc = rc ? rc : copy_data(s, a, spool, end, &e, err);
    }
    return rc ? rc : scan_add_entry(s, &e, err);
}

/* --- order --- */

struct path_key {
    const char *path;
    size_t place;
};

static int by_path(const void *a, const void *b) {
    const struct path_key *x = a, *y = b;
    int c = manifest_path_cmp(x->path, y->path);
    return c ? c : x->place < y->place ? -1 : 1;
}

/* Adds folders that the archive does not name: the folder of each entry must be an entry. */
static int add_folders(struct scan *s, struct pd_err *err) {
    char path[PATH_MAX], last[PATH_MAX] = "";
    size_t n = s->n_entries;
    for (size_t i = 0; i < n; i++) {
        pd_fmt(path, sizeof path, "%s", scan_name(s, s->entries[i].path));
        char *slash = strrchr(path, '/');
        if (!slash)
            continue;
        *slash = 0;
        if (!strcmp(path, last)) /* the previous entry usually has the same folder */
            continue;
        memcpy(last, path, sizeof last);
        for (char *end = path;;) {
            end = strchr(end + 1, '/');
            if (end)
                *end = 0;
            struct scan_entry e = {
                .type = MANIFEST_FOLDER, .mode = 0755, .path_len = (uint32_t)strlen(path)};
            int rc = scan_put_name(s, path, e.path_len, &e.path, err);
            if (!rc)
                rc = scan_add_entry(s, &e, err);
            if (rc)
                return rc;
            if (!end)
                break;
            *end = '/';
        }
    }
    return 0;
}

/* Sorts the entries. Of several entries with one name the last one in the archive wins; an added
 * folder is used only if there is no other. */
static int sort_entries(struct scan *s, size_t n_own, struct pd_err *err) {
    size_t n = s->n_entries, kept = 0;
    struct path_key *keys = pd_malloc((n + 1) * sizeof *keys);
    struct scan_entry *v = pd_malloc((n + 1) * sizeof *v);
    if (!keys || !v) {
        free(keys);
        free(v);
        return scan_fail_memory(s, err);
    }
    for (size_t i = 0; i < n; i++) /* added folders first, so that entries of the archive win */
        keys[i] = (struct path_key){scan_name(s, s->entries[i].path), i < n_own ? n + i : i};
    qsort(keys, n, sizeof *keys, by_path);
    for (size_t i = 0; i < n; i++) {
        size_t place = keys[i].place >= n ? keys[i].place - n : keys[i].place;
        if (i + 1 == n || strcmp(keys[i].path, keys[i + 1].path))
            v[kept++] = s->entries[place];
    }
    free(keys);
    free(s->entries);
    s->entries = v;
    s->cap_entries = n + 1;
    s->n_entries = kept;
    return 0;
}

static int list_archive(struct scan *s, struct pd_err *err) {
    struct archive *a = open_tar(s->fd, s->top, err);
    uint64_t end = 0;
    int spool = a ? scan_nameless_file(err) : -1, rc = a ? (spool < 0 ? PD_EIO : 0) : PD_EDATA;
    while (!rc) {
        struct archive_entry *in;
        int r = archive_read_next_header(a, &in);
        if (r == ARCHIVE_EOF)
            break;
        /* WARN: the locale can't represent the name; its bytes are still available */
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            rc = pd_fail(err, PD_EDATA, "archive %s is damaged: %s", s->top,
                         archive_error_string(a));
        if (!rc)
            rc = take_entry(s, a, in, spool, &end, err);
    }
    archive_read_free(a);
    size_t n_own = s->n_entries;
    if (!rc)
        rc = add_folders(s, err);
    if (!rc)
        rc = sort_entries(s, n_own, err);
    if (rc) {
        pd_close(spool);
        return rc;
    }
    close(s->fd);
    s->fd = spool;
    return 0;
}

int scan_new(struct scan **out, const char *path, unsigned flags, struct pd_err *err) {
    struct scan *s = NULL;
    struct stat st;
    int rc = scan_open_top(&s, path, "the workspace ", flags, err);
    if (rc == PD_ENOENT && err) {
        pd_err_clear(err);
        pd_fail(err, rc, "cannot read the workspace %s: %s; 'paddlectl init' makes one", path,
                strerror(ENOENT));
    }
    if (rc)
        return rc;
    s->is_archive = !fstat(s->fd, &st) && !S_ISDIR(st.st_mode);
    s->list = s->is_archive ? list_archive : scan_list_folder;
    if (s->is_archive && !is_archive(s)) {
        rc =
            pd_fail(err, PD_ENOENT, "the workspace %s is neither a folder nor a tar archive", path);
        scan_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* --- one file --- */

static int take_file(struct archive *a, struct archive_entry *e, const char *path, size_t max,
                     struct pd_buf *out, struct pd_err *err) {
    uint64_t size = (uint64_t)archive_entry_size(e);
    pd_buf_clear(out);
    if (archive_entry_size(e) < 0 || size > max)
        return pd_fail(err, PD_EDATA, "archive %s: %s has more than %zu bytes", path,
                       archive_entry_pathname(e), max);
    if (pd_buf_reserve(out, size + 1))
        return pd_fail(err, PD_ENOMEM, "out of memory to read %s", path);
    while (out->len < size) {
        la_ssize_t k = archive_read_data(a, out->data + out->len, size - out->len);
        if (k <= 0)
            return pd_fail(err, PD_EDATA, "archive %s is damaged: %s", path,
                           archive_error_string(a) ? archive_error_string(a) : "cut off");
        out->len += (size_t)k;
    }
    return 0;
}

/* Of several entries with one name the last one counts, as in a package. A compressed archive can't
 * be appended to: there the first entry is taken, and the rest is not unpacked. */
int scan_archive_file(const char *path, const char *name, size_t max, struct pd_buf *out,
                      struct pd_err *err) {
    char clean[PATH_MAX];
    struct archive_entry *e;
    int fd = open(path, O_RDONLY | O_CLOEXEC), r, rc, found = 0;
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    struct archive *a = open_tar(fd, path, err);
    rc = a ? 0 : PD_EDATA;
    while (!rc && !(found && archive_filter_count(a) > 1) &&
           ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN)) {
        const char *own = archive_entry_pathname(e);
        if (!own || pack_clean_path(own, clean, NULL) || strcmp(clean, name))
            continue;
        found = archive_entry_filetype(e) == AE_IFREG && !archive_entry_hardlink(e);
        rc = found ? take_file(a, e, path, max, out, err) : 0;
    }
    if (a)
        archive_read_free(a);
    close(fd);
    return rc ? rc : found;
}
