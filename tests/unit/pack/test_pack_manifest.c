/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_manifest.c - manifests are written and read again, and refused if their contents are
 * not allowed. */
#include <setjmp.h>

#include <cmocka.h>

#include <sodium.h>

#include "math/rng.h"
#include "pack/object/chunker.h"
#include "pack/object/manifest.h"
#include "pack/object/object.h"
#include "tests/support/c/random_bytes.h"

struct kept {
    struct object_id id;
    uint8_t *raw;
    size_t n;
};

struct objects {
    struct kept *v;
    size_t n, cap;
};

static int keep(void *arg, const struct object_id *id, const void *raw, size_t n,
                struct pd_err *err) {
    struct objects *o = arg;
    (void)err;
    if (o->n == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 64;
        o->v = realloc(o->v, o->cap * sizeof *o->v);
    }
    struct kept *k = &o->v[o->n++];
    k->id = *id;
    k->n = n;
    k->raw = malloc(n);
    memcpy(k->raw, raw, n);
    return 0;
}

static int kept_cmp(const void *a, const void *b) {
    return object_cmp(&((const struct kept *)a)->id, &((const struct kept *)b)->id);
}

/* write_tree has sorted the objects. */
static const struct kept *find(const struct objects *o, const struct object_id *id) {
    const struct kept key = {.id = *id};
    return bsearch(&key, o->v, o->n, sizeof *o->v, kept_cmp);
}

static void release(struct objects *o) {
    for (size_t i = 0; i < o->n; i++)
        free(o->v[i].raw);
    free(o->v);
    *o = (struct objects){0};
}

/* A digest of all events: equal digests mean equal trees. */
struct digest {
    struct pd_buf b;
};

static int dig_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    struct digest *d = arg;
    (void)err;
    assert_int_equal(strlen(e->path), e->path_len);
    pd_put_fmt(&d->b, "%d|%s|%o|%lld|%llu|%s\n", e->type, e->path, e->mode, (long long)e->mtime_ns,
               (unsigned long long)e->size, e->type == MANIFEST_LINK ? e->target : "");
    return 0;
}

static int dig_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct digest *d = arg;
    (void)err;
    pd_put(&d->b, x->id.b, OBJECT_ID);
    pd_put_fmt(&d->b, "|%u|%u|%u|%llu\n", x->raw_len, x->obj_off, x->len,
               (unsigned long long)x->file_off);
    return 0;
}

static const struct manifest_events digging = {dig_entry, dig_extent};

static void read_below(const struct objects *o, const struct manifest_node *node,
                       struct manifest_reader *r, struct digest *d) {
    struct pd_err err = {0};
    for (unsigned i = 0; i < node->n; i++) {
        const struct kept *k = find(o, &node->child[i].id);
        assert_non_null(k);
        assert_int_equal(k->n, node->child[i].raw_len);
        struct manifest_node *below = malloc(sizeof *below);
        if (node->level == 1) {
            if (manifest_read_leaf(r, k->raw, k->n, &digging, d, &err))
                fail_msg("%s", err.msg);
        } else {
            assert_int_equal(manifest_read_index(below, node->level - 1, k->raw, k->n, &err), 0);
            read_below(o, below, r, d);
        }
        free(below);
    }
}

/* Writes a tree of n files in folders, some large, to the writer and to the digest. File `edited`
 * has other contents. */
