/* SPDX-License-Identifier: Apache-2.0 */
/* present.c - see present.h. */
#include "pack/store/present.h"

int store_present_init(struct store_present *p, const struct store *st,
                       const struct manifest_node *root, struct pd_err *err) {
    *p = (struct store_present){.st = st};
    return manifest_reader_new(&p->reader, root, err);
}

void store_present_release(struct store_present *p) {
    manifest_reader_free(p->reader);
    p->reader = NULL;
}

static int on_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    (void)arg;
    (void)e;
    (void)err;
    return 0;
}

/* Files of a bundle name the same object one after the other. */
static int on_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct store_present *p = arg;
    (void)err;
    if (!p->any || !object_same(&p->last, &x->id)) {
        p->any = 1;
        p->last = x->id;
        p->last_here = store_has(p->st, &x->id, &p->last_in_rest);
    }
    p->here += p->last_here ? x->len : 0;
    p->rest += p->last_here && p->last_in_rest ? x->len : 0;
    return 0;
}

int store_present_leaf(struct store_present *p, const void *raw, size_t n, struct pd_err *err) {
    static const struct manifest_events ev = {on_entry, on_extent};
    return manifest_read_leaf(p->reader, raw, n, &ev, p, err);
}
