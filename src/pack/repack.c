/* repack.c - a user's own tar archive into a package. In a file of its own: it needs gzip, bzip2 and xz, which
 * the node programs do not link. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pack/path.h"
#include "pack/writer.h"

static struct archive *open_tar(const char *path, struct pd_err *err) {
    struct archive *a = archive_read_new();
    if (!a) {
        pd_fail(err, PD_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    /* A filter that is run by an external program answers WARN: take only those that are built in. */
    if (archive_read_support_format_tar(a) || archive_read_support_filter_gzip(a) ||
        archive_read_support_filter_bzip2(a) || archive_read_support_filter_xz(a) ||
        archive_read_support_filter_zstd(a) || archive_read_open_filename(a, path, 1 << 16)) {
        int e = archive_errno(a);
        const char *s = archive_error_string(a);
        pd_fail(err, e == ENOENT ? PD_ENOENT : PD_EDATA, "cannot read archive %s: %s", path, s ? s : "unknown");
        archive_read_free(a);
        return NULL;
    }
    return a;
}

/* The entry as it goes out: clean name, owner 0:0, only what a package keeps. */
static int clean_entry(struct archive_entry *in, struct archive_entry *out, const char *file, struct pd_err *err) {
    char path[PATH_MAX], other[PATH_MAX];
    const char *name = archive_entry_pathname(in);
    unsigned type = archive_entry_filetype(in), perm = archive_entry_perm(in);
    const char *hard = archive_entry_hardlink(in), *sym = archive_entry_symlink(in);
    int rc = name ? pack_clean_path(name, path, err) : pd_fail(err, PD_EDATA, "an entry has no usable name");
    if (rc || !*path)
        return rc;
    archive_entry_copy_pathname(out, path);
    archive_entry_set_mtime(out, archive_entry_mtime(in), archive_entry_mtime_nsec(in));
    archive_entry_set_filetype(out, type);
    archive_entry_set_perm(out, perm & (type == AE_IFDIR ? 01777u : 0777u));
    archive_entry_set_size(out, 0);
    if (hard) {
        rc = pack_clean_path(hard, other, err);
        if (!rc)
            archive_entry_copy_hardlink(out, other);
    } else if (type == AE_IFLNK) {
        rc = pack_check_link(path, sym ? sym : "", err);
        if (!rc)
            archive_entry_copy_symlink(out, sym);
    } else if (type == AE_IFREG) {
        archive_entry_set_size(out, archive_entry_size(in));
        if (perm & 06000)
            rc = pd_fail(err, PD_EDATA, "%s has a set-id bit", path);
    } else if (type != AE_IFDIR) {
        rc = pd_fail(err, PD_EDATA, "%s is neither a regular file nor a folder nor a link", path);
    }
    (void)file;
    return rc;
}

static int copy_data(struct archive *a, struct pack_writer *w, const char *file, struct pd_err *err) {
    char buf[65536];
    for (;;) {
        la_ssize_t k = archive_read_data(a, buf, sizeof buf);
        if (k < 0)
            return pd_fail(err, PD_EDATA, "archive %s is damaged: %s", file, archive_error_string(a));
        if (k == 0)
            return 0;
        int rc = pack_writer_data(w, buf, (size_t)k);
        if (rc)
            return rc;
    }
}

static int copy_entry(struct archive *a, struct archive_entry *in, struct pack_writer *w, const char *file,
                      struct pd_err *err) {
    struct archive_entry *out = archive_entry_new();
    if (!out)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", file);
    struct pd_err why = {0};
    int rc = clean_entry(in, out, file, &why);
    if (rc)
        pd_fail(err, rc, "archive %s: %s", file, why.msg);
    else if (archive_entry_pathname(out)) {
        rc = pack_writer_header(w, out);
        if (!rc && archive_entry_filetype(out) == AE_IFREG && !archive_entry_hardlink(out))
            rc = copy_data(a, w, file, err);
    }
    archive_entry_free(out);
    return rc;
}

int pack_archive(const char *path, pack_sink sink, void *arg, struct pack_result *res, struct pd_err *err) {
    struct archive *a = open_tar(path, err);
    if (!a)
        return err && err->code ? err->code : PD_EDATA;
    struct pack_writer w;
    int rc = pack_writer_open(&w, sink, arg, res, err);
    while (!rc) {
        struct archive_entry *e;
        int r = archive_read_next_header(a, &e);
        if (r == ARCHIVE_EOF)
            break;
        /* WARN: a name that the locale can't show; its bytes are there all the same */
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
            rc = pd_fail(err, PD_EDATA, "archive %s is damaged: %s", path, archive_error_string(a));
            break;
        }
        rc = copy_entry(a, e, &w, path, err);
    }
    archive_read_free(a);
    return pack_writer_finish(&w, rc);
}

int pack_is_archive(const char *path) {
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    struct archive *a = open_tar(path, NULL);
    if (!a)
        return 0;
    struct archive_entry *e;
    int r = archive_read_next_header(a, &e);
    archive_read_free(a);
    return r == ARCHIVE_OK || r == ARCHIVE_WARN;
}
