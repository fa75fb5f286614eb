/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest.c - libFuzzer: records of objects, roots, indexes and leaves against arbitrary
 * bytes. What a leaf's reader hands on must hold to the rules, whatever the bytes were. */
#include "pack/object/manifest.h"
#include "pack/object/object.h"
#include "pack/object/path.h"
#include "tests/support/fuzz/fuzz.h"

struct seen {
    char last[5000];
    uint64_t size, end;
};

static int on_entry(void *arg, const struct manifest_entry *e, struct pd_err *err) {
    struct seen *s = arg;
    (void)err;
    if (e->path[0] == '/' || !e->path_len || strlen(e->path) != e->path_len || e->path_len > 4095 ||
        strstr(e->path, "//") || !strncmp(e->path, "../", 3) || strstr(e->path, "/../") ||
        e->mode & 06000 || e->size > MANIFEST_BYTES)
        abort();
    if (s->last[0] && manifest_path_cmp(s->last, e->path) >= 0)
        abort();
    if (e->type == MANIFEST_LINK &&
        (e->target[0] == '/' || pack_check_link(e->path, e->target, NULL)))
        abort();
    memcpy(s->last, e->path, e->path_len + 1);
    s->size = e->type == MANIFEST_FILE ? e->size : 0;
    s->end = 0;
    return 0;
}

static int on_extent(void *arg, const struct manifest_extent *x, struct pd_err *err) {
    struct seen *s = arg;
    (void)err;
    if (!x->len || x->raw_len > OBJECT_MAX || x->obj_off + x->len > x->raw_len ||
        x->file_off < s->end || x->file_off + x->len > s->size)
        abort();
    s->end = x->file_off + x->len;
    return 0;
}

FUZZ(in) {
    const uint8_t *data = in->p;
    const size_t size = fuzz_left(in);
    static const struct manifest_events ev = {on_entry, on_extent};
    struct manifest_node node;
    struct manifest_reader *r = NULL;
    struct seen s = {.last = ""};
    if (!size)
        return;
    const uint8_t *p = data + 1, *end = data + size;
    switch (data[0] % 4) {
    case 0: {
        struct object_codec *c = object_codec_new();
        struct object_record rec;
        const uint8_t *raw;
        while (object_next(&p, end, &rec, NULL) == 1)
            if (!object_decode(c, &rec, &raw, NULL) && raw[0] + raw[rec.raw_len - 1] > 510)
                break;
        object_codec_free(c);
        break;
    }
    case 1:
        (void)manifest_read_root(&node, p, (size_t)(end - p), NULL);
        break;
    case 2:
        (void)manifest_read_index(&node, 1 + data[0] / 4 % 6, p, (size_t)(end - p), NULL);
        break;
    default:
        if (manifest_reader_new(&r, NULL, NULL))
            return;
        (void)(manifest_read_leaf(r, p, (size_t)(end - p) / 2, &ev, &s, NULL) ||
               manifest_read_leaf(r, p + (end - p) / 2, (size_t)(end - p) - (size_t)(end - p) / 2,
                                  &ev, &s, NULL));
        manifest_reader_free(r);
    }
}
