/* shard_save.c - a server thread saves its own part of a model: the life of a save. What is written: shard_part.c.
 *
 *     PS_SAVE ──▶ shard_save: all that takes memory ──▶ ps_saving_image ──▶ ps_saving_rest ──▶ ps_shard_saved: answers
 *                                              └ ops.save: in a child of fork └ in a thread, while this one goes on ┘
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
#include "base/fs.h"
#include "base/str.h"
#include "model/model.h"
#include "ps/shard/shard_part.h"

static const char *const kind_names[] = {"", "dense", "sparse", "local"};

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

/* --- a save's life --- */

static void saving_free(struct ps_saving *j) {
    if (!j)
        return;
    part_release(j);
    for (uint32_t i = 0; j->fresh && i < j->s->job.n_sparse; i++)
        ps_changed_release(&j->fresh[i]);
    free(j->fresh);
    free(j->folder);
    free(j->layer);
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
        if (j->trainer == trainer && j->incarnation == s->members[trainer].incarnation && j->req == req)
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
    struct stat st;
    shard_part_name(s, base);
    j->delta = j->chain == PS_CHAIN_DELTA && !s->savings && shard_chain_go_on(s, folder, j->full);
    if (!j->delta)
        memcpy(file, base, sizeof file);
    else if (model_layer_name(base, s->chain.n, file))
        return pd_fail(err, PD_EIO, "name too long: %s", base);
    j->n_layers = j->delta ? s->chain.n + 1 : 1;
    j->layer = pd_calloc(j->n_layers, sizeof *j->layer);
    if (!j->layer)
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    int rc = watch(j, err);
    if (!rc)
        rc = part_make_room(j, folder, file, err);
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

/* The newest note of the member that is not ahead of what the shard has applied: of the common
 * step, or without a barrier of the member's own steps. */
static const struct pd_buf *note_of(const struct ps_shard *s, const struct member *m) {
    return &m->note[m->note[0].after > (s->rule->barrier ? s->step : m->step)].text;
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
        if (s->staged && strcmp(s->staged, path))
            pd_rm_tree(s->staged, NULL); /* of a save that nobody will commit any more */
        free(s->staged);
        s->staged = pd_strdup(path);
        if (!s->staged)
            rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    }
    for (uint32_t i = 0; create && s->tables && i < s->job.n_sparse && !rc; i++)
        rc = s->lives[i].active ? 0 : create_all(s, i, err);
    if (!rc) {
        *j = (struct ps_saving){.s = s, .trainer = trainer, .incarnation = s->members[trainer].incarnation, .req = f->req, .full = (int)full, .chain = (enum ps_chain)chain};
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
    rc = ps_saving_image(j, &part, &why);
    if (!rc)
        rc = ps_saving_rest(j, &part, &why);
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
    const struct member *m = &s->members[j->trainer];
    if (m->state == MEMBER_JOINED && m->incarnation == j->incarnation && !s->failed.code) {
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
