/* shard_save.c - a server thread writes its own part of a model.
 *
 *     PS_SAVE ──▶ shard_save: all that takes memory ──▶ ps_saving_run: writes, takes none ──▶ ps_shard_saved: answers
 *                                                  └ ops.save: in a child of fork, while the thread goes on ┘
 *
 * Rows are written as they are after the last update, without being changed: a run that saves has the same bits as one that
 * does not. A checkpoint ("full") has beside them what the shard itself knows (docs/model-format.md, "Optimizer state"). A save that
 * goes on in a chain ("delta") has of tables the rows that have changed since the one before (shard_chain.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/str.h"
#include "model/model.h"
#include "ps/shard_int.h"

static const char *const kind_names[] = {"", "dense", "sparse", "local"};
_Static_assert((int)MODEL_NAME_MAX == (int)PS_NAME_MAX, "names are copied whole");
_Static_assert(sizeof(struct ps_decay_at) == 16, "a pair of a table's history");

struct ps_saving {
    struct ps_saving *next;
    struct ps_shard *s;
    uint32_t trainer;
    uint64_t req;
    int full, delta;
    enum ps_chain chain;
    char *folder;              /* that it will be, once it is committed */
    struct ps_changed *fresh;  /* [n_sparse]: of a chain, to be watched from here on */
    struct chain_layer *layer; /* [n_layers], the lowest first: the files of the part, the last is the one that is written */
    uint32_t n_layers;
    struct model_entry *entries;
    size_t n_entries;
    struct model_writer *w;
    struct ps_index_entry *sorted; /* room for the largest table */
    float *row;                    /* of the widest */
    struct pd_buf tail;            /* of the answer: what is known before the part is written */
};

uint32_t shard_row_width(const struct ps_shard *s, uint32_t id) {
    uint32_t dim = s->job.sparse[id].dim;
    return dim * s->optim->state + (ps_decay_active(&s->decays[id]) ? dim + 1 : 0);
}

_Static_assert(sizeof(struct ps_row_seen) == 4 * MODEL_SEEN_WIDTH, "what was seen of a row is written as it is");

void shard_part_name(const struct ps_shard *s, char file[MODEL_FILE_MAX + 1]) {
    uint32_t threads = s->opts.kind == PS_KIND_SPARSE ? s->job.n_sparse_threads : s->job.n_dense_threads;
    (void)pd_fmt(file, MODEL_FILE_MAX + 1, "%s-%05u-of-%05u.bin", kind_names[s->opts.kind], s->thread, threads);
}

/* Ids 0..n_rows-1 that belong here get their rows, so that the model is complete before anything was trained. */
static int create_all(struct ps_shard *s, uint32_t id, struct pd_err *err) {
    enum { BATCH = 1024, MAX_CREATED = 1000000000 };
    uint64_t keys[BATCH];
    uint32_t rows[BATCH];
    size_t n = 0;
    if (s->job.sparse[id].n_rows > MAX_CREATED)
        return pd_fail(err, PD_ECONF, "table '%s' has %llu ids: too many to make all rows of an initial model (save_initial)",
                       s->job.sparse[id].name, (unsigned long long)s->job.sparse[id].n_rows);
    for (uint64_t key = 0; key <= s->job.sparse[id].n_rows; key++) {
        int last = key == s->job.sparse[id].n_rows;
        if (!last && ps_row_thread(key, s->job.n_sparse_threads) == s->thread)
            keys[n++] = key;
        if ((n == BATCH || last) && ps_table_find(s->tables[id], keys, n, 1, rows))
            return pd_fail(err, PD_ENOMEM, "no memory for the rows of table '%s'", s->job.sparse[id].name);
        if (n == BATCH)
            n = 0;
    }
    return 0;
}

/* --- what is written --- */

static void add_entry(struct ps_saving *j, const struct model_entry *e, const char *name) {
    struct model_entry *to = &j->entries[j->n_entries++];
    *to = *e;
    memcpy(to->name, name, sizeof to->name);
}

static int only_changes(const struct ps_saving *j, uint32_t id) { return j->delta && shard_chain_changes(j->s, id); }

