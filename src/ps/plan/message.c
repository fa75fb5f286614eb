/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - see message.h. */
#include "ps/plan/message.h"

/* --- writing: h is section 0, b the body, m the message --- */

static void put_section(struct ps_body *b, uint32_t i, const void *p, size_t bytes) {
    b->sec[i] = p;
    b->len[i] = bytes;
    if (bytes)
        b->n = i + 1;
}

static void put_sums(struct pd_buf *h, const struct ps_pass_sums *sums) {
    pd_put_u64(h, sums->steps);
    pd_put_u64(h, sums->samples);
    pd_put(h, sums->stats, sizeof sums->stats);
}

static size_t n_step_words(uint32_t n_stats, uint32_t n_parts) {
    return n_parts ? (size_t)n_parts * (1 + n_stats) : n_stats;
}

#define PUT_u32(name, most) pd_put_u32(h, m->name);
#define PUT_u64(name, most) pd_put_u64(h, m->name);
#define PUT_f32(name, x) pd_put_f32(h, m->name);
#define PUT_f64(name, x) pd_put_f64(h, m->name);
#define PUT_zero(name, most) pd_put_u32(h, 0);
#define PUT_str(name, cap) pd_put_str(h, m->name);
#define PUT_hash(name, bytes) pd_put(h, m->name, bytes);
#define PUT_blob(name, most) pd_put_blob(h, m->name, m->n_##name);
#define PUT_f64s(name, count) pd_put(h, m->name, m->count * sizeof *m->name);
#define PUT_u32s(name, count) pd_put(h, m->name, m->count * sizeof *m->name);
#define PUT_u8s(name, count) pd_put(h, m->name, m->count);
#define PUT_u64_bytes(name, count) pd_put(h, m->name, m->count * sizeof(uint64_t));
#define PUT_f64_bytes PUT_u64_bytes
#define PUT_segments(name, count) pd_put(h, m->name, m->count * sizeof *m->name);
#define PUT_rest(name, most) pd_put(h, m->name, m->n_##name * sizeof *m->name);
#define PUT_sums(name, x) put_sums(h, &m->name);
#define PUT_step_parts(name, x) pd_put(h, m->name, n_step_words(m->n_stats, m->n_parts) * 8);
#define PUT_list(name, element) \
    pd_put_u32(h, m->n_##name); \
    pd_put(h, m->name, m->name##_bytes);
#define PUT_SECTION(name, section) put_section(b, section, m->name, m->n_##name * sizeof *m->name);
#define PUT_keys PUT_SECTION
#define PUT_floats PUT_SECTION
#define PUT_words PUT_SECTION
#define PUT_bytes PUT_SECTION
#define PUT(kind, name, bound) PUT_##kind(name, bound)

#define DEFINE_PUT(body, label)                                            \
    void ps_put_##body(struct ps_body *b, const struct ps_msg_##body *m) { \
        struct pd_buf *h = b->head;                                        \
        pd_buf_clear(h);                                                   \
        *b = (struct ps_body){.head = h, .n = 1};                          \
        (void)m;                                                           \
        PS_FIELDS_##body(PUT) b->sec[0] = h->data;                         \
        b->len[0] = h->len;                                                \
    }
PS_BODIES(DEFINE_PUT)

#define DEFINE_APPEND(element)                                                     \
    void ps_append_##element(struct pd_buf *h, const struct ps_msg_##element *m) { \
        PS_FIELDS_##element(PUT)                                                   \
    }
PS_ELEMENTS(DEFINE_APPEND)

/* --- reading: r is section 0 with the first field that was wrong --- */

struct reader {
    struct pd_reader rd;
    const struct ps_body *body;
    const char *wrong;    /* first wrong field; NULL: none yet */
    uint64_t value, most; /* if most is not 0: value of `wrong`, and the bound that it exceeds */
    uint32_t seen;        /* bit i: section i belongs to the body */
};

static void check(struct reader *r, const char *name, int ok) {
    if (r->wrong || (ok && !r->rd.failed))
        return;
    r->rd.failed = 1;
    r->wrong = name;
}

