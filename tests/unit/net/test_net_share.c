/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_share.c - frames whose sections go through shared memory, at both ends of a
 * connection. */
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "net/shm/arena.h"
#include "net/conn_internal.h"
#include "wire/msg.h"

/* --- a connection --- */

struct side {
    struct net_conn *conn;
    int opened, closed, frames, errors;
    uint64_t wire, bytes;
    struct wire_frame *kept[600];
    int keep, n_kept;
};

struct world {
    uv_loop_t loop;
    struct net_listener *listener;
    struct side a, s;
    unsigned in_place;
};

static void on_open(struct net_conn *c, void *arg) {
    struct side *x = arg;
    x->conn = c;
    x->opened++;
}

static void on_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    struct side *x = arg;
    (void)c;
    assert_int_equal(f->req, (uint64_t)x->frames);
    assert_int_equal(f->flags, 0);
    for (uint32_t i = 0; i < f->n_sec; i++)
        for (size_t k = 0; k < f->len[i]; k += k + 4097 < f->len[i] ? 4097 : f->len[i] - k)
            x->errors += f->sec[i][k] != (uint8_t)(f->req + i);
    x->frames++;
    x->bytes += f->total;
    if (x->keep && x->n_kept < x->keep)
        x->kept[x->n_kept++] = f;
    else
        wire_frame_free(f);
}

static void on_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    struct side *x = arg;
    (void)why;
    x->wire = net_received_bytes(c);
    x->closed++;
    x->conn = NULL;
}

static const struct net_events events = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close};

static void turn(struct world *w, const int *counter, int n) {
    for (int i = 0; *counter < n && i < 1000000; i++)
        uv_run(&w->loop, UV_RUN_ONCE);
    assert_true(*counter >= n);
}

static void start_in_place(struct world *w, int server_shares, unsigned in_place) {
    memset(w, 0, sizeof *w);
    w->in_place = in_place;
    uv_loop_init(&w->loop);
    struct wire_hs_opts hs = {.self = {WIRE_ROLE_PSERVER, 2, 5, "J"}, .key = {1}},
                        me = {.self = {WIRE_ROLE_TRAINER, 1, 6, "J"}, .key = {1}};
    struct net_opts o = {.max_frame = 64 << 20, .share = server_shares, .in_place = w->in_place};
    struct pd_err err = {0};
    assert_int_equal(net_listen_fd(&w->listener, &w->loop,
                                   net_bind_first_free("127.0.0.1", 0, 1, &(int){0}, NULL), &hs, &o,
                                   &events, &w->s, NULL),
                     0);
    o.share = 1;
    assert_int_equal(net_connect(&w->a.conn, &w->loop, "127.0.0.1", net_listener_port(w->listener),
                                 3000, &me, &o, &events, &w->a, &err),
                     0);
    turn(w, &w->a.opened, 1);
    turn(w, &w->s.opened, 1);
}

static void start(struct world *w, int server_shares) { start_in_place(w, server_shares, 0xf); }

