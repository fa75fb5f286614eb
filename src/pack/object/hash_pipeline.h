/* ids_line.h - ids of batches of objects, computed by a thread of its own while the caller reads
 * and cuts what comes next. Internal to src/pack.
 *
 *     ids_line_empty ─▶ fill, cut ─▶ ids_line_put ─▶ (thread) ─▶ ids_line_take, in the same order
 */
#ifndef PD_PACK_IDS_LINE_H
#define PD_PACK_IDS_LINE_H

#include "pack/object/object_ids.h"

enum { IDS_BUFFER = 1 << 20, IDS_CUTS = 256 };

struct ids_batch {
    uint8_t *buf; /* IDS_BUFFER bytes; the objects lie in it */
    struct object_bytes cut[IDS_CUTS];
    size_t n;                      /* cuts */
    struct object_id id[IDS_CUTS]; /* after ids_line_take */
};

struct ids_line;
struct ids_line *ids_line_new(void);    /* NULL: out of memory */
void ids_line_free(struct ids_line *l); /* NULL is fine */

/* A batch to fill; NULL: all are under way, take one first. The one that was put last keeps its
 * bytes until the next but one is filled. */
struct ids_batch *ids_line_empty(struct ids_line *l);
/* The batch that ids_line_empty returned last. `here`: hashed by the caller's thread, at once: for
 * what is too short for a second one. */
void ids_line_put(struct ids_line *l, int here);
/* Waits for the oldest batch; NULL: none is under way. Valid until the next ids_line_empty. */
const struct ids_batch *ids_line_take(struct ids_line *l);

#endif
