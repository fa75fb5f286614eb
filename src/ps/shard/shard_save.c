/* SPDX-License-Identifier: Apache-2.0 */
/* shard_save.c - a server thread saves its own part of a model: begins and ends a save.
 * shard_part.c writes the file.
 *
 *     PS_SAVE ──▶ shard_save: allocates all memory
 *             ──▶ ops.save: ps_saving_image in a forked child, then ps_saving_rest in a thread
 *             ──▶ ps_shard_saved: answers; meanwhile the server thread continues
 *
 * Rows are written with their values after the last update, and saving changes no row: a run that
 * saves has the same bits as a run that does not. A checkpoint ("full") also has the state that
 * only the shard knows (docs/model-format.md, "Checkpoints"). A delta save has the rows of tables
 * that changed since the last save (delta_files.c). */
#include "model/model.h"
#include "ps/shard/shard_part.h"

static const char *const kind_names[] = {"", "dense", "sparse", "local"};

void shard_part_name(const struct ps_shard *s, char file[MODEL_FILE_MAX + 1]) {
    uint32_t threads = s->opts.kind == PS_KIND_SPARSE ? s->params.decl.n_sparse_threads
                                                      : s->params.decl.n_dense_threads;
    (void)pd_fmt(file, MODEL_FILE_MAX + 1, "%s-%05u-of-%05u.bin", kind_names[s->opts.kind],
                 s->params.thread, threads);
}

/* Creates the rows of all ids 0..n_rows-1 of this thread, so that an initial model is complete. */
static int create_all(struct ps_shard *s, uint32_t id, struct pd_err *err) {
    enum { BATCH = 1024, MAX_CREATED = 1000000000 };
    uint64_t keys[BATCH];
    uint32_t rows[BATCH];
    size_t n = 0;
    if (s->params.decl.sparse[id].n_rows > MAX_CREATED)
        return pd_fail(
            err, PD_ECONF,
            "table '%s' has %llu ids: too many to make all rows of an initial model (save_initial)",
            s->params.decl.sparse[id].name, (unsigned long long)s->params.decl.sparse[id].n_rows);
    for (uint64_t key = 0; key <= s->params.decl.sparse[id].n_rows; key++) {
        int last = key == s->params.decl.sparse[id].n_rows;
        if (!last && ps_row_thread(key, s->params.decl.n_sparse_threads) == s->params.thread)
            keys[n++] = key;
        if ((n == BATCH || last) && ps_table_find(s->params.tables[id], keys, n, 1, rows))
            return pd_fail(err, PD_ENOMEM, "no memory for the rows of table '%s'",
                           s->params.decl.sparse[id].name);
        if (n == BATCH)
            n = 0;
    }
    return 0;
}

/* --- begin and end of a save --- */

static void saving_free(struct ps_saving *j) {
    if (!j)
        return;
    part_release(j);
    for (uint32_t i = 0; j->fresh && i < j->s->params.decl.n_sparse; i++)
        ps_dirty_rows_release(&j->fresh[i]);
    free(j->fresh);
    free(j->folder);
    free(j->layer);
    pd_buf_release(&j->table_rows);
    pd_buf_release(&j->notes);
    free(j);
}

void shard_savings_release(struct ps_shard *s) {
    while (s->saves.under_way) {
        struct ps_saving *j = s->saves.under_way;
        s->saves.under_way = j->next;
        saving_free(j);
    }
}

int shard_is_saving(const struct ps_shard *s, uint32_t trainer, uint64_t req) {
    for (const struct ps_saving *j = s->saves.under_way; j; j = j->next)
        if (j->trainer == trainer && j->incarnation == s->barrier.members[trainer].incarnation &&
            j->req == req)
            return 1;
    return 0;
}

static int watch_rows(struct ps_saving *j, struct pd_err *err) {
    const struct ps_shard *s = j->s;
    int rc = 0;
    if (j->chain == PS_CHAIN_NONE || !s->params.tables)
        return 0;
    j->fresh = pd_calloc(s->params.decl.n_sparse, sizeof *j->fresh);
    for (uint32_t i = 0; j->fresh && i < s->params.decl.n_sparse && !rc; i++)
        rc = ps_dirty_rows_begin(&j->fresh[i], ps_table_places(s->params.tables[i]));
    return !j->fresh || rc ? pd_fail(err, PD_ENOMEM, "no memory to save") : 0;
}