static void finish(struct world *w) {
    if (w->a.conn)
        net_close(w->a.conn);
    net_listener_close(w->listener, NULL, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    for (int i = 0; i < w->s.n_kept; i++)
        wire_frame_free(w->s.kept[i]);
    for (int i = 0; i < w->a.n_kept; i++)
        wire_frame_free(w->a.kept[i]);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    assert_int_equal(w->s.errors + w->a.errors, 0);
}

static void agree(struct world *w, int shared) {
    net_share(w->a.conn);
    for (int i = 0;
         i < 1000 && !(net_share_sends(w->a.conn->share) && net_share_sends(w->s.conn->share)) &&
         (shared || w->a.conn->share);
         i++)
        uv_run(&w->loop, UV_RUN_ONCE);
    assert_int_equal(net_share_sends(w->a.conn->share), shared);
}

/* Sends n frames of two sections from `from`; at the end both sides have all of them. */
static uint64_t send_frames(struct world *w, struct side *from, struct side *to, int n,
                            size_t bytes) {
    uint8_t *p = malloc(2 * bytes);
    uint64_t sum = 0;
    for (int i = to->frames, last = i + n; i < last; i++) {
        memset(p, i, bytes);
        memset(p + bytes, i + 1, bytes);
        const size_t k = bytes - (size_t)i % 50;
        const struct net_sec sec[2] = {{p, k}, {p + bytes, bytes}};
        assert_int_equal(net_send(from->conn, WIRE_PS_REDUCE, 0, (uint64_t)i, sec, 2, NULL, NULL),
                         0);
        sum += k + bytes;
        memset(p, 0xee, 2 * bytes); /* the memory belongs to the sender again */
        if (i % 3 == 0)
            turn(w, &to->frames, i + 1);
    }
    turn(w, &to->frames, to->frames);
    for (int i = 0; i < 100000 && net_queued_bytes(from->conn); i++)
        uv_run(&w->loop, UV_RUN_ONCE);
    free(p);
    return sum;
}

static void large_frames_do_not_cross_the_socket(void **state) {
    (void)state;
    struct world w;
    start(&w, 1);
    agree(&w, 1);
    uint64_t sum = send_frames(&w, &w.a, &w.s, 200, 300000);
    turn(&w, &w.s.frames, 200);
    assert_true(net_received_bytes(w.s.conn) < 200 * 1000);
    assert_true(w.s.bytes >= sum);
    (void)send_frames(&w, &w.s, &w.a, 90, 100); /* small frames go through the socket */
    turn(&w, &w.a.frames, 90);
    (void)send_frames(&w, &w.s, &w.a, 50, 200000);
    turn(&w, &w.a.frames, 140);
    assert_true(net_received_bytes(w.a.conn) < 140 * 1000);
    finish(&w);
}

/* The receiver keeps frames: no room is left, and further frames go through the socket, in order.
 * Kept frames outlive the connection. */
static void frames_that_are_kept_stay(void **state) {
    (void)state;
    struct world w;
    start(&w, 1);
    agree(&w, 1);
    w.s.keep = 30; /* 600,000 bytes each: more than the arena has */
    (void)send_frames(&w, &w.a, &w.s, 60, 300000);
    turn(&w, &w.s.frames, 60);
    assert_int_equal(w.s.n_kept, 30);
    assert_true(net_received_bytes(w.s.conn) > 5 * 600000);
    net_close(w.a.conn);
    turn(&w, &w.s.closed, 1);
    for (int i = 0; i < w.s.n_kept; i++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(w.s.kept[i]->sec[k][w.s.kept[i]->len[k] - 1], (uint8_t)(i + k));
    finish(&w);
}

static void send_one(struct side *from, int i, size_t bytes) {
    uint8_t *p = malloc(bytes);
    memset(p, i, bytes);
    const struct net_sec sec = {p, bytes};
    assert_int_equal(net_send(from->conn, WIRE_PS_REDUCE, 0, (uint64_t)i, &sec, 1, NULL, NULL), 0);
    free(p);
}

static void count(void *arg) { ++*(int *)arg; }

/* A section in lent memory is read in place; until it has been read, it counts as lent. */
static void lent_sections_are_not_copied(void **state) {
    (void)state;
    enum { BYTES = 100000 };
    for (int at_once = 0; at_once < 2; at_once++) {
        struct world w;
        struct net_region *r;
        int released = 0, other = 0;
        assert_int_equal(
            net_region_new(&r, UINT64_C(1) << 32, at_once ? NET_LENT_AT_ONCE : NET_LENT_UNTIL_READ),
            0);
        start(&w, 1);
        net_lend(w.a.conn, r);
        agree(&w, 1);
        uint8_t *p = net_region_take(r, BYTES), *mine = malloc(BYTES);
        memset(p, 1, BYTES);
        memset(mine, 0, BYTES);
        const struct net_sec sec[2] = {{mine, 70}, {p, BYTES}}, elsewhere = {mine, BYTES};
        w.s.keep = 1;
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, 0, sec, 2, count, &released), 0);
        turn(&w, &w.s.frames, 1);
        assert_int_equal(released, at_once);
        assert_int_equal(w.s.kept[0]->len[1], BYTES);
        assert_int_equal((uintptr_t)w.s.kept[0]->sec[1] % 64, 0);
        p[BYTES - 1] = 77; /* both map the same memory */
        assert_int_equal(w.s.kept[0]->sec[1][BYTES - 1], 77);
        memset(mine, 1, BYTES);
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, 1, &elsewhere, 1, count, &other),
                         0); /* other sections are copied as usual */
        assert_int_equal(other, 1);
        turn(&w, &w.s.frames, 2);
        assert_int_equal(released, at_once);
        w.s.n_kept = 0;
        wire_frame_free(w.s.kept[0]);
        assert_int_equal(released, at_once);
        send_one(&w.s, 0, 100); /* any frame that arrives triggers the check */
        turn(&w, &w.a.frames, 1);
        assert_int_equal(released, 1);
        w.s.keep = 1;
        memset(p, 3, BYTES);
        memset(mine, 2, BYTES);
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, 2, sec, 2, count, &released), 0);
        turn(&w, &w.s.frames, 3);
        assert_int_equal(released, 1 + at_once);
        net_close(
            w.a.conn); /* the end of the connection ends the lending; received frames stay valid */
        turn(&w, &w.a.closed, 1);
        assert_int_equal(released, 2);
        turn(&w, &w.s.closed, 1);
        assert_true(w.s.wire < 5000);
        net_region_free(r);
        assert_int_equal(w.s.kept[0]->sec[1][BYTES - 1], 3);
        finish(&w);
        free(mine);
    }
}

