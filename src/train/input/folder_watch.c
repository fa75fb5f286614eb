/* SPDX-License-Identifier: Apache-2.0 */
/* folder_watch.c - see folder_watch.h. */
#include "train/input/folder_watch.h"

#include <glob.h>

#include "math/hash.h"
#include "data/read/file_list.h"

struct train_folder_watch {
    struct train_folder_watch_opts o;
    char folders[PATH_MAX]; /* pattern of the folders, with `dir` in front */
    char files[NAME_MAX + 1];
    /* the folder checked last, to detect changes */
    char key[WATCH_KEY_MAX + 1];
    uint64_t fingerprint, since_ns;
};

int train_folder_watch_new(struct train_folder_watch **out,
                           const struct train_folder_watch_opts *opts, struct pd_err *err) {
    const char *p = opts->pattern, *file = strrchr(p, '/');
    if (!data_files_in_folders(p))
        return pd_fail(err, PD_ECONF,
                       "train = %s: job = online takes one pattern of files in folders of a day "
                       "and a minute, like stream/*/*/part-*",
                       p);
    struct train_folder_watch *w = pd_calloc(1, sizeof *w);
    if (!w)
        return pd_oom(err, "the watched folders");
    w->o = *opts;
    if (pd_fmt(w->folders, sizeof w->folders, "%s%s%.*s", *p == '/' ? "" : opts->dir,
               *p == '/' ? "" : "/", (int)(file - p), p) ||
        pd_fmt(w->files, sizeof w->files, "%s", file + 1)) {
        free(w);
        return pd_fail(err, PD_ECONF, "train = %s: too long", p);
    }
    *out = w;
    return 0;
}

void train_folder_watch_free(struct train_folder_watch *w) { free(w); }

/* "DAY/MINUTE" of a folder's path; -1: its names are too long. */
static int key_of(const char *path, char key[WATCH_KEY_MAX + 1]) {
    const char *s = strrchr(path, '/');
    while (s > path && s[-1] != '/')
        s--;
    return pd_fmt(key, WATCH_KEY_MAX + 1, "%s", s);
}

void train_folder_watch_day(const char *key, char day[WATCH_KEY_MAX + 1]) {
    (void)pd_fmt(day, WATCH_KEY_MAX + 1, "%.*s", (int)strcspn(key, "/"), key);
}

static int is_dir(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Finds the folder with this key (`same`), or the first one after it. */
static int find_folder(const struct train_folder_watch *w, const char *key, int same,
                       char path[PATH_MAX], char found[WATCH_KEY_MAX + 1], struct pd_err *err) {
    glob_t g = {0};
    int rc = glob(w->folders, GLOB_NOSORT, NULL, &g);
    if (rc && rc != GLOB_NOMATCH)
        return pd_fail(err, rc == GLOB_NOSPACE ? PD_ENOMEM : PD_EIO, "cannot list %s", w->folders);
    *found = 0;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        char k[WATCH_KEY_MAX + 1];
        if (key_of(g.gl_pathv[i], k) || (same ? strcmp(k, key) : strcmp(k, key) <= 0) ||
            (*found && strcmp(k, found) >= 0) || !is_dir(g.gl_pathv[i]) ||
            pd_fmt(path, PATH_MAX, "%s", g.gl_pathv[i]))
            continue;
        pd_fmt(found, WATCH_KEY_MAX + 1, "%s", k);
    }
    globfree(&g);
    return *found ? 0 : PD_ENOENT;
}

/* All names in the folder that are files of the data. */
static int list_files(const struct train_folder_watch *w, const char *path, struct data_files *out,
                      struct pd_err *err) {
    char pattern[PATH_MAX];
    glob_t g = {0};
    if (pd_fmt(pattern, sizeof pattern, "%s/%s", path, w->files))
        return pd_fail(err, PD_EIO, "path too long: %s", path);
    int rc = glob(pattern, 0, NULL, &g);
    if (rc && rc != GLOB_NOMATCH)
        return pd_fail(err, rc == GLOB_NOSPACE ? PD_ENOMEM : PD_EIO, "cannot list %s", pattern);
    rc = 0;
    for (size_t i = 0; i < g.gl_pathc && !rc; i++) {
        const char *name = g.gl_pathv[i], *base = strrchr(name, '/') + 1;
        struct stat st;
        if (!strcmp(base, w->o.done_file) || stat(name, &st) || !S_ISREG(st.st_mode))
            continue;
        if (*w->o.pattern != '/') /* as a pattern's files are */
            name += strlen(w->o.dir) + 1;
        if (data_files_add(out, name))
            rc = pd_oom(err, "the watched folders");
    }
    globfree(&g);
    return rc;
}

int train_folder_watch_files(const struct train_folder_watch *w, const char *key,
                             struct data_files *out, struct pd_err *err) {
    char path[PATH_MAX], found[WATCH_KEY_MAX + 1];
    int rc = find_folder(w, key, 1, path, found, err);
    if (rc == PD_ENOENT)
        return pd_fail(err, PD_ENOENT, "folder %s of %s no longer exists", key, w->folders);
    return rc ? rc : list_files(w, path, out, err);
}

/* A hash of names, sizes and times of the files in the folder. */
static int fingerprint(const struct train_folder_watch *w, const char *path, uint64_t *out,
                       struct pd_err *err) {
    struct data_files f = {0};
    int rc = list_files(w, path, &f, err);
    *out = f.n;
    for (size_t i = 0; i < f.n && !rc; i++) {
        char file[PATH_MAX];
        struct stat st = {0};
        if (!pd_fmt(file, sizeof file, "%s%s%s", *f.path[i] == '/' ? "" : w->o.dir,
                    *f.path[i] == '/' ? "" : "/", f.path[i]))
            (void)stat(file, &st);
        for (const char *s = f.path[i]; *s; s++)
            *out = pd_mix64(*out ^ (uint64_t)(unsigned char)*s) + 1;
        *out = pd_mix64(*out ^ (uint64_t)st.st_size) + (uint64_t)st.st_mtim.tv_sec * 1000000007u +
               (uint64_t)st.st_mtim.tv_nsec;
    }
    data_files_release(&f);
    return rc;
}

static int check_complete(struct train_folder_watch *w, const char *key, const char *path,
                          struct pd_err *err) {
    char done[PATH_MAX];
    struct stat st;
    uint64_t now = pd_mono_ns(), l;
    if (*w->o.done_file)
        return !pd_fmt(done, sizeof done, "%s/%s", path, w->o.done_file) && !stat(done, &st);
    int rc = fingerprint(w, path, &l, err);
    if (rc)
        return rc;
    if (strcmp(key, w->key) || l != w->fingerprint) {
        pd_fmt(w->key, sizeof w->key, "%s", key);
        w->fingerprint = l;
        w->since_ns = now;
    }
    return (double)(now - w->since_ns) * 1e-9 >= w->o.quiet;
}

int train_folder_watch_complete(struct train_folder_watch *w, const char *key, struct pd_err *err) {
    char path[PATH_MAX], found[WATCH_KEY_MAX + 1];
    int rc = find_folder(w, key, 1, path, found, err);
    return rc ? rc : check_complete(w, key, path, err);
}

int train_folder_watch_next(struct train_folder_watch *w, const char *last,
                            char key[WATCH_KEY_MAX + 1], struct pd_err *err) {
    char path[PATH_MAX];
    int rc = find_folder(w, last, 0, path, key, err);
    return rc ? rc : check_complete(w, key, path, err);
}
