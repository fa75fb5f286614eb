/* SPDX-License-Identifier: Apache-2.0 */
/* shard_part.c - writes the file of a part.
 *
 *     part_make_room    allocates all memory and makes a snapshot of each table (snapshot.h)
 *     ps_saving_image   runs in a child of fork, since it needs the memory of the moment of the
 *                       snapshot: writes the half sorted list of the rows into shared memory, and
 *                       all of a part without tables
 *     ps_saving_rest    runs in any thread while the shard continues: sorts the list and writes the
 *                       rows of the snapshot in that order
 *
 * The rows are most of a model. They are not in the child (MADV_DONTFORK): before the shard changes
 * a row, it copies this row, not a page.
 */
#include "ps/shard/shard_part.h"

#include <sys/mman.h>

enum { BLOCK = 64 << 10 };

_Static_assert((int)MODEL_NAME_MAX == (int)PS_NAME_MAX, "names are copied whole");
_Static_assert(sizeof(struct ps_lazy_decay_at) == 16, "a pair of a table's history");
_Static_assert(sizeof(struct ps_row_seen) == 4 * MODEL_SEEN_WIDTH,
               "struct ps_row_seen is written unchanged");

/* --- room --- */

static void add_entry(struct ps_saving *j, const struct model_entry *e, const char *name) {
    struct model_entry *to = &j->entries[j->n_entries++];
    *to = *e;
    memcpy(to->name, name, sizeof to->name);
}

static void describe_table(struct ps_saving *j, uint32_t id) {
    const struct ps_shard *s = j->s;
    const char *name = s->params.decl.sparse[id].name;
    struct part_table *p = &j->tables[id];
    p->changes = j->delta && shard_delta_changes(s, id);
    p->n = p->changes
               ? ps_dirty_rows_count(&s->params.dirty[id], ps_table_places(s->params.tables[id]))
               : ps_table_rows(s->params.tables[id]);
    p->n_waiting = ps_row_policy_candidates(&s->params.policies[id]);
    p->dim = s->params.decl.sparse[id].dim;
    p->life = s->params.policies[id].active;
    p->decay = s->params.decays[id];
    p->decay.at = NULL;
    p->state_width =
        (j->full ? ps_params_state_width(&s->params, id) : 0) + (p->life ? MODEL_SEEN_WIDTH : 0);
    add_entry(j,
              &(struct model_entry){.kind = p->changes ? MODEL_CHANGES : MODEL_TABLE,
                                    .dim = p->dim,
                                    .count = p->n,
                                    .state_width = p->state_width},
              name);
    if (j->full && ps_lazy_decay_active(&p->decay))
        add_entry(j,
                  &(struct model_entry){
                      .kind = MODEL_HISTORY, .dim = 4, .count = (uint64_t)p->decay.n + 1},
                  name);
    if (p->life)
        add_entry(j, &(struct model_entry){.kind = MODEL_WAITING, .dim = 1, .count = p->n_waiting},
                  name);
}

static void describe(struct ps_saving *j) {
    const struct ps_shard *s = j->s;
    for (uint32_t i = 0; s->params.segs && i < s->params.decl.n_dense; i++)
        if (s->params.segs[i].count)
            add_entry(j,
                      &(struct model_entry){.kind = MODEL_DENSE,
                                            .dim = 1,
                                            .first = s->params.segs[i].first,
                                            .count = s->params.segs[i].count,
                                            .state_width = j->full ? s->params.optim->state : 0},
                      s->params.decl.dense[i].name);
    for (uint32_t i = 0; s->params.tables && i < s->params.decl.n_sparse; i++)
        describe_table(j, i);
}

static size_t decay_bytes(const struct part_table *p) {
    return ps_lazy_decay_active(&p->decay) ? ((size_t)p->decay.n + 1) * sizeof *p->decay.at : 0;
}

static void *place_list(struct ps_saving *j, size_t *at, size_t bytes) {
    void *p = j->lists ? j->lists + *at : NULL;
    *at += bytes;
    return p;
}

