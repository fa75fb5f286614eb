/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - objects: the pieces of a package, and their records on the wire. docs/protocol.md,
 * "Objects".
 *
 * An object is 1 byte to 256 KiB of raw bytes; its id is their BLAKE2b-256 (libsodium
 * crypto_generichash). File contents, manifests and indexes all travel as objects, in RECORDS:
 *
 *      0  id, 32 bytes        36  u32 stored_len            44  u32 0
 *     32  u32 raw_len         40  u32 flags (1: zstd)       48  stored_len bytes
 *
 * Records follow each other without padding; all numbers are little-endian.
 */
#pragma once

enum {
    OBJECT_MAX = 256 << 10, /* raw bytes */
    OBJECT_ID = 32,
    OBJECT_HEADER = 48,
    OBJECT_F_ZSTD = 1,
};

struct object_id {
    uint8_t b[OBJECT_ID];
};

static inline int object_same(const struct object_id *a, const struct object_id *b) {
    return !memcmp(a, b, sizeof *a);
}
static inline int object_cmp(const struct object_id *a, const struct object_id *b) {
    return memcmp(a, b, sizeof *a);
}
/* Ids are uniformly distributed, so their first bytes serve as a hash for tables. */
static inline uint64_t object_hash64(const struct object_id *id) {
    uint64_t v;
    memcpy(&v, id->b, sizeof v);
    return v;
}

void object_id_of(struct object_id *id, const void *raw, size_t n);
/* The hash of a file in hex, as printed by `b2sum -l 256`. PD_ENOENT, PD_EIO. */
int object_hex_of_file(const char *path, char hex[2 * OBJECT_ID + 1], struct pd_err *err);
int object_hex_of_fd(int fd, const char *path, char hex[2 * OBJECT_ID + 1], struct pd_err *err);
void object_hex(const struct object_id *id, char hex[2 * OBJECT_ID + 1]);

/* Reusable state for encoding and decoding: zstd contexts and scratch memory. One per thread; NULL:
 * out of memory. */
struct object_codec;
struct object_codec *object_codec_new(void);
void object_codec_free(struct object_codec *c);

/* Appends the record of `raw` (1..OBJECT_MAX bytes with this id) to `out`. zstd is tried if a
 * sample compresses well, and used if it saves at least 1/16. Fails only without memory: then
 * out->failed is set and PD_ENOMEM returned. */
int object_encode(struct object_codec *c, const struct object_id *id, const void *raw, size_t n,
                  struct pd_buf *out);
/* The same in place: the object's n bytes are at record + OBJECT_HEADER. Returns the length of the
 * record. */
size_t object_encode_here(struct object_codec *c, const struct object_id *id, uint8_t *record,
                          size_t n);

/* A record in received bytes; `stored` points into them. */
struct object_record {
    struct object_id id;
    uint32_t raw_len, stored_len, flags;
    const uint8_t *stored;
};

/* Takes the next record off [*p, end). 1: a record, *p is behind it; 0: the end; PD_EPROTO: not a
 * record (too long, cut off, unknown flags). Allocates nothing. */
int object_next(const uint8_t **p, const uint8_t *end, struct object_record *r, struct pd_err *err);

/* Decodes a record and checks its id. *raw points to r->raw_len bytes in the record or in the
 * codec's scratch, valid until the codec is used again. PD_EDATA: damaged. */
int object_decode(struct object_codec *c, const struct object_record *r, const uint8_t **raw,
                  struct pd_err *err);
/* The same for n <= OBJECT_BATCH records: raw[i] of r[i]. Hashing several objects at once is
 * faster. */
enum { OBJECT_BATCH = 16 };
int object_decode_all(struct object_codec *c, const struct object_record *r, size_t n,
                      const uint8_t **raw, struct pd_err *err);
