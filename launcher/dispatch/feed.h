/* feed.h - the launcher as a source: reads, hashes and compresses the objects of a package once, on
 * other threads, for all nodes that ask for them here.
 *
 *     asked for ──▶ encoded ──▶ cache of records ──▶ DS_OBJECT to each taker
 *
 * Encoding runs on the uv threadpool, a batch at a time, one batch ahead of sending.
 */
#ifndef LAUNCHER_FEED_H
#define LAUNCHER_FEED_H

#include <uv.h>

#include "launcher/link/link.h"
#include "pack/scan/scan.h"

struct feed;
struct feed_taker;

/* `scan` has run, and outlives the feed. relayed: the takers pass objects on to other nodes.
 * `failed` is called once if an object cannot be read any more; nothing is sent after that. */
struct feed *feed_new(uv_loop_t *loop, const struct scan *scan, int relayed,
                      void (*failed)(void *arg, const struct pd_err *err), void *arg);
/* All takers must be freed before. The loop waits for the threads; the scan must live until `gone`
 * is called. */
void feed_free(struct feed *f, void (*gone)(void *arg), void *arg);

/* A node that takes over this link, in frames with this request id. NULL: out of memory. */
struct feed_taker *feed_taker_new(struct feed *f, struct link *l, uint64_t req);
void feed_taker_free(struct feed_taker *t);
/* The ids of a DS_NEED. PD_EPROTO: an object of another package, or too many ids. */
int feed_ask(struct feed_taker *t, const uint8_t *ids, size_t n_bytes, struct pd_err *err);
/* the node takes from another source now */
void feed_stop(struct feed_taker *t);
void feed_send(struct feed_taker *t); /* the link's queue is short */

uint64_t feed_sent(const struct feed *f); /* bytes of records, over all links */

#endif
