/* pipe.h - blocks of a stream, read and parsed ahead by the threads of a pool, given out in the
 * order of the stream.
 *
 *   source ──fill, one thread at a time──▶ ring of blocks ──parse, several at a time──▶ taken in order
 *
 * Without a pool the same is done when a block is taken, so what comes out does not depend on the
 * number of threads.
 */
#ifndef PD_DATA_PIPE_H
#define PD_DATA_PIPE_H

#include <pthread.h>

#include "data/read/source.h"

/* A pool of `n` threads for any number of pipes; they wait when there is nothing to do. Free it
 * after its pipes. */
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
    struct data_pipe *next;       /* of the pool's list */
    struct data_source source;
    struct data_slot *slot; /* [n_slots]; block number s of the stream is in slot[s % n_slots] */
    uint32_t n_slots;
    uint64_t filled, taken;      /* blocks so far */
    uint32_t parsing;            /* at this moment */
    int running, filling, ended; /* ended: the last block was is_end or an error */
};

/* The pipe begins at once when started, and stops by itself at the end of the stream. `schema`,
 * `plan`, `dir`, `files` stay the caller's. */
int data_pipe_init(struct data_pipe *p, struct data_workers *w, const struct data_schema *schema,
                   const struct data_parse_plan *plan, const char *dir,
                   const struct data_files *files, uint64_t seed, struct pd_err *err);
void data_pipe_release(struct data_pipe *p); /* for a zeroed one, too */

/* From this place on, as far as file `end`; random numbers are those of this pass and stream. What
 * had been read ahead is forgotten, blocks that are taken become invalid. */
void data_pipe_start(struct data_pipe *p, uint64_t pass, uint32_t stream, struct data_place at,
                     uint64_t end);

/* The next block, when it is parsed; the caller's until given back. Not to be called again after
 * is_end or an error. */
struct data_block *data_pipe_take(struct data_pipe *p);
void data_pipe_give(struct data_pipe *p);

#endif
