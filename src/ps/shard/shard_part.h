/* SPDX-License-Identifier: Apache-2.0 */
/* shard_part.h - a part of a model that is being written. shard_save.c begins and ends it, and
 * shard_part.c writes it. */
#pragma once

#include "ps/shard/shard_internal.h"
#include "ps/table/snapshot.h"

/* A table at the snapshot. The lists are in the shared memory ps_saving.lists, where a forked child
 * fills them. */
struct part_table {
    struct ps_snapshot *cut;
    struct ps_index_entry *rows; /* [n], by ascending key once the writer has sorted the heaps */
    struct ps_index_heaps *heaps;
    struct ps_index_entry *waiting; /* [n_waiting], by ascending key; row: the candidate's state */
    uint64_t n, n_waiting;
    struct ps_lazy_decay decay;
    uint32_t dim, state_width;
    int life, changes; /* life: rows come and go; changes: only changed rows are written */
};

struct ps_saving {
    struct ps_saving *next;
    struct ps_shard *s;
    uint32_t trainer;
    uint64_t incarnation; /* of the process that sent the request; a process in its place gets no
                             answer */
    uint64_t req;
    int full, delta;
    enum ps_chain chain;
    char *folder; /* the final folder, after the commit */
    struct ps_dirty_rows
        *fresh; /* [n_sparse]: for saves with a chain, the tracking that begins at the snapshot */
    struct delta_layer *layer; /* [n_layers], the lowest first: the files of the part; the last one
                                  is being written */
    uint32_t n_layers;
    /* Further contents of the answer, recorded when the save began. */
    struct pd_buf table_rows, notes; /* u64s; elements of PS_SAVE's answer */
    uint32_t n_notes;
    uint64_t updates, samples;

    struct ps_shared_values
        *values; /* a reference to the dense values if a forked child would share them instead of
                    having a copy; else NULL. With it, the owner writes to a copy */
    struct model_entry *entries;
    size_t n_entries;
    struct model_writer *w;
    struct part_table *tables; /* [n_sparse] or NULL */
    char *lists;               /* memory shared with forked children */
    size_t lists_bytes, block_rows;
    float *block; /* block_rows of the widest rows, or BLOCK bytes */
    atomic_int stop;
};

/* Allocates all memory, begins the snapshots and opens folder/file. Returns 0 or PD_E*. */
int part_make_room(struct ps_saving *j, const char *folder, const char *file, struct pd_err *err);
void part_release(struct ps_saving *j);