/* Another mapping of each memory that this process shares, as a peer has it: all bytes behind the
 * head become 0xee. */
static void peer_writes_everywhere(void) {
    DIR *d = opendir("/proc/self/fd");
    char path[300], to[100];
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        const ssize_t k = readlink(path, to, sizeof to - 1);
        to[k > 0 ? k : 0] = 0;
        if (!strstr(to, "memfd:paddlectl-frames"))
            continue;
        struct stat st;
        const int fd = open(path, O_RDWR);
        assert_true(fd >= 0 && !fstat(fd, &st));
        uint8_t *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        memset(p + NET_MEMORY_DATA, 0xee, (size_t)st.st_size - NET_MEMORY_DATA);
        munmap(p, (size_t)st.st_size);
        close(fd);
        n++;
    }
    closedir(d);
    assert_true(n >= 2);
}

/* A peer changes sections after it has sent them, in its own memory and in lent memory: the
 * receiver has copies, except of the sections that are used in place. A frame of which all is
 * copied gives its room back at once. */
static void what_a_peer_changes_later_is_not_seen(void **state) {
    (void)state;
    enum { BYTES = 100032 };
    for (int lends = -1; lends < 4; lends++) {
        struct world w;
        struct net_region *r;
        assert_int_equal(net_region_new(&r, BYTES, NET_LENT_AT_ONCE), 0);
        start_in_place(&w, 1, 1 << 2);
        net_lend(w.a.conn, r);
        agree(&w, 1);
        uint8_t *lent = net_region_take(r, BYTES), *mine = malloc(4 * BYTES);
        struct net_sec sec[4];
        for (int i = 0; i < 4; i++) {
            sec[i] = (struct net_sec){i == lends ? lent : mine + i * BYTES, BYTES};
            memset(i == lends ? lent : mine + i * BYTES, i, BYTES);
        }
        w.s.keep = 600;
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, 0, sec, 4, NULL, NULL), 0);
        turn(&w, &w.s.frames, 1);
        peer_writes_everywhere();
        for (int i = 0; i < 4; i++)
            for (size_t k = 0; k < BYTES; k++)
                if (w.s.kept[0]->sec[i][k] != (i == 2 ? 0xee : i))
                    fail_msg("lends %d: section %d has %d at %zu", lends, i, w.s.kept[0]->sec[i][k],
                             k);
        wire_frame_free(w.s.kept[--w.s.n_kept]);
        for (int i = 1; i < 200; i++) { /* more than the memory has rooms for, and all are kept */
            memset(mine, i, BYTES);
            assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, (uint64_t)i,
                                      &(struct net_sec){mine, BYTES}, 1, NULL, NULL),
                             0);
            turn(&w, &w.s.frames, i + 1);
        }
        assert_true(net_received_bytes(w.s.conn) < 200 * 300);
        finish(&w);
        net_region_free(r);
        free(mine);
    }
}

