/* feed.h - the launcher as a source: objects of a package, read, hashed and compressed once on
 * other threads, for all nodes that ask for them here.
 *
 *     asked for ──▶ encoded (uv threadpool, a batch at a time, one ahead) ──▶ cache of records ──▶ DS_OBJECT to each taker
 */
#ifndef LAUNCHER_FEED_H
#define LAUNCHER_FEED_H

#include <uv.h>

#include "launcher/link/link.h"
#include "pack/scan/scan.h"

struct feed;
struct feed_taker;

/* `scan` has run, and outlives the feed. relayed: who takes from here hands on to others. `failed`
 * is called once, with what can't be read any more; nothing is sent afterwards. */
struct feed *feed_new(uv_loop_t *loop, const struct scan *scan, int relayed,
                      void (*failed)(void *arg, const struct pd_err *err), void *arg);
/* No taker may be left. What still runs on a thread is waited for by the loop; the scan must live
 * until `gone` is called. */
void feed_free(struct feed *f, void (*gone)(void *arg), void *arg);

/* Somebody who takes over this link, in frames with this request id. NULL: out of memory. */
struct feed_taker *feed_taker_new(struct feed *f, struct link *l, uint64_t req);
void feed_taker_free(struct feed_taker *t);
/* The ids of a DS_NEED. PD_EPROTO: an object that is none of this package, or more than anybody has
 * reason to ask for. */
int feed_ask(struct feed_taker *t, const uint8_t *ids, size_t n_bytes, struct pd_err *err);
void feed_stop(struct feed_taker *t); /* it takes from somebody else now */
void feed_send(struct feed_taker *t); /* the link's queue became short */

uint64_t feed_sent(const struct feed *f); /* bytes of records, over all links */

#endif
