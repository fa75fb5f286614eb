/* SPDX-License-Identifier: Apache-2.0 */
/* random_tree.h - a random package in memory: files (sparse, small ones in bundles, equal ones),
 * folders and links with any names. It has objects and a manifest, can be edited, and can be
 * compared with a folder. For tests of assembling packages. */
#pragma once

#include "math/hash.h"
#include "pack/object/chunker.h"
#include "pack/object/manifest.h"
#include "pack/object/object.h"

struct rt_entry {
    char path[300];
    enum manifest_type type;
    unsigned mode;
    int64_t mtime_ns;
    uint64_t seed, size;    /* the contents are a function of the seed */
    uint64_t hole_at, hole; /* zeros that are not sent as bytes */
    char target[40];
};

struct rt_object {
    struct object_id id;
    uint8_t *raw;
    uint32_t n;
};

struct rt {
    uint64_t rng;
    struct rt_entry *v;
    size_t n;
    /* made by rt_pack */
    struct rt_object *o;
    size_t n_o, cap_o;
    uint8_t root[MANIFEST_ROOT_MAX];
    size_t root_n;
    struct object_id root_id;
};

static uint64_t rt_next(struct rt *t) { return pd_mix64(t->rng += 0x9e3779b97f4a7c15u); }

static uint8_t rt_byte(const struct rt_entry *e, uint64_t at) {
    if (at >= e->hole_at && at < e->hole_at + e->hole)
        return 0;
    uint64_t w = pd_mix64(e->seed + at / 8);
    return e->seed % 3 ? (uint8_t)(w >> at % 8 * 8) : "some text "[w % 10];
}

static int rt_by_path(const void *a, const void *b) {
    return manifest_path_cmp(((const struct rt_entry *)a)->path,
                             ((const struct rt_entry *)b)->path);
}

static void rt_contents(struct rt *t, struct rt_entry *e) {
    static const uint64_t sizes[] = {0, 1, 700, 5000, 30000, 200000, 900000};
    uint64_t max = sizes[rt_next(t) % 7];
    e->seed = rt_next(t) % 8 ? rt_next(t) : 42; /* some files are equal */
    e->size = max ? rt_next(t) % max + 1 : 0;
    if (rt_next(t) % 10 == 0) {
        e->hole = 4096 * (1 + rt_next(t) % 100);
        /* Also a hole at the end. */
        e->hole_at = rt_next(t) % 3 ? 4096 * (rt_next(t) % 10) : e->size;
        if (e->hole_at > e->size)
            e->hole_at = e->size;
        e->size += e->hole;
    } else {
        e->hole = 0;
    }
}

/* Makes a name in a random folder of the tree. */
static void rt_name(struct rt *t, char *out) {
    static const char *const names[] = {
        "a",   "data", "with space", "new\nline", "qu'o\"te", "\xff\xfe\x80", "-dash", "..dots",
        "a-b", "a.b",  "\\back",     "*",         "~"};
    char parent[200] = "";
    for (int tries = 0; t->n && tries < 4; tries++) {
        const struct rt_entry *e = &t->v[rt_next(t) % t->n];
        if (e->type == MANIFEST_FOLDER && strlen(e->path) < 150) {
            snprintf(parent, sizeof parent, "%.180s/", e->path);
            break;
        }
    }
    snprintf(out, 300, "%s%s%d", parent, names[rt_next(t) % 13], (int)(rt_next(t) % 50));
}

static void rt_add(struct rt *t) {
    struct rt_entry e = {.mtime_ns = (int64_t)(rt_next(t) % 2000000000u) * 1000000000 +
                                     (int64_t)(rt_next(t) % 1000000000)};
    rt_name(t, e.path);
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->v[i].path, e.path))
            return;
    unsigned kind = (unsigned)(rt_next(t) % 10);
    e.type = kind < 2 ? MANIFEST_FOLDER : kind < 3 ? MANIFEST_LINK : MANIFEST_FILE;
    static const unsigned modes[] = {0644, 0755, 0600, 0444, 0400, 0666};
    e.mode = e.type == MANIFEST_LINK     ? 0777
             : e.type == MANIFEST_FOLDER ? (rt_next(t) % 4 ? 0755 : 01777)
                                         : modes[rt_next(t) % 6];
    if (e.type == MANIFEST_FOLDER && rt_next(t) % 10 == 0)
        e.mode = 0555;
    if (e.type == MANIFEST_LINK)
        snprintf(e.target, sizeof e.target, "some%d/where", (int)(rt_next(t) % 9));
    if (e.type == MANIFEST_FILE)
        rt_contents(t, &e);
    t->v = realloc(t->v, (t->n + 1) * sizeof *t->v);
    t->v[t->n++] = e;
}