static void a_region_gives_and_takes(void **state) {
    (void)state;
    struct net_region *r;
    uint64_t at;
    assert_int_equal(net_region_new(&r, 1000, NET_LENT_AT_ONCE), 0);
    uint8_t *a = net_region_take(r, 500), *b = net_region_take(r, 400);
    assert_true(a && b && a != b);
    assert_null(net_region_take(r, 400));
    assert_null(net_region_take(r, SIZE_MAX));
    assert_null(net_region_take(NULL, 1));
    net_region_put(r, a, 500);
    assert_null(net_region_take(r, 400)); /* only for the same number of bytes */
    assert_ptr_equal(net_region_take(r, 500), a);
    assert_int_equal(net_region_has(r, b, 400, &at), 1);
    assert_int_equal(at, 4096 + 512);
    assert_int_equal(net_region_has(r, b, 1000, &at), 0);
    assert_int_equal(net_region_has(r, b + 4, 4, &at), 0); /* sections begin at multiples of 64 */
    assert_int_equal(net_region_has(r, a - 64, 4, &at), 0);
    assert_int_equal(net_region_has(r, &at, 8, &at), 0);
    assert_int_equal(net_region_has(NULL, b, 4, &at), 0);
    net_region_free(r);
    assert_int_equal(net_region_new(&r, UINT64_MAX, NET_LENT_AT_ONCE), PD_ENOMEM);
}

/* Memory from a region is writable. When the kernel has no memory, the region gives NULL, and
 * earlier memory stays. */
static void a_region_that_gets_no_memory(void **state) {
    (void)state;
    enum { LARGE = 3 << 20 };
    struct net_region *r;
    struct stat st;
    for (int nth = 1; nth <= 3; nth++) { /* steps that can fail: create, map, reserve */
        char fault[40];
        snprintf(fault, sizeof fault, "net.arena:%d", nth);
        pd_fault_arm(fault);
        assert_int_not_equal(net_region_new(&r, 1000, NET_LENT_AT_ONCE), 0);
        pd_fault_arm(NULL);
    }
    assert_int_equal(net_region_new(&r, UINT64_C(1) << 37, NET_LENT_AT_ONCE),
                     0); /* only promised, no pages yet */
    uint8_t *a = net_region_take(r, 100);
    assert_non_null(a);
    pd_fault_arm("net.arena:1");
    assert_null(net_region_take(r, LARGE));
    pd_fault_arm("memory.room:1"); /* the machine has too little: no page is taken */
    assert_null(net_region_take(r, LARGE));
    pd_fault_arm(NULL);
    net_region_put(r, a, 100);
    pd_fault_arm("net.arena:1");
    assert_ptr_equal(net_region_take(r, 100), a);
    pd_fault_arm(NULL);
    uint8_t *b = net_region_take(r, LARGE);
    assert_non_null(b);
    assert_int_equal(fstat((int)net_region_name(r)->fd, &st), 0);
    assert_true(st.st_blocks * 512 >= LARGE && st.st_blocks * 512 <= 2 * LARGE);
    b[LARGE - 1] = 1;
    net_region_free(r);
}

