/* SPDX-License-Identifier: Apache-2.0 */
/* client_save.c - models: trainer 0 lets all server threads write their parts, then lets every
 * server commit the model.
 *
 *     ps_save_start: PS_SAVE to every thread ─▶ all parts are written ─▶ copies of the parts
 *                    ─▶ PS_COMMIT to server 0, 1, ... ─▶ done
 *
 * Requests of a link are taken in order, and a step needs this trainer's PS_STEP_END. So all
 * servers save the state between the same two steps, although this trainer continues at once. */
#include "model/model.h"
#include "ps/client/client_internal.h"

_Static_assert((int)MODEL_DIMS_MAX == (int)PS_DIMS_MAX, "shapes are copied whole");
_Static_assert((int)MODEL_FILE_MAX == (int)PS_FILE_MAX, "names of files are copied whole");
_Static_assert((int)MODEL_LAYERS_MAX == (int)PS_LAYERS_MAX, "a manifest has room for all layers");

struct ps_client_saving {
    struct model_manifest m;
    struct answered {
        struct model_part *parts; /* the part's files, the highest layer first */
        uint32_t n;
    } * of;         /* [n_links]: dense threads, then sparse threads */
    uint64_t *rows; /* [n_sparse]: rows of each table */
    char *dir, *name;
    uint64_t tag;
    uint32_t parts_left; /* parts that are not written yet */
    uint32_t n_copies;
    struct ps_copies *copies; /* NULL: copying has not begun */
    uint32_t server;          /* the next server to commit */
    int committing;           /* 1: PS_COMMIT is under way */
    int notes;                /* 1: each stream's position is saved */
    char *unsaid;             /* note for streams without a note; may be NULL */
    struct pd_buf text;
};

static void saving_free(struct ps_client *c) {
    struct ps_client_saving *s = c->saving;
    if (!s)
        return;
    model_manifest_release(&s->m);
    for (uint32_t i = 0; s->of && i < c->n_links; i++)
        free(s->of[i].parts);
    free(s->of);
    client_copies_free(s->copies);
    pd_buf_release(&s->text);
    free(s->unsaid);
    free(s->rows);
    free(s->dir);
    free(s->name);
    free(s);
    c->saving = NULL;
}

void client_save_release(struct ps_client *c) {
    saving_free(c);
    free(c->last_copied);
    c->last_copied = NULL;
}

/* Reads the lines of a trainer's note, one per stream. Returns 0, or -1: malformed, or no memory.
 */
static int set_stream_notes(struct model_resume *r, const struct ps_msg_saved_note *note) {
    const uint8_t *p = note->text;
    size_t n = note->n_text;
    for (uint32_t i = note->stream_lo; i < note->stream_hi; i++) {
        const uint8_t *end = memchr(p, '\n', n);
        if (i >= r->n_streams || !end || r->streams[i])
            return -1;
        size_t len = (size_t)(end - p);
        char *s = pd_malloc(len + 1);
        if (!s)
            return -1;
        memcpy(s, p, len);
        s[len] = 0;
        r->streams[i] = s;
        p = end + 1;
        n -= len + 1;
    }
    return n ? -1 : 0;
}

static int set_parts(struct answered *a, const struct ps_msg_saved *m) {
    const uint32_t n = m->n_files;
    struct ps_msg_saved_file f;
    struct pd_reader rd;
    if (!n || n > MODEL_LAYERS_MAX + 1 || !(a->parts = pd_calloc(n, sizeof *a->parts)))
        return -1;
    pd_reader_init(&rd, m->files, m->files_bytes);
    for (; a->n < n && ps_next_saved_file(&rd, &f); a->n++) {
        struct model_part *p = &a->parts[a->n];
        if (f.layer != n - 1 - a->n)
            return -1;
        *p = (struct model_part){.bytes = f.bytes, .rows = f.rows, .layer = f.layer};
        memcpy(p->file, f.file_text, sizeof p->file);
        memcpy(p->hash, f.hash, sizeof p->hash);
    }
    return 0;
}

static int read_notes(struct model_resume *r, const struct ps_msg_saved *m, struct pd_err *err) {
    struct ps_msg_saved_note note;
    struct pd_reader rd;
    pd_reader_init(&rd, m->notes, m->notes_bytes);
    for (uint32_t i = 0; i < m->n_notes && ps_next_saved_note(&rd, &note); i++)
        if (set_stream_notes(r, &note))
            return pd_fail(err, PD_EPROTO, "a malformed note of streams %u to %u", note.stream_lo,
                           note.stream_hi);
    return 0;
}