static uint64_t get_number(struct reader *r, const char *name, int bytes, uint64_t most) {
    const uint64_t v = bytes == 4 ? pd_get_u32(&r->rd) : pd_get_u64(&r->rd);
    if (!r->wrong && v > most) {
        r->value = v;
        r->most = most;
    }
    check(r, name, v <= most);
    return v;
}

static const char *get_str(struct reader *r, const char *name, char *out, size_t cap) {
    pd_get_str(&r->rd, out, cap);
    check(r, name, 1);
    return out;
}

static const void *get_array(struct reader *r, const char *name, uint64_t n, size_t size) {
    const uint64_t left = (uint64_t)(r->rd.end - r->rd.p);
    check(r, name, n <= left / size);
    return r->wrong ? NULL : pd_get(&r->rd, n * size);
}

static void get_hash(struct reader *r, const char *name, uint8_t *out, size_t n) {
    const uint8_t *p = get_array(r, name, n, 1);
    if (p)
        memcpy(out, p, n);
    else
        memset(out, 0, n);
}

static const uint8_t *get_blob(struct reader *r, const char *name, uint32_t *n, uint32_t most) {
    *n = (uint32_t)get_number(r, name, 4, most);
    const uint8_t *p = get_array(r, name, *n, 1);
    *n = p ? *n : 0;
    return p;
}

static const double *get_rest(struct reader *r, const char *name, uint32_t *n, uint32_t most) {
    const size_t left = (size_t)(r->rd.end - r->rd.p);
    check(r, name, left % sizeof(double) == 0 && left / sizeof(double) <= most);
    *n = r->wrong ? 0 : (uint32_t)(left / sizeof(double));
    return get_array(r, name, *n, sizeof(double));
}

static void get_sums(struct reader *r, const char *name, struct ps_pass_sums *out) {
    out->steps = pd_get_u64(&r->rd);
    out->samples = pd_get_u64(&r->rd);
    for (int i = 0; i < PS_STATS_MAX; i++)
        out->stats[i] = pd_get_f64(&r->rd);
    check(r, name, 1);
}

static void get_segments(struct reader *r, const char *name, uint32_t n,
                         const struct ps_segment_head **out) {
    *out = get_array(r, name, n, sizeof **out);
    for (uint32_t i = 0; *out && i < n; i++)
        check(r, name, (*out)[i].zero == 0);
}

static void get_section(struct reader *r, const char *name, uint32_t i, size_t size, size_t *n) {
    r->seen |= 1u << i;
    check(r, name, r->body->len[i] % size == 0);
    *n = r->wrong ? 0 : r->body->len[i] / size;
}

