/* SPDX-License-Identifier: Apache-2.0 */
/* client_models.c - the checkpoints on the servers' disks. A server has its own parts, or all parts
 * of a folder that servers share. A checkpoint is complete when every part is on some server.
 * Before a load, parts that a server needs and lacks are copied to it from another server. */
#include "model/model.h"
#include "ps/client/client_internal.h"

struct ps_models {
    struct listed_model {
        struct ps_checkpoint about;
        uint8_t hash[16];
        uint32_t n_parts;
        uint8_t *present; /* [n_servers * n_parts] */
        uint8_t *has;     /* [n_servers]: the server has its manifest */
    } * e;
    size_t n, cap;
};

void ps_models_free(struct ps_models *m) {
    for (size_t i = 0; m && i < m->n; i++) {
        free(m->e[i].present);
        free(m->e[i].has);
    }
    if (m)
        free(m->e);
    free(m);
}

static struct listed_model *find_or_add_model(struct ps_models *m, uint32_t n_servers,
                                              const struct listed_model *x) {
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->e[i].about.name, x->about.name) &&
            !memcmp(m->e[i].hash, x->hash, sizeof x->hash))
            return m->e[i].n_parts == x->n_parts ? &m->e[i] : NULL;
    if (pd_grow(m->e, m->cap, m->n + 1))
        return NULL;
    struct listed_model *e = &m->e[m->n];
    *e = *x;
    e->present = pd_calloc((size_t)n_servers * x->n_parts, 1);
    e->has = pd_calloc(n_servers, 1);
    if (!e->present || !e->has) {
        free(e->present);
        free(e->has);
        return NULL;
    }
    m->n++;
    return e;
}

static int done_models(struct ps_client *c, struct pending_request *r, const struct answer *a,
                       struct pd_err *err) {
    struct ps_models *m = r->arg;
    struct ps_msg_model_list list;
    struct ps_msg_model_entry one;
    struct pd_reader rd;
    c->n_calls--;
    if (ps_get_model_list(&a->body, &list, err))
        return err->code;
    pd_reader_init(&rd, list.models, list.models_bytes);
    for (uint32_t i = 0; i < list.n_models && ps_next_model_entry(&rd, &one); i++) {
        struct listed_model x = {.about = {.step = one.step,
                                           .pass = one.pass,
                                           .batch = one.batch,
                                           .state = (int)one.full},
                                 .n_parts = one.n_parts};
        memcpy(x.about.name, one.name_text, sizeof x.about.name);
        memcpy(x.hash, one.hash, sizeof x.hash);
        struct listed_model *e = find_or_add_model(m, c->n_servers, &x);
        if (!e)
            return pd_fail(err, PD_ENOMEM, "no memory for a list of checkpoints");
        memcpy(e->present + (size_t)r->index * x.n_parts, one.present, x.n_parts);
        e->has[r->index] = 1;
    }
    return 0;
}

/* The most advanced first. Ties are ordered by name and hash, so the order is the same on all
 * trainers. */
static int by_progress(const void *a, const void *b) {
    const struct listed_model *x = a, *y = b;
    const uint64_t u[] = {y->about.pass, y->about.batch, y->about.step},
                   v[] = {x->about.pass, x->about.batch, x->about.step};
    for (int i = 0; i < 3; i++)
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    int order = strcmp(x->about.name, y->about.name);
    return order ? order : memcmp(x->hash, y->hash, sizeof x->hash);
}

static int server_with_part(const struct ps_client *c, const struct listed_model *e,
                            uint32_t part) {
    for (uint32_t i = 0; i < c->n_servers; i++)
        if (e->present[(size_t)i * e->n_parts + part])
            return (int)i;
    return -1;
}

