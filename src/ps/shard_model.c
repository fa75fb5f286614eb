/* shard_model.c - a server thread writes its own part of a model, and reads what it owns out of any model. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "model/model.h"
#include "ps/shard_int.h"

/* --- save --- */

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

static int put_table(struct ps_shard *s, uint32_t id, struct model_writer *w, struct pd_err *err) {
    const struct ps_table *t = s->tables[id];
    const struct ps_decay *d = &s->decays[id];
    struct ps_index_entry *rows;
    if (ps_table_sorted(t, &rows))
        return pd_fail(err, PD_ENOMEM, "no memory to save table '%s'", s->job.sparse[id].name);
    int rc = 0;
    for (uint64_t i = 0; i < ps_table_rows(t) && !rc; i++)
        rc = model_writer_put(w, &rows[i].key, sizeof rows[i].key, err);
    for (uint64_t i = 0; i < ps_table_rows(t) && !rc; i++) {
        float *row = ps_table_row(t, rows[i].row);
        if (ps_decay_active(d)) {
            struct ps_row_note *note = ps_table_note(t, rows[i].row);
            ps_decay_catch_up(d, note->step, row, ps_table_dim(t));
            note->step = d->n;
        }
        rc = model_writer_put(w, row, ps_table_dim(t) * sizeof(float), err);
    }
    free(rows);
    return rc;
}

static void describe(const struct ps_shard *s, struct model_entry *e, size_t *n) {
    for (uint32_t i = 0; s->segs && i < s->job.n_dense; i++)
        if (s->segs[i].count) {
            e[*n] = (struct model_entry){.kind = MODEL_DENSE, .dim = 1, .first = s->segs[i].first,
                                         .count = s->segs[i].count};
            memcpy(e[(*n)++].name, s->job.dense[i].name, sizeof e->name);
        }
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++) {
        e[*n] = (struct model_entry){.kind = MODEL_TABLE, .dim = s->job.sparse[i].dim,
                                     .count = ps_table_rows(s->tables[i])};
        memcpy(e[(*n)++].name, s->job.sparse[i].name, sizeof e->name);
    }
}

static int write_part(struct ps_shard *s, const char *folder, const char *file, struct model_part *part,
                      struct pd_err *err) {
    size_t n = 0;
    struct model_entry *e = pd_calloc((size_t)s->job.n_dense + s->job.n_sparse, sizeof *e);
    if (!e)
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    describe(s, e, &n);
    struct model_writer *w = NULL;
    int rc = model_writer_new(&w, folder, file, e, n, err);
    for (uint32_t i = 0; s->segs && i < s->job.n_dense && !rc; i++)
        rc = model_writer_put(w, shard_w(s, i), s->segs[i].count * sizeof(float), err);
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse && !rc; i++)
        rc = put_table(s, i, w, err);
    if (rc)
        model_writer_abort(w);
    else
        rc = model_writer_end(w, part, err);
    free(e);
    return rc;
}

static const char *const kind_names[] = {"", "dense", "sparse", "local"};
_Static_assert((int)MODEL_NAME_MAX == (int)PS_NAME_MAX, "names are copied whole");

/* A folder as a trainer names it, on this node: "output" is the job's output folder, wherever the agent has put it; a
 * workspace that is used in place has no link to it. */
static int here(const struct ps_shard *s, struct pd_rd *r, char out[PATH_MAX], struct pd_err *err) {
    char name[PATH_MAX];
    const char *base = s->opts.output_dir;
    pd_get_str(r, name, sizeof name);
    while (name[0] == '.' && name[1] == '/') /* "./output", ".//output" */
        memmove(name, name + 1 + strspn(name + 1, "/"), strlen(name + 1 + strspn(name + 1, "/")) + 1);
    if (base && *base && !strncmp(name, "output", 6) && (!name[6] || name[6] == '/')) {
        if (pd_fmt(out, PATH_MAX, "%s%s", base, name + 6))
            return pd_fail(err, PD_EIO, "path too long: %s%s", base, name + 6);
    } else {
        strcpy(out, name);
    }
    return 0;
}

