/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_share.c - libFuzzer: one end of a connection within a machine, whose peer says anything
 * about shared memory, and writes anything into the memory that it shares.
 *
 * The input is a list of what the peer does (its offer, right or not; its answer; a frame
 * elsewhere; bytes; turns given back) and of what this end does: offer, send, lend, free frames
 * that it has kept. */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "net/shm/arena.h"
#include "net/conn_internal.h"
#include "wire/msg.h"
#include "tests/support/fuzz/fuzz.h"

enum { KEEP = 4, FRAME_MAX = 1 << 20, LENT = 1 << 17 };

struct end {
    struct net_conn *conn;
    struct wire_frame *kept[KEEP];
    unsigned n_kept, sum;
    struct net_region *region;
    uint8_t *lent; /* LENT bytes of it */
    unsigned n_lent, n_released;
};

/* The peer's memory: what it sends with, and what it lends. */
struct peer {
    struct net_arena *arena;
    struct net_memory_name arena_name;
    struct net_region *region;
};

static void drop_kept(struct end *e) {
    while (e->n_kept)
        wire_frame_free(e->kept[--e->n_kept]);
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct end *e = arg;
    (void)c;
    if (f->flags & WIRE_F_SHARED || f->total > FRAME_MAX)
        abort();
    for (uint32_t i = 0; i < f->n_sec; i++)
        for (size_t k = 0; k < f->len[i]; k += k + 512 < f->len[i] ? 512 : f->len[i] - k)
            e->sum += f->sec[i][k] + f->sec[i][f->len[i] - 1];
    if (e->n_kept == KEEP)
        drop_kept(e);
    e->kept[e->n_kept++] = f;
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    (void)c;
    (void)why;
    ((struct end *)arg)->conn = NULL;
}

/* Two ends of a connection from this machine to itself. */
static void connect_ends(int fd[2]) {
    static int listener = -1;
    static struct sockaddr_in a;
    socklen_t n = sizeof a;
    if (listener < 0) {
        a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 8) ||
            getsockname(listener, (struct sockaddr *)&a, &n))
            abort();
    }
    const struct linger none = {1, 0}; /* no TIME_WAIT: there are thousands of runs */
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd[0], (struct sockaddr *)&a, sizeof a) ||
        (fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 ||
        setsockopt(fd[0], SOL_SOCKET, SO_LINGER, &none, sizeof none) ||
        fcntl(fd[0], F_SETFL, O_NONBLOCK))
        abort();
}

static void peer_says(int fd, uint16_t type, const void *p, size_t n) {
    static const uint8_t zeros[WIRE_ALIGN];
    uint8_t head[WIRE_HEADER];
    size_t len[WIRE_SECTIONS] = {n};
    (void)wire_header(head, type, 0, 0, 1, len);
    (void)!send(fd, head, sizeof head, MSG_NOSIGNAL);
    (void)!send(fd, p, n, MSG_NOSIGNAL);
    (void)!send(fd, zeros, wire_pad(n), MSG_NOSIGNAL);
}

static void put_name(struct pd_buf *b, const struct net_memory_name *name, uint8_t wrong,
                     struct pd_reader *r) {
    pd_put_u32(b, wrong & 1 ? pd_get_u32(r) : name->pid);
    pd_put_u32(b, wrong & 2 ? pd_get_u8(r) : name->fd);
    pd_put_u64(b, wrong & 4 ? pd_get_u32(r) : name->bytes);
    pd_put(b, name->secret, sizeof name->secret - (wrong & 8 ? 1 : 0));
    if (wrong & 16)
        b->data[b->len - 1] ^= 1;
}

static void peer_offers(int fd, const struct peer *peer, struct pd_reader *r) {
    struct pd_buf b;
    const uint8_t wrong = pd_get_u8(r);
    pd_buf_init(&b);
    put_name(&b, &peer->arena_name, wrong, r);
    if (wrong & 32)
        put_name(&b, net_region_name(peer->region), wrong & 64 ? pd_get_u8(r) : 0, r);
    peer_says(fd, WIRE_HS_SHARE, b.data, b.len);
    pd_buf_release(&b);
}

