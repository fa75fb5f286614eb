/* SPDX-License-Identifier: Apache-2.0 */
/* file_index.c - the head's list of the job's separately sent data files: the id and the holders of
 * each file. */
#include "agent/files/file_fetch.h"
#include "pack/object/manifest.h"

enum { ROW_MIN = 4 + OBJECT_ID + 4 * FILE_RANKS + 8 };
static const uint64_t bytes_max = UINT64_C(1) << 53;

struct row {
    char *path;
    struct object_id id;
    int32_t rank[FILE_RANKS];
    uint64_t bytes;
    int32_t *node; /* nodes to which the file came later */
    size_t n_nodes;
};

struct file_index {
    struct row *v;
    size_t n, of;
    uint64_t path_bytes;
};

struct file_index *file_index_new(void) {
    return pd_calloc(1, sizeof(struct file_index));
}

static void clear(struct file_index *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].path);
        free(l->v[i].node);
    }
    free(l->v);
    *l = (struct file_index){0};
}

void file_index_free(struct file_index *l) {
    if (l)
        clear(l);
    free(l);
}

size_t file_index_n(const struct file_index *l) { return l->n; }

int file_index_is_whole(const struct file_index *l) { return l && l->n && l->n == l->of; }

static int take_row(struct file_index *l, struct pd_reader *r, struct pd_err *err) {
    char path[PATH_MAX];
    struct row *row = &l->v[l->n];
    *row = (struct row){0};
    pd_get_str(r, path, sizeof path);
    const uint8_t *id = pd_get(r, OBJECT_ID);
    for (int k = 0; k < FILE_RANKS; k++)
        row->rank[k] = (int32_t)pd_get_u32(r);
    row->bytes = pd_get_u64(r);
    l->path_bytes += strlen(path);
    if (r->failed || row->bytes > bytes_max || !file_path_ok(path) ||
        l->path_bytes > MANIFEST_PATH_BYTES || (l->n && strcmp(l->v[l->n - 1].path, path) >= 0))
        return pd_fail(err, PD_EPROTO, "AG_DATA_LIST: row %zu is damaged", l->n);
    memcpy(row->id.b, id, OBJECT_ID);
    if (!(row->path = pd_strdup(path)))
        return pd_oom(err, "the list of data files");
    l->n++;
    return 0;
}

int file_index_take(struct file_index *l, uint64_t first, uint64_t of, const uint8_t *p, size_t n,
                    struct pd_err *err) {
    struct pd_reader r;
    int rc = 0;
    if (!first)
        clear(l);
    if (first != l->n || of > MANIFEST_ENTRIES || (l->v && of != l->of))
        return pd_fail(err, PD_EPROTO, "AG_DATA_LIST: row %llu of %llu does not follow row %zu",
                       (unsigned long long)first, (unsigned long long)of, l->n);
    l->of = (size_t)of;
    if (!l->v && !(l->v = pd_calloc((size_t)of + 1, sizeof *l->v)))
        return pd_oom(err, "the list of data files");
    pd_reader_init(&r, p, n);
    while (!rc && r.p < r.end)
        rc = l->n < l->of && r.end - r.p >= ROW_MIN
                 ? take_row(l, &r, err)
                 : pd_fail(err, PD_EPROTO, "AG_DATA_LIST: more rows than it says");
    return rc;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct row *)a)->path, ((const struct row *)b)->path);
}

static struct row *find(const struct file_index *l, const char *path) {
    const struct row key = {.path = (char *)(uintptr_t)path};
    return l->n ? bsearch(&key, l->v, l->n, sizeof *l->v, by_path) : NULL;
}

static struct file_holders holders(const struct row *r) {
    return (struct file_holders){r->id, r->rank, r->node, r->n_nodes, r->bytes};
}

int file_index_find(const struct file_index *l, const char *path, struct file_holders *out) {
    const struct row *row = find(l, path);
    if (row)
        *out = holders(row);
    return row != NULL;
}

const char *file_index_row(const struct file_index *l, size_t i, struct file_holders *out) {
    *out = holders(&l->v[i]);
    return l->v[i].path;
}

void file_index_note(struct file_index *l, const char *path, int32_t node) {
    struct row *row = find(l, path);
    for (size_t i = 0; row && i < row->n_nodes; i++)
        if (row->node[i] == node)
            return;
    int32_t *v = row ? pd_realloc(row->node, (row->n_nodes + 1) * sizeof *v) : NULL;
    if (!v)
        return; /* out of memory: this holder stays unknown */
    row->node = v;
    row->node[row->n_nodes++] = node;
}
