/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - the source of a scanned package: reads, hashes and compresses its objects once, on other
 * threads, for all takers that ask for them.
 *
 *     asked for ──▶ encoded ──▶ cache of records ──▶ io.send to each taker
 *
 * Encoding runs on the uv threadpool, a batch at a time, one batch ahead of sending.
 */
#pragma once

#include <uv.h>

#include "pack/scan/scan.h"

struct feed;
struct feed_taker;

struct feed_io {
    /* A message of whole records: the parts, one after the other. They are borrowed. */
    void (*send)(void *arg, const struct pd_bytes *parts, size_t n);
    size_t (*queued)(void *arg); /* unsent bytes; when they become few, call feed_send */
};

/* `scan` has run, and outlives the feed. relayed: the takers pass objects on to other nodes. cache:
 * bytes of encoded objects to keep for other takers; at least FEED_CACHE_MIN.
 * `failed` is called once if an object cannot be read any more; nothing is sent after that. */
enum { FEED_CACHE_MIN = 8 << 20 };
struct feed *feed_new(uv_loop_t *loop, const struct scan *scan, int relayed, size_t cache,
                      void (*failed)(void *arg, const struct pd_err *err), void *arg);
/* All takers must be freed before. The loop waits for the threads; the scan must live until `gone`
 * is called. */
void feed_free(struct feed *f, void (*gone)(void *arg), void *arg);

/* NULL: out of memory. */
struct feed_taker *feed_taker_new(struct feed *f, const struct feed_io *io, void *arg);
void feed_taker_free(struct feed_taker *t);
/* The ids of a DS_NEED. PD_EPROTO: an object of another package, or too many ids. */
int feed_ask(struct feed_taker *t, const uint8_t *ids, size_t n_bytes, struct pd_err *err);
void feed_stop(struct feed_taker *t);       /* it takes from another source now */
void feed_send(struct feed_taker *t);       /* its queue of unsent bytes is short */
int feed_waits(const struct feed_taker *t); /* all that the taker asked for was sent */

uint64_t feed_sent(const struct feed *f); /* bytes of records, to all takers */
