/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - see listing.h. */
#include "launcher/dispatch/listing.h"

#include <sodium.h>

#include "launcher/dispatch/bar.h"
#include "launcher/dispatch/cache.h"
#include "pack/object/chunker.h"

enum { LARGE = 100000000, N_LARGEST = 10, CACHE_MAX = 256 << 20 };

void listing_put_name(struct pd_buf *b, const char *name) {
    size_t bad;
    for (const char *end = name + strlen(name); name < end; name += bad) {
        const size_t ok = pd_printable(name, (size_t)(end - name), &bad);
        pd_put(b, name, ok);
        name += ok;
        if (bad)
            pd_put_u8(b, '?');
    }
}

static char *text_of(struct pd_buf *b) {
    pd_put_u8(b, 0);
    if (!b->failed)
        return (char *)b->data;
    pd_buf_release(b);
    return NULL;
}

char *listing_of_large(const struct scan *s) {
    struct scan_totals t;
    struct pd_buf b = {0};
    size_t v[N_LARGEST];
    char bytes[24];
    scan_get_totals(s, &t);
    if (t.bytes <= LARGE)
        return NULL;
    pd_put_fmt(&b,
               "the workspace has %s in %llu files; the largest ("
               ".paddleignore leaves out what is not needed):",
               bar_bytes(t.bytes, bytes), (unsigned long long)t.files);
    for (size_t i = 0, n = scan_largest(s, v, N_LARGEST); i < n; i++) {
        struct scan_item item;
        scan_item(s, v[i], &item);
        pd_put_fmt(&b, "\n  %10s  ", bar_bytes(item.size, bytes));
        listing_put_name(&b, item.path);
    }
    return text_of(&b);
}

/* --- what was sent before --- */

/* A line "# ROOT" with the package's id, then a line for each entry with contents: its hash, a
 * blank, its path in hex. The hash is that of its objects' ids. */
struct before {
    char hash[33];
    const char *path; /* hex */
};

struct hashing {
    const struct scan *s;
    crypto_generichash_state st;
    uint64_t size;
    int64_t mtime_ns;
};

static void add_object(void *arg, long object) {
    struct hashing *h = arg;
    if (h->size >= CHUNKER_SMALL)
        crypto_generichash_update(&h->st, scan_object_id(h->s, object)->b, OBJECT_ID);
    else
        crypto_generichash_update(&h->st, (const uint8_t *)&h->mtime_ns, sizeof h->mtime_ns);
}

/* Small files share objects with their neighbours: they are compared by size and time. */
static void hash_of(const struct scan *s, size_t i, char hex[33]) {
    struct hashing h = {.s = s};
    struct scan_item item;
    uint8_t out[16];
    scan_item(s, i, &item);
    h.size = item.size;
    h.mtime_ns = item.mtime_ns;
    crypto_generichash_init(&h.st, NULL, 0, sizeof out);
    scan_item_objects(s, i, add_object, &h);
    crypto_generichash_update(&h.st, (const uint8_t *)&item.size, sizeof item.size);
    crypto_generichash_final(&h.st, out, sizeof out);
    pd_hex(hex, out, sizeof out);
}

static int is_listed(const struct scan *s, size_t i, struct scan_item *item) {
    scan_item(s, i, item);
    return item->type == MANIFEST_FILE;
}

/* The first line for this package. */
static void headline(const struct scan *s, char out[2 * OBJECT_ID + 4]) {
    struct object_id id;
    char hex[2 * OBJECT_ID + 1];
    size_t n;
    scan_root(s, &id, &n);
    object_hex(&id, hex);
    pd_fmt(out, 2 * OBJECT_ID + 4, "# %s\n", hex);
}

static int is_remembered(const char *file, const char *head) {
    char first[2 * OBJECT_ID + 4] = "";
    FILE *f = fopen(file, "re");
    int same = f && fgets(first, sizeof first, f) && !strcmp(first, head);
    if (f)
        fclose(f);
    return same;
}

void listing_remember(const struct scan *s, const char *workspace) {
    char file[PATH_MAX], hash[33], hex[2 * NAME_MAX + 1], head[2 * OBJECT_ID + 4];
    struct pd_buf b = {0};
    headline(s, head);
    if (cache_file("sent", workspace, file) || is_remembered(file, head))
        return;
    pd_put(&b, head, strlen(head));
    for (size_t i = 0; i < scan_n_items(s) && !b.failed; i++) {
        struct scan_item item;
        if (!is_listed(s, i, &item))
            continue;
        hash_of(s, i, hash);
        pd_put_fmt(&b, "%s ", hash);
        for (const char *p = item.path; *p; p += strnlen(p, NAME_MAX)) {
            pd_hex(hex, p, strnlen(p, NAME_MAX));
            pd_put(&b, hex, strlen(hex));
        }
        pd_put_u8(&b, '\n');
    }
    if (!b.failed)
        pd_write_file_quick(file, b.data, b.len, 0600, NULL);
    pd_buf_release(&b);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct before *)a)->path, ((const struct before *)b)->path);
}

