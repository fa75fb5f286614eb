/* SPDX-License-Identifier: Apache-2.0 */
/* client_copies.c - copies each part of a model to another server's disk before the model is
 * committed, so that the loss of a server loses no part.
 *
 *     parts are written ─▶ for each thread, piece by piece: PS_READ from its server,
 *                          PS_STORE to the next server ─▶ PS_COMMIT
 *                          (lower layers: PS_LINK on the next server, which has them already)
 *
 * A server then commits its own parts and those of the server before it. A checkpoint is loaded
 * from any server that has its parts (client_models.c), so no other code knows of copies. The
 * pieces pass through this trainer, one per thread at a time, while it trains. */
#include "model/model.h"
#include "ps/client/client_internal.h"

/* The files of one thread and their copying. */
struct copying {
    struct ps_copies *of;
    const struct model_part *files;
    uint32_t n_files, file; /* file: number of the current file; n_files: done */
    uint32_t from, to;      /* numbers of servers */
    uint64_t at;            /* bytes of the current file that are copied */
    int asked;              /* 1: a request is under way */
    int looked;             /* 1: PS_LINK was tried: the other server does not have the file */
    int has_piece;
    struct pd_buf piece;
};

struct ps_copies {
    char *folder; /* the staging folder */
    char *older;  /* folder of the last save with copies, or NULL */
    struct copying *c;
    uint32_t n, left;
};

uint32_t client_other_server(const struct ps_client *c, uint32_t server) {
    for (uint32_t k = 1; k < c->n_servers; k++) {
        uint32_t i = (server + k) % c->n_servers;
        if (strcmp(c->servers[i].ip, c->servers[server].ip))
            return i;
    }
    return (server + 1) % c->n_servers;
}

void client_copies_free(struct ps_copies *k) {
    for (uint32_t i = 0; k && k->c && i < k->n; i++)
        pd_buf_release(&k->c[i].piece);
    if (k) {
        free(k->c);
        free(k->folder);
        free(k->older);
    }
    free(k);
}

int client_copies_new(struct ps_client *c, struct ps_copies **out, const char *folder,
                      const char *older) {
    struct ps_copies *k = pd_calloc(1, sizeof *k);
    if (!k || !(k->folder = pd_strdup(folder)) || (older && !(k->older = pd_strdup(older))) ||
        !(k->c = pd_calloc(c->n_links, sizeof *k->c))) {
        client_copies_free(k);
        return client_fail(c, PD_ENOMEM, "no memory to save");
    }
    for (; k->n < c->n_links; k->n++) {
        k->c[k->n].of = k;
        pd_buf_init(&k->c[k->n].piece);
    }
    *out = k;
    return 0;
}

void client_copies_add(struct ps_client *c, struct ps_copies *k, uint32_t thread, uint32_t server,
                       const struct model_part *files, uint32_t n) {
    struct copying *x = &k->c[thread];
    x->files = files;
    x->n_files = n;
    x->from = server;
    x->to = client_other_server(c, server);
    k->left += n > 0;
}

static int done_read(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct copying *x = r->arg;
    struct ps_msg_piece m;
    (void)c;
    if (ps_get_piece(&a->body, &m, err))
        return err->code;
    if (m.size != x->files[x->file].bytes || !m.n_data || m.n_data > m.size - x->at)
        return pd_fail(err, PD_EDATA, "%s/%s has changed while it was copied", x->of->folder,
                       x->files[x->file].file);
    pd_buf_clear(&x->piece);
    pd_put(&x->piece, m.data, m.n_data);
    x->asked = 0;
    x->has_piece = 1;
    return x->piece.failed ? pd_fail(err, PD_ENOMEM, "no memory for a piece of a checkpoint") : 0;
}

static void next_file(struct copying *x) {
    x->at = 0;
    x->looked = 0;
    x->of->left -= ++x->file == x->n_files;
}

static int done_link(struct ps_client *c, struct pending_request *r, const struct answer *a,
                     struct pd_err *err) {
    struct copying *x = r->arg;
    struct ps_msg_linked m;
    (void)c;
    if (ps_get_linked(&a->body, &m, err))
        return err->code;
    x->asked = 0;
    if (m.linked)
        next_file(x);
    return 0;
}

static int done_store(struct ps_client *c, struct pending_request *r, const struct answer *a,
                      struct pd_err *err) {
    struct copying *x = r->arg;
    (void)c;
    (void)a;
    (void)err;
    x->asked = 0;
    x->has_piece = 0;
    x->at += x->piece.len;
    if (x->at == x->files[x->file].bytes)
        next_file(x);
    return 0;
}

static int ask_next_piece(struct ps_client *c, struct copying *x) {
    const struct model_part *f = &x->files[x->file];
    const char *folder = x->of->folder;
    struct ps_body b = client_body(c);
    x->asked = 1;
    if (x->of->older && x->file > 0 && !x->looked) { /* file 0 is the highest layer, which is new */
        x->looked = 1;
        struct ps_msg_link m = {
            .folder = folder, .file = f->file, .older = x->of->older, .size = f->bytes};
        memcpy(m.hash, f->hash, sizeof m.hash);
        ps_put_link(&b, &m);
        return client_ask(c, c->servers[x->to].links[0], WIRE_PS_LINK, &b, done_link, x, 0);
    }
    if (!x->has_piece) {
        const struct ps_msg_read m = {
            .folder = folder, .file = f->file, .offset = x->at, .n = PS_PIECE};
        ps_put_read(&b, &m);
        return client_ask(c, c->servers[x->from].links[0], WIRE_PS_READ, &b, done_read, x, 0);
    }
    const struct ps_msg_store m = {.folder = folder,
                                   .file = f->file,
                                   .offset = x->at,
                                   .size = f->bytes,
                                   .data = x->piece.data,
                                   .n_data = x->piece.len};
    ps_put_store(&b, &m);
    return client_ask(c, c->servers[x->to].links[0], WIRE_PS_STORE, &b, done_store, x, 0);
}

int client_copies_go_on(struct ps_client *c, struct ps_copies *k) {
    for (uint32_t i = 0; i < k->n && !c->err.code; i++)
        if (!k->c[i].asked && k->c[i].file < k->c[i].n_files)
            ask_next_piece(c, &k->c[i]);
    return k->left > 0;
}

int client_copies_wait(const struct ps_copies *k) {
    for (uint32_t i = 0; i < k->n; i++)
        if (!k->c[i].asked && k->c[i].file < k->c[i].n_files)
            return 0;
    return k->left > 0;
}
