/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_seal.c - sealed connections with somebody on the path.
 *
 *     connector a  <--->  middleman, without the key  <--->  acceptor s (sends each frame back)
 *
 * The middleman lets the handshake pass, then changes, repeats, drops, swaps, inserts or cuts
 * records. The connection may only break: no end gets a frame that the other one did not send. The
 * same middleman on a plain connection changes a frame unnoticed, which shows that he works. */
#include <setjmp.h>

#include <cmocka.h>

#include "net/conn_internal.h"
#include "wire/msg.h"

enum { FRAMES = 12, HANDSHAKE_FRAMES = 2 /* in each direction */ };

enum deed { NOTHING, FLIP, REPEAT, DROP, SWAP, INSERT, CUT, FLIP_HANDSHAKE };

/* One direction through the middleman. */
struct way {
    struct middle *m;
    uv_tcp_t *from, *to;
    uint8_t *buf;
    size_t len, cap;
    int frames;     /* of the handshake that have passed */
    size_t records; /* that have passed */
    size_t passed;  /* bytes after the handshake */
    size_t shaken;  /* bytes of the handshake that have passed */
    uint8_t *kept;  /* for SWAP */
    size_t kept_len;
};

struct middle {
    uv_tcp_t listener, client, server;
    struct sockaddr_storage to;
    struct way up, down;
    enum deed deed;
    int is_down; /* direction of the deed */
    size_t at;   /* record number, or for FLIP and CUT the byte after the handshake */
    int plain, done;
    int at_border; /* CUT: between two records */
};

struct side {
    struct net_conn *conn;
    int opened, closed, wrong;
    uint64_t frames;
    struct pd_err why;
    int echo;
};

struct world {
    uv_loop_t loop;
    struct net_listener *listener;
    struct middle m;
    struct side a, s;
};

/* --- the middleman --- */

static void no_free(uv_write_t *w, int status) {
    (void)status;
    free(w);
}

static void pass(struct way *w, const uint8_t *p, size_t n) {
    uv_write_t *req = malloc(sizeof *req + n);
    memcpy(req + 1, p, n);
    uv_buf_t b = uv_buf_init((char *)(req + 1), (unsigned)n);
    if (uv_is_closing((uv_handle_t *)w->to) || uv_write(req, (uv_stream_t *)w->to, &b, 1, no_free))
        free(req);
}

static void shut(uv_tcp_t *t) {
    if (!uv_is_closing((uv_handle_t *)t))
        uv_close((uv_handle_t *)t, NULL);
}

/* Passes one whole unit: a frame of the handshake, a record, or in a plain connection a frame. */
static void pass_unit(struct way *w, uint8_t *p, size_t n) {
    struct middle *m = w->m;
    const int mine = !m->done && m->is_down == (w == &m->down);
    if (w->frames < HANDSHAKE_FRAMES) {
        w->frames++;
        if (mine && m->deed == FLIP_HANDSHAKE && m->at >= w->shaken && m->at < w->shaken + n) {
            p[m->at - w->shaken] ^= 1;
            m->done = 1;
        }
        w->shaken += n;
        pass(w, p, n);
        return;
    }
    const size_t record = w->records++, first = w->passed;
    const int here = m->at >= first && m->at < first + n;
    w->passed += n;
    if (w->kept_len) { /* the second of two that change places */
        pass(w, p, n);
        pass(w, w->kept, w->kept_len);
        w->kept_len = 0;
    } else if (mine && m->deed == FLIP && here) {
        p[m->at - first] ^= 1;
        pass(w, p, n);
        m->done = 1;
    } else if (mine && m->deed == CUT && here) {
        pass(w, p, m->at - first);
        shut(w->to);
        m->at_border = m->at == first;
        m->done = 1;
    } else if (mine && record == m->at && m->deed == REPEAT) {
        pass(w, p, n);
        pass(w, p, n);
        m->done = 1;
    } else if (mine && record == m->at && m->deed == DROP) {
        m->done = 1;
    } else if (mine && record == m->at && m->deed == SWAP) {
        w->kept = realloc(w->kept, n);
        memcpy(w->kept, p, n);
        w->kept_len = n;
        m->done = 1;
    } else if (mine && record == m->at && m->deed == INSERT) {
        uint8_t forged[NET_RECORD_HEAD + 80] = {0, 80, 1, 2, 3};
        pass(w, forged, sizeof forged);
        pass(w, p, n);
        m->done = 1;
    } else {
        pass(w, p, n);
    }
}

