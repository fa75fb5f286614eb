/* test_pack_objects.c - objects and their records, where contents are cut, and manifests: written, read again, and refused
 * when they say what no package may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/rng.h"
#include "pack/chunker.h"
#include "pack/chunker_gear.h"
#include "pack/manifest.h"
#include "pack/object.h"
#include "pack/object_ids.h"

static uint64_t seed_of(const char *name) {
    const char *s = getenv("PADDLE_TEST_SEED");
    uint64_t seed = s ? strtoull(s, NULL, 10) : 20261122;
    print_message("%s: PADDLE_TEST_SEED=%llu\n", name, (unsigned long long)seed);
    return seed;
}

static uint64_t next(uint64_t *state) { return pd_mix64(*state += 0x9e3779b97f4a7c15u); }

static void fill(uint8_t *p, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(next(state) >> 56);
}

/* --- objects --- */

/* Many at once, of all lengths around a block's and of wildly unequal ones, have the ids that they have one by one. */
static void ids_side_by_side_are_ids(void **state) {
    (void)state;
    enum { BYTES = 70000, N = 40 };
    uint64_t rng = seed_of("ids");
    uint8_t *p = malloc(BYTES);
    struct object_bytes v[N];
    struct object_id many[N], one;
    fill(p, BYTES, &rng);
    for (int round = 0; round < 200; round++) {
        size_t n = next(&rng) % (N + 1);
        for (size_t i = 0; i < n; i++) {
            size_t len = 1 + next(&rng) % (round % 3 ? 700 : 60000);
            len = next(&rng) % 3 ? len : (len / 128 + 1) * 128;
            v[i] = (struct object_bytes){p + next(&rng) % 5000, len};
        }
        object_ids_of(many, v, n);
        for (size_t i = 0; i < n; i++) {
            object_id_of(&one, v[i].p, v[i].n);
            if (!object_same(&one, &many[i]))
                fail_msg("round %d: object %zu of %zu, %zu bytes", round, i, n, v[i].n);
        }
    }
    free(p);
}

static void a_record_comes_back_and_damage_is_noticed(void **state) {
    (void)state;
    uint64_t rng = seed_of("records");
    static const size_t sizes[] = {1, 63, 64, 5000, 70000, OBJECT_MAX};
    struct object_codec *c = object_codec_new();
    uint8_t *raw = malloc(OBJECT_MAX);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int text = 0; text < 2; text++) {
            size_t n = sizes[i];
            struct pd_buf b = {0};
            struct object_id id;
            struct object_record r;
            struct pd_err err = {0};
            const uint8_t *back;
            fill(raw, n, &rng);
            for (size_t k = 0; text && k < n; k++)
                raw[k] = "words and "[k % 10];
            object_id_of(&id, raw, n);
            assert_int_equal(object_encode(c, &id, raw, n, &b), 0);
            assert_int_equal(object_encode(c, &id, raw, n, &b), 0);
            const uint8_t *p = b.data, *end = b.data + b.len;
            if (text && n >= 5000)
                assert_true(b.len < n / 2);
            else
                assert_true(b.len <= 2 * (n + OBJECT_HEADER));
            for (int k = 0; k < 2; k++) {
                assert_int_equal(object_next(&p, end, &r, &err), 1);
                assert_int_equal(object_decode(c, &r, &back, &err), 0);
                assert_int_equal(r.raw_len, n);
                assert_memory_equal(back, raw, n);
            }
            assert_int_equal(object_next(&p, end, &r, &err), 0);
            for (int k = 0; k < 60; k++) { /* one bit is wrong, or the end is missing */
                size_t at = next(&rng) % (b.len / 2), bit = next(&rng) % 8;
                struct pd_err why = {0};
                b.data[at] ^= (uint8_t)(1 << bit);
                p = b.data;
                int rc = object_next(&p, b.data + b.len / 2, &r, &why);
                int decoded = rc == 1 ? object_decode(c, &r, &back, &why) : rc;
                if (!decoded) /* zstd has bits that do not matter: then the bytes are right */
                    assert_true(r.raw_len == n && !memcmp(back, raw, n));
                else
                    assert_true(decoded == PD_EPROTO || decoded == PD_EDATA);
                b.data[at] ^= (uint8_t)(1 << bit);
                p = b.data;
                size_t cut = 1 + next(&rng) % (b.len / 2 - 1);
                assert_int_equal(object_next(&p, b.data + cut, &r, &why), PD_EPROTO);
            }
            pd_buf_release(&b);
        }
    free(raw);
    object_codec_free(c);
}

