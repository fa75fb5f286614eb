/* SPDX-License-Identifier: Apache-2.0 */
/* file_known.c - the data files that came here, and on the head the holders of a file. See
 * file_fetch.h. */
#include "agent/files/file_fetch_internal.h"
#include "math/hash.h"
#include "wire/msg.h"

enum { CAME_PIECES = 1 << 20 };

struct file_came_here {
    uint64_t hash;
    char *path;
    struct file_pieces f;
};

const struct file_fetch_opts *file_fetch_opts(const struct file_fetch *d) { return &d->o; }

/* --- files that came --- */

static uint64_t hash_of(const char *path) {
    uint64_t h = 0;
    for (; *path; path++)
        h = pd_mix64(h ^ (unsigned char)*path) + 1;
    return h;
}

const struct file_pieces *file_came(const struct file_fetch *d, const char *path) {
    uint64_t h = hash_of(path);
    for (size_t i = 0; i < d->n_came; i++)
        if (d->came[i].hash == h && !strcmp(d->came[i].path, path))
            return &d->came[i].f;
    return NULL;
}

/* Remembers a file's pieces, so that other nodes can take it from here. A file that does not fit is
 * not served. */
static void remember(struct file_fetch *d, const char *path, struct file_pieces *f) {
    if (file_came(d, path) || d->n_pieces + f->n > CAME_PIECES)
        return;
    char *copy = pd_grow(d->came, d->cap_came, d->n_came + 1) ? NULL : pd_strdup(path);
    if (!copy)
        return;
    d->came[d->n_came++] = (struct file_came_here){hash_of(path), copy, *f};
    d->n_pieces += f->n;
    *f = (struct file_pieces){0};
}

static void announce(const struct file_fetch *d, const char *path) {
    if (!d->o.io->is_head(d->o.arg))
        d->o.io->ask_head(d->o.arg, WIRE_HD_FILE_HERE, 0, path, strlen(path));
    else if (d->list)
        file_index_note(d->list, path, d->o.spec->node);
}

void file_refuse_copy(struct file_fetch *d, const char *path) {
    if (d->o.io->is_head(d->o.arg))
        file_copies_refused(d, d->o.spec->node, path);
    else
        d->o.io->ask_head(d->o.arg, WIRE_HD_FILE_COPY, 0, path, strlen(path));
}

void file_announce_one(struct file_fetch *d, const char *path) {
    if (file_came(d, path))
        announce(d, path);
    else
        file_refuse_copy(d, path);
}

void file_note_came(struct file_fetch *d, const char *path, struct file_pieces *pieces) {
    remember(d, path, pieces);
    announce(d, path);
    file_copies_here(d);
}

void file_announce(const struct file_fetch *d) {
    for (size_t i = 0; d && i < d->n_came; i++)
        announce(d, d->came[i].path);
}

/* --- on the head: the holders of a file --- */

/* Each holder is asked once. */
static void add_holder(int32_t *node, size_t *n, size_t cap, int32_t it) {
    for (size_t i = 0; i < *n; i++)
        if (node[i] == it)
            return;
    if (*n < cap)
        node[(*n)++] = it;
}

size_t file_holder_nodes(const struct file_fetch *d, const struct file_holders *h,
                         int32_t node[FILE_HOLDERS]) {
    /* The files were sent to the nodes of the first attempt. */
    const struct roles *roles = &d->o.spec->roles;
    size_t n = 0;
    for (int k = 0; k < FILE_RANKS; k++) {
        const int trainer = h->rank[k];
        if (trainer < 0 || trainer >= roles->n[ROLE_TRAINER])
            continue;
        add_holder(node, &n, FILE_HOLDERS, roles->nodes[ROLE_TRAINER][trainer]);
        if (spec_copy_node(d->o.spec, trainer) >= 0)
            add_holder(node, &n, FILE_HOLDERS, spec_copy_node(d->o.spec, trainer));
    }
    for (size_t i = 0; i < h->n_nodes; i++)
        add_holder(node, &n, FILE_HOLDERS, h->node[i]);
    return n;
}

json_t *file_holders_of(struct file_fetch *d, int asker, const char *path, struct object_id *id,
                        struct pd_err *err) {
    struct file_holders h;
    int32_t node[FILE_HOLDERS];
    char text[300];
    if (!d->list || !file_index_find(d->list, path, &h)) {
        pd_fail(err, PD_ENOENT, "%s is none of the data files that were sent with this job",
                file_shown_path(path, text));
        return NULL;
    }
    const size_t n = file_holder_nodes(d, &h, node);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        int it = node[(i + (size_t)asker) % n]; /* different askers begin with different holders */
        if (it != asker)
            json_array_append_new(list, d->o.io->peer(d->o.arg, it));
    }
    *id = h.id;
    json_t *body = wire_put(&wire_hd_file_answer, &(struct hd_file_answer){.holders = list});
    json_decref(list);
    if (!body)
        pd_oom(err, "the holders of a data file");
    return body;
}

void file_known_release(struct file_fetch *d) {
    for (size_t i = 0; i < d->n_came; i++) {
        free(d->came[i].path);
        file_pieces_release(&d->came[i].f);
    }
    free(d->came);
}