static struct server_link *nth_thread(const struct ps_client *c, uint32_t k) {
    return k < c->n_dense ? c->dense[k] : c->sparse[k - c->n_dense];
}

static int done_save(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct ps_client_saving *s = c->saving;
    struct ps_msg_saved m;
    struct pd_reader rows;
    if (ps_get_saved(&a->body, &m, err))
        return err->code;
    if (m.n_tables != c->decl.n_sparse || set_parts(&s->of[r->index], &m))
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    pd_reader_init(&rows, m.rows, m.n_tables * sizeof(uint64_t));
    for (uint32_t i = 0; i < m.n_tables; i++)
        s->rows[i] += pd_get_u64(&rows);
    if (m.updates > s->m.resume.updates) { /* without a barrier threads may differ */
        s->m.resume.updates = m.updates;
        s->m.resume.samples = m.samples;
    }
    s->parts_left--;
    return s->notes ? read_notes(&s->m.resume, &m, err) : 0;
}

/* Lists the parts in the order of the threads. */
static int list_parts(const struct ps_client *c, struct ps_client_saving *s) {
    size_t n = 0;
    for (uint32_t i = 0; i < c->n_links; i++)
        n += s->of[i].n;
    if (!(s->m.parts = pd_calloc(n, sizeof *s->m.parts)))
        return PD_ENOMEM;
    for (uint32_t i = 0; i < c->n_links; i++)
        for (uint32_t k = 0; k < s->of[i].n; k++)
            s->m.parts[s->m.n_parts++] = s->of[i].parts[k];
    return 0;
}

static void describe(const struct ps_client *c, struct ps_client_saving *s) {
    for (uint32_t i = 0; i < c->decl.n_dense; i++) {
        struct model_param *p = &s->m.params[s->m.n_params++];
        p->kind = MODEL_DENSE;
        memcpy(p->name, c->decl.dense[i].name, sizeof p->name);
        p->n_dims = c->decl.dense[i].n_dims;
        memcpy(p->shape, c->decl.dense[i].shape, sizeof p->shape);
    }
    for (uint32_t i = 0; i < c->decl.n_sparse; i++) {
        struct model_param *p = &s->m.params[s->m.n_params++];
        p->kind = MODEL_TABLE;
        memcpy(p->name, c->decl.sparse[i].name, sizeof p->name);
        p->dim = c->decl.sparse[i].dim;
        p->n_rows = c->decl.sparse[i].n_rows;
        p->rows = s->rows[i];
    }
}

static int new_saving(struct ps_client *c, const struct ps_save_opts *o) {
    struct ps_client_saving *s = c->saving = pd_calloc(1, sizeof *s);
    if (!s)
        return client_fail(c, PD_ENOMEM, "no memory to save");
    pd_buf_init(&s->text);
    s->m.step = c->step;
    s->m.pass = o->pass;
    if (o->best)
        s->m.best = *o->best;
    s->of = pd_calloc(c->n_links, sizeof *s->of);
    s->m.params = pd_calloc((size_t)c->decl.n_dense + c->decl.n_sparse, sizeof *s->m.params);
    s->m.config = pd_strdup(o->config ? o->config : "");
    s->rows = pd_calloc(c->decl.n_sparse, sizeof *s->rows);
    s->dir = pd_strdup(o->dir);
    s->name = pd_strdup(o->name);
    s->tag = c->incarnation + c->n_saves++;
    s->parts_left = c->n_links;
    s->n_copies = o->copies > 1 ? o->copies : 1;
    int ok = s->of && s->m.params && s->m.config && s->rows && s->dir && s->name;
    if (o->resume) {
        s->m.optimizer_state = 1;
        s->m.resume.pass = o->resume->pass;
        s->m.resume.batch = o->resume->batch;
        s->notes = o->resume->batch > 0;
        if (o->data && !(s->m.resume.data = pd_strdup(o->data)))
            ok = 0;
        if (o->unsaid && !(s->unsaid = pd_strdup(o->unsaid)))
            ok = 0;
    }
    if (ok && s->notes) {
        s->m.resume.streams = pd_calloc(c->decl.n_streams, sizeof *s->m.resume.streams);
        ok = s->m.resume.streams != NULL;
        s->m.resume.n_streams = ok ? c->decl.n_streams : 0;
    }
    return ok ? 0 : client_fail(c, PD_ENOMEM, "no memory to save");
}

