/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - the rows of a table as they were at one moment. Another thread reads them while the
 * table's owner continues.
 *
 *     owner:  ps_snapshot_begin ──▶ before a row's first change (ps_table_change): copy, set bit
 *     reader: reads the row in the table, then the bit; if the bit is set, reads the copy
 *
 * Memory grows with the rows that change while the snapshot is read, not with their pages.
 * Beginning a snapshot copies only the list of slabs, allocates memory that is not touched yet, and
 * neither maps nor write-protects rows. The reader must know the row numbers. A row that was
 * removed, or whose place was given to another row, reads as it was.
 *
 * Memory: nine bits per row, and per copy the row's bytes and 16 more, or 40 more where rows age.
 */
#pragma once

#include "ps/table/table.h"

/* For the owner. A table may have several snapshots, and may be freed before they end. */
struct ps_snapshot;
int ps_snapshot_begin(struct ps_snapshot **out, struct ps_table *t); /* 0 or PD_ENOMEM */
void ps_snapshot_end(struct ps_snapshot *c); /* after the last read; NULL is allowed */

/* For the reader. Copies numbers [first, first + count) of each of n rows (dim weights, then the
 * optimizer's state) to out[n * count]. `rows` has `left` >= n entries; the entries after n are
 * those that the caller reads next, and some of them are prefetched. */
void ps_snapshot_read(const struct ps_snapshot *c, const struct ps_index_entry *rows, size_t n,
                      size_t left, uint32_t first, uint32_t count, float *out);
/* Step of the row's struct ps_row_note. */
uint32_t ps_snapshot_step(const struct ps_snapshot *c, uint32_t row);
/* Zeros where rows do not age. */
void ps_snapshot_seen(const struct ps_snapshot *c, uint32_t row, struct ps_row_seen *seen);

/* Call after the last read. 0: there was no memory for a copy, and the values read may be wrong. */
int ps_snapshot_whole(const struct ps_snapshot *c);

uint64_t ps_snapshot_bytes(const struct ps_snapshot *c); /* memory of the copies; for the owner */
