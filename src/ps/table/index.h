/* index.h - 64-bit keys to row numbers, growing without a pause: extendible hashing over segments
 * of open addressing.
 *
 *     hash = mix64(key):   [ directory: up to 17 bits | slot: 15 bits | low 32 bits ]
 *                          (the low bits choose the server thread, layout.h)
 *
 *     directory ──▶ segment ──▶ slots {key, row}, linear probing
 *
 * A segment that is full is split in two; nothing else moves, so the longest pause is one segment's
 * (32,768 slots, 0.1 to 0.2 ms) whatever the number of keys, and old and new never exist side by
 * side. Segments are full at different loads (a function of their hash prefix), else all of them
 * would split at almost the same time. A slot has 12 bytes; with loads of 28 to 75 %, spread
 * evenly, a key costs 20 to 30 bytes. The first segment starts with 64 slots and doubles until it
 * has its full size.
 *
 * Source: R. Fagin et al., "Extendible hashing - a fast access method for dynamic files", ACM TODS
 * 4(3), 1979.
 */
#ifndef PD_PS_INDEX_H
#define PD_PS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define PS_ROW_NONE UINT32_MAX

struct ps_index;
int ps_index_new(struct ps_index **out);
void ps_index_free(struct ps_index *x);

/* rows[i] of keys[i], PS_ROW_NONE where there is none; *first_missing is the first such i, or n.
 * The other missing ones are found by looking again once that one was put: a key may be there
 * twice. */
void ps_index_find(const struct ps_index *x, const uint64_t *keys, size_t n, uint32_t *rows,
                   size_t *first_missing);

/* A key that is not there yet. PD_ENOMEM leaves everything as it was. */
int ps_index_put(struct ps_index *x, uint64_t key, uint32_t row);

/* The row number of a key, to be changed to another but PS_ROW_NONE; NULL: it is not there. Valid
 * until the next put or remove. */
uint32_t *ps_index_at(struct ps_index *x, uint64_t key);
void ps_index_remove(struct ps_index *x,
                     uint64_t key); /* a key that is there; its slot is free for others */

uint64_t ps_index_count(const struct ps_index *x);
uint64_t ps_index_bytes(const struct ps_index *x); /* memory in use */

/* Unaligned keys cost nothing on the processors that this runs on, and a quarter of the memory is
 * saved. */
struct ps_index_entry {
    uint64_t key;
    uint32_t row;
} __attribute__((packed, aligned(4)));
/* All of them, in no order, into out[ps_index_count]. */
void ps_index_list(const struct ps_index *x, struct ps_index_entry *out);
/* By ascending key, in place; keys are different. */
void ps_index_sort_entries(struct ps_index_entry *e, uint64_t n);

/* Half of a sort while they are listed: heap after heap, every key of one below every key of the
 * next, no order within one. */
enum { PS_INDEX_HEAP_BITS = 11, PS_INDEX_HEAPS = 1 << PS_INDEX_HEAP_BITS };
struct ps_index_heaps {
    uint64_t end[PS_INDEX_HEAPS]; /* of each heap, counted in entries */
};
/* Those whose rows have changed (NULL: all); how many. More than `cap` are not listed. Nothing is
 * allocated. */
struct ps_dirty_rows;
uint64_t ps_index_list_heaps(const struct ps_index *x, const struct ps_dirty_rows *only,
                             struct ps_index_entry *out, uint64_t cap,
                             struct ps_index_heaps *heaps);
/* The other half, for heap h: out[*from..*to) is sorted then. */
void ps_index_sort_heap(struct ps_index_entry *e, const struct ps_index_heaps *heaps, uint32_t h,
                        uint64_t *from, uint64_t *to);

#endif
