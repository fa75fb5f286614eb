/* SPDX-License-Identifier: Apache-2.0 */
/* delta_files.c - the files on which a delta save builds, and the tracking of changed rows.
 *
 *     PS_CHAIN_BASE:  all rows ─▶ DIR/A/sparse-00000-of-00002.bin; from then on rows are tracked
 *     PS_CHAIN_DELTA: changes  ─▶ DIR/B/sparse-00000-of-00002.delta-00001.bin, and beside it a link
 *                                 to the file in A
 *
 * A delta builds only on files that this thread has written since its start. Their inodes are
 * known, so the thread notices a folder that was removed or replaced, and a file system without
 * links. The save is then a base. */
#include "ps/shard/shard_internal.h"

void shard_delta_drop(struct ps_shard *s) {
    struct delta_files *c = &s->saves.delta;
    for (uint32_t i = 0; s->params.dirty && i < s->params.decl.n_sparse; i++)
        ps_dirty_rows_release(&s->params.dirty[i]);
    free(c->folder);
    free(c->layer);
    *c = (struct delta_files){0};
}

/* In a table with l1 or l2 every update changes all rows, so a delta would save nothing. */
int shard_delta_changes(const struct ps_shard *s, uint32_t id) {
    return ps_dirty_rows_watched(&s->params.dirty[id]) &&
           !ps_lazy_decay_active(&s->params.decays[id]);
}

static int is_file(const struct delta_layer *l, const char *path) {
    struct stat st;
    return !lstat(path, &st) && st.st_dev == l->dev && st.st_ino == l->ino &&
           (uint64_t)st.st_size == l->part.bytes;
}

/* Returns 1 if all layers are linked into `folder`. */
static int link_layers(const struct delta_files *c, const char *folder) {
    char from[PATH_MAX], to[PATH_MAX];
    for (uint32_t i = 0; i < c->n; i++) {
        const struct delta_layer *l = &c->layer[i];
        if (pd_fmt(from, sizeof from, "%s/%s", c->folder, l->part.file) ||
            pd_fmt(to, sizeof to, "%s/%s", folder, l->part.file))
            return 0;
        (void)unlink(to); /* a file of a save that failed */
        if (!is_file(l, from) || pd_fault("ps.link") || link(from, to))
            return 0;
    }
    return 1;
}

int shard_delta_go_on(struct ps_shard *s, const char *folder, int full) {
    const struct delta_files *c = &s->saves.delta;
    int any = 0;
    for (uint32_t i = 0; s->params.tables && i < s->params.decl.n_sparse; i++)
        any |= shard_delta_changes(s, i);
    if (!any || !c->n || c->n > MODEL_LAYERS_MAX || c->full != full)
        return 0;
    if (link_layers(c, folder))
        return 1;
    pd_warn(s->opts.log,
            "the files of the last save in %s were removed or cannot be linked to: all rows are "
            "saved",
            c->folder);
    for (uint32_t i = 0; i < c->n; i++) { /* removes the links made so far */
        char path[PATH_MAX];
        if (!pd_fmt(path, sizeof path, "%s/%s", folder, c->layer[i].part.file))
            (void)unlink(path);
    }
    return 0;
}

void shard_delta_set(struct ps_shard *s, char *folder, int full, struct delta_layer *layer,
                     uint32_t n) {
    struct delta_files *c = &s->saves.delta;
    free(c->folder);
    free(c->layer);
    *c = (struct delta_files){.folder = folder, .full = full, .layer = layer, .n = n};
}