static void rt_grow(struct rt *t, size_t n) {
    for (size_t i = 0; i < n; i++)
        rt_add(t);
    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, rt_by_path);
}

static int rt_has_below(const struct rt *t, size_t i) {
    size_t n = strlen(t->v[i].path);
    return i + 1 < t->n && !strncmp(t->v[i + 1].path, t->v[i].path, n) &&
           t->v[i + 1].path[n] == '/';
}

static inline void rt_edit(struct rt *t) {
    for (int k = 0; k < 4 && t->n; k++) {
        size_t i = rt_next(t) % t->n;
        struct rt_entry *e = &t->v[i];
        switch (rt_next(t) % 5) {
        case 0:
            rt_grow(t, 1 + rt_next(t) % 4);
            break;
        case 1:
            if (!rt_has_below(t, i))
                memmove(e, e + 1, (--t->n - i) * sizeof *e);
            break;
        case 2:
            e->mode = e->type == MANIFEST_LINK ? 0777 : 0750;
            break;
        case 3:
            e->mtime_ns += 1000000007;
            break;
        default:
            if (e->type == MANIFEST_FILE)
                rt_contents(t, e);
        }
    }
}

static void rt_release(struct rt *t) {
    for (size_t i = 0; i < t->n_o; i++)
        free(t->o[i].raw);
    free(t->o);
    free(t->v);
    *t = (struct rt){0};
}

static int rt_keep(void *arg, const struct object_id *id, const void *raw, size_t n,
                   struct pd_err *err) {
    struct rt *t = arg;
    (void)err;
    if (t->n_o == t->cap_o) {
        t->cap_o = t->cap_o ? 2 * t->cap_o : 64;
        t->o = realloc(t->o, t->cap_o * sizeof *t->o);
    }
    struct rt_object *o = &t->o[t->n_o++];
    *o = (struct rt_object){*id, malloc(n), (uint32_t)n};
    memcpy(o->raw, raw, n);
    return 0;
}

static int rt_object_cmp(const void *a, const void *b) {
    return object_cmp(&((const struct rt_object *)a)->id, &((const struct rt_object *)b)->id);
}

static const struct rt_object *rt_find(const struct rt *t, const struct object_id *id) {
    struct rt_object key = {.id = *id};
    return bsearch(&key, t->o, t->n_o, sizeof *t->o, rt_object_cmp);
}

static struct object_id rt_object_of(struct rt *t, const uint8_t *raw, size_t n) {
    struct object_id id;
    object_id_of(&id, raw, n);
    rt_keep(t, &id, raw, n, NULL);
    return id;
}

static int rt_write_entry(struct manifest_writer *w, const struct rt_entry *e, struct pd_err *err) {
    const struct manifest_entry m = {.type = e->type,
                                     .path = e->path,
                                     .path_len = strlen(e->path),
                                     .mode = e->mode,
                                     .mtime_ns = e->mtime_ns,
                                     .size = e->size,
                                     .target = e->target};
    return manifest_add(w, &m, err);
}

static int rt_is_small(const struct rt_entry *e) {
    return e->type == MANIFEST_FILE && e->size && e->size < CHUNKER_SMALL && !e->hole;
}

/* Writes entries [i, end), whose small files form one bundle. */
static int rt_write_bundle(struct rt *t, struct manifest_writer *w, size_t i, size_t end,
                           const uint8_t *raw, size_t n, struct pd_err *err) {
    struct object_id id = {{0}};
    if (n)
        id = rt_object_of(t, raw, n);
    uint32_t at = 0;
    for (; i < end; i++) {
        const struct rt_entry *e = &t->v[i];
        struct manifest_extent x = {id, (uint32_t)n, at, (uint32_t)e->size, 0};
        if (rt_write_entry(w, e, err) || (rt_is_small(e) && manifest_add_extent(w, &x, err)))
            return err->code;
        at += rt_is_small(e) ? (uint32_t)e->size : 0;
    }
    return 0;
}

static int rt_write_file(struct rt *t, struct manifest_writer *w, const struct rt_entry *e,
                         struct pd_err *err) {
    struct chunker c;
    chunker_init(&c, e->size, 0);
    if (rt_write_entry(w, e, err))
        return err->code;
    uint8_t *raw = malloc(c.max);
    for (uint64_t at = 0; at < e->size && !err->code;) {
        if (e->hole && at == e->hole_at) {
            at += e->hole;
            continue;
        }
        uint64_t end = e->hole && at < e->hole_at ? e->hole_at : e->size;
        size_t n = end - at < c.max ? (size_t)(end - at) : c.max;
        for (size_t k = 0; k < n; k++)
            raw[k] = rt_byte(e, at + k);
        n = chunker_cut(&c, raw, n);
        struct manifest_extent x = {rt_object_of(t, raw, n), (uint32_t)n, 0, (uint32_t)n, at};
        manifest_add_extent(w, &x, err);
        at += n;
    }
    free(raw);
    return err->code;
}