static void write_tree(uint64_t seed, int n, int edited, struct objects *o, struct digest *d,
                       struct object_id *root, uint8_t *raw, size_t *raw_len) {
    struct manifest_writer *w;
    struct pd_err err = {0};
    uint64_t rng = seed;
    int in_folder = 0;
    char folder[40] = "";
    assert_int_equal(manifest_writer_new(&w, keep, o, &err), 0);
    for (int i = 0; i < n; i++) {
        char path[200], target[20];
        struct manifest_entry e = {.type = MANIFEST_FILE,
                                   .path = path,
                                   .mode = 0644,
                                   .mtime_ns = (int64_t)next(&rng),
                                   .target = target};
        if (!in_folder--) {
            snprintf(folder, sizeof folder, "d%06d", i);
            e.path_len = (size_t)snprintf(path, sizeof path, "%s", folder);
            e.type = MANIFEST_FOLDER;
            e.mode = 01755;
            in_folder = (int)(next(&rng) % 50);
        } else {
            e.path_len = (size_t)snprintf(path, sizeof path, "%s/f-%06d\n'\"\xff%llx", folder, i,
                                          (unsigned long long)(next(&rng) % 9999999));
            if (next(&rng) % 20 == 0) {
                e.type = MANIFEST_LINK;
                e.mode = 0777;
                snprintf(target, sizeof target, "../x%d", i);
            }
        }
        unsigned n_extents = e.type != MANIFEST_FILE ? 0
                             : next(&rng) % 100      ? (unsigned)(next(&rng) % 3)
                                                     : (unsigned)(next(&rng) % 3000);
        e.size = 0;
        for (unsigned k = 0; k < n_extents; k++)
            e.size += 20000;
        e.size += e.type == MANIFEST_FILE ? 77 : 0;
        if (manifest_add(w, &e, &err))
            fail_msg("%s", err.msg);
        dig_entry(d, &e, NULL);
        for (unsigned k = 0; k < n_extents; k++) {
            uint64_t v[2] = {next(&rng), i == edited && k == n_extents / 2};
            struct manifest_extent x = {
                .raw_len = 30000, .obj_off = 11, .len = 19000, .file_off = 20000 * (uint64_t)k};
            object_id_of(&x.id, v, sizeof v);
            assert_int_equal(manifest_add_extent(w, &x, &err), 0);
            dig_extent(d, &x, NULL);
        }
    }
    assert_int_equal(manifest_finish(w, root, raw, raw_len, &err), 0);
    manifest_writer_free(w);
    if (o->n)
        qsort(o->v, o->n, sizeof *o->v, kept_cmp);
}

static void a_manifest_comes_back(void **state) {
    (void)state;
    const uint64_t seed = seed_of("manifests");
    static const int sizes[] = {0, 1, 2, 30, 500, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct objects o = {0}, again = {0};
        struct digest written = {0}, back = {0}, twice = {0};
        struct object_id root, root2;
        uint8_t raw[MANIFEST_ROOT_MAX];
        size_t n;
        struct manifest_node node;
        struct manifest_reader *r;
        struct pd_err err = {0};
        write_tree(seed, sizes[i], -1, &o, &written, &root, raw, &n);
        write_tree(seed, sizes[i], -1, &again, &twice, &root2, raw, &n);
        assert_true(object_same(&root, &root2));
        assert_int_equal(manifest_read_root(&node, raw, n, &err), 0);
        assert_int_equal(node.n_entries, sizes[i]);
        assert_int_equal(manifest_reader_new(&r, &node, &err), 0);
        read_below(&o, &node, r, &back);
        if (manifest_reader_end(r, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(back.b.len, written.b.len);
        if (written.b.len)
            assert_memory_equal(back.b.data, written.b.data, written.b.len);
        manifest_reader_free(r);
        pd_buf_release(&back.b);
        pd_buf_release(&written.b);
        pd_buf_release(&twice.b);
        release(&o);
        release(&again);
    }
}

/* An edit changes one leaf of the manifest and its indexes, and not the list of all files. */
static void an_edit_changes_few_manifest_objects(void **state) {
    (void)state;
    const uint64_t seed = seed_of("edits");
    struct objects o = {0};
    struct digest d = {0};
    struct object_id root, was;
    uint8_t raw[MANIFEST_ROOT_MAX];
    size_t n, most = 0;
    write_tree(seed, 10000, -1, &o, &d, &was, raw, &n);
    for (int file = 10; file < 10000; file += 1999) {
        struct objects e = {0};
        pd_buf_clear(&d.b);
        write_tree(seed, 10000, file, &e, &d, &root, raw, &n);
        size_t bytes = n;
        for (size_t i = 0; i < e.n; i++)
            bytes += find(&o, &e.v[i].id) ? 0 : e.v[i].n;
        most = bytes > most ? bytes : most;
        release(&e);
    }
    print_message("an edit: at most %zu bytes of manifest\n", most);
    assert_true(most < 48 << 10);
    pd_buf_release(&d.b);
    release(&o);
}

static const struct {
    const char *name;
    struct manifest_entry e[3];
    const char *says;
} hostile[] = {
    {"absolute", {{MANIFEST_FILE, "/etc/x", 6, 0644, 0, 0, ""}}, "absolute"},
    {"dotdot", {{MANIFEST_FILE, "../x", 4, 0644, 0, 0, ""}}, "leaves the tree"},
    {"dotdot inside",
     {{MANIFEST_FOLDER, "a", 1, 0755, 0, 0, ""}, {MANIFEST_FILE, "a/../../x", 9, 0644, 0, 0, ""}},
     "leaves the tree"},
    {"dot", {{MANIFEST_FILE, "./x", 3, 0644, 0, 0, ""}}, "not clean"},
    {"doubled slash", {{MANIFEST_FILE, "a//x", 4, 0644, 0, 0, ""}}, "not clean"},
    {"slash at the end", {{MANIFEST_FOLDER, "a/", 2, 0755, 0, 0, ""}}, "not clean"},
    {"the top folder", {{MANIFEST_FOLDER, ".", 1, 0755, 0, 0, ""}}, "not clean"},
    {"twice",
     {{MANIFEST_FILE, "x", 1, 0644, 0, 0, ""}, {MANIFEST_LINK, "x", 1, 0777, 0, 0, "y"}},
     "twice"},
    {"out of order",
     {{MANIFEST_FILE, "y", 1, 0644, 0, 0, ""}, {MANIFEST_FILE, "x", 1, 0644, 0, 0, ""}},
     "out of order"},
    {"a link as a folder",
     {{MANIFEST_LINK, "d", 1, 0777, 0, 0, "e"}, {MANIFEST_FILE, "d/x", 3, 0644, 0, 0, ""}},
     "not its folder"},
    {"no folder", {{MANIFEST_FILE, "d/x", 3, 0644, 0, 0, ""}}, "not its folder"},
    {"another's folder",
     {{MANIFEST_FOLDER, "da", 2, 0755, 0, 0, ""},
      {MANIFEST_FILE, "da-", 3, 0644, 0, 0, ""},
      {MANIFEST_FILE, "daa/x", 5, 0644, 0, 0, ""}},
     "not its folder"},
    {"link to /etc", {{MANIFEST_LINK, "x", 1, 0777, 0, 0, "/etc/passwd"}}, "leads out"},
    {"link that leads out", {{MANIFEST_LINK, "x", 1, 0777, 0, 0, "../x"}}, "leads out"},
    {"set-uid", {{MANIFEST_FILE, "x", 1, 04755, 0, 0, ""}}, "set-id"},
    {"set-gid folder", {{MANIFEST_FOLDER, "x", 1, 02755, 0, 0, ""}}, "set-id"},
    {"sticky file", {{MANIFEST_FILE, "x", 1, 01644, 0, 0, ""}}, "mode"},
    {"device", {{(enum manifest_type)5, "x", 1, 0644, 0, 0, ""}}, "not a file, folder or link"},
    {"enormous file", {{MANIFEST_FILE, "x", 1, 0644, 0, UINT64_MAX, ""}}, "says that it has"},
};

static int ignore_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    return (void)arg, (void)e, (void)err, 0;
}
static int ignore_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    return (void)arg, (void)x, (void)err, 0;
}
static const struct manifest_events ignoring = {ignore_entry, ignore_extent};