/* sec 0: u64 after, u64 tag, str dir, str name, u32 create_rows.
 * Answer: str file, u64 bytes, u64 rows, 16 bytes of hash, u32 n, n times u64 rows of a table here. */
int shard_save(struct ps_shard *s, const struct wire_frame *f, struct pd_buf *out, struct pd_err *err) {
    char dir[PATH_MAX], name[256], path[PATH_MAX], file[MODEL_FILE_MAX + 1];
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u64(&r);
    uint64_t tag = pd_get_u64(&r);
    int rc = here(s, &r, dir, err);
    pd_get_str(&r, name, sizeof name);
    uint32_t create = pd_get_u32(&r);
    if (!pd_rd_done(&r) || create > 1)
        return pd_fail(err, PD_EPROTO, "PS_SAVE of %zu bytes", f->len[0]);
    uint32_t threads = s->opts.kind == PS_KIND_SPARSE ? s->job.n_sparse_threads : s->job.n_dense_threads;
    (void)pd_fmt(file, sizeof file, "%s-%05u-of-%05u.bin", kind_names[s->opts.kind], s->thread, threads);
    struct model_part part;
    if (!rc)
        rc = model_stage(dir, name, tag, path, err);
    if (!rc) {
        free(s->staged);
        s->staged = pd_strdup(path);
        if (!s->staged)
            rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    }
    for (uint32_t i = 0; create && s->tables && i < s->job.n_sparse && !rc; i++)
        rc = create_all(s, i, err);
    if (!rc)
        rc = write_part(s, path, file, &part, err);
    if (rc)
        return rc;
    pd_put_str(out, part.file);
    pd_put_u64(out, part.bytes);
    pd_put_u64(out, part.rows);
    pd_put(out, part.hash, sizeof part.hash);
    pd_put_u32(out, s->job.n_sparse);
    for (uint32_t i = 0; i < s->job.n_sparse; i++)
        pd_put_u64(out, s->tables ? ps_table_rows(s->tables[i]) : 0);
    return 0;
}

