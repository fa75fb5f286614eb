/* client_copies.c - each part of a model on another server's disk too, before the model is whole: losing a server loses nothing.
 *
 *     parts are written ─▶ of each thread: PS_READ from its server, PS_STORE to the next one, piece by piece ─▶ PS_COMMIT
 *                          (layers below: PS_LINK to the next one, which has them already, of the save before)
 *
 * What a server commits then are its own parts and those of the server before it. A checkpoint is loaded from whoever has its parts
 * (client_models.c), so nothing else has to know of copies. The pieces pass through this trainer, one of each thread at a time, beside
 * the training.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "model/model.h"
#include "ps/client/client_int.h"

/* The files of one thread. */
struct copying {
    struct ps_copies *of;
    const struct model_part *files;
    uint32_t n_files, file; /* file n_files: done */
    uint32_t from, to;      /* servers */
    uint64_t at;            /* bytes that are there */
    int asked;              /* an answer will come */
    int looked;             /* whether the other server has it of the save before: it has not */
    int has_piece;
    struct pd_buf piece;
};

struct ps_copies {
    char *folder; /* the staged one */
    char *older;  /* NULL, or that of the save before */
    struct copying *c;
    uint32_t n, left;
};

/* The next server in the list on another host; when all are on one, the next. */
static uint32_t other_server(const struct ps_client *c, uint32_t server) {
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

int client_copies_new(struct ps_client *c, struct ps_copies **out, const char *folder, const char *older) {
    struct ps_copies *k = pd_calloc(1, sizeof *k);
    if (!k || !(k->folder = pd_strdup(folder)) || (older && !(k->older = pd_strdup(older))) || !(k->c = pd_calloc(c->n_links, sizeof *k->c))) {
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

void client_copies_add(struct ps_client *c, struct ps_copies *k, uint32_t thread, uint32_t server, const struct model_part *files, uint32_t n) {
    struct copying *x = &k->c[thread];
    x->files = files;
    x->n_files = n;
    x->from = server;
    x->to = other_server(c, server);
    k->left += n > 0;
}

static int done_read(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct copying *x = r->arg;
    uint64_t size;
    (void)c;
    if (a->len[0] != sizeof size || a->len[1] > PS_PIECE)
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    memcpy(&size, a->sec[0], sizeof size);
    if (size != x->files[x->file].bytes || !a->len[1] || a->len[1] > size - x->at)
        return pd_fail(err, PD_EDATA, "%s/%s has changed while it was copied", x->of->folder, x->files[x->file].file);
    pd_buf_clear(&x->piece);
    pd_put(&x->piece, a->sec[1], a->len[1]);
    x->asked = 0;
    x->has_piece = 1;
    return x->piece.failed ? pd_fail(err, PD_ENOMEM, "no memory for a piece of a checkpoint") : 0;
}

static void next_file(struct copying *x) {
    x->at = 0;
    x->looked = 0;
    x->of->left -= ++x->file == x->n_files;
}

static int done_link(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
    struct copying *x = r->arg;
    struct pd_rd rd;
    (void)c;
    pd_rd_init(&rd, a->sec[0], a->len[0]);
    const uint32_t there = pd_get_u32(&rd);
    if (!pd_rd_done(&rd))
        return pd_fail(err, PD_EPROTO, "a malformed answer");
    x->asked = 0;
    if (there)
        next_file(x);
    return 0;
}

static int done_store(struct ps_client *c, struct request *r, const struct answer *a, struct pd_err *err) {
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

static int ask(struct ps_client *c, struct copying *x) {
    const struct model_part *f = &x->files[x->file];
    pd_buf_clear(&c->head);
    pd_put_str(&c->head, x->of->folder);
    pd_put_str(&c->head, f->file);
    x->asked = 1;
    if (x->of->older && x->file > 0 && !x->looked) { /* the first is the highest layer, which is new */
        x->looked = 1;
        pd_put_str(&c->head, x->of->older);
        pd_put_u64(&c->head, f->bytes);
        pd_put(&c->head, f->hash, sizeof f->hash);
        return client_ask(c, c->servers[x->to].links[0], WIRE_PS_LINK, NULL, done_link, x, 0);
    }
    pd_put_u64(&c->head, x->at);
    if (!x->has_piece) {
        pd_put_u32(&c->head, PS_PIECE);
        return client_ask(c, c->servers[x->from].links[0], WIRE_PS_READ, NULL, done_read, x, 0);
    }
    pd_put_u64(&c->head, f->bytes);
    return client_ask(c, c->servers[x->to].links[0], WIRE_PS_STORE, &x->piece, done_store, x, 0);
}

int client_copies_go_on(struct ps_client *c, struct ps_copies *k) {
    for (uint32_t i = 0; i < k->n && !c->err.code; i++)
        if (!k->c[i].asked && k->c[i].file < k->c[i].n_files)
            ask(c, &k->c[i]);
    return k->left > 0;
}

int client_copies_wait(const struct ps_copies *k) {
    for (uint32_t i = 0; i < k->n; i++)
        if (!k->c[i].asked && k->c[i].file < k->c[i].n_files)
            return 0;
    return k->left > 0;
}
