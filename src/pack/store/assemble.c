/* SPDX-License-Identifier: Apache-2.0 */
/* assemble.c - see assemble.h. Two phases: first the manifest, level by level; then its leaves in
 * order, one at a time, as far as the window of outstanding requests allows.
 *
 *   leaf ─▶ entry ─▶ tree_out_add
 *        └▶ extent ─▶ object is here: write at once   (last object read, own tree, store)
 *                     otherwise: add a WANT with this piece; assemble_need requests the object,
 *                     assemble_put writes the piece
 *
 * The place of each object is noted for relays and later packages: in the file that contains all of
 * it, or as a bundle of whole adjacent files. Other objects (rare) are stored in the catalog
 * itself.
 */
#include "pack/store/assemble_internal.h"

#include "pack/store/store_internal.h"

/* --- wants --- */

static struct want **bucket_of(struct assemble *a, const struct object_id *id) {
    return &a->bucket[object_hash64(id) % BUCKETS];
}

static struct want *find_want(struct assemble *a, const struct object_id *id) {
    struct want *w = *bucket_of(a, id);
    while (w && !object_same(&w->id, id))
        w = w->chain;
    return w;
}

static int add_want(struct assemble *a, const struct object_id *id, uint32_t raw_len,
                    int is_manifest, struct want **out, struct pd_err *err) {
    struct want *w = find_want(a, id);
    if (w && w->raw_len != raw_len)
        return pd_fail(err, PD_EDATA, "the package has two lengths for one object");
    if (!w) {
        if (!(w = pd_calloc(1, sizeof *w)))
            return pd_oom(err, "a package that arrives");
        struct want **b = bucket_of(a, id);
        *w = (struct want){.id = *id, .raw_len = raw_len, .chain = *b, .prev = a->last};
        *b = w;
        *(a->last ? &a->last->next : &a->first) = w;
        a->last = w;
        if (!a->cursor)
            a->cursor = w;
        a->n_wants++;
        a->asked += raw_len;
    }
    w->is_manifest |= is_manifest;
    *out = w;
    return 0;
}

static void drop_want(struct assemble *a, struct want *w) {
    struct want **b = bucket_of(a, &w->id);
    while (*b != w)
        b = &(*b)->chain;
    *b = w->chain;
    *(w->prev ? &w->prev->next : &a->first) = w->next;
    *(w->next ? &w->next->prev : &a->last) = w->prev;
    if (a->cursor == w)
        a->cursor = w->next;
    a->n_wants--;
    a->n_asked -= (size_t)w->asked;
    a->n_pieces -= w->n;
    a->asked -= w->raw_len;
    free(w->v);
    free(w);
}

void assemble_drop_wants(struct assemble *a) {
    while (a->first)
        drop_want(a, a->first);
}

static int add_piece(struct assemble *a, struct want *w, const struct want_piece *p,
                     struct pd_err *err) {
    if (pd_grow(w->v, w->cap, w->n + 1))
        return pd_oom(err, "a package that arrives");
    w->v[w->n++] = *p;
    a->n_pieces++;
    return 0;
}

size_t assemble_need(struct assemble *a, struct object_id *ids, size_t max) {
    size_t n = 0;
    for (; n < max && a->n_asked < ASKED_MAX && a->cursor; a->cursor = a->cursor->next) {
        ids[n++] = a->cursor->id;
        a->cursor->asked = 1;
        a->owed += a->cursor->raw_len;
        a->n_asked++;
    }
    return n;
}

void assemble_ask_again(struct assemble *a) {
    for (struct want *w = a->first; w; w = w->next)
        w->asked = 0;
    a->n_asked = 0;
    a->cursor = a->first;
}

/* Reads an object of an earlier package into have_raw. 1; 0: not here. */
static int read_elsewhere(struct assemble *a, const struct object_id *id, uint32_t raw_len) {
    uint32_t n;
    return store_read(a->st, id, raw_len, a->have_raw) ||
           (a->o.before && assemble_read(a->o.before, id, a->have_raw, &n) && n == raw_len);
}

/* --- the manifest --- */

static int add_ref(struct level_refs *r, const struct manifest_ref *ref, struct pd_err *err) {
    if (r->n == MAX_LEAVES)
        return pd_fail(err, PD_EDATA, "the package's index names too many objects");
    if (pd_grow(r->v, r->cap, r->n + 1))
        return pd_oom(err, "a package that arrives");
    r->v[r->n++] = *ref;
    return 0;
}