int ps_models(struct ps_client *c, const char *dir, const char *name, struct ps_models **out) {
    if (client_ready_for(c, "ps_models"))
        return c->err.code;
    struct ps_models *m = pd_calloc(1, sizeof *m);
    if (!m)
        return client_fail(c, PD_ENOMEM, "no memory for a list of checkpoints");
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++) {
        const struct ps_msg_models ask = {.dir = dir, .name = name ? name : ""};
        struct ps_body b = client_body(c);
        ps_put_models(&b, &ask);
        client_call(c, c->servers[i].links[0], WIRE_PS_MODELS, &b, done_models, m, i);
    }
    if (client_wait(c, client_calls_done, "the lists of checkpoints")) {
        ps_models_free(m);
        return c->err.code;
    }
    if (m->n)
        qsort(m->e, m->n, sizeof *m->e, by_progress);
    for (size_t i = 0; i < m->n; i++) {
        m->e[i].about.complete = 1;
        for (uint32_t p = 0; p < m->e[i].n_parts; p++)
            m->e[i].about.complete &= server_with_part(c, &m->e[i], p) >= 0;
        for (uint32_t k = 0; k < c->n_servers; k++)
            m->e[i].about.torn |= !m->e[i].has[k];
    }
    *out = m;
    return 0;
}

size_t ps_models_n(const struct ps_models *m) { return m->n; }
const struct ps_checkpoint *ps_models_at(const struct ps_models *m, size_t i) {
    return &m->e[i].about;
}

/* --- verify --- */

static int done_verify(struct ps_client *c, struct pending_request *r, const struct answer *a,
                       struct pd_err *err) {
    struct pd_err *why = r->arg;
    struct ps_msg_verified m;
    c->n_calls--;
    if (ps_get_verified(&a->body, &m, err))
        return err->code;
    if (m.code)
        pd_fail(why, PD_EDATA, "pserver %s:%d: %.600s", a->link->ip, a->link->port, m.message);
    return 0;
}

/* Asks a server to verify a file; file "": all files that the server has. */
static int ask_verify(struct ps_client *c, uint32_t server, const char *folder, const char *file,
                      struct pd_err *why) {
    const struct ps_msg_verify m = {.folder = folder, .file = file};
    struct ps_body b = client_body(c);
    ps_put_verify(&b, &m);
    return client_call(c, c->servers[server].links[0], WIRE_PS_VERIFY, &b, done_verify, why, 0);
}

/* Server i has a damaged part. Verifies its parts one by one, and treats damaged parts as missing.
 */
static void forget_damaged(struct ps_client *c, struct listed_model *e, uint32_t i,
                           const char *folder, const struct model_manifest *m) {
    for (uint32_t p = 0; p < e->n_parts && !c->err.code; p++) {
        uint8_t *present = &e->present[(size_t)i * e->n_parts + p];
        struct pd_err why = {0};
        if (!*present)
            continue;
        ask_verify(c, i, folder, m->parts[p].file, &why);
        client_wait(c, client_calls_done, "a server to check a checkpoint");
        if (why.code && !c->err.code) {
            *present = 0;
            pd_warn(c->opts.log, "%s", why.msg);
        }
    }
}

/* All servers verify their parts at the same time. A damaged part counts as missing on that server.
 * *why is set if a part is whole on no server. */
static int verify_everywhere(struct ps_client *c, struct listed_model *e, const char *folder,
                             const struct model_manifest *m, struct pd_err *why) {
    struct pd_err *of = pd_calloc(c->n_servers, sizeof *of);
    const struct pd_err *first = NULL;
    if (!of)
        return client_fail(c, PD_ENOMEM, "no memory to check a checkpoint");
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++)
        if (e->has[i])
            ask_verify(c, i, folder, "", &of[i]);
    client_wait(c, client_calls_done, "the servers to check a checkpoint");
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++) {
        if (!of[i].code)
            continue;
        first = first ? first : &of[i];
        forget_damaged(c, e, i, folder, m);
    }
    for (uint32_t p = 0; p < e->n_parts && first && !why->code && !c->err.code; p++)
        if (server_with_part(c, e, p) < 0)
            *why = *first;
    free(of);
    return c->err.code;
}

/* --- copies from one server to another --- */

struct read_piece {
    uint64_t size;
    struct pd_buf data;
};

static int done_read(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct read_piece *p = r->arg;
    struct ps_msg_piece m;
    c->n_calls--;
    if (ps_get_piece(&a->body, &m, err))
        return err->code;
    p->size = m.size;
    pd_buf_clear(&p->data);
    pd_put(&p->data, m.data, m.n_data);
    return p->data.failed ? pd_fail(err, PD_ENOMEM, "no memory for a piece of a checkpoint") : 0;
}

