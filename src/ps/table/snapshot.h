/* snapshot.h - the rows of a table as they were at one moment, read by another thread while the
 * table's owner goes on.
 *
 *     owner:  ps_snapshot_begin ──▶ before a row's first change (ps_table_change): copy, set bit
 *     reader: reads the row in the table, then the bit; if the bit is set, reads the copy
 *
 * Memory grows by the rows that change while the snapshot is read, not by their pages. The snapshot
 * itself copies, maps and write-protects nothing: it costs the list of the slabs, and memory that
 * is not touched yet. The reader must know the rows. A row that was removed, or whose place was
 * given to another row, reads as it was.
 *
 * Memory: nine bits a row, and the copies: of a row's bytes and 16 more, or 40 where rows age.
 */
#ifndef PD_PS_SNAPSHOT_H
#define PD_PS_SNAPSHOT_H

#include "ps/table/table.h"

/* The owner: begin and end. A table may have several cuts, and be freed before they end. */
struct ps_snapshot;
int ps_snapshot_begin(struct ps_snapshot **out, struct ps_table *t); /* 0 or PD_ENOMEM */
void ps_snapshot_end(struct ps_snapshot *c); /* nobody reads any more; NULL is fine */

/* The reader: numbers [first, first + count) of each of n rows (dim weights, then the optimizer's
 * state) to out[n * count]. Of rows that the caller goes on with, `left` >= n in all, some are
 * fetched ahead. */
void ps_snapshot_read(const struct ps_snapshot *c, const struct ps_index_entry *rows, size_t n,
                      size_t left, uint32_t first, uint32_t count, float *out);
uint32_t ps_snapshot_step(const struct ps_snapshot *c, uint32_t row); /* ps_row_note.step */
void ps_snapshot_seen(const struct ps_snapshot *c, uint32_t row,
                      struct ps_row_seen *seen); /* zeros where rows do not age */

/* 0: there was no memory for a copy, and what was read may be wrong. To be looked at when all is
 * read. */
int ps_snapshot_whole(const struct ps_snapshot *c);

uint64_t ps_snapshot_bytes(const struct ps_snapshot *c); /* of the copies; the owner */

#endif
