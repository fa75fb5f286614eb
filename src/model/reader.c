/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - reads a model's folder, regardless of the number of parts it was written in. See
 * model.h. */
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "model/model_internal.h"
#include "model/model.h"

enum { MANIFEST_MAX = 256 << 20 };

void model_hash(const void *p, size_t n, uint8_t out[16]) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(out, c.digest, 16);
}

int model_open(struct model **out, const char *folder, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    struct model *m = pd_calloc(1, sizeof *m);
    int rc = 0;
    if (!m)
        rc = pd_fail(err, PD_ENOMEM, "no memory for model %s", folder);
    else if (pd_fmt(m->folder, sizeof m->folder, "%s", folder) ||
             pd_fmt(path, sizeof path, "%s/manifest.json", folder))
        rc = pd_fail(err, PD_EIO, "path too long: %s", folder);
    if (!rc)
        rc = pd_read_regular(path, MANIFEST_MAX, &b, err);
    if (!rc) {
        struct pd_err e = {0};
        rc = model_manifest_parse(&m->info, (const char *)b.data, b.len, &e);
        if (rc)
            pd_fail(err, rc, "%s: %s", path, e.msg);
    }
    if (!rc && !(m->parts = pd_calloc(m->info.n_parts, sizeof *m->parts)))
        rc = pd_fail(err, PD_ENOMEM, "no memory for model %s", folder);
    pd_buf_release(&b);
    if (rc)
        model_close(m);
    else
        *out = m;
    return rc;
}

void model_close(struct model *m) {
    if (!m)
        return;
    for (size_t i = 0; m->parts && i < m->info.n_parts; i++) {
        if (m->parts[i].map)
            munmap((void *)(uintptr_t)m->parts[i].map, m->info.parts[i].bytes);
        free(m->parts[i].entries);
    }
    free(m->parts);
    model_manifest_release(&m->info);
    free(m);
}

void model_skip_checksums(struct model *m) { m->trust = 1; }

void model_random_access(const struct model *m) {
    for (size_t i = 0; i < m->info.n_parts; i++)
        if (m->parts[i].map)
            (void)madvise((void *)(uintptr_t)m->parts[i].map, m->info.parts[i].bytes, MADV_RANDOM);
}

const struct model_manifest *model_info(const struct model *m) { return &m->info; }

const struct model_param *model_find_param(const struct model *m, const char *name) {
    for (size_t i = 0; i < m->info.n_params; i++)
        if (!strcmp(m->info.params[i].name, name))
            return &m->info.params[i];
    return NULL;
}

/* 1: [off, off + n * size) is inside the file and aligned. */
static int is_inside(uint64_t off, uint64_t n, uint64_t size, uint64_t bytes) {
    return off % MODEL_ALIGN == 0 && off <= bytes && n <= (bytes - off) / size;
}

static int read_entry(const struct model *m, struct pd_reader *r, uint64_t bytes,
                      struct open_entry *x) {
    const uint8_t *name = pd_get(r, 128);
    if (!name || name[127])
        return -1;
    memcpy(x->e.name, name, 128);
    uint32_t kind = pd_get_u32(r);
    x->e.dim = pd_get_u32(r);
    x->e.first = pd_get_u64(r);
    x->e.count = pd_get_u64(r);
    x->keys = pd_get_u64(r);
    x->values = pd_get_u64(r);
    x->state = pd_get_u64(r);
    x->e.state_width = pd_get_u32(r);
    (void)pd_get(r, MODEL_ENTRY - 180);
    const struct model_param *p = model_find_param(m, x->e.name);
    int history = kind == MODEL_HISTORY, waiting = kind == MODEL_WAITING,
        of_table = history || waiting || kind == MODEL_CHANGES;
    if (r->failed || !p || (of_table ? MODEL_TABLE : kind) != (uint32_t)p->kind || x->e.dim < 1)
        return -1;
    x->e.kind = (enum model_kind)kind;
    if (!is_inside(x->values, x->e.count, 4 * (uint64_t)x->e.dim, bytes))
        return -1;
    if (x->e.state_width
            ? x->e.state_width > 1u << 28 ||
                  !is_inside(x->state, x->e.count, 4 * (uint64_t)x->e.state_width, bytes)
            : x->state != 0)
        return -1;
    if (history)
        return x->e.dim != 4 || x->e.state_width ? -1 : 0;
    if (waiting)
        return x->e.dim != 1 || x->e.state_width || !is_inside(x->keys, x->e.count, 8, bytes) ? -1
                                                                                              : 0;
    if (p->kind == MODEL_TABLE)
        return x->e.dim != p->dim || !is_inside(x->keys, x->e.count, 8, bytes) ? -1 : 0;
    uint64_t n = model_param_values(p);
    return x->e.dim != 1 || x->e.first > n || x->e.count > n - x->e.first ? -1 : 0;
}

