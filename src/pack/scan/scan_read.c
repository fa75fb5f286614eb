/* SPDX-License-Identifier: Apache-2.0 */
/* scan_read.c - reads the objects of a package again from the files when they are sent, and checks
 * that the bytes are those that were hashed. */
#include "pack/object/object_ids.h"
#include "pack/scan/scan_internal.h"

/* Reads n bytes of a file at `off`. PD_EDATA: the file is shorter. */
static int read_part(const struct scan *s, const struct scan_entry *e, uint64_t off, uint8_t *p,
                     size_t n, struct pd_err *err) {
    struct stat st;
    uint64_t base;
    int fd, rc = scan_open_entry(s, e, &fd, &base, &st, err);
    if (!rc)
        rc = scan_read_at(s, e, fd, p, n, base + off, err);
    scan_close_entry(s, fd);
    return rc;
}

int scan_item_read(const struct scan *s, size_t i, void *p, size_t n, struct pd_err *err) {
    int rc = read_part(s, &s->entries[i], 0, p, n, err);
    return rc == PD_EDATA ? pd_fail(err, rc, "%.300s/%.400s changes while it is read", s->top,
                                    scan_name(s, s->entries[i].path))
                          : rc;
}

/* 0: a file on disk has other times than the scan saw. */
static int has_its_time(const struct scan *s, const struct scan_entry *e) {
    struct stat st;
    return !scan_on_disk(s, e) ||
           (!fstatat(s->fd, scan_name(s, e->path), &st, AT_SYMLINK_NOFOLLOW) &&
            st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec == e->mtime_ns);
}

int scan_item_has_changed(const struct scan *s, size_t i) {
    return !has_its_time(s, &s->entries[i]);
}

/* Reads a bundle. *bad: the file to blame if the bytes are not those that were hashed. */
static int read_bundle(const struct scan *s, const struct scan_object *o, uint8_t *buf,
                       const struct scan_entry **bad, struct pd_err *err) {
    int rc = 0;
    *bad = &s->entries[s->members[o->off]];
    for (uint32_t at = 0, i = 0; at < o->raw_len && !rc; i++) {
        if (o->off + i ==
            s->n_members) /* the files were longer when the bundle was hashed, in an earlier run */
            return PD_EDATA;
        const struct scan_entry *e = &s->entries[s->members[o->off + i]];
        /* The file has changed since the bundle was hashed, in an earlier run. */
        if (e->size > o->raw_len - at) {
            *bad = e;
            return PD_EDATA;
        }
        rc = read_part(s, e, 0, buf + at, (size_t)e->size, err);
        if (rc || !has_its_time(s, e))
            *bad = e;
        at += (uint32_t)e->size;
    }
    return rc;
}

/* The work of scan_read_all: objects, their places in the buffer, and the files to blame for
 * changed bytes. */
struct object_reads {
    const struct scan_object *o[SCAN_READ_MAX];
    uint8_t *to[SCAN_READ_MAX];
    const struct scan_entry *file[SCAN_READ_MAX];
    uint8_t sure[SCAN_READ_MAX]; /* 1: surely unchanged, no hash needed */
};

static int is_of_file(const struct scan_object *o) { return o->entry < FROM_BUNDLE; }

/* Reads objects [i, k), all of one file. If a write would have changed the file's times and the
 * times are unchanged, so are its bytes. */
static int load_file(const struct scan *s, struct object_reads *r, size_t i, size_t k,
                     struct pd_err *err) {
    const struct scan_entry *e = &s->entries[r->o[i]->entry];
    const size_t first = i;
    struct stat st;
    uint64_t base;
    int fd, rc = scan_open_entry(s, e, &fd, &base, &st, err);
    for (; i < k; i++) {
        r->file[i] = e;
        if (!rc)
            rc = scan_read_at(s, e, fd, r->to[i], r->o[i]->raw_len, base + r->o[i]->off, err);
    }
    memset(r->sure + first, !rc && e->stamped && scan_is_as_hashed(e, fd), k - first);
    scan_close_entry(s, fd);
    return rc;
}

static int load_other(const struct scan *s, struct object_reads *r, size_t i, struct pd_err *err) {
    const struct scan_object *o = r->o[i];
    r->file[i] = NULL;
    r->sure[i] = 0;
    if (o->entry == FROM_BUNDLE)
        return read_bundle(s, o, r->to[i], &r->file[i], err);
    memcpy(r->to[i], s->manifest.data + o->off, o->raw_len);
    return 0;
}

static int changed_since(const struct scan *s, const struct scan_entry *e, int rc,
                         struct pd_err *err) {
    return pd_fail(err, rc, "%.300s/%.400s changed while it was sent", s->top,
                   scan_name(s, e->path));
}

static int check_read(const struct scan *s, const struct object_reads *r, size_t n,
                      struct pd_err *err) {
    struct object_bytes v[SCAN_READ_MAX];
    struct object_id id[SCAN_READ_MAX];
    size_t of[SCAN_READ_MAX], m = 0;
    for (size_t i = 0; i < n; i++)
        if (!r->sure[i]) {
            v[m] = (struct object_bytes){r->to[i], r->o[i]->raw_len};
            of[m++] = i;
        }
    if (m)
        object_ids_of(id, v, m);
    for (size_t i = 0; i < m; i++)
        if (!object_same(&id[i], &r->o[of[i]]->id))
            return changed_since(s, r->file[of[i]], PD_EDATA, err);
    return 0;
}

int scan_read_all(const struct scan *s, const uint32_t *object, size_t n, uint8_t *buf, size_t gap,
                  struct pd_err *err) {
    struct object_reads r;
    for (size_t i = 0; i < n; i++) {
        r.o[i] = &s->objects[object[i]];
        r.to[i] = buf + gap;
        buf += gap + r.o[i]->raw_len;
    }
    for (size_t i = 0, k; i < n; i = k) {
        int rc;
        for (k = i + 1; k < n && is_of_file(r.o[i]) && r.o[k]->entry == r.o[i]->entry;)
            k++;
        rc = is_of_file(r.o[i]) ? load_file(s, &r, i, k, err) : load_other(s, &r, i, err);
        if (rc)
            return changed_since(s, r.file[i], rc, err);
    }
    return check_read(s, &r, n, err);
}

int scan_read(const struct scan *s, long object, uint8_t buf[OBJECT_MAX], uint32_t *raw_len,
              struct pd_err *err) {
    *raw_len = s->objects[object].raw_len;
    return scan_read_all(s, &(uint32_t){(uint32_t)object}, 1, buf, 0, err);
}
