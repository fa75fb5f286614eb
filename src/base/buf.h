/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - a growable byte buffer for writing messages, and a bounded reader for taking them apart.
 *
 * All integers are little-endian. Both sides have a sticky error: write or read a whole message,
 * then check once. After an error a reader returns zeros and empty spans, never bytes outside its
 * span.
 */
#pragma once

struct pd_buf {
    uint8_t *data;
    size_t len, cap;
    int failed; /* PD_ENOMEM once an append could not be stored */
};

struct pd_bytes { /* borrowed */
    const void *p;
    size_t n;
};

void pd_buf_init(struct pd_buf *b);
void pd_buf_release(struct pd_buf *b);
void pd_buf_clear(struct pd_buf *b);               /* keeps the memory */
int pd_buf_reserve(struct pd_buf *b, size_t more); /* 0 or PD_ENOMEM */
void pd_put(struct pd_buf *b, const void *p, size_t n);
void pd_put_u8(struct pd_buf *b, uint8_t v);
void pd_put_u16(struct pd_buf *b, uint16_t v);
void pd_put_u32(struct pd_buf *b, uint32_t v);
void pd_put_u64(struct pd_buf *b, uint64_t v);
void pd_put_f32(struct pd_buf *b, float v);
void pd_put_f64(struct pd_buf *b, double v);
void pd_put_str(struct pd_buf *b, const char *s); /* u32 length, bytes; no NUL on the wire */
void pd_put_blob(struct pd_buf *b, const void *p, size_t n); /* u32 length, bytes */
void pd_put_fmt(struct pd_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* text */
/* Text as one word of a shell: 'it'\''s'. */
void pd_put_quoted(struct pd_buf *b, const char *word);

struct pd_reader {
    const uint8_t *p, *end;
    int failed; /* 1 once a read passed the end or a limit */
};

void pd_reader_init(struct pd_reader *r, const void *p, size_t n);
uint8_t pd_get_u8(struct pd_reader *r);
uint16_t pd_get_u16(struct pd_reader *r);
uint32_t pd_get_u32(struct pd_reader *r);
uint64_t pd_get_u64(struct pd_reader *r);
float pd_get_f32(struct pd_reader *r);
double pd_get_f64(struct pd_reader *r);
const uint8_t *pd_get(struct pd_reader *r, size_t n); /* n bytes in place, or NULL */
/* Copies a string of at most cap-1 bytes into `out` and ends it with a NUL. A longer string or a
 * string that contains a NUL is an error. */
void pd_get_str(struct pd_reader *r, char *out, size_t cap);
const uint8_t *pd_get_blob(struct pd_reader *r, size_t *n); /* in place; NULL and 0 on failure */
int pd_reader_done(const struct pd_reader *r);              /* 1: no failure and nothing left */