int assemble_take_children(struct assemble *a, struct level_refs *into,
                           const struct manifest_node *node, struct pd_err *err) {
    const uint64_t max = manifest_bytes_max(&a->root_node);
    int rc = 0;
    for (unsigned i = 0; i < node->n && !rc; i++) {
        a->manifest_bytes += node->child[i].raw_len;
        rc = a->manifest_bytes > max
                 ? pd_fail(err, PD_EDATA,
                           "the package's list of files has more than %llu bytes, too many for "
                           "%llu entries and %llu bytes",
                           (unsigned long long)max, (unsigned long long)a->root_node.n_entries,
                           (unsigned long long)a->root_node.data_bytes)
                 : add_ref(into, &node->child[i], err);
    }
    return rc;
}

/* All objects of this level are here: go one level down. */
static int descend(struct assemble *a, struct pd_err *err) {
    struct level_refs below = {0};
    struct manifest_node node;
    int rc = 0;
    for (size_t i = 0; i < a->level.n && !rc; i++) {
        uint32_t n;
        if (!store_part_get(a->part, &a->level.v[i].id, a->have_raw, &n))
            rc = pd_fail(err, PD_EIO, "cannot read the package's index again");
        if (!rc)
            rc = manifest_read_index(&node, a->depth, a->have_raw, n, err);
        if (!rc)
            rc = assemble_take_children(a, &below, &node, err);
    }
    a->have = 0;
    free(a->level.v);
    a->level = below;
    a->depth--;
    a->at = 0;
    return rc ? rc : assemble_enough_disk(a, err);
}

/* Looks for the objects of this level and requests missing ones. */
static int step_manifest(struct assemble *a, uint64_t until, struct pd_err *err) {
    int rc = 0;
    while (!rc && a->at < a->level.n && a->asked < a->window && a->n_wants < WANTS_MAX &&
           pd_mono_ns() < until) {
        const struct manifest_ref *r = &a->level.v[a->at];
        struct want *w;
        a->have = 0;
        if (store_part_has(a->part, &r->id))
            ;
        else if (read_elsewhere(a, &r->id, r->raw_len))
            rc = store_part_put(a->part, &r->id, a->have_raw, r->raw_len, err);
        else
            rc = add_want(a, &r->id, r->raw_len, 1, &w, err);
        a->at++;
    }
    if (rc || a->at < a->level.n || a->n_wants)
        return rc;
    if (a->depth)
        return descend(a, err);
    a->leaves_known = 1;
    a->at = 0;
    a->counting = 1;
    return store_present_init(&a->present, a->st, &a->root_node, err);
}

/* The leaf `i`, read again. */
static int get_leaf(struct assemble *a, size_t i, uint8_t *raw, uint32_t *n, struct pd_err *err) {
    return store_part_get(a->part, &a->level.v[i].id, raw, n)
               ? 0
               : pd_fail(err, PD_EIO, "cannot read the package's list of files again");
}

/* Counts what the store has, before the first object of the contents is read or requested. */
static int step_present(struct assemble *a, uint64_t until, struct pd_err *err) {
    uint32_t n;
    int rc = 0;
    for (; !rc && a->present_at < a->level.n && pd_mono_ns() < until; a->present_at++) {
        rc = get_leaf(a, a->present_at, a->have_raw, &n, err);
        if (!rc)
            rc = store_present_leaf(&a->present, a->have_raw, n, err);
    }
    a->have = 0;
    a->t.here = a->present.here;
    a->t.rest = a->present.rest;
    if (!rc && a->present_at == a->level.n) {
        a->counting = 0;
        store_present_release(&a->present);
    }
    return rc;
}

/* --- contents --- */

static int note_place(struct assemble *a, const struct object_id *id, uint32_t raw_len,
                      uint32_t entry, uint64_t off, struct pd_err *err) {
    return store_part_note(a->part, id, raw_len, entry, off, err);
}

static int write_piece(struct assemble *a, const struct want_piece *p, const uint8_t *raw,
                       struct pd_err *err) {
    int rc = tree_out_write(a->tree, p->entry, raw + p->obj_off, p->len, p->file_off, err);
    if (!rc)
        a->t.have += p->len;
    return rc;
}

static void open_old(struct assemble *a, const struct manifest_entry *e) {
    char path[PATH_MAX];
    struct stat st;
    pd_close(a->old_fd);
    a->old_fd = -1;
    for (int i = 0; i < 2 && a->o.old && e->type == MANIFEST_FILE && a->old_fd < 0; i++)
        if (!pd_fmt(path, sizeof path, "%s/%s%s", a->o.old, e->path, i ? "" : a->o.old_suffix))
            a->old_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (a->old_fd >= 0 && (fstat(a->old_fd, &st) || !S_ISREG(st.st_mode))) {
        close(a->old_fd);
        a->old_fd = -1;
    }
}