/* Bytes of the unit at `p`, or 0: more have to come. */
static size_t unit_bytes(const struct way *w, const uint8_t *p, size_t n) {
    uint64_t bytes = 0;
    if (w->frames < HANDSHAKE_FRAMES || w->m->plain) {
        if (n < WIRE_HEADER)
            return 0;
        memcpy(&bytes, p + 16, 8);
    } else {
        if (n < NET_RECORD_HEAD)
            return 0;
        bytes = NET_RECORD_HEAD + ((size_t)p[0] << 8 | p[1]);
    }
    return bytes <= n ? (size_t)bytes : 0;
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *b) {
    struct way *w = h->data;
    if (w->cap - w->len < n) {
        w->cap = w->len + n;
        w->buf = realloc(w->buf, w->cap);
    }
    *b = uv_buf_init((char *)w->buf + w->len, (unsigned)(w->cap - w->len));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b) {
    struct way *w = s->data;
    (void)b;
    if (n < 0) { /* bytes of an incomplete record pass, too */
        pass(w, w->buf, w->len);
        shut(w->to);
        shut(w->from);
        return;
    }
    w->len += (size_t)n;
    size_t at = 0;
    for (size_t k; (k = unit_bytes(w, w->buf + at, w->len - at)); at += k)
        pass_unit(w, w->buf + at, k);
    memmove(w->buf, w->buf + at, w->len - at);
    w->len -= at;
}

static void on_server(uv_connect_t *req, int status) {
    struct middle *m = req->data;
    free(req);
    assert_int_equal(status, 0);
    uv_read_start((uv_stream_t *)&m->client, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&m->server, on_alloc, on_read);
}

static void on_client(uv_stream_t *s, int status) {
    struct middle *m = s->data;
    assert_int_equal(status, 0);
    assert_int_equal(uv_accept(s, (uv_stream_t *)&m->client), 0);
    uv_connect_t *req = malloc(sizeof *req);
    req->data = m;
    assert_int_equal(uv_tcp_connect(req, &m->server, (const struct sockaddr *)&m->to, on_server),
                     0);
}

static int middle_start(struct middle *m, uv_loop_t *loop, int port) {
    struct sockaddr_storage sa;
    int n = sizeof sa;
    assert_int_equal(net_ip_addr("127.0.0.1", port, &m->to), 0);
    assert_int_equal(net_ip_addr("127.0.0.1", 0, &sa), 0);
    uv_tcp_init(loop, &m->listener);
    uv_tcp_init(loop, &m->client);
    uv_tcp_init(loop, &m->server);
    m->listener.data = m;
    m->up = (struct way){.m = m, .from = &m->client, .to = &m->server};
    m->down = (struct way){.m = m, .from = &m->server, .to = &m->client};
    m->client.data = &m->up;
    m->server.data = &m->down;
    assert_int_equal(uv_tcp_bind(&m->listener, (const struct sockaddr *)&sa, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&m->listener, 1, on_client), 0);
    uv_tcp_getsockname(&m->listener, (struct sockaddr *)&sa, &n);
    return ntohs(((struct sockaddr_in *)&sa)->sin_port);
}

static void middle_stop(struct middle *m) {
    shut(&m->listener);
    shut(&m->client);
    shut(&m->server);
}

/* --- the two ends --- */

/* Frame i has i * 700 + 1 bytes, all i; in a small session the bytes of a declaration, a push, the
 * end of a step, a pull, a save and the end. */