static int read_piece(struct ps_client *c, uint32_t server, const char *folder, const char *file,
                      uint64_t offset, struct read_piece *p) {
    const struct ps_msg_read m = {.folder = folder, .file = file, .offset = offset, .n = PS_PIECE};
    struct ps_body b = client_body(c);
    ps_put_read(&b, &m);
    client_call(c, c->servers[server].links[0], WIRE_PS_READ, &b, done_read, p, 0);
    if (client_wait(c, client_calls_done, "a piece of a checkpoint"))
        return c->err.code;
    if (offset > p->size || (offset < p->size && !p->data.len))
        return client_fail(c, PD_EDATA, "%s/%s has changed while it was read", folder, file);
    return 0;
}

static int copy_file(struct ps_client *c, uint32_t from, uint32_t to, const char *folder,
                     const char *file) {
    struct read_piece p = {0};
    uint64_t at = 0;
    pd_buf_init(&p.data);
    do {
        if (read_piece(c, from, folder, file, at, &p))
            break;
        const struct ps_msg_store m = {.folder = folder,
                                       .file = file,
                                       .offset = at,
                                       .size = p.size,
                                       .data = p.data.data,
                                       .n_data = p.data.len};
        struct ps_body b = client_body(c);
        ps_put_store(&b, &m);
        client_call(c, c->servers[to].links[0], WIRE_PS_STORE, &b, client_done_nothing, NULL, 0);
        client_wait(c, client_calls_done, "a piece of a checkpoint");
        at += p.data.len;
    } while (!c->err.code && at < p.size);
    pd_buf_release(&p.data);
    return c->err.code;
}

/* Reads manifest.json of this checkpoint from a server that has it. */
static int read_manifest(struct ps_client *c, const struct listed_model *e, const char *folder,
                         struct pd_buf *text) {
    struct read_piece p = {0};
    uint32_t from = 0;
    uint8_t hash[16];
    while (!e->has[from])
        from++;
    pd_buf_init(&p.data);
    do {
        if (!read_piece(c, from, folder, "manifest.json", text->len, &p))
            pd_put(text, p.data.data, p.data.len);
    } while (!c->err.code && !text->failed && text->len < p.size);
    pd_buf_release(&p.data);
    if (c->err.code)
        return c->err.code;
    model_hash(text->data, text->len, hash);
    if (text->failed || memcmp(hash, e->hash, sizeof hash))
        return client_fail(c, PD_EDATA, "%s/manifest.json has changed while it was read", folder);
    return 0;
}

/* Returns 1 if this job has as many threads as the model. Each server then needs only its own
 * parts. */
static int same_layout(const struct ps_client *c, const struct model_manifest *m) {
    uint32_t dense = 0, sparse = 0;
    uint32_t others = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        const int a = pd_starts_with(m->parts[i].file, "dense-"),
                  b = pd_starts_with(m->parts[i].file, "sparse-");
        dense += a && !m->parts[i].layer;
        sparse += b && !m->parts[i].layer;
        others += !a && !b;
    }
    return dense == c->n_dense && sparse == c->n_sparse && !others;
}

static int server_needs_part(const struct ps_client *c, uint32_t server, const char *file,
                             int same) {
    char own[MODEL_FILE_MAX + 1];
    for (uint32_t k = 0; same && k < c->servers[server].n_links; k++) {
        const struct server_link *l = c->servers[server].links[k];
        int dense = l->kind == PS_KIND_DENSE;
        (void)pd_fmt(own, sizeof own, "%s-%05u-of-%05u.bin", dense ? "dense" : "sparse", l->thread,
                     dense ? c->n_dense : c->n_sparse);
        if (model_is_layer_of(file, own))
            return 1;
    }
    return !same;
}

/* 1: the part will be on one server only, after the loss of another one, and this server gets the
 * copy. */
static int server_gets_copy(const struct ps_client *c, const struct listed_model *e,
                            uint32_t server, uint32_t part, const char *file) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_servers; i++)
        n += e->present[(size_t)i * e->n_parts + part] || server_needs_part(c, i, file, 1);
    for (uint32_t i = 0; i < c->n_servers && n == 1; i++)
        if (client_other_server(c, i) == server && server_needs_part(c, i, file, 1))
            return 1;
    return 0;
}

