/* SPDX-License-Identifier: Apache-2.0 */
/* send.c - queues frames. Without a seal, bytes that the kernel takes at once are never copied. */
#include "net/conn_internal.h"

enum {
    /* Larger frames are sent at once: copying them costs more than a system call. */
    MAX_BUFS = 1 + 2 * WIRE_SECTIONS,
    CORK_FRAME = 16 << 10,
    CORK_MOST = 64 << 10,
    /* Chunks that are sealed in one turn of the loop; the others wait for the next turn. */
    CHUNKS_AT_ONCE = 16,
};

static const char padding[WIRE_ALIGN];

/* A write failed. A peer that gave up may have said why before it closed, and those bytes may still
 * be unread. On a socket the reading side therefore continues and closes the connection at the end
 * of the stream. */
static void write_failed(struct net_conn *c, int status) {
    if (c->in == c->out && c->open && !c->paused && !c->flush_then_close &&
        (status == UV_EPIPE || status == UV_ECONNRESET))
        c->deaf = 1;
    else
        net_conn_fail(c, PD_ECLOSED, "the connection broke: %s", uv_strerror(status));
}

struct pending {
    uv_write_t req;
    struct net_conn *c;
    size_t n;
    void (*release)(void *);
    void *release_arg;
    /* header: outlives the call even when the sections belong to the caller */
    uint8_t header[WIRE_HEADER];
    uint8_t copy[];
};

static void all_written(struct net_conn *c) {
    if (c->flush_then_close)
        net_close(c);
    else if (c->ev.on_drain && c->open)
        c->ev.on_drain(c, c->arg);
}

static void on_written(uv_write_t *req, int status) {
    struct pending *p = (struct pending *)req;
    struct net_conn *c = p->c;
    c->queued -= p->n;
    if (p->release)
        p->release(p->release_arg);
    pd_pool_put(c->opts.pool, p);
    if (c->closing)
        return;
    if (status) {
        write_failed(c, status);
        return;
    }
    if (!c->queued)
        all_written(c);
}

static uv_buf_t span(const void *p, size_t n) {
    return (uv_buf_t){.base = (char *)(uintptr_t)p, .len = n};
}

/* Drops the first n bytes of the list. Returns the number of remaining buffers, moved to the front.
 */
static unsigned skip_bytes(uv_buf_t *bufs, unsigned n_bufs, size_t n) {
    unsigned i = 0;
    while (i < n_bufs && n >= bufs[i].len)
        n -= bufs[i++].len;
    memmove(bufs, bufs + i, (n_bufs - i) * sizeof *bufs);
    if (i < n_bufs) {
        bufs[0].base += n;
        bufs[0].len -= n;
    }
    return n_bufs - i;
}

/* --- a connection without a seal --- */

static size_t total_bytes(const uv_buf_t *bufs, unsigned n_bufs) {
    size_t n = 0;
    for (unsigned i = 0; i < n_bufs; i++)
        n += bufs[i].len;
    return n;
}

static void copy_bytes(uint8_t *to, const uv_buf_t *bufs, unsigned n_bufs) {
    for (unsigned i = 0; i < n_bufs; i++) {
        memcpy(to, bufs[i].base, bufs[i].len);
        to += bufs[i].len;
    }
}

/* Moves the first buffer, if it begins in the frame's header, to a copy of the header. */
static void use_header(uv_buf_t *bufs, const uint8_t *header, uint8_t *copy) {
    memcpy(copy, header, WIRE_HEADER);
    if (bufs[0].base >= (const char *)header && bufs[0].base < (const char *)header + WIRE_HEADER)
        bufs[0].base = (char *)copy + (bufs[0].base - (const char *)header);
}

static int queue_rest(struct net_conn *c, uv_buf_t *bufs, unsigned n_bufs, const uint8_t *header,
                      void (*release)(void *), void *release_arg) {
    const size_t left = total_bytes(bufs, n_bufs);
    struct pending *p = pd_pool_get(c->opts.pool, sizeof *p + (release ? 0 : left));
    if (!p)
        return PD_ENOMEM;
    p->c = c;
    p->n = left;
    p->release = release;
    p->release_arg = release_arg;
    if (release) {
        use_header(bufs, header, p->header);
    } else {
        copy_bytes(p->copy, bufs, n_bufs);
        bufs[0] = span(p->copy, left);
        n_bufs = 1;
    }
    int rc = uv_write(&p->req, c->out, bufs, n_bufs, on_written);
    if (rc) {
        pd_pool_put(c->opts.pool, p);
        return PD_EIO;
    }
    c->queued += left;
    return 0;
}

/* Writes as much as the kernel takes at once. *n_bufs: the buffers that remain; 0 also if the
 * connection broke. */