static int read_entries(const struct model *m, const struct model_part *info, struct open_part *p,
                        const char *path, struct pd_err *err) {
    struct pd_reader r;
    pd_reader_init(&r, p->map, info->bytes);
    const uint8_t *magic = pd_get(&r, 8);
    uint32_t version = pd_get_u32(&r), flags = pd_get_u32(&r), n = pd_get_u32(&r);
    (void)pd_get(&r, MODEL_HEADER - 20);
    if (r.failed || memcmp(magic, MODEL_MAGIC, 8))
        return pd_fail(err, PD_EDATA, "%s is not a part of a model", path);
    if (version != MODEL_VERSION || flags & ~(uint32_t)MODEL_F_STATE)
        return pd_fail(err, PD_EDATA, "%s: format version %u, flags %u are not known", path,
                       version, flags);
    if (n > MODEL_ENTRIES_MAX || n > (info->bytes - MODEL_HEADER) / MODEL_ENTRY)
        return pd_fail(err, PD_EDATA, "%s: %u entries", path, n);
    p->entries = pd_calloc(n, sizeof *p->entries);
    if (!p->entries)
        return pd_fail(err, PD_ENOMEM, "no memory for %s", path);
    for (; p->n_entries < n; p->n_entries++)
        if (read_entry(m, &r, info->bytes, &p->entries[p->n_entries]))
            return pd_fail(err, PD_EDATA, "%s: entry %zu is malformed", path, p->n_entries);
    return 0;
}

