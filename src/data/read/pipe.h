/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.h - prefetch of blocks: the threads of a pool read and parse the blocks of a stream ahead;
 * the caller takes them in the order of the stream.
 *   source ──fill: one thread at a time──▶ ring of blocks ──parse: several threads──▶ take in order
 *
 * Without a pool a block is read and parsed when it is taken, so the result does not depend on the
 * number of threads.
 */
#pragma once

#include <pthread.h>

#include "data/read/source.h"

/* A pool of `n` threads for any number of pipes. Its pipes must be released before the pool is
 * freed. */
struct data_workers;
int data_workers_new(struct data_workers **out, uint32_t n, struct pd_err *err);
void data_workers_free(struct data_workers *w);

enum data_slot_state { SLOT_FREE, SLOT_FILLED, SLOT_PARSING, SLOT_DONE };

struct data_slot {
    enum data_slot_state state;
    struct data_block block;
    struct data_parser parser;
};

struct data_pipe {
    struct data_workers *workers; /* NULL: none */
    struct data_pipe *next;       /* in the pool's list */
    struct data_source source;
    struct data_slot *slot; /* [n_slots]; block s of the stream is in slot[s % n_slots] */
    uint32_t n_slots;
    uint64_t filled, taken;      /* blocks so far */
    uint32_t parsing;            /* slots being parsed now */
    int running, filling, ended; /* ended: the last block has is_end or an error */
};

/* Borrows `schema`, `plan`, `dir` and `files`. The pipe reads nothing before data_pipe_start and
 * stops at the end of the stream. */
int data_pipe_init(struct data_pipe *p, struct data_workers *w, const struct data_schema *schema,
                   const struct data_parse_plan *plan, const char *dir,
                   const struct data_files *files, uint64_t seed, struct pd_err *err);
void data_pipe_release(struct data_pipe *p); /* a zeroed pipe may be released, too */

/* Starts, or restarts, at place `at`, up to but not including file `end`. Random numbers are those
 * of this pass and stream. Blocks read ahead are dropped, and taken blocks become invalid. */
void data_pipe_start(struct data_pipe *p, uint64_t pass, uint32_t stream, struct data_place at,
                     uint64_t end);

/* Returns the next block once it is parsed. The caller gives it back with data_pipe_give. Must not
 * be called again after a block with is_end or an error. */
struct data_block *data_pipe_take(struct data_pipe *p);
void data_pipe_give(struct data_pipe *p);