#define GET_u32(name, most) m->name = (uint32_t)get_number(r, #name, 4, most);
#define GET_u64(name, most) m->name = get_number(r, #name, 8, most);
#define GET_f32(name, x)          \
    m->name = pd_get_f32(&r->rd); \
    check(r, #name, 1);
#define GET_f64(name, x)          \
    m->name = pd_get_f64(&r->rd); \
    check(r, #name, 1);
#define GET_zero(name, most) (void)get_number(r, #name, 4, 0);
#define GET_str(name, cap) m->name = get_str(r, #name, m->name##_text, cap);
#define GET_hash(name, bytes) get_hash(r, #name, m->name, bytes);
#define GET_blob(name, most) m->name = get_blob(r, #name, &m->n_##name, most);
#define GET_f64s(name, count) m->name = get_array(r, #name, m->count, sizeof *m->name);
#define GET_u32s(name, count) m->name = get_array(r, #name, m->count, sizeof *m->name);
#define GET_u8s(name, count) m->name = get_array(r, #name, m->count, 1);
#define GET_u64_bytes(name, count) m->name = get_array(r, #name, m->count, sizeof(uint64_t));
#define GET_f64_bytes GET_u64_bytes
#define GET_segments(name, count) get_segments(r, #name, m->count, &m->name);
#define GET_rest(name, most) m->name = get_rest(r, #name, &m->n_##name, most);
#define GET_sums(name, x) get_sums(r, #name, &m->name);
#define GET_step_parts(name, x) \
    m->name = get_array(r, #name, n_step_words(m->n_stats, m->n_parts), sizeof *m->name);
#define GET_list(name, element)                                \
    m->n_##name = (uint32_t)get_number(r, #name, 4, PS_ANY32); \
    m->name = r->rd.p;                                         \
    get_list(r, #name, m->n_##name, skip_##element);           \
    m->name##_bytes = (size_t)(r->rd.p - m->name);
#define GET_SECTION(name, section)                 \
    m->name = (const void *)r->body->sec[section]; \
    get_section(r, #name, section, sizeof *m->name, &m->n_##name);
#define GET_COPIED(name, section)                                              \
    _Static_assert(!(PS_IN_PLACE >> (section)&1), "its elements have bounds"); \
    GET_SECTION(name, section)
#define GET_keys GET_COPIED
#define GET_words GET_COPIED
#define GET_bytes GET_COPIED
#define GET_floats(name, section)                                      \
    _Static_assert(PS_IN_PLACE >> (section)&1, "they are not copied"); \
    GET_SECTION(name, section)
#define GET(kind, name, bound) GET_##kind(name, bound)

#define DEFINE_NEXT(element)                                                  \
    int ps_next_##element(struct pd_reader *rd, struct ps_msg_##element *m) { \
        struct reader rest = {.rd = *rd}, *r = &rest;                         \
        PS_FIELDS_##element(GET) *rd = rest.rd;                               \
        return !rest.wrong;                                                   \
    }                                                                         \
    static int skip_##element(struct pd_reader *rd) {                         \
        struct ps_msg_##element m;                                            \
        return ps_next_##element(rd, &m);                                     \
    }
PS_ELEMENTS(DEFINE_NEXT)

static void get_list(struct reader *r, const char *name, uint32_t n,
                     int (*skip)(struct pd_reader *rd)) {
    for (uint32_t i = 0; i < n && !r->wrong; i++)
        check(r, name, skip(&r->rd));
}

static int finish(struct reader *r, const char *label, struct pd_err *err) {
    check(r, "bytes left over", pd_reader_done(&r->rd));
    for (uint32_t i = 1; i < WIRE_SECTIONS; i++)
        check(r, "a section too many", !r->body->len[i] || r->seen >> i & 1);
    if (!r->wrong)
        return 0;
    if (r->most)
        return pd_fail(err, PD_EPROTO, "%s of %zu bytes: %s is %llu, at most %llu", label,
                       r->body->len[0], r->wrong, (unsigned long long)r->value,
                       (unsigned long long)r->most);
    return pd_fail(err, PD_EPROTO, "%s of %zu bytes: %s", label, r->body->len[0], r->wrong);
}

#define DEFINE_GET(name, label)                                                               \
    int ps_get_##name(const struct ps_body *b, struct ps_msg_##name *m, struct pd_err *err) { \
        struct reader reader = {.body = b}, *r = &reader;                                     \
        pd_reader_init(&r->rd, b->sec[0], b->len[0]);                                         \
        (void)m;                                                                              \
        PS_FIELDS_##name(GET) return finish(r, label, err);                                   \
    }
PS_BODIES(DEFINE_GET)

/* --- the parts of PS_STEP_END --- */

void ps_step_part_put(double *words, uint32_t i, uint32_t n_stats, struct ps_step_part part,
                      const double *stats) {
    double *at = words + (size_t)i * (1 + n_stats);
    _Static_assert(sizeof part == sizeof *at, "a contribution's streams take one word");
    memcpy(at, &part, sizeof part);
    if (n_stats)
        memcpy(at + 1, stats, n_stats * sizeof *stats);
}

struct ps_step_part ps_step_part_get(const struct ps_msg_step_end *m, uint32_t i,
                                     const double **stats) {
    const double *at = m->words + (size_t)i * (1 + m->n_stats);
    struct ps_step_part part;
    memcpy(&part, at, sizeof part);
    *stats = at + 1;
    return part;
}

int ps_get_after(const struct ps_body *b, uint64_t *after) {
    struct pd_reader r;
    pd_reader_init(&r, b->sec[0], b->len[0]);
    *after = pd_get_u64(&r);
    return r.failed ? PD_EPROTO : 0;
}

uint32_t ps_get_version(const struct ps_body *b) {
    struct pd_reader r;
    pd_reader_init(&r, b->sec[0], b->len[0]);
    return pd_get_u32(&r);
}
