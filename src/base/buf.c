/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - see buf.h. */

void pd_buf_init(struct pd_buf *b) { memset(b, 0, sizeof *b); }

void pd_buf_release(struct pd_buf *b) {
    free(b->data);
    pd_buf_init(b);
}

void pd_buf_clear(struct pd_buf *b) {
    b->len = 0;
    b->failed = 0;
}

int pd_buf_reserve(struct pd_buf *b, size_t more) {
    if (b->failed)
        return b->failed;
    if (more <= b->cap - b->len)
        return 0;
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->len < more) {
        if (cap > SIZE_MAX / 2)
            return b->failed = PD_ENOMEM;
        cap *= 2;
    }
    uint8_t *p = pd_realloc(b->data, cap);
    if (!p)
        return b->failed = PD_ENOMEM;
    b->data = p;
    b->cap = cap;
    return 0;
}

void pd_put(struct pd_buf *b, const void *p, size_t n) {
    if (n == 0 || pd_buf_reserve(b, n))
        return;
    memcpy(b->data + b->len, p, n);
    b->len += n;
}

void pd_put_u8(struct pd_buf *b, uint8_t v) { pd_put(b, &v, 1); }

void pd_put_u16(struct pd_buf *b, uint16_t v) {
    uint8_t x[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    pd_put(b, x, 2);
}

void pd_put_u32(struct pd_buf *b, uint32_t v) {
    uint8_t x[4];
    for (int i = 0; i < 4; i++)
        x[i] = (uint8_t)(v >> (8 * i));
    pd_put(b, x, 4);
}

void pd_put_u64(struct pd_buf *b, uint64_t v) {
    uint8_t x[8];
    for (int i = 0; i < 8; i++)
        x[i] = (uint8_t)(v >> (8 * i));
    pd_put(b, x, 8);
}

void pd_put_f32(struct pd_buf *b, float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    pd_put_u32(b, u);
}

void pd_put_f64(struct pd_buf *b, double v) {
    uint64_t u;
    memcpy(&u, &v, 8);
    pd_put_u64(b, u);
}

void pd_put_blob(struct pd_buf *b, const void *p, size_t n) {
    if (n > UINT32_MAX) {
        b->failed = PD_ENOMEM;
        return;
    }
    pd_put_u32(b, (uint32_t)n);
    pd_put(b, p, n);
}

void pd_put_str(struct pd_buf *b, const char *s) { pd_put_blob(b, s, strlen(s)); }

void pd_put_fmt(struct pd_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || pd_buf_reserve(b, (size_t)n + 1))
        return;
    va_start(ap, fmt);
    vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void pd_put_quoted(struct pd_buf *b, const char *word) {
    pd_put_u8(b, '\'');
    for (; *word; word++)
        if (*word == '\'')
            pd_put(b, "'\\''", 4);
        else
            pd_put_u8(b, (uint8_t)*word);
    pd_put_u8(b, '\'');
}

void pd_reader_init(struct pd_reader *r, const void *p, size_t n) {
    r->p = p;
    r->end = n ? r->p + n : r->p;
    r->failed = 0;
}

const uint8_t *pd_get(struct pd_reader *r, size_t n) {
    if (r->failed || n > (size_t)(r->end - r->p)) {
        r->failed = 1;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    return p;
}

static uint64_t get_le(struct pd_reader *r, size_t n) {
    const uint8_t *p = pd_get(r, n);
    uint64_t v = 0;
    for (size_t i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t pd_get_u8(struct pd_reader *r) { return (uint8_t)get_le(r, 1); }
uint16_t pd_get_u16(struct pd_reader *r) { return (uint16_t)get_le(r, 2); }
uint32_t pd_get_u32(struct pd_reader *r) { return (uint32_t)get_le(r, 4); }
uint64_t pd_get_u64(struct pd_reader *r) { return get_le(r, 8); }

float pd_get_f32(struct pd_reader *r) {
    uint32_t u = pd_get_u32(r);
    float v;
    memcpy(&v, &u, 4);
    return v;
}

double pd_get_f64(struct pd_reader *r) {
    uint64_t u = pd_get_u64(r);
    double v;
    memcpy(&v, &u, 8);
    return v;
}

const uint8_t *pd_get_blob(struct pd_reader *r, size_t *n) {
    uint32_t len = pd_get_u32(r);
    const uint8_t *p = pd_get(r, len);
    *n = p ? len : 0;
    return p;
}

void pd_get_str(struct pd_reader *r, char *out, size_t cap) {
    size_t n;
    const uint8_t *p = pd_get_blob(r, &n);
    if (p && (n >= cap || memchr(p, 0, n))) {
        r->failed = 1;
        n = 0;
    }
    if (p && n)
        memcpy(out, p, n);
    out[p ? n : 0] = 0;
}

int pd_reader_done(const struct pd_reader *r) { return !r->failed && r->p == r->end; }