static int map_part(const struct model *m, size_t i, struct open_part *p, struct pd_err *err) {
    const struct model_part *info = &m->info.parts[i];
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/%s", m->folder, info->file))
        return pd_fail(err, PD_EIO, "path too long: %s", m->folder);
    struct stat st;
    int fd = pd_open_regular(path, O_RDONLY, 0, &st);
    if (fd < 0 && errno == ENOENT)
        return pd_fail(err, PD_ENOENT, "%s is missing: the folders of all servers must be merged",
                       path);
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot open %s", path);
    void *map = MAP_FAILED;
    int rc = 0;
    if ((uint64_t)st.st_size != info->bytes || info->bytes < MODEL_HEADER)
        rc = pd_fail(err, PD_EDATA, "%s has %llu bytes instead of %llu", path,
                     (unsigned long long)st.st_size, (unsigned long long)info->bytes);
    else if ((map = mmap(NULL, info->bytes, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    close(fd);
    if (rc)
        return rc;
    p->map = map;
    uint8_t hash[16];
    if (m->trust)
        return read_entries(m, info, p, path, err);
    model_hash(map, info->bytes, hash);
    if (memcmp(hash, info->hash, sizeof hash))
        return pd_fail(err, PD_EDATA, "%s is damaged: its checksum differs from the manifest's",
                       path);
    return read_entries(m, info, p, path, err);
}

int model_use_part(struct model *m, size_t i, struct pd_err *err) {
    struct open_part p = {0};
    if (m->parts[i].map)
        return 0;
    int rc = map_part(m, i, &p, err);
    if (!rc) {
        m->parts[i] = p;
        return 0;
    }
    free(p.entries);
    if (p.map)
        munmap((void *)(uintptr_t)p.map, m->info.parts[i].bytes);
    return rc;
}

int model_verify(struct model *m, struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < m->info.n_parts && !rc; i++)
        rc = model_use_part(m, i, err);
    return rc;
}

int model_verify_part(struct model *m, const char *file, struct pd_err *err) {
    for (size_t i = 0; i < m->info.n_parts; i++)
        if (!strcmp(m->info.parts[i].file, file))
            return model_use_part(m, i, err);
    return pd_fail(err, PD_ENOENT, "%s has no part %s", m->folder, file);
}

int model_verify_present(struct model *m, struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < m->info.n_parts && !rc; i++) {
        char path[PATH_MAX];
        if (!pd_fmt(path, sizeof path, "%s/%s", m->folder, m->info.parts[i].file) &&
            !access(path, F_OK))
            rc = model_use_part(m, i, err);
    }
    return rc;
}

int model_search_first(struct model *m, const char *file, int only) {
    for (size_t i = 0; i < m->info.n_parts; i++)
        if (model_is_top(m, i) && model_is_layer_of(m->info.parts[i].file, file)) {
            m->first = i;
            m->only = only;
            return 1;
        }
    return 0;
}

/* A range of values that were read. */
struct span {
    uint64_t lo, hi;
};

/* Copies to `out` the values of [first, first + n) that an entry of the dense parameter holds:
 * plane -1 the values, otherwise that plane of the state. */
static struct span copy_dense(const struct open_part *p, const struct open_entry *x, uint64_t first,
                              uint64_t n, int64_t plane, float *out) {
    struct span s = {.lo = x->e.first > first ? x->e.first : first,
                     .hi =
                         x->e.first + x->e.count < first + n ? x->e.first + x->e.count : first + n};
    uint64_t at = plane < 0 ? x->values : x->state + (uint64_t)plane * x->e.count * 4;
    if (s.lo >= s.hi)
        return (struct span){0, 0};
    memcpy(out + (s.lo - first), p->map + at + (s.lo - x->e.first) * 4, (s.hi - s.lo) * 4);
    return s;
}

static int by_lo(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The number of distinct values in all ranges. Entries of a damaged model may overlap; then values
 * are missing although the sum is right. */
static uint64_t count_together(struct span *v, size_t n) {
    uint64_t sum = 0, at = 0;
    if (n)
        qsort(v, n, sizeof *v, by_lo);
    for (size_t i = 0; i < n; i++) {
        uint64_t lo = v[i].lo > at ? v[i].lo : at;
        if (v[i].hi <= lo)
            continue;
        sum += v[i].hi - lo;
        at = v[i].hi;
    }
    return sum;
}

static int room_for_span(struct span **v, size_t n, size_t *cap, const char *folder,
                         struct pd_err *err) {
    return pd_grow(*v, *cap, n + 1) ? pd_fail(err, PD_ENOMEM, "no memory for model %s", folder) : 0;
}

/* planes 0: read the values, otherwise the state. */
static int read_dense(struct model *m, const char *name, uint64_t first, uint64_t n,
                      uint32_t planes, float *out, size_t stride, struct pd_err *err) {
    const struct model_param *p = model_find_param(m, name);
    if (!p || p->kind != MODEL_DENSE || first > model_param_values(p) ||
        n > model_param_values(p) - first)
        return pd_fail(err, PD_ENOENT, "%s has no dense parameter '%s' of that size", m->folder,
                       name);
    struct span *spans = NULL;
    size_t n_spans = 0, cap = 0;
    uint64_t got = 0;
    int rc = 0;
    for (size_t i = 0; i < m->info.n_parts && got < n && !rc; i++) {
        size_t at = (m->first + i) % m->info.n_parts;
        const struct open_part *q = &m->parts[at];
        if (!model_is_top(m, at)) /* lower layers have older values */
            continue;
        rc = model_use_part(m, at, err);
        for (size_t k = 0; k < q->n_entries && !rc; k++) {
            const struct open_entry *x = &q->entries[k];
            if (x->e.kind != MODEL_DENSE || strcmp(x->e.name, name))
                continue;
            if (planes && x->e.count && x->e.state_width != planes) {
                rc = pd_fail(
                    err, PD_ECONF,
                    "%s: '%s' has %u floats of optimizer state per value, this optimizer has %u",
                    m->folder, name, x->e.state_width, planes);
                break;
            }
            for (uint32_t k2 = 0; k2 + 1 < planes; k2++)
                (void)copy_dense(q, x, first, n, k2, out + k2 * stride);
            struct span s = copy_dense(q, x, first, n, (int64_t)planes - 1,
                                       planes ? out + (planes - 1) * stride : out);
            if (s.hi > s.lo && !(rc = room_for_span(&spans, n_spans, &cap, m->folder, err)))
                spans[n_spans++] = s;
            got += s.hi - s.lo;
        }
    }
    got = rc ? 0 : count_together(spans, n_spans);
    free(spans);
    return rc || got == n
               ? rc
               : pd_fail(err, PD_EDATA, "%s: the parts hold %llu of %llu values of '%s'", m->folder,
                         (unsigned long long)got, (unsigned long long)n, name);
}

int model_read_dense(struct model *m, const char *name, uint64_t first, uint64_t n, float *out,
                     struct pd_err *err) {
    return read_dense(m, name, first, n, 0, out, 0, err);
}

int model_read_state(struct model *m, const char *name, uint64_t first, uint64_t n, uint32_t planes,
                     float *out, size_t stride, struct pd_err *err) {
    return planes ? read_dense(m, name, first, n, planes, out, stride, err) : 0;
}