static struct before *load(const char *workspace, struct pd_buf *text, size_t *n) {
    char file[PATH_MAX];
    struct before *v = NULL;
    size_t cap = 0;
    *n = 0;
    if (cache_file("sent", workspace, file) || pd_read_file(file, CACHE_MAX, text, NULL))
        return NULL;
    for (char *s = (char *)text->data, *end; s && (end = strchr(s, '\n')); s = end + 1) {
        *end = 0;
        if (*s == '#')
            continue;
        if (end - s < 34 || s[32] != ' ')
            break;
        if (pd_grow(v, cap, *n + 1))
            break;
        memcpy(v[*n].hash, s, 32);
        v[*n].hash[32] = 0;
        v[(*n)++].path = s + 33;
    }
    if (*n)
        qsort(v, *n, sizeof *v, by_path);
    return v;
}

/* "new", "changed", or NULL: it was sent before, as it is now. */
static const char *reason_of(const struct scan *s, size_t i, const char *path,
                             const struct before *v, size_t n) {
    char hex[2 * PATH_MAX + 1], hash[33];
    pd_hex(hex, path, strlen(path) < PATH_MAX ? strlen(path) : PATH_MAX);
    struct before key = {.path = hex};
    const struct before *b = n ? bsearch(&key, v, n, sizeof *v, by_path) : NULL;
    if (!b)
        return "new";
    hash_of(s, i, hash);
    return strcmp(hash, b->hash) ? "changed" : NULL;
}

/* --- what is shown --- */

struct listed_file {
    size_t item;
    uint64_t size;
    const char *why;
};

static int by_size(const void *a, const void *b) {
    const struct listed_file *x = a, *y = b;
    return x->size != y->size  ? (x->size < y->size ? 1 : -1)
           : x->item < y->item ? -1
                               : x->item > y->item;
}

static struct listed_file *lines_of(const struct scan *s, const char *workspace, size_t *n) {
    struct pd_buf text = {0};
    size_t n_before;
    struct before *v = load(workspace, &text, &n_before);
    struct listed_file *lines = pd_calloc(scan_n_items(s) + 1, sizeof *lines);
    *n = 0;
    for (size_t i = 0; lines && i < scan_n_items(s); i++) {
        struct scan_item item;
        const char *reason =
            is_listed(s, i, &item) ? reason_of(s, i, item.path, v, n_before) : NULL;
        if (reason)
            lines[(*n)++] = (struct listed_file){i, item.size, reason};
    }
    if (*n)
        qsort(lines, *n, sizeof *lines, by_size);
    free(v);
    pd_buf_release(&text);
    return lines;
}

static void print_line(FILE *out, const char *reason, uint64_t size, const char *path) {
    struct pd_buf b = {0};
    listing_put_name(&b, path);
    fprintf(out, "%-8s %12llu  %.*s\n", reason, (unsigned long long)size, (int)b.len,
            b.len ? (char *)b.data : "");
    pd_buf_release(&b);
}

void listing_print(const struct scan *s, const char *workspace, FILE *out) {
    size_t n;
    uint64_t bytes = 0;
    struct listed_file *v = lines_of(s, workspace, &n);
    struct scan_totals t;
    char x[24], y[24];
    const char *path;
    for (size_t i = 0; v && i < n; i++) {
        struct scan_item item;
        scan_item(s, v[i].item, &item);
        print_line(out, v[i].why, v[i].size, item.path);
        bytes += v[i].size;
    }
    free(v);
    uint64_t size;
    for (size_t i = 0; (path = scan_ignored(s, i, &size)); i++)
        print_line(out, "ignored", size, path);
    scan_get_totals(s, &t);
    fprintf(out,
            "%zu of %llu files are new or changed since the last dispatch from here: %s of %s\n", n,
            (unsigned long long)t.files, bar_bytes(bytes, x), bar_bytes(t.bytes, y));
}

static json_t *name_of(const char *path) {
    json_t *o = json_string(path);
    char *hex = o ? NULL : pd_malloc(2 * strlen(path) + 1);
    if (hex) { /* bytes that are no UTF-8 */
        pd_hex(hex, path, strlen(path));
        o = json_pack("{s:s}", "hex", hex);
    }
    free(hex);
    return o;
}

json_t *listing_json(const struct scan *s, const char *workspace) {
    size_t n;
    struct listed_file *v = lines_of(s, workspace, &n);
    json_t *files = json_array(), *ignored = json_array();
    const char *path;
    uint64_t size;
    for (size_t i = 0; v && i < n; i++) {
        struct scan_item item;
        scan_item(s, v[i].item, &item);
        json_array_append_new(files, json_pack("{s:o, s:I, s:s}", "path", name_of(item.path),
                                               "bytes", (json_int_t)item.size, "why", v[i].why));
    }
    free(v);
    for (size_t i = 0; (path = scan_ignored(s, i, &size)); i++)
        json_array_append_new(
            ignored, json_pack("{s:o, s:I}", "path", name_of(path), "bytes", (json_int_t)size));
    return json_pack("{s:o, s:o}", "files", files, "ignored", ignored);
}