static void a_record_that_unpacks_to_more_is_refused(void **state) {
    (void)state;
    struct object_codec *c = object_codec_new();
    uint8_t *zeros = calloc(1, OBJECT_MAX);
    struct pd_buf b = {0};
    struct object_id id;
    object_id_of(&id, zeros, OBJECT_MAX);
    object_encode(c, &id, zeros, OBJECT_MAX, &b);
    assert_true(b.len < 1000);
    const uint32_t claims = 64 << 10; /* raw_len says less than it unpacks to */
    memcpy(b.data + 32, &claims, 4);
    struct object_record r;
    struct pd_err err = {0};
    const uint8_t *p = b.data, *raw;
    assert_int_equal(object_next(&p, b.data + b.len, &r, &err), 1);
    assert_int_equal(object_decode(c, &r, &raw, &err), PD_EDATA);
    const uint32_t too_many = OBJECT_MAX + 1;
    memcpy(b.data + 32, &too_many, 4);
    p = b.data;
    assert_int_equal(object_next(&p, b.data + b.len, &r, &err), PD_EPROTO);
    pd_buf_release(&b);
    free(zeros);
    object_codec_free(c);
}

/* --- cuts --- */

static void the_gear_table_is_what_it_says(void **state) {
    (void)state;
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(gear[i], pd_mix64(i + 1));
}

static size_t cut_all(const struct chunker *c, const uint8_t *p, size_t n, size_t *at, size_t cap) {
    size_t k = 0;
    for (size_t from = 0; from < n; k++) {
        assert_true(k < cap);
        size_t len = chunker_cut(c, p + from, n - from);
        assert_true(len >= 1 && len <= c->max && len <= n - from && (len >= c->min || from + len == n));
        from += len;
        at[k] = from;
    }
    return k;
}

static void an_edit_moves_few_cuts(void **state) {
    (void)state;
    uint64_t rng = seed_of("cuts");
    enum { N = 4 << 20, CAP = 4096, EDIT = 64 << 10 };
    uint8_t *a = malloc(N + 1000), *b = malloc(N + 1000);
    size_t *x = malloc(CAP * sizeof *x), *y = malloc(CAP * sizeof *y);
    struct chunker c;
    chunker_init(&c, N, 0);
    assert_int_equal(c.mean, 16 << 10);
    fill(a, N, &rng);
    size_t n = cut_all(&c, a, N, x, CAP);
    assert_true(n > N / c.mean / 2 && n < 2 * N / c.mean);
    for (int t = 0; t < 20; t++) {
        size_t at = next(&rng) % (N - EDIT), more = t % 2 ? 1 + next(&rng) % 999 : 0, changed = 0;
        memcpy(b, a, at);
        memcpy(b + at + more, a + at, N - at);
        fill(b + at, more ? more : EDIT, &rng);
        size_t m = cut_all(&c, b, N + more, y, CAP);
        for (size_t i = 0, k = 0; i < m; i++) { /* the new one's pieces that the old one does not have */
            while (k < n && x[k] + (y[i] > at ? more : 0) < y[i])
                k++;
            size_t from = i ? y[i - 1] : 0, was = k ? x[k - 1] + (from > at ? more : 0) : 0;
            int same = k < n && x[k] + (y[i] > at ? more : 0) == y[i] && was == from && (y[i] <= at || from >= at + (more ? more : EDIT));
            changed += same ? 0 : y[i] - from;
        }
        if (changed > (more ? more : EDIT) + 6 * c.max)
            fail_msg("edit %d of %zu bytes at %zu changes %zu bytes of objects", t, more ? more : EDIT, at, changed);
    }
    free(a);
    free(b);
    free(x);
    free(y);
}

