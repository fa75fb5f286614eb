/* shard_part.h - a part of a model that is being written: what shard_save.c begins and ends, and
 * shard_part.c writes. */
#ifndef PD_PS_SHARD_PART_H
#define PD_PS_SHARD_PART_H

#include <stdatomic.h>

#include "ps/shard/shard_int.h"
#include "ps/table/snapshot.h"

/* A table as it was at the snapshot. Lists are in the shared memory ps_saving.lists, where a child
 * of fork fills them in. */
struct part_table {
    struct ps_snapshot *cut;
    struct ps_index_entry *rows; /* [n], by ascending key once the writer has sorted the heaps */
    struct ps_index_heaps *heaps;
    struct ps_index_entry *waiting; /* [n_waiting], by ascending key; row: the candidate's state */
    uint64_t n, n_waiting;
    struct ps_lazy_decay decay;
    uint32_t dim, state_width;
    int life, changes; /* its rows come and go; only changed rows are written */
};

struct ps_saving {
    struct ps_saving *next;
    struct ps_shard *s;
    uint32_t trainer;
    uint64_t incarnation; /* of the process that asked: one in its place hears nothing of it */
    uint64_t req;
    int full, delta;
    enum ps_chain chain;
    char *folder;                /* that it will be, once it is committed */
    struct ps_dirty_rows *fresh; /* [n_sparse]: of a chain, to be watched from here on */
    struct delta_layer *layer;   /* [n_layers], the lowest first: the files of the part, the last is
                                    the one that is written */
    uint32_t n_layers;
    /* Further contents of the answer, recorded when the save began. */
    struct pd_buf table_rows, notes; /* u64s; elements of PS_SAVE's answer */
    uint32_t n_notes;
    uint64_t updates, samples;

    struct ps_shared_values *values; /* dense ones that a child of fork would share and not have a
                                        copy of, or NULL: they are kept as they are */
    struct model_entry *entries;
    size_t n_entries;
    struct model_writer *w;
    struct part_table *tables; /* [n_sparse] or NULL */
    char *lists;               /* shared with children of fork */
    size_t lists_bytes, block_rows;
    float *block; /* block_rows of the widest, or BLOCK bytes */
    atomic_int stop;
};

/* Whatever needs memory, before anything is written into folder/file; from here on rows are kept as
 * they are now. */
int part_make_room(struct ps_saving *j, const char *folder, const char *file, struct pd_err *err);
void part_release(struct ps_saving *j);

#endif
