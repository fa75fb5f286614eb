/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - maps 64-bit keys to row numbers and grows without long pauses: extendible hashing over
 * segments of open addressing.
 *
 *     hash = mix64(key):   [ directory: up to 17 bits | slot: 15 bits | low 32 bits ]
 *                          (the low bits choose the server thread, layout.h)
 *
 *     directory ──▶ segment ──▶ slots {key, row}, linear probing
 *
 * A full segment is split in two, and no other segment moves. So the longest pause is that of one
 * segment (32,768 slots, 0.1 to 0.2 ms) for any number of keys, and there are never two copies of
 * the index. Each segment has its own load limit, a function of its hash prefix; otherwise all
 * segments would split at almost the same time.
 *
 * A slot has 12 bytes. With loads of 28 to 75 %, spread evenly, a key costs 20 to 30 bytes. The
 * first segment starts with 64 slots and doubles until it has its full size.
 *
 * Source: R. Fagin et al., "Extendible hashing - a fast access method for dynamic files", ACM TODS
 * 4(3), 1979. */
#pragma once

#define PS_ROW_NONE UINT32_MAX

struct ps_index;
int ps_index_new(struct ps_index **out);
void ps_index_free(struct ps_index *x);

/* Sets rows[i] to the row of keys[i], or to PS_ROW_NONE. *first_missing is the first i without a
 * row, or n. A key may occur twice, so after putting a missing key look up later missing keys
 * again. */
void ps_index_find(const struct ps_index *x, const uint64_t *keys, size_t n, uint32_t *rows,
                   size_t *first_missing);

/* Adds a key that is not in the index. Returns 0, or PD_ENOMEM with the index unchanged. */
int ps_index_put(struct ps_index *x, uint64_t key, uint32_t row);

/* Returns the address of the key's row number, or NULL. The caller may change the number, but not
 * to PS_ROW_NONE. The address is valid until the next put or remove. */
uint32_t *ps_index_at(struct ps_index *x, uint64_t key);
void ps_index_remove(struct ps_index *x, uint64_t key); /* the key must be present */

uint64_t ps_index_count(const struct ps_index *x);
uint64_t ps_index_bytes(const struct ps_index *x); /* memory in use */

/* Unaligned keys cost no time on the supported processors, and packing saves a quarter of the
 * memory. */
struct ps_index_entry {
    uint64_t key;
    uint32_t row;
} __attribute__((packed, aligned(4)));
/* Writes all entries, unordered, to out[ps_index_count]. */
void ps_index_list(const struct ps_index *x, struct ps_index_entry *out);
/* Sorts n entries with different keys by ascending key, in place. */
void ps_index_sort_entries(struct ps_index_entry *e, uint64_t n);

/* The first half of a radix sort, done while the entries are listed. The entries are grouped into
 * heaps: each key of a heap is below each key of the next heap; a heap itself is unordered. */
enum { PS_INDEX_HEAP_BITS = 11, PS_INDEX_HEAPS = 1 << PS_INDEX_HEAP_BITS };
struct ps_index_heaps {
    uint64_t end[PS_INDEX_HEAPS]; /* index after the last entry of each heap */
};
/* Lists the entries whose rows have changed (`only` NULL: all entries). Returns their number; if it
 * exceeds `cap`, `out` is not written. Allocates no memory. */
struct ps_dirty_rows;
uint64_t ps_index_list_heaps(const struct ps_index *x, const struct ps_dirty_rows *only,
                             struct ps_index_entry *out, uint64_t cap,
                             struct ps_index_heaps *heaps);
/* The second half of the sort: sorts heap h in place and sets its bounds, e[*from..*to). */
void ps_index_sort_heap(struct ps_index_entry *e, const struct ps_index_heaps *heaps, uint32_t h,
                        uint64_t *from, uint64_t *to);
