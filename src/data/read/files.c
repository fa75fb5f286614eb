/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - the job's list of data files. */
#include <glob.h>

#include "data/read/reader.h"

int data_files_add(struct data_files *f, const char *path) {
    if (pd_grow(f->path, f->cap, f->n + 1) || !(f->path[f->n] = pd_strdup(path)))
        return PD_ENOMEM;
    f->n++;
    return 0;
}

void data_files_release(struct data_files *f) {
    for (size_t i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
    memset(f, 0, sizeof *f);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void data_files_sort(struct data_files *f) {
    if (!f->n)
        return;
    qsort(f->path, f->n, sizeof *f->path, by_bytes);
    size_t n = 1;
    for (size_t i = 1; i < f->n; i++) {
        if (strcmp(f->path[n - 1], f->path[i]))
            f->path[n++] = f->path[i];
        else
            free(f->path[i]);
    }
    f->n = n;
}

/* Escapes the folder's name: it may contain characters that glob would take for a pattern. */
static int escape(char *out, size_t cap, const char *dir) {
    size_t n = 0;
    for (; *dir; dir++) {
        if (n + 3 > cap)
            return -1;
        if (strchr("*?[]\\{}~", *dir))
            out[n++] = '\\';
        out[n++] = *dir;
    }
    out[n] = 0;
    return 0;
}

static int expand_one(struct data_files *f, const char *dir, const char *pattern,
                      struct pd_err *err) {
    char full[PATH_MAX], esc[PATH_MAX];
    int as_given = pattern[0] == '/' || !strcmp(dir, ".");
    if (escape(esc, sizeof esc, dir) ||
        pd_fmt(full, sizeof full, "%s%s%s", as_given ? "" : esc, as_given ? "" : "/", pattern))
        return pd_fail(err, PD_ECONF, "path too long: %s/%s", dir, pattern);
    glob_t g;
    int r = glob(full, GLOB_NOSORT | GLOB_ERR, NULL, &g), rc = 0;
    if (r == GLOB_NOSPACE)
        return pd_oom(err, "a list of data files");
    if (r == GLOB_ABORTED)
        return pd_fail_errno(err, PD_EIO, errno, "cannot list %s", full);
    size_t skip = as_given ? 0 : strlen(dir) + 1, found = 0;
    for (size_t i = 0; !rc && r == 0 && i < g.gl_pathc; i++) {
        struct stat st;
        /* A file that stat fails on is an error: without the file, the others would move to other
         * streams. */
        if (stat(g.gl_pathv[i], &st)) {
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", g.gl_pathv[i]);
            break;
        }
        if (!S_ISREG(st.st_mode) && strcmp(g.gl_pathv[i], "/dev/stdin"))
            continue;
        found++;
        if (data_files_add(f, g.gl_pathv[i] + skip))
            rc = pd_oom(err, "a list of data files");
    }
    globfree(&g);
    if (!rc && !found)
        rc = pd_fail(err, PD_ENOENT, "no file matches %s in %s", pattern, dir);
    return rc;
}

int data_files_expand(struct data_files *f, const char *dir, const char *pattern,
                      struct pd_err *err) {
    const char *sep = " \t,";
    int rc = 0, any = 0;
    for (const char *p = pattern + strspn(pattern, sep); !rc && *p; p += strspn(p, sep)) {
        char one[PATH_MAX];
        size_t n = strcspn(p, sep);
        if (n >= sizeof one)
            return pd_fail(err, PD_ECONF, "path too long: %.100s...", p);
        memcpy(one, p, n);
        one[n] = 0;
        rc = expand_one(f, dir, one, err);
        any = 1;
        p += n;
    }
    if (!rc && !any)
        rc = pd_fail(err, PD_ECONF, "the pattern of data files is empty");
    data_files_sort(f);
    return rc;
}

uint32_t data_stream_of(size_t file, uint32_t n_streams) { return (uint32_t)(file % n_streams); }

void data_stream_range(uint32_t n_streams, uint32_t n_trainers, uint32_t t, uint32_t *lo,
                       uint32_t *hi) {
    *lo = (uint32_t)((uint64_t)t * n_streams / n_trainers);
    *hi = (uint32_t)((uint64_t)(t + 1) * n_streams / n_trainers);
}