static int is_small;
static size_t size_of_frame(uint64_t i) {
    static const size_t small[FRAMES] = {300, 256, 64, 24, 90, 0};
    return is_small ? small[i] : i * 700 + 1;
}
static uint64_t n_frames(void) { return is_small ? 6 : FRAMES; }

static void on_open(struct net_conn *c, void *arg) {
    struct side *x = arg;
    x->conn = c;
    x->opened = 1;
    if (is_small) /* both ends renew their keys in the session */
        net_seal_limits(c->seal, 5);
}

static void send_frame(struct net_conn *c, uint64_t i) {
    uint8_t body[FRAMES * 700 + 1];
    const struct net_sec sec = {body, size_of_frame(i)};
    memset(body, (int)i, sizeof body);
    assert_int_equal(net_send(c, WIRE_PS_REDUCE, 0, i, &sec, 1, NULL, NULL), 0);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct side *x = arg;
    const uint64_t i = x->frames++;
    if (f->req != i || f->type != WIRE_PS_REDUCE || f->n_sec != 1 || f->len[0] != size_of_frame(i))
        x->wrong = 1;
    for (size_t k = 0; k < f->len[0]; k++)
        x->wrong |= f->sec[0][k] != (uint8_t)i;
    wire_frame_free(f);
    if (x->echo)
        send_frame(c, i);
    if (x->frames == n_frames())
        net_close_after_flush(c);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct side *x = arg;
    (void)c;
    x->conn = NULL;
    x->closed = 1;
    x->why = *why;
}

static void run(struct world *w, enum deed deed, int is_down, size_t at, unsigned ciphers,
                int plain) {
    static const struct net_events events = {
        .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
    const struct net_opts opts = {.max_frame = 1 << 20,
                                  .handshake_timeout_ms = deed == FLIP_HANDSHAKE ? 300 : 0};
    const struct wire_hs_opts hs = {
        .self = {WIRE_ROLE_PSERVER, 1, 5, "J"}, .key = {1}, .plain = plain, .ciphers = ciphers};
    memset(w, 0, sizeof *w);
    uv_loop_init(&w->loop);
    w->s.echo = 1;
    w->m.deed = deed;
    w->m.is_down = is_down;
    w->m.at = at;
    w->m.plain = plain;
    assert_int_equal(net_listen_fd(&w->listener, &w->loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs,
                                   &opts, &events, &w->s, NULL),
                     0);
    const int port = middle_start(&w->m, &w->loop, net_listener_port(w->listener));
    assert_int_equal(net_connect(&w->a.conn, &w->loop, "127.0.0.1", port, 3000, &hs, &opts, &events,
                                 &w->a, NULL),
                     0);
    while (!w->a.opened && !w->a.closed)
        uv_run(&w->loop, UV_RUN_ONCE);
    assert_true(w->a.opened ? net_is_sealed(w->a.conn) == !plain : deed == FLIP_HANDSHAKE);
    for (uint64_t i = 0; i < n_frames() && w->a.opened && !w->a.closed; i++)
        send_frame(w->a.conn, i);
    const struct side *hit = is_down ? &w->a : &w->s;
    while (!w->a.closed || (w->s.opened && !w->s.closed)) {
        uv_run(&w->loop, UV_RUN_ONCE);
        /* The other end may wait for the rest of a record. The last bytes of an end that has
         * closed without an error may still be on their way. */
        if (w->m.done && hit->closed && hit->why.code)
            middle_stop(&w->m);
    }
    net_listener_close(w->listener, NULL, NULL);
    middle_stop(&w->m);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    struct way *ways[] = {&w->m.up, &w->m.down};
    for (int i = 0; i < 2; i++) {
        free(ways[i]->buf);
        free(ways[i]->kept);
    }
}

/* The end that received the changed bytes has broken the connection, and says why. */
static void must_break(const struct world *w, enum deed deed, int is_down, size_t at) {
    const struct side *hit = is_down ? &w->a : &w->s;
    if (!w->m.done)
        fail_msg("deed %d, direction %d, %zu: there was nothing to change: '%s', '%s'", deed,
                 is_down, at, w->a.why.msg, w->s.why.msg);
    if (w->a.wrong || w->s.wrong || hit->frames == n_frames())
        fail_msg("deed %d, direction %d, %zu: changed bytes were accepted", deed, is_down, at);
    /* A cut makes it wait for bytes until the connection ends. */
    const int told = strstr(hit->why.msg, "is not the peer's next one") != NULL;
    if (!hit->why.code || (!told && deed != CUT))
        fail_msg("deed %d, direction %d, %zu: %d '%s'", deed, is_down, at, hit->why.code,
                 hit->why.msg);
}

static const unsigned each_cipher[] = {WIRE_AES256GCM, WIRE_CHACHA20POLY1305};

static void an_undisturbed_connection_carries_all(void **state) {
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct world w;
        if (k < 2 && !(wire_ciphers() & each_cipher[k])) {
            print_message("skipped: this CPU has no AES instructions\n");
            continue;
        }
        run(&w, NOTHING, 0, 0, k < 2 ? each_cipher[k] : 0, k == 2);
        assert_int_equal(w.a.frames, FRAMES);
        assert_int_equal(w.s.frames, FRAMES);
        assert_false(w.a.wrong || w.s.wrong);
    }
}