static void sizes_grow_with_the_tree(void **state) {
    (void)state;
    static const struct {
        uint64_t file, tree;
        uint32_t mean, max;
    } rows[] = {
        {1, 1, 16 << 10, 64 << 10},
        {UINT64_C(64) << 20, 0, 64 << 10, 256 << 10},
        {UINT64_C(8) << 30, 0, 128 << 10, 256 << 10},
        {1000, UINT64_C(20) << 30, 64 << 10, 256 << 10},
        {1000, UINT64_C(1) << 40, 128 << 10, 256 << 10},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct chunker c;
        chunker_init(&c, rows[i].file, rows[i].tree);
        assert_int_equal(c.mean, rows[i].mean);
        assert_int_equal(c.max, rows[i].max);
        assert_true(c.max <= OBJECT_MAX);
    }
}

/* --- manifests --- */

struct kept {
    struct object_id id;
    uint8_t *raw;
    size_t n;
};

struct objects {
    struct kept *v;
    size_t n, cap;
};

static int keep(void *arg, const struct object_id *id, const void *raw, size_t n, struct pd_err *err) {
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

static int kept_cmp(const void *a, const void *b) { return object_cmp(&((const struct kept *)a)->id, &((const struct kept *)b)->id); }

/* Sorted by write_tree. */
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

/* A digest of all that the events say: equal digests, equal trees. */
struct digest {
    struct pd_buf b;
};

static int dig_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    struct digest *d = arg;
    (void)err;
    assert_int_equal(strlen(e->path), e->path_len);
    pd_put_fmt(&d->b, "%d|%s|%o|%lld|%llu|%s\n", e->type, e->path, e->mode, (long long)e->mtime_ns, (unsigned long long)e->size,
               e->type == MANIFEST_LINK ? e->target : "");
    return 0;
}

static int dig_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct digest *d = arg;
    (void)err;
    pd_put(&d->b, x->id.b, OBJECT_ID);
    pd_put_fmt(&d->b, "|%u|%u|%u|%llu\n", x->raw_len, x->obj_off, x->len, (unsigned long long)x->file_off);
    return 0;
}

static const struct manifest_events digging = {dig_entry, dig_extent};