static void describe(struct ps_saving *j) {
    const struct ps_shard *s = j->s;
    for (uint32_t i = 0; s->segs && i < s->job.n_dense; i++)
        if (s->segs[i].count)
            add_entry(j, &(struct model_entry){.kind = MODEL_DENSE, .dim = 1, .first = s->segs[i].first, .count = s->segs[i].count,
                                               .state_width = j->full ? s->optim->state : 0}, s->job.dense[i].name);
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++) {
        const int changes = only_changes(j, i);
        const uint64_t n = changes ? ps_changed_count(&s->changed[i], ps_table_places(s->tables[i])) : ps_table_rows(s->tables[i]);
        add_entry(j, &(struct model_entry){.kind = changes ? MODEL_CHANGES : MODEL_TABLE, .dim = s->job.sparse[i].dim, .count = n,
                                           .state_width = (j->full ? shard_row_width(s, i) : 0) + (s->lives[i].active ? MODEL_SEEN_WIDTH : 0)},
                  s->job.sparse[i].name);
        if (j->full && ps_decay_active(&s->decays[i]))
            add_entry(j, &(struct model_entry){.kind = MODEL_HISTORY, .dim = 4, .count = (uint64_t)s->decays[i].n + 1},
                      s->job.sparse[i].name);
        if (s->lives[i].active)
            add_entry(j, &(struct model_entry){.kind = MODEL_WAITING, .dim = 1, .count = ps_life_candidates(&s->lives[i])}, s->job.sparse[i].name);
    }
}

static int put_dense(const struct ps_saving *j, uint32_t id, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    const struct ps_seg *seg = &s->segs[id];
    int rc = model_writer_put(j->w, shard_w(s, id), seg->count * sizeof(float), err);
    for (uint32_t k = 0; j->full && k < s->optim->state && !rc; k++)
        rc = model_writer_put(j->w, s->state + k * s->n_values + seg->off, seg->count * sizeof(float), err);
    return rc;
}

/* The rule's numbers; of a table that decays, the row as it was when it was last touched, and when; what was seen of it. */
static int put_state(const struct ps_saving *j, uint32_t id, uint32_t at, struct pd_err *err) {
    static const struct ps_row_seen nothing;
    const struct ps_shard *s = j->s;
    const struct ps_table *t = s->tables[id];
    const float *row = ps_table_row(t, at);
    const uint32_t dim = ps_table_dim(t), step = ps_table_note(t, at)->step;
    int rc = j->full ? model_writer_put(j->w, row + dim, dim * s->optim->state * sizeof *row, err) : 0;
    if (!rc && j->full && ps_decay_active(&s->decays[id])) {
        rc = model_writer_put(j->w, row, dim * sizeof *row, err);
        if (!rc)
            rc = model_writer_put(j->w, &step, sizeof step, err);
    }
    if (!rc && s->lives[id].active)
        rc = model_writer_put(j->w, s->lives[id].conf.ageing > 0 ? ps_table_seen(t, at) : &nothing, sizeof nothing, err);
    return rc;
}

static int put_waiting(const struct ps_saving *j, const struct ps_life *l, struct pd_err *err) {
    const uint64_t n = ps_life_candidates(l);
    const struct ps_index_entry *e = ps_life_sort(l, j->sorted);
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = model_writer_put(j->w, &e[i].key, sizeof e[i].key, err);
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = model_writer_put(j->w, &e[i].row, sizeof e[i].row, err);
    return rc;
}

static int put_table(const struct ps_saving *j, uint32_t id, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    const struct ps_table *t = s->tables[id];
    const struct ps_decay *d = &s->decays[id];
    enum { AHEAD = 16 }; /* rows lie anywhere */
    const uint32_t dim = ps_table_dim(t);
    uint64_t n;
    const struct ps_index_entry *rows = ps_table_sort(t, only_changes(j, id) ? &s->changed[id] : NULL, j->sorted, &n);
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = model_writer_put(j->w, &rows[i].key, sizeof rows[i].key, err);
    for (uint64_t i = 0; i < n && !rc; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(ps_table_row(t, rows[i + AHEAD].row));
        const float *row = ps_table_row(t, rows[i].row);
        if (ps_decay_active(d)) {
            memcpy(j->row, row, dim * sizeof *row);
            ps_decay_catch_up(d, ps_table_note(t, rows[i].row)->step, j->row, dim);
            row = j->row;
        }
        rc = model_writer_put(j->w, row, dim * sizeof *row, err);
    }
    for (uint64_t i = 0; (j->full || s->lives[id].active) && i < n && !rc; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(ps_table_row(t, rows[i + AHEAD].row) + dim);
        rc = put_state(j, id, rows[i].row, err);
    }
    if (j->full && ps_decay_active(d) && !rc)
        rc = model_writer_put(j->w, d->at, ((size_t)d->n + 1) * sizeof *d->at, err);
    return rc || !s->lives[id].active ? rc : put_waiting(j, &s->lives[id], err);
}