int ps_save_start(struct ps_client *c, const struct ps_save_opts *o) {
    if (client_ready_for(c, "ps_save"))
        return c->err.code;
    if (c->saving)
        return client_fail(c, PD_EUSAGE, "ps_save_start while a model is being saved");
    if (o->copies > 1 && c->n_servers < 2)
        return client_fail(c, PD_ECONF,
                           "a copy of each part on another pserver (checkpoint_copies = 2), but "
                           "there is only one");
    if (new_saving(c, o))
        return c->err.code;
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        const struct ps_msg_save m = {.after = c->step,
                                      .tag = c->saving->tag,
                                      .dir = o->dir,
                                      .name = o->name,
                                      .create_rows = o->create_rows != 0,
                                      .full = o->resume != NULL,
                                      .chain = o->chain};
        struct ps_body b = client_body(c);
        ps_put_save(&b, &m);
        client_ask(c, nth_thread(c, i), WIRE_PS_SAVE, &b, done_save, NULL, i);
    }
    return c->err.code;
}

static int make_text(struct ps_client *c) {
    struct ps_client_saving *s = c->saving;
    struct pd_err err = {0};
    for (size_t i = 0; i < s->m.resume.n_streams; i++) {
        if (s->m.resume.streams[i])
            continue;
        if (!s->unsaid)
            return client_fail(
                c, PD_EFAIL,
                "no trainer has sent the position of stream %zu: %s/%s would be incomplete", i,
                s->dir, s->name);
        if (!(s->m.resume.streams[i] = pd_strdup(s->unsaid)))
            return client_fail(c, PD_ENOMEM, "no memory to save");
    }
    if (list_parts(c, s))
        return client_fail(c, PD_ENOMEM, "no memory to save");
    describe(c, s);
    return model_manifest_write(&s->m, &s->text, &err) ? client_fail_with(c, &err) : 0;
}

static int done_commit(struct ps_client *c, struct pending_request *r, const struct answer *a,
                       struct pd_err *err) {
    struct ps_msg_empty m;
    (void)r;
    c->saving->committing = 0;
    c->saving->server++;
    return ps_get_empty(&a->body, &m, err);
}

/* Servers commit one after the other, since they may share a folder: the first renames it, and the
 * others find it renamed. */
static int ask_commit(struct ps_client *c) {
    struct ps_client_saving *s = c->saving;
    const struct ps_msg_commit m = {.after = s->m.step,
                                    .tag = s->tag,
                                    .dir = s->dir,
                                    .name = s->name,
                                    .manifest = s->text.data,
                                    .n_manifest = s->text.len};
    struct ps_body b = client_body(c);
    ps_put_commit(&b, &m);
    s->committing = 1;
    return client_ask(c, c->servers[s->server].links[0], WIRE_PS_COMMIT, &b, done_commit, NULL, 0);
}

/* 1: no answer is outstanding, so advance_save has something to do. */
static int save_waits(const struct ps_client *c) {
    const struct ps_client_saving *s = c->saving;
    return !s ||
           (!s->parts_left && !s->committing && !(s->copies && client_copies_wait(s->copies)));
}

/* Copies parts if copies are wanted. Returns 1 while copies are not complete. */
static int copy_parts(struct ps_client *c) {
    struct ps_client_saving *s = c->saving;
    char folder[PATH_MAX];
    struct pd_err err = {0};
    if (s->n_copies == 1)
        return 0;
    if (!s->copies) {
        if (model_staging_path(s->dir, s->name, s->tag, folder, &err))
            return client_fail_with(c, &err), 0;
        if (client_copies_new(c, &s->copies, folder, c->last_copied))
            return 0;
        for (uint32_t i = 0; i < c->n_links; i++)
            client_copies_add(c, s->copies, i, nth_thread(c, i)->server, s->of[i].parts,
                              s->of[i].n);
    }
    return client_copies_go_on(c, s->copies);
}

/* Remembers the folder, so that the next save can link its lower layers. Without memory for the
 * name, these are copied again. */
static void remember_copies(struct ps_client *c, const struct ps_client_saving *s) {
    char folder[PATH_MAX];
    free(c->last_copied);
    c->last_copied =
        s->n_copies > 1 && !pd_fmt(folder, sizeof folder, "%s/%s", *s->dir ? s->dir : ".", s->name)
            ? pd_strdup(folder)
            : NULL;
}

/* Advances a save. Returns 1: under way, 0: done or failed. */
static int advance_save(struct ps_client *c) {
    struct ps_client_saving *s = c->saving;
    if (!s || c->err.code || !save_waits(c))
        return s && !c->err.code;
    if (copy_parts(c))
        return !c->err.code;
    if (c->err.code || (!s->text.len && make_text(c)))
        return 0;
    if (s->server < c->n_servers)
        return !ask_commit(c);
    c->last_saved = (struct ps_saved){.step = s->m.step};
    model_hash(s->text.data, s->text.len, c->last_saved.hash);
    for (size_t i = 0; i < s->m.n_parts; i++) {
        c->last_saved.bytes += s->m.parts[i].bytes;
        c->last_saved.changes |= s->m.parts[i].layer > 0;
    }
    remember_copies(c, s);
    saving_free(c);
    return 0;
}