static void records_cannot_be_repeated_dropped_swapped_or_inserted(void **state) {
    (void)state;
    static const enum deed deeds[] = {REPEAT, DROP, SWAP, INSERT};
    for (size_t k = 0; k < 2; k++)
        for (size_t d = 0; d < sizeof deeds / sizeof deeds[0]; d++)
            for (int is_down = 0; is_down < 2; is_down++)
                for (size_t at = 0; at < 3; at++) {
                    struct world w;
                    if (!(wire_ciphers() & each_cipher[k]))
                        continue;
                    run(&w, deeds[d], is_down, at, each_cipher[k], 0);
                    must_break(&w, deeds[d], is_down, at);
                }
}

/* As OpenSSH's integrity test: every position of a live session's first records. */
static void no_byte_can_be_changed_or_cut_off(void **state) {
    (void)state;
    static const enum deed deeds[] = {FLIP, CUT};
    for (size_t d = 0; d < 2; d++)
        for (int is_down = 0; is_down < 2; is_down++)
            for (size_t at = deeds[d] == CUT; at < 700; at += deeds[d] == CUT ? 7 : 1) {
                struct world w;
                run(&w, deeds[d], is_down, at, 0, 0);
                const char *why = (is_down ? &w.a : &w.s)->why.msg;
                must_break(&w, deeds[d], is_down, at);
                /* Between two records a cut is like an end that has died. */
                const int in_the_middle = strstr(why, "in the middle of a message") != NULL;
                if (deeds[d] == CUT && in_the_middle == w.m.at_border)
                    fail_msg("a cut in direction %d at %zu: '%s'", is_down, at, why);
            }
}

/* Each position of a whole small session, from the first byte of the handshake to the last one,
 * with new keys after every five messages. A changed byte breaks the connection with the next
 * bytes. */
static void no_byte_of_a_session_can_be_changed(void **state) {
    (void)state;
    struct world w;
    is_small = 1;
    run(&w, NOTHING, 0, 0, 0, 0);
    assert_int_equal(w.s.frames, n_frames());
    const size_t bytes[] = {w.m.up.passed, w.m.down.passed},
                 shaken[] = {w.m.up.shaken, w.m.down.shaken};
    if (bytes[0] < 1000 || bytes[1] < 1000 || shaken[0] < 200 || shaken[1] < 200)
        fail_msg("%zu %zu %zu %zu", bytes[0], bytes[1], shaken[0], shaken[1]);
    for (int is_down = 0; is_down < 2; is_down++) {
        for (size_t at = 0; at < bytes[is_down]; at++) {
            run(&w, FLIP, is_down, at, 0, 0);
            must_break(&w, FLIP, is_down, at);
        }
        for (size_t at = 0; at < shaken[is_down]; at++) {
            run(&w, FLIP_HANDSHAKE, is_down, at, 0, 0);
            /* Bytes that fill up a frame are not read. Otherwise no frame arrives, for a reason. */
            if (!w.m.done || w.a.wrong || w.s.wrong ||
                (w.s.frames ? w.s.frames != n_frames() || w.a.frames != n_frames() : !*w.a.why.msg))
                fail_msg("handshake, direction %d, %zu: %d %d '%s'", is_down, at, (int)w.a.frames,
                         (int)w.s.frames, w.a.why.msg);
        }
    }
    is_small = 0;
}