int ps_saving_run(const struct ps_saving *j, struct model_part *part, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    int rc = pd_fault("ps.save") ? pd_fail(err, PD_EFAIL, "fault: ps.save") : 0;
    for (uint32_t i = 0; s->segs && i < s->job.n_dense && !rc; i++)
        rc = put_dense(j, i, err);
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse && !rc; i++)
        rc = put_table(j, i, err);
    return rc ? rc : model_writer_seal(j->w, part, err);
}

int ps_saving_fd(const struct ps_saving *j) { return model_writer_fd(j->w); }

/* --- a save's life --- */

static void saving_free(struct ps_saving *j) {
    if (!j)
        return;
    model_writer_free(j->w);
    for (uint32_t i = 0; j->fresh && i < j->s->job.n_sparse; i++)
        ps_changed_release(&j->fresh[i]);
    free(j->fresh);
    free(j->folder);
    free(j->layer);
    free(j->entries);
    free(j->sorted);
    free(j->row);
    pd_buf_release(&j->tail);
    free(j);
}

void shard_savings_release(struct ps_shard *s) {
    while (s->savings) {
        struct ps_saving *j = s->savings;
        s->savings = j->next;
        saving_free(j);
    }
}

int shard_is_saving(const struct ps_shard *s, uint32_t trainer, uint64_t req) {
    for (const struct ps_saving *j = s->savings; j; j = j->next)
        if (j->trainer == trainer && j->req == req)
            return 1;
    return 0;
}

static int watch(struct ps_saving *j, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    int rc = 0;
    if (j->chain == PS_CHAIN_NONE || !s->tables)
        return 0;
    j->fresh = pd_calloc(s->job.n_sparse, sizeof *j->fresh);
    for (uint32_t i = 0; j->fresh && i < s->job.n_sparse && !rc; i++)
        rc = ps_changed_begin(&j->fresh[i], ps_table_places(s->tables[i]));
    return !j->fresh || rc ? pd_fail(err, PD_ENOMEM, "no memory to save") : 0;
}

