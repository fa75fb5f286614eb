/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - see feed.h. */
#include "pack/scan/feed.h"

enum {
    BATCH_RAW = 1 << 20,       /* bytes that a job encodes */
    BATCH_MAX = SCAN_READ_MAX, /* objects that a job encodes */
    /* jobs at once: reading, hashing and compressing keep ahead of sending */
    JOBS = 3,
    AHEAD = 1 << 20, /* unsent bytes of a taker */
    /* bytes: small, since a relay passes on complete frames */
    FRAME_RELAYED = 64 << 10,
    FRAME_MAX = 512 << 10, /* bytes: the receiver hashes many records side by side */
    FRAME_PARTS = 64,      /* records */
    ASKED_MAX = 1 << 20,   /* ids that wait */
};

enum rec_state { NONE, RUNNING, READY };

/* The records of a job. Each has a place for its object and a header: a record is made where its
 * object was read, and is sent from there. */
struct record_block {
    unsigned n_used; /* number of records in use */
    uint8_t data[];
};

struct rec {
    struct record_block *block;
    const uint8_t *data; /* in the block */
    uint32_t len;
    uint8_t state;
};

struct feed_taker {
    struct feed *f;
    const struct feed_io *io;
    void *arg; /* of io */
    /* objects; [first, n) are still to be sent */
    uint32_t *asked;
    size_t first, n, cap;
    struct feed_taker *next;
};

struct encode_job {
    uv_work_t work;
    struct feed *f;
    uint32_t object[BATCH_MAX];
    size_t len[BATCH_MAX]; /* of the records */
    unsigned n;
    size_t raw; /* bytes of the objects */
    struct record_block *block;
    struct object_codec *codec;
    struct pd_err err;
};

struct feed {
    uv_loop_t *loop;
    const struct scan *scan;
    size_t frame; /* approximate bytes of a message */
    size_t cache; /* bytes of READY records, at most */
    void (*failed)(void *, const struct pd_err *);
    void *arg;
    struct rec *recs; /* indexed by object */
    /* READY objects, the oldest first: a ring with a place for each object */
    uint32_t *fifo;
    size_t n_objects, fifo_first, fifo_n, cached;
    struct feed_taker *takers;
    /* [0, n_codecs): not in use by a job. Making a codec costs as much as packing some objects. */
    struct object_codec *codecs[JOBS];
    unsigned n_codecs, n_jobs;
    int has_failed, leaving;
    void (*gone)(void *);
    void *gone_arg;
    uint64_t sent;
};

struct feed *feed_new(uv_loop_t *loop, const struct scan *scan, int relayed, size_t cache,
                      void (*failed)(void *arg, const struct pd_err *err), void *arg) {
    struct feed *f = pd_calloc(1, sizeof *f);
    struct scan_totals t;
    if (!f)
        return NULL;
    scan_get_totals(scan, &t);
    *f = (struct feed){.loop = loop,
                       .scan = scan,
                       .frame = relayed ? FRAME_RELAYED : FRAME_MAX,
                       .cache = cache,
                       .failed = failed,
                       .arg = arg,
                       .n_objects = (size_t)t.objects};
    f->recs = pd_calloc(f->n_objects + 1, sizeof *f->recs);
    f->fifo = pd_calloc(f->n_objects + 1, sizeof *f->fifo);
    if (!f->recs || !f->fifo) {
        free(f->recs);
        free(f->fifo);
        free(f);
        return NULL;
    }
    return f;
}

static void leave_block(struct rec *r) {
    if (r->block && !--r->block->n_used)
        free(r->block);
    *r = (struct rec){0};
}

static void destroy(struct feed *f) {
    for (size_t i = 0; i < f->n_objects; i++)
        leave_block(&f->recs[i]);
    while (f->n_codecs)
        object_codec_free(f->codecs[--f->n_codecs]);
    free(f->recs);
    free(f->fifo);
    if (f->gone)
        f->gone(f->gone_arg);
    free(f);
}

void feed_free(struct feed *f, void (*gone)(void *arg), void *arg) {
    f->leaving = 1;
    f->gone = gone;
    f->gone_arg = arg;
    if (!f->n_jobs)
        destroy(f);
}

struct feed_taker *feed_taker_new(struct feed *f, const struct feed_io *io, void *arg) {
    struct feed_taker *t = pd_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct feed_taker){.f = f, .io = io, .arg = arg, .next = f->takers};
    f->takers = t;
    return t;
}

void feed_taker_free(struct feed_taker *t) {
    if (!t)
        return;
    struct feed_taker **p = &t->f->takers;
    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    free(t->asked);
    free(t);
}

void feed_stop(struct feed_taker *t) { t->first = t->n = 0; }

/* --- encoding --- */

static void work(uv_work_t *w) {
    struct encode_job *j = w->data;
    struct object_codec *c = j->codec = j->codec ? j->codec : object_codec_new();
    const struct scan *s = j->f->scan;
    j->block = pd_malloc(sizeof *j->block + j->raw + j->n * (size_t)OBJECT_HEADER);
    int rc = c && j->block
                 ? scan_read_all(s, j->object, j->n, j->block->data, OBJECT_HEADER, &j->err)
                 : pd_oom(&j->err, "objects to send");
    uint8_t *at = j->block ? j->block->data : NULL;
    for (unsigned i = 0; i < j->n && !rc; i++) {
        uint32_t n = scan_raw_len(s, j->object[i]);
        j->len[i] = object_encode_here(c, scan_object_id(s, j->object[i]), at, n);
        at += OBJECT_HEADER + n;
    }
}

static size_t place_of(const struct feed *f, uint32_t object) {
    return OBJECT_HEADER + scan_raw_len(f->scan, object);
}