/* If the peer cannot map the lent memory, or the sender has none, all frames go through the socket.
 */
static void what_is_lent_and_not_found_goes_through_the_socket(void **state) {
    (void)state;
    enum { BYTES = 100000 };
    for (int nth = 1; nth <= 9;
         nth++) { /* steps that can fail: create, map, reserve, open, twice, and the lent memory */
        struct world w;
        struct net_region *r;
        char fault[40];
        int released = 0;
        assert_int_equal(net_region_new(&r, BYTES, NET_LENT_UNTIL_READ), 0);
        start(&w, 1);
        net_lend(w.a.conn, r);
        uint8_t *p = net_region_take(r, BYTES);
        memset(p, 0, BYTES);
        const struct net_sec sec = {p, BYTES};
        snprintf(fault, sizeof fault, "net.arena:%d", nth);
        pd_fault_arm(fault);
        agree(&w, 0);
        pd_fault_arm(NULL);
        assert_int_equal(net_send(w.a.conn, WIRE_PS_REDUCE, 0, 0, &sec, 1, count, &released), 0);
        turn(&w, &w.s.frames, 1);
        turn(&w, &released, 1);
        assert_true(net_received_bytes(w.s.conn) > BYTES);
        finish(&w);
        assert_int_equal(released, 1);
        net_region_free(r);
    }
}

static void nothing_comes(struct world *w, int frames) {
    for (int i = 0; i < 50; i++)
        uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(w->s.frames, frames);
}

/* Held small frames and large frames in shared memory are sent together. A frame that must go
 * through the socket takes the waiting frames along. */
static void what_is_held_leaves_together(void **state) {
    (void)state;
    struct world w;
    start(&w, 1);
    assert_int_equal(net_is_shared(w.a.conn), 0);
    net_hold(w.a.conn, 1);
    send_one(&w.a, 0, 100);
    nothing_comes(&w, 0);
    send_one(&w.a, 1, 300000);
    turn(&w, &w.s.frames, 2);
    net_hold(w.a.conn, 0);
    agree(&w, 1);
    assert_int_equal(net_is_shared(w.a.conn), 1);
    net_hold(w.a.conn, 1);
    for (int i = 2; i < 8; i++)
        send_one(&w.a, i, i % 2 ? 300000 : 100);
    nothing_comes(&w, 2);
    net_hold(w.a.conn, 0);
    turn(&w, &w.s.frames, 8);
    send_one(&w.a, 8, 100);
    turn(&w, &w.s.frames, 9);
    net_hold(w.a.conn, 1);
    send_one(&w.a, 9, 100);
    net_close_after_flush(w.a.conn); /* nothing is lost */
    turn(&w, &w.s.closed, 1);
    assert_int_equal(w.s.frames, 10);
    turn(&w, &w.a.closed, 1);
    finish(&w);
}

/* An endpoint without sharing treats HS_SHARE like any frame; a peer that finds no memory reports
 * that. */
static void without_memory_all_goes_through_the_socket(void **state) {
    (void)state;
    /* steps that can fail: create, map, reserve, open, twice */
    for (int nth = 1; nth <= 8; nth++) {
        struct world w;
        char fault[40];
        start(&w, 1);
        snprintf(fault, sizeof fault, "net.arena:%d", nth);
        pd_fault_arm(fault);
        agree(&w, 0);
        pd_fault_arm(NULL);
        (void)send_frames(&w, &w.a, &w.s, 20, 300000);
        turn(&w, &w.s.frames, 20);
        assert_true(net_received_bytes(w.s.conn) > 20 * 500000);
        finish(&w);
    }
}