static void put_head(struct pd_buf *b, uint32_t n_objects, uint32_t n_records) {
    pd_buf_clear(b);
    pd_put_u8(b, 1);
    pd_put_u8(b, 1);
    pd_put_u16(b, 0);
    pd_put_u32(b, n_objects);
    pd_put_u32(b, n_records);
}

static void put_v(struct pd_buf *b, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        pd_put_u8(b, (uint8_t)(v | 0x80));
    pd_put_u8(b, (uint8_t)v);
}

/* The writer refuses these entries, and the reader refuses them in the bytes of another writer. */
static void hostile_entries_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct objects o = {0};
        struct manifest_writer *w;
        struct manifest_reader *r;
        struct pd_err err = {0}, why = {0};
        struct pd_buf b = {0};
        int rc = manifest_writer_new(&w, keep, &o, &err);
        for (int k = 0; k < 3 && !rc && hostile[i].e[k].path; k++)
            rc = manifest_add(w, &hostile[i].e[k], &err);
        if (rc != PD_EDATA || !strstr(err.msg, hostile[i].says))
            fail_msg("%s, written: %d %s", hostile[i].name, rc, err.msg);
        manifest_writer_free(w);
        put_head(&b, 0, 0);
        uint32_t n = 0;
        for (; n < 3 && hostile[i].e[n].path; n++) {
            const struct manifest_entry *e = &hostile[i].e[n];
            pd_put_u8(&b, (uint8_t)e->type);
            put_v(&b, 0);
            put_v(&b, e->path_len);
            pd_put(&b, e->path, e->path_len);
            pd_put_u16(&b, (uint16_t)e->mode);
            pd_put_u64(&b, 0);
            if (e->type == MANIFEST_FILE) {
                put_v(&b, e->size);
                put_v(&b, 0);
            } else if (e->type == MANIFEST_LINK) {
                put_v(&b, strlen(e->target));
                pd_put(&b, e->target, strlen(e->target));
            }
        }
        memcpy(b.data + 8, &n, 4);
        assert_int_equal(manifest_reader_new(&r, NULL, &why), 0);
        rc = manifest_read_leaf(r, b.data, b.len, &ignoring, NULL, &why);
        if (rc != PD_EDATA || !strstr(why.msg, hostile[i].says))
            fail_msg("%s, read: %d %s", hostile[i].name, rc, why.msg);
        manifest_reader_free(r);
        pd_buf_release(&b);
        release(&o);
    }
}