/* Whatever needs memory, before anything is written. */
static int make_room(struct ps_saving *j, const char *folder, struct pd_err *err) {
    struct ps_shard *s = j->s;
    char base[MODEL_FILE_MAX + 1], file[MODEL_FILE_MAX + 1];
    uint64_t rows = 0, dim = 1;
    struct stat st;
    shard_part_name(s, base);
    j->delta = j->chain == PS_CHAIN_DELTA && !s->savings && shard_chain_go_on(s, folder, j->full);
    if (!j->delta)
        memcpy(file, base, sizeof file);
    else if (model_layer_name(base, s->chain.n, file))
        return pd_fail(err, PD_EIO, "name too long: %s", base);
    j->n_layers = j->delta ? s->chain.n + 1 : 1;
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++) {
        const uint64_t waiting = ps_life_candidates(&s->lives[i]);
        rows = ps_table_rows(s->tables[i]) > rows ? ps_table_rows(s->tables[i]) : rows;
        rows = waiting > rows ? waiting : rows;
        dim = s->job.sparse[i].dim > dim ? s->job.sparse[i].dim : dim;
    }
    j->layer = pd_calloc(j->n_layers, sizeof *j->layer);
    j->entries = pd_calloc((size_t)s->job.n_dense + 3 * (size_t)s->job.n_sparse, sizeof *j->entries);
    j->sorted = pd_malloc(2 * rows * sizeof *j->sorted);
    j->row = pd_malloc(dim * sizeof *j->row);
    if (!j->layer || !j->entries || !j->sorted || !j->row)
        return pd_fail(err, PD_ENOMEM, "no memory to save %llu rows", (unsigned long long)rows);
    describe(j);
    int rc = watch(j, err);
    if (!rc)
        rc = model_writer_new(&j->w, folder, file, j->entries, j->n_entries, err);
    if (!rc && fstat(model_writer_fd(j->w), &st))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot look at %s/%s", folder, file);
    if (rc)
        return rc;
    if (j->delta)
        memcpy(j->layer, s->chain.layer, s->chain.n * sizeof *j->layer);
    j->layer[j->n_layers - 1] = (struct chain_layer){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

/* The cut is made: what changes from here on belongs to the next save. */
static void watch_from_here(struct ps_saving *j) {
    struct ps_shard *s = j->s;
    for (uint32_t i = 0; j->fresh && i < s->job.n_sparse; i++) {
        struct ps_changed before = s->changed[i];
        s->changed[i] = j->fresh[i];
        j->fresh[i] = before;
    }
    if (j->fresh)
        s->chain.latest = j;
}

/* The last one before the step that comes next. A trainer that is ahead of the one that saves may have sent another. */
static const struct pd_buf *note_of(const struct ps_shard *s, const struct member *m) {
    return &m->note[s->rule->barrier && m->note[0].after > s->step].text;
}

/* u32 n, n times u64 rows of a table here; u64 updates, u64 samples; u32 n, n times {u32 lo, u32 hi, blob}: notes. */
static void put_tail(struct ps_saving *j) {
    const struct ps_shard *s = j->s;
    uint32_t n = 0;
    pd_put_u32(&j->tail, s->job.n_sparse);
    for (uint32_t i = 0; i < s->job.n_sparse; i++)
        pd_put_u64(&j->tail, s->tables ? ps_table_rows(s->tables[i]) : 0);
    pd_put_u64(&j->tail, s->updates);
    pd_put_u64(&j->tail, s->samples);
    for (uint32_t i = 0; i < s->n_joined; i++)
        n += note_of(s, &s->members[s->order[i]])->len > 0;
    pd_put_u32(&j->tail, n);
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        const struct pd_buf *note = note_of(s, m);
        if (!note->len)
            continue;
        pd_put_u32(&j->tail, m->streams.lo);
        pd_put_u32(&j->tail, m->streams.hi);
        pd_put_blob(&j->tail, note->data, note->len);
    }
}

/* sec 0: u64 after, blob: whatever the trainer wants to be in a checkpoint made after so many steps. No answer. */
int shard_note(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err) {
    struct member *m = &s->members[trainer];
    struct pd_rd r;
    size_t n;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    uint64_t after = pd_get_u64(&r);
    const uint8_t *p = pd_get_blob(&r, &n);
    if (!pd_rd_done(&r) || after > m->step + 1 || n > PS_NOTE_MAX * (uint64_t)(m->streams.hi - m->streams.lo))
        return pd_fail(err, PD_EPROTO, "PS_NOTE of %zu bytes", f->len[0]);
    if (after != m->note[0].after) {
        struct note older = m->note[0];
        m->note[0] = m->note[1];
        m->note[1] = older;
    }
    m->note[0].after = after;
    pd_buf_clear(&m->note[0].text);
    pd_put(&m->note[0].text, p, n);
    return m->note[0].text.failed ? pd_fail(err, PD_ENOMEM, "no memory for a note") : 0;
}

/* sec 0: u64 after, u64 tag, str dir, str name, u32 create_rows, u32 full, u32 enum ps_chain.
 * Answer: u32 n, n times {str file, u64 bytes, u64 rows, 16 bytes of hash, u32 layer}, the highest first, and the tail. */
