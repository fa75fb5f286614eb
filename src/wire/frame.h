/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - the frame format of every byte stream of this system: ssh channels, unix sockets, pipes
 * and TCP. docs/protocol.md is the specification; this is the codec.
 *
 *      0  u32 magic "PDL1"            16  u64 total bytes, header and padding included
 *      4  u16 type (enum wire_type)   24  u32 section count (0..4)
 *      6  u16 flags                   28  u32 reserved, 0
 *      8  u64 request id              32  u64[4] length of each section in bytes
 *     64  section 0, padded to 64; section 1, padded to 64; ...
 *
 * Every section begins at a multiple of 64 bytes in the frame, and received frames lie in 64-byte
 * aligned memory. Float and key arrays are therefore used in place. All numbers are little-endian.
 */
#pragma once

#include <sys/uio.h>

#include "thread/pool.h"

enum { WIRE_HEADER = 64, WIRE_ALIGN = 64, WIRE_SECTIONS = 4, WIRE_SHARED_BODY = 64 };
#define WIRE_MAGIC 0x314c4450u /* "PDL1" */

enum wire_flag {
    /* Section 0 is {u32 PD_E* as a positive number, str message, str from}; from: err.h. */
    WIRE_F_ERROR = 1,
    /* The sections are in shared memory; the body is a struct wire_shared_place of WIRE_SHARED_BODY
     * bytes.
     */
    WIRE_F_SHARED = 4,
};

/* A received frame. data: the body, 64-byte aligned. sec[i]: a section in the body, or in shared
 * memory (struct wire_shared_memory); NULL: absent. */
struct wire_frame {
    uint16_t type, flags;
    uint64_t req;
    uint32_t n_sec;
    const uint8_t *sec[WIRE_SECTIONS];
    size_t len[WIRE_SECTIONS];
    uint8_t *data;
    size_t total; /* bytes that the frame has on the wire when no section is in shared memory */
    struct pd_pool *pool;                      /* the pool of its memory, or NULL */
    void (*release)(void *arg, uint32_t turn); /* frees sections in shared memory; else NULL */
    void *release_arg;
    uint32_t turn;
};

void wire_frame_free(struct wire_frame *f); /* NULL is fine */

/* Write the 64-byte header for sections of the given lengths. Returns the total bytes of the frame,
 * including the padding of the last section. */
uint64_t wire_header(uint8_t out[WIRE_HEADER], uint16_t type, uint16_t flags, uint64_t req,
                     uint32_t n_sec, const size_t *len);
/* The same for a frame whose sections are in shared memory, with the body that follows the header.
 */
struct wire_shared_place {
    uint64_t offset;
    uint32_t turn;
    /* 0, or 1 + the index of the section that is in the sender's lent memory, at lent_offset */
    uint32_t lent;
    uint64_t lent_offset;
};
void wire_header_shared(uint8_t out[WIRE_HEADER + WIRE_SHARED_BODY], uint16_t type, uint16_t flags,
                        uint64_t req, uint32_t n_sec, const size_t *len,
                        const struct wire_shared_place *at);
/* The section of a frame with WIRE_F_ERROR. */
void wire_error_put(struct pd_buf *b, const struct pd_err *e);
/* Set `err` to the error that the frame carries, with err->heard. PD_EPROTO: malformed. */
int wire_error_get(const struct wire_frame *f, struct pd_err *err);
static inline size_t wire_pad(size_t n) { return (WIRE_ALIGN - n % WIRE_ALIGN) % WIRE_ALIGN; }

/* The decoder says where to read the next bytes to, and makes frames of them.
 *
 *     uint8_t *p; size_t n;
 *     wire_decoder_space(d, &p, &n);            // large bodies are read in place: no copy
 *     n = read(fd, p, n);
 *     wire_decoder_commit(d, n, err);
 *     while ((f = wire_decoder_next(d))) ...    // the caller frees f: wire_frame_free
 *     rc = wire_decoder_error(d, err);          // PD_EPROTO, PD_ENOMEM: close the connection
 *
 * Frames before the error are still valid. Take all frames before the next wire_decoder_space.
 * wire_decoder_feed copies any amount of bytes instead.
 */
struct wire_decoder;
struct wire_decoder *wire_decoder_new(uint64_t max_frame); /* NULL: out of memory */
/* Memory for the next frames; the pool must outlive the frames. */
void wire_decoder_use_pool(struct wire_decoder *d, struct pd_pool *pool);
void wire_decoder_free(struct wire_decoder *d);
void wire_decoder_limit(struct wire_decoder *d,
                        uint64_t max_frame); /* checked before any allocation */
/* Shared memory of the peer, who may change its bytes at any time. Without this, a frame with
 * WIRE_F_SHARED is an error. The decoder copies every section into memory of the frame, except
 * those of `in_place` (bit i: section i). `at`: n bytes at `offset`, or NULL. The frame uses them
 * until `release` is called: by wire_frame_free, on any thread, or at once if all is copied.
 * `lent`: n bytes of the peer's lent memory, or NULL; called before `at`. */
struct wire_shared_memory {
    unsigned in_place;
    uint8_t *(*lent)(void *arg, uint64_t offset, uint64_t n);
    uint8_t *(*at)(void *arg, uint64_t offset, uint64_t n);
    void (*release)(void *arg, uint32_t turn);
    void *arg;
};
void wire_decoder_share_memory(
    struct wire_decoder *d,
    const struct wire_shared_memory *e); /* NULL: no shared memory any more */
void wire_decoder_space(struct wire_decoder *d, uint8_t **p, size_t *n);
int wire_decoder_commit(struct wire_decoder *d, size_t n, struct pd_err *err);
int wire_decoder_feed(struct wire_decoder *d, const void *p, size_t n,
                      struct pd_err *err); /* copies */
struct wire_frame *wire_decoder_next(struct wire_decoder *d);
int wire_decoder_error(const struct wire_decoder *d, struct pd_err *err);
/* Takes the bytes that follow the last frame: they are no frames. `out` has room for WIRE_STAGE
 * bytes. Returns their number. */
enum { WIRE_STAGE = 64 << 10 };
size_t wire_decoder_take_rest(struct wire_decoder *d, uint8_t *out);
/* Wipes the bytes of earlier frames that the decoder still has in memory of its own. */
void wire_decoder_forget(struct wire_decoder *d);
/* 1: the decoder is between two frames, so the stream may end here. */
int wire_decoder_idle(const struct wire_decoder *d);
