/* SPDX-License-Identifier: Apache-2.0 */
/* launch_seed.c - a source for the seeds of fresh hosts (protocol.md, "The seed"): sends the
 * payload to whoever proves the secret. */
#include <sodium.h>

#include "launcher/launch/launch_internal.h"
#include "seed/seed.h"

enum { STRANGERS_MAX = 1024, PROOF_MS = 10000, BACKLOG = 1024 };

struct taker {
    struct launch_seed *s;
    struct taker *next, **at; /* at: the pointer to this one */
    uv_tcp_t tcp;
    uv_timer_t timer; /* limit for the proof */
    uv_write_t greeting_write, payload_write;
    int n_handles, proved;
    uint8_t nonce[SEED_NONCE], proof[SEED_PROOF];
    size_t n_proof;
    char more[64];
};

struct launch_seed {
    uv_tcp_t tcp;
    const struct launch_opts *o;
    uint8_t secret[LAUNCH_KEY];
    struct taker *takers;
    size_t n_takers;
    int closed;
    void (*done)(void *);
    void *arg;
};

static void maybe_done(struct launch_seed *s) {
    if (!s->closed || s->n_takers)
        return;
    s->done(s->arg);
    sodium_memzero(s, sizeof *s);
    free(s);
}

static void on_handle_closed(uv_handle_t *h) {
    struct taker *t = h->data;
    struct launch_seed *s = t->s;
    if (--t->n_handles)
        return;
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    s->n_takers--;
    free(t);
    maybe_done(s);
}

static void leave(struct taker *t) {
    if (uv_is_closing((uv_handle_t *)&t->tcp))
        return;
    uv_close((uv_handle_t *)&t->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&t->timer, on_handle_closed);
}

/* Too many connections have not proved the secret: the oldest of them makes way. */
static void make_room(struct launch_seed *s) {
    struct taker *oldest = NULL;
    int n = 0;
    for (struct taker *t = s->takers; t; t = t->next)
        if (!t->proved && !uv_is_closing((uv_handle_t *)&t->tcp)) {
            oldest = t;
            n++;
        }
    if (n > STRANGERS_MAX)
        leave(oldest);
}

static void on_late(uv_timer_t *timer) { leave(timer->data); }

static void on_sent(uv_write_t *w, int status) {
    struct taker *t = w->handle->data;
    if (status || w == &t->payload_write)
        leave(t);
}

static int is_right(const struct taker *t, uint32_t first) {
    uint8_t text[sizeof SEED_PROOF_LABEL - 1 + SEED_NONCE + 4], right[SEED_HASH];
    const size_t n = sizeof SEED_PROOF_LABEL - 1;
    memcpy(text, SEED_PROOF_LABEL, n);
    memcpy(text + n, t->nonce, SEED_NONCE);
    memcpy(text + n + SEED_NONCE, t->proof, 4);
    crypto_generichash(right, sizeof right, text, sizeof text, t->s->secret, LAUNCH_KEY);
    return !sodium_memcmp(right, t->proof + 4, sizeof right) &&
           (uint64_t)first * SEED_CHUNK < t->s->o->payload_size;
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    struct taker *t = h->data;
    (void)want;
    *buf = t->proved ? uv_buf_init(t->more, sizeof t->more)
                     : uv_buf_init((char *)t->proof + t->n_proof,
                                   (unsigned)(sizeof t->proof - t->n_proof));
}

static void on_read(uv_stream_t *from, ssize_t n, const uv_buf_t *buf) {
    struct taker *t = from->data;
    uint32_t first;
    (void)buf;
    if (!n)
        return;
    if (n < 0 || t->proved) { /* a taker sends nothing after its proof */
        leave(t);
        return;
    }
    t->n_proof += (size_t)n;
    if (t->n_proof < sizeof t->proof)
        return;
    first = t->proof[0] | (uint32_t)t->proof[1] << 8 | (uint32_t)t->proof[2] << 16 |
            (uint32_t)t->proof[3] << 24;
    if (!is_right(t, first)) {
        leave(t);
        return;
    }
    t->proved = 1;
    uv_timer_stop(&t->timer);
    const size_t at = (size_t)first * SEED_CHUNK;
    const uv_buf_t b = uv_buf_init((char *)(uintptr_t)t->s->o->payload + at,
                                   (unsigned)(t->s->o->payload_size - at));
    if (uv_write(&t->payload_write, from, &b, 1, on_sent))
        leave(t);
}

static void on_connection(uv_stream_t *listener, int status) {
    struct launch_seed *s = listener->data;
    struct taker *t = status ? NULL : pd_calloc(1, sizeof *t);
    if (!t)
        return;
    t->s = s;
    uv_tcp_init(listener->loop, &t->tcp);
    uv_timer_init(listener->loop, &t->timer);
    t->tcp.data = t->timer.data = t;
    t->n_handles = 2;
    t->next = s->takers;
    t->at = &s->takers;
    if (t->next)
        t->next->at = &t->next;
    s->takers = t;
    s->n_takers++;
    uv_unref((uv_handle_t *)&t->tcp);
    uv_unref((uv_handle_t *)&t->timer);
    randombytes_buf(t->nonce, sizeof t->nonce);
    const uv_buf_t b = uv_buf_init((char *)t->nonce, sizeof t->nonce);
    make_room(s);
    if (uv_accept(listener, (uv_stream_t *)&t->tcp) ||
        uv_write(&t->greeting_write, (uv_stream_t *)&t->tcp, &b, 1, on_sent) ||
        uv_read_start((uv_stream_t *)&t->tcp, on_alloc, on_read))
        leave(t);
    else
        uv_timer_start(&t->timer, on_late, PROOF_MS, 0);
}

static void on_listener_closed(uv_handle_t *h) {
    struct launch_seed *s = h->data;
    s->closed = 1;
    maybe_done(s);
}

static void ignore(void *arg) { (void)arg; }

int launch_seed_new(struct launch_seed **out, uv_loop_t *loop, const struct launch_opts *o,
                    const uint8_t secret[LAUNCH_KEY], int *port, struct pd_err *err) {
    struct launch_seed *s = pd_calloc(1, sizeof *s);
    const int fd = s ? net_bind_first_free(net_any_ip(), 0, 1, port, err) : -1;
    if (fd < 0) {
        free(s);
        return s ? err->code : pd_oom(err, "a listener");
    }
    s->o = o;
    memcpy(s->secret, secret, LAUNCH_KEY);
    uv_tcp_init(loop, &s->tcp);
    s->tcp.data = s;
    uv_unref((uv_handle_t *)&s->tcp);
    int rc = uv_tcp_open(&s->tcp, fd);
    if (rc)
        close(fd);
    else
        rc = uv_listen((uv_stream_t *)&s->tcp, BACKLOG, on_connection);
    if (rc) {
        launch_seed_free(s, ignore, NULL);
        return pd_fail(err, PD_EIO, "cannot listen on port %d: %s", *port, uv_strerror(rc));
    }
    *out = s;
    return 0;
}

void launch_seed_free(struct launch_seed *s, void (*closed)(void *), void *arg) {
    s->done = closed;
    s->arg = arg;
    uv_close((uv_handle_t *)&s->tcp, on_listener_closed);
    for (struct taker *t = s->takers; t; t = t->next)
        leave(t);
}