static void read_below(const struct objects *o, const struct manifest_node *node, struct manifest_reader *r, struct digest *d) {
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

/* A tree of n files in folders, some large: entries to the writer and to the digest. `edited` is a file with other contents. */
static void write_tree(uint64_t seed, int n, int edited, struct objects *o, struct digest *d, struct object_id *root, uint8_t *raw, size_t *raw_len) {
    struct manifest_writer *w;
    struct pd_err err = {0};
    uint64_t rng = seed;
    int in_folder = 0;
    char folder[40] = "";
    assert_int_equal(manifest_writer_new(&w, keep, o, &err), 0);
    for (int i = 0; i < n; i++) {
        char path[200], target[20];
        struct manifest_entry e = {.type = MANIFEST_FILE, .path = path, .mode = 0644, .mtime_ns = (int64_t)next(&rng), .target = target};
        if (!in_folder--) {
            snprintf(folder, sizeof folder, "d%06d", i);
            e.path_len = (size_t)snprintf(path, sizeof path, "%s", folder);
            e.type = MANIFEST_FOLDER;
            e.mode = 01755;
            in_folder = (int)(next(&rng) % 50);
        } else {
            e.path_len = (size_t)snprintf(path, sizeof path, "%s/f-%06d\n'\"\xff%llx", folder, i, (unsigned long long)(next(&rng) % 9999999));
            if (next(&rng) % 20 == 0) {
                e.type = MANIFEST_LINK;
                e.mode = 0777;
                snprintf(target, sizeof target, "../x%d", i);
            }
        }
        unsigned n_extents = e.type != MANIFEST_FILE ? 0 : next(&rng) % 100 ? (unsigned)(next(&rng) % 3) : (unsigned)(next(&rng) % 3000);
        e.size = 0;
        for (unsigned k = 0; k < n_extents; k++)
            e.size += 20000;
        e.size += e.type == MANIFEST_FILE ? 77 : 0;
        if (manifest_add(w, &e, &err))
            fail_msg("%s", err.msg);
        dig_entry(d, &e, NULL);
        for (unsigned k = 0; k < n_extents; k++) {
            uint64_t v[2] = {next(&rng), i == edited && k == n_extents / 2};
            struct manifest_extent x = {.raw_len = 30000, .obj_off = 11, .len = 19000, .file_off = 20000 * (uint64_t)k};
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

/* What an edit costs of the manifest: one leaf and its indexes, not the list of all files. */
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
    {"dotdot inside", {{MANIFEST_FOLDER, "a", 1, 0755, 0, 0, ""}, {MANIFEST_FILE, "a/../../x", 9, 0644, 0, 0, ""}}, "leaves the tree"},
    {"dot", {{MANIFEST_FILE, "./x", 3, 0644, 0, 0, ""}}, "not clean"},
    {"doubled slash", {{MANIFEST_FILE, "a//x", 4, 0644, 0, 0, ""}}, "not clean"},
    {"slash at the end", {{MANIFEST_FOLDER, "a/", 2, 0755, 0, 0, ""}}, "not clean"},
    {"the top folder", {{MANIFEST_FOLDER, ".", 1, 0755, 0, 0, ""}}, "not clean"},
    {"twice", {{MANIFEST_FILE, "x", 1, 0644, 0, 0, ""}, {MANIFEST_LINK, "x", 1, 0777, 0, 0, "y"}}, "twice"},
    {"out of order", {{MANIFEST_FILE, "y", 1, 0644, 0, 0, ""}, {MANIFEST_FILE, "x", 1, 0644, 0, 0, ""}}, "out of order"},
    {"a link as a folder", {{MANIFEST_LINK, "d", 1, 0777, 0, 0, "e"}, {MANIFEST_FILE, "d/x", 3, 0644, 0, 0, ""}}, "not the folder"},
    {"no folder", {{MANIFEST_FILE, "d/x", 3, 0644, 0, 0, ""}}, "not the folder"},
    {"another's folder", {{MANIFEST_FOLDER, "da", 2, 0755, 0, 0, ""}, {MANIFEST_FILE, "da-", 3, 0644, 0, 0, ""}, {MANIFEST_FILE, "daa/x", 5, 0644, 0, 0, ""}}, "not the folder"},
    {"link to /etc", {{MANIFEST_LINK, "x", 1, 0777, 0, 0, "/etc/passwd"}}, "leads out"},
    {"link that leads out", {{MANIFEST_LINK, "x", 1, 0777, 0, 0, "../x"}}, "leads out"},
    {"set-uid", {{MANIFEST_FILE, "x", 1, 04755, 0, 0, ""}}, "set-id"},
    {"set-gid folder", {{MANIFEST_FOLDER, "x", 1, 02755, 0, 0, ""}}, "set-id"},
    {"sticky file", {{MANIFEST_FILE, "x", 1, 01644, 0, 0, ""}}, "mode"},
    {"device", {{(enum manifest_type)5, "x", 1, 0644, 0, 0, ""}}, "not a file, folder or link"},
    {"enormous file", {{MANIFEST_FILE, "x", 1, 0644, 0, UINT64_MAX, ""}}, "says that it has"},
};

static int ignore_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) { return (void)arg, (void)e, (void)err, 0; }
static int ignore_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) { return (void)arg, (void)x, (void)err, 0; }
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

/* The writer refuses them, and the reader refuses the bytes that another writer would have made. */
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

/* A million entries in a few bytes each, and contents that one small object fills a thousand times: as much as the root says, no more. */
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
    manifest_reader_new(&r, &root, &err);
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
    manifest_reader_new(&r, &root, &err);
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
        manifest_reader_new(&r, NULL, &err);
        int rc = manifest_read_leaf(r, copy, len, &ignoring, NULL, &err); /* of exactly `len` bytes: a sanitizer sees more */
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
        cmocka_unit_test(ids_side_by_side_are_ids),
        cmocka_unit_test(a_record_comes_back_and_damage_is_noticed),
        cmocka_unit_test(a_record_that_unpacks_to_more_is_refused),
        cmocka_unit_test(the_gear_table_is_what_it_says),
        cmocka_unit_test(an_edit_moves_few_cuts),
        cmocka_unit_test(sizes_grow_with_the_tree),
        cmocka_unit_test(a_manifest_comes_back),
        cmocka_unit_test(an_edit_changes_few_manifest_objects),
        cmocka_unit_test(hostile_entries_are_refused),
        cmocka_unit_test(more_than_the_root_says_is_refused),
        cmocka_unit_test(damaged_manifests_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