static void write_now(struct net_conn *c, uv_buf_t *bufs, unsigned *n_bufs) {
    int n = c->queued ? 0 : uv_try_write(c->out, bufs, *n_bufs);
    if (n < 0 && n != UV_EAGAIN) {
        write_failed(c, n);
        *n_bufs = 0;
        return;
    }
    *n_bufs = skip_bytes(bufs, *n_bufs, n > 0 ? (size_t)n : 0);
}

/* --- a sealed connection ---
 *
 *     frame, frame, frame  -->  at most NET_SEAL_CHUNK of them, sealed  -->  kernel
 *     (waiting)                 (one at a time: struct pending)
 *
 * Frames are sealed when the kernel is about to take them, so a large frame needs no second copy of
 * itself. */

struct net_waiting {
    struct net_waiting *next;
    uv_buf_t bufs[MAX_BUFS];
    unsigned n_bufs;
    size_t left;
    void (*release)(void *);
    void *release_arg;
    uint8_t header[WIRE_HEADER];
    uint8_t copy[];
};

static void write_waiting(struct net_conn *c);

static void on_sealed_written(uv_write_t *req, int status) {
    struct pending *p = (struct pending *)req;
    struct net_conn *c = p->c;
    c->queued -= p->n;
    c->writing = 0;
    pd_pool_put(c->opts.pool, p);
    if (c->closing)
        return;
    if (status) {
        write_failed(c, status);
        return;
    }
    write_waiting(c);
    if (!c->closing && !c->queued)
        all_written(c);
}

/* Seals and writes a chunk of the buffers. Returns how many buffers remain. *rc: PD_ENOMEM or
 * PD_EIO. last: the next chunk has to wait for the loop. */
static unsigned write_chunk(struct net_conn *c, uv_buf_t *bufs, unsigned n_bufs, int last,
                            int *rc) {
    const size_t all = total_bytes(bufs, n_bufs), n = all < NET_SEAL_CHUNK ? all : NET_SEAL_CHUNK;
    const size_t sealed = net_sealed_size(n);
    struct pending *p = pd_pool_get(c->opts.pool, sizeof *p + sealed);
    if (!p) {
        *rc = PD_ENOMEM;
        return n_bufs;
    }
    net_seal_put(c->seal, p->copy, bufs, n);
    n_bufs = skip_bytes(bufs, n_bufs, n);
    uv_buf_t b = span(p->copy, sealed);
    unsigned rest = 1;
    int done = last ? UV_EAGAIN : uv_try_write(c->out, &b, 1);
    if (done < 0 && done != UV_EAGAIN) {
        write_failed(c, done);
        rest = 0;
    } else {
        rest = skip_bytes(&b, 1, done > 0 ? (size_t)done : 0);
    }
    if (!rest) {
        pd_pool_put(c->opts.pool, p);
        return n_bufs;
    }
    p->c = c;
    p->n = b.len;
    p->release = NULL;
    if (uv_write(&p->req, c->out, &b, 1, on_sealed_written)) {
        pd_pool_put(c->opts.pool, p);
        *rc = PD_EIO;
        return n_bufs;
    }
    c->writing = 1;
    c->queued += p->n;
    return n_bufs;
}

static void drop_first(struct net_conn *c) {
    struct net_waiting *w = c->waiting;
    c->waiting = w->next;
    if (!w->next)
        c->waiting_end = &c->waiting;
    c->queued -= w->left;
    if (w->release)
        w->release(w->release_arg);
    pd_pool_put(c->opts.pool, w);
}

void net_conn_drop_waiting(struct net_conn *c) {
    while (c->waiting)
        drop_first(c);
}

static void write_waiting(struct net_conn *c) {
    int rc = 0, chunks = 0;
    while (!rc && c->waiting && !c->writing && !c->closing && !c->deaf) {
        struct net_waiting *w = c->waiting;
        const size_t before = w->left;
        w->n_bufs = write_chunk(c, w->bufs, w->n_bufs, ++chunks == CHUNKS_AT_ONCE, &rc);
        w->left = total_bytes(w->bufs, w->n_bufs);
        c->queued -= before - w->left;
        if (!w->n_bufs)
            drop_first(c);
    }
    if (rc)
        net_conn_fail(c, rc, "cannot queue messages of %zu bytes", c->queued);
}

static int wait_sealed(struct net_conn *c, uv_buf_t *bufs, unsigned n_bufs, const uint8_t *header,
                       void (*release)(void *), void *release_arg) {
    const size_t left = total_bytes(bufs, n_bufs);
    struct net_waiting *w = pd_pool_get(c->opts.pool, sizeof *w + (release ? 0 : left));
    if (!w)
        return PD_ENOMEM;
    w->next = NULL;
    w->left = left;
    w->release = release;
    w->release_arg = release_arg;
    if (release) {
        memcpy(w->bufs, bufs, n_bufs * sizeof *bufs);
        w->n_bufs = n_bufs;
        use_header(w->bufs, header, w->header);
    } else {
        copy_bytes(w->copy, bufs, n_bufs);
        w->bufs[0] = span(w->copy, left);
        w->n_bufs = 1;
    }
    *c->waiting_end = w;
    c->waiting_end = &w->next;
    c->queued += left;
    return 0;
}