/* A connection ends when the peer names memory that does not exist. */
/* Sends bytes that are no correct frame, as a peer that has the key can. */
static void send_raw(struct net_conn *c, const uint8_t *p, size_t n) {
    uint8_t sealed[WIRE_HEADER + WIRE_SHARED_BODY + NET_RECORD_OVERHEAD];
    uv_buf_t b = uv_buf_init((char *)(uintptr_t)p, (unsigned)n);
    net_seal_put(c->seal, sealed, &b, n);
    b = uv_buf_init((char *)sealed, (unsigned)net_sealed_size(n));
    assert_int_equal(uv_try_write(c->out, &b, 1), (int)b.len);
}

static void lies_end_the_connection(void **state) {
    (void)state;
    static const struct {
        uint64_t offset;
        size_t bytes;
    } lies[] = {{0, 64}, {4100, 64}, {NET_ARENA_BYTES - 64, 128}, {UINT64_MAX - 63, 64}};
    for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
        struct world w;
        uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY];
        size_t len[WIRE_SECTIONS] = {lies[k].bytes};
        start(&w, 1);
        agree(&w, 1);
        wire_header_shared(wire, WIRE_PS_REDUCE, 0, 0, 1, len,
                           &(struct wire_shared_place){.offset = lies[k].offset, .turn = 1});
        send_raw(w.a.conn, wire, sizeof wire);
        turn(&w, &w.s.closed, 1);
        assert_int_equal(w.s.frames, 0);
        turn(&w, &w.a.closed, 1);
        finish(&w);
    }
    static const struct wire_shared_place wrong[] = {
        {4096, 1, 1, 0},       {4096, 1, 1, 4096 + 8},
        {4096, 1, 1, 1 << 20}, {4096, 1, 1, UINT64_MAX - 63},
        {4096, 1, 3, 4096},    {4096, 1, UINT32_MAX, 4096},
        {4096, 1, 1, 4096}}; /* the last: no memory is lent */
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        struct world w;
        struct net_region *r;
        uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY];
        size_t len[WIRE_SECTIONS] = {128, 128};
        assert_int_equal(net_region_new(&r, 100000, NET_LENT_AT_ONCE), 0);
        start(&w, 1);
        net_lend(w.a.conn, k + 1 < sizeof wrong / sizeof *wrong ? r : NULL);
        agree(&w, 1);
        wire_header_shared(wire, WIRE_PS_REDUCE, 0, 0, 2, len, &wrong[k]);
        send_raw(w.a.conn, wire, sizeof wire);
        turn(&w, &w.s.closed, 1);
        assert_int_equal(w.s.frames, 0);
        turn(&w, &w.a.closed, 1);
        finish(&w);
        net_region_free(r);
    }
    struct world w; /* before both agreed on memory, no frame may refer to it */
    uint8_t wire[WIRE_HEADER + WIRE_SHARED_BODY];
    size_t len[WIRE_SECTIONS] = {64};
    start(&w, 1);
    wire_header_shared(wire, WIRE_PS_REDUCE, 0, 0, 1, len,
                       &(struct wire_shared_place){.offset = 4096, .turn = 1});
    send_raw(w.a.conn, wire, sizeof wire);
    turn(&w, &w.s.closed, 1);
    turn(&w, &w.a.closed, 1);
    finish(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_frames_do_not_cross_the_socket),
        cmocka_unit_test(frames_that_are_kept_stay),
        cmocka_unit_test(what_is_held_leaves_together),
        cmocka_unit_test(without_memory_all_goes_through_the_socket),
        cmocka_unit_test(lent_sections_are_not_copied),
        cmocka_unit_test(what_a_peer_changes_later_is_not_seen),
        cmocka_unit_test(a_region_gives_and_takes),
        cmocka_unit_test(a_region_that_gets_no_memory),
        cmocka_unit_test(what_is_lent_and_not_found_goes_through_the_socket),
        cmocka_unit_test(lies_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