static int read_old(struct assemble *a, const struct manifest_extent *x) {
    struct object_id is;
    if (a->old_fd < 0 || x->obj_off || x->len != x->raw_len ||
        store_pread(a->old_fd, a->have_raw, x->len, x->file_off))
        return 0;
    object_id_of(&is, a->have_raw, x->len);
    return object_same(&is, &x->id);
}

/* Reads the object from this node into have_raw. 1; 0: not here. */
static int read_local(struct assemble *a, const struct manifest_extent *x) {
    uint32_t n, file;
    uint64_t off;
    int known;
    if (a->have && object_same(&a->have_id, &x->id))
        return 1;
    a->have = 0;
    if (store_part_where(a->part, &x->id, &n, &file, &off))
        known = n == x->raw_len &&
                (file == UINT32_MAX ? store_part_get(a->part, &x->id, a->have_raw, &n)
                                    : !tree_out_read(a->tree, file & ~(uint32_t)STORE_BUNDLE,
                                                     !!(file & STORE_BUNDLE), a->have_raw, n, off));
    else
        known = read_old(a, x) || read_elsewhere(a, &x->id, x->raw_len);
    a->have = known;
    a->have_id = x->id;
    return known;
}

/* Follows bundles: 1 if this piece is a whole file and completes a bundle that begins at run_first.
 */
static int complete_bundle(struct assemble *a, const struct manifest_extent *x, uint32_t entry) {
    int whole = x->file_off == 0 && x->len == tree_out_size(a->tree, entry);
    if (x->obj_off == 0 && whole) {
        a->run_id = x->id;
        a->run_first = entry;
        a->run_off = x->len;
        a->run_on = 1;
    } else if (a->run_on && whole && object_same(&a->run_id, &x->id) && x->obj_off == a->run_off) {
        a->run_off += x->len;
    } else {
        a->run_on = 0;
    }
    int done = a->run_on && a->run_off == x->raw_len;
    a->run_on &= !done;
    return done;
}

static int on_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    struct assemble *a = arg;
    if (a->single && e->type != MANIFEST_FILE)
        return pd_fail(err, PD_EDATA, "a worker package holds one file, and nothing else");
    open_old(a, e);
    int rc = tree_out_add(a->tree, e, err);
    return rc || !a->o.keeps_rest ? rc : store_part_entry(a->part, e->path, err);
}

static int on_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct assemble *a = arg;
    struct want_piece p = {tree_out_count(a->tree) - 1, x->obj_off, x->len, x->file_off};
    int bundle = complete_bundle(a, x, p.entry), all = x->obj_off == 0 && x->len == x->raw_len;
    uint32_t first = a->run_first;
    tree_out_expect(a->tree, x->file_off + x->len);
    if (!find_want(a, &x->id) && read_local(a, x)) {
        int rc = write_piece(a, &p, a->have_raw, err);
        a->local += rc ? 0 : p.len;
        if (!rc && all)
            rc = note_place(a, &x->id, x->raw_len, p.entry, p.file_off, err);
        else if (!rc && bundle)
            rc = note_place(a, &x->id, x->raw_len, first | STORE_BUNDLE, 0, err);
        return rc;
    }
    struct want *w;
    const size_t before = a->n_wants;
    int rc = add_want(a, &x->id, x->raw_len, 0, &w, err);
    a->object_bytes += a->n_wants > before ? x->raw_len : 0;
    if (!rc && a->object_bytes > a->root_node.data_bytes)
        rc = pd_fail(err, PD_EDATA, "the package's objects have more bytes than its files (%llu)",
                     (unsigned long long)a->root_node.data_bytes);
    if (!rc)
        rc = add_piece(a, w, &p, err);
    if (!rc && bundle && w->n && w->v[0].entry == first)
        w->bundle = 1;
    return rc;
}

static int step_contents(struct assemble *a, uint64_t until, struct pd_err *err) {
    static const struct manifest_events ev = {on_entry, on_extent};
    uint8_t *leaf = NULL;
    int rc = 0;
    while (!rc && a->at < a->level.n && a->asked < a->window && a->n_wants < WANTS_MAX &&
           a->n_pieces < MAX_PIECES && pd_mono_ns() < until) {
        uint32_t n;
        if (!leaf && !(leaf = pd_malloc(OBJECT_MAX)))
            return pd_oom(err, "a package that arrives");
        rc = get_leaf(a, a->at, leaf, &n, err);
        if (!rc)
            rc = manifest_read_leaf(a->reader, leaf, n, &ev, a, err);
        a->at++;
    }
    free(leaf);
    if (!rc && a->at == a->level.n && !a->all_read) {
        rc = manifest_reader_end(a->reader, err);
        if (!rc)
            rc = tree_out_end_entry(a->tree, err);
        a->all_read = !rc;
    }
    return rc;
}