/* sec 0: u64 after, u64 tag, str dir, str name; sec 1: manifest.json. Answer: nothing. */
int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_buf *out, struct pd_err *err) {
    char dir[PATH_MAX], name[256];
    struct pd_rd r;
    (void)out;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u64(&r);
    uint64_t tag = pd_get_u64(&r);
    int rc = here(s, &r, dir, err);
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

/* --- load --- */

static int load_dense(struct ps_shard *s, struct model *m, uint32_t id, uint32_t missing, struct pd_err *err) {
    const struct ps_dense *d = &s->job.dense[id];
    const struct ps_seg *seg = &s->segs[id];
    const struct model_param *p = model_find(m, d->name);
    if (!p && missing == PS_MISSING_FAIL)
        return pd_fail(err, PD_ENOENT, "the model has no parameter '%s'", d->name);
    if (!p) {
        if (missing == PS_MISSING_ZERO)
            memset(shard_w(s, id), 0, seg->count * sizeof(float));
        return 0;
    }
    int same = p->kind == MODEL_DENSE && p->n_dims == d->n_dims;
    for (uint32_t i = 0; same && i < d->n_dims; i++)
        same = p->shape[i] == d->shape[i];
    if (!same)
        return pd_fail(err, PD_ECONF, "parameter '%s' has %llu values here and %llu, or another shape, in the model",
                       d->name, (unsigned long long)d->n, (unsigned long long)model_param_values(p));
    return model_read_dense(m, d->name, seg->first, seg->count, shard_w(s, id), err);
}

struct loading {
    struct ps_shard *s;
    uint32_t id;
    struct ps_table *t;
};

static int load_row(void *arg, uint64_t key, const float *row, struct pd_err *err) {
    struct loading *l = arg;
    uint32_t at;
    if (ps_row_thread(key, l->s->job.n_sparse_threads) != l->s->thread)
        return 0;
    if (ps_table_find(l->t, &key, 1, 1, &at))
        return pd_fail(err, PD_ENOMEM, "no memory for a table's rows");
    memcpy(ps_table_row(l->t, at), row, ps_table_dim(l->t) * sizeof *row);
    ps_table_note(l->t, at)->step = l->s->decays[l->id].n;
    return 0;
}

/* A fresh table takes the old one's place: rows that the model lacks are initial values again. */
static int load_table(struct ps_shard *s, struct model *m, uint32_t id, uint32_t missing, struct pd_err *err) {
    const struct ps_sparse *d = &s->job.sparse[id];
    const struct model_param *p = model_find(m, d->name);
    if (!p && missing == PS_MISSING_FAIL)
        return pd_fail(err, PD_ENOENT, "the model has no table '%s'", d->name);
    if (p && (p->kind != MODEL_TABLE || p->dim != d->dim))
        return pd_fail(err, PD_ECONF, "table '%s' has %u floats per row here and %u in the model", d->name, d->dim, p->dim);
    if (p && p->n_rows && d->n_rows && p->n_rows != d->n_rows)
        return pd_fail(err, PD_ECONF, "table '%s' has %llu ids here and %llu in the model: another vocabulary", d->name,
                       (unsigned long long)d->n_rows, (unsigned long long)p->n_rows);
    struct ps_table_opts o = {.name = d->name, .dim = d->dim, .state = s->optim->state, .seed = s->job.seed};
    struct loading l = {.s = s, .id = id};
    int rc = ps_table_new(&l.t, &o);
    if (rc)
        return pd_fail(err, rc, "no memory for table '%s'", d->name);
    if (p)
        rc = model_each_row(m, d->name, load_row, &l, err);
    if (rc) {
        ps_table_free(l.t);
        return rc;
    }
    if (p || missing != PS_MISSING_ZERO)
        ps_table_set_initial(l.t, d->mean, d->std);
    ps_table_free(s->tables[id]);
    s->tables[id] = l.t;
    return 0;
}

/* Row numbers that members remember belong to the tables of before. */
static void forget_rows(struct ps_shard *s) {
    for (uint32_t i = 0; i < s->n_joined; i++)
        for (uint32_t t = 0; t < s->job.n_sparse; t++)
            s->members[s->order[i]].known[t].id = 0;
}

static int steps_under_way(const struct ps_shard *s) {
    int any = s->n_waiting > 0;
    for (uint32_t i = 0; i < s->n_joined; i++) {
        const struct member *m = &s->members[s->order[i]];
        any |= m->step > s->step;
        for (uint32_t k = 0; m->ring && k < SHARD_AHEAD; k++)
            any |= m->ring[k].n_parts > 0;
    }
    return any;
}

/* sec 0: u64 after, str folder, u32 enum ps_missing. Answer: u64 step and u64 pass of the model. */
int shard_load(struct ps_shard *s, const struct wire_frame *f, struct pd_buf *out, struct pd_err *err) {
    char folder[PATH_MAX];
    struct pd_rd r;
    pd_rd_init(&r, f->sec[0], f->len[0]);
    (void)pd_get_u64(&r);
    int rc = here(s, &r, folder, err);
    uint32_t missing = pd_get_u32(&r);
    if (!pd_rd_done(&r) || missing > PS_MISSING_ZERO)
        return pd_fail(err, PD_EPROTO, "PS_LOAD of %zu bytes", f->len[0]);
    if (steps_under_way(s))
        return pd_fail(err, PD_EPROTO, "PS_LOAD while a step is under way");
    struct model *m = NULL;
    if (!rc && s->values && ps_values_own(&s->values))
        rc = pd_fail(err, PD_ENOMEM, "no memory to load a model");
    if (!rc)
        rc = model_open(&m, folder, err);
    for (uint32_t i = 0; s->segs && i < s->job.n_dense && !rc; i++)
        rc = load_dense(s, m, i, missing, err);
    if (!rc && s->segs)
        memset(s->state, 0, s->n_values * s->optim->state * sizeof *s->state);
    forget_rows(s);
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse && !rc; i++)
        rc = load_table(s, m, i, missing, err);
    if (!rc) {
        pd_put_u64(out, model_info(m)->step);
        pd_put_u64(out, model_info(m)->pass);
    }
    model_close(m);
    return rc;
}
