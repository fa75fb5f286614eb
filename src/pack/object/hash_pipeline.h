/* hash_pipeline.h - ids of batches of objects, computed by a thread of its own while the caller
 * reads and cuts what comes next. Internal to src/pack.
 *
 *     hash_pipeline_empty ─▶ fill, cut ─▶ hash_pipeline_put ─▶ (thread) ─▶ hash_pipeline_take, in the same order
 */
#ifndef PD_PACK_HASH_PIPELINE_H
#define PD_PACK_HASH_PIPELINE_H

#include "pack/object/object_ids.h"

enum { HASH_BUFFER = 1 << 20, HASH_CUTS = 256 };

struct hash_batch {
    uint8_t *buf; /* HASH_BUFFER bytes; the objects lie in it */
    struct object_bytes cut[HASH_CUTS];
    size_t n;                       /* cuts */
    struct object_id id[HASH_CUTS]; /* after hash_pipeline_take */
};

struct hash_pipeline;
struct hash_pipeline *hash_pipeline_new(void);    /* NULL: out of memory */
void hash_pipeline_free(struct hash_pipeline *l); /* NULL is fine */

/* A batch to fill; NULL: all are under way, take one first. The one that was put last keeps its
 * bytes until the next but one is filled. */
struct hash_batch *hash_pipeline_empty(struct hash_pipeline *l);
/* The batch that hash_pipeline_empty returned last. `here`: hashed by the caller's thread, at once:
 * for what is too short for a second one. */
void hash_pipeline_put(struct hash_pipeline *l, int here);
/* Waits for the oldest batch; NULL: none is under way. Valid until the next hash_pipeline_empty. */
const struct hash_batch *hash_pipeline_take(struct hash_pipeline *l);

#endif