/* Copies to every server the parts that it needs and lacks, and with copies = 2 those that would be
 * on one server only; the manifest last. */
static int bring_parts(struct ps_client *c, struct listed_model *e, const char *folder,
                       const struct model_manifest *m, uint32_t copies) {
    int same = same_layout(c, m);
    uint32_t from = 0;
    while (!e->has[from])
        from++;
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++) {
        uint64_t bytes = 0;
        for (uint32_t p = 0; p < e->n_parts && !c->err.code; p++) {
            const char *file = m->parts[p].file;
            if (e->present[(size_t)i * e->n_parts + p] ||
                !(server_needs_part(c, i, file, same) ||
                  (copies > 1 && server_gets_copy(c, e, i, p, file))))
                continue;
            copy_file(c, (uint32_t)server_with_part(c, e, p), i, folder, file);
            bytes += m->parts[p].bytes;
        }
        if (!c->err.code && !e->has[i])
            copy_file(c, from, i, folder, "manifest.json");
        if (!c->err.code && bytes)
            pd_info(c->opts.log, "pserver %s:%d: %llu bytes of %s brought from other servers",
                    c->servers[i].ip, c->servers[i].port, (unsigned long long)bytes, folder);
    }
    return c->err.code;
}

int ps_models_fetch(struct ps_client *c, struct ps_models *models, size_t i, const char *dir,
                    uint32_t copies, struct pd_err *why) {
    struct listed_model *e = &models->e[i];
    char folder[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text = {0};
    memset(why, 0, sizeof *why);
    if (pd_fmt(folder, sizeof folder, "%s/%s", dir, e->about.name))
        return client_fail(c, PD_EIO, "path too long: %s", dir);
    int rc = read_manifest(c, e, folder, &text);
    if (!rc && model_manifest_parse(&m, (const char *)text.data, text.len, why))
        rc = client_fail(c, why->code, "%s: %s", folder, why->msg);
    if (!rc && m.n_parts != e->n_parts)
        rc = client_fail(c, PD_EPROTO, "%s has %zu parts, but a pserver counts %u", folder,
                         m.n_parts, e->n_parts);
    for (uint32_t p = 0; p < e->n_parts && !rc && !why->code; p++)
        if (server_with_part(c, e, p) < 0)
            pd_fail(why, PD_EDATA, "%s/%s is missing, or has another size, on every server", folder,
                    m.parts[p].file);
    if (!rc && !why->code)
        rc = verify_everywhere(c, e, folder, &m, why);
    if (!rc && !why->code)
        rc = bring_parts(c, e, folder, &m, copies);
    model_manifest_release(&m);
    pd_buf_release(&text);
    return rc;
}

int ps_models_resume(struct ps_client *c, const struct ps_models *models, size_t i, const char *dir,
                     struct model_resume *out, struct model_best *best) {
    char folder[PATH_MAX];
    struct model_manifest m = {0};
    struct pd_buf text = {0};
    struct pd_err err = {0};
    if (pd_fmt(folder, sizeof folder, "%s/%s", dir, models->e[i].about.name))
        return client_fail(c, PD_EIO, "path too long: %s", dir);
    int rc = read_manifest(c, &models->e[i], folder, &text);
    if (!rc && model_manifest_parse(&m, (const char *)text.data, text.len, &err))
        rc = client_fail(c, err.code, "%s: %s", folder, err.msg);
    if (!rc) {
        *out = m.resume;
        *best = m.best;
        memset(&m.resume, 0, sizeof m.resume);
    }
    model_manifest_release(&m);
    pd_buf_release(&text);
    return rc;
}

int ps_models_remove(struct ps_client *c, const char *dir, const char *name) {
    if (client_ready_for(c, "ps_models_remove"))
        return c->err.code;
    /* One after the other: servers may share a folder. */
    for (uint32_t i = 0; i < c->n_servers && !c->err.code; i++) {
        const struct ps_msg_remove m = {.dir = dir, .name = name};
        struct ps_body b = client_body(c);
        ps_put_remove(&b, &m);
        client_call(c, c->servers[i].links[0], WIRE_PS_REMOVE, &b, client_done_nothing, NULL, 0);
        client_wait(c, client_calls_done, "a checkpoint to be removed");
    }
    return c->err.code;
}
