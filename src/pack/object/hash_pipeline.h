/* SPDX-License-Identifier: Apache-2.0 */
/* hash_pipeline.h - ids of batches of objects, computed by a second thread while the caller reads
 * and cuts the next bytes. Internal to src/pack.
 *
 *     hash_pipeline_empty ─▶ fill, cut ─▶ hash_pipeline_put ─▶ (thread) ─▶ hash_pipeline_take
 *
 * Batches come out in the order in which they were put.
 */
#pragma once

#include "pack/object/object_ids.h"

enum { HASH_BUFFER = 1 << 20, HASH_CUTS = 256 };

struct hash_batch {
    uint8_t *buf; /* HASH_BUFFER bytes that hold the objects */
    struct object_bytes cut[HASH_CUTS];
    size_t n;                       /* number of cuts */
    struct object_id id[HASH_CUTS]; /* after hash_pipeline_take */
};

struct hash_pipeline;
struct hash_pipeline *hash_pipeline_new(void);    /* NULL: out of memory */
void hash_pipeline_free(struct hash_pipeline *l); /* NULL is fine */

/* A batch to fill; NULL: all batches are in use, take one first. The bytes of the batch put last
 * stay valid until the batch after the next is filled. */
struct hash_batch *hash_pipeline_empty(struct hash_pipeline *l);
/* Puts the batch that hash_pipeline_empty returned last. `here`: hash it at once in the caller's
 * thread, for contents that are too short for a second thread. */
void hash_pipeline_put(struct hash_pipeline *l, int here);
/* Waits for the oldest batch; NULL: none was put. Valid until the next hash_pipeline_empty. */
const struct hash_batch *hash_pipeline_take(struct hash_pipeline *l);