static void drop_oldest(struct feed *f, size_t room) {
    while (f->fifo_n && f->cached + room > f->cache) {
        struct rec *r = &f->recs[f->fifo[f->fifo_first]];
        f->cached -= place_of(f, f->fifo[f->fifo_first]);
        f->fifo_first = (f->fifo_first + 1) % (f->n_objects + 1);
        f->fifo_n--;
        leave_block(r);
    }
}

static void keep_record(struct feed *f, uint32_t object, struct record_block *b, const uint8_t *p,
                        size_t n) {
    drop_oldest(f, place_of(f, object));
    f->recs[object] = (struct rec){b, p, (uint32_t)n, READY};
    b->n_used++;
    f->cached += place_of(f, object);
    f->fifo[(f->fifo_first + f->fifo_n++) % (f->n_objects + 1)] = object;
}

static void fail(struct feed *f, const struct pd_err *err) {
    if (f->has_failed)
        return;
    f->has_failed = 1;
    f->failed(f->arg, err);
}

static void on_worked(uv_work_t *w, int status) {
    struct encode_job *j = w->data;
    struct feed *f = j->f;
    struct record_block *b = j->block;
    const uint8_t *at = b ? b->data : NULL;
    (void)status;
    f->n_jobs--;
    if (j->codec)
        f->codecs[f->n_codecs++] = j->codec; /* each job has at most one codec */
    if (b)
        b->n_used = 1; /* the job's own, until all records count */
    for (unsigned i = 0; i < j->n && !f->leaving; i++) {
        if (j->err.code) {
            f->recs[j->object[i]].state = NONE;
            continue;
        }
        keep_record(f, j->object[i], b, at, j->len[i]);
        at += place_of(f, j->object[i]);
    }
    if (b && !--b->n_used)
        free(b);
    struct pd_err err = j->err;
    free(j);
    if (f->leaving) {
        if (!f->n_jobs)
            destroy(f);
        return;
    }
    if (err.code) {
        fail(f, &err);
        return;
    }
    for (struct feed_taker *t = f->takers, *next; t && !f->has_failed; t = next) {
        /* sending frees no taker; the next taker may still be looked at */
        next = t->next;
        feed_send(t);
    }
}

/* Encode the next objects that t wants and that no job encodes yet. */
static void encode_ahead(struct feed_taker *t) {
    struct feed *f = t->f;
    size_t i = t->first, seen = 0;
    while (f->n_jobs < JOBS && seen < JOBS * (size_t)BATCH_RAW) {
        struct encode_job *j = NULL;
        for (; i < t->n && (!j || j->raw < BATCH_RAW) && seen < JOBS * (size_t)BATCH_RAW; i++) {
            uint32_t o = t->asked[i];
            seen += scan_raw_len(f->scan, o);
            if (f->recs[o].state != NONE)
                continue;
            if (!j && !(j = pd_calloc(1, sizeof *j)))
                break;
            f->recs[o].state = RUNNING;
            j->object[j->n++] = o;
            j->raw += scan_raw_len(f->scan, o);
            if (j->n == BATCH_MAX)
                break;
        }
        if (!j)
            return;
        j->f = f;
        j->codec = f->n_codecs ? f->codecs[--f->n_codecs] : NULL;
        j->work.data = j;
        f->n_jobs++;
        uv_queue_work(f->loop, &j->work, work, on_worked);
    }
}

/* --- sending --- */

struct out_frame {
    struct pd_bytes part[FRAME_PARTS];
    size_t n, len;
};

static void send_frame(struct feed_taker *t, struct out_frame *frame) {
    if (!frame->n)
        return;
    t->f->sent += frame->len;
    t->io->send(t->arg, frame->part, frame->n);
    frame->n = frame->len = 0;
}

void feed_send(struct feed_taker *t) {
    struct feed *f = t->f;
    struct out_frame frame;
    if (f->has_failed || t->first == t->n)
        return;
    frame.n = frame.len = 0;
    while (t->first < t->n && t->io->queued(t->arg) + frame.len < AHEAD) {
        const struct rec *r = &f->recs[t->asked[t->first]];
        if (r->state != READY)
            break;
        if (frame.n && (frame.len + r->len > f->frame || frame.n == FRAME_PARTS))
            send_frame(t, &frame);
        frame.part[frame.n++] = (struct pd_bytes){r->data, r->len};
        frame.len += r->len;
        t->first++;
    }
    send_frame(t, &frame);
    encode_ahead(t);
}

int feed_ask(struct feed_taker *t, const uint8_t *ids, size_t n_bytes, struct pd_err *err) {
    size_t n = n_bytes / OBJECT_ID;
    if (n_bytes % OBJECT_ID || t->n - t->first + n > ASKED_MAX)
        return pd_fail(err, PD_EPROTO, "that is no request for objects");
    if (t->first && t->first == t->n)
        t->first = t->n = 0;
    if (t->n + n > t->cap) {
        if (t->n > t->first)
            memmove(t->asked, t->asked + t->first, (t->n - t->first) * sizeof *t->asked);
        t->n -= t->first;
        t->first = 0;
        if (pd_grow(t->asked, t->cap, t->n + n))
            return pd_oom(err, "objects to send");
    }
    for (size_t i = 0; i < n; i++) {
        struct object_id id;
        memcpy(&id, ids + i * OBJECT_ID, OBJECT_ID);
        long o = scan_find(t->f->scan, &id);
        if (o < 0)
            return pd_fail(err, PD_EPROTO, "an object is asked for that is not in this package");
        t->asked[t->n++] = (uint32_t)o;
    }
    feed_send(t);
    return 0;
}

int feed_waits(const struct feed_taker *t) { return t->first == t->n; }
uint64_t feed_sent(const struct feed *f) { return f->sent; }