int shard_save(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f, struct pd_err *err) {
    char dir[PATH_MAX], name[256], path[PATH_MAX];
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u64(&r);
    uint64_t tag = pd_get_u64(&r);
    int rc = shard_folder(s, &r, dir, err);
    pd_get_str(&r, name, sizeof name);
    uint32_t create = pd_get_u32(&r), full = pd_get_u32(&r), chain = pd_get_u32(&r);
    if (!pd_rd_done(&r) || create > 1 || full > 1 || chain > PS_CHAIN_DELTA)
        return pd_fail(err, PD_EPROTO, "PS_SAVE of %zu bytes", f->len[0]);
    struct ps_saving *j = pd_calloc(1, sizeof *j);
    if (!rc && !j)
        rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    if (!rc)
        rc = model_stage(dir, name, tag, path, err);
    if (!rc) {
        free(s->staged);
        s->staged = pd_strdup(path);
        if (!s->staged)
            rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    }
    for (uint32_t i = 0; create && s->tables && i < s->job.n_sparse && !rc; i++)
        rc = s->lives[i].active ? 0 : create_all(s, i, err);
    if (!rc) {
        *j = (struct ps_saving){.s = s, .trainer = trainer, .req = f->req, .full = (int)full, .chain = (enum ps_chain)chain};
        pd_buf_init(&j->tail);
        put_tail(j);
        rc = j->tail.failed ? pd_fail(err, PD_ENOMEM, "no memory to save") : make_room(j, path, err);
    }
    if (!rc && pd_fmt(path, sizeof path, "%s/%s", *dir ? dir : ".", name))
        rc = pd_fail(err, PD_EIO, "path too long: %s/%s", dir, name);
    if (!rc && !(j->folder = pd_strdup(path)))
        rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    if (rc) {
        saving_free(j);
        return rc;
    }
    j->next = s->savings;
    s->savings = j;
    if (s->ops.save) {
        rc = s->ops.save(s->arg, j, err);
        if (rc) {
            s->savings = j->next;
            saving_free(j);
        } else {
            watch_from_here(j);
        }
        return rc;
    }
    struct model_part part;
    struct pd_err why = {0};
    rc = ps_saving_run(j, &part, &why);
    watch_from_here(j);
    ps_shard_saved(s, j, rc ? NULL : &part, &why);
    return 0;
}

static void put_part(struct pd_buf *b, const struct model_part *p) {
    pd_put_str(b, p->file);
    pd_put_u64(b, p->bytes);
    pd_put_u64(b, p->rows);
    pd_put(b, p->hash, sizeof p->hash);
    pd_put_u32(b, p->layer);
}

/* The part is written: it, and what it lies on. */
static void put_files(struct ps_saving *j, const struct model_part *part, struct pd_buf *b) {
    struct model_part *own = &j->layer[j->n_layers - 1].part;
    *own = *part;
    own->layer = j->n_layers - 1;
    pd_put_u32(b, j->n_layers);
    for (uint32_t i = j->n_layers; i-- > 0;)
        put_part(b, &j->layer[i].part);
    pd_put(b, j->tail.data, j->tail.len);
}

/* The next save of the chain lies on this one, unless its rows were watched since another's cut. */
static void chain_on(struct ps_shard *s, struct ps_saving *j, int ok) {
    if (s->chain.latest != j)
        return;
    s->chain.latest = NULL;
    if (!ok) {
        shard_chain_drop(s);
        return;
    }
    shard_chain_set(s, j->folder, j->full, j->layer, j->n_layers);
    j->folder = NULL;
    j->layer = NULL;
}

void ps_shard_saved(struct ps_shard *s, struct ps_saving *j, const struct model_part *part, const struct pd_err *why) {
    struct ps_saving **at = &s->savings;
    struct pd_err err = {0};
    struct pd_buf b;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    pd_buf_init(&b);
    if (part)
        put_files(j, part, &b);
    if (b.failed) {
        pd_fail(&err, PD_ENOMEM, "no memory for an answer");
        part = NULL;
        why = &err;
    }
    chain_on(s, j, part != NULL);
    s->stats.progress++;
    if (s->members[j->trainer].state == MEMBER_JOINED && !s->failed.code) {
        if (part)
            shard_answer_kept(s, j->trainer, WIRE_PS_SAVE, j->req, b.data, b.len);
        else
            s->ops.fail(s->arg, j->trainer, WIRE_PS_SAVE, j->req, why);
    }
    pd_buf_release(&b);
    saving_free(j);
}

/* sec 0: u64 after, u64 tag, str dir, str name; sec 1: manifest.json. Answer: nothing. */
int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_buf *out, struct pd_err *err) {
    char dir[PATH_MAX], name[256];
    struct pd_rd r;
    (void)out;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u64(&r);
    uint64_t tag = pd_get_u64(&r);
    int rc = shard_folder(s, &r, dir, err);
    pd_get_str(&r, name, sizeof name);
    if (!pd_rd_done(&r))
        return pd_fail(err, PD_EPROTO, "PS_COMMIT of %zu bytes", f->len[0]);
    if (!rc)
        rc = model_commit(dir, name, tag, f->sec[1], f->len[1], err);
    if (!rc) {
        free(s->staged);
        s->staged = NULL;
    }
    return rc;
}