static void without_a_seal_a_change_goes_unnoticed(void **state) {
    (void)state;
    struct world w;
    run(&w, FLIP, 0, WIRE_HEADER, 0, 1);
    assert_true(w.m.done);
    assert_true(w.s.wrong);
    assert_int_equal(w.s.frames, FRAMES);
}

/* Frames in one record: the first one's end leaves no room to open the record directly into it. */
static void a_seal_keeps_no_opened_bytes(void **state) {
    (void)state;
    enum { LARGE = WIRE_RECORD_MAX + 20000 };
    const uint8_t cipher_key[WIRE_NOISE_KEY] = {1}, key[] = "a key that must not stay in memory";
    const size_t large[WIRE_SECTIONS] = {LARGE}, small[WIRE_SECTIONS] = {sizeof key};
    struct pd_buf b = {0};
    uint8_t h[WIRE_HEADER];
    wire_header(h, WIRE_DS_BEGIN, 0, 1, 1, large);
    pd_put(&b, h, sizeof h);
    for (size_t i = 0; i < LARGE + wire_pad(LARGE); i++)
        pd_put_u8(&b, 0);
    wire_header(h, WIRE_AG_JOB_SETUP, 0, 2, 1, small);
    pd_put(&b, h, sizeof h);
    pd_put(&b, key, sizeof key);
    for (size_t i = 0; i < wire_pad(sizeof key); i++)
        pd_put_u8(&b, 0);
    struct net_seal *s = net_seal_new(wire_cipher_new(WIRE_CHACHA20POLY1305, cipher_key),
                                      wire_cipher_new(WIRE_CHACHA20POLY1305, cipher_key));
    struct wire_decoder *d = wire_decoder_new(1 << 20);
    const size_t n = net_sealed_size(b.len);
    uint8_t *sealed = malloc(n), *p = NULL;
    size_t room;
    const uv_buf_t buf = uv_buf_init((char *)b.data, (unsigned)b.len);
    net_seal_put(s, sealed, &buf, b.len);
    int frames = 0;
    for (size_t at = 0; at < n;) {
        net_seal_space(s, &p, &room);
        room = room < 1000 ? room : 1000; /* after large reads the memory is given back */
        room = room < n - at ? room : n - at;
        memcpy(p, sealed + at, room);
        at += room;
        net_seal_commit(s, room);
        do
            for (struct wire_frame *f; (f = wire_decoder_next(d)); frames++)
                wire_frame_free(f);
        while (net_seal_feed(s, d, NULL) > 0);
    }
    assert_int_equal(frames, 2);
    net_seal_space(s, &p, &room); /* all memory of the seal: no bytes wait */
    assert_null(memmem(p, room, key, sizeof key));
    wire_decoder_free(d);
    net_seal_free(s);
    pd_buf_release(&b);
    free(sealed);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* the middleman writes to closed connections */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undisturbed_connection_carries_all),
        cmocka_unit_test(records_cannot_be_repeated_dropped_swapped_or_inserted),
        cmocka_unit_test(no_byte_can_be_changed_or_cut_off),
        cmocka_unit_test(no_byte_of_a_session_can_be_changed),
        cmocka_unit_test(without_a_seal_a_change_goes_unnoticed),
        cmocka_unit_test(a_seal_keeps_no_opened_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
