/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_package.c - a package whose source is hostile: the objects have the right ids, and their
 * contents are arbitrary. Nothing appears outside of the target, and a refused package leaves
 * nothing there.
 *
 * Input: u8 entries, u32 bytes of the root; u8 leaves; for each leaf u8 objects, u8 bytes each,
 * u8 records, u16 bytes of records, the objects, the records. */
#include "pack/store/assemble.h"
#include "tests/support/fuzz/fuzz.h"

enum { LEAVES = 3, OBJECTS = 4, ALL = LEAVES * (OBJECTS + 1) };

static struct object {
    struct object_id id;
    const uint8_t *raw;
    uint32_t n;
} v[ALL];
static size_t n_v;

static const struct object *keep(const uint8_t *raw, size_t n) {
    struct object *o = &v[n_v++];
    o->raw = raw;
    o->n = (uint32_t)n;
    object_id_of(&o->id, raw, n);
    return o;
}

static const struct object *make_leaf(struct pd_reader *in, struct pd_buf *b) {
    const struct object *table[OBJECTS];
    size_t n[OBJECTS];
    const unsigned k = fuzz_u8(in) % (OBJECTS + 1);
    for (unsigned i = 0; i < k; i++)
        n[i] = fuzz_u8(in);
    const uint32_t records = fuzz_u8(in);
    const size_t bytes = fuzz_u8(in) | (size_t)fuzz_u8(in) << 8;
    for (unsigned i = 0; i < k; i++)
        table[i] = keep(fuzz_bytes(in, n[i]), n[i]);
    pd_put_u8(b, 1);
    pd_put_u8(b, 1);
    pd_put_u16(b, 0);
    pd_put_u32(b, k);
    pd_put_u32(b, records);
    for (unsigned i = 0; i < k; i++) {
        pd_put(b, table[i]->id.b, OBJECT_ID);
        pd_put_u32(b, table[i]->n);
    }
    pd_put(b, fuzz_bytes(in, bytes), bytes);
    return keep(b->data, b->len);
}

static int deploy(struct store *st, const char *root, const char *target, const struct pd_buf *top,
                  struct pd_err *err) {
    struct assemble *a = NULL;
    struct object_id ids[ALL];
    const struct assemble_opts o = {.root = root, .target = target};
    int rc = assemble_new(&a, st, &o, top->data, top->len, err), again = 1;
    while (!rc && !assemble_complete(a) && again) {
        again = assemble_step(a, 1000, err);
        rc = again < 0 ? again : 0;
        const size_t n = rc ? 0 : assemble_need(a, ids, ALL);
        again |= n > 0;
        for (size_t i = 0; i < n && !rc; i++)
            for (size_t k = 0; k < n_v; k++)
                if (!memcmp(&v[k].id, &ids[i], sizeof ids[i])) {
                    rc = assemble_put(a, &ids[i], v[k].raw, v[k].n, err);
                    break;
                }
    }
    if (!rc && assemble_complete(a))
        rc = assemble_finish(a, err);
    else if (!rc)
        rc = PD_EFAIL; /* an object that does not exist */
    assemble_free(a);
    return rc;
}

/* The number of entries of a folder but ".paddlectl". */
static int entries(const char *dir) {
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, ".paddlectl");
    pd_closedir(d);
    return n;
}

FUZZ(in) {
    struct store *st = NULL;
    struct pd_err err = {0};
    struct pd_buf top = {0}, leaf[LEAVES] = {{0}};
    char root[PATH_MAX], target[PATH_MAX];
    pd_fmt(root, sizeof root, "%s/root", fuzz_folder());
    pd_fmt(target, sizeof target, "%s/root/target", fuzz_folder());
    (void)mkdir(root, 0700);
    n_v = 0;
    const uint64_t n_entries = fuzz_u8(in), bytes = fuzz_u32(in);
    const unsigned n = fuzz_u8(in) % (LEAVES + 1);
    pd_put_u8(&top, 3);
    pd_put_u8(&top, 1);
    pd_put_u16(&top, 1);
    pd_put_u32(&top, n);
    pd_put_u64(&top, n_entries);
    pd_put_u64(&top, bytes);
    for (unsigned i = 0; i < n; i++) {
        const struct object *o = make_leaf(in, &leaf[i]);
        pd_put(&top, o->id.b, OBJECT_ID);
        pd_put_u32(&top, o->n);
    }
    fuzz_check(!store_open(&st, root, NULL));
    const int rc = deploy(st, root, target, &top, &err);
    store_close(st);
    fuzz_check(entries(root) == (rc ? 0 : 1) && entries(fuzz_folder()) == 1);
    (void)pd_rm_tree(root, NULL);
    pd_buf_release(&top);
    for (unsigned i = 0; i < LEAVES; i++)
        pd_buf_release(&leaf[i]);
}
