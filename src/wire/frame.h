/* frame.h - the one frame format that every byte stream of this system carries: ssh channels, unix
 * sockets, pipes and TCP. docs/protocol.md is the norm; this is its codec.
 *
 *      0  u32 magic "PDL1"            16  u64 total bytes, header and padding included
 *      4  u16 type (enum wire_type)   24  u32 section count (0..4)
 *      6  u16 flags                   28  u32 reserved, 0
 *      8  u64 request id              32  u64[4] length of each section in bytes
 *     64  section 0, padded to 64; section 1, padded to 64; ...
 *
 * Every section begins at a multiple of 64 bytes of the frame, and frames are received into 64-byte
 * aligned memory, so float and key arrays are used where they arrived. All numbers are
 * little-endian.
 */
#ifndef PD_WIRE_FRAME_H
#define PD_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "thread/pool.h"

enum { WIRE_HEADER = 64, WIRE_ALIGN = 64, WIRE_SECTIONS = 4, WIRE_ELSEWHERE = 64 };
#define WIRE_MAGIC 0x314c4450u /* "PDL1" */

enum wire_flag {
    WIRE_F_ERROR = 1,     /* section 0 is {u32 PD_E* as a positive number, str message} */
    WIRE_F_ELSEWHERE = 4, /* the sections lie in memory that both share: WIRE_ELSEWHERE bytes say
                             where (struct wire_place) */
    WIRE_F_SEALED = 2,    /* reserved for encrypted sections; refused until a version defines it */
};

/* A received frame. `data` is the body (64-byte aligned); sec[i] points into it or is NULL when
 * absent. */
struct wire_frame {
    uint16_t type, flags;
    uint64_t req;
    uint32_t n_sec;
    const uint8_t *sec[WIRE_SECTIONS];
    size_t len[WIRE_SECTIONS];
    uint8_t *data;
    size_t total; /* bytes on the wire, or that there would be were the sections not elsewhere */
    struct pd_pool *pool;                      /* that its memory came from, or NULL */
    void (*release)(void *arg, uint32_t turn); /* of sections elsewhere; else NULL */
    void *release_arg;
    uint32_t turn;
};

void wire_frame_free(struct wire_frame *f); /* NULL is fine */

/* Write the 64-byte header for sections of the given lengths. Returns the frame's total bytes,
 * padding of the last section included. */
uint64_t wire_header(uint8_t out[WIRE_HEADER], uint16_t type, uint16_t flags, uint64_t req,
                     uint32_t n_sec, const size_t *len);
/* The same of a frame whose sections are elsewhere, and what follows its header. */
struct wire_place {
    uint64_t offset;
    uint32_t turn;
    uint32_t lent; /* 0, or 1 + the section that is not among the others but lies in what the sender
                      lends, at lent_offset */
    uint64_t lent_offset;
};
void wire_header_elsewhere(uint8_t out[WIRE_HEADER + WIRE_ELSEWHERE], uint16_t type, uint16_t flags,
                           uint64_t req, uint32_t n_sec, const size_t *len,
                           const struct wire_place *at);
static inline size_t wire_pad(size_t n) { return (WIRE_ALIGN - n % WIRE_ALIGN) % WIRE_ALIGN; }

/* The decoder: where the next bytes should be read to, and what came of them.
 *
 *     uint8_t *p; size_t n;
 *     wire_decoder_space(d, &p, &n);            // large bodies are read in place: no copy
 *     n = read(fd, p, n);
 *     wire_decoder_commit(d, n, err);
 *     while ((f = wire_decoder_next(d))) ...    // the frame is yours: wire_frame_free
 *     rc = wire_decoder_error(d, err);          // PD_EPROTO, PD_ENOMEM (behind good frames): close
 * the connection
 *
 * All frames must be taken before space is called again. wire_decoder_feed copies any amount of
 * bytes instead.
 */
struct wire_decoder;
struct wire_decoder *wire_decoder_new(uint64_t max_frame); /* NULL: out of memory */
void wire_decoder_use_pool(struct wire_decoder *d,
                           struct pd_pool *pool); /* for frames from now on; it outlives them */
void wire_decoder_free(struct wire_decoder *d);
void wire_decoder_limit(struct wire_decoder *d,
                        uint64_t max_frame); /* checked before any allocation */
/* Where the sections of WIRE_F_ELSEWHERE are, which without it no frame may have. `at`: n bytes, or
 * NULL; the frame then has them until `release`, which wire_frame_free calls from whatever thread
 * it is called. `lent`: n bytes of what the peer lends, or NULL; asked first. */
struct wire_elsewhere {
    uint8_t *(*lent)(void *arg, uint64_t offset, uint64_t n);
    uint8_t *(*at)(void *arg, uint64_t offset, uint64_t n);
    void (*release)(void *arg, uint32_t turn);
    void *arg;
};
void wire_decoder_elsewhere(struct wire_decoder *d,
                            const struct wire_elsewhere *e); /* NULL: no more */
void wire_decoder_space(struct wire_decoder *d, uint8_t **p, size_t *n);
int wire_decoder_commit(struct wire_decoder *d, size_t n, struct pd_err *err);
int wire_decoder_feed(struct wire_decoder *d, const void *p, size_t n,
                      struct pd_err *err); /* copies */
struct wire_frame *wire_decoder_next(struct wire_decoder *d);
int wire_decoder_error(const struct wire_decoder *d, struct pd_err *err);
int wire_decoder_idle(
    const struct wire_decoder *d); /* 1: between two frames, so the stream may end here */

#endif
