/* SPDX-License-Identifier: Apache-2.0 */
/* store_rest.c - what came of a package whose transfer was interrupted: the REST.
 *
 *     TARGET.part-...   ─ rename ─▶ .paddlectl/chunks/<unique>.tree
 *     <unique>.part     ─ index  ─▶ .paddlectl/chunks/000...-<unique>.cat
 *
 * The rest is a catalog like any other: its objects are found, verified and not sent again. A maker
 * that is alive makes it itself (store_part_keep). The rest of a maker that was killed is made by
 * the next process that opens the store, from the records in the .part. A kill at any place leaves
 * a .part with its tree, or a tree without a catalog, which the next process removes.
 */
#include <sys/file.h>

#include "pack/object/manifest.h"
#include "pack/store/store_internal.h"

enum { YOUNG_S = 60, REST_LEAST = 64 << 10 };

/* Bytes of the objects that the rows place in the tree. */
static uint64_t rest_bytes(const struct store_part *p) {
    uint64_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += p->rows[i].file == UINT32_MAX ? 0 : p->rows[i].raw_len;
    return n;
}

static int rest_name(const char *dir, const char *unique, const char *suffix, char out[PATH_MAX]) {
    return pd_fmt(out, PATH_MAX, "%s/%.*s.%s", dir, PART_UNIQUE, unique, suffix);
}

int store_part_keep(struct store_part *p, const char *tree, const char *const *paths,
                    size_t n_paths, struct pd_err *err) {
    static const struct object_id none = {{0}};
    const char *unique = strrchr(p->path, '/') + 1;
    char rest[PATH_MAX], base[CAT_BASE];
    if (rest_bytes(p) < REST_LEAST)
        return pd_fail(err, PD_ENOENT, "too little came to be kept");
    if (rest_name(p->st->dir, unique, "tree", rest) ||
        pd_fmt(base, sizeof base, "%s%.*s.tree", REST_BASE, PART_UNIQUE, unique))
        return pd_fail(err, PD_EIO, "path too long: %s", p->st->dir);
    if (rename(tree, rest) && errno != ENOENT) /* ENOENT: an earlier process moved it */
        return pd_fail_errno(err, PD_EIO, errno, "cannot rename %s", tree);
    int rc = pd_fault("store.rest") ? pd_fail(err, PD_EIO, "injected")
                                    : store_part_seal(p, base, paths, n_paths, 0, err);
    if (!rc)
        rc = store_part_publish(p, &none, err);
    if (rc)
        pd_rm_tree(rest, NULL);
    return rc;
}

/* --- of a dead maker --- */

struct entries {
    char **path;
    size_t n, cap;
};

static int take_row(struct store_part *p, const uint8_t *raw, struct pd_err *err) {
    struct store_row row;
    struct pd_reader r;
    memcpy(row.id.b, raw, OBJECT_ID);
    pd_reader_init(&r, raw + OBJECT_ID, ROW_BYTES - OBJECT_ID);
    row.raw_len = pd_get_u32(&r);
    row.file = pd_get_u32(&r);
    row.off = pd_get_u64(&r);
    return row.raw_len && row.raw_len <= OBJECT_MAX ? store_part_add_row(p, &row, err)
                                                    : pd_fail(err, PD_EDATA, "a bad row");
}

static int take_record(struct store_part *p, struct entries *e, int kind, uint8_t *raw, uint32_t n,
                       struct pd_err *err) {
    struct store_row row = {.raw_len = n, .file = UINT32_MAX, .off = p->at + RECORD_HEAD};
    switch (kind) {
    case PART_OBJECT:
        if (!n || n > OBJECT_MAX)
            break;
        object_id_of(&row.id, raw, n);
        return store_part_add_row(p, &row, err);
    case PART_ENTRY:
        if (!n || raw[n - 1] || e->n == MANIFEST_ENTRIES)
            break;
        if (pd_grow(e->path, e->cap, e->n + 1) || !(e->path[e->n] = pd_strdup((char *)raw)))
            return pd_oom(err, "the chunk store");
        e->n++;
        return 0;
    case PART_ROW:
        if (n == ROW_BYTES)
            return take_row(p, raw, err);
        break;
    default: /* PART_END, or bytes that were not all written */
        break;
    }
    return pd_fail(err, PD_EDATA, "no record");
}

