/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - see object.h. */
#include "pack/object/object.h"

#include <sodium.h>
#include <zstd.h>

#include "pack/object/object_ids.h"

enum { SAMPLE = 4 << 10, LEVEL = 1, READ = 256 << 10 };

struct object_codec {
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
    uint8_t *raw;               /* OBJECT_BATCH unpacked objects */
    uint8_t packed[OBJECT_MAX]; /* larger results are not worth storing */
};

void object_id_of(struct object_id *id, const void *raw, size_t n) {
    crypto_generichash(id->b, OBJECT_ID, raw, n, NULL, 0);
}

void object_hex(const struct object_id *id, char hex[2 * OBJECT_ID + 1]) {
    pd_hex(hex, id->b, OBJECT_ID);
}

int object_hex_of_fd(int fd, const char *path, char hex[2 * OBJECT_ID + 1], struct pd_err *err) {
    crypto_generichash_state h;
    struct object_id id;
    uint8_t *buf = pd_malloc(READ);
    ssize_t n = 1;
    if (!buf)
        return pd_oom(err, "a file's hash");
    crypto_generichash_init(&h, NULL, 0, OBJECT_ID);
    while (n > 0 && (n = pd_read_full(fd, buf, READ)) > 0)
        crypto_generichash_update(&h, buf, (size_t)n);
    free(buf);
    if (n < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", path);
    crypto_generichash_final(&h, id.b, OBJECT_ID);
    object_hex(&id, hex);
    return 0;
}

int object_hex_of_file(const char *path, char hex[2 * OBJECT_ID + 1], struct pd_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot open %s",
                             path);
    int rc = object_hex_of_fd(fd, path, hex, err);
    close(fd);
    return rc;
}

struct object_codec *object_codec_new(void) {
    struct object_codec *c = pd_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->c = ZSTD_createCCtx();
    c->d = ZSTD_createDCtx();
    if (!c->c || !c->d) {
        object_codec_free(c);
        return NULL;
    }
    return c;
}

void object_codec_free(struct object_codec *c) {
    if (!c)
        return;
    ZSTD_freeCCtx(c->c);
    ZSTD_freeDCtx(c->d);
    free(c->raw);
    free(c);
}

/* Compresses into `packed`. Returns the size, or 0 if it saves too little. A sample from the middle
 * decides quickly: most large files have uniform contents. */
static size_t compress(struct object_codec *c, const uint8_t *raw, size_t n) {
    if (n < 64)
        return 0;
    if (n > 2 * SAMPLE) {
        size_t k = ZSTD_compressCCtx(c->c, c->packed, sizeof c->packed, raw + n / 2 - SAMPLE / 2,
                                     SAMPLE, LEVEL);
        if (ZSTD_isError(k) || k > SAMPLE - SAMPLE / 16)
            return 0;
    }
    size_t k = ZSTD_compressCCtx(c->c, c->packed, sizeof c->packed, raw, n, LEVEL);
    return ZSTD_isError(k) || k > n - n / 16 ? 0 : k;
}

/* `packed`: size after compression, or 0 if stored raw. */
static void put_header(struct pd_buf *out, const struct object_id *id, size_t n, size_t packed) {
    pd_put(out, id->b, OBJECT_ID);
    pd_put_u32(out, (uint32_t)n);
    pd_put_u32(out, (uint32_t)(packed ? packed : n));
    pd_put_u32(out, packed ? OBJECT_F_ZSTD : 0);
    pd_put_u32(out, 0);
}

int object_encode(struct object_codec *c, const struct object_id *id, const void *raw, size_t n,
                  struct pd_buf *out) {
    size_t k = compress(c, raw, n);
    if (pd_buf_reserve(out, OBJECT_HEADER + (k ? k : n)))
        return PD_ENOMEM;
    put_header(out, id, n, k);
    pd_put(out, k ? c->packed : raw, k ? k : n);
    return out->failed;
}

size_t object_encode_here(struct object_codec *c, const struct object_id *id, uint8_t *record,
                          size_t n) {
    struct pd_buf header = {.data = record, .cap = OBJECT_HEADER};
    size_t k = compress(c, record + OBJECT_HEADER, n);
    put_header(&header, id, n, k);
    if (k)
        memcpy(record + OBJECT_HEADER, c->packed, k);
    return OBJECT_HEADER + (k ? k : n);
}

int object_next(const uint8_t **p, const uint8_t *end, struct object_record *r,
                struct pd_err *err) {
    if (*p == end)
        return 0;
    struct pd_reader rd;
    pd_reader_init(&rd, *p, (size_t)(end - *p));
    const uint8_t *id = pd_get(&rd, OBJECT_ID);
    r->raw_len = pd_get_u32(&rd);
    r->stored_len = pd_get_u32(&rd);
    r->flags = pd_get_u32(&rd);
    uint32_t zero = pd_get_u32(&rd);
    if (rd.failed)
        return pd_fail(err, PD_EPROTO, "an object is cut off");
    if (!r->raw_len || r->raw_len > OBJECT_MAX || !r->stored_len || r->stored_len > r->raw_len ||
        zero)
        return pd_fail(err, PD_EPROTO, "an object can't have %u bytes (%u stored)", r->raw_len,
                       r->stored_len);
    if (r->flags & ~(uint32_t)OBJECT_F_ZSTD || (!r->flags && r->stored_len != r->raw_len))
        return pd_fail(err, PD_EPROTO, "an object has flags %u", r->flags);
    r->stored = pd_get(&rd, r->stored_len);
    if (rd.failed)
        return pd_fail(err, PD_EPROTO, "an object is cut off");
    memcpy(r->id.b, id, OBJECT_ID);
    *p = rd.p;
    return 1;
}

/* Returns the record's raw bytes, not verified yet; compressed bytes are unpacked into part i of
 * the scratch. */
static const uint8_t *unpack(struct object_codec *c, const struct object_record *r, size_t i,
                             struct pd_err *err) {
    if (!(r->flags & OBJECT_F_ZSTD))
        return r->stored;
    /* Pages are touched only as needed. */
    if (!c->raw && !(c->raw = pd_malloc((size_t)OBJECT_BATCH * OBJECT_MAX))) {
        pd_oom(err, "an object");
        return NULL;
    }
    uint8_t *raw = c->raw + i * OBJECT_MAX;
    size_t k = ZSTD_decompressDCtx(c->d, raw, r->raw_len, r->stored, r->stored_len);
    if (!ZSTD_isError(k) && k == r->raw_len)
        return raw;
    pd_fail(err, PD_EDATA, "an object arrived damaged: it does not unpack to %u bytes", r->raw_len);
    return NULL;
}

int object_decode_all(struct object_codec *c, const struct object_record *r, size_t n,
                      const uint8_t **raw, struct pd_err *err) {
    struct object_bytes v[OBJECT_BATCH];
    struct object_id id[OBJECT_BATCH];
    if (!n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!(raw[i] = unpack(c, &r[i], i, err)))
            return err ? err->code : PD_EDATA;
        v[i] = (struct object_bytes){raw[i], r[i].raw_len};
    }
    object_ids_of(id, v, n);
    for (size_t i = 0; i < n; i++)
        if (!object_same(&id[i], &r[i].id)) {
            char hex[2 * OBJECT_ID + 1];
            object_hex(&r[i].id, hex);
            return pd_fail(err, PD_EDATA, "an object arrived damaged: it is not %.16s", hex);
        }
    return 0;
}

int object_decode(struct object_codec *c, const struct object_record *r, const uint8_t **raw,
                  struct pd_err *err) {
    return object_decode_all(c, r, 1, raw, err);
}