int ps_save_busy(struct ps_client *c) {
    if (!c->saving)
        return 0;
    if (client_poll(c))
        return c->err.code;
    int busy = advance_save(c);
    return c->err.code ? c->err.code : busy;
}

const struct ps_saved *ps_last_saved(const struct ps_client *c) { return &c->last_saved; }

int ps_save_wait(struct ps_client *c) {
    while (advance_save(c))
        client_wait(c, save_waits, "the servers to save the model");
    return c->err.code;
}

int ps_save(struct ps_client *c, const struct ps_save_opts *o) {
    return ps_save_start(c, o) ? c->err.code : ps_save_wait(c);
}

int ps_note(struct ps_client *c, uint64_t after, const char *text, size_t n) {
    if (client_ready_for(c, "ps_note"))
        return c->err.code;
    const struct ps_msg_note m = {
        .after =
            c->geo ? c->step : after, /* in geo mode the trainer's steps are not the servers' */
        .text = (const uint8_t *)text,
        .n_text = (uint32_t)n};
    struct ps_body b = client_body(c);
    ps_put_note(&b, &m);
    return client_ask(c, c->dense[0], WIRE_PS_NOTE, &b, NULL, NULL, 0);
}

/* --- a day's end --- */

static int done_day(struct ps_client *c, struct pending_request *r, const struct answer *a,
                    struct pd_err *err) {
    struct ps_msg_day_ended m;
    struct ps_day *day = r->arg;
    c->n_calls--;
    if (ps_get_day_ended(&a->body, &m, err))
        return err->code;
    day->removed += m.removed;
    day->rows += m.rows;
    day->candidates += m.candidates;
    return 0;
}

/* The servers forget their key lists, so the client must not use the numbers. */
static void forget_lists(struct ps_client *c) {
    for (uint32_t i = 0; i < 2 * c->decl.n_sparse; i++)
        if (c->last[i])
            c->last[i]->list = 0;
}

int ps_day_end(struct ps_client *c, struct ps_day *out) {
    if (client_ready_for(c, "ps_day_end"))
        return c->err.code;
    forget_lists(c);
    *out = (struct ps_day){0};
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        struct ps_body b = client_body(c);
        ps_put_day_end(&b, &(struct ps_msg_day_end){.after = c->step});
        client_call(c, c->links[i], WIRE_PS_DAY_END, &b, done_day, out, 0);
    }
    return client_wait(c, client_calls_done, "the servers to end the day");
}

/* --- load --- */

static int done_load(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct ps_msg_loaded m;
    uint64_t *v = r->arg; /* step and pass of a checkpoint; may be NULL */
    c->n_calls--;
    if (ps_get_loaded(&a->body, &m, err))
        return err->code;
    if (v) {
        v[0] = m.step;
        v[1] = m.pass;
    }
    return 0;
}

static int load_model(struct ps_client *c, const char *folder, enum ps_missing missing,
                      uint64_t *at) {
    if (client_ready_for(c, "ps_load"))
        return c->err.code;
    forget_lists(c);
    for (uint32_t i = 0; i < c->n_links && !c->err.code; i++) {
        const struct ps_msg_load m = {
            .after = c->step, .folder = folder, .missing = missing, .full = at != NULL};
        struct ps_body b = client_body(c);
        ps_put_load(&b, &m);
        client_call(c, c->links[i], WIRE_PS_LOAD, &b, done_load, at, 0);
    }
    if (c->geo)
        geo_forget(c);
    return client_wait(c, client_calls_done, "the servers to load the model");
}

int ps_load(struct ps_client *c, const char *folder, enum ps_missing missing) {
    return load_model(c, folder, missing, NULL);
}

int ps_resume(struct ps_client *c, const char *folder, enum ps_missing missing, uint64_t *step,
              uint64_t *pass) {
    uint64_t at[2] = {0};
    int rc = load_model(c, folder, missing, at);
    *step = at[0];
    *pass = at[1];
    return rc;
}

int ps_continue(struct ps_client *c, uint64_t step, uint64_t pass) {
    if (client_ready_for(c, "ps_continue"))
        return c->err.code;
    c->step = step;
    c->pass = pass;
    for (uint32_t i = 0; i < c->n_links; i++)
        c->links[i]->applied = step;
    return 0;
}
