/* send.c - queues frames. Bytes that the kernel takes at once are never copied. */
#include <stdlib.h>
#include <string.h>

#include "net/conn_internal.h"

enum {
    /* Larger frames are sent at once: copying them costs more than a system call. */
    MAX_BUFS = 1 + 2 * WIRE_SECTIONS,
    CORK_FRAME = 16 << 10,
    CORK_MOST = 64 << 10,
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
    if (c->queued)
        return;
    if (c->flush_then_close)
        net_close(c);
    else if (c->ev.on_drain && c->open)
        c->ev.on_drain(c, c->arg);
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

static int queue_rest(struct net_conn *c, uv_buf_t *bufs, unsigned n_bufs, const uint8_t *header,
                      void (*release)(void *), void *release_arg) {
    size_t left = 0;
    for (unsigned i = 0; i < n_bufs; i++)
        left += bufs[i].len;
    struct pending *p = pd_pool_get(c->opts.pool, sizeof *p + (release ? 0 : left));
    if (!p)
        return PD_ENOMEM;
    p->c = c;
    p->n = left;
    p->release = release;
    p->release_arg = release_arg;
    if (release) {
        memcpy(p->header, header, WIRE_HEADER);
        if (bufs[0].base >= (const char *)header &&
            bufs[0].base < (const char *)header + WIRE_HEADER)
            bufs[0].base = (char *)p->header + (bufs[0].base - (const char *)header);
    } else {
        size_t at = 0;
        for (unsigned i = 0; i < n_bufs; i++) {
            memcpy(p->copy + at, bufs[i].base, bufs[i].len);
            at += bufs[i].len;
        }
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

int net_conn_flush(struct net_conn *c) {
    if (!c->cork.len)
        return 0;
    size_t len = c->cork.len;
    int rc = 0, n = 0;
    uv_buf_t b = span(c->cork.data, len);
    /* keep the memory; closing the connection, below, calls this function again */
    pd_buf_clear(&c->cork);
    if (c->closing || c->flush_then_close || c->deaf)
        return 0;
    n = c->queued ? 0 : uv_try_write(c->out, &b, 1);
    if (n < 0 && n != UV_EAGAIN) {
        write_failed(c, n);
        return 0;
    }
    n = n > 0 ? n : 0;
    if ((size_t)n < len) {
        (void)skip_bytes(&b, 1, (size_t)n);
        rc = queue_rest(c, &b, 1, NULL, NULL, NULL);
    }
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
    int n = c->queued ? 0 : uv_try_write(c->out, bufs, n_bufs);
    if (n < 0 && n != UV_EAGAIN) {
        write_failed(c, n);
        goto done;
    }
    if (n > 0 && (size_t)n == total)
        goto done;
    n_bufs = skip_bytes(bufs, n_bufs, n > 0 ? (size_t)n : 0);
    rc = queue_rest(c, bufs, n_bufs, header, release, release_arg);
    if (!rc)
        return 0; /* on_written calls release */
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
    struct pd_buf b;
    pd_buf_init(&b);
    wire_error_put(&b, e);
    int rc = b.failed;
    if (!rc) {
        struct net_sec s = {b.data, b.len};
        rc = net_send(c, type, WIRE_F_ERROR, req, &s, 1, NULL, NULL);
    }
    pd_buf_release(&b);
    return rc;
}