/* Makes the objects, manifest and root of the current tree. */
static int rt_pack(struct rt *t, struct pd_err *err) {
    struct manifest_writer *w = NULL;
    uint8_t *bundle = malloc(CHUNKER_BUNDLE_MAX);
    size_t from = 0, n = 0;
    for (size_t i = 0; i < t->n_o; i++)
        free(t->o[i].raw);
    t->n_o = 0;
    int rc = manifest_writer_new(&w, rt_keep, t, err);
    for (size_t i = 0; i <= t->n && !rc; i++) {
        const struct rt_entry *e = i < t->n ? &t->v[i] : NULL;
        int large = e && e->type == MANIFEST_FILE && e->size && !rt_is_small(e),
            small = e && rt_is_small(e);
        if (!e || large || (small && n + e->size > CHUNKER_BUNDLE_MAX)) {
            rc = rt_write_bundle(t, w, from, i, bundle, n, err);
            from = i;
            n = 0;
        }
        if (!rc && large) {
            rc = rt_write_file(t, w, e, err);
            from = i + 1;
        }
        for (uint64_t k = 0; small && k < e->size; k++)
            bundle[n++] = rt_byte(e, k);
        if (!rc && small && chunker_bundle_ends(e->path, strlen(e->path), n, e->size)) {
            rc = rt_write_bundle(t, w, from, i + 1, bundle, n, err);
            from = i + 1;
            n = 0;
        }
    }
    if (!rc)
        rc = manifest_finish(w, &t->root_id, t->root, &t->root_n, err);
    manifest_writer_free(w);
    free(bundle);
    if (t->n_o)
        qsort(t->o, t->n_o, sizeof *t->o, rt_object_cmp);
    return rc;
}

/* --- comparing --- */

static size_t rt_count(const char *dir) {
    DIR *d = opendir(dir);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        struct stat st;
        if (!lstat(path, &st) && S_ISDIR(st.st_mode))
            n += rt_count(path);
    }
    if (d)
        closedir(d);
    return n;
}

static int rt_same_bytes(const struct rt_entry *e, const char *path) {
    int fd = open(path, O_RDONLY);
    uint8_t buf[8192];
    uint64_t at = 0;
    for (ssize_t k; fd >= 0 && (k = read(fd, buf, sizeof buf)) > 0;)
        for (ssize_t i = 0; i < k; i++, at++)
            if (at >= e->size || buf[i] != rt_byte(e, at))
                at = UINT64_MAX - 8192;
    if (fd >= 0)
        close(fd);
    return fd >= 0 && at == e->size;
}

/* NULL if the folder equals the tree in every respect, else a description of the difference. */
static const char *rt_differs(const struct rt *t, const char *dir) {
    static char why[700];
    if (rt_count(dir) != t->n)
        return snprintf(why, sizeof why, "%zu entries instead of %zu", rt_count(dir), t->n), why;
    for (size_t i = 0; i < t->n; i++) {
        const struct rt_entry *e = &t->v[i];
        char path[PATH_MAX], target[64] = "";
        struct stat st;
        const char *what = NULL;
        snprintf(path, sizeof path, "%s/%s", dir, e->path);
        if (lstat(path, &st))
            what = "is missing";
        else if ((st.st_mode & S_IFMT) != (e->type == MANIFEST_FILE   ? S_IFREG
                                           : e->type == MANIFEST_LINK ? S_IFLNK
                                                                      : S_IFDIR))
            what = "is of another kind";
        else if (e->type != MANIFEST_LINK && (st.st_mode & 07777) != e->mode)
            what = "has another mode";
        else if (st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec != e->mtime_ns)
            what = "has another time";
        else if (e->type == MANIFEST_LINK &&
                 (readlink(path, target, sizeof target - 1) < 0 || strcmp(target, e->target)))
            what = "leads elsewhere";
        else if (e->type == MANIFEST_FILE &&
                 ((uint64_t)st.st_size != e->size || !rt_same_bytes(e, path)))
            what = "has other bytes";
        else if (e->type == MANIFEST_FILE && e->hole > 65536 &&
                 (uint64_t)st.st_blocks * 512 > e->size - e->hole + 65536)
            what = "is not sparse";
        if (what)
            return snprintf(why, sizeof why, "%.500s %s", e->path, what), why;
    }
    return NULL;
}
