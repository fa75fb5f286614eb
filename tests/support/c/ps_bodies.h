/* SPDX-License-Identifier: Apache-2.0 */
/* ps_bodies.h - derives from the field lists of ps/plan/message.h, by kind of field: a random
 * sample, a comparison, a field beyond its bound, and the text of docs/protocol.md. */
#pragma once

#include "ps/plan/message.h"

enum { POOL = 1 << 20 };
static uint8_t pool[POOL] __attribute__((aligned(64))); /* the contents of arrays and strings */

static uint64_t random_u64(void) { /* splitmix64 */
    static uint64_t state;
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t at_most(uint64_t most) {
    return most == UINT64_MAX ? random_u64() : random_u64() % (most + 1);
}

static int fill_pool(void **state) {
    (void)state;
    for (size_t i = 0; i < POOL; i++)
        pool[i] = (uint8_t)random_u64();
    return 0;
}

/* --- samples --- */

static const void *some(void) { return pool + 64 * at_most(1000); }

static const char *some_str(size_t cap) {
    static char text[8][PATH_MAX];
    static int turn;
    char *s = text[turn++ % 8];
    const size_t n = at_most(cap - 1);
    memset(s, 'a' + (int)at_most(25), n);
    s[n] = 0;
    return s;
}

#define FILL_u32(name, bound) m->name = (uint32_t)at_most(bound);
#define FILL_u64(name, bound) m->name = at_most(bound);
#define FILL_f32(name, x) m->name = (float)at_most(1000) / 8;
#define FILL_f64(name, x) m->name = (double)at_most(1000) / 8;
#define FILL_zero(name, x)
#define FILL_str(name, cap) m->name = some_str(cap);
#define FILL_hash(name, bytes) memcpy(m->name, some(), bytes);
#define FILL_blob(name, most) \
    m->name = some();         \
    m->n_##name = (uint32_t)at_most(300);
#define FILL_ARRAY(name, count)      \
    m->count = (uint32_t)at_most(3); \
    m->name = some();
#define FILL_f64s FILL_ARRAY
#define FILL_u32s FILL_ARRAY
#define FILL_u8s FILL_ARRAY
#define FILL_u64_bytes FILL_ARRAY
#define FILL_f64_bytes FILL_ARRAY
static struct ps_segment_head segments[4] = {{1, 0, 5}, {UINT32_MAX, 0, UINT64_MAX}, {0, 0, 0}};
#define FILL_segments(name, count)   \
    m->count = (uint32_t)at_most(3); \
    m->name = segments;
#define FILL_rest(name, most) \
    m->name = some();         \
    m->n_##name = (uint32_t)at_most(5);
#define FILL_sums(name, x) memcpy(&m->name, some(), sizeof m->name);
#define FILL_step_parts(name, x) m->name = some();
#define FILL_list(name, element)               \
    static struct pd_buf list_##name;          \
    pd_buf_release(&list_##name);              \
    m->n_##name = (uint32_t)at_most(3);        \
    for (uint32_t i = 0; i < m->n_##name; i++) \
        append_##element(&list_##name);        \
    m->name = list_##name.data;                \
    m->name##_bytes = list_##name.len;
#define FILL_SECTION(name, section) \
    m->name = some();               \
    m->n_##name = at_most(20);
#define FILL_keys FILL_SECTION
#define FILL_floats FILL_SECTION
#define FILL_words FILL_SECTION
#define FILL_bytes FILL_SECTION
#define FILL(kind, name, bound) FILL_##kind(name, bound)

/* --- comparing two messages --- */

static int same_bytes(const void *a, const void *b, size_t n) { return !n || !memcmp(a, b, n); }

#define SAME_NUMBER(name, x) same &= a->name == b->name;
#define SAME_u32 SAME_NUMBER
#define SAME_u64 SAME_NUMBER
#define SAME_f32(name, x) same &= same_bytes(&a->name, &b->name, sizeof a->name);
#define SAME_f64 SAME_f32
#define SAME_sums SAME_f32
#define SAME_zero(name, x)
#define SAME_str(name, cap) same &= !strcmp(a->name, b->name);
#define SAME_hash(name, bytes) same &= same_bytes(a->name, b->name, bytes);
#define SAME_blob(name, x) \
    same &= a->n_##name == b->n_##name && same_bytes(a->name, b->name, a->n_##name);
#define SAME_f64s(name, count) \
    same &= a->count == b->count && same_bytes(a->name, b->name, a->count * sizeof *a->name);
#define SAME_u32s SAME_f64s
#define SAME_u8s SAME_f64s
#define SAME_segments SAME_f64s
#define SAME_u64_bytes(name, count) \
    same &= a->count == b->count && same_bytes(a->name, b->name, a->count * sizeof(uint64_t));
#define SAME_f64_bytes SAME_u64_bytes
#define SAME_rest(name, x) \
    same &=                \
        a->n_##name == b->n_##name && same_bytes(a->name, b->name, a->n_##name * sizeof *a->name);
#define SAME_keys SAME_rest
#define SAME_floats SAME_rest
#define SAME_words SAME_rest
#define SAME_bytes SAME_rest
#define SAME_step_parts(name, x)         \
    same &= same_bytes(a->name, b->name, \
                       8 * (a->n_parts ? a->n_parts * (1 + a->n_stats) : a->n_stats));
#define SAME_list(name, element)                                                \
    same &= a->n_##name == b->n_##name && a->name##_bytes == b->name##_bytes && \
            same_bytes(a->name, b->name, a->name##_bytes);
#define SAME(kind, name, bound) SAME_##kind(name, bound)

static char too_long[PATH_MAX + 1];

/* --- breaking a field: number `which`, counted from 0; returns 0 if there is no such field --- */

#define BREAK_NUMBER(name, most)                             \
    if ((uint64_t)(most) < UINT32_MAX - 1 && which-- == 0) { \
        m->name = (uint32_t)(most) + 1;                      \
        return 1;                                            \
    }
#define BREAK_u32 BREAK_NUMBER
#define BREAK_u64(name, most)                 \
    if ((most) != PS_ANY64 && which-- == 0) { \
        m->name = (uint64_t)(most) + 1;       \
        return 1;                             \
    }
#define BREAK_str(name, cap)        \
    if (which-- == 0) {             \
        memset(too_long, 'x', cap); \
        too_long[cap] = 0;          \
        m->name = too_long;         \
        return 1;                   \
    }
#define BREAK_rest(name, most)        \
    if (which-- == 0) {               \
        m->n_##name = (most) + 1;     \
        m->name = (const void *)pool; \
        return 1;                     \
    }
#define BREAK_list(name, element) \
    if (which-- == 0) {           \
        m->n_##name++;            \
        return 1;                 \
    }
static struct ps_segment_head bad_segment = {.zero = 1};
#define BREAK_segments(name, count) \
    if (which-- == 0) {             \
        m->count = 1;               \
        m->name = &bad_segment;     \
        return 1;                   \
    }
/* Large enough for an excessive count. */
#define BREAK_f64s(name, count) m->name = (const void *)pool;
#define BREAK_u64_bytes BREAK_f64s
#define BREAK_f64_bytes BREAK_f64s
#define BREAK_step_parts BREAK_f64s
#define BREAK_u32s(name, count)
#define BREAK_u8s(name, count)
#define BREAK_f32(name, x)
#define BREAK_f64(name, x)
#define BREAK_zero(name, x)
#define BREAK_hash(name, x)
#define BREAK_blob(name, x)
#define BREAK_sums(name, x)
#define BREAK_keys(name, x)
#define BREAK_floats(name, x)
#define BREAK_words(name, x)
#define BREAK_bytes(name, x)
#define BREAK(kind, name, bound) BREAK_##kind(name, bound)

/* --- the text of a body, as in docs/protocol.md --- */

#define TEXT_u32(name, x) "u32 " #name ", "
#define TEXT_u64(name, x) "u64 " #name ", "
#define TEXT_f32(name, x) "f32 " #name ", "
#define TEXT_f64(name, x) "f64 " #name ", "
#define TEXT_zero(name, x) "u32 0, "
#define TEXT_str(name, x) "str " #name ", "
#define TEXT_hash(name, bytes) "u8 " #name "[" #bytes "], "
#define TEXT_blob(name, x) "blob " #name ", "
#define TEXT_f64s(name, count) "f64 " #name "[" #count "], "
#define TEXT_u32s(name, count) "u32 " #name "[" #count "], "
#define TEXT_u8s(name, count) "u8 " #name "[" #count "], "
#define TEXT_u64_bytes(name, count) "u64 " #name "[" #count "], "
#define TEXT_f64_bytes(name, count) "f64 " #name "[" #count "], "
#define TEXT_segments(name, count) #count " {u32 parameter, u32 0, u64 count}, "
#define TEXT_rest(name, x) "f64 " #name "[], "
#define TEXT_sums(name, x) "{u64 steps, u64 samples, f64 stats[16]} " #name ", "
#define TEXT_step_parts(name, x) \
    "f64 stats[n_stats] or n_parts {u32 stream_lo, u32 stream_hi, f64 stats[n_stats]}, "
#define TEXT_list(name, element) "u32 n_" #name ", n_" #name " {" #element "}, "
#define TEXT_keys(name, section) "section " #section ": u64 " #name ", "
#define TEXT_floats(name, section) "section " #section ": f32 " #name ", "
#define TEXT_words(name, section) "section " #section ": u32 " #name ", "
#define TEXT_bytes(name, section) "section " #section ": u8 " #name ", "
#define TEXT(kind, name, bound) TEXT_##kind(name, bound)