/* Places the lists in j->lists. Returns their total size, also while j->lists is NULL. */
static size_t place_lists(struct ps_saving *j) {
    size_t at = 0;
    for (uint32_t i = 0; j->tables && i < j->s->params.decl.n_sparse; i++) {
        struct part_table *p = &j->tables[i];
        p->heaps = place_list(j, &at, sizeof *p->heaps);
        p->decay.at = place_list(j, &at, decay_bytes(p));
        p->rows = place_list(j, &at, p->n * sizeof *p->rows);
        p->waiting = place_list(j, &at, p->n_waiting * sizeof *p->waiting);
        at = (at + 7) / 8 * 8;
    }
    return at;
}

static int map_lists(struct ps_saving *j) {
    j->lists_bytes = place_lists(j);
    if (!j->lists_bytes)
        return 0;
    void *p = pd_fault("alloc") ? MAP_FAILED
                                : mmap(NULL, j->lists_bytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return PD_ENOMEM;
    j->lists = p;
    place_lists(j);
    return 0;
}

static int cut_tables(struct ps_saving *j) {
    int rc = 0;
    for (uint32_t i = 0; j->tables && i < j->s->params.decl.n_sparse && !rc; i++)
        rc = ps_snapshot_begin(&j->tables[i].cut, j->s->params.tables[i]);
    return rc;
}

int part_make_room(struct ps_saving *j, const char *folder, const char *file, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    uint32_t widest = 1;
    j->entries = pd_calloc((size_t)s->params.decl.n_dense + 3 * (size_t)s->params.decl.n_sparse,
                           sizeof *j->entries);
    j->tables = s->params.tables ? pd_calloc(s->params.decl.n_sparse, sizeof *j->tables) : NULL;
    if (!j->entries || (s->params.tables && !j->tables))
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    if (s->params.values && s->params.values->in_region)
        j->values = ps_shared_values_lend(s->params.values);
    describe(j);
    for (uint32_t i = 0; j->tables && i < s->params.decl.n_sparse; i++) {
        widest = j->tables[i].dim > widest ? j->tables[i].dim : widest;
        widest = j->tables[i].state_width > widest ? j->tables[i].state_width : widest;
    }
    j->block_rows = widest * sizeof(float) < BLOCK ? BLOCK / (widest * sizeof(float)) : 1;
    j->block = pd_alloc64(widest * sizeof(float) < BLOCK ? BLOCK : widest * sizeof(float));
    if (!j->block || map_lists(j) || cut_tables(j))
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    return model_writer_new(&j->w, folder, file, j->entries, j->n_entries, err);
}

static void drop_lists(struct ps_saving *j) {
    if (j->lists)
        munmap(j->lists, j->lists_bytes);
    j->lists = NULL;
}

void part_release(struct ps_saving *j) {
    model_writer_free(j->w);
    ps_shared_values_drop(j->values);
    for (uint32_t i = 0; j->tables && i < j->s->params.decl.n_sparse; i++)
        ps_snapshot_end(j->tables[i].cut);
    drop_lists(j);
    free(j->tables);
    free(j->entries);
    free(j->block);
}

/* --- at the snapshot --- */

static int put_dense(const struct ps_saving *j, uint32_t id, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    const struct ps_seg *seg = &s->params.segs[id];
    int rc = model_writer_put(j->w, params_w(&s->params, id), seg->count * sizeof(float), err);
    for (uint32_t k = 0; j->full && k < s->params.optim->state && !rc; k++)
        rc = model_writer_put(j->w, s->params.state + k * s->params.n_values + seg->off,
                              seg->count * sizeof(float), err);
    return rc;
}

static int put_all_dense(const struct ps_saving *j, struct pd_err *err) {
    int rc = 0;
    for (uint32_t i = 0; j->s->params.segs && i < j->s->params.decl.n_dense && !rc; i++)
        rc = put_dense(j, i, err);
    return rc;
}

static int list_table(const struct ps_saving *j, uint32_t id, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    const struct part_table *p = &j->tables[id];
    const uint64_t n = ps_table_list(s->params.tables[id], p->changes ? &s->params.dirty[id] : NULL,
                                     p->rows, p->n, p->heaps);
    if (n != p->n)
        return pd_fail(err, PD_EFAIL, "table '%s' has %llu rows to be saved, not %llu",
                       s->params.decl.sparse[id].name, (unsigned long long)n,
                       (unsigned long long)p->n);
    ps_row_policy_list(&s->params.policies[id], p->waiting);
    if (decay_bytes(p))
        memcpy(p->decay.at, s->params.decays[id].at, decay_bytes(p));
    return 0;
}

/* Maps all pages of the lists at once; one by one they cost a page fault each. Best effort: older
 * kernels do not support it. */
static void touch_lists(const struct ps_saving *j) {
    if (j->lists)
        (void)madvise(j->lists, j->lists_bytes, MADV_POPULATE_WRITE);
}

int ps_saving_image(const struct ps_saving *j, struct model_part *part, struct pd_err *err) {
    int rc = pd_fault("ps.save") ? pd_fail(err, PD_EFAIL, "fault: ps.save") : 0;
    touch_lists(j);
    for (uint32_t i = 0; j->tables && i < j->s->params.decl.n_sparse && !rc; i++)
        rc = list_table(j, i, err);
    if (rc || j->tables)
        return rc;
    rc = put_all_dense(j, err);
    return rc ? rc : model_writer_seal(j->w, part, err);
}

/* --- rows --- */

static int stopped(const struct ps_saving *j, struct pd_err *err) {
    return atomic_load(&j->stop) ? pd_fail(err, PD_EFAIL, "the save was stopped") : 0;
}

static int put_keys(const struct ps_saving *j, const struct ps_index_entry *e, uint64_t n,
                    struct pd_err *err) {
    uint64_t *keys = (uint64_t *)(void *)j->block;
    int rc = 0;
    for (uint64_t i = 0, k; i < n && !rc; i += k) {
        k = n - i < BLOCK / sizeof *keys ? n - i : BLOCK / sizeof *keys;
        for (uint64_t r = 0; r < k; r++)
            keys[r] = e[i + r].key;
        rc = model_writer_put(j->w, keys, k * sizeof *keys, err);
    }
    return rc;
}

/* Reads the numbers of n rows, which are then written, to `to`. */
typedef void read_rows(const struct ps_saving *j, const struct part_table *p, uint64_t from,
                       uint64_t n, float *to);

/* Sorts each heap just before its keys are written, while the disk writes earlier keys. */
static int put_row_keys(const struct ps_saving *j, const struct part_table *p, struct pd_err *err) {
    int rc = stopped(j, err);
    for (uint32_t h = 0; h < PS_INDEX_HEAPS && !rc; h++) {
        uint64_t from, to;
        ps_index_sort_heap(p->rows, p->heaps, h, &from, &to);
        rc = put_keys(j, p->rows + from, to - from, err);
    }
    return rc;
}

static void read_values(const struct ps_saving *j, const struct part_table *p, uint64_t from,
                        uint64_t n, float *to) {
    (void)j;
    ps_snapshot_read(p->cut, p->rows + from, n, p->n - from, 0, p->dim, to);
    for (uint64_t i = 0; ps_lazy_decay_active(&p->decay) && i < n; i++)
        ps_lazy_decay_catch_up(&p->decay, ps_snapshot_step(p->cut, p->rows[from + i].row),
                               to + i * p->dim, p->dim);
}

/* Reads the state of a row: the optimizer's numbers; for a table with decay, the row as of its last
 * update and the number of that update; the counts of shows and clicks. */
static void read_state(const struct ps_saving *j, const struct part_table *p, uint64_t from,
                       uint64_t n, float *to) {
    const uint32_t of_rule = j->full ? p->dim * j->s->params.optim->state : 0;
    if (of_rule == p->state_width) {
        ps_snapshot_read(p->cut, p->rows + from, n, p->n - from, p->dim, of_rule, to);
        return;
    }
    for (uint64_t i = from; i < from + n; i++) {
        const struct ps_index_entry *e = &p->rows[i];
        ps_snapshot_read(p->cut, e, 1, p->n - i, p->dim, of_rule, to);
        to += of_rule;
        if (j->full && ps_lazy_decay_active(&p->decay)) {
            const uint32_t step = ps_snapshot_step(p->cut, e->row);
            ps_snapshot_read(p->cut, e, 1, 1, 0, p->dim, to);
            memcpy(to + p->dim, &step, sizeof step);
            to += p->dim + 1;
        }
        if (p->life) {
            struct ps_row_seen seen;
            ps_snapshot_seen(p->cut, e->row, &seen);
            memcpy(to, &seen, sizeof seen);
            to += MODEL_SEEN_WIDTH;
        }
    }
}

/* Writes rows from number `from` on: as many as fit into the writer's room, or a single row through
 * j->block if none fits. Sets *n to their number. */
static int put_some_rows(const struct ps_saving *j, const struct part_table *p, uint32_t width,
                         read_rows *read, uint64_t from, uint64_t *n, struct pd_err *err) {
    const size_t row_bytes = width * sizeof(float);
    size_t room;
    void *to;
    const int rc = model_writer_room(j->w, &to, &room, err);
    if (rc)
        return rc;
    *n = room / row_bytes < j->block_rows ? room / row_bytes : j->block_rows;
    if (*n) {
        read(j, p, from, *n, to);
        return model_writer_filled(j->w, *n * row_bytes, err);
    }
    *n = 1;
    read(j, p, from, 1, j->block);
    return model_writer_put(j->w, j->block, row_bytes, err);
}

static int put_rows(const struct ps_saving *j, const struct part_table *p, uint32_t width,
                    read_rows *read, struct pd_err *err) {
    int rc = 0;
    for (uint64_t i = 0, n; width && i < p->n && !rc; i += n) {
        n = 0;
        rc = stopped(j, err);
        if (!rc)
            rc = put_some_rows(j, p, width, read, i, &n, err);
    }
    return rc;
}

static int put_waiting(const struct ps_saving *j, const struct part_table *p, struct pd_err *err) {
    int rc = put_keys(j, p->waiting, p->n_waiting, err);
    for (uint64_t i = 0; i < p->n_waiting && !rc; i++)
        rc = model_writer_put(j->w, &p->waiting[i].row, sizeof p->waiting[i].row, err);
    return rc;
}

static int put_table(const struct ps_saving *j, const struct part_table *p, struct pd_err *err) {
    int rc = put_row_keys(j, p, err);
    if (!rc)
        rc = put_rows(j, p, p->dim, read_values, err);
    if (!rc)
        rc = put_rows(j, p, p->state_width, read_state, err);
    if (!rc && !ps_snapshot_whole(p->cut))
        rc = pd_fail(err, PD_ENOMEM, "no memory for copies of rows that changed during the save");
    if (!rc && j->full && decay_bytes(p))
        rc = model_writer_put(j->w, p->decay.at, decay_bytes(p), err);
    return rc ? rc : put_waiting(j, p, err);
}

int ps_saving_rest(struct ps_saving *j, struct model_part *part, struct pd_err *err) {
    if (!j->tables)
        return 0;
    touch_lists(j);
    int rc = put_all_dense(j, err);
    for (uint32_t i = 0; i < j->s->params.decl.n_sparse && !rc; i++)
        rc = put_table(j, &j->tables[i], err);
    drop_lists(j); /* here, not in part_release: freeing 32 MB takes 10 to 15 ms, which would delay
                      the shard's thread */
    return rc ? rc : model_writer_seal(j->w, part, err);
}

void ps_saving_stop(struct ps_saving *j) { atomic_store(&j->stop, 1); }

int ps_saving_fd(const struct ps_saving *j) { return model_writer_fd(j->w); }