/* --- both --- */

/* Sends the buffers after everything that waits. *release: NULL if it will be called later. */
static int write_bufs(struct net_conn *c, uv_buf_t *bufs, unsigned n_bufs, const uint8_t *header,
                      void (**release)(void *), void *release_arg) {
    int rc = 0, chunks = 0;
    if (c->seal)
        while (n_bufs && !rc && !c->waiting && !c->writing && !c->closing && !c->deaf)
            n_bufs = write_chunk(c, bufs, n_bufs, ++chunks == CHUNKS_AT_ONCE, &rc);
    else
        write_now(c, bufs, &n_bufs);
    if (!n_bufs || rc || c->closing || c->deaf)
        return rc;
    rc = (c->seal ? wait_sealed : queue_rest)(c, bufs, n_bufs, header, *release, release_arg);
    if (!rc)
        *release = NULL;
    return rc;
}

int net_conn_flush(struct net_conn *c) {
    void (*none)(void *) = NULL;
    if (!c->cork.len)
        return 0;
    const size_t len = c->cork.len;
    uv_buf_t b = span(c->cork.data, len);
    /* keep the memory; closing the connection, below, calls this function again */
    pd_buf_clear(&c->cork);
    if (c->closing || c->flush_then_close || c->deaf)
        return 0;
    const int rc = write_bufs(c, &b, 1, NULL, &none, NULL);
    if (rc)
        net_conn_fail(c, rc, "cannot queue messages of %zu bytes", len);
    return rc;
}

/* Appends the frame to the cork buffer, which is sent after all received frames are handled.
 * PD_ENOMEM: nothing was appended. */
static int cork(struct net_conn *c, const uv_buf_t *bufs, unsigned n_bufs, size_t total) {
    if (pd_buf_reserve(&c->cork, total))
        return PD_ENOMEM;
    for (unsigned i = 0; i < n_bufs; i++)
        pd_put(&c->cork, bufs[i].base, bufs[i].len);
    return c->cork.len > CORK_MOST ? net_conn_flush(c) : 0;
}

int net_send(struct net_conn *c, uint16_t type, uint16_t flags, uint64_t req,
             const struct net_sec *sec, uint32_t n_sec, void (*release)(void *),
             void *release_arg) {
    uint8_t header[WIRE_HEADER], shared[WIRE_HEADER + WIRE_SHARED_BODY];
    size_t len[WIRE_SECTIONS] = {0};
    uv_buf_t bufs[MAX_BUFS];
    unsigned n_bufs = 0;
    int rc = 0;
    if (c->closing || c->flush_then_close || c->deaf)
        goto done;
    for (uint32_t i = 0; i < n_sec; i++)
        len[i] = sec[i].n;
    size_t total = wire_header(header, type, flags, req, n_sec, len);
    if (net_share_sends(c->share) && total >= NET_SHARE_LEAST &&
        net_share_write(c->share, type, flags, req, sec, n_sec, len, release, release_arg,
                        shared)) {
        release = NULL;
        total = sizeof shared;
        bufs[n_bufs++] = span(shared, sizeof shared);
        n_sec = 0;
    } else {
        bufs[n_bufs++] = span(header, WIRE_HEADER);
    }
    for (uint32_t i = 0; i < n_sec; i++) {
        if (sec[i].n)
            bufs[n_bufs++] = span(sec[i].p, sec[i].n);
        if (wire_pad(sec[i].n))
            bufs[n_bufs++] = span(padding, wire_pad(sec[i].n));
    }
    if ((c->corked || c->held) && total <= CORK_FRAME) {
        rc = cork(c, bufs, n_bufs, total);
        if (rc)
            net_conn_fail(c, rc, "cannot queue a message of %zu bytes", total);
        goto done;
    }
    if ((rc = net_conn_flush(c)) || c->closing || c->deaf)
        goto done;
    rc = write_bufs(c, bufs, n_bufs, header, &release, release_arg);
    if (rc)
        net_conn_fail(c, rc, "cannot queue a message of %zu bytes", total);
done:
    if (release)
        release(release_arg);
    return rc;
}

void net_hold(struct net_conn *c, int hold) {
    c->held = hold;
    if (!hold && !c->corked)
        (void)net_conn_flush(c);
}

int net_send_error(struct net_conn *c, uint16_t type, uint64_t req, const struct pd_err *e) {
    struct pd_buf b = {0};
    wire_error_put(&b, e);
    int rc = b.failed;
    if (!rc) {
        struct net_sec s = {b.data, b.len};
        rc = net_send(c, type, WIRE_F_ERROR, req, &s, 1, NULL, NULL);
    }
    pd_buf_release(&b);
    return rc;
}