static void peer_sends_elsewhere(int fd, struct pd_reader *r) {
    uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY];
    size_t len[WIRE_SECTIONS] = {pd_get_u32(r) & 0xfffff, pd_get_u16(r)};
    const uint32_t at = pd_get_u32(r);
    struct wire_shared_place w = {.offset = at & 1 ? at : (uint64_t)at << 6, .turn = pd_get_u32(r)};
    if (at & 2) {
        w.lent = pd_get_u8(r);
        const uint32_t lent = pd_get_u32(r);
        w.lent_offset = lent & 1 ? lent : (uint64_t)lent << 6;
    }
    wire_header_shared(wire, WIRE_PS_REDUCE, 0, 1, 2, len, &w);
    (void)!send(fd, wire, sizeof wire, MSG_NOSIGNAL);
}

static void ours_sends(struct end *e, size_t n) {
    static const uint8_t bytes[65536];
    const struct net_sec sec = {bytes, n};
    (void)net_send(e->conn, WIRE_PS_REDUCE, 0, 1, &sec, 1, NULL, NULL);
}

static void on_released(void *arg) { ((struct end *)arg)->n_released++; }

static void ours_lends(struct end *e, size_t at, size_t n) {
    const struct net_sec sec[2] = {{e->lent, 100},
                                   {e->lent + at % LENT / WIRE_ALIGN * WIRE_ALIGN,
                                    n < LENT - at % LENT ? n : LENT - at % LENT}};
    e->n_lent++;
    (void)net_send(e->conn, WIRE_PS_REDUCE, 0, 1, sec, 2, on_released, e);
}

static void step(struct end *e, int fd, struct peer *peer, struct pd_reader *r) {
    uint32_t v;
    const uint8_t *p;
    size_t n;
    switch (pd_get_u8(r) % 9) {
    case 0:
        peer_offers(fd, peer, r);
        break;
    case 1:
        v = pd_get_u8(r);
        peer_says(fd, WIRE_HS_SHARED, &v, v & 0x80 ? 3 : 4);
        break;
    case 2:
        peer_sends_elsewhere(fd, r);
        break;
    case 3:
        n = pd_get_u8(r);
        if ((p = pd_get(r, n)))
            (void)!send(fd, p, n, MSG_NOSIGNAL);
        break;
    case 4:
        net_share(e->conn);
        break;
    case 5:
        ours_sends(e, pd_get_u16(r));
        break;
    case 6: /* of this end's rooms */
        net_arena_give_back(peer->arena, pd_get_u32(r));
        break;
    case 8:
        v = pd_get_u32(r);
        ours_lends(e, v, pd_get_u32(r) % LENT);
        break;
    default:
        drop_kept(e);
    }
}

FUZZ(in) {
    const uint8_t *data = in->p;
    const size_t size = fuzz_left(in);
    static const struct net_events events = {.on_frame = on_frame, .on_close = on_close};
    const struct net_opts opts = {.max_frame = FRAME_MAX, .share = 1, .in_place = 1 << 1};
    struct end e = {0};
    struct peer peer;
    struct pd_reader r;
    uv_loop_t loop;
    uv_tcp_t *tcp = malloc(sizeof *tcp);
    int fd[2];
    char seen[4096];
    connect_ends(fd);
    if (uv_loop_init(&loop) || uv_tcp_init(&loop, tcp) || uv_tcp_open(tcp, fd[1]) ||
        net_arena_new(&peer.arena, &peer.arena_name) ||
        net_region_new(&peer.region, LENT, NET_LENT_AT_ONCE) ||
        net_region_new(&e.region, LENT, size & 1 ? NET_LENT_AT_ONCE : NET_LENT_UNTIL_READ) ||
        !net_region_take(peer.region, LENT / 2) || !(e.lent = net_region_take(e.region, LENT)) ||
        net_conn_on_streams(&e.conn, (uv_stream_t *)tcp, (uv_stream_t *)tcp, &opts, &events, &e,
                            NULL))
        abort();
    net_lend(e.conn, e.region);
    for (int i = 0; i < 2; i++)
        uv_run(&loop, UV_RUN_NOWAIT); /* it is open */
    pd_reader_init(&r, data, size);
    while (e.conn && !r.failed && r.p < r.end) {
        step(&e, fd[0], &peer, &r);
        for (int i = 0; i < 2; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        while (recv(fd[0], seen, sizeof seen, MSG_DONTWAIT) > 0)
            ;
    }
    if (e.conn)
        net_close(e.conn);
    uv_run(&loop, UV_RUN_DEFAULT);
    close(fd[0]);
    drop_kept(&e); /* what is kept outlives the connection */
    net_arena_free(peer.arena);
    net_region_free(peer.region);
    net_region_free(e.region);
    if (uv_loop_close(&loop) || e.n_released != e.n_lent) /* each once, whatever the peer did */
        abort();
}