/* Reads the records up to the first that is not whole. p->at becomes the end of the good ones. */
static void read_records(struct store_part *p, struct entries *e) {
    FILE *f = fdopen(dup(p->fd), "r");
    uint8_t head[RECORD_HEAD], *raw = pd_malloc(OBJECT_MAX);
    struct pd_err err = {0};
    struct pd_reader r;
    if (f && raw && !fseeko(f, PART_HEAD, SEEK_SET))
        while (fread(head, 1, sizeof head, f) == sizeof head) {
            pd_reader_init(&r, head + 1, 4);
            const uint32_t n = pd_get_u32(&r);
            if (n > OBJECT_MAX || fread(raw, 1, n, f) != n ||
                take_record(p, e, head[0], raw, n, &err))
                break;
            p->at += RECORD_HEAD + n;
        }
    if (f)
        fclose(f);
    free(raw);
}

/* Makes a rest of the .part `path` with the tree `tree`. 0, or -1: it is not worth it. The
 * descriptor stays the caller's. */
static int revive(const char *root, const char *path, int fd, const char *tree, int dry_run) {
    struct store *st = pd_calloc(1, sizeof *st);
    struct store_part *p = pd_calloc(1, sizeof *p);
    struct entries e = {0};
    int rc = -1;
    if (st && p && !pd_fmt(st->root, sizeof st->root, "%s", root) &&
        !pd_fmt(st->dir, sizeof st->dir, "%.*s", (int)(strrchr(path, '/') - path), path) &&
        !pd_fmt(p->path, sizeof p->path, "%s", path)) {
        p->st = st;
        p->fd = fd;
        p->at = PART_HEAD;
        pd_buf_init(&p->out);
        read_records(p, &e);
        if (dry_run)
            rc = rest_bytes(p) < REST_LEAST ? -1 : 0;
        else if (!ftruncate(fd, (off_t)p->at) && lseek(fd, 0, SEEK_END) >= 0)
            rc = store_part_keep(p, tree, (const char *const *)e.path, e.n, NULL) ? -1 : 0;
        pd_buf_release(&p->out);
        free(p->rows);
        free(p->slots);
    }
    for (size_t i = 0; i < e.n; i++)
        free(e.path[i]);
    free(e.path);
    free(p);
    free(st);
    return rc;
}

/* The tree of a .part is below the root and has a name that only makers give. */
static int is_tree(const char *root, const char *tree) {
    const size_t n = strlen(root);
    const char *last = strrchr(tree, '/');
    return last && !strncmp(tree, root, n) && tree[n] == '/' && strstr(last, ".part-") &&
           !strstr(tree, "/../");
}

int store_bury(const char *root, const char *path, int dry_run) {
    char head[PART_HEAD], dir[PATH_MAX], moved[PATH_MAX];
    struct stat st, now;
    const char *unique = strrchr(path, '/') + 1;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), dead = 0;
    if (fd < 0)
        return 0;
    /* Locked, it must still have this name: another process may have made a rest of it. */
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || flock(fd, LOCK_EX | LOCK_NB) ||
        lstat(path, &now) || now.st_ino != st.st_ino || now.st_dev != st.st_dev) {
        close(fd);
        return 0;
    }
    if (store_pread(fd, head, sizeof head, 0)) {
        dead = time(NULL) - st.st_mtime > YOUNG_S; /* a young file may be about to get its head */
        *head = 0;
    } else {
        head[sizeof head - 1] = 0;
        dead = 1;
    }
    const int ours = dead && is_tree(root, head);
    const int has_moved = !pd_fmt(dir, sizeof dir, "%.*s", (int)(unique - 1 - path), path) &&
                          !rest_name(dir, unique, "tree", moved) && !lstat(moved, &now);
    if (ours && (has_moved || (!lstat(head, &now) && S_ISDIR(now.st_mode))) &&
        !revive(root, path, fd, head, dry_run)) {
        close(fd);
        return 0;
    }
    if (dead && !dry_run) {
        if (ours)
            pd_rm_tree(head, NULL);
        if (has_moved)
            pd_rm_tree(moved, NULL);
        unlink(path);
    }
    close(fd);
    return dead;
}

void store_rest_sweep(const char *dir) {
    static const struct object_id none = {{0}};
    char part[PATH_MAX], cat[PATH_MAX], tree[PATH_MAX], hex[2 * OBJECT_ID + 1];
    DIR *d = opendir(dir);
    object_hex(&none, hex);
    for (struct dirent *e; d && (e = readdir(d));)
        /* The .part is looked for first: its name changes to that of the catalog. */
        if (pd_ends_with(e->d_name, ".tree") && strlen(e->d_name) == PART_UNIQUE + 5 &&
            !rest_name(dir, e->d_name, "part", part) && access(part, F_OK) &&
            !pd_fmt(cat, sizeof cat, "%s/%s-%.*s.cat", dir, hex, PART_UNIQUE, e->d_name) &&
            access(cat, F_OK) && !rest_name(dir, e->d_name, "tree", tree))
            pd_rm_tree(tree, NULL);
    pd_closedir(d);
}
