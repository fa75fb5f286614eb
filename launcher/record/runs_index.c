/* SPDX-License-Identifier: Apache-2.0 */
/* runs_index.c - OUTPUTS/.runs.index: the figures of runs, so that `paddlectl runs` need not read
 * thousands of records.
 *
 *     magic, version, hash of the rest; then for each run, by its job id:
 *     job, stamps of run.json and metrics.jsonl, figures (run_figures.c)
 *
 * The index is a cache. An entry counts only while inode, size and times of its files are the same.
 * A file may change twice within one tick of the file system's clock, so files that are younger
 * than settled_ns (runs.c) get no entry. A writer replaces the whole file: readers see an old index
 * or a new one, and the last of two writers wins. Byte order is little-endian on any machine. */
#include <sodium.h>

#include "launcher/record/runs_internal.h"

enum { VERSION = 1, HASH = 16, INDEX_MAX = 1 << 30 };
static const char magic[8] = "PDLRUNS\n";

static int index_path(char out[PATH_MAX], const char *outputs) {
    return pd_fmt(out, PATH_MAX, "%s/.runs.index", outputs);
}

int run_stamp_is_equal(const struct run_stamp *a, const struct run_stamp *b) {
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static void put_stamp(struct pd_buf *b, const struct run_stamp *s) {
    pd_put_u64(b, s->inode);
    pd_put_u64(b, s->size);
    pd_put_u64(b, (uint64_t)s->mtime_ns);
    pd_put_u64(b, (uint64_t)s->ctime_ns);
}

static void get_stamp(struct pd_reader *r, struct run_stamp *s) {
    s->inode = pd_get_u64(r);
    s->size = pd_get_u64(r);
    s->mtime_ns = (int64_t)pd_get_u64(r);
    s->ctime_ns = (int64_t)pd_get_u64(r);
}

static int by_job(const void *a, const void *b) {
    return strcmp(((const struct run_entry *)a)->job, ((const struct run_entry *)b)->job);
}

/* --- read --- */

static int parse(struct runs_index *x, const struct pd_buf *file) {
    struct pd_reader r;
    unsigned char hash[HASH];
    pd_reader_init(&r, file->data, file->len);
    const uint8_t *head = pd_get(&r, sizeof magic);
    const uint32_t version = pd_get_u32(&r);
    const uint8_t *want = pd_get(&r, HASH);
    if (r.failed || memcmp(head, magic, sizeof magic) || version != VERSION)
        return -1;
    crypto_generichash(hash, sizeof hash, r.p, (size_t)(r.end - r.p), NULL, 0);
    if (memcmp(hash, want, HASH))
        return -1;
    while (!r.failed && r.p < r.end) {
        struct run_entry e = {0};
        size_t n;
        e.job = (const char *)pd_get_blob(&r, &n);
        if (r.failed || !n || e.job[n - 1])
            return -1;
        e.needs_metrics = pd_get_u8(&r);
        get_stamp(&r, &e.stamps.run);
        get_stamp(&r, &e.stamps.metrics);
        e.figures.p = pd_get_blob(&r, &e.figures.n);
        if (r.failed || (x->n && strcmp(x->v[x->n - 1].job, e.job) >= 0) || runs_index_add(x, &e))
            return -1;
    }
    return r.failed ? -1 : 0;
}

void runs_index_read(struct runs_index *x, struct pd_buf *file, const char *outputs) {
    char path[PATH_MAX];
    *x = (struct runs_index){0};
    pd_buf_init(file);
    if (index_path(path, outputs) || pd_read_regular(path, INDEX_MAX, file, NULL) || parse(x, file))
        x->n = 0;
}

const struct run_entry *runs_index_find(const struct runs_index *x, const char *job) {
    const struct run_entry key = {.job = job};
    return x->n ? bsearch(&key, x->v, x->n, sizeof *x->v, by_job) : NULL;
}

/* --- write --- */

int runs_index_add(struct runs_index *x, const struct run_entry *e) {
    if (pd_grow(x->v, x->cap, x->n + 1))
        return PD_ENOMEM;
    x->v[x->n++] = *e;
    return 0;
}

void runs_index_write(struct runs_index *x, const char *outputs) {
    char path[PATH_MAX];
    unsigned char hash[HASH] = {0};
    struct pd_buf b = {0};
    if (x->n)
        qsort(x->v, x->n, sizeof *x->v, by_job);
    pd_put(&b, magic, sizeof magic);
    pd_put_u32(&b, VERSION);
    const size_t at = b.len, from = at + HASH;
    pd_put(&b, hash, HASH);
    for (size_t i = 0; i < x->n; i++) {
        const struct run_entry *e = &x->v[i];
        pd_put_blob(&b, e->job, strlen(e->job) + 1);
        pd_put_u8(&b, (uint8_t)e->needs_metrics);
        put_stamp(&b, &e->stamps.run);
        put_stamp(&b, &e->stamps.metrics);
        pd_put_blob(&b, e->figures.p, e->figures.n);
    }
    if (!b.failed && !index_path(path, outputs)) {
        crypto_generichash(hash, sizeof hash, b.data + from, b.len - from, NULL, 0);
        memcpy(b.data + at, hash, HASH);
        pd_write_file_quick(path, b.data, b.len, 0600, NULL);
    }
    pd_buf_release(&b);
}

void runs_index_release(struct runs_index *x) { free(x->v); }