static int step(struct assemble *a, unsigned budget_ms, struct pd_err *err) {
    uint64_t until = pd_mono_ns() + budget_ms * UINT64_C(1000000);
    int rc = 0;
    do {
        if (pd_fault("assemble.step"))
            return pd_fail(err, PD_EIO, "injected");
        int was_known = a->leaves_known, was_counting = a->counting;
        size_t at = a->at;
        unsigned depth = a->depth;
        rc = a->counting       ? step_present(a, until, err)
             : a->leaves_known ? step_contents(a, until, err)
                               : step_manifest(a, until, err);
        if (rc)
            return rc;
        if (was_counting)
            continue;
        if (a->all_read || (was_known == a->leaves_known && at == a->at && depth == a->depth))
            return 0; /* complete, or it waits for objects */
    } while (pd_mono_ns() < until);
    return 1;
}

int assemble_step(struct assemble *a, unsigned budget_ms, struct pd_err *err) {
    int rc = step(a, budget_ms, err);
    if (rc >= 0 && a->o.keeps_rest && store_part_flush(a->part, err))
        rc = err->code;
    a->broken |= rc < 0;
    return rc;
}

static int put_contents(struct assemble *a, struct want *w, const uint8_t *raw,
                        struct pd_err *err) {
    int rc = 0;
    size_t all = w->n;
    for (size_t i = 0; i < w->n && !rc; i++) {
        rc = write_piece(a, &w->v[i], raw, err);
        if (w->v[i].obj_off == 0 && w->v[i].len == w->raw_len && all == w->n)
            all = i;
    }
    if (rc || w->is_manifest)
        return rc;
    if (all < w->n)
        return note_place(a, &w->id, w->raw_len, w->v[all].entry, w->v[all].file_off, err);
    if (w->bundle)
        return note_place(a, &w->id, w->raw_len, w->v[0].entry | STORE_BUNDLE, 0, err);
    return store_part_put(a->part, &w->id, raw, w->raw_len, err);
}

int assemble_put(struct assemble *a, const struct object_id *id, const uint8_t *raw,
                 uint32_t raw_len, struct pd_err *err) {
    struct want *w = find_want(a, id);
    if (raw_len > a->owed)
        return pd_fail(err, PD_EPROTO, "more objects came than were requested");
    a->owed -= raw_len;
    if (!w)
        return 0;
    if (w->raw_len != raw_len)
        return pd_fail(err, PD_EDATA, "the package says that an object has %u bytes; it has %u",
                       w->raw_len, raw_len);
    if (pd_fault("assemble.put"))
        return pd_fail(err, PD_EIO, "injected");
    a->t.fetched += raw_len;
    int rc = w->is_manifest ? store_part_put(a->part, id, raw, raw_len, err) : 0;
    if (!rc)
        rc = put_contents(a, w, raw, err);
    drop_want(a, w);
    a->broken |= rc != 0;
    return rc;
}

int assemble_complete(const struct assemble *a) { return a->all_read && !a->n_wants; }

/* --- for relays --- */

int assemble_read(struct assemble *a, const struct object_id *id, uint8_t buf[OBJECT_MAX],
                  uint32_t *raw_len) {
    uint32_t file;
    uint64_t off;
    if (store_part_where(a->part, id, raw_len, &file, &off)) {
        if (file == UINT32_MAX)
            return store_part_get(a->part, id, buf, raw_len);
        struct object_id is;
        if (!tree_out_read(a->tree, file & ~(uint32_t)STORE_BUNDLE, !!(file & STORE_BUNDLE), buf,
                           *raw_len, off)) {
            if (!a->finished && !(file & STORE_BUNDLE))
                return 1; /* written by this process, no other process has used the tree yet */
            object_id_of(&is, buf, *raw_len);
            if (object_same(&is, id))
                return 1;
        }
    }
    return (a->o.before && assemble_read(a->o.before, id, buf, raw_len)) ||
           store_find(a->st, id, buf, raw_len);
}

void assemble_totals(const struct assemble *a, struct assemble_totals *t) {
    *t = a->t;
    t->asked = a->asked;
    t->here_left = a->t.here > a->local ? a->t.here - a->local : 0;
    t->manifest_complete = a->leaves_known;
}