/* A million entries of a few bytes each, and contents that repeat one small object a thousand
 * times. The reader accepts at most the amounts that the root declares. */
static void more_than_the_root_says_is_refused(void **state) {
    (void)state;
    struct manifest_node root = {.level = 1, .n_entries = 1000, .data_bytes = 1 << 20};
    struct manifest_reader *r;
    struct pd_err err = {0};
    struct pd_buf b = {0};
    put_head(&b, 0, 2000);
    for (int i = 0; i < 2000; i++) {
        char name[12];
        pd_put_u8(&b, MANIFEST_FOLDER);
        put_v(&b, 0);
        put_v(&b, 6);
        snprintf(name, sizeof name, "%06d", i);
        pd_put(&b, name, 6);
        pd_put_u16(&b, 0755);
        pd_put_u64(&b, 0);
    }
    assert_int_equal(manifest_reader_new(&r, &root, &err), 0);
    assert_int_equal(manifest_read_leaf(r, b.data, b.len, &ignoring, NULL, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "more entries"));
    manifest_reader_free(r);
    err = (struct pd_err){0};
    put_head(&b, 1, 1);
    for (int i = 0; i < 32; i++)
        pd_put_u8(&b, 7);
    pd_put_u32(&b, OBJECT_MAX);
    pd_put_u8(&b, MANIFEST_FILE);
    put_v(&b, 0);
    put_v(&b, 1);
    pd_put_u8(&b, 'x');
    pd_put_u16(&b, 0644);
    pd_put_u64(&b, 0);
    put_v(&b, UINT64_C(1) << 40);
    put_v(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        put_v(&b, 0);
        put_v(&b, 0);
        put_v(&b, 0);
        put_v(&b, OBJECT_MAX);
    }
    assert_int_equal(manifest_reader_new(&r, &root, &err), 0);
    assert_int_equal(manifest_read_leaf(r, b.data, b.len, &ignoring, NULL, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "larger than it says"));
    manifest_reader_free(r);
    pd_buf_release(&b);
    uint8_t raw[24] = {3, 1, 1};
    const uint64_t many = MANIFEST_ENTRIES + 1;
    memcpy(raw + 8, &many, 8);
    err = (struct pd_err){0};
    assert_int_equal(manifest_read_root(&root, raw, sizeof raw, &err), PD_EDATA);
    assert_non_null(strstr(err.msg, "entries"));
}

static void damaged_manifests_are_refused_or_read(void **state) {
    (void)state;
    uint64_t rng = seed_of("damage");
    struct objects o = {0};
    struct digest d = {0};
    struct object_id root;
    uint8_t raw[MANIFEST_ROOT_MAX];
    size_t n;
    write_tree(rng, 2000, -1, &o, &d, &root, raw, &n);
    for (int i = 0; i < 3000; i++) {
        struct kept *k = &o.v[next(&rng) % o.n];
        size_t len = k->n;
        uint8_t *copy = malloc(len);
        memcpy(copy, k->raw, len);
        if (i % 2)
            copy[next(&rng) % len] ^= (uint8_t)(1 << next(&rng) % 8);
        else
            len = next(&rng) % len;
        struct manifest_reader *r;
        struct manifest_node node;
        struct pd_err err = {0};
        assert_int_equal(manifest_reader_new(&r, NULL, &err), 0);
        /* `copy` has exactly `len` bytes, so that a sanitizer sees an overrun. */
        int rc = manifest_read_leaf(r, copy, len, &ignoring, NULL, &err);
        assert_true(rc == PD_EDATA || (rc == 0 && i % 2));
        (void)manifest_read_index(&node, 1, copy, len, NULL);
        (void)manifest_read_root(&node, copy, len, NULL);
        manifest_reader_free(r);
        free(copy);
    }
    release(&o);
    pd_buf_release(&d.b);
}

int main(void) {
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_comes_back),
        cmocka_unit_test(an_edit_changes_few_manifest_objects),
        cmocka_unit_test(hostile_entries_are_refused),
        cmocka_unit_test(more_than_the_root_says_is_refused),
        cmocka_unit_test(damaged_manifests_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