/* Allocates all memory before anything is written. */
static int make_room(struct ps_saving *j, const char *folder, struct pd_err *err) {
    struct ps_shard *s = j->s;
    char base[MODEL_FILE_MAX + 1], file[MODEL_FILE_MAX + 1];
    struct stat st;
    shard_part_name(s, base);
    j->delta =
        j->chain == PS_CHAIN_DELTA && !s->saves.under_way && shard_delta_go_on(s, folder, j->full);
    if (!j->delta)
        memcpy(file, base, sizeof file);
    else if (model_layer_name(base, s->saves.delta.n, file))
        return pd_fail(err, PD_EIO, "name too long: %s", base);
    j->n_layers = j->delta ? s->saves.delta.n + 1 : 1;
    j->layer = pd_calloc(j->n_layers, sizeof *j->layer);
    if (!j->layer)
        return pd_fail(err, PD_ENOMEM, "no memory to save");
    int rc = watch_rows(j, err);
    if (!rc)
        rc = part_make_room(j, folder, file, err);
    if (!rc && fstat(model_writer_fd(j->w), &st))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot look at %s/%s", folder, file);
    if (rc)
        return rc;
    if (j->delta)
        memcpy(j->layer, s->saves.delta.layer, s->saves.delta.n * sizeof *j->layer);
    j->layer[j->n_layers - 1] = (struct delta_layer){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

/* The snapshot is made: changes from here on belong to the next save. */
static void watch_from_here(struct ps_saving *j) {
    struct ps_shard *s = j->s;
    for (uint32_t i = 0; j->fresh && i < s->params.decl.n_sparse; i++) {
        struct ps_dirty_rows before = s->params.dirty[i];
        s->params.dirty[i] = j->fresh[i];
        j->fresh[i] = before;
    }
    if (j->fresh)
        s->saves.delta.latest = j;
}

/* The member's newest note that is not ahead of the applied steps: the common step, or without a
 * barrier the member's own step. */
static const struct pd_buf *current_note(const struct ps_shard *s, const struct shard_member *m) {
    return &m->note[m->note[0].after > (s->params.rule->barrier ? s->barrier.step : m->step)].text;
}

/* Records the state of the shard for the answer. 0 or PD_ENOMEM. */
static int record_state(struct ps_saving *j) {
    const struct ps_shard *s = j->s;
    for (uint32_t i = 0; i < s->params.decl.n_sparse; i++)
        pd_put_u64(&j->table_rows, s->params.tables ? ps_table_rows(s->params.tables[i]) : 0);
    j->updates = s->params.updates;
    j->samples = s->params.samples;
    for (uint32_t i = 0; i < s->barrier.n_joined; i++) {
        const struct shard_member *m = &s->barrier.members[s->barrier.order[i]];
        const struct pd_buf *note = current_note(s, m);
        const struct ps_msg_saved_note n = {.stream_lo = m->streams.lo,
                                            .stream_hi = m->streams.hi,
                                            .text = note->data,
                                            .n_text = (uint32_t)note->len};
        if (!note->len)
            continue;
        ps_append_saved_note(&j->notes, &n);
        j->n_notes++;
    }
    return j->table_rows.failed || j->notes.failed ? PD_ENOMEM : 0;
}

/* Keeps a trainer's note for a checkpoint after the given number of steps. No answer. */
int shard_note(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_note q;
    if (ps_get_note(&b, &q, err))
        return PD_EPROTO;
    const uint64_t after = q.after;
    if (after > m->step + 1 || q.n_text > PS_NOTE_MAX * (uint64_t)(m->streams.hi - m->streams.lo))
        return pd_fail(err, PD_EPROTO, "PS_NOTE of %zu bytes", f->len[0]);
    if (after != m->note[0].after) {
        struct note older = m->note[0];
        m->note[0] = m->note[1];
        m->note[1] = older;
    }
    m->note[0].after = after;
    pd_buf_clear(&m->note[0].text);
    pd_put(&m->note[0].text, q.text, q.n_text);
    return m->note[0].text.failed ? pd_fail(err, PD_ENOMEM, "no memory for a note") : 0;
}

int shard_save(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err) {
    char dir[PATH_MAX], path[PATH_MAX];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_save q;
    if (ps_get_save(&b, &q, err))
        return PD_EPROTO;
    const char *name = q.name;
    int rc = shard_folder(s, SHARD_WRITES, q.dir, dir, err);
    struct ps_saving *j = pd_calloc(1, sizeof *j);
    if (!rc && !j)
        rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    if (!rc)
        rc = model_make_staging(dir, name, q.tag, path, err);
    if (!rc) {
        if (s->saves.staged && strcmp(s->saves.staged, path))
            pd_rm_tree(s->saves.staged, NULL); /* of a save that will not be committed */
        free(s->saves.staged);
        s->saves.staged = pd_strdup(path);
        if (!s->saves.staged)
            rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    }
    for (uint32_t i = 0; q.create_rows && s->params.tables && i < s->params.decl.n_sparse && !rc;
         i++)
        rc = s->params.policies[i].active ? 0 : create_all(s, i, err);
    if (!rc) {
        *j = (struct ps_saving){.s = s,
                                .trainer = trainer,
                                .incarnation = s->barrier.members[trainer].incarnation,
                                .req = f->req,
                                .full = (int)q.full,
                                .chain = (enum ps_chain)q.chain};
        rc = record_state(j) ? pd_fail(err, PD_ENOMEM, "no memory to save")
                             : make_room(j, path, err);
    }
    if (!rc && pd_fmt(path, sizeof path, "%s/%s", *dir ? dir : ".", name))
        rc = pd_fail(err, PD_EIO, "path too long: %s/%s", dir, name);
    if (!rc && !(j->folder = pd_strdup(path)))
        rc = pd_fail(err, PD_ENOMEM, "no memory to save");
    if (rc) {
        saving_free(j);
        return rc;
    }
    j->next = s->saves.under_way;
    s->saves.under_way = j;
    if (s->ops.save) {
        rc = s->ops.save(s->arg, j, err);
        if (rc) {
            s->saves.under_way = j->next;
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

/* Writes the answer: the part, and the files that it depends on. 0 or PD_ENOMEM. */
static int put_saved(struct ps_saving *j, const struct model_part *part, struct ps_body *b) {
    struct model_part *own = &j->layer[j->n_layers - 1].part;
    struct pd_buf files = {0};
    *own = *part;
    own->layer = j->n_layers - 1;
    for (uint32_t i = j->n_layers; i-- > 0;) {
        const struct model_part *p = &j->layer[i].part;
        struct ps_msg_saved_file m = {
            .file = p->file, .bytes = p->bytes, .rows = p->rows, .layer = p->layer};
        memcpy(m.hash, p->hash, sizeof m.hash);
        ps_append_saved_file(&files, &m);
    }
    const struct ps_msg_saved m = {
        .files = files.data,
        .files_bytes = files.len,
        .n_files = j->n_layers,
        .n_tables = j->s->params.decl.n_sparse,
        .rows = j->table_rows.data,
        .updates = j->updates,
        .samples = j->samples,
        .notes = j->notes.data,
        .notes_bytes = j->notes.len,
        .n_notes = j->n_notes,
    };
    ps_put_saved(b, &m);
    const int rc = files.failed || b->head->failed ? PD_ENOMEM : 0;
    pd_buf_release(&files);
    return rc;
}

/* The next delta save builds on this save, unless another save's snapshot began the tracking of
 * rows. */
static void chain_on(struct ps_shard *s, struct ps_saving *j, int ok) {
    if (s->saves.delta.latest != j)
        return;
    s->saves.delta.latest = NULL;
    if (!ok) {
        shard_delta_drop(s);
        return;
    }
    shard_delta_set(s, j->folder, j->full, j->layer, j->n_layers);
    j->folder = NULL;
    j->layer = NULL;
}

void ps_shard_saved(struct ps_shard *s, struct ps_saving *j, const struct model_part *part,
                    const struct pd_err *why) {
    struct ps_saving **at = &s->saves.under_way;
    struct pd_err err = {0};
    struct ps_body b = shard_body(s);
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    if (part && put_saved(j, part, &b)) {
        pd_fail(&err, PD_ENOMEM, "no memory for an answer");
        part = NULL;
        why = &err;
    }
    chain_on(s, j, part != NULL);
    s->stats.progress++;
    const struct shard_member *m = &s->barrier.members[j->trainer];
    if (m->state == MEMBER_JOINED && m->incarnation == j->incarnation && !s->failed.code) {
        if (part)
            (void)shard_answer_kept(s, j->trainer, WIRE_PS_SAVE, j->req, &b);
        else
            s->ops.fail(s->arg, j->trainer, WIRE_PS_SAVE, j->req, why);
    }
    saving_free(j);
}

int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_err *err) {
    char dir[PATH_MAX];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_commit q;
    if (ps_get_commit(&b, &q, err))
        return PD_EPROTO;
    int rc = shard_folder(s, SHARD_WRITES, q.dir, dir, err);
    if (!rc)
        rc = model_commit(dir, q.name, q.tag, q.manifest, q.n_manifest, err);
    if (!rc) {
        free(s->saves.staged);
        s->saves.staged = NULL;
    }
    return rc;
}
